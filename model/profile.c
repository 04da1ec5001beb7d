/* model/profile.c - reads catalog/profiles/SLUG.ini. Every switch must be there: none is guessed. */
#include "model/profile.h"
#include "base/suggest.h"
#include "model/dtype.h"
#include <string.h>

typedef enum { KEY_SWITCH, KEY_BYTES, KEY_COUNT32, KEY_COUNT64, KEY_COUNT8, KEY_GIB } KeyKind;

typedef struct {
  const char *group, *key;
  KeyKind kind;
  gsize offset;
  double min, max; /* bytes or counts */
} KeyFacts;

#define AT(field) G_STRUCT_OFFSET (ModelProfile, field)
static const KeyFacts keys[] = {
  { "kernels", "fused_norm", KEY_SWITCH, AT (fused_norm), 0, 0 },
  { "kernels", "fused_activation", KEY_SWITCH, AT (fused_activation), 0, 0 },
  { "kernels", "fused_rope", KEY_SWITCH, AT (fused_rope), 0, 0 },
  { "kernels", "fused_residual", KEY_SWITCH, AT (fused_residual), 0, 0 },
  { "kernels", "fused_cross_entropy", KEY_SWITCH, AT (fused_cross_entropy), 0, 0 },
  { "kernels", "compiled", KEY_SWITCH, AT (compiled), 0, 0 },
  { "kernels", "keeps_everything", KEY_SWITCH, AT (keeps_everything), 0, 0 },
  { "kernels", "recompute_stops_early", KEY_SWITCH, AT (recompute_stops_early), 0, 0 },
  { "kernels", "grouped_gemm", KEY_SWITCH, AT (grouped_gemm), 0, 0 },
  { "kernels", "dummy_wgrad", KEY_SWITCH, AT (dummy_wgrad), 0, 0 },
  { "states", "param_bytes", KEY_BYTES, AT (param_bytes), 0, 8 },
  { "states", "grad_bytes", KEY_BYTES, AT (grad_bytes), 0, 8 },
  { "states", "main_grad_bytes", KEY_BYTES, AT (main_grad_bytes), 0, 8 },
  { "states", "master_bytes", KEY_BYTES, AT (master_bytes), 0, 8 },
  { "states", "moment_bytes", KEY_BYTES, AT (moment_bytes), 0, 16 },
  { "states", "step_copy_bytes", KEY_BYTES, AT (step_copy_bytes), 0, 8 },
  { "states", "shards_main_grad_zero1", KEY_SWITCH, AT (shards_main_grad_zero1), 0, 0 },
  { "communication", "reduce_bytes", KEY_BYTES, AT (reduce_bytes), 1, 8 },
  { "communication", "bucket_elements", KEY_COUNT64, AT (bucket_elements), 0, 1e12 },
  { "communication", "all_reduces_zero1", KEY_SWITCH, AT (all_reduces_zero1), 0, 0 },
  { "communication", "overlap_dp", KEY_SWITCH, AT (overlap_dp), 0, 0 },
  { "communication", "overlap_param_gather", KEY_SWITCH, AT (overlap_param_gather), 0, 0 },
  { "communication", "overlap_tp", KEY_SWITCH, AT (overlap_tp), 0, 0 },
  { "communication", "overlap_p2p", KEY_SWITCH, AT (overlap_p2p), 0, 0 },
  { "communication", "fsdp_units_in_flight", KEY_COUNT32, AT (fsdp_units_in_flight), 1, 64 },
  { "communication", "reshard_after_forward", KEY_SWITCH, AT (reshard_after_forward), 0, 0 },
  { "communication", "max_zero_with_pp", KEY_COUNT8, AT (max_zero_with_pp), 0, 3 },
  { "loss", "logits_peak_bytes", KEY_BYTES, AT (logits_peak_bytes), 0, 64 },
  { "loss", "logits_kept_bytes", KEY_BYTES, AT (logits_kept_bytes), 0, 64 },
  { "loss", "loss_chunks", KEY_COUNT32, AT (loss_chunks), 1, 1024 },
  { "model", "vocab_multiple", KEY_COUNT32, AT (vocab_multiple), 1, 65536 },
  { "model", "balances_by_cost", KEY_SWITCH, AT (balances_by_cost), 0, 0 },
  { "model", "moe_needs_sp", KEY_SWITCH, AT (moe_needs_sp), 0, 0 },
  { "allocator", "expandable_segments", KEY_SWITCH, AT (expandable_segments), 0, 0 },
  { "allocator", "context", KEY_GIB, AT (context_gib), 0, 64.0 * (1 << 30) },
};
#undef AT

static gboolean
require (const BaseIni *ini, const char *group, const char *key, GError **error)
{
  if (base_ini_has_key (ini, group, key))
    return TRUE;
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "%s: [%s] %s: missing, every profile states it", base_ini_name (ini), group, key);
  return FALSE;
}

static gboolean
read_bytes (BaseIni *ini, const KeyFacts *facts, double scale, double *out, GError **error)
{
  double bytes;
  if (!base_ini_get_number (ini, facts->group, facts->key, BASE_DIM_BYTES, facts->min, facts->max,
                            &bytes, error))
    return FALSE;
  *out = bytes / scale;
  return TRUE;
}

static gboolean
read_key (BaseIni *ini, const KeyFacts *facts, ModelProfile *profile, GError **error)
{
  gpointer field = G_STRUCT_MEMBER_P (profile, facts->offset);
  guint64 count = 0;
  if (!require (ini, facts->group, facts->key, error))
    return FALSE;
  switch (facts->kind) {
  case KEY_SWITCH:
    return base_ini_get_bool_optional (ini, facts->group, facts->key, field, error);
  case KEY_BYTES:
    return read_bytes (ini, facts, 1, field, error);
  case KEY_GIB:
    return read_bytes (ini, facts, 1 << 30, field, error);
  default:
    break;
  }
  if (!base_ini_get_count (ini, facts->group, facts->key, (guint64)facts->min, (guint64)facts->max,
                           &count, error))
    return FALSE;
  if (facts->kind == KEY_COUNT64)
    *(guint64 *)field = count;
  else if (facts->kind == KEY_COUNT32)
    *(guint32 *)field = (guint32)count;
  else
    *(guint8 *)field = (guint8)count;
  return TRUE;
}

static gboolean
read_dtypes (BaseIni *ini, ModelProfile *profile, GError **error)
{
  g_auto (GStrv) names = base_ini_get_list (ini, "model", "dtypes");
  if (!require (ini, "model", "dtypes", error))
    return FALSE;
  for (guint i = 0; names[i] != NULL; i++) {
    gint dtype = base_name_index (names[i], model_dtype_names);
    if (dtype < 0) {
      g_autofree char *expected = base_suggest_one_of (names[i], model_dtype_names);
      base_ini_set_error (ini, "model", "dtypes", error, "found '%s', expected %s", names[i],
                          expected);
      return FALSE;
    }
    profile->dtypes |= 1u << dtype;
  }
  if (profile->dtypes == 0) {
    base_ini_set_error (ini, "model", "dtypes", error, "found none, expected at least one");
    return FALSE;
  }
  return TRUE;
}

/* Columns of a measured row that a framework's habits can fill. Degrees are counts, sp 0 or 1; what
 * the words of the others mean is for the reader of the rows to say. */
static const struct {
  const char *column;
  guint64 min, max; /* max 0: a word */
} row_columns[] = {
  { "sp", 0, 1 },         { "cp", 1, 1u << 20 }, { "pp", 1, 1u << 20 },
  { "vpp", 1, 1u << 20 }, { "ep", 1, 1u << 20 }, { "shard", 0, 0 },
  { "recompute", 0, 0 },  { "dtype", 0, 0 },     { "attn", 0, 0 },
};

static gboolean
check_row_default (BaseIni *ini, guint column, GError **error)
{
  const char *name = row_columns[column].column;
  guint64 count;
  if (row_columns[column].max > 0)
    return base_ini_get_count (ini, "row_defaults", name, row_columns[column].min,
                               row_columns[column].max, &count, error);
  guint dtype;
  return !g_str_equal (name, "dtype")
         || base_ini_get_enum_optional (ini, "row_defaults", name, model_dtype_names, &dtype,
                                        error);
}

static gboolean
read_row_defaults (BaseIni *ini, ModelProfile *profile, GError **error)
{
  profile->row_defaults = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; i < G_N_ELEMENTS (row_columns); i++) {
    const char *column = row_columns[i].column;
    if (!base_ini_has_key (ini, "row_defaults", column))
      continue;
    const char *value = base_ini_get_string (ini, "row_defaults", column, error);
    if (value == NULL || !check_row_default (ini, i, error))
      return FALSE;
    g_hash_table_insert (profile->row_defaults, g_strdup (column), g_strdup (value));
  }
  return TRUE;
}

/* Weights are somewhere: as the copy that computes, or as the master copy alone. */
static gboolean
check_states (BaseIni *ini, const ModelProfile *profile, GError **error)
{
  if (profile->param_bytes + profile->master_bytes > 0)
    return TRUE;
  base_ini_set_error (ini, "states", "param_bytes", error,
                      "found 0 here and for master_bytes, expected weights in one of them");
  return FALSE;
}

/* NULL-terminated names to suggest from when a key is unknown. */
static gboolean
finish (BaseIni *ini, GError **error)
{
  const char *known[G_N_ELEMENTS (keys) + 4] = { "frameworks", "source", "dtypes" };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    known[3 + i] = keys[i].key;
  return base_ini_finish (ini, known, error);
}

/* The one switch that most frameworks need not state. */
static gboolean
read_max_zero (BaseIni *ini, ModelProfile *profile, GError **error)
{
  guint64 stage = 3;
  if (!base_ini_get_count_optional (ini, "communication", "max_zero", 0, 3, &stage, error))
    return FALSE;
  profile->max_zero = (guint8)stage;
  return TRUE;
}

ModelProfile *
model_profile_from_ini (BaseIni *ini, const char *name, GError **error)
{
  g_autoptr (ModelProfile) profile = g_new0 (ModelProfile, 1);
  profile->name = g_strdup (name);
  profile->frameworks = base_ini_get_list (ini, "profile", "frameworks");
  const char *source = base_ini_get_string (ini, "profile", "source", error);
  if (source == NULL)
    return NULL;
  profile->source = g_strdup (source);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (!read_key (ini, &keys[i], profile, error))
      return NULL;
  if (!read_max_zero (ini, profile, error) || !check_states (ini, profile, error)
      || !read_dtypes (ini, profile, error)

      || !read_row_defaults (ini, profile, error) || !finish (ini, error))
    return NULL;
  return g_steal_pointer (&profile);
}

/* "catalog/profiles/x.ini" is profile "x". Returns: (owned). */
static char *
name_of (const char *slug_or_path)
{
  g_autofree char *base = g_path_get_basename (slug_or_path);
  if (g_str_has_suffix (base, ".ini"))
    base[strlen (base) - strlen (".ini")] = '\0';
  return g_steal_pointer (&base);
}

ModelProfile *
model_profile_load (const BaseCatalog *catalog, const char *slug_or_path, GError **error)
{
  g_autoptr (BaseIni) ini = base_catalog_open_any (catalog, "profiles", slug_or_path, NULL, error);
  if (ini == NULL)
    return NULL;
  g_autofree char *name = name_of (slug_or_path);
  return model_profile_from_ini (ini, name, error);
}

void
model_profile_free (ModelProfile *profile)
{
  if (profile == NULL)
    return;
  g_free (profile->name);
  g_strfreev (profile->frameworks);
  g_clear_pointer (&profile->row_defaults, g_hash_table_unref);
  g_free (profile->source);
  g_free (profile);
}

static gboolean
matches (char *const *patterns, const char *lower)
{
  for (guint i = 0; patterns != NULL && patterns[i] != NULL; i++) {
    g_autofree char *pattern = g_utf8_strdown (patterns[i], -1);
    if (g_pattern_match_simple (pattern, lower))
      return TRUE;
  }
  return FALSE;
}

char *
model_profile_for_framework (const BaseCatalog *catalog, const char *framework)
{
  g_auto (GStrv) slugs = base_catalog_list (catalog, "profiles");
  g_autofree char *lower = g_utf8_strdown (framework, -1);
  for (guint i = 0; slugs != NULL && slugs[i] != NULL; i++) {
    g_autoptr (BaseIni) ini = base_catalog_open (catalog, "profiles", slugs[i], NULL);
    if (ini == NULL)
      continue;
    g_auto (GStrv) patterns = base_ini_get_list (ini, "profile", "frameworks");
    if (matches (patterns, lower))
      return g_strdup (slugs[i]);
  }
  return g_strdup ("generic");
}
