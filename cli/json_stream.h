/* cli/json_stream.h - JSON of any length on stdout, a few values in memory at a time.
 *
 * Written as json-glib writes it, pretty: a document made in pieces is the same to the letter.
 */
#pragma once
#include <json-glib/json-glib.h>
G_BEGIN_DECLS

#define CLI_JSON_DEPTH 8

typedef struct {
  guint depth; /* open objects and arrays */
  struct {
    gboolean is_array, has_values;
  } levels[CLI_JSON_DEPTH];
} CliJsonStream;

/* Start a value: the document, an element of the open array, or the member @name of the open
 * object (NULL elsewhere). */
void cli_json_stream_begin_object (CliJsonStream *stream, const char *name);
void cli_json_stream_begin_array (CliJsonStream *stream, const char *name);
/* Elements of the open array, one for each of @items: what @make builds of it, on @jobs threads at
 * once. */
typedef void (*CliJsonMake) (JsonBuilder *builder, gconstpointer item);
void cli_json_stream_elements (CliJsonStream *stream, const GPtrArray *items, CliJsonMake make,
                               guint jobs);
/* Members of the open object: those of the object that @builder has made. */
void cli_json_stream_members (CliJsonStream *stream, JsonBuilder *builder);
/* Closes what was opened last; with the document itself the line ends. */
void cli_json_stream_end (CliJsonStream *stream);
G_END_DECLS
