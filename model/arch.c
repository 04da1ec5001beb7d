/* model/arch.c - a model's architecture: life cycle, checks, and where it is loaded from. */
#include "model/arch.h"
#include "base/text.h"
#include "model/arch-private.h"
#include "model/params.h"
#include <string.h>

/* A config.json is a few kilobytes; this leaves room for long lists of layer types. */
#define MAX_FILE_BYTES (4u << 20)
/* Above this a parameter count is no longer exact in a double. */
#define MAX_PARAMETERS 9007199254740992.0

const char *const model_attention_kind_names[] = { "gqa", "mla", NULL };
const char *const model_norm_kind_names[] = { "rms", "layer", NULL };
const char *const model_position_kind_names[] = { "rotary", "learned", "alibi", "none", NULL };
const char *const model_activation_names[] = { "silu", "gelu", "relu", NULL };
const char *const model_block_kind_names[] = { "dense", "moe", NULL };

ModelArch *
model_arch_new (const char *name)
{
  ModelArch *arch = g_new0 (ModelArch, 1);
  arch->name = g_strdup (name);
  arch->norms_per_block = 2;
  arch->assumed = g_ptr_array_new_with_free_func (g_free);
  return arch;
}

void
model_arch_free (ModelArch *arch)
{
  if (arch == NULL)
    return;
  g_free (arch->name);
  g_free (arch->family);
  g_free (arch->runs);
  g_clear_pointer (&arch->assumed, g_ptr_array_unref);
  g_free (arch);
}

void
model_arch_assume (ModelArch *arch, const char *key, const char *why, const char *value_format, ...)
{
  va_list values;
  va_start (values, value_format);
  g_autofree char *value = g_strdup_vprintf (value_format, values);
  va_end (values);
  g_ptr_array_add (arch->assumed, g_strdup_printf ("%s=%s: %s", key, value, why));
}

static gboolean
moe_equal (const ModelMoe *a, const ModelMoe *b)
{
  return a->experts == b->experts && a->topk == b->topk && a->expert_ffn == b->expert_ffn
         && a->shared_ffn == b->shared_ffn && a->shared_gate == b->shared_gate
         && a->router_bias == b->router_bias;
}

static gboolean
blocks_equal (const ModelBlockRun *a, const ModelBlockRun *b)
{
  return a->kind == b->kind && a->window == b->window && a->ffn == b->ffn
         && moe_equal (&a->moe, &b->moe);
}

void
model_arch_add_blocks (ModelArch *arch, const ModelBlockRun *run)
{
  if (arch->n_runs > 0 && blocks_equal (&arch->runs[arch->n_runs - 1], run)) {
    arch->runs[arch->n_runs - 1].count += run->count;
  } else {
    arch->runs = g_renew (ModelBlockRun, arch->runs, arch->n_runs + 1);
    arch->runs[arch->n_runs++] = *run;
  }
  arch->layers += run->count;
}

const ModelBlockRun *
model_arch_run_of (const ModelArch *arch, guint32 layer)
{
  g_return_val_if_fail (layer < arch->layers, NULL);
  guint run = 0;
  while (layer >= arch->runs[run].count)
    layer -= arch->runs[run++].count;
  return &arch->runs[run];
}

static gboolean G_GNUC_PRINTF (3, 4)
    refuse (const ModelArch *arch, GError **error, const char *format, ...)
{
  va_list values;
  va_start (values, format);
  g_autofree char *text = g_strdup_vprintf (format, values);
  va_end (values);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE, "%s: %s", arch->name, text);
  return FALSE;
}

static gboolean
in_range (const ModelArch *arch, const char *what, guint64 value, guint64 min, guint64 max,
          GError **error)
{
  if (value >= min && value <= max)
    return TRUE;
  return refuse (arch, error,
                 "%s: found %" G_GUINT64_FORMAT ", expected %" G_GUINT64_FORMAT
                 " to %" G_GUINT64_FORMAT,
                 what, value, min, max);
}

static gboolean
validate_mla (const ModelArch *arch, GError **error)
{
  const ModelAttention *a = &arch->attention;
  if (!in_range (arch, "kv_lora_rank", a->kv_lora_rank, 1, MODEL_MAX_HIDDEN, error)
      || !in_range (arch, "q_lora_rank", a->q_lora_rank, 0, MODEL_MAX_HIDDEN, error)
      || !in_range (arch, "qk_nope_dim", a->qk_nope_dim, 1, MODEL_MAX_HEAD_DIM, error)
      || !in_range (arch, "qk_rope_dim", a->qk_rope_dim, 0, MODEL_MAX_HEAD_DIM, error))
    return FALSE;
  if (a->kv_heads != a->heads)
    return refuse (arch, error, "kv_heads: found %u, expected %u (heads) with MLA", a->kv_heads,
                   a->heads);
  if (a->head_dim != a->qk_nope_dim + a->qk_rope_dim)
    return refuse (arch, error, "head_dim: found %u, expected qk_nope_dim + qk_rope_dim = %u",
                   a->head_dim, a->qk_nope_dim + a->qk_rope_dim);
  if (a->qk_norm || a->sinks)
    return refuse (arch, error, "qk_norm and sinks do not go with MLA");
  return TRUE;
}

static gboolean
validate_gqa (const ModelArch *arch, GError **error)
{
  const ModelAttention *a = &arch->attention;
  if (a->kv_lora_rank != 0 || a->q_lora_rank != 0 || a->qk_nope_dim != 0 || a->qk_rope_dim != 0)
    return refuse (arch, error,
                   "[attention] kind: lora ranks and qk dims belong to MLA, found gqa");
  if (a->kv_heads == 0 || a->heads % a->kv_heads != 0)
    return refuse (arch, error, "kv_heads: found %u, expected a divisor of heads = %u", a->kv_heads,
                   a->heads);
  if (a->v_head_dim != a->head_dim)
    return refuse (arch, error, "v_head_dim: found %u, expected head_dim = %u", a->v_head_dim,
                   a->head_dim);
  return TRUE;
}

static gboolean
validate_attention (const ModelArch *arch, GError **error)
{
  const ModelAttention *a = &arch->attention;
  if (!in_range (arch, "heads", a->heads, 1, MODEL_MAX_HEADS, error)
      || !in_range (arch, "head_dim", a->head_dim, 1, MODEL_MAX_HEAD_DIM, error)
      || !in_range (arch, "v_head_dim", a->v_head_dim, 1, MODEL_MAX_HEAD_DIM, error))
    return FALSE;
  gboolean rotary = arch->position == MODEL_POSITION_ROTARY;
  if (!(a->rotary_ratio >= 0 && a->rotary_ratio <= 1) || (!rotary && a->rotary_ratio != 0))
    return refuse (arch, error, "rotary_ratio: found %g, expected %s", a->rotary_ratio,
                   rotary ? "0 to 1" : "0 without rotary positions");
  return a->kind == MODEL_ATTENTION_MLA ? validate_mla (arch, error) : validate_gqa (arch, error);
}

static gboolean
validate_moe (const ModelArch *arch, const ModelBlockRun *run, GError **error)
{
  const ModelMoe *moe = &run->moe;
  if (!in_range (arch, "experts", moe->experts, 1, MODEL_MAX_EXPERTS, error)
      || !in_range (arch, "topk", moe->topk, 1, moe->experts, error)
      || !in_range (arch, "expert_ffn", moe->expert_ffn, 1, MODEL_MAX_FFN, error)
      || !in_range (arch, "shared_ffn", moe->shared_ffn, 0, MODEL_MAX_FFN, error))
    return FALSE;
  if (run->ffn != 0)
    return refuse (arch, error, "ffn: found %u in a moe block, expected expert_ffn only", run->ffn);
  if (moe->shared_gate && moe->shared_ffn == 0)
    return refuse (arch, error, "shared_gate: found yes, expected no without shared_ffn");
  return TRUE;
}

static gboolean
validate_blocks (const ModelArch *arch, GError **error)
{
  static const ModelMoe no_moe = { 0 };
  guint64 layers = 0;
  for (guint i = 0; i < arch->n_runs; i++) {
    const ModelBlockRun *run = &arch->runs[i];
    if (!in_range (arch, "count of blocks", run->count, 1, MODEL_MAX_LAYERS, error)
        || !in_range (arch, "window", run->window, 0, G_MAXUINT32, error))
      return FALSE;
    layers += run->count;
    if (run->kind == MODEL_BLOCK_MOE) {
      if (!validate_moe (arch, run, error))
        return FALSE;
      continue;
    }
    if (!in_range (arch, "ffn", run->ffn, 1, MODEL_MAX_FFN, error))
      return FALSE;
    if (!moe_equal (&run->moe, &no_moe))
      return refuse (arch, error, "experts: found in a dense block, expected kind = moe");
  }
  if (!in_range (arch, "layers", layers, 1, MODEL_MAX_LAYERS, error))
    return FALSE;
  if (layers != arch->layers)
    return refuse (arch, error,
                   "layers: found %u, expected %" G_GUINT64_FORMAT " (the blocks added up)",
                   arch->layers, layers);
  return TRUE;
}

static gboolean
validate_position (const ModelArch *arch, GError **error)
{
  gboolean learned = arch->position == MODEL_POSITION_LEARNED;
  if (learned && !in_range (arch, "position_rows", arch->position_rows, 1, MODEL_MAX_VOCAB, error))
    return FALSE;
  if (!learned && arch->position_rows != 0)
    return refuse (arch, error, "position_rows: found %u, expected none without learned positions",
                   arch->position_rows);
  if (learned && arch->seq > arch->position_rows)
    return refuse (arch, error,
                   "seq: found %" G_GUINT64_FORMAT ", expected at most position_rows = %u",
                   arch->seq, arch->position_rows);
  return TRUE;
}

static gboolean
validate_norms (const ModelArch *arch, GError **error)
{
  guint32 norms = arch->norms_per_block;
  if (norms != 1 && norms != 2 && norms != 4)
    return refuse (arch, error, "norms_per_block: found %u, expected 1, 2 or 4", norms);
  if (norms == 1 && !arch->parallel_residual)
    return refuse (arch, error, "norms_per_block: found 1, expected 2 without parallel_residual");
  if (norms == 4 && arch->parallel_residual)
    return refuse (arch, error, "norms_per_block: found 4, expected 1 or 2 with parallel_residual");
  return TRUE;
}

/* The sum in floating point, where it cannot wrap around. */
static double
parameters_estimate (const ModelArch *arch)
{
  ModelParam params[MODEL_PARAMS_MAX];
  double total = 0;
  for (guint run = 0; run < arch->n_runs; run++) {
    guint n = model_params_list (arch, MODEL_PART_BLOCK, run, params);
    for (guint i = 0; i < n; i++)
      total += (double)params[i].count * arch->runs[run].count;
  }
  return total;
}

gboolean
model_arch_validate (const ModelArch *arch, GError **error)
{
  if (!in_range (arch, "hidden", arch->hidden, 1, MODEL_MAX_HIDDEN, error)
      || !in_range (arch, "vocab", arch->vocab, 1, MODEL_MAX_VOCAB, error)
      || !in_range (arch, "seq", arch->seq, 0, MODEL_MAX_SEQ, error)
      || !in_range (arch, "global_batch", arch->global_batch, 0, MODEL_MAX_SEQ, error))
    return FALSE;
  if (!(arch->dropout >= 0 && arch->dropout < 1))
    return refuse (arch, error, "dropout: found %g, expected 0 or more and less than 1",
                   arch->dropout);
  if (!validate_attention (arch, error) || !validate_position (arch, error)
      || !validate_norms (arch, error) || !validate_blocks (arch, error))
    return FALSE;
  double parameters = parameters_estimate (arch);
  if (parameters > MAX_PARAMETERS)
    return refuse (arch, error, "%.3g parameters are more than plait counts (2^53)", parameters);
  return TRUE;
}

/* File stem; the folder's name for DIR/config.json. Returns: (owned) */
static char *
name_of_path (const char *path)
{
  g_autofree char *base = g_path_get_basename (path);
  if (strcmp (base, "config.json") == 0 && strchr (path, G_DIR_SEPARATOR) != NULL) {
    g_autofree char *dir = g_path_get_dirname (path);
    g_autofree char *parent = g_path_get_basename (dir);
    if (strcmp (parent, ".") != 0 && strcmp (parent, "/") != 0)
      return g_steal_pointer (&parent);
  }
  char *dot = strrchr (base, '.');
  if (dot != NULL && dot != base)
    *dot = '\0';
  return g_steal_pointer (&base);
}

static ModelArch *
parse_file (const char *text, gsize length, const char *path, GError **error)
{
  g_autofree char *shown = base_text_path_excerpt (path);
  gsize start = base_text_bom_length (text, length);
  while (start < length && g_ascii_isspace (text[start]))
    start++;
  if (start < length && text[start] == '{')
    return model_arch_from_hf_json (text, (gssize)length, shown, error);
  if (g_str_has_suffix (path, ".json")) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "%s: found no '{' at its start, expected a JSON object", shown);
    return NULL;
  }
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, (gssize)length, shown, error);
  return ini != NULL ? model_arch_from_ini (ini, shown, error) : NULL;
}

static ModelArch *
load_file (const char *path, GError **error)
{
  gsize length = 0;
  g_autofree char *text
      = base_text_read_file (path, MAX_FILE_BYTES, &length, MODEL_ERROR, MODEL_ERROR_PARSE, error);
  if (text == NULL)
    return NULL;
  ModelArch *arch = parse_file (text, length, path, error);
  if (arch == NULL)
    return NULL;
  g_free (arch->name);
  arch->name = name_of_path (path);
  return arch;
}

static gboolean
is_slug (const BaseCatalog *catalog, const char *name)
{
  if (catalog == NULL)
    return FALSE;
  g_auto (GStrv) slugs = base_catalog_list (catalog, "models");
  return g_strv_contains ((const char *const *)slugs, name);
}

ModelArch *
model_arch_load (const BaseCatalog *catalog, const char *slug_or_path, GError **error)
{
  gboolean is_path = strchr (slug_or_path, G_DIR_SEPARATOR) != NULL
                     || g_str_has_suffix (slug_or_path, ".ini")
                     || g_str_has_suffix (slug_or_path, ".json");
  if (!is_path && !is_slug (catalog, slug_or_path))
    is_path = g_file_test (slug_or_path, G_FILE_TEST_EXISTS);
  if (is_path)
    return load_file (slug_or_path, error);
  g_return_val_if_fail (catalog != NULL, NULL);
  g_autoptr (BaseIni) ini = base_catalog_open (catalog, "models", slug_or_path, error);
  return ini != NULL ? model_arch_from_ini (ini, slug_or_path, error) : NULL;
}
