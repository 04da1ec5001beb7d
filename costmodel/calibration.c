/* costmodel/calibration.c - reads a calibration file and writes it back in a fixed order. */
#include "costmodel/calibration-private.h"

#include "base/hash.h"
#include "base/suggest.h"

#include <string.h>

#define MAX_SPREAD 10.0 /* log sd beyond which a value says nothing */

static void
group_free (gpointer data)
{
  CostCalibrationGroup *group = data;
  g_free (group->name);
  g_free (group->source);
  g_strfreev (group->gpus);
  g_free (group);
}

void
cost_calibration_free (CostCalibration *calibration)
{
  if (calibration == NULL)
    return;
  g_free (calibration->name);
  g_free (calibration->file);
  g_free (calibration->source);
  g_ptr_array_unref (calibration->groups);
  g_free (calibration);
}

const char *
cost_calibration_name (const CostCalibration *calibration)
{
  return calibration->name;
}

const CostCalibrationGroup *
cost_calibration_find (const CostCalibration *calibration, CostSection section, const char *name)
{
  for (guint i = 0; i < calibration->groups->len; i++) {
    const CostCalibrationGroup *group = g_ptr_array_index (calibration->groups, i);
    if (group->section == section && g_strcmp0 (group->name, name) == 0)
      return group;
  }
  return NULL;
}

const CostKey *
cost_calibration_key (CostSection section, const char *key)
{
  for (guint i = 0; i < cost_sections[section].n_keys; i++)
    if (strcmp (cost_sections[section].keys[i].name, key) == 0)
      return &cost_sections[section].keys[i];
  return NULL;
}

char *
cost_calibration_group_title (const CostCalibrationGroup *group)
{
  const char *word = cost_sections[group->section].word;
  return group->name != NULL ? g_strdup_printf ("%s %s", word, group->name) : g_strdup (word);
}

/* Reads one side of "value +- spread". */
static gboolean
parse_part (BaseIni *ini, const char *title, const char *key, const char *text, BaseDim dim,
            double min, double max, double *out, GError **error)
{
  g_autoptr (GError) local = NULL;
  double value;
  if (!base_units_parse (text, dim, &value, &local)) {
    base_ini_set_error (ini, title, key, error, "%s", local->message);
    return FALSE;
  }
  if (!(value >= min && value <= max)) {
    g_autofree char *low = base_units_format_si (min, dim);
    g_autofree char *high = base_units_format_si (max, dim);
    base_ini_set_error (ini, title, key, error, "found '%s', expected from %s to %s", text, low,
                        high);
    return FALSE;
  }
  *out = value;
  return TRUE;
}

/* "0.907 +- 5%": number and relative standard deviation. */
static gboolean
read_value (BaseIni *ini, const char *title, const CostKey *key, double *out_value,
            double *out_spread, GError **error)
{
  const char *text = base_ini_get_string (ini, title, key->name, error);
  if (text == NULL)
    return FALSE;
  g_auto (GStrv) parts = g_strsplit (text, "+-", 2);
  for (guint i = 0; parts[i] != NULL; i++)
    g_strstrip (parts[i]);
  const char *number = parts[0] != NULL ? parts[0] : "";
  *out_spread = 0;
  if (!parse_part (ini, title, key->name, number, key->dim, key->min, key->max, out_value, error))
    return FALSE;
  return parts[0] == NULL || parts[1] == NULL
         || parse_part (ini, title, key->name, parts[1], BASE_DIM_RATIO, 0, MAX_SPREAD, out_spread,
                        error);
}

/* "key =#x" is a text, but "key = #x" a comment: refused, so that what is written reads back. */
static gboolean
check_text (BaseIni *ini, const char *title, const char *key, const char *text, GError **error)
{
  if (text[0] != '#')
    return TRUE;
  base_ini_set_error (ini, title, key, error,
                      "found a text that begins with '#', which would be "
                      "a comment after a blank: leave it out");
  return FALSE;
}

/* [gpu GENERATION] gpus=: slugs, and largest_run=. */
static gboolean
read_evidence (BaseIni *ini, const char *title, CostCalibrationGroup *group, GError **error)
{
  group->gpus = base_ini_get_list (ini, title, "gpus");
  for (char **item = group->gpus; *item != NULL; item++)
    if (!check_text (ini, title, "gpus", *item, error))
      return FALSE;
  return base_ini_get_count_optional (ini, title, "largest_run", 1, G_MAXUINT32,
                                      &group->largest_run, error);
}

static gboolean
read_group (BaseIni *ini, const char *title, CostCalibrationGroup *group, GError **error)
{
  const CostSectionSchema *schema = &cost_sections[group->section];
  const char *source = base_ini_get_string (ini, title, "source", error);
  if (source == NULL || !check_text (ini, title, "source", source, error))
    return FALSE;
  group->source = g_strdup (source);
  if (group->section == COST_SECTION_GPU && !read_evidence (ini, title, group, error))
    return FALSE;
  if (!base_ini_get_bool_optional (ini, title, "assumed", &group->assumed, error))
    return FALSE;
  for (guint i = 0; i < schema->n_keys; i++) {
    if (!base_ini_has_key (ini, title, schema->keys[i].name))
      continue;
    if (!read_value (ini, title, &schema->keys[i], &group->value[i], &group->spread[i], error))
      return FALSE;
    group->set |= G_GUINT64_CONSTANT (1) << i;
  }
  return TRUE;
}

/* A link class or fabric has to exist; GPUs and profiles may be the user's own. */
static gboolean
check_name (BaseIni *ini, const char *title, CostSection section, const char *name, GError **error)
{
  static const char *const regimes[] = { "node", "network", "unseen", "curve", NULL };
  if (section == COST_SECTION_SPREAD && !g_strv_contains (regimes, name)) {
    base_ini_set_error (ini, title, NULL, error,
                        "no regime '%s': expected node, network, unseen or curve", name);
    return FALSE;
  }
  TopoLinkClass link_class;
  TopoFabric fabric;
  if (strcmp (name, "default") == 0)
    return TRUE;
  if (section == COST_SECTION_LINK && !topo_link_class_from_name (name, &link_class)) {
    g_autofree char *hint = base_suggest_clause (name, topo_link_class_names);
    base_ini_set_error (ini, title, NULL, error, "no link class '%s'%s", name, hint);
    return FALSE;
  }
  if (section == COST_SECTION_FABRIC && !topo_fabric_from_name (name, &fabric)) {
    g_autofree char *hint = base_suggest_clause (name, topo_fabric_names);
    base_ini_set_error (ini, title, NULL, error, "no fabric '%s'%s", name, hint);
    return FALSE;
  }
  return TRUE;
}

/* Splits "gpu hopper" into section and name. FALSE: no group of a calibration. */
gboolean
cost_calibration_split_title (const char *title, CostSection *out_section, const char **out_name)
{
  for (guint i = 0; i < COST_SECTION_N_KINDS; i++) {
    const CostSectionSchema *schema = &cost_sections[i];
    gsize length = strlen (schema->word);
    if (strncmp (title, schema->word, length) != 0)
      continue;
    gboolean named = title[length] == ' ' && title[length + 1] != '\0';
    if (named != schema->named || (!named && title[length] != '\0'))
      continue;
    *out_section = i;
    *out_name = named ? title + length + 1 : NULL;
    return TRUE;
  }
  return FALSE;
}

static gint
compare_groups (gconstpointer a, gconstpointer b)
{
  const CostCalibrationGroup *left = *(CostCalibrationGroup *const *)a;
  const CostCalibrationGroup *right = *(CostCalibrationGroup *const *)b;
  if (left->section != right->section)
    return left->section < right->section ? -1 : 1;
  return g_strcmp0 (left->name, right->name);
}

CostCalibrationGroup *
cost_calibration_add_group (CostCalibration *calibration, CostSection section, const char *name,
                            const char *source)
{
  CostCalibrationGroup *group = g_new0 (CostCalibrationGroup, 1);
  group->section = section;
  group->name = g_strdup (name);
  group->source = g_strdup (source);
  g_ptr_array_add (calibration->groups, group);
  g_ptr_array_sort (calibration->groups, compare_groups);
  return group;
}

static gboolean
read_groups (CostCalibration *calibration, BaseIni *ini, GError **error)
{
  for (guint i = 0; i < base_ini_n_groups (ini); i++) {
    const char *title = base_ini_group_name (ini, i);
    CostSection section;
    const char *name;
    if (!cost_calibration_split_title (title, &section, &name))
      continue; /* base_ini_finish refuses it */
    CostCalibrationGroup *group = g_new0 (CostCalibrationGroup, 1);
    group->section = section;
    group->name = g_strdup (name);
    g_ptr_array_add (calibration->groups, group);
    if ((name != NULL && !check_name (ini, title, section, name, error))
        || !read_group (ini, title, group, error))
      return FALSE;
  }
  g_ptr_array_sort (calibration->groups, compare_groups);
  return TRUE;
}

/* Refuses what nobody read, suggesting a key of that group or a kind of group. */
static gboolean
finish (BaseIni *ini, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  for (guint i = 0; i < COST_SECTION_N_KINDS; i++) {
    g_ptr_array_add (known, (gpointer)cost_sections[i].word);
    for (guint k = 0; k < cost_sections[i].n_keys; k++)
      g_ptr_array_add (known, (gpointer)cost_sections[i].keys[k].name);
  }
  g_ptr_array_add (known, "source");
  g_ptr_array_add (known, "assumed");
  g_ptr_array_add (known, "largest_run");
  g_ptr_array_add (known, NULL);
  return base_ini_finish (ini, (const char *const *)known->pdata, error);
}

CostCalibration *
cost_calibration_from_ini (BaseIni *ini, const char *name, GError **error)
{
  g_autoptr (CostCalibration) calibration = g_new0 (CostCalibration, 1);
  calibration->groups = g_ptr_array_new_with_free_func (group_free);
  calibration->file = g_strdup (base_ini_name (ini));
  const char *source = base_ini_get_string (ini, "calibration", "source", error);
  if (source == NULL || !check_text (ini, "calibration", "source", source, error))
    return NULL;
  calibration->source = g_strdup (source);
  calibration->name = g_strdup (base_ini_get_string_or (ini, "calibration", "name", name));
  if (!check_text (ini, "calibration", "name", calibration->name, error))
    return NULL;
  if (!read_groups (calibration, ini, error) || !finish (ini, error))
    return NULL;
  return g_steal_pointer (&calibration);
}

CostCalibration *
cost_calibration_load (const BaseCatalog *catalog, const char *name, GError **error)
{
  gboolean is_file = FALSE;
  g_autoptr (BaseIni) ini = base_catalog_open_any (catalog, "calibrations", name, &is_file, error);
  if (ini == NULL)
    return NULL;
  g_autofree char *slug = is_file ? g_path_get_basename (name) : g_strdup (name);
  if (is_file && g_str_has_suffix (slug, ".ini"))
    slug[strlen (slug) - strlen (".ini")] = '\0';
  return cost_calibration_from_ini (ini, slug, error);
}

gboolean
cost_calibration_get (const CostCalibration *calibration, const char *group, const char *key,
                      double *out_value, double *out_spread)
{
  CostSection section;
  const char *name;
  if (!cost_calibration_split_title (group, &section, &name))
    return FALSE;
  const CostCalibrationGroup *found = cost_calibration_find (calibration, section, name);
  for (guint i = 0; found != NULL && i < cost_sections[section].n_keys; i++) {
    if (strcmp (cost_sections[section].keys[i].name, key) != 0
        || !(found->set & (G_GUINT64_CONSTANT (1) << i)))
      continue;
    if (out_value != NULL)
      *out_value = found->value[i];
    if (out_spread != NULL)
      *out_spread = found->spread[i];
    return TRUE;
  }
  return FALSE;
}

/* Units that read back what base_units_parse makes of them. */
const char *
cost_calibration_unit_of (BaseDim dim)
{
  return dim == BASE_DIM_SECONDS ? "s" : dim == BASE_DIM_BYTES ? "B" : "";
}

/* The shortest of 15 to 17 digits that reads back to the same number. */
static void
format_number (GString *text, double value)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  for (int digits = 15; digits <= 17; digits++) {
    char format[8];
    g_snprintf (format, sizeof format, "%%.%dg", digits);
    g_ascii_formatd (number, sizeof number, format, value);
    if (g_ascii_strtod (number, NULL) == value)
      break;
  }
  g_string_append (text, number);
}

static void
format_group (const CostCalibrationGroup *group, GString *text)
{
  const CostSectionSchema *schema = &cost_sections[group->section];
  g_autofree char *title = cost_calibration_group_title (group);
  g_string_append_printf (text, "\n[%s]\nsource = %s\n", title, group->source);
  if (group->gpus != NULL && group->gpus[0] != NULL) {
    g_autofree char *gpus = g_strjoinv (", ", group->gpus);
    g_string_append_printf (text, "gpus = %s\n", gpus);
  }
  if (group->largest_run > 0)
    g_string_append_printf (text, "largest_run = %" G_GUINT64_FORMAT "\n", group->largest_run);
  if (group->assumed)
    g_string_append (text, "assumed = yes\n");
  for (guint i = 0; i < schema->n_keys; i++) {
    if (!(group->set & (G_GUINT64_CONSTANT (1) << i)))
      continue;
    g_string_append_printf (text, "%s = ", schema->keys[i].name);
    format_number (text, group->value[i]);
    g_string_append (text, cost_calibration_unit_of (schema->keys[i].dim));
    if (group->spread[i] > 0) {
      g_string_append (text, " +- ");
      format_number (text, group->spread[i]);
    }
    g_string_append_c (text, '\n');
  }
}

char *
cost_calibration_format (const CostCalibration *calibration)
{
  GString *text = g_string_new ("[calibration]\n");
  g_string_append_printf (text, "name = %s\nsource = %s\n", calibration->name, calibration->source);
  for (guint i = 0; i < calibration->groups->len; i++)
    format_group (g_ptr_array_index (calibration->groups, i), text);
  return g_string_free (text, FALSE);
}

char *
cost_calibration_hash (const CostCalibration *calibration)
{
  g_autofree char *text = cost_calibration_format (calibration);
  return base_hash_text (text);
}
