/* tests/exec_fixture.h - a very small model that the executor runs, and how a test runs it. */
#pragma once
#include "exec/runner.h"
#include "tests/testutil.h"

typedef struct {
  ModelArch arch;
  ModelBlockRun run;
  ModelJob job;
  ModelProfile profile;
  ModelLayout layout;
} ExecFixture;

/* As catalog/profiles/plait.ini. */
static inline ModelProfile
exec_fixture_profile (void)
{
  return (ModelProfile){ .fused_norm = TRUE,
                         .fused_activation = TRUE,
                         .fused_cross_entropy = TRUE,
                         .param_bytes = 4,
                         .main_grad_bytes = 4,
                         .moment_bytes = 8,
                         .reduce_bytes = 4,
                         .vocab_multiple = 1,
                         .logits_peak_bytes = 8,
                         .logits_kept_bytes = 4,
                         .loss_chunks = 1,
                         .fsdp_units_in_flight = 1,
                         .reshard_after_forward = TRUE,
                         .max_zero = 3,
                         .max_zero_with_pp = 1 };
}

/* Llama-like: gated, RMSNorm, rotary, two queries per key head. */
static inline void
exec_fixture_llama (ExecFixture *f)
{
  *f = (ExecFixture){ .profile = exec_fixture_profile () };
  f->run = (ModelBlockRun){ .kind = MODEL_BLOCK_DENSE, .count = 2, .ffn = 24 };
  f->arch = (ModelArch){
    .name = (char *)"small",
    .hidden = 16,
    .vocab = 31,
    .layers = 2,
    .attention = { .heads = 4, .kv_heads = 2, .head_dim = 4, .v_head_dim = 4, .rotary_ratio = 1 },
    .gated = TRUE,
    .norms_per_block = 2,
    .position = MODEL_POSITION_ROTARY,
    .runs = &f->run,
    .n_runs = 1
  };
  f->job = (ModelJob){ .seq = 6, .global_batch = 4 };
  f->layout = (ModelLayout){ .tp = 1,
                             .cp = 1,
                             .pp = 1,
                             .vpp = 1,
                             .ep = 1,
                             .etp = 1,
                             .dp = 1,
                             .mbs = 2,
                             .tp_sync = 1,
                             .dtype = MODEL_DTYPE_FP32 };
}

/* GPT-like: biases, LayerNorm, GELU, learned positions, tied matrix, a window. */
static inline void
exec_fixture_gpt (ExecFixture *f)
{
  exec_fixture_llama (f);
  f->run.window = 3;
  f->arch.attention.kv_heads = 4;
  f->arch.attention.rotary_ratio = 0;
  f->arch.attention.qkv_bias = f->arch.attention.out_bias = TRUE;
  f->arch.mlp_bias = TRUE;
  f->arch.gated = FALSE;
  f->arch.activation = MODEL_ACTIVATION_GELU;
  f->arch.norm = MODEL_NORM_LAYER;
  f->arch.position = MODEL_POSITION_LEARNED;
  f->arch.position_rows = 8;
  f->arch.tied = TRUE;
}
