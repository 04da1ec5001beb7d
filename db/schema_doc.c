/* Every table, view and column in words. docs/schema.md and 'plait query --schema' are made from
 * these; a test compares them with the tables themselves. */
#include "db/schema-private.h"

/* clang-format off */
static const DbColumnDoc machine_columns[] = {
  { "machine_id", "number of the row" },
  { "hash", "hash of all other columns: equal content is stored once" },
  { "name", "slug in the catalog, or path of the user's file" },
  { "content", "every fact of the machine, as text" },
  { "gpu", "slug of its GPU" },
  { "gpus_per_node", "GPUs of one node" },
  { "usd_per_gpu_h", "price of one GPU for one hour in US dollars; NULL: not known" },
  { "price_as_of", "date of that price" },
};
static const DbColumnDoc model_columns[] = {
  { "model_id", "number of the row" },
  { "hash", "hash of all other columns: equal content is stored once" },
  { "name", "slug in the catalog, or path of the user's file" },
  { "content", "every fact of the architecture, as text" },
  { "family", "family of the architecture, for example llama" },
  { "parameters", "all weights" },
  { "parameters_active", "weights that one token meets (fewer than all where there are experts)" },
};
static const DbColumnDoc job_columns[] = {
  { "job_id", "number of the row" },
  { "hash", "hash of all other columns: equal content is stored once" },
  { "phase", "train, prefill or decode" },
  { "seq", "tokens of one sequence" },
  { "global_batch", "sequences of one step over all GPUs" },
  { "optimizer", "optimizer whose state is held" },
  { "dropout", "probability of dropout, 0 to 1" },
};
static const DbColumnDoc calibration_columns[] = {
  { "calibration_id", "number of the row" },
  { "hash", "hash of all other columns: equal content is stored once" },
  { "name", "name; 'default' is the catalog's" },
  { "content", "every number of the cost model with spread and provenance, as text" },
  { "source", "catalog, or where it was fitted or measured" },
};
static const DbColumnDoc run_columns[] = {
  { "run_id", "number of the run; never used twice" },
  { "command", "command that made it: plan, predict, ..." },
  { "inputs", "everything asked for, as canonical text" },
  { "inputs_hash", "hash of the inputs: equal questions have equal hashes" },
  { "plait_version", "version of plait that ran" },
  { "status", "running, done, failed or interrupted; running of a killed process is put right when the file is next opened for writing" },
  { "started_at", "start, ISO 8601, UTC" },
  { "finished_at", "end, ISO 8601, UTC; NULL while running" },
  { "message", "why it failed or was interrupted" },
  { "legal_count", "layouts that the rules allow" },
  { "costed_count", "of these, costed in closed form (tier 1)" },
  { "exact_count", "of these, costed by the exact schedule recurrence (tier 2)" },
  { "simulated_count", "of these, played event by event (tier 3)" },
  { "pruned_bound_count", "layouts dropped because their lower bound could not win" },
  { "pruned_risk_count", "layouts dropped for their risk of running out of memory" },
  { "elapsed_s", "seconds that the whole command took" },
  { "search_s", "seconds that the search took" },
  { "simulate_s", "seconds that event simulation took" },
  { "jobs_count", "threads used" },
};
static const DbColumnDoc rejected_columns[] = {
  { "run_id", "run" },
  { "reason", "rule that refused the layouts" },
  { "count", "layouts refused for it" },
};
static const DbColumnDoc plan_columns[] = {
  { "plan_id", "number of the plan, as 'plait show' takes it; never used twice" },
  { "run_id", "run that found it" },
  { "machine_id", "machine it is for" },
  { "model_id", "model it is for" },
  { "job_id", "job it is for" },
  { "calibration_id", "calibration behind its numbers" },
  { "rank", "1 is the best of its run, model, machine, GPU count and job" },
  { "gpus", "GPUs used" },
  { "global_batch", "sequences of one step over all GPUs" },
  { "seq", "tokens of one sequence" },
  { "profile", "framework profile" },
  { "layout_text", "layout as --layout takes it" },
  { "tp", "tensor-parallel size" },
  { "sp", "1: sequence parallelism within the tensor-parallel group" },
  { "cp", "context-parallel size" },
  { "pp", "pipeline stages" },
  { "vpp", "model chunks per pipeline rank (virtual stages)" },
  { "ep", "expert-parallel size" },
  { "etp", "tensor-parallel size of experts" },
  { "dp", "data-parallel size" },
  { "mbs", "sequences of one micro-batch" },
  { "zero", "what data-parallel ranks shard: 0 nothing, 1 optimizer, 2 and gradients, 3 and weights" },
  { "hsdp", "size of a shard group; NULL: all data-parallel ranks" },
  { "recompute", "what backward rebuilds: none, selective[:modules], full[:how:N]" },
  { "schedule", "pipeline schedule" },
  { "stages", "layers of each stage: auto, or a list such as 15+16+16+15" },
  { "attn", "attention kernel: flash, fused, unfused" },
  { "dtype", "number format of the matrix products" },
  { "cp_comm", "how context-parallel ranks exchange: p2p, a2a, allgather" },
  { "tp_sync", "fraction of tensor-parallel synchronisations that are made, 0 to 1" },
  { "overlap_tp", "1: tensor-parallel traffic overlaps with compute" },
  { "overlap_dp", "1: data-parallel traffic overlaps with compute" },
  { "overlap_p2p", "1: traffic between stages overlaps with compute" },
  { "usd_per_gpu_h", "price used, US dollars per GPU and hour; NULL: not known" },
};
static const DbColumnDoc prediction_columns[] = {
  { "plan_id", "plan" },
  { "step_s", "seconds of one step" },
  { "step_s_p10", "one step in ten is faster than this" },
  { "step_s_p90", "one step in ten is slower than this" },
  { "simulated_s", "seconds of one step by event simulation; NULL: not simulated" },
  { "tokens_per_s_per_gpu", "tokens trained (or served) per second and GPU" },
  { "tflops_per_gpu", "model TFLOP/s per GPU: causal attention halved, recompute not counted" },
  { "mfu", "the same over the dense peak of the number format, 0 to 1" },
  { "oom_risk", "probability of running out of memory, 0 to 1, riskiest stage" },
  { "fits", "1: expected to fit" },
  { "peak_bytes", "peak of the fullest stage per GPU, as the driver counts" },
  { "allocated_bytes", "of these, allocated by tensors" },
  { "reserved_bytes", "of these, reserved by the framework's allocator" },
  { "usable_bytes", "what a GPU of this machine offers" },
  { "cost_usd_per_1e12_tokens", "US dollars per 10^12 tokens; NULL: no price known" },
};
static const DbColumnDoc stage_memory_columns[] = {
  { "plan_id", "plan" },
  { "stage", "pipeline stage, from 0" },
  { "layers", "transformer layers it holds" },
  { "in_flight_count", "micro-batches (chunks) whose activations are held at the peak" },
  { "compute_s", "seconds it computes per step" },
  { "peak_bytes", "peak per GPU as the driver counts; sum of the ten components" },
  { "allocated_bytes", "of these, allocated by tensors" },
  { "reserved_bytes", "of these, reserved by the framework's allocator" },
  { "oom_risk", "probability that this stage runs out of memory, 0 to 1" },
  { "weights_bytes", "weights" },
  { "gradients_bytes", "gradients, with main gradients" },
  { "optimizer_bytes", "optimizer state, with main weights" },
  { "activations_bytes", "tensors kept from forward to backward" },
  { "logits_bytes", "logits and what the loss needs" },
  { "gathers_bytes", "weights gathered for use when they are sharded" },
  { "comm_buffers_bytes", "buffers of communicators" },
  { "workspace_bytes", "what recompute rebuilds, gradients of activations, scratch of kernels" },
  { "context_bytes", "driver context and loaded kernels" },
  { "fragmentation_bytes", "reserved by the allocator and not usable" },
};
static const DbColumnDoc breakdown_columns[] = {
  { "plan_id", "plan" },
  { "component", "compute, tp, cp, ep, pp_bubble, p2p, dp, optimizer, other" },
  { "exposed_s", "seconds of the step it accounts for on the critical stage; they sum to step_s" },
  { "position", "place in the order they are shown in, from 0" },
};
static const DbColumnDoc comm_group_columns[] = {
  { "plan_id", "plan" },
  { "kind", "what the ranks of the group share: tp, cp, ep, dp, pp, ..." },
  { "size", "ranks of one group" },
  { "bottleneck", "link that limits it" },
  { "position", "place in the order they are shown in, from 0" },
};
static const DbColumnDoc assumed_columns[] = {
  { "plan_id", "plan" },
  { "key", "value that nobody stated" },
  { "value", "what was taken for it" },
  { "why", "reason for taking that" },
  { "position", "place in the order they are shown in, from 0" },
};
static const DbColumnDoc exec_run_columns[] = {
  { "run_id", "run it belongs to; its status says whether it is done" },
  { "host", "host that started the ranks" },
  { "pid", "process that started the ranks" },
  { "backend", "what computed: cpu" },
  { "rank_count", "processes" },
  { "model", "model as it was named" },
  { "layout_text", "layout as --layout takes it" },
  { "machine", "machine it was predicted for" },
  { "topology_hash", "hash of that machine's description" },
  { "math_version", "version of the library that multiplies matrices" },
  { "comm_version", "version of the library that carries messages" },
  { "verified", "1: gradients and weights are those of one rank alone; NULL: not shown" },
  { "predicted_s", "predicted seconds of one step" },
  { "measured_s", "measured seconds of one step, median" },
  { "measured_s_min", "fastest measured step" },
  { "measured_s_max", "slowest measured step" },
  { "moved_bytes", "bytes of collectives and messages of rank 0 per step" },
  { "seq", "tokens per sequence; NULL: run by a plait that did not store it" },
  { "global_batch", "sequences per step; NULL: likewise" },
  { "calibration", "name of the calibration behind predicted_s" },
};
static const DbColumnDoc run_process_columns[] = {
  { "run_id", "run it belongs to" },
  { "host", "host that works on it" },
  { "pid", "process that does" },
  { "pid_space", "boot and PID namespace in which pid is counted; NULL: not known" },
  { "start_ticks", "when the process started, clock ticks after boot; NULL: not known" },
};
static const DbColumnDoc search_point_columns[] = {
  { "run_id", "run it belongs to" },
  { "point_hash", "hash of the run's inputs, the machine, GPUs, batch and sequence" },
  { "answer", "what was found beside the plans: counts, near misses, notes (JSON)" },
  { "first_plan_id", "its best plan; the others follow; NULL: nothing fits" },
  { "plan_count", "plans kept" },
};
static const DbColumnDoc exec_op_columns[] = {
  { "run_id", "run it belongs to" },
  { "kind", "kind of op, or collective" },
  { "count", "ops in one step, all ranks" },
  { "predicted_s", "predicted seconds in one step, mean over ranks" },
  { "measured_s", "measured seconds in one step, mean over ranks" },
  { "position", "place in the order of kinds, from 0" },
};
static const DbColumnDoc exec_memory_columns[] = {
  { "run_id", "run it belongs to" },
  { "component", "what the bytes are for; peak: the arena's high-water mark" },
  { "predicted_bytes", "predicted bytes of the fullest rank at its peak" },
  { "measured_bytes", "bytes its allocator counted" },
  { "position", "place in the order of components, from 0" },
};
static const DbColumnDoc exec_vs_predicted_columns[] = {
  { "run_id", "run it belongs to" },
  { "status", "status of the run" },
  { "model", "model as it was named" },
  { "layout_text", "layout as --layout takes it" },
  { "rank_count", "processes" },
  { "backend", "what computed" },
  { "kind", "kind of op, or collective" },
  { "count", "ops in one step, all ranks" },
  { "predicted_s", "predicted seconds in one step" },
  { "measured_s", "measured seconds in one step" },
  { "err", "predicted / measured - 1" },
  { "err_of_step", "share of the measured step that this kind is predicted too slow" },
};
static const DbColumnDoc calibration_run_columns[] = {
  { "run_id", "run it belongs to; its status says whether it is done" },
  { "host", "host that measured, or that read the files" },
  { "pid", "process that did" },
  { "backend", "what computed: cpu; NULL: fitted to files" },
  { "rank_count", "processes that measured together" },
  { "topology_hash", "hash of the machine's description" },
  { "math_version", "version of the library that multiplies matrices" },
  { "comm_version", "version of the library that carries messages" },
  { "base", "calibration whose numbers and spreads were the priors" },
  { "budget_s", "seconds that it was allowed to measure" },
  { "calibration_id", "what came of it; NULL: not finished" },
  { "point_count", "measurements that were fitted" },
  { "median_abs_err", "median of |predicted / measured - 1| of the step times fitted" },
  { "median_abs_err_base", "the same with the numbers of the base" },
};
static const DbColumnDoc calibration_value_columns[] = {
  { "calibration_id", "calibration it belongs to" },
  { "group_name", "group of the calibration: gpu cpu, link shm, ..." },
  { "key", "number in that group" },
  { "value", "the number, in unit" },
  { "unit", "s, B, or nothing for ratios and counts" },
  { "spread", "relative standard deviation after the fit" },
  { "base_value", "the same number of the base, in unit" },
  { "base_spread", "its relative standard deviation: the prior" },
  { "provenance", "fitted to measurements, or measured directly" },
  { "point_count", "measurements that say something about it" },
  { "source", "from what" },
  { "position", "place in the order of the calibration, from 0" },
};
static const DbColumnDoc calibration_point_columns[] = {
  { "point_id", "number of the row" },
  { "run_id", "run that measured it" },
  { "measured_at", "when its benchmark was done, UTC" },
  { "benchmark", "what was run; the rows of one are stored together" },
  { "item", "the op with its shape, or what else was measured" },
  { "kind", "kind of op or collective, step, message, copy, launch, resident, device; sum: a step's ops at their least times" },
  { "device", "rank, where each has its own row" },
  { "status", "measured, does_not_fit or failed" },
  { "measured_s", "seconds of one execution, the least of all repeats" },
  { "measured_bytes", "bytes, where it is not a time" },
  { "repeat_count", "how often it was run" },
  { "note", "why it could not be measured" },
};
static const DbColumnDoc calibration_residual_columns[] = {
  { "calibration_id", "calibration it belongs to" },
  { "benchmark", "what was run: a benchmark, or a run of exec" },
  { "item", "what of it was measured" },
  { "kind", "kind of op or collective, step, ..." },
  { "measured_s", "measured seconds" },
  { "predicted_s", "seconds by the calibration" },
  { "base_predicted_s", "seconds by its base" },
  { "position", "place in the order of the fit, from 0" },
};
static const DbColumnDoc calibration_history_columns[] = {
  { "created_at", "when the calibration was begun, UTC" },
  { "name", "name of the calibration" },
  { "plait_version", "version of plait that made it" },
};
static const DbColumnDoc calibration_fit_columns[] = {
  { "name", "name of the calibration" },
  { "err", "predicted / measured - 1" },
  { "base_err", "the same by the base" },
};
static const DbColumnDoc validation_columns[] = {
  { "run_id", "run that compared" },
  { "calibration_id", "calibration behind the predictions" },
  { "row_id", "id of the measured run in its file" },
  { "family", "who measured" },
  { "use", "1: scored, 0.25: doubtful, 0: not scored" },
  { "machine", "name of the machine it was taken for" },
  { "profile", "framework profile it was taken for" },
  { "layout_text", "layout as --layout takes it" },
  { "predicted_s", "predicted seconds of one step" },
  { "predicted_s_p10", "one step in ten is predicted to be faster than this" },
  { "predicted_s_p90", "one step in ten is predicted to be slower than this" },
  { "measured_s", "measured seconds of one step; NULL: not measured" },
  { "mem_kind", "what of the memory was measured: allocated, reserved, driver, unstated" },
  { "predicted_bytes", "predicted memory in the same view and of the same rank" },
  { "measured_bytes", "measured memory; NULL: not measured" },
  { "oom_risk", "predicted probability of running out of memory, 0 to 1" },
  { "ran", "1: it ran; 0: it ran out of memory" },
  { "position", "place of the row in the files, from 0; rows that were skipped don't count" },
};
static const DbColumnDoc accuracy_columns[] = {
  { "run_id", "run that compared" },
  { "calibration", "name of the calibration behind the predictions" },
  { "family", "who measured" },
  { "row_count", "measured runs" },
  { "median_abs_err", "median of |predicted / measured - 1|" },
  { "mean_abs_err", "mean of |predicted / measured - 1|" },
  { "mean_err", "mean of predicted / measured - 1" },
  { "coverage_80", "share of runs measured between the predicted p10 and p90" },
};
static const DbColumnDoc plan_result_columns[] = {
  { "plan_id", "number of the plan, as 'plait show' takes it" },
  { "model", "name of the model" },
  { "machine", "name of the machine" },
  { "phase", "train, prefill or decode" },
  { "calibration", "name of the calibration behind the numbers" },
};
static const DbColumnDoc plan_memory_columns[] = {
  { "usable_bytes", "what a GPU of this machine offers" },
  { "free_bytes", "usable minus peak; negative: too much by that" },
  { "is_fullest", "1: the stage with the highest peak of its plan (the first of equals)" },
};
static const DbColumnDoc run_summary_columns[] = {
  { "rejected_count", "layouts that the rules refuse" },
  { "plan_count", "plans stored" },
  { "models", "names of the models, with commas between them" },
  { "machines", "names of the machines, with commas between them" },
  { "gpus_min", "least GPU count of its plans" },
  { "gpus_max", "greatest GPU count of its plans" },
  { "best_plan_id", "its best plan: one that fits first, then most tokens per second in all" },
};

#define COLUMNS(list) list, G_N_ELEMENTS (list)
static const DbObjectDoc objects[] = {
  { "best_plan", "View: the best plan of every run, model, machine, GPU count and job.",
    "plan_result", NULL, 0 },
  { "plan_result", "View: every stored plan with its names, prediction and layout.",
    "prediction plan", COLUMNS (plan_result_columns) },
  { "plan_memory", "View: memory of every stage of every plan.",
    "stage_memory plan_result", COLUMNS (plan_memory_columns) },
  { "run_summary", "View: every run with what it searched and found.", "run",
    COLUMNS (run_summary_columns) },
  { "accuracy", "View: errors of step time by run and family, over measured runs with use = 1.",
    NULL, COLUMNS (accuracy_columns) },
  { "run", "One invocation that stores plans or comparisons.", NULL, COLUMNS (run_columns) },
  { "rejected", "Why layouts of a run were refused.", NULL, COLUMNS (rejected_columns) },
  { "plan", "A layout of a model on a machine.", NULL, COLUMNS (plan_columns) },
  { "prediction", "What a plan is expected to do; one row per plan.", NULL,
    COLUMNS (prediction_columns) },
  { "stage_memory", "Memory of one pipeline stage of a plan, per GPU.", NULL,
    COLUMNS (stage_memory_columns) },
  { "breakdown", "Where the time of a step goes.", NULL, COLUMNS (breakdown_columns) },
  { "comm_group", "Communication groups of a plan.", NULL, COLUMNS (comm_group_columns) },
  { "assumed", "What a plan rests on that nobody stated.", NULL, COLUMNS (assumed_columns) },
  { "validation", "A measured run beside its prediction.", NULL, COLUMNS (validation_columns) },
  { "run_process", "Who works on a run, so that one that was killed is known and can go on.", NULL,
    COLUMNS (run_process_columns) },
  { "search_point", "One machine, GPU count, batch and sequence of a run, once searched.", NULL,
    COLUMNS (search_point_columns) },
  { "exec_run", "A plan that was run for real.", NULL, COLUMNS (exec_run_columns) },
  { "exec_op", "Predicted and measured time of one kind of op in a step.", NULL,
    COLUMNS (exec_op_columns) },
  { "exec_memory", "Memory of the fullest rank of a run.", NULL, COLUMNS (exec_memory_columns) },
  { "exec_vs_predicted", "View: where predicted and measured time of a run differ.", NULL,
    COLUMNS (exec_vs_predicted_columns) },
  { "calibration_history", "View: every number that calibrate found, over time.",
    "calibration_run calibration_value", COLUMNS (calibration_history_columns) },
  { "calibration_fit", "View: how far each calibration is from what it was fitted to.",
    "calibration_residual", COLUMNS (calibration_fit_columns) },
  { "calibration_run", "One invocation of calibrate.", NULL, COLUMNS (calibration_run_columns) },
  { "calibration_value", "A number that calibrate fitted or measured.", NULL,
    COLUMNS (calibration_value_columns) },
  { "calibration_point", "What was measured on a node.", NULL,
    COLUMNS (calibration_point_columns) },
  { "calibration_residual", "A measurement beside the calibration that was fitted to it.", NULL,
    COLUMNS (calibration_residual_columns) },
  { "machine", "A machine as it was when used.", NULL, COLUMNS (machine_columns) },
  { "model", "A model as it was when used.", NULL, COLUMNS (model_columns) },
  { "job", "What is to be computed.", NULL, COLUMNS (job_columns) },
  { "calibration", "The numbers that the cost model rested on.", NULL,
    COLUMNS (calibration_columns) },
};
/* clang-format on */

const DbObjectDoc *
db_schema_docs (guint *out_n)
{
  *out_n = G_N_ELEMENTS (objects);
  return objects;
}

static const DbObjectDoc *
find_object (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (objects); i++)
    if (g_str_equal (objects[i].name, name))
      return &objects[i];
  return NULL;
}

const char *
db_schema_column_text (const char *object, const char *column)
{
  const DbObjectDoc *doc = find_object (object);
  if (doc == NULL)
    return NULL;
  for (guint i = 0; i < doc->n_columns; i++)
    if (g_str_equal (doc->columns[i].name, column))
      return doc->columns[i].text;
  if (doc->like == NULL)
    return NULL;
  g_auto (GStrv) others = g_strsplit (doc->like, " ", -1);
  for (guint i = 0; others[i] != NULL; i++) {
    const char *text = db_schema_column_text (others[i], column);
    if (text != NULL)
      return text;
  }
  return NULL;
}
