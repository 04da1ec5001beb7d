/* exec/rank.h - one rank of a run: its program, and where its parameters lie.
 *
 * The rank's parameters are one flat array: first those every tp rank holds (their
 * gradients are summed over tp in one message), then the split ones; piece by piece. Gradients lie
 * in the same places.
 *
 * Gradients are reduced in buckets of that array: one without overlap_dp. With it (Megatron's
 * overlap-grad-reduce) the first holds what tp ranks or two stages have to sum before, the others
 * the rest, cut between pieces where the profile's bucket_elements are reached. ZeRO-1 cuts each
 * bucket into dp equal shards, padded to whole units of EXEC_SHARD_UNIT elements, so that every
 * shard and bucket begins where kernels and NCCL move 16 bytes at a time, whatever dp is.
 */
#pragma once
#include "exec/error.h"
#include "model/program.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  const char *name; /* static */
  ModelPart part;
  guint32 layer; /* blocks only */
  guint index;   /* in model_params_list */
  ModelParamSplit split;
  guint64 rows, columns; /* global, vocabulary padded; columns 1 for vectors */
  guint64 local_rows, local_columns;
  guint64 segments[3]; /* rows that are split each on their own (q, k, v; gate, up) */
  guint n_segments;
  guint64 offset, count; /* in the flat array */
  guint32 chunk;         /* of the program */
  guint bucket;
} ExecParam;

#define EXEC_MAX_BUCKETS 128
/* Elements: what Megatron-core's distributed optimizer pads the start of a parameter to in its
 * buffer. 128 bytes in bf16, 256 in fp32: a line of the L2 cache, and more than any load needs. */
#define EXEC_SHARD_UNIT 64
typedef struct {
  guint64 first;       /* in the flat array */
  guint64 count;       /* of its parameters */
  guint64 shard_count; /* of one dp rank with ZeRO-1, all of it without; padded */
  guint64 own_first;   /* what this rank updates: [own_first, own_first + shard_count) */
  guint64 state_first; /* where the optimizer's states of that begin */
  guint64 n_writes;    /* gradients that ops of one step add to it; then it is complete */
  gboolean is_shared;  /* others sum it too: it is reduced after that, in the tail */
} ExecGradBucket;

typedef struct {
  const ModelArch *arch;     /* (borrowed) */
  const ModelJob *job;       /* (borrowed) */
  const ModelLayout *layout; /* (borrowed) */
  ModelRankMap map;
  ModelRankCoordinates at;
  guint32 rank;
  guint element_bytes;   /* of weights and activations: 4 in fp32, 2 in bf16 */
  ModelProgram *program; /* (owned) */
  ExecParam *params;     /* (owned) */
  guint n_params;
  guint32 *param_of; /* (owned) per tensor: the parameter of a weight or its gradient */
  guint32 *n_users;  /* (owned) per tensor: how often ops of one micro-batch read it */
  guint64 replicated_count;
  guint64 padded_count;    /* length of the flat array */
  guint64 shard_count;     /* elements that this rank's optimizer updates */
  ExecGradBucket *buckets; /* (owned) */
  guint n_buckets;
  guint n_slots; /* messages that may be under way to one neighbour */
} ExecRank;

/* FALSE with EXEC_ERROR_UNSUPPORTED naming what the executor does not run. */
gboolean exec_rank_supported (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                              GError **error);
ExecRank *exec_rank_new (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                         const ModelProfile *profile, guint32 rank, GError **error);
void exec_rank_free (ExecRank *rank);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ExecRank, exec_rank_free)

/* Index in the whole, unsplit tensor of element @local of @param on tp rank @tp_rank. */
guint64 exec_param_global (const ExecParam *param, guint32 tp, guint32 tp_rank, guint64 local);
/* Start value of an element; a function of the part, layer and global index only. */
float exec_param_initial (const ExecParam *param, guint64 global);
/* Token @at of sequence @sequence of the batch. */
gint32 exec_token (const ModelArch *arch, guint64 sequence, guint64 at);
/* Does this collective run beside compute (overlap_tp)? */
gboolean exec_rank_runs_beside (const ExecRank *rank, const ModelOp *op);
/* Rows and columns of a tensor on this rank. */
void exec_tensor_shape (const ExecRank *rank, const ModelTensor *tensor, guint64 *out_rows,
                        guint64 *out_columns);

/* exec/messages.c. The least number of buffers per neighbour with which the schedule comes to its
 * end when a message is under way until it is received. */
guint exec_messages_slots (const ModelSchedule *schedule);
static inline gboolean
exec_stage_of (const ModelSchedule *schedule, guint32 pp_rank, guint32 chunk, guint32 *out_stage)
{
  *out_stage = model_schedule_stage (schedule->kind, schedule->pp, pp_rank, chunk);
  return *out_stage + 1 < schedule->pp * schedule->vpp; /* another stage follows */
}
G_END_DECLS
