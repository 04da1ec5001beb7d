/* app/record.c - filling records from predictions. */
#include "app/record.h"

#include "model/params.h"

#include <math.h>
#include <string.h>

static const char *
keep (DbPlan *plan, const char *text)
{
  return text != NULL ? g_string_chunk_insert_const (plan->strings, text) : NULL;
}

/* Inserts and frees @text. */
static const char *
keep_owned (DbPlan *plan, char *text)
{
  const char *kept = keep (plan, text);

  g_free (text);
  return kept;
}

static gpointer
keep_array (DbPlan *plan, gsize count, gsize size)
{
  gpointer array = g_malloc0_n (MAX (count, 1), size);

  g_ptr_array_add (plan->arrays, array);
  return array;
}

/* @with_content: the texts that identify the inputs in a database. */
static void
fill_inputs (DbPlan *plan, const AppProblem *problem, gboolean with_content)
{
  const AppSetting *setting = problem->setting;
  const TopoMachine *machine = setting->machine;

  plan->machine = (DbMachineRecord){
    .name = keep (plan, machine->slug),
    .content = with_content ? keep_owned (plan, app_record_machine_whole (machine)) : "",
    .gpu = keep (plan, machine->gpu->slug),
    .gpus_per_node = machine->gpus_per_node,
    .usd_per_gpu_h = machine->price_usd_per_gpu_hour,
    .price_as_of = keep (plan, machine->price_as_of),
  };
  plan->model = (DbModelRecord){
    .name = keep (plan, setting->arch->name),
    .content = with_content ? keep_owned (plan, model_arch_to_ini (setting->arch)) : "",
    .family = keep (plan, setting->arch->family),
    .parameters = model_params_total (setting->arch),
    .parameters_active = model_params_active (setting->arch),
  };
  plan->job = (DbJobRecord){
    .phase = "train",
    .seq = (gint64)problem->job.seq,
    .global_batch = (gint64)problem->job.global_batch,
    .optimizer = "adam",
    .dropout = problem->job.dropout,
  };
  plan->calibration = (DbCalibrationRecord){
    .name = keep (plan, cost_calibration_name (setting->calibration)),
    .content
    = with_content ? keep_owned (plan, cost_calibration_format (setting->calibration)) : "",
    .source = "catalog",
  };
}

static char *
stages_text (const ModelLayout *layout)
{
  GString *text = NULL;

  if (layout->stage_layers == NULL)
    return g_strdup ("auto");
  text = g_string_new (NULL);
  for (guint64 i = 0; i < model_layout_n_stages (layout); i++)
    g_string_append_printf (text, "%s%u", i > 0 ? "+" : "", layout->stage_layers[i]);
  return g_string_free (text, FALSE);
}

static void
fill_layout (DbPlan *plan, const AppProblem *problem, const ModelLayout *layout)
{
  DbPlanRecord *record = &plan->plan;
  const ModelProfile *profile = problem->setting->profile;

  record->profile = keep (plan, profile->name);
  record->layout_text = keep_owned (plan, model_layout_format (layout, profile));
  record->tp = layout->tp;
  record->sp = layout->sp;
  record->cp = layout->cp;
  record->pp = layout->pp;
  record->vpp = layout->vpp;
  record->ep = layout->ep;
  record->etp = layout->etp;
  record->dp = layout->dp;
  record->mbs = layout->mbs;
  record->zero = layout->zero;
  record->hsdp = layout->hsdp;
  record->recompute = keep_owned (plan, model_recompute_format (&layout->recompute));
  record->schedule = model_schedule_is_file (layout->schedule)
                         ? keep_owned (plan, g_strconcat ("file:", layout->schedule_file, NULL))
                         : model_schedule_name (layout->schedule);
  record->stages = keep_owned (plan, stages_text (layout));
  record->attn = model_attn_name (layout->attn);
  record->dtype = model_dtype_name (layout->dtype);
  record->cp_comm = model_cp_comm_name (layout->cp_comm);
  record->tp_sync = layout->tp_sync;
  record->overlap_tp = layout->overlap_tp;
  record->overlap_dp = layout->overlap_dp;
  record->overlap_p2p = layout->overlap_p2p;
}

static void
fill_prediction (DbPlan *plan, const AppProblem *problem, const CostPrediction *prediction)
{
  const CostStageMemory *fullest = &prediction->stages[prediction->fullest_stage].memory;
  double price = problem->setting->machine->price_usd_per_gpu_hour;
  double tokens_per_s = prediction->tokens_per_s_per_gpu;

  plan->plan.usd_per_gpu_h = price;
  plan->plan.prediction = (DbPredictionRecord){
    .step_s = prediction->step_s,
    .step_s_p10 = prediction->step_s_p10,
    .step_s_p90 = prediction->step_s_p90,
    .simulated_s = NAN,
    .tokens_per_s_per_gpu = tokens_per_s,
    .tflops_per_gpu = prediction->tflops_per_gpu,
    .mfu = prediction->mfu,
    .oom_risk = prediction->oom_risk,
    .fits = prediction->fits,
    .peak_bytes = fullest->peak_bytes,
    .allocated_bytes = fullest->allocated_bytes,
    .reserved_bytes = fullest->reserved_bytes,
    .usable_bytes = prediction->usable_bytes,
    .cost_usd_per_1e12_tokens = isnan (price) ? NAN : 1e12 / tokens_per_s / 3600.0 * price,
  };
}

static void
fill_stages (DbPlan *plan, const CostPrediction *prediction)
{
  DbStageMemoryRecord *rows = keep_array (plan, prediction->n_stages, sizeof *rows);

  for (guint i = 0; i < prediction->n_stages; i++) {
    const CostStagePrediction *stage = &prediction->stages[i];
    const guint64 *bytes = stage->memory.bytes;

    rows[i] = (DbStageMemoryRecord){
      .stage = stage->stage,
      .layers = stage->layers,
      .in_flight_count = (gint64)stage->memory.in_flight_count,
      .compute_s = stage->compute_s,
      .peak_bytes = stage->memory.peak_bytes,
      .allocated_bytes = stage->memory.allocated_bytes,
      .reserved_bytes = stage->memory.reserved_bytes,
      .oom_risk = stage->oom_risk,
      .weights_bytes = bytes[COST_MEMORY_WEIGHTS],
      .gradients_bytes = bytes[COST_MEMORY_GRADIENTS],
      .optimizer_bytes = bytes[COST_MEMORY_OPTIMIZER],
      .activations_bytes = bytes[COST_MEMORY_ACTIVATIONS],
      .logits_bytes = bytes[COST_MEMORY_LOGITS],
      .gathers_bytes = bytes[COST_MEMORY_GATHERS],
      .comm_buffers_bytes = bytes[COST_MEMORY_COMM_BUFFERS],
      .workspace_bytes = bytes[COST_MEMORY_WORKSPACE],
      .context_bytes = bytes[COST_MEMORY_CONTEXT],
      .fragmentation_bytes = bytes[COST_MEMORY_FRAGMENTATION],
    };
  }
  plan->plan.stage_rows = rows;
  plan->plan.n_stage_rows = prediction->n_stages;
}

static void
fill_parts_and_groups (DbPlan *plan, const CostPrediction *prediction)
{
  DbBreakdownRecord *parts = keep_array (plan, COST_PART_N_KINDS, sizeof *parts);
  DbGroupRecord *groups = keep_array (plan, prediction->n_groups, sizeof *groups);

  for (guint i = 0; i < COST_PART_N_KINDS; i++)
    parts[i] = (DbBreakdownRecord){ cost_part_name ((CostPart)i), prediction->breakdown_s[i] };
  for (guint i = 0; i < prediction->n_groups; i++)
    groups[i] = (DbGroupRecord){
      .kind = model_group_name (prediction->groups[i].kind),
      .size = prediction->groups[i].size,
      .bottleneck = keep (plan, prediction->groups[i].bottleneck),
    };
  plan->plan.breakdown = parts;
  plan->plan.n_breakdown = COST_PART_N_KINDS;
  plan->plan.groups = groups;
  plan->plan.n_groups = prediction->n_groups;
}

/* "key=value: why" → its parts; a note without '=' gets the key @fallback. */
static void
add_assumed (DbPlan *plan, GArray *rows, const char *note, const char *fallback)
{
  const char *equals = strchr (note, '=');
  const char *colon = strstr (note, ": ");
  DbAssumedRecord row = { 0 };

  if (equals == NULL || (colon != NULL && colon < equals)) {
    row.key = keep_owned (plan, g_strdup_printf ("%s.%u", fallback, rows->len + 1));
    row.value = keep (plan, note);
  } else {
    row.key = keep_owned (plan, g_strndup (note, (gsize)(equals - note)));
    row.value = colon == NULL
                    ? keep (plan, equals + 1)
                    : keep_owned (plan, g_strndup (equals + 1, (gsize)(colon - equals - 1)));
    row.why = colon == NULL ? NULL : keep (plan, colon + 2);
  }
  for (guint i = 0; i < rows->len; i++)
    if (g_str_equal (g_array_index (rows, DbAssumedRecord, i).key, row.key))
      return;
  g_array_append_val (rows, row);
}

/* The spread grows with the scale whether or not somebody was there; that nobody was is said. */
static void
add_scale (DbPlan *plan, GArray *rows, const AppProblem *problem)
{
  const CostNumbers *numbers = &problem->setting->numbers;
  g_autofree char *note = NULL;

  if (numbers->largest_run == 0 || problem->problem.gpus <= numbers->largest_run)
    return;
  note = g_strdup_printf ("scale=%u GPUs: the largest measured run on GPUs of generation %s had "
                          "%" G_GUINT64_FORMAT,
                          problem->problem.gpus, problem->setting->machine->gpu->generation,
                          numbers->largest_run);
  add_assumed (plan, rows, note, "scale");
}

static void
fill_assumed (DbPlan *plan, const AppProblem *problem)
{
  const AppSetting *setting = problem->setting;
  g_autoptr (GArray) rows = g_array_new (FALSE, TRUE, sizeof (DbAssumedRecord));
  DbAssumedRecord *copy = NULL;

  for (guint i = 0; setting->arch->assumed != NULL && i < setting->arch->assumed->len; i++)
    add_assumed (plan, rows, g_ptr_array_index (setting->arch->assumed, i), "model");
  for (guint i = 0; setting->machine->assumed != NULL && setting->machine->assumed[i] != NULL; i++)
    add_assumed (plan, rows, setting->machine->assumed[i], "machine");
  for (guint i = 0; setting->numbers.assumed != NULL && i < setting->numbers.assumed->len; i++)
    add_assumed (plan, rows, g_ptr_array_index (setting->numbers.assumed, i), "calibration");
  add_scale (plan, rows, problem);
  copy = keep_array (plan, rows->len, sizeof *copy);
  if (rows->len > 0)
    memcpy (copy, rows->data, rows->len * sizeof *copy);
  plan->plan.assumed = copy;
  plan->plan.n_assumed = rows->len;
}

static DbPlan *
record_plan (const AppProblem *problem, const ModelLayout *layout, const CostPrediction *prediction,
             gint64 rank, gboolean with_content)
{
  DbPlan *plan = db_plan_new ();

  fill_inputs (plan, problem, with_content);
  plan->plan.rank = rank;
  plan->plan.gpus = problem->problem.gpus;
  plan->plan.global_batch = (gint64)problem->job.global_batch;
  plan->plan.seq = (gint64)problem->job.seq;
  fill_layout (plan, problem, layout);
  fill_prediction (plan, problem, prediction);
  fill_stages (plan, prediction);
  fill_parts_and_groups (plan, prediction);
  fill_assumed (plan, problem);
  return plan;
}

DbPlan *
app_record_plan (const AppProblem *problem, const ModelLayout *layout,
                 const CostPrediction *prediction, gint64 rank)
{
  return record_plan (problem, layout, prediction, rank, TRUE);
}

DbPlan *
app_record_next_plan (const AppProblem *problem, const ModelLayout *layout,
                      const CostPrediction *prediction, gint64 rank)
{
  return record_plan (problem, layout, prediction, rank, FALSE);
}

gboolean
app_record_store_inputs (DbDatabase *db, DbPlan *plan, GError **error)
{
  return db_store_machine (db, &plan->machine, &plan->plan.machine_id, error)
         && db_store_model (db, &plan->model, &plan->plan.model_id, error)
         && db_store_job (db, &plan->job, &plan->plan.job_id, error)
         && db_store_calibration (db, &plan->calibration, &plan->plan.calibration_id, error);
}
