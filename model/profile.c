/* model/profile.c - reads catalog/profiles/SLUG.ini. Every switch must be there: none is guessed. */
#include "model/profile.h"
#include "base/suggest.h"
#include "model/dtype.h"
#include <string.h>

typedef enum { KEY_SWITCH, KEY_BYTES, KEY_COUNT32, KEY_COUNT64, KEY_COUNT8 } KeyKind;

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
  { "kernels", "fused_residual", KEY_SWITCH, AT (fused_residual), 0, 0 },
  { "kernels", "fused_cross_entropy", KEY_SWITCH, AT (fused_cross_entropy), 0, 0 },
  { "kernels", "compiled", KEY_SWITCH, AT (compiled), 0, 0 },
  { "kernels", "keeps_everything", KEY_SWITCH, AT (keeps_everything), 0, 0 },
  { "kernels", "recompute_stops_early", KEY_SWITCH, AT (recompute_stops_early), 0, 0 },
  { "kernels", "checkpoints_on_host", KEY_SWITCH, AT (checkpoints_on_host), 0, 0 },
  { "kernels", "selective_by_op", KEY_SWITCH, AT (selective_by_op), 0, 0 },
  { "kernels", "grouped_gemm", KEY_SWITCH, AT (grouped_gemm), 0, 0 },
  { "kernels", "dummy_wgrad", KEY_SWITCH, AT (dummy_wgrad), 0, 0 },
  { "kernels", "fused_bias_grad", KEY_SWITCH, AT (fused_bias_grad), 0, 0 },
  { "kernels", "qkv_copies", KEY_COUNT32, AT (qkv_copies), 0, 4 },
  { "kernels", "kv_copies", KEY_COUNT32, AT (kv_copies), 0, 4 },
  { "kernels", "core_copies", KEY_COUNT32, AT (core_copies), 0, 4 },
  { "kernels", "joins_grads", KEY_SWITCH, AT (joins_grads), 0, 0 },
  { "states", "param_bytes", KEY_BYTES, AT (param_bytes), 0, 8 },
  { "states", "grad_bytes", KEY_BYTES, AT (grad_bytes), 0, 8 },
  { "states", "main_grad_bytes", KEY_BYTES, AT (main_grad_bytes), 0, 8 },
  { "states", "master_bytes", KEY_BYTES, AT (master_bytes), 0, 8 },
  { "states", "moment_bytes", KEY_BYTES, AT (moment_bytes), 0, 16 },
  { "states", "step_copy_bytes", KEY_BYTES, AT (step_copy_bytes), 0, 8 },
  { "states", "offloads_optimizer", KEY_SWITCH, AT (offloads_optimizer), 0, 0 },
  { "states", "shards_main_grad_zero1", KEY_SWITCH, AT (shards_main_grad_zero1), 0, 0 },
  { "communication", "reduce_bytes", KEY_BYTES, AT (reduce_bytes), 1, 8 },
  { "communication", "bucket_elements", KEY_COUNT64, AT (bucket_elements), 0, 1e12 },
  { "communication", "all_reduces_zero1", KEY_SWITCH, AT (all_reduces_zero1), 0, 0 },
  { "communication", "reduces_before_sends", KEY_SWITCH, AT (reduces_before_sends), 0, 0 },
  { "communication", "overlap_dp", KEY_SWITCH, AT (overlap_dp), 0, 0 },
  { "communication", "overlap_param_gather", KEY_SWITCH, AT (overlap_param_gather), 0, 0 },
  { "communication", "overlap_tp", KEY_SWITCH, AT (overlap_tp), 0, 0 },
  { "communication", "overlap_p2p", KEY_SWITCH, AT (overlap_p2p), 0, 0 },
  { "communication", "live_elements", KEY_COUNT64, AT (live_elements), 0, 1e12 },
  { "communication", "keeps_stage_output", KEY_SWITCH, AT (keeps_stage_output), 0, 0 },
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
  { "allocator", "context", KEY_BYTES, AT (context_bytes), 0, 64.0 * (1 << 30) },
};
#undef AT

static gboolean
require (const BaseIni *ini, const char *group, const char *key, const char *expected,
         GError **error)
{
  if (base_ini_has_key (ini, group, key))
    return TRUE;
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "%s: [%s] %s: missing, every profile states it: expected %s, or 'base = PROFILE' in "
               "[profile] to take over what the file leaves out",
               base_ini_name (ini), group, key, expected);
  return FALSE;
}

/* What may stand at a key. Returns: (owned). */
static char *
expected_at (const KeyFacts *facts)
{
  if (facts->kind == KEY_SWITCH)
    return g_strdup ("yes or no");
  if (facts->kind == KEY_BYTES)
    return g_strdup (facts->max > 64 ? "bytes, as 1.07GiB" : "bytes, as 2B");
  return g_strdup_printf ("a whole number from %.0f to %.0f", facts->min, facts->max);
}

/* What a profile built on another leaves out is the other's. */
static gboolean
read_key (BaseIni *ini, const KeyFacts *facts, gboolean is_built_on, ModelProfile *profile,
          GError **error)
{
  gpointer field = G_STRUCT_MEMBER_P (profile, facts->offset);
  g_autofree char *expected = expected_at (facts);
  guint64 count = 0;
  if (is_built_on && !base_ini_has_key (ini, facts->group, facts->key))
    return TRUE;
  if (!require (ini, facts->group, facts->key, expected, error))
    return FALSE;
  switch (facts->kind) {
  case KEY_SWITCH:
    return base_ini_get_bool_optional (ini, facts->group, facts->key, field, error);
  case KEY_BYTES:
    return base_ini_get_number (ini, facts->group, facts->key, BASE_DIM_BYTES, facts->min,
                                facts->max, field, error);
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
read_dtypes (BaseIni *ini, gboolean is_built_on, ModelProfile *profile, GError **error)
{
  g_auto (GStrv) names = base_ini_get_list (ini, "model", "dtypes");
  if (is_built_on && !base_ini_has_key (ini, "model", "dtypes"))
    return TRUE;
  if (!require (ini, "model", "dtypes", "data types, as bf16, fp16", error))
    return FALSE;
  profile->dtypes = 0;
  for (guint i = 0; names != NULL && names[i] != NULL; i++) {
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
  { "sp", 0, 1 },
  { "cp", 1, 1u << 20 },
  { "pp", 1, 1u << 20 },
  { "vpp", 1, 1u << 20 },
  { "ep", 1, 1u << 20 },
  { "shard", 0, 0 },
  { "recompute", 0, 0 },
  { "dtype", 0, 0 },
  { "attn", 0, 0 },
  { "dropout", 0, 0 },
  /* sizes of latent attention, by Megatron's names */
  { "kv_lora_rank", 1, 1u << 20 },
  { "qk_head_dim", 1, 1u << 20 },
  { "qk_pos_emb_head_dim", 1, 1u << 20 },
  { "v_head_dim", 1, 1u << 20 },
  { "layers_on_gpu", 1, 1u << 20 }, /* where activations are offloaded */
};

static gboolean
check_row_default (BaseIni *ini, guint column, GError **error)
{
  const char *name = row_columns[column].column;
  guint64 count;
  if (row_columns[column].max > 0)
    return base_ini_get_count (ini, "row_defaults", name, row_columns[column].min,
                               row_columns[column].max, &count, error);
  double number;
  guint dtype;
  if (g_str_equal (name, "dropout"))
    return base_ini_get_number (ini, "row_defaults", name, BASE_DIM_RATIO, 0, 1, &number, error);
  return !g_str_equal (name, "dtype")
         || base_ini_get_enum_optional (ini, "row_defaults", name, model_dtype_names, &dtype,
                                        error);
}

static gboolean
read_row_defaults (BaseIni *ini, ModelProfile *profile, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (row_columns); i++) {
    const char *column = row_columns[i].column;
    if (!base_ini_has_key (ini, "row_defaults", column))
      continue;
    const char *value = base_ini_get_string (ini, "row_defaults", column, error);
    if (value == NULL || !check_row_default (ini, i, error))
      return FALSE;
    g_hash_table_replace (profile->row_defaults, g_strdup (column), g_strdup (value));
  }
  return TRUE;
}

static const struct {
  const char *key;
  gsize offset;
  double max;
} state_keys[] = {
#define STATE(key, most)                                                                           \
  {                                                                                                \
#key, G_STRUCT_OFFSET(ModelStates, key), most                                                  \
  }
  STATE (param_bytes, 8),  STATE (grad_bytes, 8),    STATE (main_grad_bytes, 8),
  STATE (master_bytes, 8), STATE (moment_bytes, 16), STATE (step_copy_bytes, 8),
#undef STATE
};

static ModelStates
plain_states (const ModelProfile *profile)
{
  return (ModelStates){ profile->param_bytes,  profile->grad_bytes,   profile->main_grad_bytes,
                        profile->master_bytes, profile->moment_bytes, profile->step_copy_bytes };
}

/* @group: what differs from [states], or from @own, where that dtype is trained in. */
static gboolean
read_states_of (BaseIni *ini, const char *group, const ModelProfile *profile, ModelStates **own,
                GError **error)
{
  if (!base_ini_has_group (ini, group))
    return TRUE;
  ModelStates states = *own != NULL ? **own : plain_states (profile);
  for (guint i = 0; i < G_N_ELEMENTS (state_keys); i++)
    if (!base_ini_get_number_optional (ini, group, state_keys[i].key, BASE_DIM_BYTES, 0,
                                       state_keys[i].max,
                                       G_STRUCT_MEMBER_P (&states, state_keys[i].offset), error))
      return FALSE;
  g_free (*own);
  *own = g_memdup2 (&states, sizeof states);
  return TRUE;
}

/* Weights are somewhere: as the copy that computes, or as the master copy alone. */
static gboolean
read_states (BaseIni *ini, ModelProfile *profile, GError **error)
{
  if (!read_states_of (ini, "states_bf16", profile, &profile->states_bf16, error)
      || !read_states_of (ini, "states_fp16", profile, &profile->states_fp16, error))
    return FALSE;
  for (guint dtype = 0; dtype < MODEL_DTYPE_N_KINDS; dtype++) {
    ModelStates states = model_profile_states (profile, (ModelDtype)dtype);
    if (states.param_bytes + states.master_bytes > 0)
      continue;
    base_ini_set_error (ini, "states", "param_bytes", error,
                        "found 0 here and for master_bytes, expected weights in one of them");
    return FALSE;
  }
  return TRUE;
}

ModelStates
model_profile_states (const ModelProfile *profile, ModelDtype dtype)
{
  const ModelStates *own = dtype == MODEL_DTYPE_BF16   ? profile->states_bf16
                           : dtype == MODEL_DTYPE_FP16 ? profile->states_fp16
                                                       : NULL;
  return own != NULL ? *own : plain_states (profile);
}

static double
key_value (const KeyFacts *facts, const ModelProfile *profile)
{
  gconstpointer field = G_STRUCT_MEMBER_P (profile, facts->offset);
  switch (facts->kind) {
  case KEY_SWITCH:
    return *(const gboolean *)field;
  case KEY_BYTES:
    return *(const double *)field;
  case KEY_COUNT64:
    return (double)*(const guint64 *)field;
  case KEY_COUNT32:
    return *(const guint32 *)field;
  default:
    return *(const guint8 *)field;
  }
}

char *
model_profile_format (const ModelProfile *profile)
{
  GString *text = g_string_new (NULL);
  g_string_append_printf (text, "calibration=%s\n", profile->calibration);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    g_string_append_printf (text, "%s=%.17g\n", keys[i].key, key_value (&keys[i], profile));
  g_string_append_printf (text, "logits_tp_peak_bytes=%.17g\nmax_zero=%u\ndtypes=%u\n",
                          profile->logits_tp_peak_bytes, profile->max_zero, profile->dtypes);
  for (guint dtype = 0; dtype < MODEL_DTYPE_N_KINDS; dtype++) {
    ModelStates states = model_profile_states (profile, (ModelDtype)dtype);
    for (guint i = 0; i < G_N_ELEMENTS (state_keys); i++)
      g_string_append_printf (text, "%s.%s=%.17g\n", model_dtype_name ((ModelDtype)dtype),
                              state_keys[i].key,
                              *(double *)G_STRUCT_MEMBER_P (&states, state_keys[i].offset));
  }
  return g_string_free (text, FALSE);
}

/* NULL-terminated names to suggest from when a key is unknown. */
static gboolean
finish (BaseIni *ini, GError **error)
{
  const char *known[G_N_ELEMENTS (keys) + 8]
      = { "frameworks", "generations", "notes", "calibration", "base", "source", "dtypes" };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    known[7 + i] = keys[i].key;
  return base_ini_finish (ini, known, error);
}

/* The one switch that most frameworks need not state. */
static gboolean
read_max_zero (BaseIni *ini, gboolean is_built_on, ModelProfile *profile, GError **error)
{
  guint64 stage = is_built_on ? profile->max_zero : 3;
  if (!base_ini_get_count_optional (ini, "communication", "max_zero", 0, 3, &stage, error))
    return FALSE;
  profile->max_zero = (guint8)stage;
  return TRUE;
}

/* A profile to read into: empty, or as @base. (owned) */
static ModelProfile *
profile_new (const char *name, const ModelProfile *base)
{
  ModelProfile *profile = g_new0 (ModelProfile, 1);
  if (base != NULL)
    *profile = *base;
  profile->name = g_strdup (name);
  profile->calibration = g_strdup (base != NULL ? base->calibration : name);
  profile->frameworks = profile->generations = profile->notes = NULL;
  profile->source = NULL;
  profile->states_bf16 = profile->states_fp16 = NULL;
  profile->row_defaults = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  GHashTableIter iter;
  gpointer column, value;
  if (base == NULL)
    return profile;
  if (base->states_bf16 != NULL)
    profile->states_bf16 = g_memdup2 (base->states_bf16, sizeof *base->states_bf16);
  if (base->states_fp16 != NULL)
    profile->states_fp16 = g_memdup2 (base->states_fp16, sizeof *base->states_fp16);
  g_hash_table_iter_init (&iter, base->row_defaults);
  while (g_hash_table_iter_next (&iter, &column, &value))
    g_hash_table_insert (profile->row_defaults, g_strdup (column), g_strdup (value));
  return profile;
}

static ModelProfile *
read_profile (BaseIni *ini, const char *name, const ModelProfile *base, GError **error)
{
  g_autoptr (ModelProfile) profile = profile_new (name, base);
  profile->frameworks = base_ini_get_list (ini, "profile", "frameworks");
  profile->generations = base_ini_get_list (ini, "profile", "generations");
  profile->notes = base_ini_get_list (ini, "profile", "notes");
  const char *source = base_ini_get_string (ini, "profile", "source", error);
  if (source == NULL)
    return NULL;
  profile->source = g_strdup (source);
  const char *calibration = base_ini_get_string_or (ini, "profile", "calibration", NULL);
  if (calibration != NULL) {
    g_free (profile->calibration);
    profile->calibration = g_strdup (calibration);
  }
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (!read_key (ini, &keys[i], base != NULL, profile, error))
      return NULL;
  if (!base_ini_get_number_optional (ini, "loss", "logits_tp_peak_bytes", BASE_DIM_BYTES, 0, 64,
                                     &profile->logits_tp_peak_bytes, error))
    return NULL;
  if (!read_max_zero (ini, base != NULL, profile, error) || !read_states (ini, profile, error)
      || !read_dtypes (ini, base != NULL, profile, error)
      || !read_row_defaults (ini, profile, error) || !finish (ini, error))
    return NULL;
  return g_steal_pointer (&profile);
}

ModelProfile *
model_profile_from_ini (BaseIni *ini, const char *name, GError **error)
{
  return read_profile (ini, name, NULL, error);
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

#define MAX_BASES 8 /* a profile on a profile on … */

static ModelProfile *
load (const BaseCatalog *catalog, const char *slug_or_path, guint depth, GError **error)
{
  g_autoptr (BaseIni) ini = base_catalog_open_any (catalog, "profiles", slug_or_path, NULL, error);
  if (ini == NULL)
    return NULL;
  g_autofree char *name = name_of (slug_or_path);
  g_autoptr (ModelProfile) base = NULL;
  const char *base_name = base_ini_get_string_or (ini, "profile", "base", NULL);
  if (base_name != NULL && depth == MAX_BASES) {
    base_ini_set_error (ini, "profile", "base", error,
                        "found a chain of more than %d profiles, expected none that leads back",
                        MAX_BASES);
    return NULL;
  }
  if (base_name != NULL) {
    base = load (catalog, base_name, depth + 1, error);
    if (base == NULL)
      return NULL;
  }
  return read_profile (ini, name, base, error);
}

ModelProfile *
model_profile_load (const BaseCatalog *catalog, const char *slug_or_path, GError **error)
{
  return load (catalog, slug_or_path, 0, error);
}

void
model_profile_free (ModelProfile *profile)
{
  if (profile == NULL)
    return;
  g_free (profile->name);
  g_free (profile->calibration);
  g_strfreev (profile->frameworks);
  g_strfreev (profile->generations);
  g_strfreev (profile->notes);
  g_free (profile->states_bf16);
  g_free (profile->states_fp16);
  g_clear_pointer (&profile->row_defaults, g_hash_table_unref);
  g_free (profile->source);
  g_free (profile);
}

static guint
literal_length (const char *pattern)
{
  guint n = 0;
  for (; *pattern != '\0'; pattern++)
    n += *pattern != '*' && *pattern != '?';
  return n;
}

/* Characters that the longest matching pattern spells out, 1 at least; 0: none matches. Without
 * regard to case. */
static guint
matches (char *const *patterns, const char *text)
{
  guint most = 0;
  g_autofree char *lower = g_utf8_strdown (text, -1);
  for (guint i = 0; patterns != NULL && patterns[i] != NULL; i++) {
    g_autofree char *pattern = g_utf8_strdown (patterns[i], -1);
    if (g_pattern_match_simple (pattern, lower))
      most = MAX (most, MAX (literal_length (pattern), 1));
  }
  return most;
}

/* Patterns of notes: one that does not begin with "!" matches, if there are such, and none behind a
 * "!" does. Notes that are not there say nothing. */
static gboolean
notes_fit (char *const *patterns, const char *notes)
{
  gboolean has_wanted = FALSE;
  const char *text = notes != NULL ? notes : "";
  for (guint i = 0; patterns[i] != NULL; i++) {
    char *const unwanted[] = { patterns[i][0] == '!' ? patterns[i] + 1 : NULL, NULL };
    has_wanted |= unwanted[0] == NULL;
    if (unwanted[0] != NULL && matches (unwanted, text))
      return FALSE;
  }
  return !has_wanted || matches (patterns, text);
}

/* As matches, of a framework's label: the profile's own name is one of its patterns. */
static guint
matches_label (char *const *patterns, const char *name, const char *label)
{
  char *const own[] = { (char *)name, NULL };
  return MAX (matches (patterns, label), matches (own, label));
}

gboolean
model_profile_claims (const ModelProfile *profile, const char *framework)
{
  return matches_label (profile->frameworks, profile->name, framework) > 0;
}

#define MORE_THAN_A_LABEL 1000u

/* How many of the three the profile speaks of, and then how much of the label its pattern spells
 * out; 0 if any of them does not match. */
static guint
likeness (BaseIni *ini, const char *slug, const char *framework, const char *generation,
          const char *notes)
{
  g_auto (GStrv) frameworks = base_ini_get_list (ini, "profile", "frameworks");
  g_auto (GStrv) generations = base_ini_get_list (ini, "profile", "generations");
  g_auto (GStrv) patterns = base_ini_get_list (ini, "profile", "notes");
  gboolean by_generation = generations != NULL && generations[0] != NULL;
  gboolean by_notes = patterns != NULL && patterns[0] != NULL;
  guint length = matches_label (frameworks, slug, framework);
  if (length == 0)
    return 0;
  if (by_generation && (generation == NULL || !matches (generations, generation)))
    return 0;
  if (by_notes && !notes_fit (patterns, notes))
    return 0;
  return (1u + by_generation + by_notes) * MORE_THAN_A_LABEL + MIN (length, MORE_THAN_A_LABEL - 1);
}

char *
model_profile_for_run (const BaseCatalog *catalog, const char *framework, const char *generation,
                       const char *notes)
{
  g_auto (GStrv) slugs = base_catalog_list (catalog, "profiles");
  const char *best = "generic";
  guint most = 0;
  for (guint i = 0; slugs != NULL && slugs[i] != NULL; i++) {
    g_autoptr (BaseIni) ini = base_catalog_open (catalog, "profiles", slugs[i], NULL);
    guint score = ini != NULL ? likeness (ini, slugs[i], framework, generation, notes) : 0;
    if (score > 0 && score >= most) {
      most = score;
      best = slugs[i];
    }
  }
  return g_strdup (best);
}
