/* topo/machine_graph.c - the graph of one domain, from what a machine file says. */
#include "topo/machine-private.h"
#include <math.h>

/* Vertices and links between CPUs of one graph. */
#define MAX_EXTENT 65536

/* Vertex numbers while one node of the domain is laid out. */
typedef struct {
  TopoMachine *machine;
  const MachineLayout *layout;
  guint32 node;     /* number of the node in the domain */
  guint32 nvswitch; /* vertex */
  guint32 fabric;   /* vertex */
  guint32 first_gpu;
  guint32 first_nic;
  GArray *cpus; /* guint32 vertex of each NUMA node */
} Builder;

static guint32
add (Builder *builder, TopoVertexKind kind, guint32 index, gint32 numa, gint32 socket,
     const char *prefix)
{
  g_autofree char *name = g_strdup_printf ("%s%u", prefix, index);
  return topo_graph_add_vertex (builder->machine->graph, kind, index, numa, socket, name);
}

static const MachinePlace *
place_at (GArray *places, guint index)
{
  return &g_array_index (places, MachinePlace, index);
}

static void
join_pcie (Builder *builder, guint32 a, guint32 b, guint generation, double bytes_per_s)
{
  topo_graph_join (builder->machine->graph, a, b,
                   (TopoLinkKind)(TOPO_LINK_PCIE3 + (generation - 3)), 1, bytes_per_s, NAN);
}

static void
add_devices (Builder *builder)
{
  const TopoMachine *machine = builder->machine;
  TopoGraph *graph = machine->graph;
  builder->first_gpu = topo_graph_n_vertices (graph);
  for (guint32 g = 0; g < machine->gpus_per_node; g++)
    add (builder, TOPO_VERTEX_GPU, builder->node * machine->gpus_per_node + g,
         machine->pcie_generation == 0 ? -1 : machine->gpu_numa[g], -1, "GPU");
  builder->first_nic = topo_graph_n_vertices (graph);
  for (guint32 c = 0; c < machine->n_nics; c++) {
    guint32 nic
        = add (builder, TOPO_VERTEX_NIC, builder->node * machine->n_nics + c, -1, -1, "NIC");
    topo_graph_join (graph, nic, builder->fabric, TOPO_LINK_NIC, 1, machine->nics[c].bytes_per_s,
                     NAN);
  }
}

static void
join_gpus_directly (Builder *builder)
{
  const TopoMachine *machine = builder->machine;
  guint32 n = machine->gpus_per_node, links;
  if (machine->wiring == TOPO_WIRING_NONE)
    return;
  links = (guint32)(machine->direct_bytes_per_s / machine->direct_link_bytes_per_s + 0.5);
  for (guint32 i = 0; i < n; i++) {
    if (machine->direct_count == NULL)
      topo_graph_join (machine->graph, builder->first_gpu + i, builder->nvswitch, machine->direct,
                       links, machine->direct_link_bytes_per_s, NAN);
    for (guint32 j = i + 1; machine->direct_count != NULL && j < n; j++)
      if (machine->direct_count[i * n + j] > 0)
        topo_graph_join (machine->graph, builder->first_gpu + i, builder->first_gpu + j,
                         machine->direct, machine->direct_count[i * n + j],
                         machine->direct_link_bytes_per_s, NAN);
  }
}

/* GPUs and NICs of @place below vertex @parent; coherent GPUs also to @cpu. */
static void
hang_devices (Builder *builder, const MachinePlace *place, guint32 parent, guint32 cpu)
{
  const TopoMachine *machine = builder->machine;
  gboolean below_switch = parent != cpu;
  for (guint32 g = 0; g < machine->gpus_per_node; g++) {
    if ((place->gpus >> g & 1) == 0)
      continue;
    if (machine->gpu->has_c2c)
      topo_graph_join (machine->graph, builder->first_gpu + g, cpu, TOPO_LINK_C2C, 1,
                       machine->gpu->c2c_bytes_per_s, NAN);
    if (!machine->gpu->has_c2c || below_switch)
      join_pcie (builder, builder->first_gpu + g, parent, machine->pcie_generation,
                 machine->pcie_bytes_per_s);
  }
  for (guint32 c = 0; c < machine->n_nics; c++)
    if (place->nics >> c & 1)
      join_pcie (builder, builder->first_nic + c, parent, machine->pcie_generation,
                 topo_pcie_x16_bytes_per_s (machine->pcie_generation));
}

static guint32
cpu_of_numa (const Builder *builder, guint32 number)
{
  for (guint i = 0; i < builder->layout->numas->len; i++)
    if (place_at (builder->layout->numas, i)->number == number)
      return g_array_index (builder->cpus, guint32, i);
  g_return_val_if_reached (0);
}

static void
add_host (Builder *builder)
{
  const TopoMachine *machine = builder->machine;
  GArray *numas = builder->layout->numas, *switches = builder->layout->switches;
  guint uplink = builder->layout->uplink_generation;
  g_array_set_size (builder->cpus, 0);
  for (guint i = 0; i < numas->len; i++) {
    const MachinePlace *place = place_at (numas, i);
    guint32 cpu = add (builder, TOPO_VERTEX_CPU, builder->node * numas->len + i,
                       (gint32)place->number, place->socket, "CPU");
    for (guint j = 0; j < i; j++)
      topo_graph_join (machine->graph, g_array_index (builder->cpus, guint32, j), cpu,
                       TOPO_LINK_INTER_SOCKET, 1, machine->inter_socket_bytes_per_s, NAN);
    g_array_append_val (builder->cpus, cpu);
    hang_devices (builder, place, cpu, cpu);
  }
  for (guint i = 0; i < switches->len; i++) {
    const MachinePlace *place = place_at (switches, i);
    guint32 cpu = cpu_of_numa (builder, place->numa);
    guint32 sw = add (builder, TOPO_VERTEX_PCIE_SWITCH, builder->node * switches->len + i,
                      (gint32)place->numa, -1, "PLX");
    join_pcie (builder, sw, cpu, uplink, topo_pcie_x16_bytes_per_s (uplink));
    hang_devices (builder, place, sw, cpu);
  }
}

/* A slip in a count must not ask for gigabytes: the largest known domain has 576 GPUs. */
static gboolean
check_extent (const TopoMachine *machine, const MachineLayout *layout, guint32 nodes,
              GError **error)
{
  guint64 per_node = machine->gpus_per_node + machine->n_nics + layout->switches->len
                     + (guint64)layout->numas->len * layout->numas->len;
  if (per_node * nodes <= MAX_EXTENT)
    return TRUE;
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
               "[machine] domain: found %u GPUs in %u nodes, too many for one graph, expected a "
               "domain of one rack",
               machine->domain_size, nodes);
  return FALSE;
}

gboolean
machine_build_graph (TopoMachine *machine, const MachineLayout *layout, GError **error)
{
  Builder builder = { .machine = machine, .layout = layout };
  guint32 nodes = machine->domain_size / machine->gpus_per_node;
  g_autoptr (GArray) cpus = g_array_new (FALSE, FALSE, sizeof (guint32));
  builder.cpus = cpus;
  machine->graph = topo_graph_new ();
  /* A pod of thousands of chips repeats one host: the graph shows one. */
  if (machine->wiring == TOPO_WIRING_TORUS)
    nodes = 1;
  if (!check_extent (machine, layout, nodes, error))
    return FALSE;
  if (machine->wiring != TOPO_WIRING_NONE && machine->direct_count == NULL)
    builder.nvswitch
        = topo_graph_add_vertex (machine->graph, TOPO_VERTEX_NVSWITCH, 0, -1, -1,
                                 machine->wiring == TOPO_WIRING_TORUS ? "ICI" : "NVSwitch");
  if (machine->n_nics > 0)
    builder.fabric = topo_graph_add_vertex (machine->graph, TOPO_VERTEX_FABRIC, 0, -1, -1,
                                            topo_fabric_name (machine->fabric));
  for (builder.node = 0; builder.node < nodes; builder.node++) {
    add_devices (&builder);
    join_gpus_directly (&builder);
    if (machine->pcie_generation != 0)
      add_host (&builder);
  }
  return topo_graph_finish (machine->graph, error);
}
