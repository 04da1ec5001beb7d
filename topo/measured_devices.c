/* topo/measured_devices.c - whether a log was measured on the GPUs of a machine.
 *
 * nccl-tests prints a line per rank with the name that the driver gives its device. Times of a
 * collective rest on the links between GPUs: a log of GPUs with other links is not of this machine,
 * and refused. Another GPU with the same links (H200 in place of H100), a name that the catalog does
 * not know or a log without names may be meant: said, and written down as the curve's source.
 */
#include "topo/nccltests-private.h"
#include <string.h>

#define MAX_DEVICES 8    /* names kept of one log: more say nothing new */
#define MAX_NAME    64   /* longer than any driver's */
#define MAX_NUMBER  1024 /* of a device on one host */

/* What may stand in the source of a machine file; the rest of a log is anybody's. (owned) */
static char *
clean_name (const char *name)
{
  g_autofree char *copy = g_strndup (name, MAX_NAME);
  for (char *c = copy; *c != '\0'; c++)
    if (!g_ascii_isalnum (*c) && strchr (" ._-+/()", *c) == NULL)
      *c = '?';
  return g_strdup (g_strstrip (copy));
}

void
nccltests_add_device (TopoReading *reading, double number, const char *name)
{
  if (number >= 0 && number < MAX_NUMBER)
    reading->n_host_devices = MAX (reading->n_host_devices, (guint)number + 1);
  if (name == NULL)
    return;
  g_autofree char *clean = clean_name (name);
  if (*clean == '\0' || reading->devices->len >= MAX_DEVICES
      || g_ptr_array_find_with_equal_func (reading->devices, clean, g_str_equal, NULL))
    return;
  g_ptr_array_add (reading->devices, g_steal_pointer (&clean));
}

/* As far as is known. */
static gboolean
has_same_links (const TopoGpu *a, const TopoGpu *b)
{
  if (a->has_direct != b->has_direct)
    return FALSE;
  if (!a->has_direct)
    return a->pcie_generation == b->pcie_generation || a->pcie_generation == 0
           || b->pcie_generation == 0;
  return a->direct == b->direct
         && topo_gpu_direct_bytes_per_s (a) == topo_gpu_direct_bytes_per_s (b);
}

/* "18 x nvlink4, 450 GB/s one way", "pcie gen 4". (owned) */
static char *
describe_links (const TopoGpu *gpu)
{
  if (gpu->has_direct)
    return g_strdup_printf ("%u x %s, %g GB/s one way", gpu->direct_links,
                            topo_link_kind_name (gpu->direct),
                            topo_gpu_direct_bytes_per_s (gpu) / 1e9);
  return gpu->pcie_generation > 0 ? g_strdup_printf ("pcie gen %u", gpu->pcie_generation)
                                  : g_strdup ("no direct links");
}

/* FALSE with an error where @known, which the log names @name, cannot be the machine's. */
static gboolean
check_known (TopoReading *reading, const char *name, const TopoGpu *known,
             const TopoMachine *machine, const char *machine_name, GError **error)
{
  const TopoGpu *own = machine->gpu;
  if (strcmp (known->slug, own->slug) == 0)
    return TRUE;
  if (has_same_links (known, own)) {
    reading_note (reading,
                  "measured on '%s' (%s), %s has %s: the links between GPUs are the same, all else "
                  "may differ",
                  name, known->slug, machine_name, own->slug);
    return TRUE;
  }
  g_autofree char *measured = describe_links (known), *here = describe_links (own);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
               "measured on '%s' (%s: %s), but %s has %s (%s): its times are not those of this "
               "machine; give --machine one with %s",
               name, known->slug, measured, machine_name, own->slug, here, known->slug);
  return FALSE;
}

static gboolean
check_device (TopoReading *reading, const char *name, const TopoGpuTable *table,
              const TopoMachine *machine, const char *machine_name, GError **error)
{
  const TopoGpu *known = topo_gpu_table_find (table, name, NULL);
  if (topo_gpu_is_unknown (machine->gpu) || known == NULL) {
    reading_note (reading, "measured on '%s': whether that is the GPU of %s (%s) is not known",
                  name, machine_name, machine->gpu->slug);
    return TRUE;
  }
  return check_known (reading, name, known, machine, machine_name, error);
}

static gboolean
is_of_nccl_tests (const TopoReading *reading)
{
  return reading->format == TOPO_FORMAT_NCCL_TESTS_TEXT
         || reading->format == TOPO_FORMAT_NCCL_TESTS_JSON;
}

gboolean
measured_check_devices (TopoReading *reading, const TopoMachine *machine,
                        const TopoReadOptions *options, char **out_source, GError **error)
{
  g_autoptr (GString) source = g_string_new (topo_format_name (reading->format));
  g_autoptr (TopoGpuTable) table = NULL;
  if (is_of_nccl_tests (reading) && reading->devices->len == 0)
    reading_note (reading,
                  "the log does not name its GPUs: that they are those of %s is taken on "
                  "trust",
                  options->machine);
  if (reading->devices->len > 0 && (table = topo_gpu_table_new (options->catalog, error)) == NULL)
    return FALSE;
  for (guint i = 0; i < reading->devices->len; i++) {
    const char *name = g_ptr_array_index (reading->devices, i);
    if (!check_device (reading, name, table, machine, options->machine, error))
      return FALSE;
    g_string_append_printf (source, "%s%s", i == 0 ? ", measured on " : " and ", name);
  }
  if (reading->n_host_devices > machine->gpus_per_node)
    reading_note (reading, "the log has a device %u on one host, %s has %u GPUs per node",
                  reading->n_host_devices - 1, options->machine, machine->gpus_per_node);
  *out_source = g_string_free (g_steal_pointer (&source), FALSE);
  return TRUE;
}
