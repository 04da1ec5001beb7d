/* exec/rank.h - one rank of a run: its program, and where its parameters lie.
 *
 * The rank's parameters are one flat array: first those every tp rank holds (their
 * gradients are summed over tp in one message), then the split ones; piece by piece. ZeRO-1 cuts
 * the same array into dp equal shards, the last one padded. Gradients lie in the same places.
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
} ExecParam;

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
  guint64 replicated_count, flat_count, padded_count;
  guint64 shard_first, shard_count; /* what this rank's optimizer updates */
  guint n_slots;                    /* messages that may be under way to one neighbour */
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
