/* exec/crew.c - see crew.h. */
#include "exec/crew.h"

#include "exec/launch-private.h"
#include "exec/pin.h"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LOOK_US 200 /* how often both sides look at the desk */
#define QUIT    -1

typedef struct {
  gint answered; /* number of the last benchmark that is done */
  ExecBenchSheet sheet;
} Place;

typedef struct {
  gint asked; /* number of the benchmark to measure; QUIT */
  ExecBench bench;
  Place places[]; /* one per rank */
} Desk;

struct _ExecCrew {
  guint32 ranks;
  ExecWatch watch;
  Desk *desk;
  gsize desk_bytes;
  gint asked;
  /* one rank alone */
  ExecBencher own;
  ExecBenchSheet *sheets; /* (owned) copies that the caller sees */
};

static Desk *
desk_map (const char *folder, guint32 ranks, gboolean create, gsize *out_bytes, GError **error)
{
  *out_bytes = sizeof (Desk) + ranks * sizeof (Place);
  return board_map_file (folder, "desk", *out_bytes, create, error);
}

static gboolean
measure_alone (ExecCrew *crew, guint threads, const ExecBackend *backend,
               const ModelProfile *profile, GError **error)
{
  backend->set_threads (threads);
  exec_bencher_init (&crew->own, backend, profile);
  return (backend->open == NULL || backend->open (0, error))
         && exec_bencher_join (&crew->own, 0, 1, error);
}

ExecCrew *
exec_crew_new (const char *const *argv, guint32 ranks, guint threads, const ExecBackend *backend,
               const ModelProfile *profile, double timeout_s, GError **error)
{
  g_autoptr (ExecCrew) crew = g_new0 (ExecCrew, 1);
  crew->ranks = ranks;
  crew->sheets = g_new0 (ExecBenchSheet, ranks);
  if (ranks == 1)
    return measure_alone (crew, threads, backend, profile, error) ? g_steal_pointer (&crew) : NULL;
  if (!exec_watch_prepare (&crew->watch, ranks, timeout_s, error))
    return NULL;
  crew->desk = desk_map (crew->watch.folder, ranks, TRUE, &crew->desk_bytes, error);
  if (crew->desk == NULL || !exec_watch_start (&crew->watch, argv, threads, error))
    return NULL;
  return g_steal_pointer (&crew);
}

static gboolean
all_answered (const ExecCrew *crew)
{
  for (guint32 i = 0; i < crew->ranks; i++)
    if (g_atomic_int_get (&crew->desk->places[i].answered) != crew->asked)
      return FALSE;
  return TRUE;
}

static gboolean
ask (ExecCrew *crew, const ExecBench *bench, GError **error)
{
  gboolean ended = FALSE;
  exec_watch_restart (&crew->watch);
  crew->desk->bench = *bench;
  g_atomic_int_set (&crew->desk->asked, ++crew->asked);
  while (!all_answered (crew)) {
    if (!exec_watch_look (&crew->watch, &ended, error))
      return FALSE;
    if (ended) {
      g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED,
                   "the ranks ended before they had measured");
      return FALSE;
    }
    g_usleep (LOOK_US);
  }
  for (guint32 i = 0; i < crew->ranks; i++)
    crew->sheets[i] = crew->desk->places[i].sheet;
  return TRUE;
}

gboolean
exec_crew_measure (ExecCrew *crew, const ExecBench *bench, const ExecBenchSheet **out_sheets,
                   GError **error)
{
  gboolean ok = crew->ranks == 1 ? exec_bench_measure (&crew->own, bench, &crew->sheets[0], error)
                                 : ask (crew, bench, error);
  *out_sheets = crew->sheets;
  return ok;
}

void
exec_crew_free (ExecCrew *crew)
{
  gboolean ended = FALSE;
  if (crew == NULL)
    return;
  if (crew->desk != NULL && crew->watch.started) {
    g_atomic_int_set (&crew->desk->asked, QUIT);
    exec_watch_restart (&crew->watch);
    while (!ended && exec_watch_look (&crew->watch, &ended, NULL))
      g_usleep (LOOK_US);
  }
  if (crew->desk != NULL)
    board_unmap_file (crew->desk, crew->desk_bytes);
  exec_watch_clear (&crew->watch);
  if (crew->own.backend != NULL && crew->own.backend->close != NULL)
    crew->own.backend->close ();
  g_free (crew->sheets);
  g_free (crew);
}

static gint
next_asked (const Desk *desk, gint done)
{
  for (;;) {
    gint asked = g_atomic_int_get (&desk->asked);
    if (asked != done)
      return asked;
    g_usleep (LOOK_US);
  }
}

static gboolean
serve (ExecBencher *bencher, Desk *desk, GError **error)
{
  Place *place = &desk->places[bencher->rank];
  for (gint asked = next_asked (desk, 0); asked != QUIT; asked = next_asked (desk, asked)) {
    const ExecBench bench = desk->bench;
    bencher->progress->state = EXEC_STATE_COMPUTING;
    if (!exec_bench_measure (bencher, &bench, &place->sheet, error))
      return FALSE;
    bencher->progress->state = EXEC_STATE_WAITING;
    g_atomic_int_set (&place->answered, asked);
  }
  return TRUE;
}

/* The launcher reads the message and ends all ranks. */
static void
give_up (ExecProgress *progress, const char *message)
{
  g_strlcpy (progress->message, message, sizeof progress->message);
  progress->state = EXEC_STATE_FAILED;
  for (;;)
    pause ();
}

gboolean
exec_crew_serve (const ExecBackend *backend, const ModelProfile *profile, guint32 ranks,
                 GError **error)
{
  const char *folder = g_getenv (EXEC_JOB_VARIABLE);
  guint32 rank = 0, world = 1;
  gsize bytes = 0;
  ExecBencher bencher;
  g_autoptr (GError) failure = NULL;
  g_return_val_if_fail (folder != NULL, FALSE);
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  exec_bencher_init (&bencher, backend, profile);
  if (!exec_find_bootstrap (backend, error) || !backend->comm->open (&rank, &world, error))
    return FALSE;
  ExecProgress *board = board_map (folder, ranks, FALSE, error);
  Desk *desk = board != NULL ? desk_map (folder, ranks, FALSE, &bytes, error) : NULL;
  if (desk == NULL || world != ranks || rank >= ranks)
    backend->comm->abort (3);
  bencher.progress = &board[rank];
  bencher.progress->pid = getpid ();
  exec_pin_rank (rank, ranks);
  heart_start (bencher.progress, backend->comm, FALSE, 0, rank);
  if (!exec_bencher_join (&bencher, rank, world, &failure) || !serve (&bencher, desk, &failure))
    give_up (bencher.progress, failure->message);
  bencher.progress->state = EXEC_STATE_DONE;
  exec_bencher_leave (&bencher);
  backend->comm->close ();
  return TRUE;
}
