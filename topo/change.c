/* topo/change.c - "+50%" and "800Gb/s" made part of a machine. */
#include "base/text.h"
#include "topo/change-private.h"

#include <math.h>
#include <string.h>

#define GIB 1073741824.0

static const struct {
  const char *name;
  BaseDim dim;
  const char *example;
  const char *unit; /* that of the note, and how much it is in SI */
  double unit_si;
} resources[TOPO_RESOURCE_N_KINDS] = {
  [TOPO_RESOURCE_FLOPS]
  = { "flops", BASE_DIM_FLOP_PER_SECOND, "+20% or 1000TFLOP/s", "TFLOP/s", 1e12 },
  [TOPO_RESOURCE_HBM] = { "hbm", BASE_DIM_BYTES, "+20% or 139.8GiB", "GiB", GIB },
  [TOPO_RESOURCE_HBM_BW] = { "hbm_bw", BASE_DIM_BYTES_PER_SECOND, "+20% or 4.8TB/s", "GB/s", 1e9 },
  [TOPO_RESOURCE_NVLINK] = { "nvlink", BASE_DIM_BYTES_PER_SECOND, "+50% or 900GB/s", "GB/s", 1e9 },
  [TOPO_RESOURCE_NIC] = { "nic", BASE_DIM_BYTES_PER_SECOND, "+100% or 800Gb/s", "GB/s", 1e9 },
  [TOPO_RESOURCE_PRICE] = { "price", BASE_DIM_USD_PER_HOUR, "-10% or 2.50USD/h", "USD/h", 1 },
};

const char *
topo_resource_name (TopoResource resource)
{
  g_return_val_if_fail ((guint)resource < TOPO_RESOURCE_N_KINDS, "?");
  return resources[resource].name;
}

/* ---- reading ---- */

static gboolean
find_resource (const char *name, TopoResource *out, GError **error)
{
  const char *names[TOPO_RESOURCE_N_KINDS + 1] = { NULL };
  g_autofree char *known = NULL;

  for (guint i = 0; i < TOPO_RESOURCE_N_KINDS; i++) {
    names[i] = resources[i].name;
    if (g_str_equal (names[i], name)) {
      *out = (TopoResource)i;
      return TRUE;
    }
  }
  known = g_strjoinv (", ", (char **)names);
  g_autofree char *found = base_text_excerpt (name, -1);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "found '%s', expected one of %s", found,
               known);
  return FALSE;
}

/* "+50%" as 1.5; FALSE where it is no percentage with a sign. */
static gboolean
read_percentage (const char *text, double *out_factor)
{
  char *end = NULL;
  double percent = 0;

  if (*text != '+' && *text != '-')
    return FALSE;
  percent = g_ascii_strtod (text, &end);
  if (end == text || strcmp (end, "%") != 0 || !(percent > -100) || !(percent <= 1e6))
    return FALSE;
  *out_factor = 1 + percent / 100;
  return TRUE;
}

/* "80GB", "0.08TB": a decimal multiple, as capacities are advertised; bytes and GiB are meant. */
static gboolean
is_advertised (const char *text)
{
  gsize length = strlen (text);

  return length > 2 && g_ascii_isalpha (text[length - 2]) && text[length - 2] != 'i';
}

static gboolean
read_change (TopoResource resource, const char *text, TopoChange *out, GError **error)
{
  g_autoptr (GError) local = NULL;
  guint64 bytes = 0;

  if (read_percentage (text, &out->factor))
    return TRUE;
  if (*text != '+' && *text != '-') {
    if (resource == TOPO_RESOURCE_HBM && base_units_parse_bytes (text, &bytes, &local)) {
      out->value = (double)bytes;
      out->name_gb = is_advertised (text) ? out->value / 1e9 : 0;
    } else if (resource != TOPO_RESOURCE_HBM)
      base_units_parse (text, resources[resource].dim, &out->value, &local);
    if (out->value > 0)
      return TRUE;
  }
  g_autofree char *found = base_text_excerpt (text, -1);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "%s: found '%s', expected %s%s%s",
               resources[resource].name, found, resources[resource].example,
               local != NULL ? ": " : "", local != NULL ? local->message : "");
  return FALSE;
}

gboolean
topo_changes_parse (TopoChanges *changes, const char *text, GError **error)
{
  g_auto (GStrv) pairs = g_strsplit (text, ",", -1);

  *changes = (TopoChanges){ 0 };
  if (pairs[0] == NULL) {
    g_set_error_literal (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                         "found nothing, expected changes such as nvlink=+50%,nic=800Gb/s");
    return FALSE;
  }
  for (char **pair = pairs; *pair != NULL; pair++) {
    char *equals = strchr (g_strstrip (*pair), '=');
    TopoResource resource;
    TopoChange *change = NULL;

    if (equals == NULL) {
      g_autofree char *found = base_text_excerpt (*pair, -1);
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                   "found '%s', expected changes such as nvlink=+50%%,nic=800Gb/s", found);
      return FALSE;
    }
    *equals = '\0';
    if (!find_resource (g_strstrip (*pair), &resource, error))
      return FALSE;
    change = &changes->of[resource];
    if (change->factor > 0 || change->value > 0) {
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "%s is named twice",
                   resources[resource].name);
      return FALSE;
    }
    if (!read_change (resource, g_strstrip (equals + 1), change, error))
      return FALSE;
  }
  return TRUE;
}

void
topo_changes_scale (TopoChanges *changes, TopoResource resource, double factor)
{
  TopoChange *change = &changes->of[resource];

  if (change->value > 0)
    change->value *= factor;
  else
    change->factor = (change->factor > 0 ? change->factor : 1) * factor;
}

/* ---- changing ---- */

static gboolean
is_changed (const TopoChange *change)
{
  return change->factor > 0 || change->value > 0;
}

static double
changed (const TopoChange *change, double now)
{
  return change->value > 0 ? change->value : now * change->factor;
}

static gboolean
refuse (TopoResource resource, const char *why, GError **error)
{
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "%s cannot be changed: %s",
               resources[resource].name, why);
  return FALSE;
}

/* The GPU that is called by @name_gb: @gpu, else the first of the catalog; NULL: none. (borrowed) */
static const TopoGpu *
gpu_labelled (const TopoGpu *gpu, const TopoGpuTable *table, double name_gb)
{
  if (gpu->label_gb == name_gb)
    return gpu;
  for (guint i = 0; i < topo_gpu_table_size (table); i++)
    if (topo_gpu_table_get (table, i)->label_gb == name_gb)
      return topo_gpu_table_get (table, i);
  return NULL;
}

/* The number on a card is a name, not its capacity. */
static gboolean
check_label (const TopoGpu *gpu, const TopoChange *hbm, const BaseCatalog *catalog, GError **error)
{
  g_autoptr (TopoGpuTable) table = NULL;
  const TopoGpu *labelled = NULL;

  if (!(hbm->name_gb > 0))
    return TRUE;
  table = topo_gpu_table_new (catalog, error);
  if (table == NULL)
    return FALSE;
  labelled = gpu_labelled (gpu, table, hbm->name_gb);
  if (labelled == NULL)
    return TRUE;
  g_set_error (
      error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
      "hbm: found '%gGB', which is the label of a card, not a capacity: read as decimal GB "
      "it is %.1fGiB, read as GiB it is %.1fGB; '%s', called so, has %.1fGiB for a "
      "program: write hbm=%.1fGiB, or hbm=%ge9B if the decimal number is meant",
      hbm->name_gb, hbm->name_gb * 1e9 / GIB, hbm->name_gb * GIB / 1e9, labelled->slug,
      (double)labelled->usable_bytes / GIB, (double)labelled->usable_bytes / GIB, hbm->name_gb);
  return FALSE;
}

gboolean
topo_change_gpu (TopoGpu *gpu, const TopoChanges *changes, const BaseCatalog *catalog,
                 GError **error)
{
  const TopoChange *flops = &changes->of[TOPO_RESOURCE_FLOPS];
  const TopoChange *hbm = &changes->of[TOPO_RESOURCE_HBM];
  const TopoChange *hbm_bw = &changes->of[TOPO_RESOURCE_HBM_BW];
  const TopoChange *nvlink = &changes->of[TOPO_RESOURCE_NVLINK];
  double half = MAX (gpu->peak_flop_per_s[TOPO_DTYPE_BF16], gpu->peak_flop_per_s[TOPO_DTYPE_FP16]);

  if (is_changed (flops)) {
    if (!(half > 0) && flops->value > 0)
      return refuse (TOPO_RESOURCE_FLOPS, "the GPU has no 16-bit peak", error);
    for (guint i = 0; i < TOPO_DTYPE_N_KINDS; i++)
      gpu->peak_flop_per_s[i] *= flops->value > 0 ? flops->value / half : flops->factor;
  }
  if (is_changed (hbm)) {
    if (!check_label (gpu, hbm, catalog, error))
      return FALSE;
    gpu->usable_bytes = (guint64)changed (hbm, (double)gpu->usable_bytes);
  }
  if (is_changed (hbm_bw))
    gpu->hbm_bytes_per_s = changed (hbm_bw, gpu->hbm_bytes_per_s);
  if (!is_changed (nvlink))
    return TRUE;
  if (!gpu->has_direct || gpu->direct_links == 0)
    return refuse (TOPO_RESOURCE_NVLINK, "the GPU has no direct links", error);
  gpu->direct_link_bytes_per_s
      = changed (nvlink, gpu->direct_link_bytes_per_s * gpu->direct_links) / gpu->direct_links;
  return TRUE;
}

/* A rate of the file, changed and written back. */
static gboolean
change_rate (BaseIni *ini, const char *group, const char *key, const TopoChange *change,
             GError **error)
{
  double rate = 0;
  char value[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *text = NULL;

  if (!base_ini_get_number (ini, group, key, BASE_DIM_BYTES_PER_SECOND, 0, 1e18, &rate, error))
    return FALSE;
  g_ascii_dtostr (value, sizeof value, changed (change, rate) / 1e9);
  text = g_strconcat (value, "GB/s", NULL);
  base_ini_replace (ini, group, key, text);
  return TRUE;
}

static gboolean
change_nics (BaseIni *ini, const TopoChange *change, GError **error)
{
  g_auto (GStrv) rates = base_ini_get_list (ini, "network", "nic_rates");
  g_autofree char *text = NULL;

  if (base_ini_has_key (ini, "network", "nic_rate")
      && !change_rate (ini, "network", "nic_rate", change, error))
    return FALSE;
  if (rates[0] == NULL)
    return base_ini_has_key (ini, "network", "nic_rate")
           || refuse (TOPO_RESOURCE_NIC, "the machine states no NIC rate", error);
  for (char **rate = rates; *rate != NULL; rate++) {
    double now = 0;
    char value[G_ASCII_DTOSTR_BUF_SIZE];

    if (!base_units_parse (*rate, BASE_DIM_BYTES_PER_SECOND, &now, NULL))
      continue;
    g_ascii_dtostr (value, sizeof value, changed (change, now) / 1e9);
    g_free (*rate);
    *rate = g_strconcat (value, "GB/s", NULL);
  }
  text = g_strjoinv (", ", rates);
  base_ini_replace (ini, "network", "nic_rates", text);
  return TRUE;
}

static gboolean
change_price (BaseIni *ini, const TopoChange *change, GError **error)
{
  double price = 0;
  char value[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *text = NULL;

  if (!base_ini_has_key (ini, "price", "per_gpu_hour"))
    return refuse (TOPO_RESOURCE_PRICE, "the machine states none", error);
  if (!base_ini_get_number (ini, "price", "per_gpu_hour", BASE_DIM_USD_PER_HOUR, 0, 1e6, &price,
                            error))
    return FALSE;
  g_ascii_dtostr (value, sizeof value, changed (change, price));
  text = g_strconcat (value, "USD/h", NULL);
  base_ini_replace (ini, "price", "per_gpu_hour", text);
  return TRUE;
}

gboolean
topo_change_file (BaseIni *ini, const TopoChanges *changes, GError **error)
{
  const TopoChange *nvlink = &changes->of[TOPO_RESOURCE_NVLINK];

  if (is_changed (nvlink) && base_ini_has_key (ini, "links", "link_rate")) {
    if (nvlink->value > 0)
      return refuse (TOPO_RESOURCE_NVLINK,
                     "the machine's own link_rate is per link; write a percentage", error);
    if (!change_rate (ini, "links", "link_rate", nvlink, error))
      return FALSE;
  }
  return (!is_changed (&changes->of[TOPO_RESOURCE_NIC])
          || change_nics (ini, &changes->of[TOPO_RESOURCE_NIC], error))
         && (!is_changed (&changes->of[TOPO_RESOURCE_PRICE])
             || change_price (ini, &changes->of[TOPO_RESOURCE_PRICE], error));
}

void
topo_change_note (TopoMachine *machine, const TopoChanges *changes)
{
  guint n = g_strv_length (machine->assumed);

  for (guint i = 0; i < TOPO_RESOURCE_N_KINDS; i++) {
    const TopoChange *change = &changes->of[i];

    if (!is_changed (change))
      continue;
    machine->assumed = g_renew (char *, machine->assumed, n + 2);
    machine->assumed[n++]
        = change->value > 0
              ? g_strdup_printf ("what_if.%s=%.6g %s: not what the machine's files say",
                                 resources[i].name, change->value / resources[i].unit_si,
                                 resources[i].unit)
              : g_strdup_printf ("what_if.%s=%+.6g%%: of what the machine's files say",
                                 resources[i].name, 100 * (change->factor - 1));
    machine->assumed[n] = NULL;
  }
}
