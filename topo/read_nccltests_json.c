/* topo/read_nccltests_json.c - nccl-tests -J, version 3: sizes, times and bandwidths.
 *
 * Read: args (for the collective's name), config.devices (how many, their numbers and names), results. The env array
 * holds the whole environment of whoever ran it and is never looked at.
 */
#include "topo/json-private.h"
#include "topo/nccltests-private.h"
#include <math.h>
#include <string.h>

static void
add_side (TopoReading *reading, JsonObject *result, const char *side, const char *what,
          guint32 ranks)
{
  JsonObject *numbers = json_object_of (result, side);
  double size = json_number_in (result, "size");
  if (numbers == NULL || !(size >= 0) || size > 9e18)
    return;
  double time_us = json_number_in (numbers, "time");
  if (isnan (time_us))
    time_us = json_number_in (numbers, "cpu_time");
  nccltests_add (reading, what, ranks, (guint64)size, time_us, json_number_in (numbers, "alg_bw"),
                 json_number_in (numbers, "bus_bw"), strcmp (side, "in_place") == 0);
}

static char *
collective_of (JsonObject *root)
{
  JsonArray *args = json_array_of (root, "args");
  JsonNode *first
      = args != NULL && json_array_get_length (args) > 0 ? json_array_get_element (args, 0) : NULL;
  if (first == NULL || !JSON_NODE_HOLDS_VALUE (first)
      || json_node_get_value_type (first) != G_TYPE_STRING)
    return NULL;
  const char *text = json_node_get_string (first);
  return nccltests_collective (text, strlen (text));
}

static void
add_devices (TopoReading *reading, JsonArray *devices)
{
  for (guint i = 0; devices != NULL && i < json_array_get_length (devices); i++) {
    JsonNode *device = json_array_get_element (devices, i);
    if (JSON_NODE_HOLDS_OBJECT (device))
      nccltests_add_device (reading, json_number_in (json_node_get_object (device), "device"),
                            json_text_of (json_node_get_object (device), "device_info"));
  }
}

gboolean
read_nccl_tests_json (const char *data, gsize length, TopoReading *reading, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = json_root_object (parser, data, length, error);
  if (root == NULL)
    return FALSE;
  JsonArray *results = json_array_of (root, "results");
  JsonObject *config = json_object_of (root, "config");
  JsonArray *devices = config != NULL ? json_array_of (config, "devices") : NULL;
  g_autofree char *named = collective_of (root);
  g_autofree char *what = named != NULL
                              ? g_strdup (named)
                              : nccltests_collective (reading->name, strlen (reading->name));
  double version = json_number_in (root, "version");
  add_devices (reading, devices);
  if (!isnan (version) && version != 3)
    reading_note (reading, "JSON version %g, read as version 3", version);
  for (guint i = 0; results != NULL && i < json_array_get_length (results); i++) {
    JsonNode *result = json_array_get_element (results, i);
    if (!JSON_NODE_HOLDS_OBJECT (result))
      continue;
    guint32 ranks = devices != NULL ? json_array_get_length (devices) : 0;
    add_side (reading, json_node_get_object (result), "out_of_place", what, ranks);
    add_side (reading, json_node_get_object (result), "in_place", what, ranks);
  }
  return nccltests_finish (reading, error);
}
