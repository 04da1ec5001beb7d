/* base/ini.c - what an INI file holds, who asked for it, and what is wrong with it. The typed
 * getters are in ini_get.c. */
#include "base/ini-private.h"

#include "base/suggest.h"
#include "base/text.h"

#include <string.h>

G_DEFINE_QUARK (base_ini_error_quark, base_ini_error)

const char *
base_ini_name (const BaseIni *ini)
{
  return ini->name;
}

guint
base_ini_n_groups (const BaseIni *ini)
{
  return ini->groups->len;
}

const char *
base_ini_group_name (const BaseIni *ini, guint index)
{
  g_return_val_if_fail (index < ini->groups->len, NULL);
  const IniGroup *group = g_ptr_array_index (ini->groups, index);
  return group->name;
}

IniGroup *
base_ini_find_group (const BaseIni *ini, const char *group)
{
  return g_hash_table_lookup (ini->by_name, group);
}

IniKey *
base_ini_find_key (const BaseIni *ini, const char *group, const char *key)
{
  const IniGroup *found = base_ini_find_group (ini, group);
  return found != NULL ? g_hash_table_lookup (found->by_name, key) : NULL;
}

void
base_ini_asked_free (gpointer data)
{
  IniAsked *asked = data;
  g_hash_table_unref (asked->seen);
  g_ptr_array_unref (asked->names);
  g_free (asked);
}

void
base_ini_note_asked (const BaseIni *ini, const char *group, const char *key)
{
  IniAsked *asked = g_hash_table_lookup (ini->asked, group);
  if (asked == NULL) {
    asked = g_new0 (IniAsked, 1);
    asked->names = g_ptr_array_new_with_free_func (g_free);
    asked->seen = g_hash_table_new (g_str_hash, g_str_equal);
    g_hash_table_insert (ini->asked, g_strdup (group), asked);
  }
  if (key != NULL && !g_hash_table_contains (asked->seen, key)) {
    char *name = g_strdup (key);
    g_ptr_array_add (asked->names, name);
    g_hash_table_add (asked->seen, name);
  }
}

gboolean
base_ini_has_group (const BaseIni *ini, const char *group)
{
  base_ini_note_asked (ini, group, NULL);
  return base_ini_find_group (ini, group) != NULL;
}

gboolean
base_ini_has_key (const BaseIni *ini, const char *group, const char *key)
{
  base_ini_note_asked (ini, group, key);
  return base_ini_find_key (ini, group, key) != NULL;
}

const char **
base_ini_keys (const BaseIni *ini, const char *group)
{
  const IniGroup *found = base_ini_find_group (ini, group);
  guint n = found != NULL ? found->keys->len : 0;
  const char **names = g_new0 (const char *, n + 1);
  for (guint i = 0; i < n; i++) {
    const IniKey *key = g_ptr_array_index (found->keys, i);
    names[i] = key->name;
  }
  return names;
}

guint
base_ini_line (const BaseIni *ini, const char *group, const char *key)
{
  if (key == NULL) {
    const IniGroup *found = base_ini_find_group (ini, group);
    return found != NULL ? found->line : 0;
  }
  const IniKey *found = base_ini_find_key (ini, group, key);
  return found != NULL ? found->line : 0;
}

/* "FILE:LINE: [group] key: ", as far as each part exists. Returns: (owned). */
static char *
describe_place (const BaseIni *ini, const char *group, const char *key)
{
  GString *place = g_string_new (ini->name);
  guint line = group != NULL && key != NULL ? base_ini_line (ini, group, key) : 0;
  if (line == 0 && group != NULL)
    line = base_ini_line (ini, group, NULL);
  if (line > 0)
    g_string_append_printf (place, ":%u", line);
  g_string_append (place, ": ");
  if (group != NULL) {
    g_autofree char *shown_group = base_text_excerpt (group, -1);
    g_autofree char *shown_key = base_text_excerpt (key != NULL ? key : "", -1);
    g_string_append_printf (place, "[%s]%s%s: ", shown_group, key != NULL ? " " : "", shown_key);
  }
  return g_string_free (place, FALSE);
}

static void set_error_va (const BaseIni *ini, BaseIniError code, const char *group, const char *key,
                          GError **error, const char *format, va_list args) G_GNUC_PRINTF (6, 0);

static void
set_error_va (const BaseIni *ini, BaseIniError code, const char *group, const char *key,
              GError **error, const char *format, va_list args)
{
  g_autofree char *place = describe_place (ini, group, key);
  g_autofree char *message = g_strdup_vprintf (format, args);
  g_set_error (error, BASE_INI_ERROR, code, "%s%s", place, message);
}

void
base_ini_set_error_code (const BaseIni *ini, BaseIniError code, const char *group, const char *key,
                         GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  set_error_va (ini, code, group, key, error, format, args);
  va_end (args);
}

void
base_ini_set_error (const BaseIni *ini, const char *group, const char *key, GError **error,
                    const char *format, ...)
{
  va_list args;
  va_start (args, format);
  set_error_va (ini, BASE_INI_ERROR_VALUE, group, key, error, format, args);
  va_end (args);
}

void
base_ini_mark_used (BaseIni *ini, const char *group, const char *key)
{
  base_ini_note_asked (ini, group, key);
  if (key == NULL) {
    IniGroup *found = base_ini_find_group (ini, group);
    if (found != NULL)
      found->used_whole = TRUE;
    return;
  }
  IniKey *found = base_ini_find_key (ini, group, key);
  if (found != NULL)
    found->used = TRUE;
}

/* Appends the NULL-terminated @known to @names. */
static void
add_known (GPtrArray *names, const char *const *known)
{
  for (gsize i = 0; known != NULL && known[i] != NULL; i++)
    g_ptr_array_add (names, (gpointer)known[i]);
}

static gboolean
refuse_group (const BaseIni *ini, const IniGroup *group, const char *const *known, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GList *asked = g_list_sort (g_hash_table_get_keys (ini->asked), (GCompareFunc)strcmp);
  for (GList *node = asked; node != NULL; node = node->next)
    g_ptr_array_add (names, node->data);
  g_list_free (asked);
  add_known (names, known);
  g_ptr_array_add (names, NULL);

  const char *near = base_suggest (group->name, (const char *const *)names->pdata);
  base_ini_set_error_code (ini, BASE_INI_ERROR_UNKNOWN, group->name, NULL, error,
                           "unknown group%s%s%s", near != NULL ? ", did you mean [" : "",
                           near != NULL ? near : "", near != NULL ? "]?" : "");
  return FALSE;
}

/* Another group that has a key of this name, the first by name, or NULL. (borrowed) */
static const char *
group_with_key (const BaseIni *ini, const char *key)
{
  const char *first = NULL;
  GHashTableIter iter;
  gpointer group, asked;
  g_hash_table_iter_init (&iter, ini->asked);
  while (g_hash_table_iter_next (&iter, &group, &asked))
    if (g_hash_table_contains (((const IniAsked *)asked)->seen, key)
        && (first == NULL || strcmp (group, first) < 0))
      first = group;
  return first;
}

/* @asked: names of keys of @group that the program knows. */
static gboolean
refuse_key (const BaseIni *ini, const IniGroup *group, const IniKey *key, const IniAsked *asked,
            const char *const *known, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (guint i = 0; i < asked->names->len; i++)
    g_ptr_array_add (names, g_ptr_array_index (asked->names, i));
  add_known (names, known);
  g_ptr_array_add (names, NULL);

  const char *elsewhere = group_with_key (ini, key->name);
  if (elsewhere != NULL) {
    base_ini_set_error_code (ini, BASE_INI_ERROR_UNKNOWN, group->name, key->name, error,
                             "unknown key in this group, it belongs into [%s]", elsewhere);
    return FALSE;
  }
  const char *near = base_suggest (key->name, (const char *const *)names->pdata);
  base_ini_set_error_code (ini, BASE_INI_ERROR_UNKNOWN, group->name, key->name, error,
                           "unknown key%s%s%s", near != NULL ? ", did you mean '" : "",
                           near != NULL ? near : "", near != NULL ? "'?" : "");
  return FALSE;
}

gboolean
base_ini_finish (BaseIni *ini, const char *const *known_keys, GError **error)
{
  for (guint i = 0; i < ini->groups->len; i++) {
    const IniGroup *group = g_ptr_array_index (ini->groups, i);
    const IniAsked *asked = g_hash_table_lookup (ini->asked, group->name);
    if (asked == NULL)
      return refuse_group (ini, group, known_keys, error);
    for (guint j = 0; j < group->keys->len && !group->used_whole; j++) {
      const IniKey *key = g_ptr_array_index (group->keys, j);
      if (!key->used)
        return refuse_key (ini, group, key, asked, known_keys, error);
    }
  }
  return TRUE;
}
