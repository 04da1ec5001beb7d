/* model/program-private.h - putting segments together: ids of a piece become ids of the program. */
#pragma once
#include "model/program.h"
G_BEGIN_DECLS

/* One embedding, block or head at its place in the program. */
typedef struct {
  const ModelSegment *segment; /* (borrowed) */
  guint32 *ids;                /* (owned) tensor of the segment → tensor of the program */
  guint32 first_tensor;        /* of its own in the program */
  guint32 rebuilt_input;       /* what recompute and backward read as the input, or NONE */
} ProgramPiece;

typedef struct {
  const ModelArch *arch;
  const ModelJob *job;
  const ModelLayout *layout;
  const ModelProfile *profile;
  ModelRankMap map;
  GArray *ops;              /* ModelOp */
  GArray *tensors;          /* ModelTensor */
  ModelSegment **templates; /* (owned) by part, run and recompute */
  guint n_templates;
} Assembly;

void program_assembly_init (Assembly *a, const ModelArch *arch, const ModelJob *job,
                            const ModelLayout *layout, const ModelProfile *profile);
void program_assembly_clear (Assembly *a);
/* The lowered piece, made once. (borrowed) */
const ModelSegment *program_template (Assembly *a, ModelPart part, guint run,
                                      ModelRecomputeKind recompute, GError **error);
/* Adds the piece's tensors; its input is @input of the program (NONE: it has none). */
void program_piece_init (Assembly *a, ProgramPiece *piece, const ModelSegment *segment,
                         guint32 input);
/* Appends ops [first, first + count) of the piece. */
void program_append (Assembly *a, const ProgramPiece *piece, guint first, guint count);
/* Boundary of a pipeline stage: a RECV that makes a tensor, a SEND that reads one. */
guint32 program_receive (Assembly *a, const char *name, ModelOpPhase phase, ModelTensorRole role);
void program_send (Assembly *a, const char *name, ModelOpPhase phase, guint32 tensor);
/* All-gather of the piece's parameters, or reduce-scatter of their gradients, where ZeRO does so
 * with every micro-batch. */
void program_gather_weights (Assembly *a, const ProgramPiece *piece, ModelOpPhase phase);
void program_reduce_weights (Assembly *a, const ProgramPiece *piece);
G_END_DECLS
