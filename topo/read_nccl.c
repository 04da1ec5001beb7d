/* topo/read_nccl.c - NCCL's (and RCCL's) topology XML: NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE.
 *
 * <system> holds <cpu numaid=…>, these a tree of <pci class=… link_speed=… link_width=…>; a GPU is
 * a <pci> with a <gpu> below or of a GPU's class, with <nvlink>, <xgmi> or <c2c> in its <gpu>; a
 * NIC has <nic><net>. Files meant to be merged with what NCCL finds have no <gpu> elements.
 */
#include "topo/pci.h"
#include "topo/reading-private.h"
#include "topo/xml.h"
#include <math.h>
#include <string.h>

/* 10 Tb/s: beyond, the file has another unit in mind. */
#define MAX_NIC_MEGABITS_PER_S 10000000

typedef struct {
  const XmlNode *pci;
  const XmlNode *gpu; /* nullable */
  SketchPlace place;
  guint64 order; /* dev= of the GPU, else document order */
} FoundGpu;

typedef struct {
  TopoReading *reading;
  Sketch *sketch;
  GArray *gpus; /* of FoundGpu */
  const char *host;
  guint unknown_speeds, other_devices, foreign_links, one_way_links, odd_rates, classless;
  guint cpu_links; /* NVLinks of a GPU to its CPU */
  GError **error;
} Walk;

static gboolean
too_many (Walk *walk, const XmlNode *at, const char *what)
{
  g_set_error (walk->error, TOPO_ERROR, TOPO_ERROR_SIZE, "line %u: more than %d %s", at->line,
               SKETCH_MAX_DEVICES, what);
  return FALSE;
}

static const XmlNode *
child_named (const XmlNode *node, const char *name)
{
  for (guint i = 0; i < node->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (node->children, i);
    if (strcmp (child->name, name) == 0)
      return child;
  }
  return NULL;
}

/* Lanes as written; 0 when absent or "0" (virtual machines). */
static guint
lanes_of (const XmlNode *pci)
{
  guint64 lanes = 0;
  xml_get_count (pci, "link_width", &lanes);
  return lanes <= 32 ? (guint)lanes : 0;
}

static guint
generation_of (Walk *walk, const XmlNode *pci)
{
  const char *speed = xml_get (pci, "link_speed");
  guint generation = speed != NULL ? pci_generation_of_text (speed) : 0;
  walk->unknown_speeds += generation == 0;
  return generation;
}

/* One NIC vertex per port: NCCL treats each <net> as a device of its own. */
static gboolean
add_nic (Walk *walk, const XmlNode *pci, const XmlNode *net, SketchPlace place)
{
  Sketch *sketch = walk->sketch;
  guint64 megabits = 0;
  const char *name = net != NULL ? xml_get (net, "name") : NULL;
  if (sketch->n_nics == SKETCH_MAX_DEVICES)
    return too_many (walk, pci, "NICs");
  guint c = sketch->n_nics++;
  SketchDevice *nic = &sketch->nics[c];
  nic->place = place;
  nic->generation = generation_of (walk, pci);
  nic->lanes = lanes_of (pci);
  gboolean told = net != NULL && xml_get_count (net, "speed", &megabits) && megabits > 0;
  if (told && megabits <= MAX_NIC_MEGABITS_PER_S)
    nic->bytes_per_s = (double)megabits * 1e6 / 8;
  walk->odd_rates += told && megabits > MAX_NIC_MEGABITS_PER_S;
  g_autofree char *numbered = g_strdup_printf ("NIC%u", c);
  sketch_name_nic (sketch, c, name != NULL && *name != '\0' ? name : numbered);
  return TRUE;
}

static gboolean
add_nics (Walk *walk, const XmlNode *pci, const XmlNode *nic, SketchPlace place)
{
  guint ports = 0;
  for (guint i = 0; nic != NULL && i < nic->children->len; i++) {
    const XmlNode *net = g_ptr_array_index (nic->children, i);
    if (strcmp (net->name, "net") != 0)
      continue;
    ports++;
    if (!add_nic (walk, pci, net, place))
      return FALSE;
  }
  return ports > 0 || add_nic (walk, pci, NULL, place);
}

static gboolean
add_gpu (Walk *walk, const XmlNode *pci, const XmlNode *gpu, SketchPlace place)
{
  FoundGpu found = { pci, gpu, place, walk->gpus->len };
  if (walk->gpus->len == SKETCH_MAX_DEVICES)
    return too_many (walk, pci, "GPUs");
  if (gpu != NULL)
    xml_get_count (gpu, "dev", &found.order);
  g_array_append_val (walk->gpus, found);
  return TRUE;
}

/* Is any GPU or NIC below? A switch without is left out. */
static gboolean
leads_anywhere (const XmlNode *pci)
{
  const char *class_code = xml_get (pci, "class");
  PciKind kind = class_code != NULL ? pci_kind_of_class (class_code) : PCI_OTHER;
  if (strcmp (pci->name, "gpu") == 0 || strcmp (pci->name, "nic") == 0 || kind == PCI_GPU
      || kind == PCI_NIC)
    return TRUE;
  for (guint i = 0; i < pci->children->len; i++)
    if (leads_anywhere (g_ptr_array_index (pci->children, i)))
      return TRUE;
  return FALSE;
}

/* NCCL fills in the class of a device from the host it runs on. */
static void
count_left_out (Walk *walk, const XmlNode *pci)
{
  const char *class_code = xml_get (pci, "class");
  for (guint i = 0; i < pci->children->len; i++)
    count_left_out (walk, g_ptr_array_index (pci->children, i));
  if (pci->children->len > 0)
    return;
  walk->classless += class_code == NULL;
  walk->other_devices += class_code != NULL && pci_kind_of_class (class_code) != PCI_NVSWITCH;
}

static gboolean walk_children (Walk *walk, const XmlNode *node, SketchPlace place);

static gboolean
walk_pci (Walk *walk, const XmlNode *pci, SketchPlace place)
{
  const char *class_code = xml_get (pci, "class");
  PciKind kind = class_code != NULL ? pci_kind_of_class (class_code) : PCI_OTHER;
  const XmlNode *gpu = child_named (pci, "gpu"), *nic = child_named (pci, "nic");
  if (gpu != NULL || (kind == PCI_GPU && nic == NULL))
    return add_gpu (walk, pci, gpu, place);
  if (nic != NULL || kind == PCI_NIC)
    return add_nics (walk, pci, nic, place);
  if (!leads_anywhere (pci)) {
    count_left_out (walk, pci);
    return TRUE;
  }
  guint number = sketch_add_switch (walk->sketch, place, generation_of (walk, pci), lanes_of (pci));
  return walk_children (walk, pci, (SketchPlace){ -1, -1, (gint32)number });
}

static gboolean
walk_children (Walk *walk, const XmlNode *node, SketchPlace place)
{
  for (guint i = 0; i < node->children->len; i++) {
    const XmlNode *child = g_ptr_array_index (node->children, i);
    if (strcmp (child->name, "pci") == 0 && !walk_pci (walk, child, place))
      return FALSE;
    /* A NIC that is no PCI device hangs below the CPU itself. */
    if (strcmp (child->name, "nic") == 0 && strcmp (node->name, "cpu") == 0
        && !add_nics (walk, child, child, place))
      return FALSE;
  }
  return TRUE;
}

static double
inter_socket_of (const TopoLinkFacts *facts, const XmlNode *cpu)
{
  guint64 model = 0, family = 0;
  gboolean known
      = xml_get_count (cpu, "modelid", &model) && xml_get_count (cpu, "familyid", &family);
  return topo_link_facts_inter_socket (facts, xml_get (cpu, "arch"), xml_get (cpu, "vendor"), known,
                                       family, model);
}

static gboolean
walk_cpu (Walk *walk, const XmlNode *cpu)
{
  Sketch *sketch = walk->sketch;
  guint64 number = 0;
  const char *host = xml_get (cpu, "host_hash");
  gboolean told = xml_get_count (cpu, "numaid", &number) && number < 256;
  if (walk->host != NULL && host != NULL && strcmp (host, walk->host) != 0) {
    g_set_error (walk->error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "line %u: found a second host (host_hash %s), expected the XML of one host",
                 cpu->line, host);
    return FALSE;
  }
  walk->host = host != NULL ? host : walk->host;
  guint numa = sketch_add_numa (sketch, told ? (gint32)number : -1, -1);
  if (isnan (sketch->inter_socket_bytes_per_s))
    sketch->inter_socket_bytes_per_s = inter_socket_of (&sketch->facts, cpu);
  return walk_children (walk, cpu, (SketchPlace){ (gint32)numa, -1, -1 });
}

static gint
compare_gpus (gconstpointer a, gconstpointer b)
{
  const FoundGpu *x = a, *y = b;
  if (x->order != y->order)
    return x->order < y->order ? -1 : 1;
  return 0;
}

static void
place_gpus (Walk *walk)
{
  Sketch *sketch = walk->sketch;
  g_array_sort (walk->gpus, compare_gpus);
  sketch->n_gpus = walk->gpus->len;
  for (guint i = 0; i < walk->gpus->len; i++) {
    const FoundGpu *found = &g_array_index (walk->gpus, FoundGpu, i);
    sketch->gpus[i].place = found->place;
    sketch->gpus[i].generation = generation_of (walk, found->pci);
    sketch->gpus[i].lanes = lanes_of (found->pci);
    g_snprintf (sketch->gpus[i].name, sizeof sketch->gpus[i].name, "GPU%u", i);
  }
}

/* Number of the GPU at @bus_id, -1 when it is not in the file. */
static gint
gpu_at (const Walk *walk, const char *bus_id)
{
  for (guint i = 0; i < walk->gpus->len; i++) {
    const char *own = xml_get (g_array_index (walk->gpus, FoundGpu, i).pci, "busid");
    if (own != NULL && g_ascii_strcasecmp (own, bus_id) == 0)
      return (gint)i;
  }
  return -1;
}

/* <nvlink target= count= tclass=>: to a GPU, an NVSwitch (0x068000), or the CPU (0x068001). */
static void
add_nvlink (Walk *walk, guint gpu, const XmlNode *link)
{
  Sketch *sketch = walk->sketch;
  const char *target = xml_get (link, "target"), *tclass = xml_get (link, "tclass");
  guint64 count = 1;
  xml_get_count (link, "count", &count);
  count = MIN (count, 255);
  gint peer = target != NULL ? gpu_at (walk, target) : -1;
  if (peer >= 0 && (guint)peer != gpu)
    sketch->links[gpu][peer] = (guint16)MIN (sketch->links[gpu][peer] + count, 255);
  else if (tclass != NULL && g_ascii_strncasecmp (tclass, "0x068001", 8) == 0)
    walk->cpu_links = MAX (walk->cpu_links, (guint)count);
  else if (tclass != NULL && g_ascii_strncasecmp (tclass, "0x0680", 6) == 0)
    sketch->switch_links[gpu] = (guint16)MIN (sketch->switch_links[gpu] + count, 255);
  else
    walk->foreign_links++;
}

/* <c2c bw= count=>: megabytes per second each, to the GPU's own CPU. */
static void
add_c2c (Walk *walk, const XmlNode *link)
{
  guint64 megabytes = 0, count = 1;
  xml_get_count (link, "count", &count);
  if (xml_get_count (link, "bw", &megabytes) && megabytes < 10000000 && count <= 255)
    walk->sketch->cpu_bytes_per_s
        = MAX (walk->sketch->cpu_bytes_per_s, (double)megabytes * (double)count * 1e6);
}

static void
add_links (Walk *walk)
{
  Sketch *sketch = walk->sketch;
  for (guint i = 0; i < walk->gpus->len; i++) {
    const XmlNode *gpu = g_array_index (walk->gpus, FoundGpu, i).gpu;
    for (guint k = 0; gpu != NULL && k < gpu->children->len; k++) {
      const XmlNode *link = g_ptr_array_index (gpu->children, k);
      if (strcmp (link->name, "xgmi") == 0)
        sketch->direct = TOPO_LINK_XGMI;
      if (strcmp (link->name, "xgmi") == 0 || strcmp (link->name, "nvlink") == 0)
        add_nvlink (walk, i, link);
      else if (strcmp (link->name, "c2c") == 0)
        add_c2c (walk, link);
    }
    sketch->links_seen = sketch->links_seen || gpu != NULL;
  }
}

/* Each end states the link: where they disagree the smaller count holds. */
static void
make_links_symmetric (Walk *walk)
{
  Sketch *sketch = walk->sketch;
  for (guint i = 0; i < sketch->n_gpus; i++)
    for (guint j = i + 1; j < sketch->n_gpus; j++) {
      guint16 there = sketch->links[i][j], back = sketch->links[j][i];
      guint16 both = there == 0 || back == 0 ? MAX (there, back) : MIN (there, back);
      walk->one_way_links += there != back;
      sketch->links[i][j] = sketch->links[j][i] = both;
    }
}

/* NVLink generation and rate per link, by the compute capability of the GPUs. */
static void
fill_nvlink_rate (Walk *walk)
{
  Sketch *sketch = walk->sketch;
  const XmlNode *gpu = walk->gpus->len > 0 ? g_array_index (walk->gpus, FoundGpu, 0).gpu : NULL;
  guint64 sm = 0;
  if (gpu == NULL || sketch->direct == TOPO_LINK_XGMI || xml_get (gpu, "gcn") != NULL
      || !xml_get_count (gpu, "sm", &sm)
      || !topo_link_facts_nvlink_of (&sketch->facts, sm, &sketch->direct,
                                     &sketch->link_bytes_per_s))
    return;
  if (walk->cpu_links > 0)
    sketch->cpu_bytes_per_s
        = MAX (sketch->cpu_bytes_per_s, walk->cpu_links * sketch->link_bytes_per_s);
  reading_assume (walk->reading, "nvlink", "%s, %g GB/s per link and direction, by sm=%u",
                  topo_link_kind_name (sketch->direct), sketch->link_bytes_per_s / 1e9, (guint)sm);
}

/* Vendor and device of the GPUs, when all are alike. */
static void
fill_pci_id (Walk *walk)
{
  g_autofree char *id = NULL;
  for (guint i = 0; i < walk->gpus->len; i++) {
    const XmlNode *pci = g_array_index (walk->gpus, FoundGpu, i).pci;
    guint64 vendor = 0, device = 0;
    if (!xml_get_count (pci, "vendor", &vendor) || !xml_get_count (pci, "device", &device)
        || vendor == 0 || vendor >= 0xffff || device > 0xffff)
      return;
    g_autofree char *own = g_strdup_printf ("%04x:%04x", (guint)vendor, (guint)device);
    if (id != NULL && strcmp (id, own) != 0) {
      reading_note (walk->reading, "the GPUs differ (%s, %s)", id, own);
      return;
    }
    g_free (id);
    id = g_steal_pointer (&own);
  }
  walk->sketch->gpu_pci_id = g_steal_pointer (&id);
}

/* As far as both are told. */
static gboolean
is_same_link (const SketchDevice *a, const SketchDevice *b)
{
  return (a->generation == b->generation || a->generation == 0 || b->generation == 0)
         && (a->lanes == b->lanes || a->lanes == 0 || b->lanes == 0);
}

static char *
link_in_words (const SketchDevice *device)
{
  g_autofree char *generation = device->generation > 0
                                    ? g_strdup_printf ("generation %u", device->generation)
                                    : g_strdup ("unknown generation");
  return device->lanes > 0 ? g_strdup_printf ("%s x%u", generation, device->lanes)
                           : g_steal_pointer (&generation);
}

/* Machine files have one link for all GPUs, one for all NICs, one for all switches: says which have
 * another, as one that trained down is a fault to look for. */
static void
note_mixed_links (TopoReading *reading, const char *what, const SketchDevice *devices, guint n)
{
  guint best = 0, best_count = 0, first = n, others = 0;
  for (guint i = 0; i < n; i++) {
    guint count = 0;
    for (guint j = 0; j < n; j++)
      count += is_same_link (&devices[i], &devices[j]);
    if (count > best_count) {
      best = i;
      best_count = count;
    }
  }
  for (guint i = n; i-- > 0;)
    if (!is_same_link (&devices[i], &devices[best])) {
      first = i;
      others++;
    }
  if (others == 0)
    return;
  g_autofree char *odd = link_in_words (&devices[first]), *most = link_in_words (&devices[best]);
  g_autofree char *more = others > 1 ? g_strdup_printf (" and %u more", others - 1) : g_strdup ("");
  g_autofree char *name = *devices[first].name != '\0' ? g_strdup (devices[first].name)
                                                       : g_strdup_printf ("number %u", first);
  reading_note (reading, "PCIe links of %s differ: %s (%s)%s; most have %s, which is taken for all",
                what, name, odd, more, most);
}

static void
say_all (Walk *walk)
{
  const Sketch *sketch = walk->sketch;
  TopoReading *reading = walk->reading;
  if (walk->unknown_speeds > 0)
    reading_note (reading, "%u PCIe devices state no link speed that is known",
                  walk->unknown_speeds);
  if (walk->odd_rates > 0)
    reading_note (reading, "%u NICs state more than 10 Tb/s: their rates are left unknown",
                  walk->odd_rates);
  if (walk->classless > 0)
    reading_note (reading,
                  "%u PCI devices state no class: whether they are GPUs or NICs is not told",
                  walk->classless);
  if (walk->other_devices > 0)
    reading_note (reading, "%u PCI devices that are neither GPU, NIC nor lead to one are left out",
                  walk->other_devices);
  if (walk->foreign_links > 0)
    reading_note (reading, "%u links lead to devices that are not in the file",
                  walk->foreign_links);
  if (walk->one_way_links > 0)
    reading_note (reading, "%u links are stated differently by their two ends",
                  walk->one_way_links);
  if (!isnan (sketch->inter_socket_bytes_per_s) && sketch->numas->len > 1)
    reading_assume (reading, "inter_socket", "%g GB/s one way: what NCCL takes for this CPU",
                    sketch->inter_socket_bytes_per_s / 1e9);
  note_mixed_links (reading, "GPUs", sketch->gpus, sketch->n_gpus);
  note_mixed_links (reading, "NICs", sketch->nics, sketch->n_nics);
  note_mixed_links (reading, "switches", (const SketchDevice *)(void *)sketch->switches->data,
                    sketch->switches->len);
}

/* numaid="-1" of virtual machines. */
static void
number_numas (Walk *walk)
{
  guint numbered = sketch_number_numas (walk->sketch);
  if (numbered > 0)
    reading_assume (walk->reading, "numa", "the numbers of %u NUMA nodes are not told", numbered);
}

gboolean
read_nccl_xml (const char *data, gsize length, TopoReading *reading, Sketch *sketch, GError **error)
{
  g_autoptr (XmlNode) root = xml_parse (data, length, error);
  g_autoptr (GArray) gpus = g_array_new (FALSE, TRUE, sizeof (FoundGpu));
  Walk walk = { .reading = reading, .sketch = sketch, .gpus = gpus, .error = error };
  if (root == NULL)
    return FALSE;
  for (guint i = 0; i < root->children->len; i++) {
    const XmlNode *cpu = g_ptr_array_index (root->children, i);
    if (strcmp (cpu->name, "cpu") == 0 && !walk_cpu (&walk, cpu))
      return FALSE;
  }
  if (sketch->numas->len == 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "<system> holds no <cpu>, expected at least one");
    return FALSE;
  }
  number_numas (&walk);
  place_gpus (&walk);
  add_links (&walk);
  make_links_symmetric (&walk);
  fill_nvlink_rate (&walk);
  fill_pci_id (&walk);
  say_all (&walk);
  sketch->source = g_strdup ("NCCL topology XML");
  return TRUE;
}
