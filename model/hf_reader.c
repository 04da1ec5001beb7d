/* model/hf_reader.c - typed reads of one JSON object, with messages that name file and key. */
#include "base/text.h"
#include "model/json-private.h"

void
hf_fail (HfReader *reader, ModelError code, const char *key, const char *format, ...)
{
  if (reader->error != NULL)
    return;
  va_list values;
  va_start (values, format);
  g_autofree char *text = g_strdup_vprintf (format, values);
  va_end (values);
  g_set_error (&reader->error, MODEL_ERROR, code, "%s: %s%s: %s", reader->name, reader->prefix, key,
               text);
}

static void
fail_value (HfReader *reader, const char *key, JsonNode *node, const char *expected)
{
  g_autofree char *json = json_to_string (node, FALSE);
  g_autofree char *found = base_text_excerpt (json, -1);
  hf_fail (reader, MODEL_ERROR_BAD_VALUE, key, "found %s, expected %s", found, expected);
}

/* Node of @key, NULL if absent or null. */
static JsonNode *
get (const HfReader *reader, const char *key)
{
  JsonNode *node = json_object_get_member (reader->object, key);
  return node == NULL || JSON_NODE_HOLDS_NULL (node) ? NULL : node;
}

/* The first of @keys that is there; a second one must agree. *out_key is its name. */
static JsonNode *
find (HfReader *reader, const char *const *keys, const char **out_key)
{
  JsonNode *found = NULL;
  *out_key = keys[0];
  if (reader->error != NULL)
    return NULL;
  for (guint i = 0; keys[i] != NULL; i++) {
    JsonNode *node = get (reader, keys[i]);
    if (node == NULL)
      continue;
    if (found == NULL) {
      found = node;
      *out_key = keys[i];
    } else if (!json_node_equal (found, node)) {
      g_autofree char *json = json_to_string (found, FALSE);
      g_autofree char *first = base_text_excerpt (json, -1);
      g_autofree char *expected = g_strdup_printf ("%s as in %s", first, *out_key);
      fail_value (reader, keys[i], node, expected);
      return NULL;
    }
  }
  return found;
}

gboolean
hf_has (HfReader *reader, const char *const *keys)
{
  const char *key;
  return find (reader, keys, &key) != NULL;
}

gboolean
hf_is_null (const HfReader *reader, const char *key)
{
  JsonNode *node = json_object_get_member (reader->object, key);
  return node != NULL && JSON_NODE_HOLDS_NULL (node);
}

static guint64
count_of (HfReader *reader, const char *key, JsonNode *node, guint64 min, guint64 max)
{
  if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64) {
    gint64 value = json_node_get_int (node);
    if (value >= 0 && (guint64)value >= min && (guint64)value <= max)
      return (guint64)value;
  }
  g_autofree char *expected
      = g_strdup_printf ("a whole number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, min,
                         max);
  fail_value (reader, key, node, expected);
  return 0;
}

guint64
hf_count (HfReader *reader, const char *const *keys, guint64 min, guint64 max)
{
  const char *key;
  JsonNode *node = find (reader, keys, &key);
  if (node != NULL)
    return count_of (reader, key, node, min, max);
  hf_fail (reader, MODEL_ERROR_PARSE, key,
           "found nothing, expected a whole number from %" G_GUINT64_FORMAT
           " to %" G_GUINT64_FORMAT,
           min, max);
  return 0;
}

guint64
hf_count_quiet (HfReader *reader, const char *const *keys, guint64 min, guint64 max,
                guint64 fallback)
{
  const char *key;
  JsonNode *node = find (reader, keys, &key);
  return node != NULL ? count_of (reader, key, node, min, max) : fallback;
}

static void
assume (HfReader *reader, const char *key, const char *value, const char *why)
{
  if (reader->error == NULL)
    g_ptr_array_add (reader->arch->assumed, g_strdup_printf ("%s=%s: %s", key, value, why));
}

guint64
hf_count_or (HfReader *reader, const char *const *keys, guint64 min, guint64 max, guint64 fallback,
             const char *why)
{
  if (!hf_has (reader, keys)) {
    g_autofree char *value = g_strdup_printf ("%" G_GUINT64_FORMAT, fallback);
    assume (reader, keys[0], value, why);
    return fallback;
  }
  return hf_count_quiet (reader, keys, min, max, fallback);
}

gboolean
hf_bool (HfReader *reader, const char *key, gboolean fallback)
{
  JsonNode *node = reader->error == NULL ? get (reader, key) : NULL;
  if (node == NULL)
    return fallback;
  if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_BOOLEAN)
    return json_node_get_boolean (node);
  fail_value (reader, key, node, "true or false");
  return fallback;
}

gboolean
hf_bool_or (HfReader *reader, const char *key, gboolean fallback, const char *why)
{
  if (reader->error == NULL && get (reader, key) == NULL)
    assume (reader, key, fallback ? "yes" : "no", why);
  return hf_bool (reader, key, fallback);
}

double
hf_ratio (HfReader *reader, const char *key, double fallback)
{
  JsonNode *node = reader->error == NULL ? get (reader, key) : NULL;
  if (node == NULL)
    return fallback;
  GType type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
  if (type == G_TYPE_INT64 || type == G_TYPE_DOUBLE) {
    double value = json_node_get_double (node);
    if (value >= 0 && value <= 1)
      return value;
  }
  fail_value (reader, key, node, "a number from 0 to 1");
  return fallback;
}

double
hf_ratio_or (HfReader *reader, const char *key, double fallback, const char *why)
{
  if (reader->error == NULL && get (reader, key) == NULL) {
    char value[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd (value, sizeof value, "%g", fallback);
    assume (reader, key, value, why);
  }
  return hf_ratio (reader, key, fallback);
}

const char *
hf_string (HfReader *reader, const char *key)
{
  JsonNode *node = reader->error == NULL ? get (reader, key) : NULL;
  if (node == NULL)
    return NULL;
  if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING)
    return json_node_get_string (node);
  fail_value (reader, key, node, "a text");
  return NULL;
}

JsonArray *
hf_array (HfReader *reader, const char *key)
{
  JsonNode *node = reader->error == NULL ? get (reader, key) : NULL;
  if (node == NULL)
    return NULL;
  if (JSON_NODE_HOLDS_ARRAY (node))
    return json_node_get_array (node);
  fail_value (reader, key, node, "a list");
  return NULL;
}

JsonObject *
hf_object (HfReader *reader, const char *key)
{
  JsonNode *node = reader->error == NULL ? get (reader, key) : NULL;
  if (node == NULL)
    return NULL;
  if (JSON_NODE_HOLDS_OBJECT (node))
    return json_node_get_object (node);
  fail_value (reader, key, node, "an object");
  return NULL;
}
