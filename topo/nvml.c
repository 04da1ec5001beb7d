/* topo/nvml.c - libnvidia-ml.so.1 by its documented C interface (NVML API reference). */
#include "topo/nvml.h"
#include <gmodule.h>
#include <string.h>

#define NVML_SUCCESS         0
#define NVLINK_MAX_LINKS     36 /* of one GPU; asking beyond its links fails, which ends the loop */
#define NVLINK_REMOTE_GPU    0
#define NVLINK_REMOTE_SWITCH 2

typedef struct _NvmlDevice *NvmlDevice;

/* nvmlPciInfo_t, version 3. */
typedef struct {
  char bus_id_legacy[16];
  guint domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} NvmlPciInfo;

typedef struct {
  GModule *module; /* (owned) */
  int (*init) (void);
  int (*shutdown) (void);
  int (*device_count) (guint *count);
  int (*device_by_index) (guint index, NvmlDevice *device);
  int (*device_name) (NvmlDevice device, char *name, guint length);
  int (*pci_info) (NvmlDevice device, NvmlPciInfo *info);
  int (*link_state) (NvmlDevice device, guint link, int *is_active);
  int (*link_remote) (NvmlDevice device, guint link, NvmlPciInfo *info);
  int (*link_remote_type) (NvmlDevice device, guint link, int *type); /* nullable: newer drivers */
} Nvml;

static gboolean
nvml_open (Nvml *nvml)
{
  nvml->module = g_module_open ("libnvidia-ml.so.1", G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
  if (nvml->module == NULL)
    return FALSE;
  struct {
    const char *name;
    gpointer *symbol;
  } wanted[] = {
    { "nvmlInit_v2", (gpointer *)&nvml->init },
    { "nvmlShutdown", (gpointer *)&nvml->shutdown },
    { "nvmlDeviceGetCount_v2", (gpointer *)&nvml->device_count },
    { "nvmlDeviceGetHandleByIndex_v2", (gpointer *)&nvml->device_by_index },
    { "nvmlDeviceGetName", (gpointer *)&nvml->device_name },
    { "nvmlDeviceGetPciInfo_v3", (gpointer *)&nvml->pci_info },
    { "nvmlDeviceGetNvLinkState", (gpointer *)&nvml->link_state },
    { "nvmlDeviceGetNvLinkRemotePciInfo_v2", (gpointer *)&nvml->link_remote },
  };
  for (guint i = 0; i < G_N_ELEMENTS (wanted); i++)
    if (!g_module_symbol (nvml->module, wanted[i].name, wanted[i].symbol))
      return FALSE;
  g_module_symbol (nvml->module, "nvmlDeviceGetNvLinkRemoteDeviceType",
                   (gpointer *)&nvml->link_remote_type);
  return TRUE;
}

/* "00000000:1B:00.0" and "0000:1b:00.0" are one address. */
static gboolean
same_bus (const char *a, const char *b)
{
  while (*a == '0' && strchr (a, ':') - a > 4)
    a++;
  while (*b == '0' && strchr (b, ':') - b > 4)
    b++;
  return g_ascii_strcasecmp (a, b) == 0;
}

static gint
gpu_at (const Sketch *sketch, const char *bus_id)
{
  if (strchr (bus_id, ':') == NULL)
    return -1;
  for (guint i = 0; i < sketch->n_gpus; i++)
    if (strchr (sketch->bus_ids[i], ':') != NULL && same_bus (sketch->bus_ids[i], bus_id))
      return (gint)i;
  return -1;
}

static void
take_link (const Nvml *nvml, NvmlDevice device, guint link, guint gpu, Sketch *sketch)
{
  NvmlPciInfo remote = { 0 };
  int type = -1;
  if (nvml->link_remote (device, link, &remote) != NVML_SUCCESS)
    return;
  remote.bus_id[sizeof remote.bus_id - 1] = '\0';
  if (nvml->link_remote_type != NULL)
    nvml->link_remote_type (device, link, &type);
  gint peer = type == NVLINK_REMOTE_SWITCH ? -1 : gpu_at (sketch, remote.bus_id);
  if (peer >= 0 && (guint)peer != gpu)
    sketch->links[gpu][peer]++;
  else if (type != NVLINK_REMOTE_GPU)
    sketch->switch_links[gpu]++;
}

/* FALSE: none of @sketch's. */
static gboolean
take_device (const Nvml *nvml, guint index, Sketch *sketch)
{
  NvmlDevice device = NULL;
  NvmlPciInfo pci = { 0 };
  char name[96] = "";
  if (nvml->device_by_index (index, &device) != NVML_SUCCESS
      || nvml->pci_info (device, &pci) != NVML_SUCCESS)
    return FALSE;
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  gint gpu = gpu_at (sketch, pci.bus_id);
  if (gpu < 0)
    return FALSE;
  if (sketch->gpu_product == NULL && nvml->device_name (device, name, sizeof name) == NVML_SUCCESS)
    sketch->gpu_product = g_strndup (name, sizeof name);
  for (guint link = 0; link < NVLINK_MAX_LINKS; link++) {
    int is_active = 0;
    if (nvml->link_state (device, link, &is_active) != NVML_SUCCESS)
      break;
    if (is_active == 1)
      take_link (nvml, device, link, (guint)gpu, sketch);
  }
  return TRUE;
}

gboolean
nvml_fill (Sketch *sketch, guint *out_unplaced, char **out_why)
{
  Nvml nvml = { 0 };
  guint count = 0;
  *out_unplaced = 0;
  gboolean ok = nvml_open (&nvml);
  if (!ok) {
    *out_why = g_strdup ("NVIDIA's driver library (libnvidia-ml.so.1) is not there");
  } else if (nvml.init () != NVML_SUCCESS) {
    *out_why = g_strdup ("NVIDIA's driver does not answer");
    ok = FALSE;
  } else {
    memset (sketch->links, 0, sizeof sketch->links);
    memset (sketch->switch_links, 0, sizeof sketch->switch_links);
    nvml.device_count (&count);
    for (guint i = 0; i < MIN (count, SKETCH_MAX_DEVICES); i++)
      *out_unplaced += !take_device (&nvml, i, sketch);
    sketch->links_seen = TRUE;
    nvml.shutdown ();
  }
  g_clear_pointer (&nvml.module, g_module_close);
  return ok;
}
