/* sim/trace.h - a play as Chrome trace JSON, which Perfetto and chrome://tracing open.
 *
 * One process per rank, one thread per stream, one level of slices per thread. ts and dur are
 * microseconds with six decimals, cut from whole picoseconds so that neighbours never overlap.
 * Messages are flows from the slice that sends to the op that begins with them; bytes allocated
 * are a counter of the rank. The file appears under its name when it is complete.
 */
#pragma once
#include "sim/play.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct _SimTrace SimTrace;

/* FALSE with a G_FILE_ERROR where @path cannot be written. */
SimTrace *sim_trace_new (const char *path, GError **error);
/* For SimPlayOptions.event; @trace: SimTrace. */
void sim_trace_event (const SimEvent *event, gpointer trace);
/* Finishes the file; without it nothing is left behind. */
gboolean sim_trace_close (SimTrace *trace, GError **error);
guint64 sim_trace_count (const SimTrace *trace); /* slices so far */
void sim_trace_free (SimTrace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SimTrace, sim_trace_free)
G_END_DECLS
