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

static gboolean
resolve_layout (const AppExecRequest *request, Plan *plan, char **out_note, GError **error)
{
  if (*request->layout == '\0')
    model_layout_init (&plan->layout, plan->profile);
  else if (!model_layout_parse (&plan->layout, request->layout, plan->profile, error))
    return FALSE;
  if (*request->layout == '\0')
    plan->layout.dp = 0;
  if (plan->layout.dtype != MODEL_DTYPE_FP32 && strstr (request->layout, "dtype=") != NULL)
    *out_note = g_strdup ("the cpu backend computes in fp32 whatever the layout's dtype");
  plan->layout.dtype = MODEL_DTYPE_FP32;
  return model_layout_resolve (&plan->layout, plan->arch, &plan->job, plan->profile,
                               (guint32)request->ranks, error);
}

static gboolean
plan_init (const AppExecRequest *request, Plan *plan, char **out_note, GError **error)
{
  plan->catalog = base_catalog_new (request->inputs.catalog_dir, error);
  if (plan->catalog == NULL)
    return FALSE;
  plan->arch = model_arch_load (plan->catalog, request->inputs.model, error);
  if (plan->arch == NULL)
    return FALSE;
  plan->profile = model_profile_load (plan->catalog, "plait", error);
  if (plan->profile == NULL
      || !model_job_init (&plan->job, plan->arch, request->seq, request->global_batch,
                          request->inputs.dropout, error)
      || !resolve_layout (request, plan, out_note, error)
      || !exec_rank_supported (plan->arch, &plan->job, &plan->layout, error))
    return FALSE;
  plan->exec = (ExecRequest){ .arch = plan->arch,
                              .job = &plan->job,
                              .layout = &plan->layout,
                              .profile = plan->profile,
                              .verify = request->verify,
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
}

/* Mean over the ranks; the ranks of a stage run the same ops. */
static gboolean
predict_ops (const Plan *plan, const CostContext *context, AppExecResult *out, GError **error)
{
  const ModelLayout *layout = &plan->layout;
  for (guint32 pp = 0; pp < layout->pp; pp++) {
    g_autoptr (ModelProgram) program
        = model_program_new (plan->arch, &plan->job, layout, plan->profile, pp, error);
    if (program == NULL)
      return FALSE;
    for (guint32 i = 0; i < program->n_ops; i++) {
      gboolean tail = program->ops[i].phase == MODEL_PHASE_TAIL;
      add_op (out, context, &program->ops[i], tail ? 1 : (double)program->microbatches,
              1.0 / layout->pp);
    }
  }
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    out->predicted_ops[i].count *= layout->tp * layout->dp;
  /* Who receives waits: for the message and for the stage before. */
  out->predicted_ops[MODEL_OP_RECV].seconds = out->predicted_wait_s;
  return TRUE;
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
  if (!app_setting_init (&setting, &inputs, error)
      || !app_problem_init (&problem, &setting, request->ranks, request->global_batch, request->seq,
                            error)
      || !cost_predict (&problem.problem, &plan->layout, &prediction, error))
    return FALSE;
  g_autofree char *machine = app_record_machine_content (setting.machine);
  out->topology_hash = base_hash_text (machine);
  out->calibration = g_strdup (cost_calibration_name (setting.calibration));
  out->predicted_step_s = prediction.step_s;
  out->predicted_wait_s
      = prediction.breakdown_s[COST_PART_PP_BUBBLE] + prediction.breakdown_s[COST_PART_P2P];
  cost_context_init (&context, setting.machine, setting.profile, &setting.numbers, &out->map);
  return predict_ops (plan, &context, out, error);
}

static gboolean
run (const AppExecRequest *request, Plan *plan, AppExecResult *out, GError **error)
{
  guint32 ranks = (guint32)request->ranks, rank = 0;
  gboolean launches = exec_place () == EXEC_PLACE_LAUNCHER && ranks > 1;
  out->has_result = TRUE;
  if (launches)
    return exec_launch (request->argv, ranks, out->threads, request->timeout_s, &out->result,
                        error);
  plan->exec.backend->set_threads (out->threads);
  if (!exec_be_rank (&plan->exec, request->timeout_s, ranks, &rank, &out->result, error))
    return FALSE;
  out->is_silent = rank > 0 || exec_place () == EXEC_PLACE_RANK;
  return TRUE;
}

/* Only the process the user started stores: the launcher, or rank 0 under mpirun or srun. */
static gboolean
run_stored (const AppExecRequest *request, Plan *plan, AppExecResult *out, GError **error)
{
  AppExecStore store = { .backend = plan->exec.backend };
  g_autoptr (GError) failure = NULL;
  gboolean stores = exec_place () == EXEC_PLACE_LAUNCHER;
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

AppExecResult *
app_exec (const AppExecRequest *request, GError **error)
{
  g_autoptr (AppExecResult) out = g_new0 (AppExecResult, 1);
  g_auto (Plan) plan = { 0 };
  if (!plan_init (request, &plan, &out->note, error))
    return NULL;
  plan.exec.backend = exec_backend_load (request->backend, error);
  if (plan.exec.backend == NULL)
    return NULL;
  out->layout_text = model_layout_format (&plan.layout, plan.profile);
  out->seq = plan.job.seq;
  out->global_batch = plan.job.global_batch;
  out->threads = MAX (base_cpus_count () / request->ranks, 1);
  model_rankmap_init (&out->map, &plan.layout);
  if (exec_place () != EXEC_PLACE_RANK
      && (!predict (request, &plan, out, error)
          || !exec_predict_peak (&plan.exec, &out->predicted_peak_bytes,
                                 &out->predicted_fullest_rank, out->predicted_memory_bytes, error)))
    return NULL;
  if (!request->dry_run && !run_stored (request, &plan, out, error))
    return NULL;
  return g_steal_pointer (&out);
}
