/* model/arch-private.h - how the readers of model/ put a ModelArch together. */
#pragma once
#include "model/arch.h"
G_BEGIN_DECLS

/* Largest sizes any reader accepts: above every published model, small enough that no count of
 * elements of one tensor overflows 64 bits. */
#define MODEL_MAX_LAYERS   4096
#define MODEL_MAX_HIDDEN   (1u << 20)
#define MODEL_MAX_VOCAB    (1u << 24)
#define MODEL_MAX_HEADS    (1u << 14)
#define MODEL_MAX_HEAD_DIM (1u << 14)
#define MODEL_MAX_FFN      (1u << 22)
#define MODEL_MAX_EXPERTS  65536
#define MODEL_MAX_SEQ      (G_GUINT64_CONSTANT (1) << 30)

/* Names of the enumerators, NULL-terminated, in the order of the enums. */
extern const char *const model_attention_kind_names[];
extern const char *const model_norm_kind_names[];
extern const char *const model_position_kind_names[];
extern const char *const model_activation_names[];
extern const char *const model_block_kind_names[];

/* An empty architecture: two norms a block, everything else zero. Returns: (owned) */
ModelArch *model_arch_new (const char *name);

/* Appends @run->count blocks, joining them to the last run where they are equal. */
void model_arch_add_blocks (ModelArch *arch, const ModelBlockRun *run);

/* Records that @key was not in the file and took a default: "key=value: why". */
void model_arch_assume (ModelArch *arch, const char *key, const char *why, const char *value_format,
                        ...) G_GNUC_PRINTF (4, 5);

G_END_DECLS
