/* model/program.h - everything one pipeline rank does in one step.
 *
 * Segments put together for the rank's chunks, with sends and receives at the boundaries, FSDP
 * gathers where ZeRO-3 asks for them, and the per-step tail (gradient reduction, Adam, parameter
 * gather). sim/ plays it, exec/ runs it, the cost model prices it: the same list.
 */
#pragma once
#include "model/schedule.h"
#include "model/segment.h"
#include "model/stages.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  guint32 first, count; /* ops */
} ModelOpRange;

typedef struct {
  guint32 stage; /* virtual stage */
  guint32 first_layer, n_layers;
  gboolean has_embedding, has_head;
  ModelOpRange forward;  /* one micro-batch */
  ModelOpRange backward; /* recompute and both gradients, in unsplit order; a split
                                    schedule runs the phases BACKWARD_INPUT (with RECOMPUTE) and
                                    BACKWARD_WEIGHT of this range apart */
} ModelChunk;

/* One embedding, block or head of the rank. Its tensors lie side by side in the table: first the
 * weights, in the order of model_params_list (a tied head's matrix last), then all others. */
typedef struct {
  ModelPart part;
  guint run;     /* of blocks */
  guint32 layer; /* of the model, blocks only */
  guint32 chunk;
  guint32 first_tensor, n_tensors, n_weights;
} ModelProgramPiece;

typedef struct {
  guint32 pp_rank;
  guint64 microbatches;
  ModelOp *ops; /* (owned) */
  guint32 n_ops;
  ModelTensor *tensors; /* (owned) of one micro-batch; weights once */
  guint32 n_tensors;
  ModelChunk *chunks; /* (owned) vpp of them */
  guint32 n_chunks;
  ModelProgramPiece *pieces; /* (owned) chunk by chunk */
  guint32 n_pieces;
  ModelOpRange tail;
  ModelSchedule *schedule;                   /* (owned) */
  guint64 weight_count, expert_weight_count; /* of this rank */
} ModelProgram;

/* @layout is resolved (dp set, legal). */
ModelProgram *model_program_new (const ModelArch *arch, const ModelJob *job,
                                 const ModelLayout *layout, const ModelProfile *profile,
                                 guint32 pp_rank, GError **error);
void model_program_free (ModelProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelProgram, model_program_free)

/* FLOPs of the whole step on this rank: micro-batches × chunks + tail; recompute apart. */
typedef struct {
  double model_flop; /* forward + backward */
  double recompute_flop;
  double tail_flop;
} ModelProgramFlop;
void model_program_flop (const ModelProgram *program, ModelProgramFlop *out);

/*
 * Closed form of the model's FLOPs per step, all GPUs: the numerator of MFU and tflops_per_gpu.
 * 6·(matrix parameters seen by a token, head included)·tokens + attention (causal halved, window
 * counted), no recompute, no padding of the vocabulary.
 */
double model_step_flop (const ModelArch *arch, const ModelJob *job);

/* The per-step tail of one stage (model/lower_tail.c): what reduces, updates and gathers
 * @weights dense and @expert_weights routed parameters. Ops are appended to @ops (ModelOp). */
void model_lower_tail (const ModelArch *arch, const ModelLayout *layout,
                       const ModelProfile *profile, guint64 weights, guint64 expert_weights,
                       guint64 replicated_weights, gboolean shares_embedding, GArray *ops);
G_END_DECLS
