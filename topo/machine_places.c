/* topo/machine_places.c - [numa N], [bridge N] and [switch N] of a machine file: the PCIe tree.
 *
 * GPUs and NICs hang below a NUMA node, one of its host bridges, or a PCIe switch. A switch hangs
 * below a NUMA node (numa =), a host bridge (bridge =) or another switch (parent =).
 */
#include "topo/machine-private.h"
#include <string.h>

#define MAX_PLACES 256

static void
clear_nic (gpointer data)
{
  g_free (((MachineNic *)data)->name);
}

void
machine_layout_init (MachineLayout *layout)
{
  memset (layout, 0, sizeof *layout);
  layout->numas = g_array_new (FALSE, TRUE, sizeof (MachinePlace));
  layout->bridges = g_array_new (FALSE, TRUE, sizeof (MachinePlace));
  layout->switches = g_array_new (FALSE, TRUE, sizeof (MachinePlace));
  layout->nics = g_array_new (FALSE, TRUE, sizeof (MachineNic));
  g_array_set_clear_func (layout->nics, clear_nic);
}

void
machine_layout_clear (MachineLayout *layout)
{
  g_clear_pointer (&layout->numas, g_array_unref);
  g_clear_pointer (&layout->bridges, g_array_unref);
  g_clear_pointer (&layout->switches, g_array_unref);
  g_clear_pointer (&layout->nics, g_array_unref);
}

/* Place of that number, or NULL. (borrowed) */
static MachinePlace *
find_place (GArray *places, guint32 number)
{
  for (guint i = 0; i < places->len; i++) {
    MachinePlace *place = &g_array_index (places, MachinePlace, i);
    if (place->number == number)
      return place;
  }
  return NULL;
}

void
machine_add_numa (MachineLayout *layout, guint32 number)
{
  MachinePlace place = { .number = number, .socket = -1, .parent = -1, .bridge = -1 };
  if (find_place (layout->numas, number) == NULL)
    g_array_append_val (layout->numas, place);
}

/* Reads a small number into @out, leaving it -1 when the key is absent. */
static gboolean
read_number (BaseIni *ini, const char *group, const char *key, gint32 *out, GError **error)
{
  guint64 number = 0;
  *out = -1;
  if (!base_ini_has_key (ini, group, key))
    return TRUE;
  if (!base_ini_get_count (ini, group, key, 0, MAX_PLACES - 1, &number, error))
    return FALSE;
  *out = (gint32)number;
  return TRUE;
}

/* Where a switch hangs: exactly one of three keys. */
static gboolean
read_above (BaseIni *ini, const char *group, gint32 *numa, MachinePlace *place, GError **error)
{
  if (!read_number (ini, group, "numa", numa, error)
      || !read_number (ini, group, "bridge", &place->bridge, error)
      || !read_number (ini, group, "parent", &place->parent, error))
    return FALSE;
  guint n = (guint)(*numa >= 0) + (guint)(place->bridge >= 0) + (guint)(place->parent >= 0);
  if (n == 1)
    return TRUE;
  base_ini_set_error (ini, group, NULL, error,
                      "found %u of the keys numa, bridge and parent, expected one: what the switch "
                      "hangs below",
                      n);
  return FALSE;
}

static gboolean
read_devices (BaseIni *ini, const TopoMachine *machine, const MachineLayout *layout,
              const char *group, MachinePlace *place, GError **error)
{
  if (!machine_read_set (ini, group, "gpus", machine->gpus_per_node, &place->gpus, error)
      || !machine_read_set (ini, group, "nics", MAX (layout->nics->len, 1), &place->nics, error))
    return FALSE;
  if (layout->nics->len > 0 || place->nics == 0)
    return TRUE;
  base_ini_set_error (ini, group, "nics", error, "found NICs, but there is no [network]");
  return FALSE;
}

static gboolean
read_place (BaseIni *ini, const TopoMachine *machine, MachineLayout *layout, const char *group,
            GArray *places, MachinePlace *place, GError **error)
{
  guint64 number = 0;
  gint32 numa = 0;
  const char *text = strchr (group, ' ') + 1;
  *place = (MachinePlace){ .socket = -1, .parent = -1, .bridge = -1 };
  if (!base_units_parse_count (text, 0, MAX_PLACES - 1, &number, NULL)) {
    base_ini_set_error (ini, group, NULL, error, "found '%s', expected a number from 0 to %d", text,
                        MAX_PLACES - 1);
    return FALSE;
  }
  place->number = (guint32)number;
  if (!read_devices (ini, machine, layout, group, place, error))
    return FALSE;
  if (places == layout->numas)
    return read_number (ini, group, "socket", &place->socket, error);
  if (places == layout->bridges) {
    guint64 below = 0;
    if (!base_ini_get_count (ini, group, "numa", 0, MAX_PLACES - 1, &below, error))
      return FALSE;
    numa = (gint32)below;
  } else if (!read_above (ini, group, &numa, place, error)) {
    return FALSE;
  }
  place->numa = (guint32)MAX (numa, 0);
  return TRUE;
}

/* Each GPU and NIC hangs in one place. */
static gboolean
claim (BaseIni *ini, const char *group, const char *key, guint64 mine, guint64 *taken,
       GError **error)
{
  guint64 twice = mine & *taken;
  *taken |= mine;
  if (twice == 0)
    return TRUE;
  base_ini_set_error (ini, group, key, error, "number %d hangs below two places",
                      __builtin_ctzll (twice));
  return FALSE;
}

static GArray *
places_of_group (MachineLayout *layout, const char *group)
{
  if (g_str_has_prefix (group, "numa "))
    return layout->numas;
  if (g_str_has_prefix (group, "bridge "))
    return layout->bridges;
  return g_str_has_prefix (group, "switch ") ? layout->switches : NULL;
}

/* Follows parents up to what says the NUMA node. */
static gboolean
resolve_switch (BaseIni *ini, MachineLayout *layout, MachinePlace *place, GError **error)
{
  const MachinePlace *above = place;
  g_autofree char *group = g_strdup_printf ("switch %u", place->number);
  guint steps = 0;
  while (above != NULL && above->parent >= 0 && steps++ <= layout->switches->len)
    above = find_place (layout->switches, (guint32)above->parent);
  if (above == NULL || above->parent >= 0) {
    base_ini_set_error (ini, group, "parent", error,
                        above == NULL ? "found no such [switch N], there or further up"
                                      : "found a circle of switches, expected a tree");
    return FALSE;
  }
  place->numa = above->numa;
  if (above->bridge < 0)
    return TRUE;
  const MachinePlace *bridge = find_place (layout->bridges, (guint32)above->bridge);
  if (bridge == NULL) {
    base_ini_set_error (ini, group, NULL, error, "found bridge %d, but there is no [bridge %d]",
                        above->bridge, above->bridge);
    return FALSE;
  }
  place->numa = bridge->numa;
  place->bridge = above->bridge;
  return TRUE;
}

static gboolean
resolve_places (BaseIni *ini, MachineLayout *layout, GError **error)
{
  for (guint i = 0; i < layout->bridges->len; i++)
    machine_add_numa (layout, g_array_index (layout->bridges, MachinePlace, i).numa);
  for (guint i = 0; i < layout->switches->len; i++) {
    MachinePlace *place = &g_array_index (layout->switches, MachinePlace, i);
    if (!resolve_switch (ini, layout, place, error))
      return FALSE;
    machine_add_numa (layout, place->numa);
  }
  return TRUE;
}

gboolean
machine_read_places (BaseIni *ini, const TopoMachine *machine, MachineLayout *layout, guint64 *gpus,
                     guint64 *nics, GError **error)
{
  *gpus = *nics = 0;
  for (guint i = 0; i < base_ini_n_groups (ini); i++) {
    const char *group = base_ini_group_name (ini, i);
    GArray *places = places_of_group (layout, group);
    MachinePlace place;
    if (places == NULL)
      continue;
    if (!read_place (ini, machine, layout, group, places, &place, error)
        || !claim (ini, group, "gpus", place.gpus, gpus, error)
        || !claim (ini, group, "nics", place.nics, nics, error))
      return FALSE;
    if (find_place (places, place.number) != NULL) {
      base_ini_set_error (ini, group, NULL, error, "number %u is used twice", place.number);
      return FALSE;
    }
    g_array_append_val (places, place);
  }
  return resolve_places (ini, layout, error);
}
