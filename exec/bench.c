/* exec/bench.c - see bench.h. */
#include "exec/bench.h"

#include "exec/runner.h"
#include "model/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SMALL_BYTES      65536 /* below, several go between two readings of the clock */
#define SMALL_INNER      8
#define LAUNCH_INNER     100
#define WARMUP_STEPS     2
#define COLLECTIVE_GROUP MODEL_GROUP_TP /* the id that benchmarks make their groups under */

static const char *const kind_names[EXEC_BENCH_N_KINDS]
    = { "program", "collective", "message", "copy", "launch", "resident" };

const char *
exec_bench_kind_name (ExecBenchKind kind)
{
  g_return_val_if_fail ((guint)kind < EXEC_BENCH_N_KINDS, "?");
  return kind_names[kind];
}

static guint64
resident_bytes (const ExecBencher *b)
{
  return b->backend->resident_bytes != NULL ? b->backend->resident_bytes () : 0;
}

/* A 128³ GEMM: libraries make their workspace with the first. */
static guint64
first_gemm (const ExecBencher *b)
{
  guint64 side = 128, bytes = 3 * side * side * sizeof (float);
  float *memory = b->backend->memory_new (bytes);
  if (memory == NULL)
    return 0;
  b->backend->fill (memory, 0, 3 * side * side);
  b->backend->synchronize ();
  guint64 before = resident_bytes (b);
  b->backend->gemm (FALSE, FALSE, side, side, side, memory, side, memory + side * side, side, 0,
                    memory + 2 * side * side, side);
  b->backend->synchronize ();
  guint64 after = resident_bytes (b);
  b->backend->memory_free (memory, bytes);
  return after > before ? after - before : 0;
}

void
exec_bencher_init (ExecBencher *b, const ExecBackend *backend, const ModelProfile *profile)
{
  *b = (ExecBencher){ .backend = backend, .profile = profile, .world = 1 };
  if (backend->opened_bytes == NULL)
    b->resident[EXEC_RESIDENT_CONTEXT] = resident_bytes (b);
}

static void
plant_slow_device (ExecBencher *b)
{
  const char *hook = g_getenv ("PLAIT_TEST_SLOW_RANK");
  guint rank = 0;
  double factor = 1;
  if (hook != NULL && sscanf (hook, "%u:%lf", &rank, &factor) == 2 && rank == b->rank)
    b->slowdown = factor;
}

/* The largest of what the ranks say. */
static gboolean
agree (const ExecBencher *b, double *value, GError **error)
{
  float host = (float)*value;
  if (b->world == 1)
    return TRUE;
  b->backend->upload (b->cell, &host, 1);
  gboolean ok = b->backend->comm->all_reduce (EXEC_GROUP_WORLD, EXEC_REDUCE_MAX, b->cell, 1, error);
  b->backend->download (&host, b->cell, 1);
  *value = host;
  return ok;
}

gboolean
exec_bencher_join (ExecBencher *b, guint32 rank, guint32 world, GError **error)
{
  double nothing = 0;
  guint64 before = b->resident[EXEC_RESIDENT_CONTEXT], workspace = 0;
  b->rank = rank;
  b->world = world;
  plant_slow_device (b);
  if (world > 1
      && !b->backend->comm->make_group (EXEC_GROUP_WORLD, MODEL_STREAM_COMPUTE, 0, world, 1, error))
    return FALSE;
  if (world > 1 && (b->cell = b->backend->memory_new (sizeof *b->cell)) == NULL) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED, "rank %u has no room for one number", rank);
    return FALSE;
  }
  if (!agree (b, &nothing, error))
    return FALSE;
  if (b->backend->opened_bytes != NULL)
    b->backend->opened_bytes (&b->resident[EXEC_RESIDENT_CONTEXT], &workspace, &before);
  guint64 joined = resident_bytes (b);
  b->resident[EXEC_RESIDENT_COMMUNICATOR] = joined > before ? joined - before : 0;
  b->resident[EXEC_RESIDENT_WORKSPACE] = workspace + first_gemm (b);
  return TRUE;
}

void
exec_bencher_leave (ExecBencher *b)
{
  if (b->cell != NULL)
    b->backend->memory_free (b->cell, sizeof *b->cell);
  b->cell = NULL;
}

static void
alive (const ExecBencher *b, const char *what)
{
  if (b->progress == NULL)
    return;
  g_strlcpy (b->progress->what, what, sizeof b->progress->what);
  b->progress->ops_done++;
}

static gboolean
barrier (const ExecBencher *b, GError **error)
{
  return b->world == 1 || b->backend->comm->barrier (error);
}

/* Times a first run took @first_s that fit into the limit, the same on all ranks. */
static gboolean
agree_repeats (const ExecBencher *b, const ExecBench *bench, double first_s, guint *out,
               GError **error)
{
  if (!agree (b, &first_s, error))
    return FALSE;
  *out = (guint)CLAMP (bench->limit_s / fmax (first_s, 1e-9), EXEC_BENCH_LEAST, EXEC_BENCH_MOST);
  return TRUE;
}

/* Sets the status on all ranks if memory is short on one. */
static gboolean
agree_fits (const ExecBencher *b, gboolean fits, ExecBenchSheet *out, GError **error)
{
  double missing = fits ? 0 : 1;
  if (!agree (b, &missing, error))
    return FALSE;
  if (missing > 0)
    out->status = EXEC_BENCH_DOES_NOT_FIT;
  return TRUE;
}

/* ---- programs ---- */

/* The ops of the step that just ended. Those that this rank never ran have no time. */
static void
keep_step (const ExecRunner *r, ExecBenchSheet *out)
{
  for (guint32 i = 0; i < r->rank->program->n_ops; i++)
    out->seconds[i] = r->op_times[i].step_s / MAX (r->op_times[i].count, 1);
}

static void
keep_least (const ExecRunner *r, ExecBenchSheet *out)
{
  const ModelProgram *program = r->rank->program;
  out->n = program->n_ops;
  for (guint32 i = 0; i < program->n_ops; i++) {
    double all_s = r->op_times[i].count > 0 ? r->op_times[i].count * r->op_times[i].least_s : 0;
    out->least_s += all_s;
    out->gemm_s += program->ops[i].kind == MODEL_OP_GEMM ? all_s : 0;
  }
}

static gboolean
run_steps (const ExecBencher *b, const ExecBench *bench, ExecRunner *r, ExecBenchSheet *out,
           GError **error)
{
  guint n = WARMUP_STEPS + 1;
  for (guint i = 0; i < n; i++) {
    if (!barrier (b, error))
      return FALSE;
    double start_s = exec_clock_s ();
    if (!exec_runner_step (r, error) || !barrier (b, error))
      return FALSE;
    double step_s = exec_clock_s () - start_s;
    if (i >= WARMUP_STEPS) {
      if (out->repeats == 0 || step_s < out->step_s) {
        out->step_s = step_s;
        keep_step (r, out);
      }
      out->step_s_max = MAX (out->step_s_max, step_s);
      out->repeats++;
    }
    if (i == WARMUP_STEPS) {
      guint repeats = 0;
      if (!agree_repeats (b, bench, step_s, &repeats, error))
        return FALSE;
      n = WARMUP_STEPS + repeats;
    }
  }
  keep_least (r, out);
  return TRUE;
}

static void
refuse (ExecBenchSheet *out, const GError *reason)
{
  out->status = EXEC_BENCH_FAILED;
  g_strlcpy (out->message, reason->message, sizeof out->message);
}

/* What the benchmark's words say. @out_arch: (owned) */
static gboolean
read_program (const ExecBencher *b, const ExecBench *bench, ModelArch **out_arch, ModelJob *job,
              ModelLayout *layout, GError **error)
{
  g_autoptr (BaseIni) ini = base_ini_new_from_data (bench->arch, -1, "benchmark", error);
  if (ini == NULL)
    return FALSE;
  *out_arch = model_arch_from_ini (ini, "benchmark", error);
  if (*out_arch == NULL || !model_layout_parse (layout, bench->layout, b->profile, error))
    return FALSE;
  layout->dtype = bench->dtype;
  return model_job_init (job, *out_arch, bench->seq, bench->global_batch, 0, error)
         && model_layout_resolve (layout, *out_arch, job, b->profile, b->world, error);
}

static gboolean
measure_rank (const ExecBencher *b, const ExecBench *bench, const ExecRank *rank,
              ExecBenchSheet *out, GError **error)
{
  g_auto (ExecRunner) runner = { 0 };
  g_autoptr (GError) reason = NULL;
  g_autofree ExecOpTime *op_times = g_new0 (ExecOpTime, rank->program->n_ops);
  gboolean fits
      = exec_runner_init (&runner, rank, b->backend, EXEC_INJECT_NONE, G_MAXUINT64, &reason);
  if (!agree_fits (b, fits, out, error))
    return FALSE;
  if (out->status != EXEC_BENCH_MEASURED)
    return TRUE;
  runner.progress = b->progress;
  runner.op_times = op_times;
  runner.slowdown = b->slowdown;
  for (guint32 i = 0; i < rank->program->n_ops; i++)
    op_times[i].least_s = INFINITY;
  return exec_groups_make (rank, b->backend, error) && run_steps (b, bench, &runner, out, error);
}

static gboolean
measure_program (const ExecBencher *b, const ExecBench *bench, ExecBenchSheet *out, GError **error)
{
  g_autoptr (ModelArch) arch = NULL;
  g_auto (ModelLayout) layout = { 0 };
  ModelJob job;
  g_autoptr (GError) reason = NULL;
  g_autoptr (ExecRank) rank = NULL;
  if (read_program (b, bench, &arch, &job, &layout, &reason))
    rank = exec_rank_new (arch, &job, &layout, b->profile, b->rank, &reason);
  if (rank != NULL && rank->program->n_ops > EXEC_BENCH_MAX_OPS)
    g_set_error (&reason, EXEC_ERROR, EXEC_ERROR_FAILED,
                 "the program has %u ops, a benchmark holds %d", rank->program->n_ops,
                 EXEC_BENCH_MAX_OPS);
  if (reason == NULL)
    return measure_rank (b, bench, rank, out, error);
  refuse (out, reason); /* on every rank alike: they read the same words */
  return TRUE;
}

/* ---- collectives, messages, copies ---- */

typedef struct {
  const ExecBencher *b;
  const ExecBench *bench;
  float *in, *out;
  guint64 count; /* elements of the message */
} Wire;

static gboolean
run_collective (const Wire *w, GError **error)
{
  const ExecComm *comm = w->b->backend->comm;
  guint64 each = MAX (w->count / w->bench->size, 1);
  switch (w->bench->collective) {
  case MODEL_COLLECTIVE_ALL_GATHER:
    return comm->all_gather (COLLECTIVE_GROUP, w->in, w->out, each, error);
  case MODEL_COLLECTIVE_REDUCE_SCATTER:
    return comm->reduce_scatter (COLLECTIVE_GROUP, w->in, w->out, each, error);
  default:
    return comm->all_reduce (COLLECTIVE_GROUP, EXEC_REDUCE_SUM, w->in, w->count, error);
  }
}

/* There and back again. */
static gboolean
run_message (const Wire *w, GError **error)
{
  const ExecBencher *b = w->b;
  const ExecComm *comm = b->backend->comm;
  guint32 from = w->bench->from, to = w->bench->to;
  if (b->rank == from)
    return comm->send (to, 0, w->in, w->count, 0, EXEC_NO_MARK, error) && comm->wait (0, error)
           && comm->receive (to, 1, w->out, w->count, error);
  if (b->rank == to)
    return comm->receive (from, 0, w->out, w->count, error)
           && comm->send (from, 1, w->in, w->count, 0, EXEC_NO_MARK, error)
           && comm->wait (0, error);
  return TRUE;
}

static gboolean
run_copy (const Wire *w, GError **error)
{
  w->b->backend->copy (w->out, w->in, w->count);
  return TRUE;
}

/* Seconds of one of @inner runs. */
static gboolean
time_runs (const Wire *w, gboolean (*run) (const Wire *, GError **), guint inner, double *out_s,
           GError **error)
{
  const ExecBencher *b = w->b;
  alive (b, exec_bench_kind_name (w->bench->kind));
  if (!barrier (b, error))
    return FALSE;
  double start_s = exec_clock_s ();
  for (guint i = 0; i < inner; i++)
    if (!run (w, error))
      return FALSE;
  b->backend->synchronize ();
  *out_s = (exec_clock_s () - start_s) / inner;
  return TRUE;
}

static gboolean
repeat (const Wire *w, gboolean (*run) (const Wire *, GError **), ExecBenchSheet *out,
        GError **error)
{
  guint inner = w->bench->bytes < SMALL_BYTES ? SMALL_INNER : 1;
  double least_s = INFINITY, time_s = 0;
  /* the first makes buffers and connections, the second says how long one takes */
  if (!time_runs (w, run, 1, &time_s, error) || !time_runs (w, run, 1, &time_s, error)
      || !agree_repeats (w->b, w->bench, time_s * inner, &out->repeats, error))
    return FALSE;
  for (guint i = 0; i < out->repeats; i++) {
    if (!time_runs (w, run, inner, &time_s, error))
      return FALSE;
    least_s = fmin (least_s, time_s);
  }
  out->seconds[0] = w->bench->kind == EXEC_BENCH_MESSAGE ? least_s / 2 : least_s;
  out->n = 1;
  return TRUE;
}

static gboolean
make_groups (const ExecBencher *b, const ExecBench *bench, GError **error)
{
  guint32 span = bench->size * bench->stride;
  guint32 base = b->rank / span * span + b->rank % bench->stride;
  return b->backend->comm->make_group (COLLECTIVE_GROUP, MODEL_STREAM_TP, base, bench->size,
                                       bench->stride, error);
}

static gboolean
measure_wire (const ExecBencher *b, const ExecBench *bench, ExecBenchSheet *out, GError **error)
{
  Wire w = { .b = b, .bench = bench, .count = MAX (bench->bytes / sizeof (float), 1) };
  guint64 bytes = (w.count + bench->size) * sizeof (float);
  gboolean (*run) (const Wire *, GError **) = bench->kind == EXEC_BENCH_COLLECTIVE ? run_collective
                                              : bench->kind == EXEC_BENCH_MESSAGE  ? run_message
                                                                                   : run_copy;
  w.in = b->backend->memory_new (bytes);
  w.out = w.in != NULL ? b->backend->memory_new (bytes) : NULL;
  gboolean ok = agree_fits (b, w.out != NULL, out, error);
  if (ok && out->status == EXEC_BENCH_MEASURED) {
    b->backend->fill (w.in, 0, w.count);
    b->backend->fill (w.out, 0, w.count);
    ok = (bench->kind != EXEC_BENCH_COLLECTIVE || make_groups (b, bench, error))
         && repeat (&w, run, out, error);
  }
  b->backend->memory_free (w.out, w.out != NULL ? bytes : 0);
  b->backend->memory_free (w.in, w.in != NULL ? bytes : 0);
  return ok;
}

/* ---- launch ---- */

static gboolean
measure_launch (const ExecBencher *b, const ExecBench *bench, ExecBenchSheet *out, GError **error)
{
  float *x = b->backend->memory_new (sizeof *x);
  double waited_s = INFINITY, queued_s = INFINITY, total_s = 0;
  if (!agree_fits (b, x != NULL, out, error))
    return FALSE;
  while (x != NULL && out->repeats < EXEC_BENCH_MOST
         && (out->repeats < EXEC_BENCH_LEAST || total_s < bench->limit_s)) {
    double start_s = exec_clock_s ();
    for (guint i = 0; i < LAUNCH_INNER; i++) {
      b->backend->fill (x, 0, 1);
      b->backend->synchronize ();
    }
    double middle_s = exec_clock_s ();
    for (guint i = 0; i < LAUNCH_INNER; i++)
      b->backend->fill (x, 0, 1);
    double end_s = exec_clock_s ();
    b->backend->synchronize ();
    waited_s = fmin (waited_s, (middle_s - start_s) / LAUNCH_INNER);
    queued_s = fmin (queued_s, (end_s - middle_s) / LAUNCH_INNER);
    total_s += end_s - start_s;
    out->repeats++;
    alive (b, "launch");
  }
  out->seconds[0] = waited_s;
  out->seconds[1] = queued_s;
  out->n = 2;
  b->backend->memory_free (x, sizeof *x);
  return TRUE;
}

gboolean
exec_bench_measure (ExecBencher *b, const ExecBench *bench, ExecBenchSheet *out, GError **error)
{
  memset (out, 0, sizeof *out);
  switch (bench->kind) {
  case EXEC_BENCH_PROGRAM:
    return measure_program (b, bench, out, error);
  case EXEC_BENCH_LAUNCH:
    return measure_launch (b, bench, out, error);
  case EXEC_BENCH_RESIDENT:
    memcpy (out->bytes, b->resident, sizeof out->bytes);
    out->repeats = 1;
    return TRUE;
  default:
    return measure_wire (b, bench, out, error);
  }
}
