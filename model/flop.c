/* model/flop.c - FLOPs of a step: closed form of the model, and what a program adds up to.
 *
 * Closed form: 6 FLOPs per token and matrix parameter that the token meets (2 forward, 4 backward;
 * of the routed experts the chosen ones), head included, embedding lookup not; attention
 * 2·a·(dqk + dv) FLOPs per query-key pair forward and twice that backward. Validity: matrix products
 * only; norms, activations, softmax and the optimizer are left out, as is usual for MFU
 * (PaLM, Chowdhery et al. 2022, appendix B; there without halving causal attention).
 */
#include "model/params.h"
#include "model/program.h"

/* Parameters of the matrices that one token is multiplied with. Biases and norms have fewer
 * dimensions; a routed expert's matrices have three. */
static double
matrix_parameters (const ModelArch *arch, ModelPart part, guint run)
{
  ModelParam params[MODEL_PARAMS_MAX];
  guint n = model_params_list (arch, part, run, params);
  double sum = 0;
  for (guint i = 0; i < n; i++) {
    double count = (double)params[i].count;
    if (params[i].routed && params[i].n_dims == 3)
      sum += count * arch->runs[run].moe.topk / arch->runs[run].moe.experts;
    else if (!params[i].routed && params[i].n_dims == 2)
      sum += count;
  }
  return sum;
}

static double
attention_flop_per_sequence (const ModelArch *arch, const ModelBlockRun *run, guint64 seq)
{
  const ModelAttention *a = &arch->attention;
  return 2.0 * a->heads * ((double)a->head_dim + a->v_head_dim)
         * model_attention_pairs (seq, run->window, TRUE);
}

double
model_step_flop (const ModelArch *arch, const ModelJob *job)
{
  double matrices = matrix_parameters (arch, MODEL_PART_HEAD, 0), attention = 0;
  if (arch->tied)
    matrices += (double)arch->vocab * (double)arch->hidden;
  for (guint run = 0; run < arch->n_runs; run++) {
    matrices += matrix_parameters (arch, MODEL_PART_BLOCK, run) * arch->runs[run].count;
    attention
        += attention_flop_per_sequence (arch, &arch->runs[run], job->seq) * arch->runs[run].count;
  }
  double forward = (2 * matrices * (double)job->seq + attention) * (double)job->global_batch;
  return job->phase == MODEL_PHASE_TRAIN ? 3 * forward : forward;
}

static void
add_ops (const ModelProgram *program, ModelOpRange range, double times, ModelProgramFlop *out)
{
  for (guint32 i = range.first; i < range.first + range.count; i++) {
    double model = model_op_model_flop (&program->ops[i]);
    out->model_flop += times * model;
    out->recompute_flop += times * (model_op_flop (&program->ops[i]) - model);
  }
}

void
model_program_flop (const ModelProgram *program, ModelProgramFlop *out)
{
  *out = (ModelProgramFlop){ 0 };
  double times = (double)model_schedule_passes (program->schedule->kind, program->microbatches);
  for (guint32 i = 0; i < program->n_chunks; i++) {
    add_ops (program, program->chunks[i].forward, times, out);
    add_ops (program, program->chunks[i].backward, times, out);
  }
  for (guint32 i = program->tail.first; i < program->tail.first + program->tail.count; i++)
    out->tail_flop += model_op_flop (&program->ops[i]);
}
