/* exec/cuda/nvml.c - the device's state through NVML, opened at run time: a measurement at reduced
 * clocks should say so. Names and numbers are those of NVML's stable interface (nvml.h). */
#include "exec/cuda/device-private.h"

#include <gmodule.h>

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 }; /* nvmlClockType_t */

typedef struct {
  int (*init) (void);
  int (*find) (const char *bus_id, void **device);
  int (*clock) (void *device, int kind, unsigned *mhz);
  int (*power) (void *device, unsigned *milliwatts);
  int (*reasons) (void *device, unsigned long long *bits);
} Nvml;

/* nvmlClocksEventReason*: why clocks are lower than they could be. */
static const struct {
  unsigned long long bit;
  const char *text;
} reasons[] = {
  { 0x02, "clocks set by an application" },
  { 0x04, "power cap" },
  { 0x08, "hardware slowdown" },
  { 0x20, "thermal (software)" },
  { 0x40, "thermal (hardware)" },
  { 0x80, "power brake" },
};

static gboolean
load (Nvml *out)
{
  static GModule *module;
  if (module == NULL)
    module = g_module_open ("libnvidia-ml.so.1", G_MODULE_BIND_LOCAL);
  return module != NULL && g_module_symbol (module, "nvmlInit_v2", (gpointer *)&out->init)
         && g_module_symbol (module, "nvmlDeviceGetHandleByPciBusId_v2", (gpointer *)&out->find)
         && g_module_symbol (module, "nvmlDeviceGetClockInfo", (gpointer *)&out->clock)
         && g_module_symbol (module, "nvmlDeviceGetPowerUsage", (gpointer *)&out->power)
         && g_module_symbol (module, "nvmlDeviceGetCurrentClocksThrottleReasons",
                             (gpointer *)&out->reasons);
}

char *
cuda_nvml_state (int device)
{
  Nvml nvml;
  char bus_id[32] = "";
  void *handle = NULL;
  unsigned sm = 0, memory = 0, milliwatts = 0;
  unsigned long long bits = 0;
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, device) != cudaSuccess || !load (&nvml)
      || nvml.init () != 0 || nvml.find (bus_id, &handle) != 0
      || nvml.clock (handle, CLOCK_SM, &sm) != 0 || nvml.clock (handle, CLOCK_MEMORY, &memory) != 0
      || nvml.power (handle, &milliwatts) != 0 || nvml.reasons (handle, &bits) != 0)
    return NULL;
  GString *text = g_string_new (NULL);
  g_string_append_printf (text, "SM %u MHz, memory %u MHz, %.0f W", sm, memory, milliwatts * 1e-3);
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (bits & reasons[i].bit)
      g_string_append_printf (text, ", slowed by: %s", reasons[i].text);
  return g_string_free (text, FALSE);
}

char *
cuda_describe (void)
{
  const CudaDevice *d = &cuda_device;
  g_autofree char *state = cuda_nvml_state (d->number);
  g_autofree char *nccl = d->used_bytes[CUDA_USED_NCCL] > 0
                              ? g_strdup_printf (", %" G_GUINT64_FORMAT " with arena and NCCL",
                                                 d->used_bytes[CUDA_USED_NCCL])
                              : g_strdup ("");
  return g_strdup_printf ("GPU %d, %s; %s; driver-used: %" G_GUINT64_FORMAT
                          " bytes with context, %" G_GUINT64_FORMAT " with cuBLAS and scratch%s",
                          d->number, d->name, state != NULL ? state : "no NVML",
                          d->used_bytes[CUDA_USED_CONTEXT], d->used_bytes[CUDA_USED_SCRATCH], nccl);
}
