/* base/cpus.c - the processors of this process. GLib counts those of the host. */
#include "base/cpus.h"
#include <sched.h>

#define MOST_CPUS 65536

guint
base_cpus_count (void)
{
  guint count = 0;
  cpu_set_t *set = CPU_ALLOC (MOST_CPUS);
  if (set != NULL && sched_getaffinity (0, CPU_ALLOC_SIZE (MOST_CPUS), set) == 0)
    count = (guint)CPU_COUNT_S (CPU_ALLOC_SIZE (MOST_CPUS), set);
  CPU_FREE (set);
  return count > 0 ? count : g_get_num_processors ();
}
