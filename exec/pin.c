/* exec/pin.c - see pin.h. */
#include "exec/pin.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>

/* All that the process may use, or less because somebody chose? */
static gboolean
is_bound (hwloc_topology_t topology)
{
  hwloc_bitmap_t set = hwloc_bitmap_alloc ();
  hwloc_const_bitmap_t all = hwloc_topology_get_allowed_cpuset (topology);
  gboolean bound = hwloc_get_cpubind (topology, set, HWLOC_CPUBIND_PROCESS) != 0
                   || !hwloc_bitmap_isincluded (all, set);
  hwloc_bitmap_free (set);
  return bound;
}

static gboolean
bind_share (hwloc_topology_t topology, guint32 rank, guint32 ranks)
{
  int cores = hwloc_get_nbobjs_by_type (topology, HWLOC_OBJ_CORE);
  gboolean ok = FALSE;
  if (cores < (int)ranks || is_bound (topology))
    return FALSE;
  g_autofree hwloc_cpuset_t *sets = g_new0 (hwloc_cpuset_t, ranks);
  hwloc_obj_t root = hwloc_get_root_obj (topology);
  if (hwloc_distrib (topology, &root, 1, sets, ranks, G_MAXINT, 0) == 0)
    ok = hwloc_set_cpubind (topology, sets[rank], HWLOC_CPUBIND_PROCESS) == 0;
  for (guint32 i = 0; i < ranks; i++)
    hwloc_bitmap_free (sets[i]);
  return ok;
}

gboolean
exec_pin_rank (guint32 rank, guint32 ranks)
{
  hwloc_topology_t topology = NULL;
  if (rank >= ranks || hwloc_topology_init (&topology) != 0)
    return FALSE;
  gboolean ok = hwloc_topology_load (topology) == 0 && bind_share (topology, rank, ranks);
  hwloc_topology_destroy (topology);
  return ok;
}

#else

gboolean
exec_pin_rank (guint32 rank, guint32 ranks)
{
  (void)rank;
  (void)ranks;
  return FALSE;
}

#endif
