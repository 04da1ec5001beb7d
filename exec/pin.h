/* exec/pin.h - which cores a rank runs on. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/*
 * Binds this process to its share of the host's cores: rank @rank of @ranks on this host, cores
 * dealt out in the order of the topology (hwloc), so that neighbours in rank share caches and NUMA
 * nodes. Left alone: a process that somebody has bound already, more ranks than cores, builds
 * without hwloc.
 *
 * Returns: whether it was bound.
 */
gboolean exec_pin_rank (guint32 rank, guint32 ranks);
G_END_DECLS
