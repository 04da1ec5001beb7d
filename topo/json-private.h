/* topo/json-private.h - looking into JSON that others wrote: wrong types are absent. */
#pragma once
#include "base/text.h"
#include "topo/reading-private.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS
/* Root object of @data, owned by @parser. */
JsonObject *json_root_object (JsonParser *parser, const char *data, gsize length, GError **error);
JsonObject *json_object_of (JsonObject *object, const char *member); /* (borrowed) or NULL */
JsonArray *json_array_of (JsonObject *object, const char *member);   /* (borrowed) or NULL */
const char *json_text_of (JsonObject *object, const char *member);   /* (borrowed) or NULL */
/* A number, or a string that is one; NaN otherwise. */
double json_number_of (JsonNode *node);
double json_number_in (JsonObject *object, const char *member);
G_END_DECLS
