/* exec/cpu/module.c - plait-cpu.so: the table of kernels, and memory. */
#include "exec/cpu/kernels.h"

#include <cblas.h>
#include <gmodule.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

G_MODULE_EXPORT const ExecBackend *plait_backend (void);

static const char *
version (void)
{
  return openblas_get_config ();
}

static void
set_threads (guint threads)
{
  openblas_set_num_threads ((int)threads);
}

static float *
memory_new (guint64 bytes)
{
  void *memory = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : NULL;
}

static void
memory_free (float *memory, guint64 bytes)
{
  if (memory != NULL)
    munmap (memory, bytes);
}

static void
copy (void *to, const void *from, guint64 count)
{
  memmove (to, from, count * sizeof (float));
}

static void
cast (void *to, const float *from, guint64 count)
{
  copy (to, from, count);
}

static void
widen (float *to, const void *from, guint64 count)
{
  copy (to, from, count);
}

static void
move (float *to, const float *from, guint64 count)
{
  copy (to, from, count);
}

static void
fill (void *to_any, float value, guint64 count)
{
  float *to = to_any;
  for (guint64 i = 0; i < count; i++)
    to[i] = value;
}

static void
scale (void *x_any, float factor, guint64 count)
{
  float *x = x_any;
  for (guint64 i = 0; i < count; i++)
    x[i] *= factor;
}

static void
add (void *out_any, const void *a_any, const void *b_any, guint64 count)
{
  float *out = out_any;
  const float *a = a_any, *b = b_any;
  for (guint64 i = 0; i < count; i++)
    out[i] = a[i] + b[i];
}

static void
synchronize (void)
{
}

/* Second number of statm: pages in memory. */
static guint64
resident_bytes (void)
{
  g_autofree char *text = NULL;
  const char *space
      = g_file_get_contents ("/proc/self/statm", &text, NULL, NULL) ? strchr (text, ' ') : NULL;
  return space != NULL ? g_ascii_strtoull (space, NULL, 10) * (guint64)sysconf (_SC_PAGESIZE) : 0;
}

static const ExecBackend backend = {
  .name = "cpu",
  .version = version,
  .comm = &cpu_comm_mpi,
  .set_threads = set_threads,
  .memory_new = memory_new,
  .memory_free = memory_free,
  .copy = copy,
  .cast = cast,
  .widen = widen,
  .upload = move,
  .download = move,
  .fill = fill,
  .scale = scale,
  .add = add,
  .synchronize = synchronize,
  .gemm = cpu_gemm,
  .gemm_wide = cpu_gemm_wide,
  .bias = cpu_bias,
  .bias_grad = cpu_bias_grad,
  .embed = cpu_embed,
  .embed_grad = cpu_embed_grad,
  .positions = cpu_positions,
  .positions_grad = cpu_positions_grad,
  .norm = cpu_norm,
  .norm_grad = cpu_norm_grad,
  .rope = cpu_rope,
  .attention = cpu_attention,
  .attention_grad = cpu_attention_grad,
  .activate = cpu_activate,
  .activate_grad = cpu_activate_grad,
  .loss_maximum = cpu_loss_maximum,
  .loss_exponentials = cpu_loss_exponentials,
  .loss_finish = cpu_loss_finish,
  .loss_grad = cpu_loss_grad,
  .adam = cpu_adam,
  .resident_bytes = resident_bytes,
};

const ExecBackend *
plait_backend (void)
{
  return &backend;
}
