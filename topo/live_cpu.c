/* topo/live_cpu.c - a host without GPUs as a machine: one "cpu" device per rank.
 *
 *   peak = hardware threads x clock x FLOP per cycle of the widest vector unit the CPU has; an upper
 *          bound, twice too high where two threads share a core. Threads: those this process may
 *          run on
 *   bandwidth = threads x clock x bytes per cycle
 *   usable = RAM / ranks
 *
 * What a core does per cycle is catalog/links/host.ini's.
 * Nothing is timed: the same host always is the same machine, and what it reaches of these rates is
 * in the calibration. All of it is said to be assumed.
 */
#include "base/cpus.h"
#include "topo/live.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* What a core does per cycle. */
typedef struct {
  double memory_bytes; /* read and written together */
  double avx512_flop, avx2_flop, other_flop;
  double assumed_hertz; /* where the host does not tell its clock */
} HostFacts;

static gboolean
host_facts_init (HostFacts *facts, const BaseCatalog *catalog, GError **error)
{
  const struct {
    const char *group, *key;
    BaseDim dim;
    double min, max, *out;
  } keys[] = { { "memory", "per_cycle", BASE_DIM_BYTES, 0.01, 1e4, &facts->memory_bytes },
               { "peak", "avx512_per_cycle", BASE_DIM_COUNT, 1, 1e6, &facts->avx512_flop },
               { "peak", "avx2_per_cycle", BASE_DIM_COUNT, 1, 1e6, &facts->avx2_flop },
               { "peak", "other_per_cycle", BASE_DIM_COUNT, 1, 1e6, &facts->other_flop },
               { "clock", "assumed", BASE_DIM_HERTZ, 1e6, 1e11, &facts->assumed_hertz } };
  g_autoptr (BaseIni) ini = base_catalog_open (catalog, "links", "host", error);
  if (ini == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (base_ini_get_string (ini, keys[i].group, "source", error) == NULL
        || !base_ini_get_number (ini, keys[i].group, keys[i].key, keys[i].dim, keys[i].min,
                                 keys[i].max, keys[i].out, error))
      return FALSE;
  return base_ini_finish (ini, NULL, error);
}

static double
two_digits (double value)
{
  double scale = pow (10, floor (log10 (value)) - 1);
  return round (value / scale) * scale;
}

/* Value after the colon of the first line of /proc/cpuinfo that starts with @key. (owned) */
static char *
cpuinfo (const char *key)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents ("/proc/cpuinfo", &text, NULL, NULL))
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", 64);
  for (char **line = lines; *line != NULL; line++) {
    char *colon = strchr (*line, ':');
    if (g_str_has_prefix (*line, key) && colon != NULL)
      return g_strstrip (g_strdup (colon + 1));
  }
  return NULL;
}

/* @out_known: (nullable) FALSE where the host does not tell, and @facts answer. */
static double
clock_hertz (const HostFacts *facts, gboolean *out_known)
{
  g_autofree char *text = NULL;
  gboolean known;
  if (out_known == NULL)
    out_known = &known;
  *out_known = TRUE;
  if (g_file_get_contents ("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", &text, NULL,
                           NULL)
      && g_ascii_strtod (text, NULL) > 0)
    return g_ascii_strtod (text, NULL) * 1e3;
  g_free (text);
  text = cpuinfo ("cpu MHz");
  double megahertz = text != NULL ? g_ascii_strtod (text, NULL) : 0;
  *out_known = megahertz > 0;
  return *out_known ? two_digits (megahertz) * 1e6 : facts->assumed_hertz;
}

static double
flop_per_cycle (const HostFacts *facts)
{
  g_autofree char *flags = cpuinfo ("flags");
  g_auto (GStrv) words = g_strsplit (flags != NULL ? flags : "", " ", -1);
  const char *const *list = (const char *const *)words;
  if (g_strv_contains (list, "avx512f"))
    return facts->avx512_flop;
  return g_strv_contains (list, "avx2") && g_strv_contains (list, "fma") ? facts->avx2_flop
                                                                         : facts->other_flop;
}

/* The clean name of the processor: INI values end at " #". (owned) */
static char *
processor (void)
{
  char *name = cpuinfo ("model name");
  for (char *c = name; c != NULL && *c != '\0'; c++)
    if ((guchar)*c < ' ' || (guchar)*c > '~' || *c == '#' || *c == ',')
      *c = ' ';
  return name != NULL && *name != '\0' ? name : g_strdup ("CPU of this host");
}

static TopoGpu *
cpu_device (const HostFacts *facts, guint32 ranks, GError **error)
{
  long pages = sysconf (_SC_PHYS_PAGES);
  double share = MAX ((double)base_cpus_count () / ranks, 1);
  guint64 usable = (guint64)MAX (pages, 1) * (guint64)sysconf (_SC_PAGESIZE) / ranks;
  gboolean clock_known = TRUE;
  double clock = clock_hertz (facts, &clock_known);
  g_autofree char *name = processor ();
  g_autofree char *assumed
      = g_strdup_printf (" (not told, %g GHz assumed)", facts->assumed_hertz / 1e9);
  g_autofree char *text = g_strdup_printf (
      "[gpu]\nproduct = %s\ngeneration = cpu\nsm_count = %u\n"
      "source = this host: one of %u ranks\n"
      "[peak]\nfp32 = %.0fMFLOP/s\nsource = threads x clock%s x FLOP per cycle: an upper bound\n"
      "[memory]\nbandwidth = %.0fMB/s\nusable = %" G_GUINT64_FORMAT "B\nusable_reading = user\n"
      "source = what a core streams per cycle, installed RAM\n",
      name, (guint)share, ranks, share * clock * flop_per_cycle (facts) / 1e6,
      clock_known ? "" : assumed, clock * facts->memory_bytes * share / 1e6, usable);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "this host", error);
  return ini != NULL ? topo_gpu_new_from_ini (ini, "cpu", error) : NULL;
}

static TopoMachine *
cpu_machine (const BaseCatalog *catalog, guint32 ranks, GError **error)
{
  HostFacts facts;
  if (!host_facts_init (&facts, catalog, error))
    return NULL;
  TopoGpu *device = cpu_device (&facts, ranks, error);
  g_autofree char *text = g_strdup_printf (
      "[machine]\nname = this host\ngpu = cpu\ngpus_per_node = %u\nsource = this host\n"
      "assumed = peak by clock and vector width, memory and shm rate by clock\n"
      "[links]\nwiring = shm\nlink_rate = %.0fMB/s\n",
      ranks, clock_hertz (&facts, NULL) * facts.memory_bytes / 2e6);
  if (device == NULL)
    return NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "this host", error);
  if (ini != NULL)
    return topo_machine_new_from_ini (catalog, ini, "live", device, error);
  topo_gpu_free (device);
  return NULL;
}

TopoMachine *
topo_machine_new_live (const TopoReadOptions *options, guint32 ranks, GError **error)
{
  g_autoptr (GError) unread = NULL;
  g_autoptr (TopoReading) reading = NULL;
  if (ranks == 0 || ranks > TOPO_MAX_GPUS_PER_NODE) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE, "found %u ranks, expected 1 to %d", ranks,
                 TOPO_MAX_GPUS_PER_NODE);
    return NULL;
  }
  reading = topo_reading_new_live (options, &unread);
  if (reading != NULL && reading->machine->gpus_per_node > 0)
    return topo_reading_steal_machine (reading, error);
  /* A host that could not be read is no host without GPUs, unless nothing was there to read it. */
  if (reading == NULL
      && (options->gpu != NULL || !g_error_matches (unread, TOPO_ERROR, TOPO_ERROR_UNAVAILABLE))) {
    g_propagate_error (error, g_steal_pointer (&unread));
    return NULL;
  }
  return cpu_machine (options->catalog, ranks, error);
}
