/* exec/run.c - see run.h. */
#include "exec/run.h"

#include <math.h>
#include <string.h>

const char *const exec_used_names[]
    = { "context", "workspace", "communicators", "arena", "first_step", "end", NULL };
G_STATIC_ASSERT (G_N_ELEMENTS (exec_used_names) == EXEC_USED_N_PHASES + 1);

static void
count_used (const ExecBackend *backend, ExecUsedPhase phase, ExecResult *out)
{
  if (backend->resident_bytes != NULL)
    out->used_bytes[phase] = backend->resident_bytes ();
}

/* Everything a rank tells about itself travels as fp32 pairs through the collectives that are
 * there anyway: high and low part of a double. */
static gboolean
gather_doubles (ExecRunner *r, guint32 world, const double *own, guint n, double *out,
                GError **error)
{
  if (world == 1) {
    memcpy (out, own, n * sizeof (double));
    return TRUE;
  }
  g_autofree float *host = g_new (float, 2 * n * world);
  guint64 bytes = 2 * n * (world + 1) * sizeof (float);
  float *memory = r->backend->memory_new (bytes);
  if (memory == NULL) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                 "could not allocate %" G_GUINT64_FORMAT " bytes to gather what the ranks measured",
                 bytes);
    return FALSE;
  }
  for (guint i = 0; i < n; i++) {
    host[2 * i] = (float)own[i];
    host[2 * i + 1] = (float)(own[i] - host[2 * i]);
  }
  r->backend->upload (memory, host, 2 * n);
  gboolean ok
      = r->backend->comm->all_gather (EXEC_GROUP_WORLD, memory, memory + 2 * n, 2 * n, error);
  r->backend->download (host, memory + 2 * n, 2 * n * world);
  for (guint i = 0; ok && i < n * world; i++)
    out[i] = (double)host[2 * i] + host[2 * i + 1];
  r->backend->memory_free (memory, bytes);
  return ok;
}

static gboolean
barrier (ExecRunner *r, GError **error)
{
  return r->rank->map.world == 1 || r->backend->comm->barrier (error);
}

static int
by_value (const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static gboolean
measure (const ExecRequest *request, ExecRunner *r, ExecResult *out, GError **error)
{
  guint n = request->steps;
  double fastest_s = INFINITY;
  ExecBucket fastest[EXEC_N_BUCKETS] = { 0 };
  g_autofree double *seconds = g_new0 (double, MAX (n, 1));
  for (guint i = 0; i < request->warmup + n; i++) {
    double loss = 0;
    /* a reading takes a while: not of a step that counts */
    r->observes = i + 1 == request->warmup;
    if (!barrier (r, error))
      return FALSE;
    gint64 start_us = g_get_monotonic_time ();
    if (!exec_runner_step (r, error) || !barrier (r, error))
      return FALSE;
    double step_s = (double)(g_get_monotonic_time () - start_us) * 1e-6;
    if (i >= request->warmup)
      seconds[i - request->warmup] = step_s;
    if (i >= request->warmup && step_s < fastest_s) {
      fastest_s = step_s;
      memcpy (fastest, r->buckets, sizeof fastest);
    }
    if (!exec_total_loss (r, &loss, error))
      return FALSE;
    if (i == 0)
      out->loss_first = loss;
    if (i == 0)
      count_used (r->backend, EXEC_USED_FIRST_STEP, out);
    out->loss_last = loss;
    /* A split that --verify found wrong is said to be that, by rank 0, which knows it. */
    gboolean is_judged = request->verify && (r->rank->rank > 0 || !out->verdict.passed);
    if (!isfinite (loss) && !is_judged) {
      g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED, "the loss of step %u is not finite",
                   r->step);
      return FALSE;
    }
  }
  if (!exec_grads_settle (r, error))
    return FALSE;
  memcpy (r->buckets, fastest, sizeof fastest);
  qsort (seconds, n, sizeof *seconds, by_value);
  out->step_s = n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
  out->step_s_min = seconds[0];
  out->step_s_max = seconds[n - 1];
  return TRUE;
}

enum { PEAK, MOVED, KINDS, BUCKETS = KINDS + EXEC_MEMORY_N_KINDS };
#define PER_BUCKET 3
#define N_NUMBERS  (BUCKETS + PER_BUCKET * EXEC_N_BUCKETS)

/* Times and peaks of all ranks, on every rank. */
static gboolean
report (const ExecRequest *request, ExecRunner *r, ExecResult *out, GError **error)
{
  double own[N_NUMBERS]
      = { [PEAK] = (double)r->memory.arena.peak_bytes, [MOVED] = (double)r->moved_bytes };
  guint32 world = request->slice ? 1 : r->rank->map.world;
  g_autofree double *all = g_new (double, (gsize)N_NUMBERS *world);
  for (guint i = 0; i < EXEC_MEMORY_N_KINDS; i++)
    own[KINDS + i] = (double)r->memory.peak_bytes[i];
  for (guint i = 0; i < EXEC_N_BUCKETS; i++) {
    double *numbers = own + BUCKETS + PER_BUCKET * i;
    numbers[0] = (double)r->buckets[i].count;
    numbers[1] = r->buckets[i].seconds;
    numbers[2] = r->buckets[i].exposed_s;
  }
  if (!gather_doubles (r, world, own, N_NUMBERS, all, error))
    return FALSE;
  out->ranks = world;
  out->moved_bytes = (guint64)all[MOVED];
  for (guint32 w = 0; w < world; w++) {
    const double *numbers = all + (gsize)w * N_NUMBERS;
    for (guint i = 0; i < EXEC_N_BUCKETS; i++) {
      const double *of_bucket = numbers + BUCKETS + PER_BUCKET * i;
      out->ops[i].count += (guint64)of_bucket[0];
      out->ops[i].seconds += of_bucket[1] / world;
      out->ops[i].exposed_s += of_bucket[2] / world;
    }
    if ((guint64)numbers[PEAK] <= out->peak_bytes)
      continue;
    out->peak_bytes = (guint64)numbers[PEAK];
    out->fullest_rank = request->slice ? r->rank->rank : w;
    for (guint i = 0; i < EXEC_MEMORY_N_KINDS; i++)
      out->memory_bytes[i] = (guint64)numbers[KINDS + i];
  }
  return TRUE;
}

static void
describe_device (const ExecBackend *backend, ExecResult *out)
{
  guint64 workspace = 0;
  if (backend->opened_bytes != NULL)
    backend->opened_bytes (&out->used_bytes[EXEC_USED_CONTEXT], &workspace,
                           &out->used_bytes[EXEC_USED_WORKSPACE]);
  count_used (backend, EXEC_USED_END, out);
  g_autofree char *text = backend->describe != NULL ? backend->describe () : g_strdup ("");
  g_strlcpy (out->device, text, sizeof out->device);
}

gboolean
exec_run (const ExecRequest *request, guint32 rank_number, ExecResult *out, GError **error)
{
  guint64 kinds[EXEC_MEMORY_N_KINDS];
  guint32 fullest = 0;
  g_autoptr (ExecRank) rank = exec_rank_new (request->arch, request->job, request->layout,
                                             request->profile, rank_number, error);
  g_auto (ExecRunner) runner = { 0 };
  *out = (ExecResult){ .ranks = 1 };
  if (rank == NULL || !exec_groups_make (rank, request->backend, error))
    return FALSE;
  count_used (request->backend, EXEC_USED_COMMUNICATORS, out);
  if (!exec_predict_peak (request, &out->predicted_peak_bytes, &fullest, kinds, error)
      || !exec_runner_init (&runner, rank, request->backend, request->inject, request->limit_bytes,
                            error))
    return FALSE;
  count_used (request->backend, EXEC_USED_ARENA, out);
  runner.progress = request->progress;
  if (request->verify && !exec_verify (&runner, request->profile, &out->verdict, error))
    return FALSE;
  if (!measure (request, &runner, out, error) || !report (request, &runner, out, error))
    return FALSE;
  describe_device (request->backend, out);
  return TRUE;
}

gboolean
exec_predict_peak (const ExecRequest *request, guint64 *out_bytes, guint32 *out_rank,
                   guint64 out_kinds[EXEC_MEMORY_N_KINDS], GError **error)
{
  const ModelLayout *layout = request->layout;
  guint32 stage_ranks = layout->tp * layout->dp;
  *out_bytes = 0;
  /* Ranks of one stage hold the same. */
  for (guint32 pp = 0; pp < layout->pp; pp++) {
    g_auto (ExecMemory) play = { 0 };
    g_autoptr (ExecRank) rank = exec_rank_new (request->arch, request->job, layout,
                                               request->profile, pp * stage_ranks, error);
    if (rank == NULL || !exec_memory_play (&play, rank, error))
      return FALSE;
    if (play.arena.peak_bytes <= *out_bytes)
      continue;
    *out_bytes = play.arena.peak_bytes;
    *out_rank = rank->rank;
    memcpy (out_kinds, play.peak_bytes, sizeof play.peak_bytes);
  }
  return TRUE;
}
