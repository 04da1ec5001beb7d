/* base/cpus.h - how many processors this process may use. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

/* Hardware threads that the process may run on: its affinity, as taskset, Slurm and containers set
 * it; all that are online where the system does not tell. At least 1. */
guint base_cpus_count (void);
G_END_DECLS
