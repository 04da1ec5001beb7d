/* exec/memory.h - what a rank's arena holds, and when.
 *
 * Fixed for the run: weights, gradients, the optimizer's states (in bf16 its fp32 weights too), buffers of messages, scratch of attention and
 * loss. A tensor of the program's table is taken when the op that makes it starts, once per
 * micro-batch, and given back after the last op of that micro-batch that reads it. The runner and
 * the prediction of peak memory make the same calls, so they agree to the byte.
 *
 * What runs beside compute (overlap_tp) keeps its tensors until compute has waited for it: nothing
 * else gets memory that another stream may still read or write. Gradients, weights and message
 * buffers, which reductions, gathers and sends use, are fixed.
 */
#pragma once
#include "exec/arena.h"
#include "exec/rank.h"
G_BEGIN_DECLS
typedef enum {
  EXEC_MEMORY_WEIGHTS,
  EXEC_MEMORY_GRADIENTS,
  EXEC_MEMORY_OPTIMIZER,
  EXEC_MEMORY_ACTIVATIONS, /* kept from forward to backward */
  EXEC_MEMORY_LOGITS,
  EXEC_MEMORY_COMM_BUFFERS,
  EXEC_MEMORY_WORKSPACE,
  EXEC_MEMORY_N_KINDS
} ExecMemoryKind;
const char *exec_memory_kind_name (ExecMemoryKind kind); /* as the plan object's memory_bytes */

/* A collective that runs beside compute. */
typedef struct {
  const ModelOp *op; /* (borrowed) */
  guint32 microbatch;
  guint number; /* counted up: neighbours differ */
} ExecBeside;

typedef struct {
  const ExecRank *rank; /* (borrowed) */
  ExecArena arena;
  guint64 weights, gradients, moments, messages, attention, sums, targets; /* offsets */
  guint64 loss;   /* of the micro-batches so far, one fp32 number behind the sums */
  guint64 master; /* fp32 weights of this rank's shard; in fp32 they are the weights: none */
  guint64 attention_count; /* elements of its scratch */
  guint64 message_bytes;   /* of one message buffer */
  guint64 *offset;         /* (owned) [micro-batch][tensor], EXEC_ARENA_NONE: not there */
  guint32 *users_left;     /* (owned) the same */
  GArray *beside;          /* (owned) ExecBeside, in the order in which they began */
  guint n_beside;          /* begun so far */
  guint64 live_bytes[EXEC_MEMORY_N_KINDS];
  guint64 peak_bytes[EXEC_MEMORY_N_KINDS]; /* at the moment of the arena's peak */
} ExecMemory;

gboolean exec_memory_init (ExecMemory *memory, const ExecRank *rank, guint64 limit_bytes,
                           GError **error);
void exec_memory_clear (ExecMemory *memory);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExecMemory, exec_memory_clear)
gboolean exec_memory_before_op (ExecMemory *memory, const ModelOp *op, guint32 microbatch,
                                GError **error);
void exec_memory_after_op (ExecMemory *memory, const ModelOp *op, guint32 microbatch);
/* @op, which exec_rank_runs_beside, has begun: comes before after_op. Returns its number. */
guint exec_memory_begin_beside (ExecMemory *memory, const ModelOp *op, guint32 microbatch);
/* The next one that compute must have waited for before @op starts, as its operands are the same
 * tensors; NULL: before anything else. Comes before before_op. FALSE: none. */
gboolean exec_memory_end_beside (ExecMemory *memory, const ModelOp *op, guint32 microbatch,
                                 ExecBeside *out);
/* Is @op run in schedule step @kind? */
gboolean exec_op_belongs (const ModelOp *op, ModelStepKind kind);
/* Plays one step of the schedule; @out keeps the peak. */
gboolean exec_memory_play (ExecMemory *out, const ExecRank *rank, GError **error);
/* Plays the passes of every chunk with one micro-batch, as the runner's rehearsal does. */
gboolean exec_memory_play_rehearsal (ExecMemory *out, const ExecRank *rank, GError **error);
static inline guint64
exec_memory_at (const ExecMemory *memory, guint32 tensor, guint32 microbatch)
{
  return memory->offset[(gsize)microbatch * memory->rank->program->n_tensors + tensor];
}
G_END_DECLS
