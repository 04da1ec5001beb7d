/* topo/sketch.c - the parts of a sketch, and how its GPUs are joined. */
#include "topo/sketch.h"
#include "base/suggest.h"
#include <math.h>
#include <string.h>

Sketch *
sketch_new (const BaseCatalog *catalog, GError **error)
{
  TopoLinkFacts facts;
  if (!topo_link_facts_init (&facts, catalog, error))
    return NULL;
  Sketch *sketch = g_new0 (Sketch, 1);
  sketch->facts = facts;
  sketch->numas = g_array_new (FALSE, TRUE, sizeof (SketchNuma));
  sketch->bridges = g_array_new (FALSE, TRUE, sizeof (SketchPlace));
  sketch->switches = g_array_new (FALSE, TRUE, sizeof (SketchDevice));
  sketch->direct = TOPO_LINK_NVLINK;
  sketch->link_bytes_per_s = sketch->inter_socket_bytes_per_s = NAN;
  for (guint i = 0; i < SKETCH_MAX_DEVICES; i++) {
    sketch->gpus[i].place = sketch->nics[i].place = (SketchPlace){ -1, -1, -1 };
    sketch->gpus[i].bytes_per_s = sketch->nics[i].bytes_per_s = NAN;
  }
  return sketch;
}

void
sketch_free (Sketch *sketch)
{
  if (sketch == NULL)
    return;
  g_array_unref (sketch->numas);
  g_array_unref (sketch->bridges);
  g_array_unref (sketch->switches);
  g_free (sketch->gpu_product);
  g_free (sketch->gpu_pci_id);
  g_free (sketch->source);
  g_free (sketch);
}

guint
sketch_add_numa (Sketch *sketch, gint32 number, gint32 socket)
{
  SketchNuma numa = { number, socket };
  for (guint i = 0; i < sketch->numas->len && number >= 0; i++)
    if (g_array_index (sketch->numas, SketchNuma, i).number == number)
      return i;
  g_array_append_val (sketch->numas, numa);
  return sketch->numas->len - 1;
}

gboolean
sketch_has_numa (const Sketch *sketch, gint32 number)
{
  for (guint i = 0; i < sketch->numas->len; i++)
    if (g_array_index (sketch->numas, SketchNuma, i).number == number)
      return TRUE;
  return FALSE;
}

guint
sketch_number_numas (Sketch *sketch)
{
  guint numbered = 0;
  for (guint i = 0; i < sketch->numas->len; i++) {
    SketchNuma *numa = &g_array_index (sketch->numas, SketchNuma, i);
    gint32 number = 0;
    if (numa->number >= 0)
      continue;
    while (sketch_has_numa (sketch, number))
      number++;
    numa->number = number;
    numbered++;
  }
  return numbered;
}

guint
sketch_add_bridge (Sketch *sketch, gint32 numa)
{
  SketchPlace bridge = { numa, -1, -1 };
  g_array_append_val (sketch->bridges, bridge);
  return sketch->bridges->len - 1;
}

guint
sketch_add_switch (Sketch *sketch, SketchPlace place, guint generation, guint lanes)
{
  SketchDevice device = { .place = place, .generation = generation, .lanes = lanes };
  g_array_append_val (sketch->switches, device);
  return sketch->switches->len - 1;
}

static gboolean
name_is_taken (const Sketch *sketch, guint nic, const char *name)
{
  static const char *const reserved[] = { "GPU", "CPU", "PLX", "NVSwitch", "ICI", "fabric" };
  for (guint i = 0; i < G_N_ELEMENTS (reserved); i++)
    if (g_ascii_strncasecmp (name, reserved[i], strlen (reserved[i])) == 0)
      return TRUE;
  if (base_name_index (name, topo_fabric_names) >= 0)
    return TRUE;
  for (guint i = 0; i < sketch->n_nics; i++)
    if (i != nic && strcmp (name, sketch->nics[i].name) == 0)
      return TRUE;
  return strcmp (name, "unknown") == 0 || *name == '\0';
}

void
sketch_name_nic (Sketch *sketch, guint nic, const char *name)
{
  char *out = sketch->nics[nic].name;
  char clean[24];
  gsize n = 0;
  for (const char *c = name; *c != '\0' && n < sizeof clean - 1; c++)
    if (g_ascii_isalnum (*c) || strchr ("_.:-", *c) != NULL)
      clean[n++] = *c;
  clean[n] = '\0';
  g_strlcpy (out, clean, sizeof sketch->nics[nic].name);
  for (guint suffix = nic; name_is_taken (sketch, nic, out); suffix++)
    g_snprintf (out, sizeof sketch->nics[nic].name, "nic%u-%s", suffix, clean);
}

/* GPUs that links connect to @start. */
static guint64
component_of (const Sketch *sketch, guint start)
{
  guint64 reached = G_GUINT64_CONSTANT (1) << start, before = 0;
  while (reached != before) {
    before = reached;
    for (guint i = 0; i < sketch->n_gpus; i++)
      for (guint j = 0; (reached >> i & 1) && j < sketch->n_gpus; j++)
        if (sketch->links[i][j] > 0)
          reached |= G_GUINT64_CONSTANT (1) << j;
  }
  return reached;
}

/*
 * A switch shows every GPU all links of the other: counts between all pairs, each the smaller of
 * the two GPUs' own, and more of them together than a card has.
 */
static gboolean
is_switched (const Sketch *sketch, guint64 members, guint card_links)
{
  guint most = card_links > 0 ? card_links : topo_link_facts_most_links (&sketch->facts);
  guint16 own[SKETCH_MAX_DEVICES] = { 0 };
  gboolean too_many = FALSE;
  for (guint i = 0; i < sketch->n_gpus; i++) {
    guint sum = 0;
    for (guint j = 0; j < sketch->n_gpus; j++) {
      sum += sketch->links[i][j];
      own[i] = MAX (own[i], sketch->links[i][j]);
    }
    too_many = too_many || ((members >> i & 1) && sum > most);
  }
  for (guint i = 0; i < sketch->n_gpus && too_many; i++)
    for (guint j = 0; j < sketch->n_gpus; j++)
      if (i != j && (members >> i & 1) && (members >> j & 1)
          && sketch->links[i][j] != MIN (own[i], own[j]))
        return FALSE;
  return too_many;
}

static void
fill_switch (const Sketch *sketch, gboolean stated, SketchWiring *out)
{
  guint64 done = 0, joined = 0;
  out->wiring = TOPO_WIRING_SWITCH;
  for (guint i = 0; i < sketch->n_gpus; i++) {
    for (guint j = 0; j < sketch->n_gpus && !stated; j++)
      out->gpu_links[i] = MAX (out->gpu_links[i], sketch->links[i][j]);
    if (stated)
      out->gpu_links[i] = sketch->switch_links[i];
    out->links_per_gpu = MAX (out->links_per_gpu, out->gpu_links[i]);
    if (out->gpu_links[i] > 0)
      joined |= G_GUINT64_CONSTANT (1) << i;
  }
  if (stated) {
    out->islands[out->n_islands++] = joined;
    return;
  }
  for (guint i = 0; i < sketch->n_gpus; i++) {
    if (out->gpu_links[i] == 0 || (done >> i & 1))
      continue;
    out->islands[out->n_islands] = component_of (sketch, i);
    done |= out->islands[out->n_islands++];
  }
}

/* Point to point: the same count everywhere, bridged pairs, or a list. */
static void
fill_links (const Sketch *sketch, SketchWiring *out)
{
  guint n = sketch->n_gpus, least = G_MAXUINT, most = 0, most_peers = 0;
  gboolean complete = n > 2;
  for (guint i = 0; i < n; i++) {
    guint sum = 0, peers = 0;
    for (guint j = 0; j < n; j++) {
      guint count = sketch->links[i][j];
      sum += count;
      peers += count > 0;
      complete = complete && (i == j || count > 0);
      least = count > 0 ? MIN (least, count) : least;
      most = MAX (most, count);
    }
    out->links_per_gpu = MAX (out->links_per_gpu, sum);
    most_peers = MAX (most_peers, peers);
  }
  out->links_per_pair = least == most ? most : 0;
  out->wiring = TOPO_WIRING_LINKS;
  if (least == most && complete)
    out->wiring = TOPO_WIRING_MESH;
  else if (least == most && most_peers == 1)
    out->wiring = TOPO_WIRING_PAIRS;
}

void
sketch_wiring (const Sketch *sketch, guint card_links, SketchWiring *out)
{
  gboolean any = FALSE, stated = FALSE, switched = FALSE;
  memset (out, 0, sizeof *out);
  for (guint i = 0; i < sketch->n_gpus; i++) {
    stated = stated || sketch->switch_links[i] > 0;
    for (guint j = 0; j < sketch->n_gpus; j++)
      any = any || sketch->links[i][j] > 0;
  }
  for (guint i = 0; i < sketch->n_gpus && !stated && any; i++)
    switched = switched || is_switched (sketch, component_of (sketch, i), card_links);
  if (stated || switched)
    fill_switch (sketch, stated, out);
  else if (any)
    fill_links (sketch, out);
  out->inferred = switched;
  out->ambiguous
      = out->wiring == TOPO_WIRING_MESH && card_links == 0 && sketch->direct != TOPO_LINK_XGMI;
}
