/* app/validate_columns.c - which columns of measured runs are read; what looks wrong in them is
 * pointed out. */
#include "app/validate-private.h"
#include "base/suggest.h"

#include <string.h>

static const char *const columns[] = { "id",
                                       "family",
                                       "group",
                                       "use",
                                       "machine",
                                       "gpu",
                                       "gpus",
                                       "phase",
                                       "arch",
                                       "layers",
                                       "framework",
                                       "gpus_per_node",
                                       "inter_gbps",
                                       "hidden",
                                       "heads",
                                       "ffn",
                                       "kv_heads",
                                       "head_dim",
                                       "gated",
                                       "vocab",
                                       "tied",
                                       "seq",
                                       "shared_experts",
                                       "experts",
                                       "topk",
                                       "moe_ffn",
                                       "tp",
                                       "sp",
                                       "moe_layers",
                                       "cp",
                                       "pp",
                                       "vpp",
                                       "ep",
                                       "dp",
                                       "mbs",
                                       "gbs",
                                       "shard",
                                       "recompute",
                                       "dtype",
                                       "attn",
                                       "step_s",
                                       "tok_s_gpu",
                                       "mem_gib",
                                       "mem_kind",
                                       "fits",
                                       "notes",
                                       "mem_scope" };

static const char *const required[] = { "id", "phase", "arch", "gpu", "framework", NULL };

gboolean
validate_check_columns (const BaseCsv *csv, const char *const *by, const char *file, GError **error)
{
  if (!base_csv_require_columns (csv, required, error))
    return FALSE;
  for (guint i = 0; by != NULL && by[i] != NULL; i++)
    if (base_csv_column (csv, by[i]) < 0 && !g_str_equal (by[i], "family")) {
      g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                   "--by: '%s' has no column '%s': name one of its columns, as in family,gpu", file,
                   by[i]);
      return FALSE;
    }
  return TRUE;
}

#define SHORTEST 3 /* of two letters every name is one edit from some other */

/* Its place in @columns, or -1. */
static gint
place_of (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (columns); i++)
    if (g_str_equal (columns[i], name))
      return (gint)i;
  return -1;
}

/* The column that @name may stand for: the same in other capitals, else within a quarter of its
 * letters. */
static const char *
meant_by (const BaseCsv *csv, const char *name)
{
  g_autofree char *lower = g_utf8_strdown (name, -1);
  gint same = place_of (g_strstrip (lower));
  gsize most = MAX (strlen (lower) / 4, 1);
  if (same >= 0)
    return base_csv_column (csv, columns[same]) < 0 ? columns[same] : NULL;
  for (gsize i = 0; strlen (lower) >= SHORTEST && i < G_N_ELEMENTS (columns); i++)
    if (base_csv_column (csv, columns[i]) < 0 && base_edit_distance (lower, columns[i]) <= most)
      return columns[i];
  return NULL;
}

void
validate_hint_columns (const BaseCsv *csv, const char *file, GPtrArray *out)
{
  for (guint i = 0; i < base_csv_n_columns (csv); i++) {
    const char *name = base_csv_column_name (csv, i);
    const char *meant = place_of (name) >= 0 ? NULL : meant_by (csv, name);
    if (meant != NULL)
      g_ptr_array_add (out, g_strdup_printf ("%s:1: column '%s' is not read, and there is no '%s': "
                                             "is it that one?",
                                             file, name, meant));
  }
}

/* No run of the published ones is off by a tenth of the first. */
#define LEAST_FACTOR 300
#define MOST_FACTOR  3000

void
validate_hint_unit (const AppValidateRow *row, GPtrArray *out)
{
  double factor = row->measured_s / row->predicted_s;
  if (factor > LEAST_FACTOR && factor < MOST_FACTOR)
    g_ptr_array_add (out, g_strdup_printf ("row '%s': measured %g s, predicted %.3g s: a step time "
                                           "in milliseconds? step_s holds seconds",
                                           row->id, row->measured_s, row->predicted_s));
}
