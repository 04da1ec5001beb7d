/* exec/run_op.c - from an op of the program to the backend's kernels. */
#include "exec/runner.h"

/* An op with its micro-batch, and where its operands lie. */
typedef struct {
  ExecRunner *r;
  const ExecBackend *b;
  const ExecRank *rank;
  const ModelOp *op;
  guint32 microbatch;
} Call;

void *
exec_run_tensor (const ExecRunner *r, guint32 id, guint32 microbatch)
{
  guint32 param = r->rank->param_of[id];
  if (param == MODEL_TENSOR_NONE)
    return exec_at (r, exec_memory_at (&r->memory, id, microbatch));
  guint64 offset = r->rank->params[param].offset;
  if (r->rank->program->tensors[id].role == MODEL_ROLE_WEIGHT_GRAD)
    return exec_gradients (r) + offset;
  return exec_weight (r, offset);
}

static void *
in (const Call *c, guint i)
{
  return exec_run_tensor (c->r, c->op->in[i], c->microbatch);
}

/* The @i-th input from element @at on. */
static const void *
in_at (const Call *c, guint i, guint64 at)
{
  return (const char *)in (c, i) + at * c->rank->element_bytes;
}

static void *
out (const Call *c, guint i)
{
  return exec_run_tensor (c->r, c->op->out[i], c->microbatch);
}

/* The @i-th output, a weight's gradient, from element @at on. */
static float *
grad_at (const Call *c, guint i, guint64 at)
{
  return (float *)out (c, i) + at;
}

static void
shape (const Call *c, guint32 id, guint64 *rows, guint64 *columns)
{
  exec_tensor_shape (c->rank, &c->rank->program->tensors[id], rows, columns);
}

static guint64
count_of (const Call *c, guint32 id)
{
  guint64 rows, columns;
  shape (c, id, &rows, &columns);
  return rows * columns;
}

static const ExecParam *
param_of (const Call *c, guint32 id)
{
  return &c->rank->params[c->rank->param_of[id]];
}

/* Is the @i-th input a weight? */
static gboolean
is_weight (const Call *c, guint i)
{
  return i < c->op->n_in && c->rank->program->tensors[c->op->in[i]].role == MODEL_ROLE_WEIGHT;
}

/* Rows whose gradient of a parameter that every tp rank holds this rank counts: its share where
 * the tail sums over tp, all otherwise. */
static void
own_rows (const Call *c, guint64 rows, guint64 *first, guint64 *count)
{
  gboolean shares = c->rank->layout->sp && c->rank->layout->tp > 1;
  *count = shares ? rows / c->rank->layout->tp : rows;
  *first = shares ? c->rank->at.tp * *count : 0;
}

static void
linear (const Call *c)
{
  const ExecParam *w = param_of (c, c->op->in[1]);
  guint64 m, k, row = 0;
  shape (c, c->op->in[0], &m, &k);
  for (guint i = 0; i < c->op->n_out; i++) {
    guint64 unused, n;
    shape (c, c->op->out[i], &unused, &n);
    c->b->gemm (FALSE, TRUE, m, n, k, in (c, 0), k, in_at (c, 1, row * k), k, 0, out (c, i), n);
    /* The bias of a split sum is added once. */
    if (c->op->n_in > 2 && (w->split == MODEL_PARAM_SPLIT_COLUMN || c->rank->at.tp == 0))
      c->b->bias (out (c, i), in_at (c, 2, row), m, n);
    row += n;
  }
}

static void
linear_input_grad (const Call *c)
{
  guint n_grads = c->op->n_in - 1u;
  guint64 m, k, row = 0;
  shape (c, c->op->out[0], &m, &k);
  for (guint i = 0; i < n_grads; i++) {
    guint64 unused, n;
    shape (c, c->op->in[i], &unused, &n);
    c->b->gemm (FALSE, FALSE, m, k, n, in (c, i), n, in_at (c, n_grads, row * k), k, i > 0 ? 1 : 0,
                out (c, 0), k);
    row += n;
  }
}

static void
linear_weight_grad (const Call *c)
{
  const ExecParam *w = param_of (c, c->op->out[0]);
  guint n_grads = c->op->n_in - 1u;
  guint64 m, k, row = 0;
  shape (c, c->op->in[n_grads], &m, &k);
  for (guint i = 0; i < n_grads; i++) {
    guint64 unused, n, first = 0, rows = m;
    shape (c, c->op->in[i], &unused, &n);
    c->b->gemm_wide (TRUE, FALSE, n, k, m, in (c, i), n, in (c, n_grads), k, 1,
                     grad_at (c, 0, row * k), k);
    if (w->split != MODEL_PARAM_SPLIT_COLUMN)
      own_rows (c, m, &first, &rows);
    if (c->op->n_out > 1)
      c->b->bias_grad (grad_at (c, 1, row), in_at (c, i, first * n), rows, n);
    row += n;
  }
}

static void
gemm (const Call *c)
{
  if (c->op->phase == MODEL_PHASE_BACKWARD_WEIGHT)
    linear_weight_grad (c);
  else if (c->op->phase == MODEL_PHASE_BACKWARD_INPUT)
    linear_input_grad (c);
  else
    linear (c);
}

/* Tokens of the micro-batch, @ahead 1 for the targets. */
static const gint32 *
tokens (const Call *c, guint64 ahead)
{
  const ExecRank *rank = c->rank;
  guint64 mbs = rank->layout->mbs, seq = rank->job->seq, m = rank->program->microbatches;
  guint64 first = (rank->at.dp * m + c->microbatch) * mbs;
  for (guint64 i = 0; i < mbs * seq; i++)
    c->r->ids[i] = exec_token (rank->arch, first + i / seq, i % seq + ahead);
  return c->r->ids;
}

static void
vocabulary (const Call *c, guint64 columns, guint64 *from, guint64 *valid)
{
  guint64 vocab = c->rank->arch->vocab;
  *from = c->rank->at.tp * columns;
  *valid = MIN (columns, vocab > *from ? vocab - *from : 0);
}

static void
embed (const Call *c)
{
  const ExecParam *w = param_of (c, c->op->in[1]);
  guint64 rows, columns, from = c->rank->at.tp * w->local_rows;
  shape (c, c->op->out[0], &rows, &columns);
  c->b->upload (in (c, 0), (const float *)tokens (c, 0), rows);
  c->b->embed (out (c, 0), (const gint32 *)in (c, 0), in (c, 1), rows, columns, from,
               w->local_rows);
  if (c->op->n_in > 2 && c->rank->at.tp == 0)
    c->b->positions (out (c, 0), in (c, 2), rows, columns, c->rank->job->seq);
}

static void
embed_grad (const Call *c)
{
  const ExecParam *w = param_of (c, c->op->out[0]);
  guint64 rows, columns, first, count, from = c->rank->at.tp * w->local_rows;
  shape (c, c->op->in[0], &rows, &columns);
  c->b->embed_grad (out (c, 0), in (c, 0), (const gint32 *)in (c, 1), rows, columns, from,
                    w->local_rows);
  own_rows (c, rows, &first, &count);
  if (c->op->n_out > 1)
    c->b->positions_grad (out (c, 1), in (c, 0), first, count, columns, c->rank->job->seq);
}

static void
norm (const Call *c)
{
  gboolean backward = model_op_is_backward (c->op);
  guint weight = backward ? 2 : 1;
  guint64 width = param_of (c, c->op->in[weight])->count;
  guint64 rows = count_of (c, c->op->in[0]) / width;
  gboolean has_bias = is_weight (c, weight + 1);
  if (!backward)
    c->b->norm (out (c, 0), in (c, 0), in (c, 1), has_bias ? in (c, 2) : NULL, rows, width);
  else
    c->b->norm_grad (out (c, 0), out (c, 1), has_bias ? out (c, 2) : NULL, in (c, 0), in (c, 1),
                     in (c, 2), rows, width);
}

static void
rope (const Call *c)
{
  const ModelAttention *a = &c->rank->arch->attention;
  guint32 rotated = (guint32)(a->rotary_ratio * a->head_dim + 0.5) / 2 * 2;
  for (guint i = 0; i < 2; i++) {
    guint64 rows, columns;
    shape (c, c->op->in[i], &rows, &columns);
    guint32 shift = i == 0 && c->r->inject == EXEC_INJECT_ROTARY_OFFSET ? 1 : 0;
    c->b->rope (out (c, i), in (c, i), rows, (guint32)(columns / a->head_dim), a->head_dim, rotated,
                c->rank->job->seq, model_op_is_backward (c->op) ? -1 : 1, shift);
  }
}

static void
attention (const Call *c)
{
  const ModelAttentionShape *s = &c->op->attention;
  gboolean backward = model_op_is_backward (c->op), unfused = s->kernel == MODEL_ATTN_UNFUSED;
  guint q = backward ? 1 : 0;
  ExecAttention a = { .batch = s->batch,
                      .heads = s->heads,
                      .kv_heads = s->kv_heads,
                      .dim = s->dim_qk,
                      .seq = (guint32)s->seq_q,
                      .window = (guint32)s->window,
                      .q = in (c, q),
                      .k = in (c, q + 1),
                      .v = in (c, q + 2),
                      .scratch = exec_at (c->r, c->r->memory.attention),
                      .scratch_count = c->r->memory.attention_count };
  void *kept = backward ? in (c, unfused ? 4 : 5) : out (c, 1);
  a.softmax = unfused ? kept : NULL;
  a.lse = unfused ? NULL : kept;
  if (!backward) {
    a.out = out (c, 0);
    c->b->attention (&a);
    return;
  }
  a.d_out = in (c, 0);
  a.d_q = out (c, 0);
  a.d_k = out (c, 1);
  a.d_v = out (c, 2);
  c->b->attention_grad (&a);
}

static void
activate (const Call *c)
{
  ExecActivation kind = (ExecActivation)c->rank->arch->activation;
  guint64 count = count_of (c, c->op->in[0]);
  if (!model_op_is_backward (c->op))
    c->b->activate (kind, out (c, 0), in (c, 0), c->op->n_in > 1 ? in (c, 1) : NULL, count);
  else
    c->b->activate_grad (kind, out (c, 0), c->op->n_out > 1 ? out (c, 1) : NULL, in (c, 0),
                         in (c, 1), c->op->n_in > 2 ? in (c, 2) : NULL, count);
}

static void
upload_targets (const Call *c, guint64 rows)
{
  c->b->upload (exec_at (c->r, c->r->memory.targets), (const float *)tokens (c, 1), rows);
}

static void
exponentials (const Call *c, guint32 kept, const float *maximum)
{
  guint64 rows, columns, from, valid;
  shape (c, kept, &rows, &columns);
  vocabulary (c, columns, &from, &valid);
  c->b->loss_exponentials (exec_run_tensor (c->r, kept, c->microbatch),
                           exec_at (c->r, c->r->memory.sums), maximum,
                           (const gint32 *)exec_at (c->r, c->r->memory.targets), rows, columns,
                           valid, from);
}

static void
finish_loss (const Call *c, guint32 kept)
{
  guint64 rows, columns;
  shape (c, kept, &rows, &columns);
  c->b->loss_finish (exec_run_tensor (c->r, kept, c->microbatch), exec_at (c->r, c->r->memory.sums),
                     rows, columns, exec_at (c->r, c->r->memory.loss));
}

/* The softmax replaces the logits; with a split vocabulary the exchanges that follow finish it. */
static void
loss (const Call *c)
{
  guint64 rows, columns, from, valid;
  guint32 kept = c->op->out[1];
  shape (c, c->op->in[0], &rows, &columns);
  vocabulary (c, columns, &from, &valid);
  upload_targets (c, rows);
  c->b->loss_maximum (out (c, 0), in (c, 0), rows, columns, valid);
  c->b->widen (out (c, 1), in (c, 0), rows * columns);
  if (c->rank->layout->tp > 1)
    return;
  exponentials (c, kept, out (c, 0));
  finish_loss (c, kept);
}

static void
loss_grad (const Call *c)
{
  guint64 rows, columns, from, valid;
  shape (c, c->op->out[0], &rows, &columns);
  vocabulary (c, columns, &from, &valid);
  upload_targets (c, rows);
  float scale = (float)(1 / ((double)rows * (double)c->rank->program->microbatches));
  c->b->loss_grad (out (c, 0), in (c, 0), (const gint32 *)exec_at (c->r, c->r->memory.targets),
                   scale, rows, columns, valid, from);
}

void
exec_run_compute (ExecRunner *r, const ModelOp *op, guint32 microbatch)
{
  Call call = { r, r->elements, r->rank, op, microbatch };
  const Call *c = &call;
  switch (op->kind) {
  case MODEL_OP_GEMM:
    gemm (c);
    break;
  case MODEL_OP_EMBED:
    model_op_is_backward (op) ? embed_grad (c) : embed (c);
    break;
  case MODEL_OP_NORM:
    norm (c);
    break;
  case MODEL_OP_ROPE:
    rope (c);
    break;
  case MODEL_OP_ATTENTION:
    attention (c);
    break;
  case MODEL_OP_ACT_MUL:
    activate (c);
    break;
  case MODEL_OP_ADD:
    c->b->add (out (c, 0), in (c, 0), in (c, 1), count_of (c, op->out[0]));
    break;
  case MODEL_OP_CROSS_ENTROPY:
    model_op_is_backward (op) ? loss_grad (c) : loss (c);
    break;
  default:
    g_assert_not_reached ();
  }
}

/* The softmax of the loss lies in the tensor that the loss' op keeps. */
static guint32
kept_of_loss (const ExecRank *rank)
{
  for (guint i = 0; i < rank->program->n_ops; i++) {
    const ModelOp *op = &rank->program->ops[i];
    if (op->kind == MODEL_OP_CROSS_ENTROPY && op->phase == MODEL_PHASE_FORWARD)
      return op->out[1];
  }
  return MODEL_TENSOR_NONE;
}

gboolean
exec_run_loss_exchange (ExecRunner *r, const ModelOp *op, guint32 microbatch, GError **error)
{
  Call call = { r, r->elements, r->rank, op, microbatch };
  guint32 kept = kept_of_loss (r->rank);
  guint64 rows, columns;
  shape (&call, op->in[0], &rows, &columns);
  if (g_str_equal (op->name, "loss_maximum")) {
    r->backend->copy (out (&call, 0), in (&call, 0), rows);
    if (!r->backend->comm->all_reduce (op->group, EXEC_REDUCE_MAX, out (&call, 0), rows, error))
      return FALSE;
    exponentials (&call, kept, out (&call, 0));
    return TRUE;
  }
  if (!r->backend->comm->all_reduce (op->group, EXEC_REDUCE_SUM, exec_at (r, r->memory.sums),
                                     2 * rows, error))
    return FALSE;
  finish_loss (&call, kept);
  return TRUE;
}
