/* tests/emu/nvml.c - libnvidia-ml.so.1 for tests: two GPUs, at the addresses of
 * tests/topo/hwloc-live.xml.
 *
 * PLAIT_EMU_NVML: "pair" 12 links to the other GPU, "switch" 18 links to switches, "lost" 12 of which
 * GPU 1 has 4 left, "third" a GPU more that is no PCI device of this host, "dead" a driver that does
 * not answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} PciInfo;

static int
is_mode (const char *mode)
{
  const char *set = getenv ("PLAIT_EMU_NVML");
  return set != NULL && strcmp (set, mode) == 0;
}

static unsigned
index_of (void *device)
{
  return (unsigned)((size_t)device - 1);
}

int
nvmlInit_v2 (void)
{
  return is_mode ("dead") ? 9 : 0;
}

int
nvmlShutdown (void)
{
  return 0;
}

int
nvmlDeviceGetCount_v2 (unsigned *count)
{
  *count = is_mode ("third") ? 3 : 2;
  return 0;
}

int
nvmlDeviceGetHandleByIndex_v2 (unsigned index, void **device)
{
  *device = (void *)(size_t)(index + 1);
  return 0;
}

int
nvmlDeviceGetName (void *device, char *name, unsigned length)
{
  (void)device;
  snprintf (name, length, "NVIDIA A100 80GB PCIe");
  return 0;
}

/* As the driver writes it: eight digits of the domain, capitals. */
static void
fill (unsigned gpu, PciInfo *info)
{
  memset (info, 0, sizeof *info);
  snprintf (info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", gpu + 1);
}

int
nvmlDeviceGetPciInfo_v3 (void *device, PciInfo *info)
{
  fill (index_of (device), info);
  return 0;
}

/* 2: invalid argument, as for a link that the GPU does not have. */
int
nvmlDeviceGetNvLinkState (void *device, unsigned link, int *is_active)
{
  if (link >= (is_mode ("switch") ? 18u : 12u) || index_of (device) > 1)
    return 2;
  *is_active = !(is_mode ("lost") && index_of (device) == 1 && link >= 4);
  return 0;
}

int
nvmlDeviceGetNvLinkRemotePciInfo_v2 (void *device, unsigned link, PciInfo *info)
{
  (void)link;
  fill (is_mode ("switch") ? 0xC0 : 1 - index_of (device), info);
  return 0;
}

int
nvmlDeviceGetNvLinkRemoteDeviceType (void *device, unsigned link, int *type)
{
  (void)device, (void)link;
  *type = is_mode ("switch") ? 2 : 0;
  return 0;
}
