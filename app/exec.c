/* app/exec.c - resolve the plan, predict it, run it. */
#include "app/exec-private.h"

#include "app/record.h"
#include "base/cpus.h"
#include "base/hash.h"
#include "base/suggest.h"
#include "costmodel/opcost.h"

#include <math.h>
#include <string.h>

/* What is run: owned parts of an ExecRequest. */
typedef struct {
  BaseCatalog *catalog;
  ModelArch *arch;
  ModelProfile *profile;
  ModelJob job;
  ModelLayout layout;
  ExecRequest exec;
} Plan;

static void
plan_clear (Plan *plan)
{
  model_layout_clear (&plan->layout);
  g_clear_pointer (&plan->profile, model_profile_free);
  g_clear_pointer (&plan->arch, model_arch_free);
  g_clear_pointer (&plan->catalog, base_catalog_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Plan, plan_clear)

void
app_exec_result_free (AppExecResult *result)
{
  if (result == NULL)
    return;
  g_free (result->layout_text);
  g_free (result->topology_hash);
  g_free (result->calibration);
  g_free (result->note);
  exec_verdict_clear (&result->result.verdict);
  g_free (result);
}

/* An injected fault needs a layout in which it can strike. */
static gboolean
parse_inject (const char *text, const ModelLayout *layout, ExecInject *out, GError **error)
{
  const char *const *names = &exec_inject_names[EXEC_INJECT_NONE + 1];
  if (text == NULL)
    return TRUE;
  gint fault = base_name_index (text, names);
  if (fault < 0) {
    g_autofree char *expected = base_suggest_one_of (text, names);
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "--inject '%s' is no fault: expected %s", text,
                 expected);
    return FALSE;
  }
  *out = (ExecInject)(EXEC_INJECT_NONE + 1 + fault);
  gboolean strikes = *out == EXEC_INJECT_SWAP_SHARDS        ? layout->tp > 1
                     : *out == EXEC_INJECT_SKIP_ALLREDUCE   ? layout->tp > 1 || layout->dp > 1
                     : *out == EXEC_INJECT_WRONG_DP_AVERAGE ? layout->dp > 1
                     : *out == EXEC_INJECT_STALE_GATHER
                         ? (layout->zero > 0 && layout->dp > 1) || (layout->sp && layout->zero == 0)
                         : TRUE;
  if (!strikes)
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "--inject %s changes nothing in this layout: give tp > 1 (swap_shards, "
                 "skip_allreduce), dp > 1 (skip_allreduce, wrong_dp_average), zero=1 or sp=1 "
                 "(stale_gather)",
                 text);
  return strikes;
}

/* fp32 where the backend has no other, and for --verify: sums in another order differ by 1e-7 there
 * and by 1e-2 in bf16, where a fault of that size would pass for rounding. */
static void
choose_dtype (const AppExecRequest *request, Plan *plan, char **out_note)
{
  ModelDtype asked = plan->layout.dtype;
  gboolean has_half = plan->exec.backend->bf16 != NULL;
  gboolean said = strstr (request->layout, "dtype=") != NULL;
  if (asked != MODEL_DTYPE_FP32)
    plan->layout.dtype = has_half && !request->verify ? MODEL_DTYPE_BF16 : MODEL_DTYPE_FP32;
  if (said && !has_half && asked != MODEL_DTYPE_FP32)
    *out_note = g_strdup_printf ("the %s backend computes in fp32 whatever the layout's dtype",
                                 request->backend);
  else if (said && request->verify && asked != MODEL_DTYPE_FP32)
    *out_note = g_strdup ("--verify compares in fp32 whatever the layout's dtype");
  else if (said && asked != plan->layout.dtype)
    *out_note = g_strdup_printf ("the %s backend computes in bf16 instead of %s", request->backend,
                                 model_dtype_name (asked));
}

static void
add_note (char **note, const char *more)
{
  g_autofree char *before = g_steal_pointer (note);
  *note = before != NULL ? g_strdup_printf ("%s; %s", before, more) : g_strdup (more);
}

/* The prediction must not hide what the run does not. */
static void
drop_overlaps (const AppExecRequest *request, Plan *plan, char **out_note)
{
  ModelLayout *layout = &plan->layout;
  gboolean can = plan->exec.backend->comm->start != NULL && !request->slice;
  if (can || (!layout->overlap_tp && !layout->overlap_dp))
    return;
  g_autofree char *text
      = request->slice ? g_strdup ("a slice's collectives are priced as if nothing ran beside "
                                   "them: overlap_tp and overlap_dp are taken as 0")
                       : g_strdup_printf ("the %s backend runs collectives between computes, not "
                                          "beside them: overlap_tp and overlap_dp are taken as 0",
                                          request->backend);
  layout->overlap_tp = layout->overlap_dp = FALSE;
  add_note (out_note, text);
}

static gboolean
resolve_layout (const AppExecRequest *request, Plan *plan, char **out_note, GError **error)
{
  if (*request->layout == '\0')
    model_layout_init (&plan->layout, plan->profile);
  else if (!model_layout_parse (&plan->layout, request->layout, plan->profile, error))
    return FALSE;
  if (*request->layout == '\0')
    plan->layout.dp = 0;
  choose_dtype (request, plan, out_note);
  drop_overlaps (request, plan, out_note);
  return model_layout_resolve (&plan->layout, plan->arch, &plan->job, plan->profile,
                               (guint32)request->ranks, error);
}

/* All that can be told before a backend is there: bad input is bad input with or without a GPU. */
static gboolean
read_inputs (const AppExecRequest *request, Plan *plan, GError **error)
{
  g_auto (ModelLayout) layout = { 0 };
  plan->catalog = base_catalog_new (request->inputs.catalog_dir, error);
  if (plan->catalog == NULL)
    return FALSE;
  plan->arch = app_model_load (plan->catalog, &request->inputs, error);
  if (plan->arch == NULL)
    return FALSE;
  plan->profile = model_profile_load (plan->catalog, "plait", error);
  if (plan->profile == NULL
      || !model_job_init (&plan->job, plan->arch, request->seq, request->global_batch,
                          request->inputs.dropout, error))
    return FALSE;
  return *request->layout == '\0'
         || (model_layout_parse (&layout, request->layout, plan->profile, error)
             && model_layout_resolve (&layout, plan->arch, &plan->job, plan->profile,
                                      (guint32)request->ranks, error));
}

static gboolean
plan_init (const AppExecRequest *request, Plan *plan, char **out_note, GError **error)
{
  if (!resolve_layout (request, plan, out_note, error)
      || !exec_rank_supported (plan->arch, &plan->job, &plan->layout, error))
    return FALSE;
  plan->exec = (ExecRequest){ .backend = plan->exec.backend,
                              .arch = plan->arch,
                              .job = &plan->job,
                              .layout = &plan->layout,
                              .profile = plan->profile,
                              .verify = request->verify,
                              .slice = request->slice,
                              .warmup = request->warmup,
                              .steps = request->steps,
                              .limit_bytes = request->limit_bytes };
  return parse_inject (request->inject, &plan->layout, &plan->exec.inject, error);
}

static void
add_op (AppExecResult *out, const CostContext *context, const ModelOp *op, double times,
        double share)
{
  ExecBucket *bucket = &out->predicted_ops[exec_op_bucket (op)];
  bucket->count += (guint64)times;
  bucket->seconds += times * share * cost_op_s (context, op);
  out->op_flop[exec_op_bucket (op)] += times * share * model_op_flop (op);
  out->op_bytes[exec_op_bucket (op)] += times * share * model_op_hbm_bytes (op);
}

/* Mean over the ranks; the ranks of a stage run the same ops. A slice is one rank of one stage. */
static gboolean
predict_ops (const Plan *plan, const CostContext *context, AppExecResult *out, GError **error)
{
  const ModelLayout *layout = &plan->layout;
  gboolean slice = plan->exec.slice;
  guint32 only = model_rankmap_coordinates (&out->map, out->predicted_fullest_rank).pp;
  for (guint32 pp = 0; pp < layout->pp; pp++) {
    if (slice && pp != only)
      continue;
    g_autoptr (ModelProgram) program
        = model_program_new (plan->arch, &plan->job, layout, plan->profile, pp, error);
    if (program == NULL)
      return FALSE;
    for (guint32 i = 0; i < program->n_ops; i++) {
      gboolean tail = program->ops[i].phase == MODEL_PHASE_TAIL;
      add_op (out, context, &program->ops[i], tail ? 1 : (double)program->microbatches,
              slice ? 1 : 1.0 / layout->pp);
    }
  }
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    out->predicted_ops[i].count *= slice ? 1 : layout->tp * layout->dp;
  /* Who receives waits: for the message and for the stage before. */
  out->predicted_ops[MODEL_OP_RECV].seconds = out->predicted_wait_s;
  return TRUE;
}

/* What runs beside compute is predicted to hide as much as the calibration says. */
static void
note_overlaps (const Plan *plan, const AppSetting *setting, AppExecResult *out)
{
  const CostProfileNumbers *numbers = &setting->numbers.profile;
  gboolean dp = plan->layout.overlap_dp && numbers->overlap_dp_ratio == 0;
  gboolean tp = plan->layout.overlap_tp && numbers->overlap_tp_ratio == 0;
  if (!dp && !tp)
    return;
  g_autofree char *text = g_strdup_printf (
      "calibration '%s' has no measurement of what profile plait hides: %s is predicted as if "
      "exposed; the column 'exposed' says what is",
      out->calibration,
      dp && tp ? "dp and tp communication"
      : dp     ? "dp communication"
               : "tp communication");
  add_note (&out->note, text);
}

static gboolean
predict (const AppExecRequest *request, const Plan *plan, AppExecResult *out, GError **error)
{
  g_auto (AppSetting) setting = { 0 };
  g_auto (CostPrediction) prediction = { 0 };
  AppInputs inputs = request->inputs;
  AppProblem problem;
  CostContext context;
  inputs.profile = "plait";
  inputs.live_ranks = (guint32)request->ranks;
  if (!app_setting_init (&setting, &inputs, error))
    return FALSE;
  g_autofree char *machine = app_record_machine_content (setting.machine);
  out->topology_hash = base_hash_text (machine);
  out->calibration = g_strdup (cost_calibration_name (setting.calibration));
  if (!app_problem_init (&problem, &setting, request->ranks, request->global_batch, request->seq,
                         error)
      || !cost_predict (&problem.problem, &plan->layout, &prediction, error))
    return FALSE;
  note_overlaps (plan, &setting, out);
  out->predicted_step_s = prediction.step_s;
  out->predicted_wait_s
      = prediction.breakdown_s[COST_PART_PP_BUBBLE] + prediction.breakdown_s[COST_PART_P2P];
  const TopoGpu *gpu = setting.machine->gpu;
  out->memory_bytes_per_s = gpu->hbm_bytes_per_s;
  out->peak_flop_per_s
      = topo_gpu_peak (gpu,
                       plan->layout.dtype == MODEL_DTYPE_FP32 ? TOPO_DTYPE_FP32 : TOPO_DTYPE_BF16);
  cost_context_init (&context, setting.machine, setting.profile, &setting.numbers, &out->map);
  return predict_ops (plan, &context, out, error);
}

/* A GPU at hand that the catalog does not know has no prediction: it is measured all the same. */
static gboolean
predict_if_known (const AppExecRequest *request, const Plan *plan, AppExecResult *out,
                  GError **error)
{
  g_autoptr (GError) reason = NULL;
  if (predict (request, plan, out, &reason))
    return TRUE;
  if (out->topology_hash == NULL || !g_str_equal (request->inputs.machine, "live")
      || plan->layout.dtype == MODEL_DTYPE_FP32) {
    g_propagate_error (error, g_steal_pointer (&reason));
    return FALSE;
  }
  out->predicted_step_s = out->predicted_wait_s = NAN;
  out->peak_flop_per_s = out->memory_bytes_per_s = NAN;
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    out->predicted_ops[i] = (ExecBucket){ 0, NAN, NAN };
  g_autofree char *text
      = g_strdup_printf ("no predicted times: %s; --machine names one that is known",
                         reason->message);
  add_note (&out->note, text);
  return TRUE;
}

/* What a slice did not do: its communication takes what was predicted. */
static void
price (AppExecResult *out)
{
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    if (i >= MODEL_OP_N_KINDS || i == MODEL_OP_SEND || i == MODEL_OP_RECV) {
      out->result.ops[i].seconds = out->predicted_ops[i].seconds;
      out->result.ops[i].exposed_s = out->predicted_ops[i].seconds;
      out->priced_s += out->predicted_ops[i].seconds;
    }
}

static gboolean
run (const AppExecRequest *request, Plan *plan, AppExecResult *out, GError **error)
{
  guint32 ranks = (guint32)request->ranks, rank = 0;
  gboolean launches = exec_place () == EXEC_PLACE_LAUNCHER && ranks > 1 && !request->slice;
  out->has_result = TRUE;
  if (launches)
    return exec_launch (request->argv, ranks, out->threads, request->timeout_s, &out->result,
                        error);
  plan->exec.backend->set_threads (out->threads);
  if (!exec_be_rank (&plan->exec, request->timeout_s, ranks, &rank, &out->result, error))
    return FALSE;
  if (request->slice)
    price (out);
  out->is_silent = rank > 0 || exec_place () == EXEC_PLACE_RANK;
  return TRUE;
}

/* Only the process the user started stores: the launcher, or rank 0 under mpirun or srun. */
static gboolean
run_stored (const AppExecRequest *request, Plan *plan, AppExecResult *out, GError **error)
{
  AppExecStore store = { .backend = plan->exec.backend };
  g_autoptr (GError) failure = NULL;
  gboolean stores = exec_place () == EXEC_PLACE_LAUNCHER && !request->slice;
  if (stores && !app_exec_store_begin (&store, request, out, error)) {
    db_database_free (store.db);
    return FALSE;
  }
  gboolean ok = run (request, plan, out, &failure);
  gboolean stored = app_exec_store_finish (&store, request, out, failure, ok ? error : NULL);
  db_database_free (store.db);
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&failure));
  return ok && stored;
}

/* Alone there is nothing to compare with, and no one to be started by. */
static gboolean
check_slice (const AppExecRequest *request, GError **error)
{
  if (!request->slice || (!request->verify && exec_place () == EXEC_PLACE_LAUNCHER))
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               request->verify
                   ? "--slice runs one rank alone: it cannot --verify"
                   : "--slice runs one rank alone: start it without mpirun, srun, torchrun");
  return FALSE;
}

AppExecResult *
app_exec (const AppExecRequest *request, GError **error)
{
  g_autoptr (AppExecResult) out = g_new0 (AppExecResult, 1);
  g_auto (Plan) plan = { 0 };
  guint cores = base_cpus_count ();
  if (!check_slice (request, error) || !read_inputs (request, &plan, error))
    return NULL;
  plan.exec.backend = exec_backend_load (request->backend, error);
  if (plan.exec.backend == NULL || !plan_init (request, &plan, &out->note, error)
      || (!request->dry_run && plan.exec.backend->probe != NULL
          && exec_place () == EXEC_PLACE_LAUNCHER
          && !plan.exec.backend->probe (request->slice ? 1 : (guint32)request->ranks, error)))
    return NULL;
  out->layout_text = model_layout_format (&plan.layout, plan.profile);
  out->seq = plan.job.seq;
  out->global_batch = plan.job.global_batch;
  out->threads = MAX (request->slice ? cores : cores / request->ranks, 1);
  model_rankmap_init (&out->map, &plan.layout);
  if (exec_place () != EXEC_PLACE_RANK
      && (!exec_predict_peak (&plan.exec, &out->predicted_peak_bytes, &out->predicted_fullest_rank,
                              out->predicted_memory_bytes, error)
          || !predict_if_known (request, &plan, out, error)))
    return NULL;
  if (!request->dry_run && !run_stored (request, &plan, out, error))
    return NULL;
  return g_steal_pointer (&out);
}
