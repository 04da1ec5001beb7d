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
  guint32 nvswitch; /* vertex of the first; one per island */
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
  topo_graph_join (builder->machine->graph, a, b, topo_link_kind_of_pcie (generation), 1,
                   bytes_per_s, NAN);
}

/* Names of NICs repeat from node to node: beyond the first node the node's number leads. */
static void
add_nic (Builder *builder, guint32 c)
{
  const MachineNic *nic = &g_array_index (builder->layout->nics, MachineNic, c);
  TopoGraph *graph = builder->machine->graph;
  guint32 index = builder->node * builder->layout->nics->len + c;
  g_autofree char *name = nic->name == NULL   ? g_strdup_printf ("NIC%u", index)
                          : builder->node > 0 ? g_strdup_printf ("%u:%s", builder->node, nic->name)
                                              : g_strdup (nic->name);
  guint32 vertex = topo_graph_add_vertex (graph, TOPO_VERTEX_NIC, index, -1, -1, name);
  if (builder->machine->n_nics > 0 || !isnan (nic->bytes_per_s))
    topo_graph_join (graph, vertex, builder->fabric, TOPO_LINK_NIC, 1, nic->bytes_per_s, NAN);
}

static void
add_devices (Builder *builder)
{
  const TopoMachine *machine = builder->machine;
  TopoGraph *graph = machine->graph;
  builder->first_gpu = topo_graph_n_vertices (graph);
  for (guint32 g = 0; g < machine->gpus_per_node; g++)
    add (builder, TOPO_VERTEX_GPU, builder->node * machine->gpus_per_node + g,
         builder->layout->has_host ? machine->gpu_numa[g] : -1, -1, "GPU");
  builder->first_nic = topo_graph_n_vertices (graph);
  for (guint32 c = 0; c < builder->layout->nics->len; c++)
    add_nic (builder, c);
}

/* Vertex of the switch that GPU @gpu is joined to, or -1. */
static gint64
switch_of (const Builder *builder, guint32 gpu)
{
  const TopoMachine *machine = builder->machine;
  for (guint32 i = 0; i < machine->n_islands; i++)
    if (machine->islands[i] >> gpu & 1)
      return builder->nvswitch + i;
  return machine->islands == NULL ? (gint64)builder->nvswitch : -1;
}

static void
join_gpus_directly (Builder *builder)
{
  const TopoMachine *machine = builder->machine;
  guint32 n = machine->gpus_per_node;
  if (machine->wiring == TOPO_WIRING_NONE)
    return;
  for (guint32 i = 0; i < n; i++) {
    guint32 links = machine->links_per_gpu;
    if (machine->fewer_links != NULL && machine->fewer_links[i] > 0)
      links = machine->fewer_links[i];
    if (machine->direct_count == NULL && switch_of (builder, i) >= 0)
      topo_graph_join (machine->graph, builder->first_gpu + i, (guint32)switch_of (builder, i),
                       machine->direct, links, machine->direct_link_bytes_per_s, NAN);
    for (guint32 j = i + 1; machine->direct_count != NULL && j < n; j++)
      if (machine->direct_count[i * n + j] > 0)
        topo_graph_join (machine->graph, builder->first_gpu + i, builder->first_gpu + j,
                         machine->direct, machine->direct_count[i * n + j],
                         machine->direct_link_bytes_per_s, NAN);
  }
}

static void
set_place (Builder *builder, guint32 vertex, const MachinePlace *place, gint32 numa)
{
  TopoVertex *at = &g_array_index (builder->machine->graph->vertices, TopoVertex, vertex);
  at->bridge = place->bridge;
  at->numa = numa;
}

/* GPUs and NICs of @place below vertex @parent; coherent GPUs also to @cpu. */
static void
hang_devices (Builder *builder, const MachinePlace *place, gint32 numa, guint32 parent, guint32 cpu)
{
  const TopoMachine *machine = builder->machine;
  const MachineLayout *layout = builder->layout;
  gboolean below_switch = parent != cpu;
  double coherent = layout->cpu_bytes_per_s;
  if (!(coherent > 0) && machine->gpu->has_c2c)
    coherent = machine->gpu->c2c_bytes_per_s;
  for (guint32 g = 0; g < machine->gpus_per_node; g++) {
    if ((place->gpus >> g & 1) == 0)
      continue;
    set_place (builder, builder->first_gpu + g, place, numa);
    if (coherent > 0)
      topo_graph_join (machine->graph, builder->first_gpu + g, cpu, TOPO_LINK_C2C, 1, coherent,
                       NAN);
    /* A chip-to-chip GPU has its PCIe port elsewhere; one with NVLink to the CPU has both. */
    if (!machine->gpu->has_c2c || below_switch)
      join_pcie (builder, builder->first_gpu + g, parent, machine->pcie_generation,
                 machine->pcie_bytes_per_s > 0 ? machine->pcie_bytes_per_s : NAN);
  }
  for (guint32 c = 0; c < layout->nics->len; c++) {
    if ((place->nics >> c & 1) == 0)
      continue;
    set_place (builder, builder->first_nic + c, place, numa);
    join_pcie (builder, builder->first_nic + c, parent, layout->nic_generation,
               layout->nic_bytes_per_s);
  }
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
add_cpus (Builder *builder)
{
  const TopoMachine *machine = builder->machine;
  GArray *numas = builder->layout->numas, *bridges = builder->layout->bridges;
  g_array_set_size (builder->cpus, 0);
  for (guint i = 0; i < numas->len; i++) {
    const MachinePlace *place = place_at (numas, i);
    guint32 cpu = add (builder, TOPO_VERTEX_CPU, builder->node * numas->len + i,
                       (gint32)place->number, place->socket, "CPU");
    for (guint j = 0; j < i; j++)
      topo_graph_join (machine->graph, g_array_index (builder->cpus, guint32, j), cpu,
                       TOPO_LINK_INTER_SOCKET, 1, machine->inter_socket_bytes_per_s, NAN);
    g_array_append_val (builder->cpus, cpu);
    hang_devices (builder, place, (gint32)place->number, cpu, cpu);
  }
  for (guint i = 0; i < bridges->len; i++) {
    MachinePlace place = *place_at (bridges, i);
    guint32 cpu = cpu_of_numa (builder, place.numa);
    place.bridge = (gint32)place.number;
    hang_devices (builder, &place, (gint32)place.numa, cpu, cpu);
  }
}

/* A switch may name one that stands later in the file as its parent: all first, then the links. */
static void
add_switches (Builder *builder)
{
  const MachineLayout *layout = builder->layout;
  GArray *switches = layout->switches;
  guint32 first = topo_graph_n_vertices (builder->machine->graph);
  for (guint i = 0; i < switches->len; i++) {
    const MachinePlace *place = place_at (switches, i);
    guint32 sw = add (builder, TOPO_VERTEX_PCIE_SWITCH, builder->node * switches->len + i,
                      (gint32)place->numa, -1, "PLX");
    set_place (builder, sw, place, (gint32)place->numa);
  }
  for (guint i = 0; i < switches->len; i++) {
    const MachinePlace *place = place_at (switches, i);
    guint32 cpu = cpu_of_numa (builder, place->numa), above = cpu;
    for (guint j = 0; place->parent >= 0 && j < switches->len; j++)
      if (place_at (switches, j)->number == (guint32)place->parent)
        above = first + j;
    join_pcie (builder, first + i, above, layout->uplink_generation, layout->uplink_bytes_per_s);
    hang_devices (builder, place, (gint32)place->numa, first + i, cpu);
  }
}

/* A slip in a count must not ask for gigabytes: the largest known domain has 576 GPUs. */
static gboolean
check_extent (const TopoMachine *machine, const MachineLayout *layout, guint32 nodes,
              GError **error)
{
  guint64 per_node = machine->gpus_per_node + layout->nics->len + layout->switches->len
                     + (guint64)layout->numas->len * layout->numas->len;
  if (per_node * nodes <= MAX_EXTENT)
    return TRUE;
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
               "[machine] domain: found %u GPUs in %u nodes, too many for one graph, expected a "
               "domain of one rack",
               machine->domain_size, nodes);
  return FALSE;
}

static gboolean
any_nic_rate_known (const MachineLayout *layout)
{
  for (guint c = 0; c < layout->nics->len; c++)
    if (!isnan (g_array_index (layout->nics, MachineNic, c).bytes_per_s))
      return TRUE;
  return FALSE;
}

/* What the whole domain shares: NVSwitches and the fabric. */
static void
add_joints (Builder *builder)
{
  TopoMachine *machine = builder->machine;
  const char *name = machine->wiring == TOPO_WIRING_TORUS ? "ICI" : "NVSwitch";
  guint32 n_switches = MAX (machine->n_islands, 1);
  builder->nvswitch = topo_graph_n_vertices (machine->graph);
  if (machine->wiring == TOPO_WIRING_NONE || machine->direct_count != NULL)
    n_switches = 0;
  for (guint32 i = 0; i < n_switches; i++) {
    g_autofree char *numbered = g_strdup_printf ("%s%u", name, i);
    topo_graph_add_vertex (machine->graph, TOPO_VERTEX_NVSWITCH, i, -1, -1,
                           n_switches == 1 ? name : numbered);
  }
  if (machine->n_nics > 0 || any_nic_rate_known (builder->layout))
    builder->fabric
        = topo_graph_add_vertex (machine->graph, TOPO_VERTEX_FABRIC, 0, -1, -1,
                                 machine->n_nics > 0 ? topo_fabric_name (machine->fabric)
                                                     : "fabric");
}

gboolean
machine_build_graph (TopoMachine *machine, const MachineLayout *layout, GError **error)
{
  Builder builder = { .machine = machine, .layout = layout };
  guint32 nodes = topo_machine_nodes_shown (machine);
  g_autoptr (GArray) cpus = g_array_new (FALSE, FALSE, sizeof (guint32));
  builder.cpus = cpus;
  machine->graph = topo_graph_new ();
  if (!check_extent (machine, layout, nodes, error))
    return FALSE;
  add_joints (&builder);
  for (builder.node = 0; builder.node < nodes; builder.node++) {
    add_devices (&builder);
    join_gpus_directly (&builder);
    if (layout->has_host) {
      add_cpus (&builder);
      add_switches (&builder);
    }
  }
  return topo_graph_finish (machine->graph, error);
}
