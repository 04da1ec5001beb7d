/* model/lower_moe.c - mixture of experts: router, dispatch, grouped experts, combine, shared experts.
 *
 * Routing is taken as balanced: every local expert sees T'·topk·ep·etp/E tokens, where T' are the
 * tokens of this rank (T/tp with sequence parallelism). Imbalance is the cost model's matter.
 * The all-to-all over ep leaves as many rows as it takes. With etp > 1 the rows of the etp ranks
 * are gathered, and summed back by a reduce-scatter.
 * Kept per token (reference: memory formulas, section 5): topk·(2h permuted input + 6·f fc1 output
 * and activation + 2h expert output before combine), router probabilities 4E in fp32, and the
 * chosen experts and weights.
 */
#include "model/lower-private.h"

typedef struct {
  guint32 weights; /* of the chosen experts, fp32 [tokens, topk] */
  guint32 indices; /* which they are */
} Routing;

static Routing
route (Lower *b, guint32 normed)
{
  const ModelMoe *moe = &b->run->moe;
  guint32 scores = lower_tensor (b, "router_scores", MODEL_ROLE_ACTIVATION, MODEL_DTYPE_FP32,
                                 LOWER_SEQUENCE, b->tokens, moe->experts);
  LowerGemm gemm = {
    .name = "router",
    .weight = "router.weight",
    .m = b->rows_sequence,
    .n = moe->experts,
    .k = b->arch->hidden,
    .batch = 1,
    .flags = MODEL_OP_ROUTER,
  };
  lower_gemm (b, &gemm, normed, &scores, 1);
  guint32 probabilities = lower_tensor (b, "router_probabilities", MODEL_ROLE_STATISTIC,
                                        MODEL_DTYPE_FP32, LOWER_SEQUENCE, b->tokens, moe->experts);
  Routing routing = { lower_tensor (b, "expert_weights", MODEL_ROLE_ACTIVATION, MODEL_DTYPE_FP32,
                                    LOWER_SEQUENCE, b->tokens, moe->topk),
                      lower_tensor (b, "expert_indices", MODEL_ROLE_MASK, MODEL_DTYPE_INT64,
                                    LOWER_SEQUENCE, b->tokens, moe->topk) };
  lower_begin (b, MODEL_OP_ROUTE, "route");
  lower_in (b, scores);
  lower_in (b, lower_weight (b, "router.bias"));
  lower_out (b, routing.weights);
  lower_out (b, routing.indices);
  lower_out (b, probabilities);
  lower_save (b, probabilities);
  lower_end (b);
  return routing;
}

static guint32
expert_rows (Lower *b, const char *name, LowerSplit split, guint64 copies, guint64 columns)
{
  guint64 rows = b->tokens * b->run->moe.topk * copies;
  guint32 id = lower_tensor (b, name, MODEL_ROLE_ACTIVATION, b->store, split, rows, columns);
  b->tensors[id].routed = TRUE;
  return id;
}

static guint32
exchange (Lower *b, guint32 x, const char *name, ModelCollectiveKind kind, ModelGroupKind group,
          guint64 message_bytes, guint32 out)
{
  lower_begin_collective (b, name, kind, group, MODEL_STREAM_EP, message_bytes);
  lower_in (b, x);
  lower_out (b, out);
  lower_end (b);
  return out;
}

/* To the ranks that hold the experts: over ep, then to every etp rank. */
static guint32
send_to_experts (Lower *b, guint32 x)
{
  guint64 hidden = b->arch->hidden, etp = b->layout->etp;
  if (b->layout->ep > 1)
    x = exchange (b, x, "ep_dispatch", MODEL_COLLECTIVE_ALL_TO_ALL, MODEL_GROUP_EP,
                  b->tensors[x].local_bytes,
                  expert_rows (b, "dispatched", LOWER_SEQUENCE, 1, hidden));
  if (etp > 1) {
    guint32 all = expert_rows (b, "expert_in", LOWER_SEQUENCE, etp, hidden);
    x = exchange (b, x, "etp_input", MODEL_COLLECTIVE_ALL_GATHER, MODEL_GROUP_ETP,
                  b->tensors[all].local_bytes, all);
  }
  return x;
}

static guint32
send_back (Lower *b, guint32 x)
{
  guint64 hidden = b->arch->hidden;
  if (b->layout->etp > 1)
    x = exchange (b, x, "etp_output", MODEL_COLLECTIVE_REDUCE_SCATTER, MODEL_GROUP_ETP,
                  b->tensors[x].local_bytes,
                  expert_rows (b, "expert_sum", LOWER_SEQUENCE, 1, hidden));
  if (b->layout->ep > 1)
    x = exchange (b, x, "ep_combine", MODEL_COLLECTIVE_ALL_TO_ALL, MODEL_GROUP_EP,
                  b->tensors[x].local_bytes,
                  expert_rows (b, "returned", LOWER_SEQUENCE, 1, hidden));
  return x;
}

static guint32
run_experts (Lower *b, guint32 x)
{
  const ModelMoe *moe = &b->run->moe;
  guint64 hidden = b->arch->hidden, etp = b->layout->etp, ffn = moe->expert_ffn;
  guint32 local_experts = (guint32)model_shard_ceil (moe->experts, b->layout->ep);
  guint64 rows = model_shard_ceil (b->rows_sequence * moe->topk * etp, local_experts);
  guint64 local = model_shard_ceil (ffn, etp);
  guint n_in = b->arch->gated ? 2 : 1;
  guint32 outs[2] = { MODEL_TENSOR_NONE, MODEL_TENSOR_NONE };
  guint32 in = lower_quantize (b, x);
  for (guint i = 0; i < n_in; i++)
    outs[i] = expert_rows (b, i == 0 ? "fc1_gate" : "fc1_up", LOWER_EXPERT_COLUMN, etp, ffn);
  LowerGemm fc1 = {
    .name = "experts_fc1",
    .weight = "experts.linear_fc1.weight",
    .bias = "experts.linear_fc1.bias",
    .m = rows,
    .n = n_in * local,
    .k = hidden,
    .batch = local_experts,
    .flags = MODEL_OP_GROUPED,
  };
  lower_gemm (b, &fc1, in, outs, n_in);
  guint16 modules = b->modules;
  b->modules |= MODEL_RECOMPUTE_MOE_ACT;
  guint32 activated
      = lower_activate (b, outs[0], outs[1], LOWER_EXPERT_COLUMN, b->tokens * moe->topk * etp, ffn);
  b->modules = modules;
  guint32 fc2_in = lower_quantize (b, activated);
  guint32 out = expert_rows (b, "expert_out", LOWER_EXPERT_PARTIAL, etp, hidden);
  LowerGemm fc2 = {
    .name = "experts_fc2",
    .weight = "experts.linear_fc2.weight",
    .bias = "experts.linear_fc2.bias",
    .m = rows,
    .n = hidden,
    .k = local,
    .batch = local_experts,
    .flags = MODEL_OP_GROUPED,
  };
  lower_gemm (b, &fc2, fc2_in, &out, 1);
  return out;
}

static guint32
routed_experts (Lower *b, guint32 normed)
{
  guint64 hidden = b->arch->hidden;
  Routing routing = route (b, normed);
  guint32 permuted = expert_rows (b, "permuted", LOWER_SEQUENCE, 1, hidden);
  lower_begin (b, MODEL_OP_DISPATCH, "dispatch");
  lower_in (b, normed);
  lower_in (b, routing.indices);
  lower_out (b, permuted);
  lower_save (b, routing.indices);
  lower_end (b);
  guint32 returned = send_back (b, run_experts (b, send_to_experts (b, permuted)));
  guint32 out = lower_activation (b, "moe_out", LOWER_SEQUENCE, hidden);
  lower_begin (b, MODEL_OP_COMBINE, "combine");
  lower_in (b, returned);
  lower_in (b, routing.weights);
  lower_in (b, routing.indices);
  lower_out (b, out);
  lower_save (b, returned);
  lower_save (b, routing.weights);
  lower_save (b, routing.indices);
  lower_end (b);
  return out;
}

/* The shared experts' output times a sigmoid of one score per token. */
static guint32
gate_shared (Lower *b, guint32 normed, guint32 shared)
{
  guint32 score = lower_activation (b, "shared_gate", LOWER_SEQUENCE, 1);
  LowerGemm gemm = {
    .name = "shared_experts_gate",
    .weight = "shared_experts.gate_weight",
    .m = b->rows_sequence,
    .n = 1,
    .k = b->arch->hidden,
    .batch = 1,
    .flags = MODEL_OP_UNQUANTIZED,
  };
  lower_gemm (b, &gemm, normed, &score, 1);
  guint32 out = lower_activation (b, "gated_shared", LOWER_SEQUENCE, b->arch->hidden);
  lower_begin (b, MODEL_OP_ACT_MUL, "shared_gate");
  lower_in (b, shared);
  lower_in (b, score);
  lower_out (b, out);
  lower_save (b, shared);
  lower_save (b, score);
  lower_end (b);
  return out;
}

static guint32
shared_experts (Lower *b, guint32 normed)
{
  LowerMlp mlp = { "shared_experts_fc1",
                   "shared_experts.linear_fc1.weight",
                   "shared_experts.linear_fc1.bias",
                   "shared_experts_fc2",
                   "shared_experts.linear_fc2.weight",
                   "shared_experts.linear_fc2.bias",
                   b->run->moe.shared_ffn,
                   1 };
  guint16 modules = b->modules;
  b->modules |= MODEL_RECOMPUTE_SHARED_EXPERTS;
  guint32 out = lower_mlp (b, normed, &mlp);
  if (b->run->moe.shared_gate)
    out = gate_shared (b, normed, out);
  b->modules = modules;
  return out;
}

guint32
lower_moe (Lower *b, guint32 normed)
{
  b->modules = MODEL_RECOMPUTE_MOE;
  guint32 out = routed_experts (b, normed);
  if (b->run->moe.shared_ffn > 0) {
    guint32 shared = shared_experts (b, normed);
    guint32 sum = lower_activation (b, "moe_sum", LOWER_SEQUENCE, b->arch->hidden);
    lower_begin (b, MODEL_OP_ADD, "shared_experts_add");
    lower_in (b, out);
    lower_in (b, shared);
    lower_out (b, sum);
    lower_end (b);
    out = sum;
  }
  b->modules = 0;
  return out;
}
