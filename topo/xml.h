/* topo/xml.h - a small XML file as a tree of elements (GMarkup: no entities beyond XML's own). */
#pragma once
#include "topo/error.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct _XmlNode XmlNode;
struct _XmlNode {
  char *name;
  char **names;          /* of the attributes, strv */
  char **values;         /* strv */
  GString *text;         /* (nullable) character data */
  GPtrArray *children;   /* of XmlNode */
  const XmlNode *parent; /* (borrowed, nullable) */
  guint line;
};

/* Refuses nesting deeper than 128 and more than 10^6 elements. Returns: (owned) root element. */
XmlNode *xml_parse (const char *data, gsize length, GError **error);
void xml_node_free (XmlNode *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (XmlNode, xml_node_free)

const char *xml_get (const XmlNode *node, const char *attribute); /* (borrowed) or NULL */
/* Decimal or 0x number; FALSE (and *out untouched) when absent or not a number below 2^63. */
gboolean xml_get_count (const XmlNode *node, const char *attribute, guint64 *out);
G_END_DECLS
