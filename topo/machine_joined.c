/* topo/machine_joined.c - which GPUs of a node share an NVSwitch, and with how many links.
 *
 * A board whose GPU has lost its links still works, without it: joined = 0-1, 3-7. Two boards in
 * one host: joined = 0-7 | 8-15. A GPU with some links down: fewer = 3:16.
 */
#include "topo/machine-private.h"
#include <string.h>

static gboolean
parse_island (const char *text, guint32 n_gpus, guint64 *taken, guint64 *out)
{
  g_auto (GStrv) items = g_strsplit (text, ",", -1);
  *out = 0;
  for (char **item = items; *item != NULL; item++) {
    guint64 first, last;
    if (!machine_parse_range (g_strstrip (*item), n_gpus, &first, &last))
      return FALSE;
    for (guint64 i = first; i <= last; i++) {
      if (*taken >> i & 1)
        return FALSE;
      *taken |= G_GUINT64_CONSTANT (1) << i;
      *out |= G_GUINT64_CONSTANT (1) << i;
    }
  }
  return *out != 0;
}

static gboolean
read_islands (BaseIni *ini, TopoMachine *machine, GError **error)
{
  const char *text = base_ini_get_string_or (ini, "links", "joined", NULL);
  guint64 taken = 0;
  if (text == NULL)
    return TRUE;
  g_auto (GStrv) parts = g_strsplit (text, "|", -1);
  guint n = g_strv_length (parts);
  machine->islands = g_new0 (guint64, MAX (n, 1));
  machine->n_islands = n;
  for (guint i = 0; i < n; i++)
    if (!parse_island (parts[i], machine->gpus_per_node, &taken, &machine->islands[i])) {
      base_ini_set_error (ini, "links", "joined", error,
                          "found '%s', expected sets of GPUs below %u, each GPU once, such as "
                          "\"0-1, 3-7\" or \"0-7 | 8-15\"",
                          text, machine->gpus_per_node);
      return FALSE;
    }
  return n > 0;
}

static gboolean
parse_fewer (const char *text, guint32 n_gpus, guint32 most, guint8 *fewer)
{
  guint64 gpu, links;
  g_auto (GStrv) parts = g_strsplit (text, ":", 2);
  if (parts[0] == NULL || parts[1] == NULL
      || !base_units_parse_count (g_strstrip (parts[0]), 0, n_gpus - 1, &gpu, NULL)
      || !base_units_parse_count (g_strstrip (parts[1]), 1, most, &links, NULL) || fewer[gpu] != 0)
    return FALSE;
  fewer[gpu] = (guint8)links;
  return TRUE;
}

static gboolean
read_fewer (BaseIni *ini, TopoMachine *machine, GError **error)
{
  g_auto (GStrv) items = base_ini_get_list (ini, "links", "fewer");
  if (items[0] == NULL)
    return TRUE;
  machine->fewer_links = g_new0 (guint8, MAX (machine->gpus_per_node, 1));
  for (char **item = items; *item != NULL; item++)
    if (!parse_fewer (*item, machine->gpus_per_node, MIN (machine->links_per_gpu, 255),
                      machine->fewer_links)) {
      base_ini_set_error (ini, "links", "fewer", error,
                          "found '%s', expected a GPU below %u, once, and its links, at most %u: "
                          "\"3:16\"",
                          *item, machine->gpus_per_node, machine->links_per_gpu);
      return FALSE;
    }
  return TRUE;
}

gboolean
machine_read_joined (BaseIni *ini, TopoMachine *machine, GError **error)
{
  if (machine->wiring != TOPO_WIRING_SWITCH || machine->domain_size != machine->gpus_per_node)
    return TRUE; /* the keys, if any, are then unknown ones */
  if (!read_islands (ini, machine, error) || !read_fewer (ini, machine, error))
    return FALSE;
  if (machine->islands == NULL || base_ini_has_group (ini, "pcie"))
    return TRUE;
  base_ini_set_error (ini, "pcie", NULL, error,
                      "group is missing, expected it where not all GPUs are joined by a switch");
  return FALSE;
}

guint32
machine_switch_links (const TopoMachine *machine, guint64 mask)
{
  guint32 usual = machine->links_per_gpu, fewest = usual;
  gboolean together = machine->islands == NULL;
  for (guint32 i = 0; i < machine->n_islands; i++)
    together = together || (mask & ~machine->islands[i]) == 0;
  if (!together)
    return 0;
  for (guint64 rest = mask; rest != 0 && machine->fewer_links != NULL; rest &= rest - 1) {
    guint32 links = machine->fewer_links[__builtin_ctzll (rest)];
    fewest = MIN (fewest, links == 0 ? usual : links);
  }
  return fewest;
}
