/* topo/placement.c - shapes of arithmetic groups on nodes and racks. */
#include "topo/placement.h"
#include "topo/contention.h"
#include <math.h>
#include <string.h>

/* Domains larger than this (TPU pods) are not searched for the GPUs that send: all are. */
#define SENDER_SEARCH_MAX_DOMAIN 256

/* All groups of one kind; @pairs: bases are every r < world - stride, size 2. */
typedef struct {
  const TopoMachine *machine;
  guint32 world;
  guint32 stride;
  guint32 size;
  guint32 domain; /* GPUs used per domain */
  gboolean pairs;
  gboolean uniform;         /* any two GPUs of a domain are joined alike */
  gboolean any_inside;      /* some group stays inside a domain */
  gboolean any_pair_inside; /* two members of some group are in one domain */
} Groups;

static guint64
gcd (guint64 a, guint64 b)
{
  while (b != 0) {
    guint64 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* First i with r + i*stride >= x. */
static guint64
first_at_least (guint64 r, guint64 stride, guint64 x)
{
  return x <= r ? 0 : (x - r + stride - 1) / stride;
}

/*
 * Folds the group that starts @r GPUs into a domain into @shape. With stride < domain the group
 * touches consecutive domains; counts of the inner ones repeat after stride domains at most.
 */
static void
add_group (Groups *groups, guint64 r, TopoGroupShape *shape)
{
  guint64 d = groups->domain, s = groups->stride, n = groups->size;
  guint64 k = s >= d ? n : (r + (n - 1) * s) / d + 1;
  guint64 fewest = n, most = 1;
  if (s >= d) {
    fewest = 1;
  } else {
    for (guint64 q = 0; q < k; q++) {
      if (q == s + 2 && k > s + 3)
        q = k - 1;
      guint64 begin = first_at_least (r, s, q * d);
      guint64 end = MIN (n, first_at_least (r, s, (q + 1) * d));
      guint64 count = end - begin;
      fewest = MIN (fewest, count);
      most = MAX (most, count);
    }
  }
  groups->any_inside = groups->any_inside || k == 1;
  groups->any_pair_inside = groups->any_pair_inside || most > 1;
  if (k > shape->domains || (k == shape->domains && fewest < shape->ranks_per_domain)
      || (k == shape->domains && fewest == shape->ranks_per_domain
          && most > shape->ranks_per_domain_max)) {
    shape->domains = (guint32)k;
    shape->ranks_per_domain = (guint32)fewest;
    shape->ranks_per_domain_max = (guint32)most;
  }
}

/* Every distinct offset of a group's first member within its domain. */
static void
add_all_groups (Groups *groups, TopoGroupShape *shape)
{
  guint64 d = groups->domain, s = groups->stride;
  if (groups->pairs) {
    guint64 bases = MIN ((guint64)groups->world - s, d);
    for (guint64 r = 0; r < bases; r++)
      add_group (groups, r, shape);
    return;
  }
  guint64 block = s * groups->size;
  guint64 n_blocks = groups->world / block;
  guint64 step = gcd (block, d);
  if (n_blocks >= d / step) { /* block starts fall on every multiple of step */
    for (guint64 i = 0; i < d / step; i++)
      for (guint64 j = 0; j < MIN (s, step); j++)
        add_group (groups, i * step + j, shape);
    return;
  }
  for (guint64 b = 0; b < n_blocks; b++)
    for (guint64 j = 0; j < MIN (s, d); j++)
      add_group (groups, (b * block + j) % d, shape);
}

/* The common cases on uniform domains, where all siblings look alike. */
static gboolean
closed_form (Groups *groups, TopoGroupShape *shape)
{
  guint64 d = groups->domain, s = groups->stride, n = groups->size, block = s * n;
  guint64 k, g;
  if (s >= d) {
    k = n;
    g = 1;
  } else if (groups->pairs || !groups->uniform) {
    return FALSE;
  } else if (groups->world <= d || d % block == 0) {
    k = 1;
    g = n;
  } else if (block % d == 0 && d % s == 0) {
    k = block / d;
    g = d / s;
  } else {
    return FALSE;
  }
  shape->domains = (guint32)k;
  shape->ranks_per_domain = shape->ranks_per_domain_max = (guint32)g;
  groups->any_inside = k == 1;
  groups->any_pair_inside = g > 1;
  return TRUE;
}

/* Does rank @rank send over the network? */
static gboolean
rank_sends (const Groups *groups, guint64 rank)
{
  guint64 s = groups->stride;
  if (groups->pairs)
    return rank + s < groups->world && rank / groups->domain != (rank + s) / groups->domain;
  guint64 block = s * groups->size;
  guint64 base = rank / block * block + rank % block % s;
  return base / groups->domain != (base + (groups->size - 1) * s) / groups->domain;
}

/*
 * Some groups cross domains and some do not: looks at every node of every distinct domain. Such
 * groups are shorter than a domain, so at most 2 * domain positions differ.
 */
static TopoNicShare
worst_nic_share (const Groups *groups)
{
  const TopoMachine *machine = groups->machine;
  TopoNicShare worst = { .bytes_per_s = INFINITY };
  guint64 d = groups->domain, node = machine->gpus_per_node;
  guint64 block = (guint64)groups->stride * groups->size;
  guint64 n_domains = (groups->world + d - 1) / d;
  guint64 period = groups->pairs ? 1 : block / gcd (block, d);
  for (guint64 q = 0; q < MIN (n_domains, period); q++)
    for (guint64 start = q * d; start < (q + 1) * d; start += node) {
      guint64 senders = 0;
      for (guint64 p = 0; p < node && start + p < groups->world; p++)
        if (rank_sends (groups, start + p))
          senders |= G_GUINT64_CONSTANT (1) << p;
      if (senders == 0)
        continue;
      TopoNicShare share = topo_machine_nic_share (machine, senders);
      if (share.bytes_per_s < worst.bytes_per_s)
        worst = share;
    }
  return isfinite (worst.bytes_per_s) ? worst : (TopoNicShare){ 0 };
}

static void
share_outside (const Groups *groups, TopoGroupShape *shape)
{
  const TopoMachine *machine = groups->machine;
  if (shape->domains < 2 || machine->n_nics == 0)
    return;
  guint32 d = groups->domain;
  gboolean all_send = groups->pairs ? groups->stride % d == 0 && groups->world - groups->stride >= d
                                    : !groups->any_inside;
  TopoNicShare share = machine->nic_share;
  if (!all_send && d <= SENDER_SEARCH_MAX_DOMAIN)
    share = worst_nic_share (groups);
  shape->inter_bytes_per_s = share.bytes_per_s;
  shape->inter_link = share.link;
  shape->spine_binds = share.spine_binds;
}

/* Sets of a node that is no crossbar share PCIe and the links between CPUs with their siblings. */
static void
share_inside (const Groups *groups, TopoGroupShape *shape)
{
  TopoNodeShare share = { 0 };
  if (groups->uniform && groups->any_pair_inside)
    topo_machine_subset (groups->machine, 3, &share.subset);
  if (!groups->uniform)
    topo_contention_inside (groups->machine, groups->world, groups->stride,
                            groups->pairs ? 0 : groups->size, &share);
  shape->intra_bytes_per_s = share.subset.bytes_per_s;
  shape->link_class = (guint16)share.subset.link_class;
  shape->crosses_socket = share.subset.crosses_socket;
  shape->intra_link = share.bottleneck;
  shape->intra_link_bytes_per_s = share.shared_bytes_per_s;
  shape->alltoall_bytes_per_s = share.alltoall_bytes_per_s;
}

static void
describe (Groups *groups, TopoGroupShape *out)
{
  const TopoMachine *machine = groups->machine;
  memset (out, 0, sizeof *out);
  out->ranks = groups->size;
  out->domains = out->ranks_per_domain = out->ranks_per_domain_max = 1;
  out->fabric = (guint16)machine->fabric;
  if (groups->size == 1)
    return;
  groups->domain = topo_machine_domain_in_use (machine, groups->world);
  groups->uniform = topo_machine_is_uniform (machine);
  if (!closed_form (groups, out)) {
    out->domains = 0;
    add_all_groups (groups, out);
  }
  share_inside (groups, out);
  out->nvls = machine->nvls && out->ranks_per_domain >= machine->nvls_from_gpus
              && out->link_class != TOPO_LINK_CLASS_NONE
              && !topo_link_class_is_pcie ((TopoLinkClass)out->link_class);
  share_outside (groups, out);
}

void
topo_group_shape (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size,
                  TopoGroupShape *out)
{
  g_return_if_fail (stride > 0 && size > 0 && world % ((guint64)stride * size) == 0);
  Groups groups = { .machine = machine, .world = world, .stride = stride, .size = size };
  describe (&groups, out);
}

void
topo_pair_shape (const TopoMachine *machine, guint32 world, guint32 offset, TopoGroupShape *out)
{
  g_return_if_fail (offset > 0 && offset < world);
  Groups groups
      = { .machine = machine, .world = world, .stride = offset, .size = 2, .pairs = TRUE };
  describe (&groups, out);
}

gboolean
topo_group_shape_through_host (const TopoMachine *machine, TopoGroupShape *shape)
{
  if (machine->pcie_generation == 0 || shape->ranks_per_domain_max > machine->gpus_per_node)
    return FALSE;
  shape->nvls = FALSE;
  if (shape->ranks_per_domain_max < 2)
    return TRUE;
  shape->link_class
      = (guint16)topo_link_class_of (topo_link_kind_of_pcie (machine->pcie_generation), TRUE);
  shape->intra_bytes_per_s = machine->pcie_bytes_per_s;
  shape->intra_link = NULL;
  shape->alltoall_bytes_per_s = 0;
  return TRUE;
}
