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

/* What this driver's NVML lacks stays NULL and is not said. */
static gboolean
load (Nvml *out)
{
  static GModule *module;
  *out = (Nvml){ 0 };
  if (module == NULL)
    module = g_module_open ("libnvidia-ml.so.1", G_MODULE_BIND_LOCAL);
  if (module == NULL || !g_module_symbol (module, "nvmlInit_v2", (gpointer *)&out->init)
      || !g_module_symbol (module, "nvmlDeviceGetHandleByPciBusId_v2", (gpointer *)&out->find))
    return FALSE;
  g_module_symbol (module, "nvmlDeviceGetClockInfo", (gpointer *)&out->clock);
  g_module_symbol (module, "nvmlDeviceGetPowerUsage", (gpointer *)&out->power);
  /* its name since 2023, and before */
  if (!g_module_symbol (module, "nvmlDeviceGetCurrentClocksEventReasons",
                        (gpointer *)&out->reasons))
    g_module_symbol (module, "nvmlDeviceGetCurrentClocksThrottleReasons",
                     (gpointer *)&out->reasons);
  return TRUE;
}

/* "SM 1980 MHz, memory 2619 MHz, 643 W, slowed by: power cap"; NULL without NVML. (owned) */
static char *
read_state (int device)
{
  Nvml nvml;
  char bus_id[32] = "";
  void *handle = NULL;
  unsigned mhz = 0, milliwatts = 0;
  unsigned long long bits = 0;
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, device) != cudaSuccess || !load (&nvml)
      || nvml.init () != 0 || nvml.find (bus_id, &handle) != 0)
    return NULL;
  g_autoptr (GPtrArray) words = g_ptr_array_new_with_free_func (g_free);
  if (nvml.clock != NULL && nvml.clock (handle, CLOCK_SM, &mhz) == 0)
    g_ptr_array_add (words, g_strdup_printf ("SM %u MHz", mhz));
  if (nvml.clock != NULL && nvml.clock (handle, CLOCK_MEMORY, &mhz) == 0)
    g_ptr_array_add (words, g_strdup_printf ("memory %u MHz", mhz));
  if (nvml.power != NULL && nvml.power (handle, &milliwatts) == 0)
    g_ptr_array_add (words, g_strdup_printf ("%.0f W", milliwatts * 1e-3));
  if (nvml.reasons != NULL && nvml.reasons (handle, &bits) == 0)
    for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
      if (bits & reasons[i].bit)
        g_ptr_array_add (words, g_strdup_printf ("slowed by: %s", reasons[i].text));
  g_ptr_array_add (words, NULL);
  return g_strjoinv (", ", (char **)words->pdata);
}

static char *observed; /* (owned) (nullable) */

void
cuda_observe (void)
{
  g_free (observed);
  observed = read_state (cuda_device.number);
}

char *
cuda_describe (void)
{
  const CudaDevice *d = &cuda_device;
  g_autofree char *now = observed == NULL ? read_state (d->number) : NULL;
  const char *state = observed != NULL ? observed : now;
  return g_strdup_printf ("GPU %d, %s; %s%s", d->number, d->name, state != NULL ? state : "no NVML",
                          observed != NULL ? " (at work)" : "");
}
