/* model/tensor.c - the local size of a tensor. */
#include "model/tensor.h"

guint64
model_tensor_local_bytes (const ModelTensor *tensor, const guint32 mesh[MODEL_MESH_N_DIMS])
{
  guint64 shape[G_N_ELEMENTS (tensor->shape)] = { 1, 1, 1, 1 };
  guint64 elements = 1;
  for (guint i = 0; i < tensor->n_dims; i++)
    shape[i] = tensor->shape[i];
  /* Largest chunks nest: ceil(ceil(n/a)/b) = ceil(n/(a·b)), whatever the order of the splits. */
  for (guint i = 0; i < MODEL_MESH_N_DIMS; i++)
    if (tensor->placement[i].kind == MODEL_PLACEMENT_SHARD
        || tensor->placement[i].kind == MODEL_PLACEMENT_STRIDED_SHARD)
      shape[tensor->placement[i].dim] = model_shard_ceil (shape[tensor->placement[i].dim], mesh[i]);
  for (guint i = 0; i < tensor->n_dims; i++)
    elements *= shape[i];
  return model_shard_ceil (elements * model_dtype_bits ((ModelDtype)tensor->dtype), 8);
}
