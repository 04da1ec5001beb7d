/* base/ini_get.c - typed values of an INI file, each checked against its dimension and range. */
#include "base/ini-private.h"

#include "base/suggest.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

/* Key of (@group, @key), marked as used, or NULL if absent. */
static IniKey *
take_key (BaseIni *ini, const char *group, const char *key)
{
  base_ini_note_asked (ini, group, key);
  IniKey *found = base_ini_find_key (ini, group, key);
  if (found != NULL)
    found->used = TRUE;
  return found;
}

/* The unread key of @group that @key may have been meant by, or NULL. */
static const IniKey *
find_misspelt (const IniGroup *group, const char *key)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (guint i = 0; i < group->keys->len; i++) {
    const IniKey *other = g_ptr_array_index (group->keys, i);
    if (!other->used)
      g_ptr_array_add (names, other->name);
  }
  g_ptr_array_add (names, NULL);
  const char *near = base_suggest (key, (const char *const *)names->pdata);
  return near != NULL ? g_hash_table_lookup (group->by_name, near) : NULL;
}

static gboolean
refuse_missing (const BaseIni *ini, const char *group, const char *key, const char *expected,
                GError **error)
{
  const IniGroup *found = base_ini_find_group (ini, group);
  if (found == NULL) {
    base_ini_set_error_code (ini, BASE_INI_ERROR_MISSING, group, NULL, error,
                             "group is missing, expected it with key '%s'", key);
    return FALSE;
  }
  const IniKey *near = find_misspelt (found, key);
  if (near != NULL)
    base_ini_set_error_code (ini, BASE_INI_ERROR_MISSING, group, key, error,
                             "key is missing, expected %s; was '%s' on line %u meant?", expected,
                             near->name, near->line);
  else
    base_ini_set_error_code (ini, BASE_INI_ERROR_MISSING, group, key, error,
                             "key is missing, expected %s", expected);
  return FALSE;
}

static gboolean
refuse_value (const BaseIni *ini, const char *group, const IniKey *key, const char *expected,
              GError **error)
{
  g_autofree char *shown = base_text_excerpt (key->value, -1);
  base_ini_set_error_code (ini, BASE_INI_ERROR_VALUE, group, key->name, error,
                           "found '%s', expected %s", shown, expected);
  return FALSE;
}

/* Passes on what base/units said about the value of @key. */
static gboolean
forward_units_error (const BaseIni *ini, const char *group, const IniKey *key, GError *local,
                     GError **error)
{
  base_ini_set_error_code (ini, BASE_INI_ERROR_VALUE, group, key->name, error, "%s",
                           local->message);
  g_error_free (local);
  return FALSE;
}

const char *
base_ini_get_string (BaseIni *ini, const char *group, const char *key, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  if (found == NULL) {
    refuse_missing (ini, group, key, "text", error);
    return NULL;
  }
  if (*found->value == '\0') {
    refuse_value (ini, group, found, "text after the '='", error);
    return NULL;
  }
  return found->value;
}

const char *
base_ini_get_string_or (BaseIni *ini, const char *group, const char *key, const char *fallback)
{
  const IniKey *found = take_key (ini, group, key);
  return found != NULL ? found->value : fallback;
}

/* "at least 1 s", "from 0 to 1": how messages state a range in SI. Returns: (owned). */
static char *
describe_range (BaseDim dim, double min, double max)
{
  g_autofree char *low = base_units_format_si (min, dim);
  g_autofree char *high = base_units_format_si (max, dim);
  gboolean has_low = min > -G_MAXDOUBLE, has_high = max < G_MAXDOUBLE;
  const char *what = base_units_dim_name (dim);
  if (has_low && has_high)
    return g_strdup_printf ("%s from %s to %s", what, low, high);
  if (has_high)
    return g_strdup_printf ("%s of at most %s", what, high);
  return g_strdup_printf ("%s of at least %s", what, low);
}

static gboolean
read_number (const BaseIni *ini, const char *group, const IniKey *key, BaseDim dim, double min,
             double max, double *out, GError **error)
{
  GError *local = NULL;
  double value = 0;
  if (!base_units_parse (key->value, dim, &value, &local))
    return forward_units_error (ini, group, key, local, error);
  if (!(value >= min && value <= max)) {
    g_autofree char *range = describe_range (dim, min, max);
    return refuse_value (ini, group, key, range, error);
  }
  *out = value;
  return TRUE;
}

gboolean
base_ini_get_number (BaseIni *ini, const char *group, const char *key, BaseDim dim, double min,
                     double max, double *out, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  if (found == NULL) {
    g_autofree char *expected = base_units_describe (dim);
    return refuse_missing (ini, group, key, expected, error);
  }
  return read_number (ini, group, found, dim, min, max, out, error);
}

gboolean
base_ini_get_number_optional (BaseIni *ini, const char *group, const char *key, BaseDim dim,
                              double min, double max, double *out, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  return found == NULL || read_number (ini, group, found, dim, min, max, out, error);
}

static gboolean
read_count (const BaseIni *ini, const char *group, const IniKey *key, guint64 min, guint64 max,
            guint64 *out, GError **error)
{
  GError *local = NULL;
  return base_units_parse_count (key->value, min, max, out, &local)
         || forward_units_error (ini, group, key, local, error);
}

gboolean
base_ini_get_count (BaseIni *ini, const char *group, const char *key, guint64 min, guint64 max,
                    guint64 *out, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  if (found == NULL)
    return refuse_missing (ini, group, key, "a whole number", error);
  return read_count (ini, group, found, min, max, out, error);
}

gboolean
base_ini_get_count_optional (BaseIni *ini, const char *group, const char *key, guint64 min,
                             guint64 max, guint64 *out, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  return found == NULL || read_count (ini, group, found, min, max, out, error);
}

gboolean
base_ini_get_bytes (BaseIni *ini, const char *group, const char *key, guint64 *out, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  if (found == NULL) {
    g_autofree char *expected = base_units_describe (BASE_DIM_BYTES);
    return refuse_missing (ini, group, key, expected, error);
  }
  GError *local = NULL;
  return base_units_parse_bytes (found->value, out, &local)
         || forward_units_error (ini, group, found, local, error);
}

gboolean
base_ini_get_bool_optional (BaseIni *ini, const char *group, const char *key, gboolean *out,
                            GError **error)
{
  static const char *const yes[] = { "yes", "true", "1", NULL };
  static const char *const no[] = { "no", "false", "0", NULL };

  const IniKey *found = take_key (ini, group, key);
  if (found == NULL)
    return TRUE;
  if (g_strv_contains (yes, found->value))
    *out = TRUE;
  else if (g_strv_contains (no, found->value))
    *out = FALSE;
  else
    return refuse_value (ini, group, found, "yes or no", error);
  return TRUE;
}

gboolean
base_ini_get_enum_optional (BaseIni *ini, const char *group, const char *key,
                            const char *const *names, guint *out, GError **error)
{
  const IniKey *found = take_key (ini, group, key);
  if (found == NULL)
    return TRUE;
  gint index = base_name_index (found->value, names);
  if (index >= 0) {
    *out = (guint)index;
    return TRUE;
  }
  g_autofree char *expected = base_suggest_one_of (found->value, names);
  return refuse_value (ini, group, found, expected, error);
}

char **
base_ini_get_list (BaseIni *ini, const char *group, const char *key)
{
  g_autoptr (GStrvBuilder) items = g_strv_builder_new ();
  const IniKey *found = take_key (ini, group, key);
  g_auto (GStrv) parts = g_strsplit (found != NULL ? found->value : "", ",", -1);
  for (char **part = parts; *part != NULL; part++) {
    if (*g_strstrip (*part) != '\0')
      g_strv_builder_add (items, *part);
  }
  return g_strv_builder_end (items);
}

void
base_ini_replace (BaseIni *ini, const char *group, const char *key, const char *value)
{
  IniKey *found = base_ini_find_key (ini, group, key);

  g_return_if_fail (found != NULL);
  g_free (found->value);
  found->value = g_strdup (value);
}
