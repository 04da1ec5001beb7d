/* exec/slice.c - see slice.h. */
#include "exec/slice.h"

#include <unistd.h>

#define RECEIVED 0.015625f /* any small number that bf16 holds: its activations stay finite */

static struct {
  guint32 rank;
  const ExecBackend *f32, *bf16; /* what computes */
  guint32 size[EXEC_MAX_GROUPS], place[EXEC_MAX_GROUPS];
  ExecBackend tables[2];
} slice;

static gboolean
make_group (guint id, ModelStream stream, guint32 base, guint32 size, guint32 stride,
            GError **error)
{
  slice.size[id] = size;
  slice.place[id] = (slice.rank - base) / stride;
  return TRUE;
}

static gboolean
all_reduce (guint group, ExecReduce op, void *buffer, guint64 count, GError **error)
{
  return TRUE;
}

static gboolean
gather (const ExecBackend *b, guint group, const void *in, void *out, guint64 bytes_each,
        guint64 count_each)
{
  for (guint32 i = 0; i < slice.size[group]; i++) {
    void *to = (char *)out + i * bytes_each;
    if (to != in)
      b->copy (to, in, count_each);
  }
  return TRUE;
}

static gboolean
scatter (const ExecBackend *b, guint group, const void *in, void *out, guint64 bytes_each,
         guint64 count_each)
{
  const void *own = (const char *)in + slice.place[group] * bytes_each;
  if (own != out)
    b->copy (out, own, count_each);
  return TRUE;
}

static gboolean
send_message (guint32 to_rank, guint32 tag, const void *buffer, guint64 count, guint slot,
              guint mark, GError **error)
{
  return TRUE;
}

static gboolean
wait_slot (guint slot, GError **error)
{
  return TRUE;
}

static gboolean
barrier (GError **error)
{
  slice.f32->synchronize ();
  return TRUE;
}

static void
abort_job (int exit_code)
{
  _exit (exit_code);
}

static const char *
version (void)
{
  return "none: one rank of many";
}

#define EXPORT(P, BYTES)                                                                           \
  static gboolean P##_all_gather (guint group, const void *in, void *out, guint64 count_each,      \
                                  GError **error)                                                  \
  {                                                                                                \
    return gather (slice.P, group, in, out, count_each * BYTES, count_each);                       \
  }                                                                                                \
  static gboolean P##_reduce_scatter (guint group, const void *in, void *out, guint64 count_each,  \
                                      GError **error)                                              \
  {                                                                                                \
    return scatter (slice.P, group, in, out, count_each * BYTES, count_each);                      \
  }                                                                                                \
  static gboolean P##_receive (guint32 from_rank, guint32 tag, void *buffer, guint64 count,        \
                               GError **error)                                                     \
  {                                                                                                \
    slice.P->fill (buffer, RECEIVED, count);                                                       \
    return TRUE;                                                                                   \
  }                                                                                                \
  static const ExecComm P##_comm = {                                                               \
    .make_group = make_group,                                                                      \
    .all_reduce = all_reduce,                                                                      \
    .all_gather = P##_all_gather,                                                                  \
    .reduce_scatter = P##_reduce_scatter,                                                          \
    .send = send_message,                                                                          \
    .wait = wait_slot,                                                                             \
    .receive = P##_receive,                                                                        \
    .barrier = barrier,                                                                            \
    .abort = abort_job,                                                                            \
    .version = version,                                                                            \
  };
EXPORT (f32, 4)
EXPORT (bf16, 2)

const ExecBackend *
exec_slice_of (const ExecBackend *backend, guint32 rank)
{
  slice.rank = rank;
  slice.f32 = backend;
  slice.bf16 = backend->bf16;
  slice.tables[0] = *backend;
  slice.tables[0].comm = &f32_comm;
  if (backend->bf16 != NULL) {
    slice.tables[1] = *backend->bf16;
    slice.tables[1].comm = &bf16_comm;
    slice.tables[0].bf16 = &slice.tables[1];
  }
  return &slice.tables[0];
}
