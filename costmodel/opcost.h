/* costmodel/opcost.h - seconds of one op of a program on one machine. */
#pragma once
#include "costmodel/collective.h"
#include "model/layout.h"
#include "model/program.h"
#include <glib.h>
G_BEGIN_DECLS

/* What pricing needs, for one (machine, profile, world size, degrees). Plain value. */
typedef struct {
  const TopoMachine *machine;    /* (borrowed) */
  const ModelProfile *profile;   /* (borrowed) */
  const CostNumbers *numbers;    /* (borrowed) */
  double peak_flop_per_s[MODEL_DTYPE_N_KINDS]; /* dense peak of the GPU, 0: not supported */
  double hbm_bytes_per_s;
  CostGroup groups[MODEL_GROUP_N_KINDS];
  TopoGroupShape shapes[MODEL_GROUP_N_KINDS];
} CostContext;

/* @map: the layout's. Groups of size 1 cost nothing. */
void cost_context_init (CostContext *context, const TopoMachine *machine,
                        const ModelProfile *profile, const CostNumbers *numbers,
                        const ModelRankMap *map);
/* Fills only the groups a segment uses (tp, cp, ep, etp, edp), as the search does per template. */

/* Seconds of @op alone: compute by gemm.c attention.c memop.c, communication by collective.c.
 * SEND and RECV cost 0 here: their time depends on the neighbours (pipeline.h). */
double cost_op_s (const CostContext *context, const ModelOp *op);
G_END_DECLS
