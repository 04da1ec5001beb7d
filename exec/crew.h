/* exec/crew.h - ranks that are started once and measure one benchmark after another.
 *
 * The process the user starts puts a benchmark on a desk (memory that all processes of the host
 * share, in the job's folder); every rank takes it, measures together with the others, and lays its
 * sheet beside it. One rank needs no job: the process measures itself.
 */
#pragma once
#include "exec/bench.h"
#include "exec/launch.h"
G_BEGIN_DECLS

typedef struct _ExecCrew ExecCrew;

/* Starts @argv (see exec_launch) on @ranks ranks, which have to call exec_crew_serve. @threads: of
 * the math library, per rank. @timeout_s: how long no rank may get on while it measures. */
ExecCrew *exec_crew_new (const char *const *argv, guint32 ranks, guint threads,
                         const ExecBackend *backend, const ModelProfile *profile, double timeout_s,
                         GError **error);
/* @out_sheets: (out) (borrowed) one per rank, until the next call. FALSE: the job is over. */
gboolean exec_crew_measure (ExecCrew *crew, const ExecBench *bench,
                            const ExecBenchSheet **out_sheets, GError **error);
void exec_crew_free (ExecCrew *crew); /* ends the ranks */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ExecCrew, exec_crew_free)

/* As one of @ranks ranks: measures until the crew is freed. Does not return on failure: the
 * launcher reads what went wrong from the board. */
gboolean exec_crew_serve (const ExecBackend *backend, const ModelProfile *profile, guint32 ranks,
                          GError **error);
G_END_DECLS
