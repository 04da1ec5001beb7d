/* base/units_list.c - "64,128..4096": lists with ranges that double. */
#include "base/units.h"

#include "base/text.h"

#include <string.h>

/* More than any sweep needs; keeps a list typed by accident from filling the memory. */
#define LIST_MAX_ITEMS 4096

/* How one item is read. */
typedef struct {
  gboolean is_bytes;
  guint64 min, max;
} ItemKind;

typedef struct {
  GArray *values;   /* guint64 */
  GHashTable *seen; /* the same values, as a set of pointers into @copies */
  const char *text; /* the whole list, for messages */
} List;

static gboolean
parse_item (const char *text, const ItemKind *kind, guint64 *out, GError **error)
{
  if (kind->is_bytes)
    return base_units_parse_bytes (text, out, error);
  return base_units_parse_count (text, kind->min, kind->max, out, error);
}

static gboolean
append_value (List *list, guint64 value, GError **error)
{
  g_autofree char *shown = NULL;
  if (list->values->len >= LIST_MAX_ITEMS) {
    shown = base_text_excerpt (list->text, -1);
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_RANGE, "'%s' has more than %d items",
                 shown, LIST_MAX_ITEMS);
    return FALSE;
  }
  guint64 *key = g_memdup2 (&value, sizeof value);
  if (!g_hash_table_add (list->seen, key)) {
    shown = base_text_excerpt (list->text, -1);
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_SYNTAX,
                 "'%s' names %" G_GUINT64_FORMAT " twice: expected every value once", shown, value);
    return FALSE;
  }
  g_array_append_val (list->values, value);
  return TRUE;
}

/* @text is "a..b" with @dots at the first dot. */
static gboolean
append_range (List *list, const char *text, const char *dots, const ItemKind *kind, GError **error)
{
  g_autofree char *first_text = g_strndup (text, (gsize)(dots - text));
  guint64 first, last;
  if (!parse_item (first_text, kind, &first, error) || !parse_item (dots + 2, kind, &last, error))
    return FALSE;

  if (first == 0 || first > last) {
    g_autofree char *shown = base_text_excerpt (text, -1);
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_RANGE,
                 "'%s' is an empty range: expected FIRST..LAST with 0 < FIRST <= LAST, it doubles "
                 "from FIRST",
                 shown);
    return FALSE;
  }
  for (guint64 value = first;; value *= 2) {
    if (!append_value (list, value, error))
      return FALSE;
    if (value > last / 2)
      return TRUE;
  }
}

static gboolean
append_item (List *list, const char *item, const ItemKind *kind, GError **error)
{
  if (*item == '\0') {
    g_autofree char *shown = base_text_excerpt (list->text, -1);
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_SYNTAX,
                 "'%s' has an empty item: expected values with one comma between them", shown);
    return FALSE;
  }
  const char *dots = strstr (item, "..");
  if (dots != NULL)
    return append_range (list, item, dots, kind, error);

  guint64 value;
  return parse_item (item, kind, &value, error) && append_value (list, value, error);
}

static GArray *
parse_list (const char *text, const ItemKind *kind, GError **error)
{
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  List list = { .values = values, .seen = seen, .text = text };

  g_auto (GStrv) items = g_strsplit (*text == '\0' ? " " : text, ",", LIST_MAX_ITEMS + 1);
  for (char **item = items; *item != NULL; item++) {
    if (!append_item (&list, g_strstrip (*item), kind, error))
      return NULL;
  }
  return g_steal_pointer (&values);
}

GArray *
base_units_parse_count_list (const char *text, guint64 min, guint64 max, GError **error)
{
  g_return_val_if_fail (text != NULL, NULL);
  return parse_list (text, &(ItemKind){ .min = min, .max = max }, error);
}

GArray *
base_units_parse_bytes_list (const char *text, GError **error)
{
  g_return_val_if_fail (text != NULL, NULL);
  return parse_list (text, &(ItemKind){ .is_bytes = TRUE }, error);
}
