/* model/tensor.h - one tensor of a program: role, type, shape, placement, life.
 *
 * Liveness, memory and verification all read this table. Shapes are global over the mesh of one
 * data-parallel replica and one micro-batch; local_bytes is what one rank holds.
 */
#pragma once
#include "model/dtype.h"
#include "model/shard.h"
#include <glib.h>
G_BEGIN_DECLS
typedef enum {
  MODEL_ROLE_WEIGHT,
  MODEL_ROLE_WEIGHT_GRAD, /* accumulated over micro-batches */
  MODEL_ROLE_ACTIVATION,
  MODEL_ROLE_LOGITS,    /* logits and what the loss makes of them */
  MODEL_ROLE_MASK,      /* dropout masks, routing indices */
  MODEL_ROLE_STATISTIC, /* softmax and norm statistics */
  MODEL_ROLE_ACTIVATION_GRAD,
  MODEL_ROLE_SCRATCH, /* lives within one op */
} ModelTensorRole;

typedef enum {
  MODEL_MESH_TP,
  MODEL_MESH_CP,
  MODEL_MESH_EP,
  MODEL_MESH_ETP,
  MODEL_MESH_N_DIMS
} ModelMeshDim;

#define MODEL_TENSOR_NONE G_MAXUINT32 /* no producer (input of the program), or no user */

typedef struct {
  const char *name; /* static */
  guint8 role;      /* ModelTensorRole */
  guint8 dtype;     /* ModelDtype */
  guint8 n_dims;
  guint8 kept;      /* alive from forward to backward: counts as activation memory */
  gboolean routed;  /* rows are tokens as the router sends them */
  guint64 shape[4]; /* global */
  ModelPlacement placement[MODEL_MESH_N_DIMS];
  guint64 local_bytes;
  guint32 producer;  /* op index, MODEL_TENSOR_NONE for inputs and weights */
  guint32 last_user; /* op index, MODEL_TENSOR_NONE if nobody reads it */
} ModelTensor;
/* Largest local size by the torch.chunk rule over the mesh sizes. */
guint64 model_tensor_local_bytes (const ModelTensor *tensor, const guint32 mesh[MODEL_MESH_N_DIMS]);
G_END_DECLS
