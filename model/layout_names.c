/* model/layout_names.c - the words a layout is written in. */
#include "model/layout-private.h"

const char *const model_schedule_names[] = {
  [MODEL_SCHEDULE_1F1B] = "1f1b",         [MODEL_SCHEDULE_INTERLEAVED] = "interleaved",
  [MODEL_SCHEDULE_GPIPE] = "gpipe",       [MODEL_SCHEDULE_ZB_H1] = "zb-h1",
  [MODEL_SCHEDULE_ZB_H2] = "zb-h2",       [MODEL_SCHEDULE_ZB_V] = "zb-v",
  [MODEL_SCHEDULE_V_HALF] = "v-half",     [MODEL_SCHEDULE_V_MIN] = "v-min",
  [MODEL_SCHEDULE_DUALPIPE] = "dualpipe", [MODEL_SCHEDULE_DUALPIPEV] = "dualpipev",
  [MODEL_SCHEDULE_FILE] = "file:PATH", /* how it is written; the list for messages ends here */
  [MODEL_SCHEDULE_FILE_V] = NULL,
};

const char *const model_attn_names[] = { "flash", "fused", "unfused", NULL };
const char *const model_cp_comm_names[] = { "p2p", "a2a", "allgather", NULL };
const char *const model_cuda_graph_names[] = { "none", "layer", "full_iteration", NULL };
const char *const model_recompute_module_names[]
    = { "core_attn", "mlp", "layernorm", "moe_act", "mla_up_proj", "moe", "shared_experts", NULL };

static const char *const legality_names[MODEL_LEGAL_N] = {
  [MODEL_LEGAL] = "legal",
  [MODEL_ILLEGAL_WORLD] = "gpus_not_divisible",
  [MODEL_ILLEGAL_HEADS] = "heads_not_divisible_by_tp",
  [MODEL_ILLEGAL_KV_HEADS] = "kv_heads_not_divisible_by_tp",
  [MODEL_ILLEGAL_FFN] = "ffn_not_divisible_by_tp",
  [MODEL_ILLEGAL_HIDDEN] = "hidden_not_divisible_by_tp",
  [MODEL_ILLEGAL_SEQ] = "sequence_not_divisible",
  [MODEL_ILLEGAL_CP] = "heads_not_divisible_by_tp_cp",
  [MODEL_ILLEGAL_EXPERTS] = "experts_not_divisible",
  [MODEL_ILLEGAL_BATCH] = "batch_not_divisible",
  [MODEL_ILLEGAL_STAGES] = "stage_without_layer",
  [MODEL_ILLEGAL_VPP] = "interleaving_not_possible",
  [MODEL_ILLEGAL_SCHEDULE] = "schedule_not_possible",
  [MODEL_ILLEGAL_ZERO] = "zero_not_possible",
  [MODEL_ILLEGAL_SP] = "sequence_parallel_not_possible",
  [MODEL_ILLEGAL_RECOMPUTE] = "recompute_not_possible",
  [MODEL_ILLEGAL_DTYPE] = "dtype_not_possible",
};

const char *
model_schedule_name (ModelScheduleKind kind)
{
  g_return_val_if_fail ((guint)kind < MODEL_SCHEDULE_N_KINDS, "?");
  return model_schedule_is_file (kind) ? "file" : model_schedule_names[kind];
}

const char *
model_attn_name (ModelAttnKernel kernel)
{
  g_return_val_if_fail ((guint)kernel < MODEL_ATTN_N_KINDS, "?");
  return model_attn_names[kernel];
}

const char *
model_cp_comm_name (ModelCpComm comm)
{
  g_return_val_if_fail ((guint)comm < MODEL_CP_N_KINDS, "?");
  return model_cp_comm_names[comm];
}

const char *
model_cuda_graph_name (ModelCudaGraph graph)
{
  g_return_val_if_fail ((guint)graph < MODEL_GRAPH_N_KINDS, "?");
  return model_cuda_graph_names[graph];
}

const char *
model_legality_name (ModelLegality reason)
{
  g_return_val_if_fail ((guint)reason < MODEL_LEGAL_N, "?");
  return legality_names[reason];
}
