/* topo/read_nvbandwidth.c - nvbandwidth -j: copies between GPUs and with the host.
 *
 * {"nvbandwidth": {"testcases": [{"name", "status", "bandwidth_description", "bandwidth_matrix"}]}}
 * with cells as strings, GB/s = 1e9 bytes per second, or nanoseconds in latency tests. The
 * description says what rows and columns are and which way the data goes.
 */
#include "topo/json-private.h"
#include <math.h>
#include <string.h>

/* "GPU(row) <- GPU(column)": what a test's rows and columns are. */
typedef struct {
  gboolean row_is_host, column_is_host, to_row, is_latency;
} Sense;

static Sense
sense_of (const char *description)
{
  const char *row = strstr (description, "(row)");
  Sense sense = { 0 };
  sense.row_is_host = row != NULL && row - description >= 3 && strncmp (row - 3, "CPU", 3) == 0;
  sense.column_is_host = strstr (description, "CPU(column)") != NULL;
  sense.to_row = strstr (description, "<-") != NULL;
  sense.is_latency = strstr (description, "(ns)") != NULL;
  return sense;
}

static void
add_cell (TopoReading *reading, const char *name, const Sense *sense, guint row, guint column,
          double value)
{
  TopoMeasurement m = { .time_s = NAN, .algbw_bytes_per_s = NAN, .busbw_bytes_per_s = NAN };
  gint32 r = sense->row_is_host ? TOPO_MEASUREMENT_HOST : (gint32)row;
  gint32 c = sense->column_is_host ? TOPO_MEASUREMENT_HOST : (gint32)column;
  g_strlcpy (m.what, name, sizeof m.what);
  m.from = sense->to_row ? c : r;
  m.to = sense->to_row ? r : c;
  if (sense->is_latency)
    m.time_s = value * 1e-9;
  else
    m.busbw_bytes_per_s = value * 1e9;
  g_array_append_val (reading->measurements, m);
}

static void
read_matrix (TopoReading *reading, const char *name, const Sense *sense, JsonArray *rows)
{
  for (guint r = 0; r < json_array_get_length (rows); r++) {
    JsonNode *row = json_array_get_element (rows, r);
    JsonArray *cells = JSON_NODE_HOLDS_ARRAY (row) ? json_node_get_array (row) : NULL;
    for (guint c = 0; cells != NULL && c < json_array_get_length (cells); c++) {
      double value = json_number_of (json_array_get_element (cells, c));
      if (value > 0 && value < 1e9)
        add_cell (reading, name, sense, r, c, value);
    }
  }
}

static void
read_test (TopoReading *reading, JsonObject *test)
{
  const char *name = json_text_of (test, "name"), *status = json_text_of (test, "status");
  const char *description = json_text_of (test, "bandwidth_description");
  JsonArray *rows = json_array_of (test, "bandwidth_matrix");
  g_autofree char *clean = name != NULL ? base_text_excerpt (name, -1) : NULL;
  if (name == NULL)
    return;
  if (status != NULL && strcmp (status, "Passed") != 0) {
    g_autofree char *why = base_text_excerpt (status, -1);
    reading_note (reading, "%s: %s", clean, why);
    return;
  }
  if (rows == NULL || description == NULL)
    return;
  Sense sense = sense_of (description);
  read_matrix (reading, clean, &sense, rows);
}

gboolean
read_nvbandwidth_json (const char *data, gsize length, TopoReading *reading, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = json_root_object (parser, data, length, error);
  JsonObject *top = root != NULL ? json_object_of (root, "nvbandwidth") : NULL;
  JsonArray *tests = top != NULL ? json_array_of (top, "testcases") : NULL;
  if (root == NULL)
    return FALSE;
  for (guint i = 0; tests != NULL && i < json_array_get_length (tests); i++) {
    JsonNode *test = json_array_get_element (tests, i);
    if (JSON_NODE_HOLDS_OBJECT (test))
      read_test (reading, json_node_get_object (test));
  }
  if (reading->measurements->len > 0)
    return TRUE;
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
               "nvbandwidth output without a measured cell: no test passed");
  return FALSE;
}
