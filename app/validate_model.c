/* app/validate_model.c - the architecture of a measured row.
 *
 * Columns give the sizes. What they have no word for (latent attention, windows, norms, biases,
 * positions) comes from the catalog's model of the same shape: equal hidden, heads and MLP width.
 * Without one, gated MLPs go with RMSNorm and rotary positions (Llama), others with LayerNorm,
 * biases, learned positions (GPT) and the dropout that the framework has by default.
 */
#include "app/validate-private.h"

#include <math.h>

#define MAX_SIZE (1u << 24)

/* The columns, as numbers; 0: empty. */
typedef struct {
  guint64 layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq;
  guint64 experts, topk, moe_ffn, shared_experts, moe_layers;
  double gated, tied; /* NaN: empty */
  gboolean is_moe;
} Shape;

static gboolean
read_shape (const ValidateCells *cells, Shape *s, GError **error)
{
  const struct {
    const char *column;
    guint64 *out;
  } counts[] = {
    { "layers", &s->layers },
    { "hidden", &s->hidden },
    { "heads", &s->heads },
    { "kv_heads", &s->kv_heads },
    { "ffn", &s->ffn },
    { "head_dim", &s->head_dim },
    { "vocab", &s->vocab },
    { "experts", &s->experts },
    { "topk", &s->topk },
    { "moe_ffn", &s->moe_ffn },
    { "seq", &s->seq },
    { "shared_experts", &s->shared_experts },
    { "moe_layers", &s->moe_layers },
  };

  *s = (Shape){ 0 };
  for (gsize i = 0; i < G_N_ELEMENTS (counts); i++)
    if (!validate_cell_count (cells, counts[i].column, TRUE, G_MAXUINT32, counts[i].out, error))
      return FALSE;
  s->is_moe = g_str_equal (validate_cell (cells, "arch"), "moe");
  return validate_cell_number (cells, "gated", &s->gated, error)
         && validate_cell_number (cells, "tied", &s->tied, error);
}

/* Column without which nothing can be said, or NULL. */
static const char *
missing_column (const Shape *s)
{
  const struct {
    const char *column;
    guint64 value;
    gboolean needed;
  } needs[] = {
    { "layers", s->layers, TRUE },
    { "hidden", s->hidden, TRUE },
    { "heads", s->heads, TRUE },
    { "seq", s->seq, TRUE },
    { "ffn", s->ffn, !s->is_moe || s->moe_layers < s->layers },
    { "experts", s->experts, s->is_moe },
    { "topk", s->topk, s->is_moe },
    { "moe_ffn", s->moe_ffn, s->is_moe },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (needs); i++)
    if (needs[i].needed && needs[i].value == 0)
      return needs[i].column;
  return NULL;
}

/* How much @arch looks like the row: 0 not at all. */
static guint
likeness (const ModelArch *arch, const Shape *s)
{
  gboolean any_moe = FALSE, mlp_matches = FALSE;
  guint score = 1;

  if (arch->hidden != s->hidden || arch->attention.heads != s->heads)
    return 0;
  for (guint i = 0; i < arch->n_runs; i++) {
    const ModelBlockRun *run = &arch->runs[i];

    any_moe |= run->kind == MODEL_BLOCK_MOE;
    if (s->is_moe && run->kind == MODEL_BLOCK_MOE && run->moe.expert_ffn == s->moe_ffn) {
      mlp_matches = TRUE;
      score += run->moe.experts == s->experts;
    }
    if (!s->is_moe && run->kind == MODEL_BLOCK_DENSE && run->ffn == s->ffn)
      mlp_matches = TRUE;
  }
  if (!mlp_matches || any_moe != s->is_moe)
    return 0;
  return score + (arch->layers == s->layers) + (arch->vocab == s->vocab);
}

/* The most similar model of the catalog, the first of equals. (borrowed) (nullable) */
static const ModelArch *
find_twin (const GPtrArray *models, const Shape *s)
{
  const ModelArch *best = NULL;
  guint best_score = 0;

  for (guint i = 0; i < models->len; i++) {
    const ModelArch *arch = g_ptr_array_index (models, i);
    guint score = likeness (arch, s);

    if (score > best_score) {
      best = arch;
      best_score = score;
    }
  }
  return best;
}

static void
fill_attention (ModelArch *arch, const Shape *s, const ModelArch *twin)
{
  ModelAttention *a = &arch->attention;

  if (twin != NULL)
    *a = twin->attention;
  else
    *a = (ModelAttention){ .qkv_bias = !arch->gated, .out_bias = !arch->gated };
  a->heads = (guint32)s->heads;
  if (a->kind == MODEL_ATTENTION_MLA) {
    a->kv_heads = a->heads;
    return;
  }
  a->kv_heads = (guint32)(s->kv_heads != 0 ? s->kv_heads : s->heads);
  a->head_dim = (guint32)(s->head_dim != 0 ? s->head_dim : s->hidden / s->heads);
  a->v_head_dim = a->head_dim;
  if (twin == NULL)
    a->rotary_ratio = arch->position == MODEL_POSITION_ROTARY;
}

/* Sizes of the model but for its blocks. */
static void
fill_model (ModelArch *arch, const Shape *s, const ModelArch *twin, const ModelProfile *profile)
{
  arch->hidden = s->hidden;
  arch->vocab = s->vocab != 0 ? s->vocab : twin->vocab;
  arch->gated = !isnan (s->gated) ? s->gated != 0 : twin != NULL && twin->gated;
  arch->tied = !isnan (s->tied) ? s->tied != 0 : twin != NULL && twin->tied;
  if (twin != NULL) {
    arch->activation = twin->activation;
    arch->mlp_bias = twin->mlp_bias;
    arch->norm = twin->norm;
    arch->norms_per_block = twin->norms_per_block;
    arch->parallel_residual = twin->parallel_residual;
    arch->position = twin->position;
    arch->embedding_norm = twin->embedding_norm;
    arch->head_bias = twin->head_bias;
    arch->dropout = twin->dropout;
  } else {
    arch->activation = arch->gated ? MODEL_ACTIVATION_SILU : MODEL_ACTIVATION_GELU;
    arch->mlp_bias = !arch->gated;
    arch->norm = arch->gated ? MODEL_NORM_RMS : MODEL_NORM_LAYER;
    arch->norms_per_block = 2;
    arch->position = arch->gated ? MODEL_POSITION_ROTARY : MODEL_POSITION_LEARNED;
  }
  if (twin == NULL && !arch->gated) {
    const char *dropout = g_hash_table_lookup (profile->row_defaults, "dropout");

    arch->dropout = dropout != NULL ? g_ascii_strtod (dropout, NULL) : 0;
  }
  if (arch->position == MODEL_POSITION_LEARNED)
    arch->position_rows = (guint32)s->seq;
}

/*
 * Which of @layers blocks are MoE where only @moe_layers are: every second one when they are half
 * (Llama 4), else all after the first dense ones (DeepSeek).
 */
static gboolean
is_moe_block (const Shape *s, guint64 layer)
{
  guint64 n_moe = s->moe_layers != 0 ? MIN (s->moe_layers, s->layers) : s->layers;

  if (!s->is_moe)
    return FALSE;
  if (2 * n_moe == s->layers)
    return layer % 2 == 1;
  return layer >= s->layers - n_moe;
}

static gboolean
runs_alike (const ModelBlockRun *a, const ModelBlockRun *b)
{
  return a->kind == b->kind && a->window == b->window;
}

static void
fill_blocks (ModelArch *arch, const Shape *s, const ModelArch *twin)
{
  arch->runs = g_new0 (ModelBlockRun, s->layers);
  for (guint64 i = 0; i < s->layers; i++) {
    ModelBlockRun block = { .count = 1 };

    if (twin != NULL && i < twin->layers)
      block.window = model_arch_run_of (twin, (guint32)i)->window;
    if (is_moe_block (s, i)) {
      block.kind = MODEL_BLOCK_MOE;
      block.moe = (ModelMoe){ .experts = (guint32)s->experts,
                              .topk = (guint32)s->topk,
                              .expert_ffn = (guint32)s->moe_ffn,
                              .shared_ffn = (guint32)(s->shared_experts * s->moe_ffn) };
    } else
      block.ffn = (guint32)s->ffn;
    if (arch->n_runs > 0 && runs_alike (&arch->runs[arch->n_runs - 1], &block))
      arch->runs[arch->n_runs - 1].count++;
    else
      arch->runs[arch->n_runs++] = block;
  }
  arch->layers = (guint32)s->layers;
}

static void
note_assumed (ValidateCase *c, const Shape *s, gboolean is_mla)
{
  if (s->vocab == 0)
    validate_assume (c, "vocab");
  if (isnan (s->gated))
    validate_assume (c, "gated");
  if (isnan (s->tied))
    validate_assume (c, "tied");
  if (s->kv_heads == 0 && !is_mla)
    validate_assume (c, "kv_heads");
  if (s->head_dim == 0 && !is_mla)
    validate_assume (c, "head_dim");
}

gboolean
validate_resolve_model (ValidateCase *c, const ValidateShelf *shelf, GError **error)
{
  g_autoptr (ModelArch) arch = NULL;
  g_autoptr (GError) why = NULL;
  const char *name = validate_cell (&c->cells, "model");
  const ModelArch *twin = NULL;
  const char *missing = NULL;
  Shape s;

  if (!read_shape (&c->cells, &s, error))
    return FALSE;
  missing = missing_column (&s);
  if (missing != NULL)
    return validate_skip (c, "no %s", missing);
  if (s.layers > 4096)
    return validate_skip (c, "model: more than 4096 layers");
  twin = find_twin (shelf->models, &s);
  if (s.vocab == 0 && twin == NULL)
    return validate_skip (c, "no vocab");
  if (s.head_dim == 0 && s.hidden % s.heads != 0)
    return validate_skip (c, "no head_dim");
  arch = g_new0 (ModelArch, 1);
  arch->name = g_strdup (*name != '\0' ? name : "model");
  arch->family = g_strdup ("measured");
  arch->assumed = g_ptr_array_new_with_free_func (g_free);
  fill_model (arch, &s, twin, c->setting.profile);
  fill_attention (arch, &s, twin);
  fill_blocks (arch, &s, twin);
  validate_fill_from_notes (c, arch);
  if (c->skip != NULL)
    return TRUE;
  note_assumed (c, &s, arch->attention.kind == MODEL_ATTENTION_MLA);
  if (!model_arch_validate (arch, &why))
    return validate_skip (c, "model: %s", why->message);
  c->setting.arch = g_steal_pointer (&arch);
  return TRUE;
}
