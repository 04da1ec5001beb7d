/* app/gemm_shape.c - rows that say a kernel's shape as text and its time as an efficiency. */
#include "app/gemm_rows.h"

#include <string.h>

#define FLASH_BACKWARD 2.5 /* FLOPs of backward over forward in these figures: scores rebuilt */
#define MAX_DIMENSION  (1u << 30)

/* "b=1, m=4096" -> { b: 1, m: 4096 }. Returns: (owned) */
static GHashTable *
split_pairs (const char *shape)
{
  g_auto (GStrv) parts = g_strsplit (shape, ",", -1);
  GHashTable *pairs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  for (guint i = 0; parts[i] != NULL; i++) {
    char *equals = strchr (parts[i], '=');

    if (equals == NULL)
      continue;
    *equals = '\0';
    g_hash_table_replace (pairs, g_strdup (g_strstrip (parts[i])),
                          g_strdup (g_strstrip (equals + 1)));
  }
  return pairs;
}

static gboolean
read_count (GHashTable *pairs, const char *key, guint64 *out, GError **error)
{
  const char *text = g_hash_table_lookup (pairs, key);

  if (text != NULL && g_ascii_string_to_unsigned (text, 10, 1, MAX_DIMENSION, out, NULL))
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "shape: %s is '%s', expected a count from 1 to %u", key,
               text != NULL ? text : "absent", MAX_DIMENSION);
  return FALSE;
}

static gboolean
is_true (GHashTable *pairs, const char *key)
{
  const char *text = g_hash_table_lookup (pairs, key);

  return text != NULL && g_ascii_strcasecmp (text, "true") == 0;
}

static gboolean
is_fp32 (GHashTable *pairs, const char *key)
{
  const char *text = g_hash_table_lookup (pairs, key);

  return text != NULL && strstr (text, "fp32") != NULL;
}

static gboolean
parse_product (GemmRow *row, GHashTable *pairs, GError **error)
{
  guint64 batch = 0;

  if (!read_count (pairs, "b", &batch, error) || !read_count (pairs, "m", &row->m, error)
      || !read_count (pairs, "n", &row->n, error) || !read_count (pairs, "k", &row->k, error))
    return FALSE;
  row->batch = (guint32)batch;
  row->accumulate = is_true (pairs, "accumulate") && is_fp32 (pairs, "out_dtype");
  return TRUE;
}

/* M, N, K are those of the forward product Y[M,N] = X[M,K]·W[K,N] at every stage. */
static gboolean
parse_grouped (GemmRow *row, GHashTable *pairs, GError **error)
{
  const char *stage = g_hash_table_lookup (pairs, "stage");
  guint64 groups = 0, m = 0, n = 0, k = 0;

  if (!read_count (pairs, "ng", &groups, error) || !read_count (pairs, "M", &m, error)
      || !read_count (pairs, "N", &n, error) || !read_count (pairs, "K", &k, error))
    return FALSE;
  row->batch = (guint32)groups;
  row->m = m;
  row->n = n;
  row->k = k;
  if (g_strcmp0 (stage, "bwd_grad_act") == 0) {
    row->n = k;
    row->k = n;
  } else if (g_strcmp0 (stage, "bwd_grad_w") == 0) {
    row->m = n;
    row->n = k;
    row->k = m;
    row->accumulate = is_true (pairs, "accumulate") && is_fp32 (pairs, "main_grad_dtype");
  }
  return TRUE;
}

static gboolean
parse_attention (GemmRow *row, GHashTable *pairs, GError **error)
{
  guint64 batch = 0, seq = 0, heads = 0, kv_heads = 0, dim_qk = 0, dim_v = 0;

  if (!read_count (pairs, "batch", &batch, error) || !read_count (pairs, "seq_len", &seq, error)
      || !read_count (pairs, "head_num", &heads, error)
      || !read_count (pairs, "kv_head_num", &kv_heads, error)
      || !read_count (pairs, "qk_head_dim", &dim_qk, error)
      || !read_count (pairs, "v_head_dim", &dim_v, error))
    return FALSE;
  row->attention = (ModelAttentionShape){ .batch = (guint32)batch,
                                          .heads = (guint32)heads,
                                          .kv_heads = (guint32)kv_heads,
                                          .dim_qk = (guint32)dim_qk,
                                          .dim_v = (guint32)dim_v,
                                          .seq_q = seq,
                                          .seq_kv = seq,
                                          .causal = TRUE,
                                          .kernel = MODEL_ATTN_FLASH };
  return TRUE;
}

double
gemm_row_size (const GemmRow *row)
{
  if (row->kind < APP_KERNEL_ATTENTION)
    return (double)row->m * (double)row->n * (double)row->k * row->batch;
  return model_attention_flop (&row->attention) / 2;
}

gboolean
gemm_row_parse_shape (GemmRow *row, const char *op, const char *shape, double efficiency,
                      double peak_flop_per_s, GError **error)
{
  static const struct {
    const char *op;
    AppKernelKind kind;
    gboolean (*parse) (GemmRow *row, GHashTable *pairs, GError **error);
  } readers[] = { { "matmul", APP_KERNEL_MATMUL, parse_product },
                  { "group_matmul", APP_KERNEL_GROUPED_MATMUL, parse_grouped },
                  { "sdp_fwd", APP_KERNEL_ATTENTION, parse_attention },
                  { "sdp_bwd", APP_KERNEL_ATTENTION_BACKWARD, parse_attention } };
  g_autoptr (GHashTable) pairs = split_pairs (shape);

  for (guint i = 0; i < G_N_ELEMENTS (readers); i++) {
    if (!g_str_equal (op, readers[i].op))
      continue;
    row->kind = readers[i].kind;
    if (!readers[i].parse (row, pairs, error))
      return FALSE;
    /* 2 FLOPs per multiplication; of attention the square that causal masks halve */
    double flop = 2 * gemm_row_size (row);
    if (row->kind >= APP_KERNEL_ATTENTION)
      flop *= row->kind == APP_KERNEL_ATTENTION_BACKWARD ? 2 * FLASH_BACKWARD : 2;
    row->measured_s = flop / (efficiency * peak_flop_per_s);
    return TRUE;
  }
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "op is '%s': expected matmul, group_matmul, sdp_fwd or sdp_bwd", op);
  return FALSE;
}
