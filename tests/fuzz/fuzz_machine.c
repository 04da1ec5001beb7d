/* tests/fuzz/fuzz_machine.c - any bytes as a machine file and as a GPU file. What is accepted must
 * have a finished graph, sane rates, and shapes that add up. */
#include "tests/fuzz/fuzz_topo.h"
#include "topo/placement.h"
#include <math.h>

static void
require_shape (const TopoMachine *machine, const TopoGroupShape *shape)
{
  guint64 k = shape->domains;
  fuzz_require (k >= 1 && shape->ranks_per_domain >= 1);
  fuzz_require (k * shape->ranks_per_domain <= shape->ranks);
  fuzz_require (k * shape->ranks_per_domain_max >= shape->ranks);
  fuzz_require (shape->intra_bytes_per_s >= 0 && isfinite (shape->intra_bytes_per_s));
  fuzz_require (shape->inter_bytes_per_s >= 0 && isfinite (shape->inter_bytes_per_s));
  fuzz_require (shape->alltoall_bytes_per_s >= 0 && isfinite (shape->alltoall_bytes_per_s));
  g_autofree char *text = topo_group_bottleneck (machine, shape);
  fuzz_require (*text != '\0');
}

static void
try_shapes (const TopoMachine *machine)
{
  TopoGroupShape shape;
  guint32 worlds[] = { machine->gpus_per_node, machine->domain_size, 3 * machine->domain_size };
  if (machine->domain_size > 4096) /* pods: shapes of odd sizes take their time */
    return;
  for (guint w = 0; w < G_N_ELEMENTS (worlds); w++)
    for (guint32 size = 1; size <= MIN (worlds[w], 12); size++) {
      if (worlds[w] % size != 0)
        continue;
      topo_group_shape (machine, worlds[w], 1, size, &shape);
      require_shape (machine, &shape);
      topo_group_shape (machine, worlds[w], worlds[w] / size, size, &shape);
      require_shape (machine, &shape);
      if (size >= worlds[w])
        continue;
      topo_pair_shape (machine, worlds[w], size, &shape);
      require_shape (machine, &shape);
    }
}

static void
try_machine (const uint8_t *data, size_t size)
{
  GError *error = NULL;
  g_autoptr (BaseIni) ini
      = base_ini_new_from_data ((const char *)data, (gssize)size, "fuzz.ini", &error);
  fuzz_require_outcome (ini != NULL, &error);
  if (ini == NULL)
    return;
  TopoGpu *gpu = topo_gpu_load (fuzz_catalog (), "h100-sxm-80g", NULL);
  fuzz_require (gpu != NULL);
  g_autoptr (TopoMachine) machine
      = topo_machine_new_from_ini (fuzz_catalog (), ini, "fuzz", gpu, &error);
  fuzz_require_outcome (machine != NULL, &error);
  if (machine == NULL)
    return;
  fuzz_require (machine->graph->is_finished);
  fuzz_require (machine->domain_size % machine->gpus_per_node == 0);
  try_shapes (machine);
}

static void
try_gpu (const uint8_t *data, size_t size)
{
  GError *error = NULL;
  g_autoptr (BaseIni) ini
      = base_ini_new_from_data ((const char *)data, (gssize)size, "fuzz.ini", &error);
  g_clear_error (&error);
  if (ini == NULL)
    return;
  g_autoptr (TopoGpu) gpu = topo_gpu_new_from_ini (ini, "fuzz", &error);
  fuzz_require_outcome (gpu != NULL, &error);
  if (gpu == NULL)
    return;
  fuzz_require (gpu->usable_bytes > 0 && gpu->hbm_bytes_per_s > 0);
  for (guint d = 0; d < TOPO_DTYPE_N_KINDS; d++)
    fuzz_require (topo_gpu_peak (gpu, (TopoDtype)d) >= 0);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  try_machine (data, size);
  try_gpu (data, size);
  return 0;
}
