#include "db/process-private.h"
#include "db/store-private.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* "BOOT-ID pid:[INODE]": equal texts number the same processes. (owned) NULL where the system does
 * not say. */
static char *
own_pid_space (void)
{
  g_autofree char *boot = NULL;
  g_autofree char *space = g_file_read_link ("/proc/self/ns/pid", NULL);
  if (space == NULL || !g_file_get_contents ("/proc/sys/kernel/random/boot_id", &boot, NULL, NULL))
    return NULL;
  return g_strdup_printf ("%s %s", g_strstrip (boot), space);
}

static gboolean
same_boot (const char *a, const char *b)
{
  gsize length = strcspn (a, " ");
  return length == strcspn (b, " ") && strncmp (a, b, length) == 0;
}

/* Whether /proc counts processes as this one does: a mount of another namespace's does not. */
static gboolean
proc_is_ours (void)
{
  g_autofree char *self = g_file_read_link ("/proc/self", NULL);
  return self != NULL && g_ascii_strtoll (self, NULL, 10) == getpid ();
}

/* State and start time of /proc/PID/stat. FALSE if it cannot be read. The second field is the
 * program's name in brackets and may hold anything, brackets too. */
static gboolean
read_stat (gint64 pid, char *out_state, gint64 *out_start_ticks)
{
  enum { STATE = 3, START = 22 }; /* numbers of the fields */
  g_autofree char *path = g_strdup_printf ("/proc/%" G_GINT64_FORMAT "/stat", pid);
  g_autofree char *text = NULL;
  if (!proc_is_ours () || !g_file_get_contents (path, &text, NULL, NULL)
      || strrchr (text, ')') == NULL)
    return FALSE;
  g_auto (GStrv) fields = g_strsplit (g_strstrip (strrchr (text, ')') + 1), " ", -1);
  if (g_strv_length (fields) <= START - STATE)
    return FALSE;
  *out_state = fields[0][0];
  *out_start_ticks = g_ascii_strtoll (fields[START - STATE], NULL, 10);
  return TRUE;
}

static DbProcessState
look (const DbProcess *process)
{
  char state = 0;
  gint64 start_ticks = 0;
  if (kill ((pid_t)process->pid, 0) != 0 && errno == ESRCH)
    return DB_PROCESS_GONE;
  if (!read_stat (process->pid, &state, &start_ticks))
    return DB_PROCESS_AT_WORK; /* no /proc, or it does not show other users' processes */
  if (strchr ("ZXx", state) != NULL)
    return DB_PROCESS_GONE;
  return process->start_ticks > 0 && process->start_ticks != start_ticks ? DB_PROCESS_GONE
                                                                         : DB_PROCESS_AT_WORK;
}

DbProcessState
db_process_state (const DbProcess *process)
{
  g_autofree char *space = own_pid_space ();
  gboolean same_host = g_strcmp0 (process->host, g_get_host_name ()) == 0;
  if (process->pid_space == NULL || space == NULL)
    return same_host ? look (process) : DB_PROCESS_UNKNOWN;
  if (g_str_equal (process->pid_space, space))
    return look (process); /* whatever the host is called now */
  /* Another container of this kernel may well bear the host's name, and be at work. */
  return same_host && !same_boot (process->pid_space, space) ? DB_PROCESS_GONE : DB_PROCESS_UNKNOWN;
}

gboolean
db_process_claim (DbDatabase *db, gint64 run_id, GError **error)
{
  g_autofree char *space = own_pid_space ();
  char state = 0;
  gint64 start_ticks = 0;
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "INSERT OR REPLACE INTO run_process (run_id, host, pid, pid_space, start_ticks)"
      " VALUES (:run_id, :host, :pid, :pid_space, nullif (:start_ticks, 0))",
      error);
  if (!read_stat (getpid (), &state, &start_ticks))
    start_ticks = 0;
  return stmt != NULL && db_sql_bind_int (db, stmt, ":run_id", run_id, error)
         && db_sql_bind_text (db, stmt, ":host", g_get_host_name (), error)
         && db_sql_bind_int (db, stmt, ":pid", getpid (), error)
         && db_sql_bind_text (db, stmt, ":pid_space", space, error)
         && db_sql_bind_int (db, stmt, ":start_ticks", start_ticks, error)
         && db_sql_run (db, stmt, "storing a run", error);
}

DbProcess
db_process_of_row (DbStmt *row, int first_column)
{
  return (DbProcess){
    .host = (const char *)sqlite3_column_text (row, first_column),
    .pid = sqlite3_column_int64 (row, first_column + 1),
    .pid_space = (const char *)sqlite3_column_text (row, first_column + 2),
    .start_ticks = sqlite3_column_int64 (row, first_column + 3),
  };
}

/* ---- runs whose process is gone ---- */

typedef struct {
  gint64 run_id;
  gboolean is_search;
} DeadRun;

/* (owned) of DeadRun */
static GArray *
list_dead (DbDatabase *db, GError **error)
{
  g_autoptr (GArray) dead = g_array_new (FALSE, FALSE, sizeof (DeadRun));
  g_autoptr (DbStmt) stmt
      = db_sql_prepare (db,
                        "SELECT run_id, run_id NOT IN (SELECT run_id FROM exec_run UNION ALL"
                        "   SELECT run_id FROM calibration_run), host, pid, pid_space, start_ticks"
                        " FROM run_process JOIN run USING (run_id) WHERE status = 'running'",
                        error);
  gboolean row = TRUE;
  if (stmt == NULL)
    return NULL;
  for (;;) {
    if (!db_sql_next (db, stmt, "looking for dead runs", &row, error))
      return NULL;
    if (!row)
      return g_steal_pointer (&dead);
    const DbProcess process = db_process_of_row (stmt, 2);
    const DeadRun run = { sqlite3_column_int64 (stmt, 0), sqlite3_column_int (stmt, 1) != 0 };
    if (db_process_state (&process) == DB_PROCESS_GONE)
      g_array_append_val (dead, run);
  }
}

static gboolean
bury (DbDatabase *db, const DeadRun *run, GError **error)
{
  const DbRunCounts none = { .elapsed_s = NAN, .search_s = NAN, .simulate_s = NAN };
  return db_finish_run (db, run->run_id, run->is_search ? DB_RUN_INTERRUPTED : DB_RUN_FAILED,
                        "killed", NULL, &none, error);
}

gboolean
db_store_bury_dead (DbDatabase *db, GError **error)
{
  static const char doing[] = "marking a dead run";
  g_autoptr (GArray) dead = list_dead (db, error);
  if (dead == NULL || dead->len == 0)
    return dead != NULL;
  if (!db_sql_begin (db, doing, error))
    return FALSE;
  /* another process may have done it since */
  g_autoptr (GArray) still_dead = list_dead (db, error);
  gboolean ok = still_dead != NULL;
  for (guint i = 0; ok && i < still_dead->len; i++)
    ok = bury (db, &g_array_index (still_dead, DeadRun, i), error);
  return db_sql_end (db, ok, doing, error);
}
