/* cli/json_stream.c - brackets, commas and indents between values that json-glib prints. */
#include "cli/json_stream.h"

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
print_line (const CliJsonStream *stream, const char *line, gsize length)
{
  const char *filled = empty_object (line, length);
  gsize before = filled != NULL ? (gsize)(filled - line) : length;

  fwrite (line, 1, before, stdout);
  if (filled != NULL)
    print_indent (stream->depth);
  fwrite (line + before, 1, length - before, stdout);
}

/* Line breaks stand between tokens only: within texts they are escaped. */
static void
print_value (const CliJsonStream *stream, JsonNode *node)
{
  g_autofree char *text = json_to_string (node, TRUE);
  const char *line = text;

  for (const char *end = strchr (line, '\n'); end != NULL; end = strchr (line, '\n')) {
    print_line (stream, line, (gsize)(end - line));
    putchar ('\n');
    print_indent (stream->depth);
    line = end + 1;
  }
  print_line (stream, line, strlen (line));
}

void
cli_json_stream_element (CliJsonStream *stream, JsonBuilder *builder)
{
  g_autoptr (JsonNode) root = json_builder_get_root (builder);

  print_before (stream, NULL);
  print_value (stream, root);
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
