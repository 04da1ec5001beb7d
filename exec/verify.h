/* exec/verify.h - is a split run the same function as one rank alone?
 *
 * Rank 0 first runs the whole model alone: two steps, Adam with epsilon 1e-3 (so that elements
 * whose gradient is rounding noise do not move by the whole rate). Then all ranks run the split
 * model, and every rank's copy of every tensor is compared, element by element at its global
 * index: loss of both steps, gradients before the first update, weights after the second. A copy
 * is right when |a − b| ≤ 1e-5 · |b| in the L2 norm over the rank's part of the tensor, and when
 * Σ w·r agrees to 1e-5 · Σ |w·r| with random r of the global index, which says in one number
 * whether a part sits at the wrong place.
 */
#pragma once
#include "exec/runner.h"
G_BEGIN_DECLS
#define EXEC_VERIFY_TOLERANCE 1e-5

typedef struct {
  gboolean passed;
  guint64 compared_count; /* copies of tensors */
  double worst_gradient, worst_weight, worst_checksum, worst_loss;
  char *first_fault; /* (owned, nullable) which tensor, where, by how much */
} ExecVerdict;
void exec_verdict_clear (ExecVerdict *verdict);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExecVerdict, exec_verdict_clear)

/* Called by all ranks; @out is filled on rank 0. Two steps of @runner are done afterwards. */
gboolean exec_verify (ExecRunner *runner, const ModelProfile *profile, ExecVerdict *out,
                      GError **error);
/* Sum over ranks of what each contributes to the loss. */
gboolean exec_total_loss (ExecRunner *runner, double *out, GError **error);
G_END_DECLS
