/* app/record_machine.c - the machine of a plan as text, to know it again by. */
#include "app/record.h"

#include "base/hash.h"

#include <math.h>

char *
app_record_machine_content (const TopoMachine *machine)
{
  const TopoGpu *gpu = machine->gpu;
  GString *text = g_string_new (NULL);

  g_string_append_printf (
      text, "gpu=%s\nsm_count=%u\nhbm_bytes_per_s=%.17g\nusable_bytes=%" G_GUINT64_FORMAT "\n",
      gpu->slug, gpu->sm_count, gpu->hbm_bytes_per_s, gpu->usable_bytes);
  for (guint i = 0; i < TOPO_DTYPE_N_KINDS; i++)
    g_string_append_printf (text, "peak_flop_per_s.%s=%.17g\n", topo_dtype_name ((TopoDtype)i),
                            gpu->peak_flop_per_s[i]);
  g_string_append_printf (
      text, "gpus_per_node=%u\ndomain_size=%u\nwiring=%d\ndirect=%s\ndirect_bytes_per_s=%.17g\n",
      machine->gpus_per_node, machine->domain_size, (int)machine->wiring,
      topo_link_kind_name (machine->direct), machine->direct_bytes_per_s);
  g_string_append_printf (text, "nvls=%d\npcie_generation=%u\npcie_bytes_per_s=%.17g\nfabric=%s\n",
                          machine->nvls, machine->pcie_generation, machine->pcie_bytes_per_s,
                          topo_fabric_name (machine->fabric));
  for (guint i = 0; i < machine->n_nics; i++)
    g_string_append_printf (text, "nic=%.17g gpus %" G_GINT64_MODIFIER "x\n",
                            machine->nics[i].bytes_per_s, machine->nics[i].gpus);
  g_string_append_printf (text, "power_limit_ratio=%.17g\n", machine->power_limit_ratio);
  return g_string_free (text, FALSE);
}

/* ---- what that leaves out ---- */

/* An unknown number has no sign that means anything. */
static void
add (GString *text, const char *key, double value)
{
  if (isnan (value))
    g_string_append_printf (text, "%s=unknown\n", key);
  else
    g_string_append_printf (text, "%s=%.17g\n", key, value);
}

static void
add_links (GString *text, const TopoGraph *graph)
{
  for (guint32 i = 0; i < topo_graph_n_links (graph); i++) {
    const TopoLink *link = topo_graph_link (graph, i);

    g_string_append_printf (text, "link %u %u %s x%u\n", link->from, link->to,
                            topo_link_kind_name (link->kind), link->count);
    add (text, "bytes_per_s", link->bytes_per_s);
    add (text, "latency_s", link->latency_s);
  }
}

/* Islands, missing links, sockets and switches of single GPUs. */
static void
add_places (GString *text, const TopoMachine *machine)
{
  const guint32 n = machine->gpus_per_node;

  for (guint32 i = 0; machine->islands != NULL && i < machine->n_islands; i++)
    g_string_append_printf (text, "island=%" G_GINT64_MODIFIER "x\n", machine->islands[i]);
  for (guint32 i = 0; i < n; i++)
    g_string_append_printf (text, "gpu %u: numa %d switch %d links %d\n", i,
                            machine->gpu_numa != NULL ? machine->gpu_numa[i] : -1,
                            machine->gpu_switch != NULL ? machine->gpu_switch[i] : -1,
                            machine->fewer_links != NULL ? machine->fewer_links[i] : 0);
  for (guint32 i = 0; machine->direct_count != NULL && i < n * n; i++)
    g_string_append_printf (text, "%u ", machine->direct_count[i]);
}

static void
add_curves (GString *text, const TopoMachine *machine)
{
  for (guint i = 0; i < machine->curves->len; i++) {
    const TopoCurve *curve = &g_array_index (machine->curves, TopoCurve, i);

    g_string_append_printf (text, "measured %s %u\n", curve->what, curve->ranks);
    for (guint j = 0; j < curve->points->len; j++) {
      const TopoCurvePoint *point = &g_array_index (curve->points, TopoCurvePoint, j);

      g_string_append_printf (text, "%.17g:%.17g\n", point->bytes, point->time_s);
    }
  }
}

char *
app_record_machine_whole (const TopoMachine *machine)
{
  const TopoGpu *gpu = machine->gpu;
  g_autofree char *content = app_record_machine_content (machine);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *hash = NULL;

  g_string_append_printf (text, "p2p=%d\nlinks_per_gpu=%u\nnvls_from_gpus=%u\nrails=%u\n",
                          (int)machine->p2p, machine->links_per_gpu, machine->nvls_from_gpus,
                          machine->rails);
  g_string_append_printf (text, "generation=%s\ncompute_capability=%s\n",
                          gpu->generation != NULL ? gpu->generation : "unknown",
                          gpu->compute_capability != NULL ? gpu->compute_capability : "unknown");
  add (text, "c2c_bytes_per_s", gpu->has_c2c ? gpu->c2c_bytes_per_s : 0);
  add (text, "inter_socket_bytes_per_s", machine->inter_socket_bytes_per_s);
  add (text, "oversubscription_ratio", machine->oversubscription_ratio);
  add (text, "direct_link_bytes_per_s", machine->direct_link_bytes_per_s);
  add_links (text, machine->graph);
  add_places (text, machine);
  add_curves (text, machine);
  hash = base_hash_text (text->str);
  return g_strdup_printf ("%sdetails=%s\n", content, hash);
}
