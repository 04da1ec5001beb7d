/* costmodel/memory-private.h - terms that the memory of a stage and its bound share. */
#pragma once
#include "costmodel/memory.h"
G_BEGIN_DECLS

#define COST_FP32_BYTES 4

/* What a block of @kind that recomputes keeps on the GPU, of one micro-batch. */
guint64 cost_recomputed_kept_bytes (const CostTemplate *tmpl, guint kind);
/* What @block needs at once beside what is kept. */
guint64 cost_block_work_bytes (const CostBlock *block);
/* Bytes per parameter of a whole copy to compute with, beside the states. */
double cost_compute_copy_bytes (const CostMemoryPlan *plan);
G_END_DECLS
