/* topo/xml.c - GMarkup events to a tree. */
#include "topo/xml.h"
#include "base/text.h"
#include <string.h>

#define MAX_DEPTH    128
#define MAX_ELEMENTS 1000000

typedef struct {
  XmlNode *root;
  XmlNode *open; /* innermost open element */
  guint depth, elements;
} Builder;

void
xml_node_free (XmlNode *node)
{
  if (node == NULL)
    return;
  g_free (node->name);
  g_strfreev (node->names);
  g_strfreev (node->values);
  if (node->text != NULL)
    g_string_free (node->text, TRUE);
  g_ptr_array_unref (node->children);
  g_free (node);
}

static void
on_start (GMarkupParseContext *context, const char *name, const char **names, const char **values,
          gpointer data, GError **error)
{
  Builder *builder = data;
  gint line = 0;
  if (++builder->depth > MAX_DEPTH || ++builder->elements > MAX_ELEMENTS) {
    g_set_error (error, G_MARKUP_ERROR, G_MARKUP_ERROR_INVALID_CONTENT,
                 "more than %d levels or %d elements", MAX_DEPTH, MAX_ELEMENTS);
    return;
  }
  if (builder->open == NULL && builder->root != NULL) {
    g_set_error (error, G_MARKUP_ERROR, G_MARKUP_ERROR_INVALID_CONTENT,
                 "a second root element '%s'", name);
    return;
  }
  XmlNode *node = g_new0 (XmlNode, 1);
  g_markup_parse_context_get_position (context, &line, NULL);
  node->name = g_strdup (name);
  node->names = g_strdupv ((char **)names);
  node->values = g_strdupv ((char **)values);
  node->children = g_ptr_array_new_with_free_func ((GDestroyNotify)xml_node_free);
  node->parent = builder->open;
  node->line = (guint)MAX (line, 0);
  if (builder->open != NULL)
    g_ptr_array_add (builder->open->children, node);
  else
    builder->root = node;
  builder->open = node;
}

static void
on_end (GMarkupParseContext *context, const char *name, gpointer data, GError **error)
{
  Builder *builder = data;
  builder->depth--;
  builder->open = (XmlNode *)builder->open->parent;
}

static void
on_text (GMarkupParseContext *context, const char *text, gsize length, gpointer data,
         GError **error)
{
  Builder *builder = data;
  if (builder->open == NULL)
    return;
  if (builder->open->text == NULL)
    builder->open->text = g_string_new (NULL);
  g_string_append_len (builder->open->text, text, (gssize)length);
}

XmlNode *
xml_parse (const char *data, gsize length, GError **error)
{
  static const GMarkupParser parser = { on_start, on_end, on_text, NULL, NULL };
  Builder builder = { 0 };
  g_autoptr (GError) parse_error = NULL;
  gsize bom = base_text_bom_length (data, length);
  GMarkupParseContext *context = g_markup_parse_context_new (&parser, 0, &builder, NULL);
  gboolean ok
      = g_markup_parse_context_parse (context, data + bom, (gssize)(length - bom), &parse_error)
        && g_markup_parse_context_end_parse (context, &parse_error);
  g_markup_parse_context_free (context);
  if (ok)
    return builder.root;
  xml_node_free (builder.root);
  g_autofree char *clean = g_utf8_make_valid (parse_error->message, -1);
  for (char *c = clean; *c != '\0'; c++)
    if ((guchar)*c < ' ')
      *c = ' ';
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "not well-formed XML (%s)", clean);
  return NULL;
}

const char *
xml_get (const XmlNode *node, const char *attribute)
{
  for (guint i = 0; node->names[i] != NULL; i++)
    if (strcmp (node->names[i], attribute) == 0)
      return node->values[i];
  return NULL;
}

gboolean
xml_get_count (const XmlNode *node, const char *attribute, guint64 *out)
{
  const char *text = xml_get (node, attribute);
  guint64 value = 0;
  if (text == NULL)
    return FALSE;
  gboolean hex = g_str_has_prefix (text, "0x");
  if (!g_ascii_string_to_unsigned (hex ? text + 2 : text, hex ? 16 : 10, 0, G_MAXINT64, &value,
                                   NULL))
    return FALSE;
  *out = value;
  return TRUE;
}
