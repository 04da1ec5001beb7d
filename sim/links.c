/* sim/links.c - lays all traffic on the links of all nodes and keeps what can fill up. */
#include "sim/links.h"

#include "topo/node_loads.h"

#include <math.h>
#include <string.h>

#define N_KINDS (SIM_TRAFFIC_N_KINDS * SIM_PATTERN_N_KINDS)

typedef struct {
  double link_bytes_per_s, network_bytes_per_s;
} Rates;

typedef struct {
  guint32 source;
  SimLoad load;
} Entry;

struct _SimLinks {
  const SimCase *c;
  gboolean full;
  ModelRankMap map;
  guint32 per_stage; /* ranks */
  guint32 n_owners;
  Rates *most; /* (owned) by kind and pipeline rank: the highest rates of its ops */
  gboolean used[N_KINDS];
  GArray *capacities; /* double */
  GPtrArray *names;   /* char * */
  GArray *entries;    /* Entry, while building */
  GArray *loads;      /* SimLoad, source by source */
  guint32 *first;     /* (owned) n_sources + 1 */
  GHashTable *known;  /* GBytes → link + 1 */
};

static guint
kind_of (const SimOp *op)
{
  return op->traffic * SIM_PATTERN_N_KINDS + op->pattern;
}

static gsize
n_sources (const SimLinks *links)
{
  return (gsize)N_KINDS * links->n_owners;
}

SimLinks *
sim_links_new (const SimCase *c, gboolean full)
{
  SimLinks *links = g_new0 (SimLinks, 1);

  links->c = c;
  links->full = full;
  model_rankmap_init (&links->map, &c->layout);
  links->per_stage = links->map.world / links->map.pp;
  links->n_owners = full ? links->map.world : links->map.pp;
  links->most = g_new0 (Rates, (gsize)N_KINDS * links->map.pp);
  links->capacities = g_array_new (FALSE, FALSE, sizeof (double));
  links->names = g_ptr_array_new_with_free_func (g_free);
  links->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  links->loads = g_array_new (FALSE, FALSE, sizeof (SimLoad));
  links->first = g_new0 (guint32, n_sources (links) + 1);
  links->known
      = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
  return links;
}

void
sim_links_free (SimLinks *links)
{
  if (links == NULL)
    return;
  g_free (links->most);
  g_array_unref (links->capacities);
  g_ptr_array_unref (links->names);
  g_array_unref (links->entries);
  g_array_unref (links->loads);
  g_free (links->first);
  g_hash_table_unref (links->known);
  g_free (links);
}

void
sim_links_note (SimLinks *links, guint32 pp_rank, const SimOp *op)
{
  Rates *most = &links->most[(gsize)kind_of (op) * links->map.pp + pp_rank];

  most->link_bytes_per_s = MAX (most->link_bytes_per_s, op->link_bytes_per_s);
  most->network_bytes_per_s = MAX (most->network_bytes_per_s, op->network_bytes_per_s);
  links->used[kind_of (op)] |= op->link_bytes_per_s > 0 || op->network_bytes_per_s > 0;
}

/* ---- one node ---- */

/* What one source puts on the links of the node being looked at. */
typedef struct {
  guint32 source, stage;
  guint kind;
  double *link, *network; /* by link of the node */
} Row;

typedef struct {
  SimLinks *links;
  const TopoNodeLoads *loads;
  guint32 n_links;
  guint32 world, node, domain; /* ranks */
  guint32 start;               /* first rank of the node */
  GArray *rows;                /* Row */
  GPtrArray *spare;            /* double *, of rows not in use */
} Node;

static double *
amounts_new (Node *node)
{
  double *amounts = node->spare->len > 0
                        ? g_ptr_array_steal_index_fast (node->spare, node->spare->len - 1)
                        : g_new (double, node->n_links);
  memset (amounts, 0, node->n_links * sizeof *amounts);
  return amounts;
}

/* The row of (@kind, @owner); @stage: its pipeline rank. */
static Row *
row_of (Node *node, guint kind, guint32 owner, guint32 stage)
{
  guint32 source = kind * node->links->n_owners + owner;

  for (guint i = 0; i < node->rows->len; i++)
    if (g_array_index (node->rows, Row, i).source == source)
      return &g_array_index (node->rows, Row, i);
  Row row = { source, stage, kind, amounts_new (node), amounts_new (node) };
  g_array_append_val (node->rows, row);
  return &g_array_index (node->rows, Row, node->rows->len - 1);
}

static guint32
stage_of (const Node *node, guint32 rank)
{
  return rank / node->links->per_stage;
}

static gboolean
is_here (const Node *node, guint32 rank)
{
  return rank >= node->start && rank < node->start + node->node;
}

/* Members of group @base among the ranks from @begin to before @end. */
static guint32
members_between (const ModelGroup *group, guint32 base, guint32 begin, guint32 end)
{
  guint64 s = group->stride, n = group->size;
  guint64 first = begin <= base ? 0 : (begin - base + s - 1) / s;
  guint64 last = end <= base ? 0 : (end - base + s - 1) / s;
  return (guint32)(MIN (last, n) - MIN (first, n));
}

static void
add_member_network (Node *node, const ModelGroup *group, guint32 base, guint32 rank,
                    SimPattern pattern, double *amounts)
{
  guint32 at = (rank - base) / group->stride, n = group->size;
  guint32 next = base + (at + 1) % n * group->stride,
          last = base + (at + n - 1) % n * group->stride;
  gboolean all = pattern != SIM_PATTERN_NEIGHBOUR;

  if (base / node->domain == (base + (n - 1) * group->stride) / node->domain)
    return;
  if (all || next / node->domain != rank / node->domain)
    topo_node_loads_add_network (node->loads, rank - node->start, TRUE, 1, amounts);
  if (all || last / node->domain != rank / node->domain)
    topo_node_loads_add_network (node->loads, rank - node->start, FALSE, 1, amounts);
}

/* All groups of @traffic that have a member in the node. */
static void
add_groups (Node *node, guint traffic, SimPattern pattern)
{
  SimLinks *links = node->links;
  const ModelGroup *group = &links->map.groups[traffic];
  guint64 seen = 0;
  guint32 end = MIN (node->start + node->node, node->world);

  for (guint32 rank = node->start; rank < end; rank++) {
    guint32 base = model_rankmap_group_base (&links->map, (ModelGroupKind)traffic, rank);
    guint32 stage = stage_of (node, rank), domain = node->start - node->start % node->domain;
    guint64 set = 0;
    if (seen >> (rank - node->start) & 1 || group->size < 2)
      continue;
    Row *row
        = row_of (node, traffic * SIM_PATTERN_N_KINDS + pattern, links->full ? base : stage, stage);
    for (guint32 r = rank; r < end; r += group->stride) {
      if (model_rankmap_group_base (&links->map, (ModelGroupKind)traffic, r) != base)
        break;
      set |= G_GUINT64_CONSTANT (1) << (r - node->start);
      add_member_network (node, group, base, r, pattern, row->network);
    }
    seen |= set;
    guint32 here = (guint32)__builtin_popcountll (set);
    gboolean beyond = members_between (group, base, domain, domain + node->domain) > here;
    topo_node_loads_add_set (node->loads, set, beyond,
                             pattern == SIM_PATTERN_ALLTOALL ? TOPO_PATTERN_ALLTOALL
                                                             : TOPO_PATTERN_RING,
                             1, row->link);
  }
}

/* One end of a message from @from to @to. */
static void
add_end (Node *node, Row *row, guint32 from, guint32 to, gboolean outward)
{
  guint32 gpu = (outward ? from : to) - node->start;

  if (from / node->domain != to / node->domain)
    topo_node_loads_add_network (node->loads, gpu, outward, 1, row->network);
  else if (!is_here (node, from) || !is_here (node, to)
           || topo_machine_is_uniform (node->links->c->problem->machine))
    topo_node_loads_add_switch (node->loads, gpu, outward, 1, row->link);
  else if (outward) {
    guint64 set = G_GUINT64_CONSTANT (1) << gpu | G_GUINT64_CONSTANT (1) << (to - node->start);
    topo_node_loads_add_set (node->loads, set, FALSE, TOPO_PATTERN_CHAIN, 1, row->link);
  }
}

/* The rank of pipeline rank @stage in @rank's pipeline. */
static guint32
rank_in_stage (const Node *node, guint32 rank, guint32 stage)
{
  return stage * node->links->per_stage + rank % node->links->per_stage;
}

/* Messages of every rank of the node to the pipeline rank @hop further, and from the other side. */
static void
add_messages (Node *node, guint traffic, guint32 hop)
{
  SimLinks *links = node->links;
  guint32 pp = links->map.pp;

  for (guint32 rank = node->start; rank < MIN (node->start + node->node, node->world); rank++) {
    guint32 stage = stage_of (node, rank), sender_stage = (stage + pp - hop) % pp;
    guint32 to = rank_in_stage (node, rank, (stage + hop) % pp);
    guint32 from = rank_in_stage (node, rank, sender_stage);
    guint kind = traffic * SIM_PATTERN_N_KINDS;
    add_end (node, row_of (node, kind, links->full ? rank : stage, stage), rank, to, TRUE);
    add_end (node, row_of (node, kind, links->full ? from : sender_stage, sender_stage), from, rank,
             FALSE);
  }
}

/* Sums between the two ranks that hold the same: both ways at once. */
static void
add_pairs (Node *node, guint traffic)
{
  SimLinks *links = node->links;
  guint32 pp = links->map.pp;

  for (guint32 rank = node->start; rank < MIN (node->start + node->node, node->world); rank++) {
    guint32 stage = stage_of (node, rank), other = pp - 1 - stage;
    guint32 peer = rank_in_stage (node, rank, other), least = MIN (stage, other);
    if (stage == other || (traffic == MODEL_GROUP_EMBEDDING && least != 0))
      continue;
    Row *row = row_of (node, traffic * SIM_PATTERN_N_KINDS, links->full ? MIN (rank, peer) : least,
                       least);
    add_end (node, row, rank, peer, TRUE);
    add_end (node, row, peer, rank, FALSE);
  }
}

static void
add_traffic (Node *node, guint traffic, SimPattern pattern)
{
  if (traffic == SIM_TRAFFIC_NEXT)
    add_messages (node, traffic, 1);
  else if (traffic == SIM_TRAFFIC_BACK)
    add_messages (node, traffic, node->links->map.pp - 1);
  else if (traffic == SIM_TRAFFIC_MIRROR || traffic == MODEL_GROUP_EMBEDDING)
    add_pairs (node, traffic);
  else
    add_groups (node, traffic, pattern);
}

/* ---- links ---- */

static double
usable_capacity (const SimLinks *links, const TopoNodeLoads *loads, guint32 link)
{
  const CostNumbers *numbers = links->c->problem->numbers;
  TopoLinkClass class = links->c->problem->machine->node_link_class;
  TopoLinkKind kind;
  double peak = topo_node_loads_capacity (loads, link, &kind), ratio = 1;

  if (kind == TOPO_LINK_NIC)
    ratio = numbers->fabric.bandwidth_ratio;
  else if (topo_link_kind_is_direct (kind) || topo_link_class_is_pcie (class))
    ratio = numbers->links[class].bandwidth_ratio;
  return peak * fmin (ratio, 1);
}

static double
most_asked (const SimLinks *links, const Row *row, guint32 link, double capacity)
{
  const Rates *most = &links->most[(gsize)row->kind * links->map.pp + row->stage];
  double asked
      = row->link[link] * most->link_bytes_per_s + row->network[link] * most->network_bytes_per_s;
  return fmin (asked, capacity);
}

/* The merged link with this traffic, made if new. */
static guint32
link_number (Node *node, guint32 link, double capacity, const GByteArray *key, guint32 stage)
{
  SimLinks *links = node->links;
  g_autoptr (GBytes) bytes = g_bytes_new (key->data, key->len);
  gpointer known = g_hash_table_lookup (links->known, bytes);

  if (known != NULL)
    return GPOINTER_TO_UINT (known) - 1;
  g_autofree char *name = topo_node_loads_name (node->loads, link);
  guint32 number = links->capacities->len;
  g_array_append_val (links->capacities, capacity);
  g_ptr_array_add (links->names,
                   links->full || links->per_stage < node->node
                       ? g_strdup_printf ("%s of node %u", name, node->start / node->node)
                       : g_strdup_printf ("%s of stage %u", name, stage));
  g_hash_table_insert (links->known, g_steal_pointer (&bytes), GUINT_TO_POINTER (number + 1));
  return number;
}

static gint
compare_rows (gconstpointer a, gconstpointer b)
{
  guint32 x = ((const Row *)a)->source, y = ((const Row *)b)->source;
  return (x > y) - (x < y);
}

static void
keep_link (Node *node, guint32 link, double capacity, GByteArray *key)
{
  SimLinks *links = node->links;
  double asked = 0;
  guint n = 0;

  g_byte_array_set_size (key, 0);
  g_byte_array_append (key, (const guint8 *)&capacity, sizeof capacity);
  for (guint i = 0; i < node->rows->len; i++) {
    const Row *row = &g_array_index (node->rows, Row, i);
    float weights[2] = { (float)row->link[link], (float)row->network[link] };
    if (!(most_asked (links, row, link, capacity) > 0))
      continue;
    asked += most_asked (links, row, link, capacity);
    n++;
    g_byte_array_append (key, (const guint8 *)&row->source, sizeof row->source);
    g_byte_array_append (key, (const guint8 *)weights, sizeof weights);
  }
  if (n < 2 || !(asked > capacity * (1 + 1e-9)))
    return;
  guint32 before = links->capacities->len;
  guint32 number = link_number (node, link, capacity, key, stage_of (node, node->start));
  for (guint i = 0; number == before && i < node->rows->len; i++) {
    const Row *row = &g_array_index (node->rows, Row, i);
    Entry entry = { row->source, { number, (float)row->link[link], (float)row->network[link] } };
    if (most_asked (links, row, link, capacity) > 0)
      g_array_append_val (links->entries, entry);
  }
}

/* ---- nodes that see the same ---- */

static void
put_peer (const Node *node, guint32 rank, guint32 peer, GByteArray *out)
{
  const guint8 bytes[2] = { is_here (node, peer) ? (guint8)(peer - node->start) : 255,
                            peer / node->domain != rank / node->domain };
  g_byte_array_append (out, bytes, sizeof bytes);
}

/* Where @rank stands in its group, as far as the node's links can tell. */
static void
put_group (const Node *node, const ModelGroup *group, guint32 base, guint32 rank, GByteArray *out)
{
  guint32 n = group->size, s = group->stride, at = (rank - base) / s;
  guint32 domain = node->start - node->start % node->domain;
  guint32 numbers[2] = { MIN (at, (rank - node->start) / s),
                         members_between (group, base, domain, domain + node->domain) };
  guint8 crosses = base / node->domain != (base + (n - 1) * s) / node->domain;
  g_byte_array_append (out, (const guint8 *)numbers, sizeof numbers);
  g_byte_array_append (out, &crosses, 1);
  put_peer (node, rank, base + (at + 1) % n * s, out);
  put_peer (node, rank, base + (at + n - 1) % n * s, out);
}

static void
put_traffic (const Node *node, guint traffic, guint32 rank, GByteArray *out)
{
  const SimLinks *links = node->links;
  guint32 pp = links->map.pp, stage = stage_of (node, rank);

  if (traffic == SIM_TRAFFIC_NEXT || traffic == SIM_TRAFFIC_BACK) {
    put_peer (node, rank, rank_in_stage (node, rank, (stage + 1) % pp), out);
    put_peer (node, rank, rank_in_stage (node, rank, (stage + pp - 1) % pp), out);
  } else if (traffic == SIM_TRAFFIC_MIRROR || traffic == MODEL_GROUP_EMBEDDING)
    put_peer (node, rank, rank_in_stage (node, rank, pp - 1 - stage), out);
  else
    put_group (node, &links->map.groups[traffic],
               model_rankmap_group_base (&links->map, (ModelGroupKind)traffic, rank), rank, out);
}

/* All that decides which source loads which link of the node. */
static void
describe_node (const Node *node, GByteArray *out)
{
  g_byte_array_set_size (out, 0);
  for (guint32 rank = node->start; rank < MIN (node->start + node->node, node->world); rank++) {
    guint32 stage = stage_of (node, rank);
    g_byte_array_append (out, (const guint8 *)&stage, sizeof stage);
    for (guint kind = 0; kind < N_KINDS; kind++)
      if (node->links->used[kind])
        put_traffic (node, kind / SIM_PATTERN_N_KINDS, rank, out);
  }
}

/* Where a pipeline rank stands for its groups, nodes that see the same load the same links. */
static gboolean
is_new (Node *node, GHashTable *seen, GByteArray *key)
{
  if (node->links->full)
    return TRUE;
  describe_node (node, key);
  return g_hash_table_add (seen, g_bytes_new (key->data, key->len));
}

static void
look_at_node (Node *node, const double *capacities, GByteArray *key)
{
  for (guint kind = 0; kind < N_KINDS; kind++)
    if (node->links->used[kind])
      add_traffic (node, kind / SIM_PATTERN_N_KINDS, (SimPattern)(kind % SIM_PATTERN_N_KINDS));
  g_array_sort (node->rows, compare_rows);
  for (guint32 link = 0; link < node->n_links; link++)
    if (isfinite (capacities[link]))
      keep_link (node, link, capacities[link], key);
  for (guint i = 0; i < node->rows->len; i++) {
    g_ptr_array_add (node->spare, g_array_index (node->rows, Row, i).link);
    g_ptr_array_add (node->spare, g_array_index (node->rows, Row, i).network);
  }
  g_array_set_size (node->rows, 0);
}

/* Entries to lists by source. */
static void
sort_entries (SimLinks *links)
{
  gsize n = n_sources (links);

  for (guint i = 0; i < links->entries->len; i++)
    links->first[g_array_index (links->entries, Entry, i).source + 1]++;
  for (gsize s = 0; s < n; s++)
    links->first[s + 1] += links->first[s];
  g_autofree guint32 *at = g_memdup2 (links->first, n * sizeof *at);
  g_array_set_size (links->loads, links->entries->len);
  for (guint i = 0; i < links->entries->len; i++) {
    const Entry *entry = &g_array_index (links->entries, Entry, i);
    g_array_index (links->loads, SimLoad, at[entry->source]++) = entry->load;
  }
  g_array_set_size (links->entries, 0);
  g_hash_table_remove_all (links->known);
}

void
sim_links_build (SimLinks *links)
{
  const TopoMachine *machine = links->c->problem->machine;
  g_autoptr (TopoNodeLoads) loads = topo_node_loads_new (machine);

  if (loads == NULL)
    return;
  Node node = { .links = links,
                .loads = loads,
                .n_links = topo_node_loads_n_links (loads),
                .world = links->map.world,
                .node = machine->gpus_per_node,
                .domain = topo_machine_domain_in_use (machine, links->map.world),
                .rows = g_array_new (FALSE, FALSE, sizeof (Row)),
                .spare = g_ptr_array_new_with_free_func (g_free) };
  g_autofree double *capacities = g_new (double, node.n_links);
  g_autoptr (GByteArray) key = g_byte_array_new ();
  for (guint32 link = 0; link < node.n_links; link++)
    capacities[link] = usable_capacity (links, loads, link);
  g_autoptr (GHashTable) seen
      = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
  for (; node.start < node.world; node.start += node.node)
    if (is_new (&node, seen, key))
      look_at_node (&node, capacities, key);
  g_array_unref (node.rows);
  g_ptr_array_unref (node.spare);
  sort_entries (links);
}

guint32
sim_links_count (const SimLinks *links)
{
  return links->capacities->len;
}

double
sim_links_capacity (const SimLinks *links, guint32 link)
{
  return g_array_index (links->capacities, double, link);
}

const char *
sim_links_name (const SimLinks *links, guint32 link)
{
  return g_ptr_array_index (links->names, link);
}

const SimLoad *
sim_links_loads (const SimLinks *links, guint32 owner, const SimOp *op, guint *out_n)
{
  gsize source = (gsize)kind_of (op) * links->n_owners + owner;

  *out_n = links->first[source + 1] - links->first[source];
  return &g_array_index (links->loads, SimLoad, links->first[source]);
}
