/* costmodel/opcost.h - seconds of one op of a program on one machine. */
#pragma once
#include "costmodel/collective.h"
#include "costmodel/gemm.h"
#include "costmodel/gemm_memo.h"
#include "model/layout.h"
#include "model/program.h"
#include <glib.h>
G_BEGIN_DECLS

/* What pricing needs, for one (machine, profile, world size, degrees). Plain value; of groups of one
 * rank nothing but their ranks is set. */
typedef struct {
  const TopoMachine *machine;  /* (borrowed) */
  const ModelProfile *profile; /* (borrowed) */
  const CostNumbers *numbers;  /* (borrowed) */
  /* Dense peak of the GPU as its datasheet has it, 0: not supported. fp32 falls back to tf32, then
   * to 16 bits, where the GPU's file has no fp32 peak: router GEMMs are always fp32. */
  double peak_flop_per_s[MODEL_DTYPE_N_KINDS];
  double hbm_bytes_per_s;
  CostGemmContext gemm[MODEL_DTYPE_N_KINDS];
  CostGemmMemo *gemm_memo; /* (borrowed) (nullable) */
  CostGroup groups[MODEL_GROUP_N_KINDS];
  TopoGroupShape shapes[MODEL_GROUP_N_KINDS];
} CostContext;

/* Groups that the ops of a segment use. */
#define COST_SEGMENT_GROUPS                                                                        \
  (1u << MODEL_GROUP_TP | 1u << MODEL_GROUP_CP | 1u << MODEL_GROUP_EP | 1u << MODEL_GROUP_ETP)
#define COST_ALL_GROUPS ((1u << MODEL_GROUP_N_KINDS) - 1)

/* @map: the layout's. Groups of size 1 cost nothing. */
void cost_context_init (CostContext *context, const TopoMachine *machine,
                        const ModelProfile *profile, const CostNumbers *numbers,
                        const ModelRankMap *map);
/* The same with the groups in @group_bits only; the others cost nothing. */
void cost_context_init_groups (CostContext *context, const TopoMachine *machine,
                               const ModelProfile *profile, const CostNumbers *numbers,
                               const ModelRankMap *map, guint32 group_bits);
/* What assignment does, without the rest of groups of one rank. */
void cost_context_copy (CostContext *context, const CostContext *from);

/*
 * Whether the machine's GPU computes in @dtype; otherwise FALSE with COST_ERROR_NO_DATA, saying
 * what it has. mxfp8 needs tensor cores with block scales (compute capability 10 and up).
 */
gboolean cost_context_check_dtype (const CostContext *context, ModelDtype dtype, GError **error);

/* Seconds of @op alone: compute by gemm.c attention.c memop.c, communication by collective.c.
 * SEND and RECV cost 0 here: their time depends on the neighbours (pipeline.h). INFINITY for a
 * GEMM in a dtype that cost_context_check_dtype refuses. */
double cost_op_s (const CostContext *context, const ModelOp *op);
G_END_DECLS
