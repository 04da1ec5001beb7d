/* model/layout-private.h - shared by the files that read, write and judge layouts. */
#pragma once
#include "model/layout.h"
G_BEGIN_DECLS

/* NULL-terminated words, indexed by their enum (recompute modules: by bit number). */
extern const char *const model_schedule_names[];
extern const char *const model_attn_names[];
extern const char *const model_cp_comm_names[];
extern const char *const model_cuda_graph_names[];
extern const char *const model_recompute_module_names[];

/* What `schedule` is when the text does not say. */
static inline ModelScheduleKind
model_schedule_default (guint32 vpp)
{
  return vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B;
}

/* FP8 and FP4 kernels work on blocks: sizes of GEMMs must be multiples of this (1: any). */
guint32 model_dtype_block (ModelDtype dtype);

/* Recompute modules that some block of @arch has, as bits of ModelRecompute.modules. */
guint model_layout_modules_of (const ModelArch *arch);
/* Whether the profile refuses to train @arch's experts for want of sequence parallelism. */
gboolean model_layout_moe_lacks_sp (const ModelArch *arch, const ModelJob *job,
                                    const ModelLayout *layout, const ModelProfile *profile);
/* Layers of the stage with most of them; needs stages without an empty one. */
guint32 model_layout_most_layers (const ModelArch *arch, const ModelLayout *layout);

/*
 * One rule of model_layout_check() alone, so that messages can try other values of a key against
 * the very test that refused the found one. MODEL_ILLEGAL_WORLD assumes dp to be set.
 */
gboolean model_layout_allows (ModelLegality rule, const ModelArch *arch, const ModelJob *job,
                              const ModelLayout *layout, const ModelProfile *profile, guint32 gpus);

/* Says why @rule refuses @layout and what it would take. Returns: (owned). */
char *model_layout_explain (ModelLegality rule, const ModelArch *arch, const ModelJob *job,
                            const ModelLayout *layout, const ModelProfile *profile, guint32 gpus);
G_END_DECLS
