/* topo/json.c - typed access to foreign JSON. */
#include "topo/json-private.h"
#include <math.h>
#include <string.h>

JsonObject *
json_root_object (JsonParser *parser, const char *data, gsize length, GError **error)
{
  g_autoptr (GError) parse_error = NULL;
  gsize bom = base_text_bom_length (data, length);
  if (!g_utf8_validate (data, (gssize)length, NULL)) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "not JSON: invalid UTF-8");
    return NULL;
  }
  if (!json_parser_load_from_data (parser, data + bom, (gssize)(length - bom), &parse_error)) {
    g_autofree char *clean = base_text_excerpt (parse_error->message, -1);
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "not JSON, or cut off: %s", clean);
    return NULL;
  }
  JsonNode *root = json_parser_get_root (parser);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return json_node_get_object (root);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "JSON whose root is no object");
  return NULL;
}

JsonObject *
json_object_of (JsonObject *object, const char *member)
{
  JsonNode *node = json_object_get_member (object, member);
  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

JsonArray *
json_array_of (JsonObject *object, const char *member)
{
  JsonNode *node = json_object_get_member (object, member);
  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

const char *
json_text_of (JsonObject *object, const char *member)
{
  JsonNode *node = json_object_get_member (object, member);
  return node != NULL && JSON_NODE_HOLDS_VALUE (node)
                 && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

double
json_number_of (JsonNode *node)
{
  double value = NAN;
  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node))
    return NAN;
  GType type = json_node_get_value_type (node);
  if (type == G_TYPE_INT64 || type == G_TYPE_DOUBLE)
    return json_node_get_double (node);
  if (type != G_TYPE_STRING)
    return NAN;
  const char *rest = base_text_scan_decimal (json_node_get_string (node), &value);
  return rest != NULL && *rest == '\0' ? value : NAN;
}

double
json_number_in (JsonObject *object, const char *member)
{
  return json_number_of (json_object_get_member (object, member));
}
