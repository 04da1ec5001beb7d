/* exec/verify.c - see verify.h. */
#include "exec/verify.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

#define N_STEPS        2
#define CHECKSUM_SEED  7
#define VERIFY_EPSILON 1e-3f

/* One rank alone. */
typedef struct {
  ModelLayout layout;
  ExecRank *rank;   /* (owned) */
  float *gradients; /* (owned) before the first update */
  float *weights;   /* (owned) after the last */
  double loss[N_STEPS];
} Reference;

typedef struct {
  ExecRunner *runner;
  float *copy; /* (owned) gradients of the first step */
} Snapshot;

void
exec_verdict_clear (ExecVerdict *verdict)
{
  if (verdict != NULL)
    g_clear_pointer (&verdict->first_fault, g_free);
}

static void
take_snapshot (gpointer user_data)
{
  Snapshot *s = user_data;
  if (s->runner->step == 0)
    s->runner->backend->download (s->copy, exec_gradients (s->runner),
                                  s->runner->rank->padded_count);
}

gboolean
exec_total_loss (ExecRunner *runner, double *out, GError **error)
{
  const ExecRank *rank = runner->rank;
  float total = rank->at.tp == 0 ? (float)(runner->loss / rank->map.dp) : 0;
  if (rank->map.world > 1) {
    float *buffer = exec_at (runner, runner->memory.sums);
    runner->backend->upload (buffer, &total, 1);
    if (!runner->backend->comm->all_reduce (EXEC_GROUP_WORLD, EXEC_REDUCE_SUM, buffer, 1, error))
      return FALSE;
    runner->backend->download (&total, buffer, 1);
  }
  *out = total;
  return TRUE;
}

/* Runs the steps; @gradients gets those of the first. */
static gboolean
run_steps (ExecRunner *runner, float *gradients, double loss[N_STEPS], GError **error)
{
  Snapshot snapshot = { runner, gradients };
  float epsilon = runner->hyper[3];
  runner->hyper[3] = VERIFY_EPSILON;
  runner->before_optimizer = take_snapshot;
  runner->user_data = &snapshot;
  for (guint i = 0; i < N_STEPS; i++)
    if (!exec_runner_step (runner, error) || !exec_total_loss (runner, &loss[i], error))
      return FALSE;
  runner->before_optimizer = NULL;
  runner->hyper[3] = epsilon;
  return exec_grads_settle (runner, error);
}

static void
reference_clear (Reference *reference)
{
  exec_rank_free (reference->rank);
  g_free (reference->gradients);
  g_free (reference->weights);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reference, reference_clear)

static gboolean
run_alone (const ExecRunner *like, const ModelProfile *profile, Reference *out, GError **error)
{
  const ExecRank *rank = like->rank;
  g_auto (ExecRunner) alone = { 0 };
  out->layout = *rank->layout;
  out->layout.tp = out->layout.pp = out->layout.vpp = out->layout.dp = 1;
  out->layout.sp = out->layout.overlap_tp = out->layout.overlap_dp = FALSE;
  out->layout.zero = 0;
  out->layout.stage_layers = NULL;
  out->layout.schedule = MODEL_SCHEDULE_1F1B;
  out->layout.recompute = (ModelRecompute){ .kind = MODEL_RECOMPUTE_NONE };
  out->rank = exec_rank_new (rank->arch, rank->job, &out->layout, profile, 0, error);
  if (out->rank == NULL
      || !exec_runner_init (&alone, out->rank, like->backend, EXEC_INJECT_NONE, G_MAXUINT64, error))
    return FALSE;
  alone.progress = like->progress;
  out->gradients = g_new (float, out->rank->padded_count);
  out->weights = g_new (float, out->rank->padded_count);
  if (!run_steps (&alone, out->gradients, out->loss, error))
    return FALSE;
  alone.backend->download (out->weights, exec_weights (&alone), out->rank->padded_count);
  return TRUE;
}

static const ExecParam *
same_param (const ExecRank *rank, const ExecParam *like)
{
  for (guint i = 0; i < rank->n_params; i++) {
    const ExecParam *p = &rank->params[i];
    if (p->part == like->part && p->index == like->index
        && (p->part != MODEL_PART_BLOCK || p->layer == like->layer))
      return p;
  }
  return NULL;
}

typedef struct {
  double error, norm;               /* squares */
  double checksum, wanted, weighed; /* Σ w·r of both, Σ |w·r| */
} Difference;

static Difference
compare (const ExecRank *sender, const ExecParam *p, const float *got, const float *want,
         guint64 want_count, guint64 first, guint64 end)
{
  Difference d = { 0 };
  guint64 stream = (guint64)p->part << 48 | (guint64)p->layer << 8 | p->index;
  for (guint64 j = first; j < end; j++) {
    guint64 global = exec_param_global (p, sender->layout->tp, sender->at.tp, j);
    if (global >= want_count) /* padding of the vocabulary is no part of the model */
      continue;
    double a = got[p->offset + j], b = want[global];
    double r = base_philox_uniform (CHECKSUM_SEED, stream, global) - 0.5;
    d.error += (a - b) * (a - b);
    d.norm += b * b;
    d.checksum += a * r;
    d.wanted += b * r;
    d.weighed += fabs (b * r);
  }
  return d;
}

static void
judge (ExecVerdict *v, const ExecRank *sender, const ExecParam *p, const char *what, Difference d,
       double *worst)
{
  double relative = sqrt (d.error) / fmax (sqrt (d.norm), 1e-30);
  double checksum = fabs (d.checksum - d.wanted) / fmax (d.weighed, 1e-30);
  v->compared_count++;
  *worst = fmax (*worst, relative);
  v->worst_checksum = fmax (v->worst_checksum, checksum);
  if (relative <= EXEC_VERIFY_TOLERANCE && checksum <= EXEC_VERIFY_TOLERANCE)
    return;
  v->passed = FALSE;
  if (v->first_fault == NULL) {
    g_autofree char *layer
        = p->part == MODEL_PART_BLOCK ? g_strdup_printf (" of layer %u", p->layer) : g_strdup ("");
    v->first_fault
        = g_strdup_printf ("%s of %s%s on rank %u: off by %.3g of its norm (limit %g)", what,
                           p->name, layer, sender->rank, relative, EXEC_VERIFY_TOLERANCE);
  }
}

/* @flat: of @sender. With ZeRO only the rank's own shards of the gradients are whole. */
static void
compare_all (ExecVerdict *v, const Reference *reference, const ExecRank *sender, const float *flat,
             gboolean gradients)
{
  for (guint i = 0; i < sender->n_params; i++) {
    const ExecParam *p = &sender->params[i], *whole = same_param (reference->rank, p);
    const ExecGradBucket *b = &sender->buckets[p->bucket];
    gboolean part = gradients && sender->layout->zero > 0;
    guint64 low = part ? b->own_first : p->offset;
    guint64 high = part ? low + b->shard_count : p->offset + p->count;
    guint64 first = CLAMP (low, p->offset, p->offset + p->count) - p->offset;
    guint64 end = CLAMP (high, p->offset, p->offset + p->count) - p->offset;
    if (first >= end)
      continue;
    const float *want = (gradients ? reference->gradients : reference->weights) + whole->offset;
    Difference d = compare (sender, p, flat, want, whole->count, first, end);
    judge (v, sender, p, gradients ? "gradient" : "weight", d,
           gradients ? &v->worst_gradient : &v->worst_weight);
  }
}

/* Hands @values to rank 0, through the backend's memory: the gradients are not needed any more. */
static gboolean
send_flat (ExecRunner *r, const float *values, GError **error)
{
  float *buffer = exec_gradients (r);
  r->backend->upload (buffer, values, r->rank->padded_count);
  return r->backend->comm->send (0, EXEC_TAG_LOOSE, buffer, r->rank->padded_count, 0, EXEC_NO_MARK,
                                 error)
         && r->backend->comm->wait (0, error);
}

static gboolean
receive_flat (ExecRunner *r, const ExecRank *sender, float **out, GError **error)
{
  guint64 bytes = sender->padded_count * sizeof (float);
  float *buffer = r->backend->memory_new (bytes);
  if (buffer == NULL) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                 "could not allocate %" G_GUINT64_FORMAT " bytes to compare with", bytes);
    return FALSE;
  }
  gboolean ok = r->backend->comm->receive (sender->rank, EXEC_TAG_LOOSE, buffer,
                                           sender->padded_count, error);
  *out = g_new (float, sender->padded_count);
  r->backend->download (*out, buffer, sender->padded_count);
  r->backend->memory_free (buffer, bytes);
  return ok;
}

static gboolean
collect (ExecRunner *r, const ModelProfile *profile, const Reference *reference,
         const float *gradients, const float *weights, ExecVerdict *out, GError **error)
{
  const ExecRank *own = r->rank;
  if (own->rank > 0)
    return send_flat (r, gradients, error) && send_flat (r, weights, error);
  compare_all (out, reference, own, gradients, TRUE);
  compare_all (out, reference, own, weights, FALSE);
  for (guint32 i = 1; i < own->map.world; i++) {
    g_autoptr (ExecRank) sender
        = exec_rank_new (own->arch, own->job, own->layout, profile, i, error);
    for (guint pass = 0; pass < 2; pass++) {
      g_autofree float *flat = NULL;
      if (sender == NULL || !receive_flat (r, sender, &flat, error))
        return FALSE;
      compare_all (out, reference, sender, flat, pass == 0);
    }
  }
  return TRUE;
}

gboolean
exec_verify (ExecRunner *r, const ModelProfile *profile, ExecVerdict *out, GError **error)
{
  g_auto (Reference) reference = { 0 };
  double loss[N_STEPS];
  guint64 n = r->rank->padded_count;
  g_autofree float *gradients = g_new (float, n), *weights = g_new (float, n);
  *out = (ExecVerdict){ .passed = TRUE };
  if ((r->rank->rank == 0 && !run_alone (r, profile, &reference, error))
      || !run_steps (r, gradients, loss, error))
    return FALSE;
  r->backend->download (weights, exec_weights (r), n);
  for (guint i = 0; r->rank->rank == 0 && i < N_STEPS; i++) {
    double off = fabs (loss[i] / reference.loss[i] - 1);
    out->worst_loss = fmax (out->worst_loss, off);
    if (!(off <= EXEC_VERIFY_TOLERANCE)) {
      out->passed = FALSE;
      if (out->first_fault == NULL)
        out->first_fault = g_strdup_printf ("loss of step %u: %.8g, one rank alone has %.8g", i + 1,
                                            loss[i], reference.loss[i]);
    }
  }
  return collect (r, profile, &reference, gradients, weights, out, error);
}
