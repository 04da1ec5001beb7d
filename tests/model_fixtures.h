/* tests/model_fixtures.h - small models, profiles and layouts built by hand for tests of model/. */
#pragma once
#include "model/layout.h"
#include "model/segment.h"
#include "tests/testutil.h"

typedef struct {
  ModelArch arch;
  ModelBlockRun runs[2];
  ModelJob job;
  ModelProfile profile;
  ModelLayout layout;
} Fixture;

/* Megatron's switches: everything fused, fp32 main gradients, 6 B per logit at the peak, 4 kept. */
static inline ModelProfile
fixture_profile (void)
{
  return (ModelProfile){
    .fused_norm = TRUE,
    .fused_activation = TRUE,
    .fused_residual = TRUE,
    .param_bytes = 2,
    .main_grad_bytes = 4,
    .master_bytes = 4,
    .moment_bytes = 8,
    .reduce_bytes = 4,
    .logits_peak_bytes = 6,
    .logits_kept_bytes = 4,
    .loss_chunks = 1,
    .vocab_multiple = 1,
    .fsdp_units_in_flight = 2,
    .reshard_after_forward = TRUE,
    .max_zero = 3,
    .max_zero_with_pp = 1,
    .grouped_gemm = TRUE,
  };
}

static inline ModelLayout
fixture_layout (guint32 tp, gboolean sp)
{
  return (ModelLayout){
    .tp = tp,
    .cp = 1,
    .pp = 1,
    .vpp = 1,
    .ep = 1,
    .etp = 1,
    .dp = 1,
    .mbs = 1,
    .sp = sp,
    .tp_sync = 1,
  };
}

/* GPT: LayerNorm, GeLU, ffn 4h, as many kv heads as heads, biases, learned positions, tied. */
static inline void
fixture_gpt (Fixture *f, guint64 hidden, guint32 heads, guint32 layers, guint64 seq, double dropout)
{
  *f = (Fixture){ .profile = fixture_profile (), .layout = fixture_layout (1, FALSE) };
  f->runs[0]
      = (ModelBlockRun){ .kind = MODEL_BLOCK_DENSE, .count = layers, .ffn = (guint32)(4 * hidden) };
  f->arch = (ModelArch){ .hidden = hidden,
                         .vocab = 51200,
                         .layers = layers,
                         .attention = { .heads = heads,
                                        .kv_heads = heads,
                                        .head_dim = (guint32)(hidden / heads),
                                        .v_head_dim = (guint32)(hidden / heads),
                                        .qkv_bias = TRUE,
                                        .out_bias = TRUE },
                         .mlp_bias = TRUE,
                         .activation = MODEL_ACTIVATION_GELU,
                         .norm = MODEL_NORM_LAYER,
                         .norms_per_block = 2,
                         .position = MODEL_POSITION_LEARNED,
                         .position_rows = (guint32)seq,
                         .tied = TRUE,
                         .runs = f->runs,
                         .n_runs = 1 };
  f->job = (ModelJob){ .seq = seq, .global_batch = 8, .dropout = dropout };
  f->layout.attn = MODEL_ATTN_UNFUSED;
}

/* Llama: RMSNorm, SwiGLU, grouped queries, rotary, untied. */
static inline void
fixture_llama (Fixture *f, guint64 hidden, guint32 heads, guint32 kv_heads, guint32 ffn,
               guint32 layers, guint64 seq)
{
  *f = (Fixture){ .profile = fixture_profile (), .layout = fixture_layout (1, FALSE) };
  f->runs[0] = (ModelBlockRun){ .kind = MODEL_BLOCK_DENSE, .count = layers, .ffn = ffn };
  f->arch = (ModelArch){ .hidden = hidden,
                         .vocab = 128256,
                         .layers = layers,
                         .attention = { .heads = heads,
                                        .kv_heads = kv_heads,
                                        .head_dim = (guint32)(hidden / heads),
                                        .v_head_dim = (guint32)(hidden / heads),
                                        .rotary_ratio = 1 },
                         .gated = TRUE,
                         .norm = MODEL_NORM_RMS,
                         .norms_per_block = 2,
                         .runs = f->runs,
                         .n_runs = 1 };
  f->job = (ModelJob){ .seq = seq, .global_batch = 8 };
}

static inline ModelSegment *
fixture_segment (const Fixture *f, ModelPart part, guint run, ModelRecomputeKind recompute)
{
  g_autoptr (GError) error = NULL;
  ModelSegment *segment = model_segment_new (&f->arch, &f->job, &f->layout, &f->profile, part, run,
                                             recompute, &error);
  assert_no_error (error);
  assert_non_null (segment);
  return segment;
}

static inline ModelSegmentMemory
fixture_memory (const Fixture *f, ModelPart part, guint run, ModelRecomputeKind recompute)
{
  g_autoptr (ModelSegment) segment = fixture_segment (f, part, run, recompute);
  ModelSegmentMemory memory;
  model_segment_memory (segment, &memory);
  return memory;
}
