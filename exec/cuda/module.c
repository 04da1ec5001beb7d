/* exec/cuda/module.c - plait-cuda.so: the tables of kernels, for fp32 and for bf16. */
#include "exec/cuda/bootstrap.h"
#include "exec/cuda/device-private.h"

#include <gmodule.h>

G_MODULE_EXPORT const ExecBackend *plait_backend (void);

static const char *
version (void)
{
  static char text[64];
  int v = CUDART_VERSION;
  g_snprintf (text, sizeof text, "CUDA %d.%d, cuBLAS %d", v / 1000, v % 1000 / 10, CUBLAS_VERSION);
  return text;
}

static void
set_threads (guint threads)
{
  (void)threads; /* nothing is computed on the host */
}

static void
f32_copy (void *to, const void *from, guint64 count)
{
  cuda_copy_bytes (to, from, count * 4);
}

static void
bf16_copy (void *to, const void *from, guint64 count)
{
  cuda_copy_bytes (to, from, count * 2);
}

/* Rows in pieces that the workspace holds. */
static void
loss_finish (float *kept, const float *sums, guint64 rows, guint64 columns, float *total)
{
  guint64 room = cuda_kernels.workspace_count;
  for (guint64 first = 0; first < rows; first += room) {
    guint64 n = MIN (rows - first, room);
    cuda_loss_rows (cuda_kernels.workspace, kept + first * columns, sums + 2 * first, n, columns);
    cuda_sum (total, cuda_kernels.workspace, n);
  }
}

#define TABLE(P)                                                                                   \
  .name = "cuda", .version = version, .comm = &cuda_comm_##P, .bootstrap = bootstrap_use,          \
  .set_threads = set_threads, .memory_new = cuda_memory_new, .memory_free = cuda_memory_free,      \
  .copy = P##_copy, .cast = P##_cast, .widen = P##_widen, .upload = cuda_upload,                   \
  .download = cuda_download, .fill = P##_fill, .scale = P##_scale, .add = P##_add,                 \
  .synchronize = cuda_synchronize, .probe = cuda_probe, .open = cuda_open, .close = cuda_close,    \
  .failure = cuda_failure, .mark = cuda_mark, .elapsed_s = cuda_elapsed_s, .passed = cuda_passed,  \
  .resident_bytes = cuda_used_bytes, .opened_bytes = cuda_opened_bytes,                            \
  .device_count = cuda_device_count, .observe = cuda_observe, .describe = cuda_describe,           \
  .gemm = P##_gemm, .gemm_wide = P##_gemm_wide, .bias = P##_bias, .bias_grad = P##_bias_grad,      \
  .embed = P##_embed, .embed_grad = P##_embed_grad, .positions = P##_positions,                    \
  .positions_grad = P##_positions_grad, .norm = P##_norm, .norm_grad = P##_norm_grad,              \
  .rope = P##_rope, .attention = P##_attention, .attention_grad = P##_attention_grad,              \
  .activate = P##_activate, .activate_grad = P##_activate_grad, .loss_maximum = P##_loss_maximum,  \
  .loss_exponentials = cuda_loss_exponentials, .loss_finish = loss_finish,                         \
  .loss_grad = P##_loss_grad, .adam = cuda_adam

static const ExecBackend half = { TABLE (bf16) };
static const ExecBackend backend = { TABLE (f32), .bf16 = &half };

/* Streams that share one of the device's hardware queues wait for each other: a collective would
 * stand behind one that waits for another rank, where neither may. There are 8 unless the driver is
 * asked for more, 32 at most (CUDA programming guide), before its first call. Megatron's users have
 * 1 in their environment. */
const ExecBackend *
plait_backend (void)
{
  G_STATIC_ASSERT (CUDA_N_STREAMS <= 32);
  g_setenv ("CUDA_DEVICE_MAX_CONNECTIONS", "32", TRUE);
  return &backend;
}
