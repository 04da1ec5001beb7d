/* exec/rank.c - the parameters of a rank and what fills them. */
#include "exec/rank.h"
#include "base/philox.h"
#include <string.h>

#define SEED         20240607                          /* any number: all layouts use the same */
#define INITIAL_STD  0.02                              /* GPT-2's initializer range */
#define TOKEN_STREAM G_GUINT64_CONSTANT (0x746f6b656e) /* apart from all parameters' streams */

typedef struct {
  gboolean refused;
  const char *what;
} Refusal;

gboolean
exec_rank_supported (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                     GError **error)
{
  const ModelAttention *a = &arch->attention;
  gboolean moe = FALSE;
  for (guint i = 0; i < arch->n_runs; i++)
    moe |= arch->runs[i].kind != MODEL_BLOCK_DENSE;
  const Refusal refusals[] = {
    { moe, "experts (MoE blocks)" },
    { a->kind == MODEL_ATTENTION_MLA, "latent attention (MLA)" },
    { a->sinks, "attention sinks" },
    { arch->position == MODEL_POSITION_ALIBI, "ALiBi positions" },
    { arch->position == MODEL_POSITION_LEARNED && job->seq > arch->position_rows,
      "sequences longer than the table of learned positions" },
    { job->dropout > 0, "dropout (give --dropout 0)" },
    { job->phase != MODEL_PHASE_TRAIN, "a phase other than train" },
    { layout->ep > 1 || layout->etp > 1, "expert parallelism (ep, etp)" },
    { layout->cp > 1, "context parallelism (cp)" },
    { layout->zero > 1, "zero=2 and zero=3 (zero=1 runs)" },
    { layout->hsdp > 0, "hsdp" },
    { layout->cuda_graph != MODEL_GRAPH_NONE, "CUDA graphs (cuda_graph)" },
    { layout->tp_sync < 1, "partial synchronization (tp_sync)" },
    { a->kv_heads % layout->tp != 0, "fewer kv heads than tp" },
    { a->qk_norm && layout->tp > 1 && !layout->sp, "norms of q and k with tp but without sp" },
    { model_schedule_is_folded (layout->schedule)
          || model_schedule_is_bidirectional (layout->schedule),
      "schedules that fold the pipeline or run both ways" },
    { layout->dtype != MODEL_DTYPE_FP32 && layout->dtype != MODEL_DTYPE_BF16,
      "a dtype other than fp32 and bf16" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    if (refusals[i].refused) {
      g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNSUPPORTED, "exec does not run %s",
                   refusals[i].what);
      return FALSE;
    }
  return TRUE;
}

static void
set_segments (const ModelArch *arch, ExecParam *p)
{
  const ModelAttention *a = &arch->attention;
  guint64 wide = (guint64)a->heads * a->head_dim, narrow = (guint64)a->kv_heads * a->head_dim;
  p->n_segments = 1;
  p->segments[0] = p->rows;
  if (g_str_has_prefix (p->name, "linear_qkv")) {
    p->n_segments = 3;
    p->segments[0] = wide;
    p->segments[1] = p->segments[2] = narrow;
  } else if (g_str_has_prefix (p->name, "linear_fc1") && arch->gated) {
    p->n_segments = 2;
    p->segments[0] = p->segments[1] = p->rows / 2;
  }
}

static ExecParam
make_param (const ExecRank *r, const ModelProgramPiece *piece, guint index)
{
  ModelParam list[MODEL_PARAMS_MAX];
  guint n = model_params_list (r->arch, piece->part, piece->run, list);
  const ModelTensor *tensor = &r->program->tensors[piece->first_tensor + index];
  ExecParam p = { .name = tensor->name,
                  .part = piece->part,
                  .layer = piece->layer,
                  .index = index,
                  .chunk = piece->chunk };
  /* A tied head's matrix is not listed: it is the embedding's, wherever it lies. */
  p.split = index < n ? list[index].split : MODEL_PARAM_SPLIT_COLUMN;
  if (index >= n) {
    p.part = MODEL_PART_EMBEDDING;
    p.index = 0;
  }
  p.rows = tensor->shape[0];
  p.columns = tensor->n_dims > 1 ? tensor->shape[1] : 1;
  p.local_rows = p.split == MODEL_PARAM_SPLIT_COLUMN ? p.rows / r->layout->tp : p.rows;
  p.local_columns = p.split == MODEL_PARAM_SPLIT_ROW ? p.columns / r->layout->tp : p.columns;
  p.count = p.local_rows * p.local_columns;
  set_segments (r->arch, &p);
  return p;
}

static guint32
find_param (const ExecRank *r, const ExecParam *like)
{
  for (guint i = 0; i < r->n_params; i++) {
    const ExecParam *p = &r->params[i];
    if (p->part == like->part && p->index == like->index
        && (p->part != MODEL_PART_BLOCK || p->layer == like->layer))
      return i;
  }
  return MODEL_TENSOR_NONE;
}

static void
list_params (ExecRank *r)
{
  const ModelProgram *program = r->program;
  guint room = 0;
  for (guint i = 0; i < program->n_pieces; i++)
    room += program->pieces[i].n_weights;
  r->params = g_new0 (ExecParam, room);
  for (guint i = 0; i < program->n_pieces; i++) {
    const ModelProgramPiece *piece = &program->pieces[i];
    for (guint j = 0; j < piece->n_weights; j++) {
      ExecParam p = make_param (r, piece, j);
      guint32 known = p.part == MODEL_PART_EMBEDDING ? find_param (r, &p) : MODEL_TENSOR_NONE;
      if (known == MODEL_TENSOR_NONE) {
        known = r->n_params;
        r->params[r->n_params++] = p;
      }
      r->param_of[piece->first_tensor + j] = known;
    }
  }
}

/* Summed by others than the data-parallel ranks first: tp ranks, or the stage that holds the same
 * embedding. */
static gboolean
is_shared (const ExecRank *r, const ExecParam *p)
{
  gboolean tied = r->layout->pp > 1 && r->arch->tied;
  return p->split == MODEL_PARAM_SPLIT_NONE
         || (tied && p->part == MODEL_PART_EMBEDDING && p->index == 0);
}

/* Elements after which a bucket ends. */
static guint64
bucket_elements (const ExecRank *r, guint64 asked)
{
  guint64 all = 0;
  if (!r->layout->overlap_dp || r->map.dp == 1)
    return G_MAXUINT64;
  for (guint i = 0; i < r->n_params; i++)
    all += r->params[i].count;
  return MAX (asked > 0 ? asked : all, all / (EXEC_MAX_BUCKETS / 2));
}

static void
end_bucket (ExecRank *r)
{
  ExecGradBucket *b = &r->buckets[r->n_buckets++];
  guint32 shards = r->layout->zero > 0 ? r->map.dp : 1;
  b->shard_count
      = model_shard_ceil (model_shard_ceil (b->count, shards), EXEC_SHARD_UNIT) * EXEC_SHARD_UNIT;
  b->own_first = b->first + (r->layout->zero > 0 ? r->at.dp * b->shard_count : 0);
  b->state_first = r->shard_count;
  r->shard_count += b->shard_count;
  r->padded_count = b->first + b->shard_count * shards;
  b[1] = (ExecGradBucket){ .first = r->padded_count };
}

static void
place_param (ExecRank *r, ExecParam *p)
{
  ExecGradBucket *b = &r->buckets[r->n_buckets];
  p->bucket = r->n_buckets;
  p->offset = b->first + b->count;
  b->count += p->count;
}

/* @asked: bucket_elements of the profile, 0: whole model chunk at once. */
static void
place_params (ExecRank *r, guint64 asked)
{
  guint64 most = bucket_elements (r, asked);
  r->buckets = g_new0 (ExecGradBucket, EXEC_MAX_BUCKETS + 1);
  for (guint i = 0; i < r->n_params; i++)
    if (r->params[i].split == MODEL_PARAM_SPLIT_NONE)
      place_param (r, &r->params[i]);
  r->replicated_count = r->buckets[0].count;
  for (guint i = 0; i < r->n_params; i++)
    if (r->params[i].split != MODEL_PARAM_SPLIT_NONE && is_shared (r, &r->params[i]))
      place_param (r, &r->params[i]);
  r->buckets[0].is_shared = TRUE;
  if (most < G_MAXUINT64 && r->buckets[0].count > 0)
    end_bucket (r);
  for (guint i = 0; i < r->n_params; i++) {
    const ExecParam *before = i > 0 ? &r->params[i - 1] : NULL;
    ExecParam *p = &r->params[i];
    gboolean new_piece = before != NULL && (before->part != p->part || before->layer != p->layer);
    const ExecGradBucket *b = &r->buckets[r->n_buckets];
    gboolean ends = b->count >= most
                    || (asked == 0 && b->count > 0 && before != NULL && most < G_MAXUINT64
                        && before->chunk != p->chunk);
    if (new_piece && ends && r->n_buckets + 2 < EXEC_MAX_BUCKETS)
      end_bucket (r);
    if (!is_shared (r, p))
      place_param (r, p);
  }
  end_bucket (r);
}

/* How often a step adds to the gradients of each bucket. */
static void
count_writes (ExecRank *r)
{
  for (guint32 i = 0; i < r->program->n_ops; i++) {
    const ModelOp *op = &r->program->ops[i];
    for (guint j = 0; j < op->n_out; j++)
      if (r->program->tensors[op->out[j]].role == MODEL_ROLE_WEIGHT_GRAD)
        r->buckets[r->params[r->param_of[op->out[j]]].bucket].n_writes += r->program->microbatches;
  }
}

/* A gradient lies in the piece of its weight and has its name. */
static void
map_gradients (ExecRank *r)
{
  const ModelProgram *program = r->program;
  for (guint i = 0; i < program->n_pieces; i++) {
    const ModelProgramPiece *piece = &program->pieces[i];
    guint32 first = piece->first_tensor;
    for (guint32 t = first + piece->n_weights; t < first + piece->n_tensors; t++)
      for (guint32 w = first; w < first + piece->n_weights; w++)
        if (program->tensors[t].role == MODEL_ROLE_WEIGHT_GRAD
            && g_str_equal (program->tensors[t].name, program->tensors[w].name))
          r->param_of[t] = r->param_of[w];
  }
}

ExecRank *
exec_rank_new (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
               const ModelProfile *profile, guint32 rank, GError **error)
{
  if (!exec_rank_supported (arch, job, layout, error))
    return NULL;
  g_autoptr (ExecRank) r = g_new0 (ExecRank, 1);
  r->arch = arch;
  r->job = job;
  r->layout = layout;
  r->rank = rank;
  r->element_bytes = layout->dtype == MODEL_DTYPE_BF16 ? 2 : 4;
  model_rankmap_init (&r->map, layout);
  r->at = model_rankmap_coordinates (&r->map, rank);
  r->program = model_program_new (arch, job, layout, profile, r->at.pp, error);
  if (r->program == NULL)
    return NULL;
  r->param_of = g_new (guint32, r->program->n_tensors);
  r->n_users = g_new0 (guint32, r->program->n_tensors);
  for (guint i = 0; i < r->program->n_tensors; i++)
    r->param_of[i] = MODEL_TENSOR_NONE;
  for (guint i = 0; i < r->program->n_ops; i++)
    for (guint j = 0; j < r->program->ops[i].n_in; j++)
      r->n_users[r->program->ops[i].in[j]]++;
  list_params (r);
  place_params (r, profile->bucket_elements);
  map_gradients (r);
  count_writes (r);
  r->n_slots = exec_messages_slots (r->program->schedule);
  return g_steal_pointer (&r);
}

void
exec_rank_free (ExecRank *rank)
{
  if (rank == NULL)
    return;
  model_program_free (rank->program);
  g_free (rank->params);
  g_free (rank->param_of);
  g_free (rank->n_users);
  g_free (rank->buckets);
  g_free (rank);
}

gboolean
exec_rank_runs_beside (const ExecRank *rank, const ModelOp *op)
{
  return rank->layout->overlap_tp && op->kind == MODEL_OP_COLLECTIVE
         && op->stream == MODEL_STREAM_TP && op->phase != MODEL_PHASE_TAIL
         && !g_str_has_prefix (op->name, "loss_");
}

guint64
exec_param_global (const ExecParam *p, guint32 tp, guint32 tp_rank, guint64 local)
{
  guint64 row = local / p->local_columns, column = local % p->local_columns, start = 0;
  if (p->split == MODEL_PARAM_SPLIT_ROW)
    return row * p->columns + tp_rank * p->local_columns + column;
  if (p->split != MODEL_PARAM_SPLIT_COLUMN)
    return local;
  for (guint i = 0; i < p->n_segments; i++) {
    guint64 share = p->segments[i] / tp;
    if (row < share)
      return (start + tp_rank * share + row) * p->columns + column;
    row -= share;
    start += p->segments[i];
  }
  return 0;
}

float
exec_param_initial (const ExecParam *p, guint64 global)
{
  guint64 stream = (guint64)p->part << 48 | (guint64)p->layer << 8 | p->index;
  double value = INITIAL_STD * base_philox_normal (SEED, stream, global);
  gboolean is_scale = p->columns == 1 && strstr (p->name, "norm") != NULL
                      && g_str_has_suffix (p->name, ".weight");
  return (float)(is_scale ? 1 + value : value);
}

gint32
exec_token (const ModelArch *arch, guint64 sequence, guint64 at)
{
  return (gint32)base_philox_below (SEED, TOKEN_STREAM, sequence << 32 | at, arch->vocab);
}

void
exec_tensor_shape (const ExecRank *rank, const ModelTensor *tensor, guint64 *out_rows,
                   guint64 *out_columns)
{
  const ModelPlacement *tp = &tensor->placement[MODEL_MESH_TP];
  gboolean shards = tp->kind == MODEL_PLACEMENT_SHARD;
  *out_rows = tensor->shape[0] / (shards && tp->dim == 0 ? rank->layout->tp : 1);
  *out_columns = tensor->shape[1] / (shards && tp->dim == 1 ? rank->layout->tp : 1);
}
