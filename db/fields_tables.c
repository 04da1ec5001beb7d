#include "db/fields-private.h"
#include "db/records.h"

/* Each table names its record as RECORD; a field's column has the name of its member. */
#define FIELD(kind, member)                                                                        \
  {                                                                                                \
#member, DB_FIELD_##kind, G_STRUCT_OFFSET(RECORD, member)                                      \
  }
#define TABLE(name, fields)                                                                        \
  {                                                                                                \
    name, fields, G_N_ELEMENTS (fields)                                                            \
  }

#define RECORD DbMachineRecord
static const DbField machine_fields[] = {
  FIELD (TEXT, name),          FIELD (TEXT, content),
  FIELD (TEXT, gpu),           FIELD (INT_OR_NULL, gpus_per_node),
  FIELD (REAL, usd_per_gpu_h), FIELD (TEXT, price_as_of),
};
#undef RECORD
const DbTable db_machine_table = TABLE ("machine", machine_fields);

#define RECORD DbModelRecord
static const DbField model_fields[] = {
  FIELD (TEXT, name),
  FIELD (TEXT, content),
  FIELD (TEXT, family),
  FIELD (COUNT, parameters),
  FIELD (COUNT, parameters_active),
};
#undef RECORD
const DbTable db_model_table = TABLE ("model", model_fields);

#define RECORD DbJobRecord
static const DbField job_fields[] = {
  FIELD (TEXT, phase),     FIELD (INT, seq),      FIELD (INT, global_batch),
  FIELD (TEXT, optimizer), FIELD (REAL, dropout),
};
#undef RECORD
const DbTable db_job_table = TABLE ("job", job_fields);

#define RECORD DbCalibrationRecord
static const DbField calibration_fields[] = {
  FIELD (TEXT, name),
  FIELD (TEXT, content),
  FIELD (TEXT, source),
};
#undef RECORD
const DbTable db_calibration_table = TABLE ("calibration", calibration_fields);

#define RECORD DbRunCounts
static const DbField run_counts_fields[] = {
  FIELD (COUNT, legal_count),        FIELD (COUNT, costed_count),
  FIELD (COUNT, exact_count),        FIELD (COUNT, simulated_count),
  FIELD (COUNT, pruned_bound_count), FIELD (COUNT, pruned_risk_count),
  FIELD (REAL, elapsed_s),           FIELD (REAL, search_s),
  FIELD (REAL, simulate_s),          FIELD (INT_OR_NULL, jobs_count),
};
#undef RECORD
const DbTable db_run_counts_table = TABLE ("run", run_counts_fields);

#define RECORD DbPlanRecord
static const DbField plan_fields[] = {
  FIELD (INT, machine_id),   FIELD (INT, model_id),
  FIELD (INT, job_id),       FIELD (INT, calibration_id),
  FIELD (INT, rank),         FIELD (INT, gpus),
  FIELD (INT, global_batch), FIELD (INT, seq),
  FIELD (TEXT, profile),     FIELD (TEXT, layout_text),
  FIELD (INT, tp),           FIELD (FLAG, sp),
  FIELD (INT, cp),           FIELD (INT, pp),
  FIELD (INT, vpp),          FIELD (INT, ep),
  FIELD (INT, etp),          FIELD (INT, dp),
  FIELD (INT, mbs),          FIELD (INT, zero),
  FIELD (INT_OR_NULL, hsdp), FIELD (TEXT, recompute),
  FIELD (TEXT, schedule),    FIELD (TEXT, stages),
  FIELD (TEXT, attn),        FIELD (TEXT, dtype),
  FIELD (TEXT, cp_comm),     FIELD (REAL, tp_sync),
  FIELD (FLAG, overlap_tp),  FIELD (FLAG, overlap_dp),
  FIELD (FLAG, overlap_p2p), FIELD (REAL, usd_per_gpu_h),
};
#undef RECORD
const DbTable db_plan_table = TABLE ("plan", plan_fields);

#define RECORD DbPredictionRecord
static const DbField prediction_fields[] = {
  FIELD (REAL, step_s),
  FIELD (REAL, step_s_p10),
  FIELD (REAL, step_s_p90),
  FIELD (REAL, simulated_s),
  FIELD (REAL, tokens_per_s_per_gpu),
  FIELD (REAL, tflops_per_gpu),
  FIELD (REAL, mfu),
  FIELD (REAL, oom_risk),
  FIELD (FLAG, fits),
  FIELD (COUNT, peak_bytes),
  FIELD (COUNT, allocated_bytes),
  FIELD (COUNT, reserved_bytes),
  FIELD (COUNT, usable_bytes),
  FIELD (REAL, cost_usd_per_1e12_tokens),
};
#undef RECORD
const DbTable db_prediction_table = TABLE ("prediction", prediction_fields);

#define RECORD DbStageMemoryRecord
static const DbField stage_memory_fields[] = {
  FIELD (INT, stage),
  FIELD (INT, layers),
  FIELD (INT, in_flight_count),
  FIELD (REAL, compute_s),
  FIELD (COUNT, peak_bytes),
  FIELD (COUNT, allocated_bytes),
  FIELD (COUNT, reserved_bytes),
  FIELD (REAL, oom_risk),
  FIELD (COUNT, weights_bytes),
  FIELD (COUNT, gradients_bytes),
  FIELD (COUNT, optimizer_bytes),
  FIELD (COUNT, activations_bytes),
  FIELD (COUNT, logits_bytes),
  FIELD (COUNT, gathers_bytes),
  FIELD (COUNT, comm_buffers_bytes),
  FIELD (COUNT, workspace_bytes),
  FIELD (COUNT, context_bytes),
  FIELD (COUNT, fragmentation_bytes),
};
#undef RECORD
const DbTable db_stage_memory_table = TABLE ("stage_memory", stage_memory_fields);

#define RECORD DbBreakdownRecord
static const DbField breakdown_fields[] = { FIELD (TEXT, component), FIELD (REAL, exposed_s) };
#undef RECORD
const DbTable db_breakdown_table = TABLE ("breakdown", breakdown_fields);

#define RECORD DbGroupRecord
static const DbField comm_group_fields[] = {
  FIELD (TEXT, kind),
  FIELD (INT, size),
  FIELD (TEXT, bottleneck),
};
#undef RECORD
const DbTable db_comm_group_table = TABLE ("comm_group", comm_group_fields);

#define RECORD DbAssumedRecord
static const DbField assumed_fields[] = {
  FIELD (TEXT, key),
  FIELD (TEXT, value),
  FIELD (TEXT, why),
};
#undef RECORD
const DbTable db_assumed_table = TABLE ("assumed", assumed_fields);

#define RECORD DbRejectedRecord
static const DbField rejected_fields[] = { FIELD (TEXT, reason), FIELD (COUNT, count) };
#undef RECORD
const DbTable db_rejected_table = TABLE ("rejected", rejected_fields);

#define RECORD DbValidationRecord
static const DbField validation_fields[] = {
  FIELD (INT, calibration_id),
  FIELD (TEXT, row_id),
  FIELD (TEXT, family),
  FIELD (REAL, use),
  FIELD (TEXT, machine),
  FIELD (TEXT, profile),
  FIELD (TEXT, layout_text),
  FIELD (REAL, predicted_s),
  FIELD (REAL, predicted_s_p10),
  FIELD (REAL, predicted_s_p90),
  FIELD (REAL, measured_s),
  FIELD (TEXT, mem_kind),
  FIELD (INT_OR_NULL, predicted_bytes),
  FIELD (INT_OR_NULL, measured_bytes),
  FIELD (REAL, oom_risk),
  FIELD (FLAG, ran),
};
#undef RECORD
const DbTable db_validation_table = TABLE ("validation", validation_fields);

#define RECORD DbExecRecord
static const DbField exec_fields[] = {
  FIELD (TEXT, host),
  FIELD (INT, pid),
  FIELD (TEXT, backend),
  FIELD (INT, rank_count),
  FIELD (TEXT, model),
  FIELD (TEXT, layout_text),
  FIELD (TEXT, machine),
  FIELD (TEXT, topology_hash),
  FIELD (TEXT, math_version),
  FIELD (TEXT, comm_version),
  FIELD (INT_OR_NULL, verified),
  FIELD (REAL, predicted_s),
  FIELD (REAL, measured_s),
  FIELD (REAL, measured_s_min),
  FIELD (REAL, measured_s_max),
  FIELD (INT_OR_NULL, moved_bytes),
  FIELD (INT_OR_NULL, seq),
  FIELD (INT_OR_NULL, global_batch),
  FIELD (TEXT, calibration),
};
#undef RECORD
const DbTable db_exec_table = TABLE ("exec_run", exec_fields);

#define RECORD DbExecLoaded
static const DbField exec_loaded_fields[] = {
  FIELD (INT, run_id),          FIELD (TEXT, model), FIELD (TEXT, layout_text),
  FIELD (INT, rank_count),      FIELD (INT, seq),    FIELD (INT, global_batch),
  FIELD (REAL, measured_s_min),
};
#undef RECORD
const DbTable db_exec_loaded_table = TABLE ("exec_run", exec_loaded_fields);

#define RECORD DbCalibrationRunRecord
static const DbField calibration_run_fields[] = {
  FIELD (TEXT, host),          FIELD (INT, pid),
  FIELD (TEXT, backend),       FIELD (INT_OR_NULL, rank_count),
  FIELD (TEXT, topology_hash), FIELD (TEXT, math_version),
  FIELD (TEXT, comm_version),  FIELD (TEXT, base),
  FIELD (REAL, budget_s),
};
#undef RECORD
const DbTable db_calibration_run_table = TABLE ("calibration_run", calibration_run_fields);

#define RECORD DbCalibrationValueRecord
static const DbField calibration_value_fields[] = {
  FIELD (TEXT, group_name),  FIELD (TEXT, key),        FIELD (REAL, value),
  FIELD (TEXT, unit),        FIELD (REAL, spread),     FIELD (REAL, base_value),
  FIELD (REAL, base_spread), FIELD (TEXT, provenance), FIELD (COUNT, point_count),
  FIELD (TEXT, source),
};
#undef RECORD
const DbTable db_calibration_value_table = TABLE ("calibration_value", calibration_value_fields);

#define RECORD DbPointRecord
static const DbField point_fields[] = {
  FIELD (TEXT, benchmark),
  FIELD (TEXT, item),
  FIELD (TEXT, kind),
  FIELD (TEXT, device),
  FIELD (TEXT, status),
  FIELD (REAL, measured_s),
  FIELD (INT_OR_NULL, measured_bytes),
  FIELD (COUNT, repeat_count),
  FIELD (TEXT, note),
};
#undef RECORD
const DbTable db_point_table = TABLE ("calibration_point", point_fields);

#define RECORD DbCalibrationResidualRecord
static const DbField calibration_residual_fields[] = {
  FIELD (TEXT, benchmark),  FIELD (TEXT, item),        FIELD (TEXT, kind),
  FIELD (REAL, measured_s), FIELD (REAL, predicted_s), FIELD (REAL, base_predicted_s),
};
#undef RECORD
const DbTable db_calibration_residual_table
    = TABLE ("calibration_residual", calibration_residual_fields);

#define RECORD DbExecOpRecord
static const DbField exec_op_fields[] = { FIELD (TEXT, kind), FIELD (COUNT, count),
                                          FIELD (REAL, predicted_s), FIELD (REAL, measured_s) };
#undef RECORD
const DbTable db_exec_op_table = TABLE ("exec_op", exec_op_fields);

#define RECORD DbExecMemoryRecord
static const DbField exec_memory_fields[]
    = { FIELD (TEXT, component), FIELD (COUNT, predicted_bytes), FIELD (COUNT, measured_bytes) };
#undef RECORD
const DbTable db_exec_memory_table = TABLE ("exec_memory", exec_memory_fields);
