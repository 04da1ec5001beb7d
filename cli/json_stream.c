/* cli/json_stream.c - brackets, commas and indents between values that json-glib prints. */
#include "cli/json_stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define INDENT 2 /* json-glib's default */

static void
print_indent (guint depth)
{
  printf ("%*s", (int)(INDENT * depth), "");
}

/* What comes before a value of the open object or array. */
static void
print_before (CliJsonStream *stream, const char *name)
{
  if (stream->depth == 0)
    return;
  puts (stream->levels[stream->depth - 1].has_values ? "," : "");
  stream->levels[stream->depth - 1].has_values = TRUE;
  print_indent (stream->depth);
  if (name != NULL)
    printf ("\"%s\" : ", name);
}

static void
begin (CliJsonStream *stream, const char *name, gboolean is_array)
{
  g_return_if_fail (stream->depth < CLI_JSON_DEPTH);
  print_before (stream, name);
  putchar (is_array ? '[' : '{');
  stream->levels[stream->depth].is_array = is_array;
  stream->levels[stream->depth].has_values = FALSE;
  stream->depth++;
}

void
cli_json_stream_begin_object (CliJsonStream *stream, const char *name)
{
  begin (stream, name, FALSE);
}

void
cli_json_stream_begin_array (CliJsonStream *stream, const char *name)
{
  begin (stream, name, TRUE);
}

/* Where an empty object at the end of @line closes, NULL if there is none: json-glib fills it with
 * the indent of its own line. A text ends in a quote. */
static const char *
empty_object (const char *line, gsize length)
{
  const char *end = line + length;

  if (end > line && end[-1] == ',')
    end--;
  if (end == line || end[-1] != '}')
    return NULL;
  for (const char *c = --end; c > line; c--)
    if (c[-1] == '{')
      return end;
    else if (c[-1] != ' ')
      return NULL;
  return NULL;
}

static void
append_indent (GString *out, guint depth)
{
  for (guint i = 0; i < INDENT * depth; i++)
    g_string_append_c (out, ' ');
}

static void
append_line (GString *out, guint depth, const char *line, gsize length)
{
  const char *filled = empty_object (line, length);
  gsize before = filled != NULL ? (gsize)(filled - line) : length;

  g_string_append_len (out, line, (gssize)before);
  if (filled != NULL)
    append_indent (out, depth);
  g_string_append_len (out, line + before, (gssize)(length - before));
}

/* @node as it stands at @depth. Line breaks stand between tokens only: within texts they are
 * escaped. Returns: (owned) */
static char *
value_text (JsonNode *node, guint depth)
{
  g_autofree char *text = json_to_string (node, TRUE);
  GString *out = g_string_sized_new (2 * strlen (text));
  const char *line = text;

  for (const char *end = strchr (line, '\n'); end != NULL; end = strchr (line, '\n')) {
    append_line (out, depth, line, (gsize)(end - line));
    g_string_append_c (out, '\n');
    append_indent (out, depth);
    line = end + 1;
  }
  append_line (out, depth, line, strlen (line));
  return g_string_free (out, FALSE);
}

static void
print_value (const CliJsonStream *stream, JsonNode *node)
{
  g_autofree char *text = value_text (node, stream->depth);

  fputs (text, stdout);
}

/* ---- many at once ---- */

#define BATCH 256 /* values in memory */

typedef struct {
  CliJsonMake make;
  const gpointer *items; /* (borrowed) */
  guint n, depth;
  char *texts[BATCH]; /* (owned) */
  atomic_uint next;
} Batch;

static gpointer
make_texts (gpointer data)
{
  Batch *batch = data;

  for (guint i = atomic_fetch_add (&batch->next, 1); i < batch->n;
       i = atomic_fetch_add (&batch->next, 1)) {
    g_autoptr (JsonBuilder) builder = json_builder_new ();
    g_autoptr (JsonNode) root = NULL;

    batch->make (builder, batch->items[i]);
    root = json_builder_get_root (builder);
    batch->texts[i] = value_text (root, batch->depth);
  }
  return NULL;
}

static void
print_batch (CliJsonStream *stream, Batch *batch, guint jobs)
{
  guint n_more = MIN (jobs, batch->n) - 1; /* beside this thread */
  g_autofree GThread **threads = g_new0 (GThread *, n_more + 1);

  for (guint i = 0; i < n_more; i++)
    threads[i] = g_thread_new ("plait-json", make_texts, batch);
  make_texts (batch);
  for (guint i = 0; i < n_more; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < batch->n; i++) {
    print_before (stream, NULL);
    fputs (batch->texts[i], stdout);
    g_free (batch->texts[i]);
  }
}

void
cli_json_stream_elements (CliJsonStream *stream, const GPtrArray *items, CliJsonMake make,
                          guint jobs)
{
  for (guint first = 0; first < items->len; first += BATCH) {
    Batch batch = { .make = make,
                    .items = items->pdata + first,
                    .n = MIN (BATCH, items->len - first),
                    .depth = stream->depth };

    print_batch (stream, &batch, MAX (jobs, 1));
  }
}

void
cli_json_stream_members (CliJsonStream *stream, JsonBuilder *builder)
{
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  JsonObject *object = json_node_get_object (root);
  g_autoptr (GList) names = json_object_get_members (object);

  for (const GList *name = names; name != NULL; name = name->next) {
    print_before (stream, name->data);
    print_value (stream, json_object_get_member (object, name->data));
  }
}

void
cli_json_stream_end (CliJsonStream *stream)
{
  g_return_if_fail (stream->depth > 0);
  stream->depth--;
  if (stream->levels[stream->depth].has_values) {
    putchar ('\n');
    print_indent (stream->depth);
  } else if (!stream->levels[stream->depth].is_array)
    print_indent (stream->depth); /* as json-glib has it */
  putchar (stream->levels[stream->depth].is_array ? ']' : '}');
  if (stream->depth == 0)
    putchar ('\n');
}
