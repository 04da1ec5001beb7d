/* topo/read_hwloc.c - hwloc 2 (and 3) XML: lstopo --of xml.
 *
 * Packages hold NUMA nodes; host bridges hang at the object whose nodeset they are near; below
 * them bridges, PCI devices and the OS devices that name GPUs and NICs. NVLinks stand apart, in
 * the "NVLinkBandwidth" distances: megabytes per second between GPUs, NVSwitches and, on POWER,
 * packages. hwloc before 2.9.1 gives twice the rate for NVLink 3 and 4 (its issue 574).
 */
#include "topo/pci.h"
#include "topo/reading-private.h"
#include "topo/xml.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  const XmlNode *pci;
  guint64 keys[8]; /* gp_index of the device and its OS devices */
  guint n_keys;
} FoundGpu;

typedef struct {
  TopoReading *reading;
  Sketch *sketch;
  GArray *gpus;   /* of FoundGpu */
  gboolean flags; /* OS device types are bits (hwloc 3) */
  GError **error;
} Walk;

static gboolean
is_type (const XmlNode *node, const char *type)
{
  return strcmp (node->name, "object") == 0 && g_strcmp0 (xml_get (node, "type"), type) == 0;
}

static const char *
info_of (const XmlNode *node, const char *name)
{
  for (guint i = 0; i < node->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (node->children, i);
    if (strcmp (child->name, "info") == 0 && g_strcmp0 (xml_get (child, "name"), name) == 0)
      return xml_get (child, "value");
  }
  return NULL;
}

/* Number of the only set bit of "0x00000002" or "0x1,0x0" (most significant word first); -1. */
static gint32
only_bit (const char *set)
{
  g_auto (GStrv) words = g_strsplit (set, ",", -1);
  guint n = g_strv_length (words);
  gint32 bit = -1;
  for (guint w = 0; w < n && n <= 8; w++) {
    guint64 value = 0;
    const char *text = g_str_has_prefix (words[w], "0x") ? words[w] + 2 : words[w];
    if (*text == '\0')
      continue;
    if (!g_ascii_string_to_unsigned (text, 16, 0, 0xffffffffu, &value, NULL))
      return -1;
    if (value == 0)
      continue;
    if (bit >= 0 || __builtin_popcountll (value) != 1)
      return -1;
    bit = (gint32)((n - 1 - w) * 32 + (guint)__builtin_ctzll (value));
  }
  return bit;
}

/* First four digits of pci_type "0302 [10de:15f9] …". */
static PciKind
kind_of_pci (const XmlNode *pci)
{
  const char *type = xml_get (pci, "pci_type");
  g_autofree char *class_code = type != NULL ? g_strndup (type, 4) : g_strdup ("");
  return pci_kind_of_class (class_code);
}

/* "10de:15f9" of pci_type. (owned) or NULL. */
static char *
id_of_pci (const XmlNode *pci)
{
  const char *type = xml_get (pci, "pci_type"), *open = type != NULL ? strchr (type, '[') : NULL;
  if (open == NULL || strlen (open) < 11 || open[5] != ':' || open[10] != ']')
    return NULL;
  return g_ascii_strdown (open + 1, 9);
}

static gboolean
has_os_device (const XmlNode *pci, const char *subtype)
{
  for (guint i = 0; i < pci->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (pci->children, i);
    if (is_type (child, "OSDev") && g_strcmp0 (xml_get (child, "subtype"), subtype) == 0)
      return TRUE;
  }
  return FALSE;
}

/* A compute card: a driver's OS device, or a device of NVIDIA; AMD's only as an accelerator. */
static gboolean
is_gpu (const XmlNode *pci)
{
  g_autofree char *id = id_of_pci (pci);
  const char *type = xml_get (pci, "pci_type");
  if (has_os_device (pci, "NVML") || has_os_device (pci, "CUDA") || has_os_device (pci, "RSMI"))
    return TRUE;
  if (kind_of_pci (pci) != PCI_GPU || id == NULL)
    return FALSE;
  if (g_str_has_prefix (id, "10de:"))
    return TRUE;
  return g_str_has_prefix (id, "1002:") && !g_str_has_prefix (type, "0300");
}

static void
take_link (const XmlNode *pci, SketchDevice *device)
{
  const char *text = xml_get (pci, "pci_link_speed");
  double rate = text != NULL ? g_ascii_strtod (text, NULL) : 0;
  if (rate > 0)
    pci_link_of_rate (rate, &device->generation, &device->lanes);
}

static gboolean
add_gpu (Walk *walk, const XmlNode *pci, SketchPlace place)
{
  FoundGpu found = { .pci = pci };
  Sketch *sketch = walk->sketch;
  if (sketch->n_gpus == SKETCH_MAX_DEVICES) {
    g_set_error (walk->error, TOPO_ERROR, TOPO_ERROR_SIZE, "line %u: more than %d GPUs", pci->line,
                 SKETCH_MAX_DEVICES);
    return FALSE;
  }
  SketchDevice *gpu = &sketch->gpus[sketch->n_gpus];
  gpu->place = place;
  if (xml_get (pci, "pci_busid") != NULL)
    g_strlcpy (sketch->bus_ids[sketch->n_gpus], xml_get (pci, "pci_busid"),
               sizeof sketch->bus_ids[0]);
  take_link (pci, gpu);
  g_snprintf (gpu->name, sizeof gpu->name, "GPU%u", sketch->n_gpus++);
  found.n_keys += xml_get_count (pci, "gp_index", &found.keys[found.n_keys]);
  for (guint i = 0; i < pci->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (pci->children, i);
    if (is_type (child, "OSDev") && found.n_keys < G_N_ELEMENTS (found.keys))
      found.n_keys += xml_get_count (child, "gp_index", &found.keys[found.n_keys]);
    const char *model = is_type (child, "OSDev") ? info_of (child, "GPUModel") : NULL;
    if (model != NULL && sketch->gpu_product == NULL)
      sketch->gpu_product = g_strdup (model);
  }
  if (sketch->gpu_pci_id == NULL)
    sketch->gpu_pci_id = id_of_pci (pci);
  g_array_append_val (walk->gpus, found);
  return TRUE;
}

/* Name of the verbs device, else of the network interface. (borrowed) or NULL. */
static const char *
nic_name (const Walk *walk, const XmlNode *pci)
{
  const char *name = NULL;
  for (guint i = 0; i < pci->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (pci->children, i);
    guint64 type = 0;
    if (!is_type (child, "OSDev") || !xml_get_count (child, "osdev_type", &type))
      continue;
    gboolean verbs = walk->flags ? (type & 32) != 0 : type == 3;
    gboolean network = walk->flags ? (type & 16) != 0 : type == 2;
    if (verbs)
      return xml_get (child, "name");
    if (network && name == NULL)
      name = xml_get (child, "name");
  }
  return name;
}

static gboolean
add_nic (Walk *walk, const XmlNode *pci, SketchPlace place)
{
  Sketch *sketch = walk->sketch;
  const char *name = nic_name (walk, pci);
  guint c = sketch->n_nics;
  g_autofree char *numbered = g_strdup_printf ("NIC%u", c);
  if (c == SKETCH_MAX_DEVICES) {
    g_set_error (walk->error, TOPO_ERROR, TOPO_ERROR_SIZE, "line %u: more than %d NICs", pci->line,
                 SKETCH_MAX_DEVICES);
    return FALSE;
  }
  sketch->n_nics++;
  sketch->nics[c].place = place;
  take_link (pci, &sketch->nics[c]);
  sketch_name_nic (sketch, c, name != NULL ? name : numbered);
  return TRUE;
}

static gboolean
is_nic (const Walk *walk, const XmlNode *pci)
{
  return kind_of_pci (pci) == PCI_NIC || nic_name (walk, pci) != NULL;
}

static gboolean
leads_anywhere (const Walk *walk, const XmlNode *node)
{
  if (is_type (node, "PCIDev") && (is_gpu (node) || is_nic (walk, node)))
    return TRUE;
  for (guint i = 0; i < node->children->len; i++)
    if (leads_anywhere (walk, g_ptr_array_index (node->children, i)))
      return TRUE;
  return FALSE;
}

static gboolean
has_io (const XmlNode *node)
{
  if (is_type (node, "PCIDev") || is_type (node, "Bridge") || is_type (node, "OSDev"))
    return TRUE;
  for (guint i = 0; i < node->children->len; i++)
    if (has_io (g_ptr_array_index (node->children, i)))
      return TRUE;
  return FALSE;
}

static guint
count_leading (const Walk *walk, const XmlNode *node)
{
  guint count = 0;
  for (guint i = 0; i < node->children->len; i++)
    count += leads_anywhere (walk, g_ptr_array_index (node->children, i));
  return count;
}

/*
 * Devices and bridges below a host bridge. A bridge with one child is a port (of the CPU, or of a
 * switch); one with several is the switch itself.
 */
static gboolean
walk_io (Walk *walk, const XmlNode *node, SketchPlace place)
{
  for (guint i = 0; i < node->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (node->children, i);
    SketchDevice link = { 0 };
    if (is_type (child, "PCIDev") && is_gpu (child)) {
      if (!add_gpu (walk, child, place))
        return FALSE;
    } else if (is_type (child, "PCIDev") && is_nic (walk, child)) {
      if (!add_nic (walk, child, place))
        return FALSE;
    } else if (is_type (child, "Bridge") && leads_anywhere (walk, child)) {
      SketchPlace below = place;
      take_link (child, &link);
      if (count_leading (walk, child) > 1)
        below = (SketchPlace){
          -1, -1, (gint32)sketch_add_switch (walk->sketch, place, link.generation, link.lanes)
        };
      if (!walk_io (walk, child, below))
        return FALSE;
    }
  }
  return TRUE;
}

static gboolean
is_host_bridge (const XmlNode *node)
{
  const char *type = is_type (node, "Bridge") ? xml_get (node, "bridge_type") : NULL;
  return type != NULL && g_str_has_prefix (type, "0-");
}

/* Host bridges of @node, an object of the machine; @nodeset is the nearest one stated above. */
static gboolean
walk_host (Walk *walk, const XmlNode *node, const char *nodeset)
{
  const char *own = xml_get (node, "nodeset");
  nodeset = own != NULL ? own : nodeset;
  for (guint i = 0; i < node->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (node->children, i);
    if (is_host_bridge (child) && leads_anywhere (walk, child)) {
      gint32 number = nodeset != NULL ? only_bit (nodeset) : -1;
      guint numa = sketch_add_numa (walk->sketch, MAX (number, 0), -1);
      if (number < 0)
        reading_note (walk->reading, "line %u: a host bridge is near no single NUMA node: NUMA 0",
                      child->line);
      guint bridge = sketch_add_bridge (walk->sketch, (gint32)numa);
      if (!walk_io (walk, child, (SketchPlace){ -1, (gint32)bridge, -1 }))
        return FALSE;
    } else if (strcmp (child->name, "object") == 0 && !is_host_bridge (child)
               && !walk_host (walk, child, nodeset)) {
      return FALSE;
    }
  }
  return TRUE;
}

/* NUMA nodes with cores (a GPU's memory is one without), and the package each is in. */
static void
walk_numas (Walk *walk, const XmlNode *node, gint32 socket)
{
  guint64 number = 0;
  if (is_type (node, "Package") && xml_get_count (node, "os_index", &number) && number < 256)
    socket = (gint32)number;
  const char *cpus = xml_get (node, "cpuset");
  gboolean has_cpus = cpus != NULL && strpbrk (cpus, "123456789abcdefABCDEF") != NULL;
  if (is_type (node, "NUMANode") && has_cpus && xml_get_count (node, "os_index", &number)
      && number < 256)
    sketch_add_numa (walk->sketch, (gint32)number, socket);
  for (guint i = 0; i < node->children->len; i++)
    walk_numas (walk, g_ptr_array_index (node->children, i), socket);
}

/* ---- NVLinkBandwidth ---- */

/* An end of a row of the distances. */
typedef struct {
  gint gpu; /* -1: not a GPU */
  gboolean is_switch, is_package;
} End;

static End
end_of (const Walk *walk, const char *word)
{
  const char *colon = strchr (word, ':');
  guint64 key = 0;
  End end = { -1, FALSE, FALSE };
  end.is_package = g_str_has_prefix (word, "Package:") || g_str_has_prefix (word, "NUMANode:");
  end.is_switch = g_str_has_prefix (word, "PCIDev:") || g_str_has_prefix (word, "Bridge:");
  if (!g_ascii_string_to_unsigned (colon != NULL ? colon + 1 : word, 10, 0, G_MAXUINT64, &key,
                                   NULL))
    return end;
  for (guint i = 0; i < walk->gpus->len && !end.is_package; i++) {
    const FoundGpu *gpu = &g_array_index (walk->gpus, FoundGpu, i);
    for (guint k = 0; k < gpu->n_keys; k++)
      if (gpu->keys[k] == key)
        end.gpu = (gint)i;
  }
  return end;
}

/* Words of all <indexes> or <u64values> of @distances. Returns: (owned) strv. */
static char **
words_of (const XmlNode *distances, const char *name)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  for (guint i = 0; i < distances->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (distances->children, i);
    if (strcmp (child->name, name) != 0 || child->text == NULL)
      continue;
    g_auto (GStrv) parts = g_strsplit_set (child->text->str, " \t\r\n", -1);
    for (char **part = parts; *part != NULL; part++)
      if (**part != '\0')
        g_ptr_array_add (words, g_strdup (*part));
  }
  g_ptr_array_add (words, NULL);
  return (char **)g_ptr_array_steal (words, NULL);
}

/* Megabytes per second of one link: 20000 when only that divides all values, else 25000. */
static double
link_megabytes (char **values, guint n, const End *ends)
{
  gboolean all_20 = TRUE, all_25 = TRUE;
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++) {
      guint64 value = 0;
      if (i == j || ends[i].gpu < 0
          || !g_ascii_string_to_unsigned (values[i * n + j], 10, 0, G_MAXUINT32, &value, NULL))
        continue;
      all_20 = all_20 && value % 20000 == 0;
      all_25 = all_25 && value % 25000 == 0;
    }
  return all_20 && !all_25 ? 20000 : 25000;
}

static void
take_rate (Walk *walk, const End *from, const End *to, double megabytes, double one)
{
  Sketch *sketch = walk->sketch;
  guint count = (guint)MIN (megabytes / one + 0.5, 255);
  if (to->gpu >= 0 && to->gpu != from->gpu)
    sketch->links[from->gpu][to->gpu] = sketch->links[to->gpu][from->gpu]
        = (guint16)MAX (count, sketch->links[from->gpu][to->gpu]);
  else if (to->is_package)
    sketch->cpu_bytes_per_s = MAX (sketch->cpu_bytes_per_s, megabytes * 1e6);
  else if (to->is_switch)
    sketch->switch_links[from->gpu] = (guint16)MIN (sketch->switch_links[from->gpu] + count, 255);
}

static gboolean
is_before_2_9_1 (const XmlNode *root)
{
  const char *version = info_of (root, "hwlocVersion");
  for (guint i = 0; version == NULL && i < root->children->len; i++)
    version = info_of (g_ptr_array_index (root->children, i), "hwlocVersion");
  guint major = 0, minor = 0, micro = 0;
  if (version == NULL || sscanf (version, "%3u.%3u.%3u", &major, &minor, &micro) < 2)
    return FALSE;
  return major * 1000000 + minor * 1000 + micro < 2009001;
}

static void
say_rates (Walk *walk, const XmlNode *root, double one)
{
  Sketch *sketch = walk->sketch;
  SketchWiring wiring;
  sketch_wiring (sketch, 0, &wiring);
  if (wiring.wiring == TOPO_WIRING_NONE)
    return;
  sketch->link_bytes_per_s = one * 1e6;
  if (one == 20000)
    sketch->direct = TOPO_LINK_NVLINK1;
  if (walk->reading->format == TOPO_FORMAT_LIVE)
    return; /* the driver is asked next */
  reading_assume (walk->reading, "nvlink", "links of %g GB/s each, one way, by the rates stated",
                  one / 1e3);
  if (one == 25000 && is_before_2_9_1 (root))
    reading_note (walk->reading, "written by hwloc before 2.9.1, which states twice the rate of "
                                 "NVLink 3 and 4: without --gpu the counts may be double");
}

static gboolean
take_distances (Walk *walk, const XmlNode *root, const XmlNode *distances)
{
  g_auto (GStrv) indexes = words_of (distances, "indexes");
  g_auto (GStrv) values = words_of (distances, "u64values");
  guint n = g_strv_length (indexes);
  if (n > 512 || g_strv_length (values) != n * n) {
    g_set_error (walk->error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "line %u: NVLinkBandwidth has %u indexes and %u values, expected their square",
                 distances->line, n, g_strv_length (values));
    return FALSE;
  }
  g_autofree End *ends = g_new0 (End, n + 1);
  for (guint i = 0; i < n; i++)
    ends[i] = end_of (walk, indexes[i]);
  double one = link_megabytes (values, n, ends);
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++) {
      guint64 megabytes = 0;
      if (i != j && ends[i].gpu >= 0
          && g_ascii_string_to_unsigned (values[i * n + j], 10, 1, G_MAXUINT32, &megabytes, NULL))
        take_rate (walk, &ends[i], &ends[j], (double)megabytes, one);
    }
  walk->sketch->links_seen = TRUE;
  say_rates (walk, root, one);
  return TRUE;
}

static gboolean
take_all_distances (Walk *walk, const XmlNode *root)
{
  for (guint i = 0; i < root->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (root->children, i);
    if (g_str_has_prefix (child->name, "distances2")
        && g_strcmp0 (xml_get (child, "name"), "NVLinkBandwidth") == 0
        && !take_distances (walk, root, child))
      return FALSE;
  }
  return TRUE;
}

static gboolean
check_version (const XmlNode *root, gboolean *out_flags, GError **error)
{
  const char *version = xml_get (root, "version");
  *out_flags = version != NULL && g_ascii_isdigit (*version) && *version >= '3';
  if (version != NULL && g_ascii_isdigit (*version) && *version >= '2')
    return TRUE;
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
               "XML of hwloc 1 (no version 2 or later on <topology>): write it with lstopo of "
               "hwloc 2");
  return FALSE;
}

gboolean
read_hwloc_xml (const char *data, gsize length, TopoReading *reading, Sketch *sketch,
                GError **error)
{
  g_autoptr (XmlNode) root = xml_parse (data, length, error);
  g_autoptr (GArray) gpus = g_array_new (FALSE, TRUE, sizeof (FoundGpu));
  Walk walk = { .reading = reading, .sketch = sketch, .gpus = gpus, .error = error };
  if (root == NULL || !check_version (root, &walk.flags, error))
    return FALSE;
  walk_numas (&walk, root, -1);
  if (!walk_host (&walk, root, NULL) || !take_all_distances (&walk, root))
    return FALSE;
  if (sketch->numas->len == 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "<topology> holds no NUMA node with cores, expected at least one");
    return FALSE;
  }
  if (!has_io (root))
    reading_note (reading, "holds no PCI device, GPUs and NICs neither: it was written without I/O "
                           "devices; lstopo --whole-io --of xml has them");
  sketch->source = g_strdup ("hwloc XML");
  return TRUE;
}
