/* topo/gpu.c - reads one GPU file. */
#include "topo/gpu-private.h"
#include <math.h>
#include <string.h>

#define MAX_PEAK_FLOP_PER_S  1e18 /* a single device above an exaflop is a slip of the unit */
#define MAX_RATE_BYTES_PER_S 1e15
#define MAX_LINKS            1024

static const char *const dtype_names[TOPO_DTYPE_N_KINDS]
    = { "fp32", "tf32", "fp16", "bf16", "fp8", "fp4" };

const char *
topo_dtype_name (TopoDtype dtype)
{
  g_return_val_if_fail ((guint)dtype < TOPO_DTYPE_N_KINDS, "?");
  return dtype_names[dtype];
}

void
topo_gpu_free (TopoGpu *gpu)
{
  if (gpu == NULL)
    return;
  g_free (gpu->slug);
  g_free (gpu->product);
  g_strfreev (gpu->aliases);
  g_strfreev (gpu->pci_ids);
  g_free (gpu->compute_capability);
  g_free (gpu->generation);
  g_free (gpu->memory_kind);
  g_free (gpu->board);
  g_free (gpu->source);
  g_free (gpu);
}

double
topo_gpu_peak (const TopoGpu *gpu, TopoDtype dtype)
{
  g_return_val_if_fail ((guint)dtype < TOPO_DTYPE_N_KINDS, 0);
  return gpu->peak_flop_per_s[dtype];
}

double
topo_gpu_direct_bytes_per_s (const TopoGpu *gpu)
{
  return gpu->has_direct ? gpu->direct_links * gpu->direct_link_bytes_per_s : 0;
}

gboolean
topo_gpu_check_label (const BaseIni *ini, const char *text, double label_gb, GError **error)
{
  double bytes = 0;
  gsize length = strlen (text);
  gboolean is_decimal_gb = length > 2 && g_ascii_strcasecmp (text + length - 2, "GB") == 0;
  if (!is_decimal_gb || !base_units_parse (text, BASE_DIM_BYTES, &bytes, NULL)
      || fabs (bytes / 1e9 - label_gb) > 1e-6 * label_gb)
    return TRUE;
  base_ini_set_error (ini, "memory", "usable", error,
                      "found '%s', which is the label of the card, not a capacity: read as decimal "
                      "GB it is %.2f GiB, read as GiB it is %.2f GB; expected what the driver "
                      "reports, in GiB, MiB or B",
                      text, bytes / (1 << 30), label_gb * (1 << 30) / 1e9);
  return FALSE;
}

/* usable is of CUDA or the user's word, or nvidia-smi's total, of which CUDA does not give all. */
static gboolean
read_usable (BaseIni *ini, TopoGpu *gpu, GError **error)
{
  enum { CUDA, SMI, USER };
  static const char *const readings[] = { "cuda", "smi", "user", NULL };
  guint reading = USER;
  guint64 reserved = 0;
  if (!base_ini_get_bytes (ini, "memory", "usable", &gpu->usable_bytes, error)
      || !base_ini_get_enum_optional (ini, "memory", "usable_reading", readings, &reading, error))
    return FALSE;
  if (reading == SMI && !base_ini_has_key (ini, "memory", "reserved")) {
    base_ini_set_error (ini, "memory", "reserved", error,
                        "key is missing, expected it with usable_reading = smi: what \"nvidia-smi "
                        "-q\" calls Reserved, such as 500MiB");
    return FALSE;
  }
  if (base_ini_has_key (ini, "memory", "reserved")
      && !base_ini_get_bytes (ini, "memory", "reserved", &reserved, error))
    return FALSE;
  if (reserved > 0 && reading != SMI && base_ini_has_key (ini, "memory", "usable_reading")) {
    base_ini_set_error (ini, "memory", "reserved", error,
                        "found it beside usable_reading = %s, which has nothing reserved in it",
                        readings[reading]);
    return FALSE;
  }
  if (gpu->usable_bytes <= reserved) {
    base_ini_set_error (ini, "memory", "usable", error, "found '%s', expected more than %s",
                        base_ini_get_string_or (ini, "memory", "usable", ""),
                        reserved > 0 ? "is reserved" : "nothing");
    return FALSE;
  }
  gpu->usable_bytes -= reserved;
  return TRUE;
}

static gboolean
read_memory (BaseIni *ini, TopoGpu *gpu, GError **error)
{
  guint64 l2_bytes = 0;
  if (!base_ini_get_number (ini, "memory", "bandwidth", BASE_DIM_BYTES_PER_SECOND, 1e6,
                            MAX_RATE_BYTES_PER_S, &gpu->hbm_bytes_per_s, error)
      || !base_ini_get_number_optional (ini, "memory", "label_gb", BASE_DIM_COUNT, 1, 1e6,
                                        &gpu->label_gb, error))
    return FALSE;
  const char *usable = base_ini_get_string (ini, "memory", "usable", error);
  if (usable == NULL)
    return FALSE;
  if (!isnan (gpu->label_gb) && !topo_gpu_check_label (ini, usable, gpu->label_gb, error))
    return FALSE;
  if (!read_usable (ini, gpu, error))
    return FALSE;
  gpu->memory_kind = g_strdup (base_ini_get_string_or (ini, "memory", "kind", NULL));
  if (base_ini_has_key (ini, "memory", "l2")
      && !base_ini_get_bytes (ini, "memory", "l2", &l2_bytes, error))
    return FALSE;
  gpu->l2_bytes = l2_bytes;
  return TRUE;
}

static gboolean
read_peaks (BaseIni *ini, TopoGpu *gpu, GError **error)
{
  double best = 0;
  gpu->clock_hertz = NAN;
  for (guint d = 0; d < TOPO_DTYPE_N_KINDS; d++) {
    if (!base_ini_get_number_optional (ini, "peak", dtype_names[d], BASE_DIM_FLOP_PER_SECOND, 1e6,
                                       MAX_PEAK_FLOP_PER_S, &gpu->peak_flop_per_s[d], error))
      return FALSE;
    best = MAX (best, gpu->peak_flop_per_s[d]);
  }
  if (!base_ini_get_number_optional (ini, "peak", "clock", BASE_DIM_HERTZ, 1e6, 1e11,
                                     &gpu->clock_hertz, error))
    return FALSE;
  if (best > 0)
    return TRUE;
  base_ini_set_error (ini, "peak", NULL, error,
                      "no peak: expected the dense rate of at least one of fp32, tf32, fp16, bf16, "
                      "fp8, fp4, such as \"bf16 = 989TFLOP/s\"");
  return FALSE;
}

static gboolean
read_direct_links (BaseIni *ini, TopoGpu *gpu, GError **error)
{
  guint64 links = 0;
  const char *kind = base_ini_get_string_or (ini, "links", "direct", NULL);
  gpu->direct_link_bytes_per_s = 0;
  gpu->copy_ratio = NAN;
  if (kind == NULL)
    return TRUE;
  if (!topo_link_kind_from_name (kind, &gpu->direct) || !topo_link_kind_is_direct (gpu->direct)
      || gpu->direct == TOPO_LINK_NVLINK) {
    base_ini_set_error (ini, "links", "direct", error,
                        "found '%s', expected nvlink1 to nvlink5, xgmi or ici", kind);
    return FALSE;
  }
  if (!base_ini_get_count (ini, "links", "direct_links", 1, MAX_LINKS, &links, error)
      || !base_ini_get_number (ini, "links", "direct_link_rate", BASE_DIM_BYTES_PER_SECOND, 1e6,
                               MAX_RATE_BYTES_PER_S, &gpu->direct_link_bytes_per_s, error)
      || !base_ini_get_number_optional (ini, "links", "copy_ratio", BASE_DIM_RATIO, 0.01, 1,
                                        &gpu->copy_ratio, error))
    return FALSE;
  gpu->has_direct = TRUE;
  gpu->direct_links = (guint32)links;
  return TRUE;
}

static gboolean
read_links (BaseIni *ini, TopoGpu *gpu, GError **error)
{
  guint64 generation = 0;
  double c2c_bytes_per_s = 0;
  if (!read_direct_links (ini, gpu, error)
      || !base_ini_get_number_optional (ini, "links", "c2c_rate", BASE_DIM_BYTES_PER_SECOND, 1e6,
                                        MAX_RATE_BYTES_PER_S, &c2c_bytes_per_s, error)
      || !base_ini_get_count_optional (ini, "links", "pcie", 3, 6, &generation, error))
    return FALSE;
  gpu->has_c2c = c2c_bytes_per_s > 0;
  gpu->c2c_bytes_per_s = c2c_bytes_per_s;
  gpu->pcie_generation = (guint)generation;
  return TRUE;
}

static gboolean
read_identity (BaseIni *ini, TopoGpu *gpu, GError **error)
{
  guint64 sm_count = 0;
  const char *product = base_ini_get_string (ini, "gpu", "product", error);
  if (product == NULL)
    return FALSE;
  gpu->product = g_strdup (product);
  const char *generation = base_ini_get_string (ini, "gpu", "generation", error);
  if (generation == NULL)
    return FALSE;
  gpu->generation = g_strdup (generation);
  const char *source = base_ini_get_string (ini, "gpu", "source", error);
  if (source == NULL)
    return FALSE;
  gpu->source = g_strdup (source);
  gpu->board = g_strdup (base_ini_get_string_or (ini, "gpu", "board", NULL));
  gpu->aliases = base_ini_get_list (ini, "gpu", "aliases");
  gpu->pci_ids = base_ini_get_list (ini, "gpu", "pci_ids");
  gpu->compute_capability
      = g_strdup (base_ini_get_string_or (ini, "gpu", "compute_capability", NULL));
  gpu->tdp_w = NAN;
  gpu->label_gb = NAN;
  if (!base_ini_get_count_optional (ini, "gpu", "sm_count", 1, 100000, &sm_count, error)
      || !base_ini_get_number_optional (ini, "gpu", "tdp", BASE_DIM_WATTS, 1, 1e5, &gpu->tdp_w,
                                        error))
    return FALSE;
  gpu->sm_count = (guint32)sm_count;
  return TRUE;
}

/* Sources of the four groups as one text. */
static void
read_sources (BaseIni *ini, TopoGpu *gpu)
{
  static const char *const groups[] = { "peak", "memory", "links" };
  g_autoptr (GString) text = g_string_new (gpu->source);
  for (guint i = 0; i < G_N_ELEMENTS (groups); i++) {
    const char *source = base_ini_get_string_or (ini, groups[i], "source", NULL);
    if (source != NULL)
      g_string_append_printf (text, " | %s: %s", groups[i], source);
  }
  g_free (gpu->source);
  gpu->source = g_string_free (g_steal_pointer (&text), FALSE);
}

TopoGpu *
topo_gpu_new_unknown (void)
{
  TopoGpu *gpu = g_new0 (TopoGpu, 1);
  gpu->slug = g_strdup ("unknown");
  gpu->product = g_strdup ("unknown");
  gpu->aliases = g_new0 (char *, 1);
  gpu->pci_ids = g_new0 (char *, 1);
  gpu->generation = g_strdup ("unknown");
  gpu->clock_hertz = gpu->hbm_bytes_per_s = gpu->label_gb = gpu->tdp_w = gpu->copy_ratio = NAN;
  gpu->source = g_strdup ("unknown");
  return gpu;
}

gboolean
topo_gpu_is_unknown (const TopoGpu *gpu)
{
  return strcmp (gpu->slug, "unknown") == 0;
}

TopoGpu *
topo_gpu_new_from_ini (BaseIni *ini, const char *slug, GError **error)
{
  static const char *const known_keys[] = { "product",
                                            "board",
                                            "aliases",
                                            "pci_ids",
                                            "compute_capability",
                                            "generation",
                                            "sm_count",
                                            "tdp",
                                            "source",
                                            "fp32",
                                            "tf32",
                                            "fp16",
                                            "bf16",
                                            "fp8",
                                            "fp4",
                                            "clock",
                                            "bandwidth",
                                            "usable",
                                            "label_gb",
                                            "usable_reading",
                                            "reserved",
                                            "copy_ratio",
                                            "kind",
                                            "l2",
                                            "direct",
                                            "direct_links",
                                            "direct_link_rate",
                                            "c2c_rate",
                                            "pcie",
                                            NULL };
  g_autoptr (TopoGpu) gpu = g_new0 (TopoGpu, 1);
  gpu->slug = g_strdup (slug);
  if (!read_identity (ini, gpu, error) || !read_peaks (ini, gpu, error)
      || !read_memory (ini, gpu, error) || !read_links (ini, gpu, error))
    return NULL;
  read_sources (ini, gpu);
  if (!base_ini_finish (ini, known_keys, error))
    return NULL;
  return g_steal_pointer (&gpu);
}
