/* topo/write_ini.c - a sketch as a machine file to edit. */
#include "topo/machine-private.h"
#include "topo/sketch.h"
#include <math.h>
#include <string.h>

/* "0-2, 5" of the set bits. */
static void
append_set (GString *out, guint64 bits)
{
  const char *separator = "";
  for (guint i = 0; i < 64; i++) {
    guint last = i;
    if ((bits >> i & 1) == 0)
      continue;
    while (last < 63 && (bits >> (last + 1) & 1))
      last++;
    g_string_append_printf (out, last > i ? "%s%u-%u" : "%s%u", separator, i, last);
    separator = ", ";
    i = last;
  }
}

static void
append_set_key (GString *out, const char *key, guint64 bits)
{
  if (bits == 0)
    return;
  g_string_append_printf (out, "%s = ", key);
  append_set (out, bits);
  g_string_append_c (out, '\n');
}

/* Values are one line, and " #" would start a comment. */
static void
append_text_key (GString *out, const char *key, const char *text)
{
  g_autofree char *clean = g_utf8_make_valid (text, -1);
  for (char *c = clean; *c != '\0'; c++)
    if ((guchar)*c < ' ' || *c == '#' || *c == 127)
      *c = ' ';
  g_strstrip (clean);
  g_string_append_printf (out, "%s = %s\n", key, *clean != '\0' ? clean : "unnamed");
}

/* All digits that the number needs to be read back the same. */
static void
append_rate_key (GString *out, const char *key, double bytes_per_s)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  if (isnan (bytes_per_s))
    return;
  g_ascii_formatd (text, sizeof text, "%.15g", bytes_per_s / 1e9);
  if (strchr (text, 'e') != NULL)
    g_ascii_formatd (text, sizeof text, "%.9f", bytes_per_s / 1e9);
  g_string_append_printf (out, "%s = %sGB/s\n", key, text);
}

/* @base's value, where it has one. */
static void
append_key_of (GString *out, BaseIni *base, const char *group, const char *key)
{
  const char *value = base != NULL ? base_ini_get_string_or (base, group, key, NULL) : NULL;
  if (value != NULL)
    g_string_append_printf (out, "%s = %s\n", key, value);
}

/* ---- [links] ---- */

static void
append_pairs (GString *out, const Sketch *sketch, gboolean counted)
{
  const char *separator = "";
  g_string_append (out, "pairs = ");
  for (guint i = 0; i < sketch->n_gpus; i++)
    for (guint j = i + 1; j < sketch->n_gpus; j++) {
      if (sketch->links[i][j] == 0)
        continue;
      g_string_append_printf (out, counted ? "%s%u-%u:%u" : "%s%u-%u", separator, i, j,
                              sketch->links[i][j]);
      separator = ", ";
    }
  g_string_append_c (out, '\n');
}

static void
append_islands (GString *out, const Sketch *sketch, const SketchWiring *wiring)
{
  const char *separator = "";
  if (wiring->n_islands != 1 || wiring->islands[0] != machine_first_bits (sketch->n_gpus)) {
    g_string_append (out, "joined = ");
    for (guint i = 0; i < wiring->n_islands; i++) {
      g_string_append (out, i > 0 ? " | " : "");
      append_set (out, wiring->islands[i]);
    }
    g_string_append_c (out, '\n');
  }
  for (guint i = 0; i < sketch->n_gpus; i++) {
    if (wiring->gpu_links[i] == 0 || wiring->gpu_links[i] == wiring->links_per_gpu)
      continue;
    g_string_append_printf (out, "%s%u:%u", *separator == '\0' ? "fewer = " : separator, i,
                            wiring->gpu_links[i]);
    separator = ", ";
  }
  g_string_append (out, *separator != '\0' ? "\n" : "");
}

static void
append_link_rates (GString *out, const Sketch *sketch, const SketchWiring *wiring,
                   const TopoGpu *gpu)
{
  guint links
      = wiring->wiring == TOPO_WIRING_PAIRS ? wiring->links_per_pair : wiring->links_per_gpu;
  gboolean counts_lead
      = wiring->wiring == TOPO_WIRING_PAIRS || wiring->wiring == TOPO_WIRING_SWITCH;
  if (gpu == NULL || !gpu->has_direct) {
    g_string_append_printf (out, "kind = %s\nlinks_per_gpu = %u\n",
                            topo_link_kind_name (sketch->direct), links);
    append_rate_key (out, "link_rate", sketch->link_bytes_per_s);
  } else if (counts_lead && links < gpu->direct_links) {
    g_string_append_printf (out, "links_per_gpu = %u\n", links);
  }
}

static void
append_links (GString *out, const Sketch *sketch, const TopoGpu *gpu, BaseIni *base)
{
  static const char *const words[] = {
    [TOPO_WIRING_NONE] = "none",   [TOPO_WIRING_SWITCH] = "switch", [TOPO_WIRING_PAIRS] = "pairs",
    [TOPO_WIRING_LINKS] = "links", [TOPO_WIRING_MESH] = "mesh",
  };
  SketchWiring wiring;
  sketch_wiring (sketch, gpu != NULL && gpu->has_direct ? gpu->direct_links : 0, &wiring);
  g_string_append_printf (out, "\n[links]\nwiring = %s\n", words[wiring.wiring]);
  if (wiring.wiring == TOPO_WIRING_NONE)
    return;
  append_link_rates (out, sketch, &wiring, gpu);
  if (gpu != NULL && gpu->has_direct)
    append_key_of (out, base, "links", "link_rate");
  if (wiring.wiring == TOPO_WIRING_SWITCH && gpu != NULL && gpu->has_direct
      && topo_link_facts_nvls_from (&sketch->facts, gpu->direct) > 0)
    g_string_append (out, "nvls = yes\n");
  if (sketch->cpu_bytes_per_s > 0)
    append_rate_key (out, "cpu_rate", sketch->cpu_bytes_per_s);
  if (wiring.wiring == TOPO_WIRING_SWITCH)
    append_islands (out, sketch, &wiring);
  if (wiring.wiring == TOPO_WIRING_MESH)
    g_string_append_printf (out, "links_per_pair = %u\n", wiring.links_per_pair);
  if (wiring.wiring == TOPO_WIRING_PAIRS || wiring.wiring == TOPO_WIRING_LINKS)
    append_pairs (out, sketch, wiring.wiring == TOPO_WIRING_LINKS);
}

/* ---- [pcie] and its places ---- */

/* The value most devices have; 0 when none knows it. */
static guint
most_common (const SketchDevice *devices, guint n, gboolean lanes)
{
  guint best = 0, best_count = 0;
  for (guint i = 0; i < n; i++) {
    guint value = lanes ? devices[i].lanes : devices[i].generation, count = 0;
    for (guint j = 0; j < n; j++)
      count += (lanes ? devices[j].lanes : devices[j].generation) == value;
    if (value != 0 && (count > best_count || (count == best_count && value > best))) {
      best = value;
      best_count = count;
    }
  }
  return best;
}

static void
append_class_rates (GString *out, const char *name, const SketchDevice *devices, guint n,
                    guint gpu_generation)
{
  guint generation = most_common (devices, n, FALSE), lanes = most_common (devices, n, TRUE);
  if (generation >= 3 && generation <= 6 && generation != gpu_generation)
    g_string_append_printf (out, "%s_generation = %u\n", name, generation);
  if (lanes > 0 && lanes <= 32 && lanes != 16)
    g_string_append_printf (out, "%s_lanes = %u\n", name, lanes);
}

static void
append_pcie (GString *out, const Sketch *sketch, BaseIni *base)
{
  guint generation = most_common (sketch->gpus, sketch->n_gpus, FALSE);
  guint lanes = most_common (sketch->gpus, sketch->n_gpus, TRUE);
  const char *kept[] = { "p2p", "inter_socket" };
  g_string_append (out, "\n[pcie]\n");
  if (generation >= 3 && generation <= 6)
    g_string_append_printf (out, "generation = %u\n", generation);
  else
    g_string_append (out, "generation = unknown\n");
  if (lanes > 0 && lanes <= 32 && lanes != 16)
    g_string_append_printf (out, "lanes = %u\n", lanes);
  append_class_rates (out, "uplink", (const SketchDevice *)(void *)sketch->switches->data,
                      sketch->switches->len, generation);
  append_class_rates (out, "nic", sketch->nics, sketch->n_nics, generation);
  if (sketch->numas->len > 1)
    append_rate_key (out, "inter_socket", sketch->inter_socket_bytes_per_s);
  for (guint i = 0; base != NULL && i < G_N_ELEMENTS (kept); i++) {
    const char *value = base_ini_get_string_or (base, "pcie", kept[i], NULL);
    if (value != NULL
        && (i == 0 || (sketch->numas->len > 1 && isnan (sketch->inter_socket_bytes_per_s))))
      g_string_append_printf (out, "%s = %s\n", kept[i], value);
  }
}

static guint64
devices_below (const SketchDevice *devices, guint n, gint32 numa, gint32 bridge, gint32 parent)
{
  guint64 bits = 0;
  for (guint i = 0; i < n; i++) {
    const SketchPlace *place = &devices[i].place;
    if (place->numa == numa && place->bridge == bridge && place->parent == parent)
      bits |= G_GUINT64_CONSTANT (1) << i;
  }
  return bits;
}

static void
append_devices (GString *out, const Sketch *sketch, gint32 numa, gint32 bridge, gint32 parent)
{
  append_set_key (out, "gpus", devices_below (sketch->gpus, sketch->n_gpus, numa, bridge, parent));
  append_set_key (out, "nics", devices_below (sketch->nics, sketch->n_nics, numa, bridge, parent));
}

static void
append_places (GString *out, const Sketch *sketch)
{
  for (guint i = 0; i < sketch->numas->len; i++) {
    const SketchNuma *numa = &g_array_index (sketch->numas, SketchNuma, i);
    g_string_append_printf (out, "\n[numa %d]\n", numa->number);
    if (numa->socket >= 0)
      g_string_append_printf (out, "socket = %d\n", numa->socket);
    append_devices (out, sketch, (gint32)i, -1, -1);
  }
  for (guint i = 0; i < sketch->bridges->len; i++) {
    gint32 numa = g_array_index (sketch->bridges, SketchPlace, i).numa;
    g_string_append_printf (out, "\n[bridge %u]\nnuma = %d\n", i,
                            g_array_index (sketch->numas, SketchNuma, numa).number);
    append_devices (out, sketch, -1, (gint32)i, -1);
  }
  for (guint i = 0; i < sketch->switches->len; i++) {
    const SketchPlace *place = &g_array_index (sketch->switches, SketchDevice, i).place;
    g_string_append_printf (out, "\n[switch %u]\n", i);
    if (place->parent >= 0)
      g_string_append_printf (out, "parent = %d\n", place->parent);
    else if (place->bridge >= 0)
      g_string_append_printf (out, "bridge = %d\n", place->bridge);
    else
      g_string_append_printf (out, "numa = %d\n",
                              g_array_index (sketch->numas, SketchNuma, place->numa).number);
    append_devices (out, sketch, -1, -1, (gint32)i);
  }
}

/* ---- [network] and what is taken over ---- */

static void
append_group_of (GString *out, BaseIni *base, const char *group)
{
  g_autofree const char **keys = NULL;
  if (base == NULL || !base_ini_has_group (base, group))
    return;
  keys = base_ini_keys (base, group);
  g_string_append_printf (out, "\n[%s]\n", group);
  for (guint k = 0; keys[k] != NULL; k++)
    g_string_append_printf (out, "%s = %s\n", keys[k],
                            base_ini_get_string_or (base, group, keys[k], ""));
}

static void
append_nic_names (GString *out, const Sketch *sketch)
{
  g_string_append (out, "names = ");
  for (guint c = 0; c < sketch->n_nics; c++)
    g_string_append_printf (out, "%s%s", c > 0 ? ", " : "", sketch->nics[c].name);
  g_string_append_c (out, '\n');
}

static void
append_nic_rates (GString *out, const Sketch *sketch)
{
  gboolean any = FALSE;
  for (guint c = 0; c < sketch->n_nics; c++)
    any = any || !isnan (sketch->nics[c].bytes_per_s);
  if (!any)
    return;
  g_string_append (out, "nic_rates = ");
  for (guint c = 0; c < sketch->n_nics; c++) {
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    g_string_append (out, c > 0 ? ", " : "");
    if (isnan (sketch->nics[c].bytes_per_s))
      g_string_append (out, "unknown");
    else
      g_string_append_printf (out, "%sGb/s",
                              g_ascii_formatd (text, sizeof text, "%.9g",
                                               sketch->nics[c].bytes_per_s * 8 / 1e9));
  }
  g_string_append_c (out, '\n');
}

gboolean
sketch_takes_network (const Sketch *sketch, BaseIni *base)
{
  guint64 nics = 0;
  if (base != NULL && base_ini_has_group (base, "network"))
    base_ini_get_count_optional (base, "network", "nics", 1, 64, &nics, NULL);
  return nics > 0 && (sketch->n_nics == 0 || sketch->n_nics == nics);
}

static void
append_network (GString *out, const Sketch *sketch, BaseIni *base)
{
  if (sketch_takes_network (sketch, base)) {
    append_group_of (out, base, "network");
    if (sketch->n_nics > 0 && !base_ini_has_key (base, "network", "names"))
      append_nic_names (out, sketch);
    return;
  }
  if (sketch->n_nics == 0)
    return;
  g_string_append_printf (
      out,
      "\n# What the NICs plug into and whom they serve is not told: fabric = ib and alike,\n"
      "# nic_rate = 400Gb/s, serves = even, for plans of several nodes.\n"
      "[network]\nfabric = unknown\nnics = %u\n",
      sketch->n_nics);
  append_nic_names (out, sketch);
  append_nic_rates (out, sketch);
}

/* One node's description does not show that its switch joins others: a machine that is named does. */
gboolean
sketch_takes_domain (const Sketch *sketch, const TopoGpu *gpu, BaseIni *base)
{
  SketchWiring wiring;
  if (base == NULL || !base_ini_has_key (base, "machine", "domain"))
    return FALSE;
  sketch_wiring (sketch, gpu != NULL && gpu->has_direct ? gpu->direct_links : 0, &wiring);
  return !sketch->links_seen
         || (wiring.wiring == TOPO_WIRING_SWITCH && wiring.n_islands == 1
             && wiring.islands[0] == machine_first_bits (sketch->n_gpus));
}

gboolean
sketch_takes_curve (const Sketch *sketch, const TopoGpu *gpu, BaseIni *base, const char *group)
{
  guint64 ranks = 0;
  const char *last = strrchr (group, ' ');
  if (!g_str_has_prefix (group, "measured ")
      || !base_units_parse_count (last + 1, 2, G_MAXUINT32, &ranks, NULL))
    return FALSE;
  if (ranks <= sketch->n_gpus)
    return TRUE;
  if (base_ini_has_key (base, "machine", "domain") && !sketch_takes_domain (sketch, gpu, base))
    return FALSE;
  return !base_ini_has_group (base, "network") || sketch_takes_network (sketch, base);
}

static void
append_measured_of (GString *out, const Sketch *sketch, const TopoGpu *gpu, BaseIni *base)
{
  for (guint i = 0; base != NULL && i < base_ini_n_groups (base); i++)
    if (sketch_takes_curve (sketch, gpu, base, base_ini_group_name (base, i)))
      append_group_of (out, base, base_ini_group_name (base, i));
}

char *
sketch_to_ini (const Sketch *sketch, const char *name, const TopoGpu *gpu, BaseIni *base)
{
  GString *out = g_string_new ("[machine]\n");
  append_text_key (out, "name", name);
  if (gpu == NULL)
    g_string_append (out, "# A slug of 'plait gpus', or leave it and give --gpu.\n");
  g_string_append_printf (out, "gpu = %s\ngpus_per_node = %u\n",
                          gpu != NULL ? gpu->slug : "unknown", sketch->n_gpus);
  if (sketch_takes_domain (sketch, gpu, base))
    append_key_of (out, base, "machine", "domain");
  append_key_of (out, base, "machine", "power_limit_ratio");
  append_key_of (out, base, "machine", "assumed");
  append_text_key (out, "source", sketch->source);
  if (base != NULL && !sketch->links_seen)
    append_group_of (out, base, "links");
  else
    append_links (out, sketch, gpu, base);
  if (sketch->numas->len > 0) {
    append_pcie (out, sketch, base);
    append_places (out, sketch);
  }
  append_network (out, sketch, base);
  append_group_of (out, base, "price");
  append_measured_of (out, sketch, gpu, base);
  return g_string_free (out, FALSE);
}
