/* exec/memory.h - what a rank's arena holds, and when.
 *
 * Fixed for the run: weights, gradients, the optimizer's states (in bf16 its fp32 weights too), buffers of messages, scratch of attention and
 * loss. A tensor of the program's table is taken when the op that makes it starts, once per
 * micro-batch, and given back after the last op of that micro-batch that reads it. The runner and
 * the prediction of peak memory make the same calls, so they agree to the byte.
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

typedef struct {
  const ExecRank *rank; /* (borrowed) */
  ExecArena arena;
  guint64 weights, gradients, moments, messages, attention, sums, targets; /* offsets */
  guint64 master; /* fp32 weights of this rank's shard; in fp32 they are the weights: none */
  guint64 attention_count; /* elements of its scratch */
  guint64 message_bytes;   /* of one message buffer */
  guint64 *offset;         /* (owned) [micro-batch][tensor], EXEC_ARENA_NONE: not there */
  guint32 *users_left;     /* (owned) the same */
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
/* Is @op run in schedule step @kind? */
gboolean exec_op_belongs (const ModelOp *op, ModelStepKind kind);
/* Plays one step of the schedule; @out keeps the peak. */
gboolean exec_memory_play (ExecMemory *out, const ExecRank *rank, GError **error);
static inline guint64
exec_memory_at (const ExecMemory *memory, guint32 tensor, guint32 microbatch)
{
  return memory->offset[(gsize)microbatch * memory->rank->program->n_tensors + tensor];
}
G_END_DECLS
