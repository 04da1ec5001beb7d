/* tests/model_arch_equal.h - field by field: are two architectures the same? */
#pragma once
#include "model/arch.h"
#include "tests/testutil.h"

static inline void
assert_same_attention (const ModelAttention *a, const ModelAttention *b)
{
  assert_int_equal (a->kind, b->kind);
  assert_int_equal (a->heads, b->heads);
  assert_int_equal (a->kv_heads, b->kv_heads);
  assert_int_equal (a->head_dim, b->head_dim);
  assert_int_equal (a->v_head_dim, b->v_head_dim);
  assert_int_equal (a->q_lora_rank, b->q_lora_rank);
  assert_int_equal (a->kv_lora_rank, b->kv_lora_rank);
  assert_int_equal (a->qk_nope_dim, b->qk_nope_dim);
  assert_int_equal (a->qk_rope_dim, b->qk_rope_dim);
  assert_int_equal (a->qkv_bias, b->qkv_bias);
  assert_int_equal (a->out_bias, b->out_bias);
  assert_int_equal (a->qk_norm, b->qk_norm);
  assert_int_equal (a->sinks, b->sinks);
  assert_true (a->rotary_ratio == b->rotary_ratio);
}

static inline void
assert_same_run (const ModelBlockRun *a, const ModelBlockRun *b)
{
  assert_int_equal (a->kind, b->kind);
  assert_int_equal (a->count, b->count);
  assert_int_equal (a->window, b->window);
  assert_int_equal (a->ffn, b->ffn);
  assert_int_equal (a->moe.experts, b->moe.experts);
  assert_int_equal (a->moe.topk, b->moe.topk);
  assert_int_equal (a->moe.expert_ffn, b->moe.expert_ffn);
  assert_int_equal (a->moe.shared_ffn, b->moe.shared_ffn);
  assert_int_equal (a->moe.shared_gate, b->moe.shared_gate);
  assert_int_equal (a->moe.router_bias, b->moe.router_bias);
}

/* What the model computes; not its name, training facts and notes. */
static inline void
assert_same_structure (const ModelArch *a, const ModelArch *b)
{
  assert_int_equal (a->hidden, b->hidden);
  assert_int_equal (a->vocab, b->vocab);
  assert_int_equal (a->layers, b->layers);
  assert_same_attention (&a->attention, &b->attention);
  assert_int_equal (a->gated, b->gated);
  assert_int_equal (a->mlp_bias, b->mlp_bias);
  assert_int_equal (a->activation, b->activation);
  assert_int_equal (a->norm, b->norm);
  assert_int_equal (a->norms_per_block, b->norms_per_block);
  assert_int_equal (a->parallel_residual, b->parallel_residual);
  assert_int_equal (a->position, b->position);
  assert_int_equal (a->position_rows, b->position_rows);
  assert_int_equal (a->embedding_norm, b->embedding_norm);
  assert_int_equal (a->tied, b->tied);
  assert_int_equal (a->head_bias, b->head_bias);
  assert_int_equal (a->n_runs, b->n_runs);
  for (guint i = 0; i < a->n_runs; i++)
    assert_same_run (&a->runs[i], &b->runs[i]);
}

static inline void
assert_same_arch (const ModelArch *a, const ModelArch *b)
{
  assert_string_equal (a->name, b->name);
  assert_string_equal (a->family, b->family);
  assert_same_structure (a, b);
  assert_true (a->dropout == b->dropout);
  assert_int_equal (a->seq, b->seq);
  assert_int_equal (a->global_batch, b->global_batch);
  assert_int_equal (a->assumed->len, b->assumed->len);
  for (guint i = 0; i < a->assumed->len; i++)
    assert_string_equal (g_ptr_array_index (a->assumed, i), g_ptr_array_index (b->assumed, i));
}

/* Writes @arch as INI and reads it back. */
static inline void
assert_round_trip (const ModelArch *arch)
{
  GError *error = NULL;
  g_autofree char *text = model_arch_to_ini (arch);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, arch->name, &error);
  assert_no_error (error);
  g_autoptr (ModelArch) again = model_arch_from_ini (ini, arch->name, &error);
  assert_no_error (error);
  assert_same_arch (arch, again);
}
