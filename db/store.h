/* db/store.h - writing runs and plans, and reading them back.
 *
 * A run is begun (one row, so that a database that cannot be written is noticed before the work),
 * given plans once per search point, and finished. Each call is one transaction: it is stored
 * whole or not at all.
 */
#pragma once
#include "db/database.h"
#include "db/records.h"
G_BEGIN_DECLS

/* Now as "2026-01-31T23:59:59Z". Returns: (owned). */
char *db_now_utc (void);

/*
 * Finds or adds an input by its content; *out_id is its id. The same name with other content is a
 * new row: plans of earlier runs keep pointing at what they were computed from.
 */
gboolean db_store_machine (DbDatabase *db, const DbMachineRecord *machine, gint64 *out_id,
                           GError **error);
gboolean db_store_model (DbDatabase *db, const DbModelRecord *model, gint64 *out_id,
                         GError **error);
gboolean db_store_job (DbDatabase *db, const DbJobRecord *job, gint64 *out_id, GError **error);
gboolean db_store_calibration (DbDatabase *db, const DbCalibrationRecord *calibration,
                               gint64 *out_id, GError **error);

/* Adds a run with status "running"; status, finish time, message and counts of @run are ignored. */
gboolean db_store_begin_run (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id,
                             GError **error);

/*
 * Adds the plans of one search point to a run, in one transaction.
 *
 * @plans: run_id and plan_id are ignored; the input ids must come from db_store_machine() etc.
 * @out_plan_ids: (out caller-allocates, optional) @n_plans ids
 */
gboolean db_store_plans (DbDatabase *db, gint64 run_id, const DbPlanRecord *plans, gsize n_plans,
                         gint64 *out_plan_ids, GError **error);

/*
 * Ends a run, once: status, finish time (now), message, counts and rejections.
 *
 * @message: (nullable)
 * @rejected: rows of equal reason are added up
 */
gboolean db_store_finish_run (DbDatabase *db, gint64 run_id, DbRunStatus status,
                              const char *message, const DbRunCounts *counts,
                              const DbRejectedRecord *rejected, gsize n_rejected, GError **error);

/*
 * All of the above for a run with one search point: begin, plans, finish in a single transaction.
 *
 * @run: its status must not be DB_RUN_RUNNING
 */
gboolean db_store_whole_run (DbDatabase *db, const DbRunRecord *run, const DbPlanRecord *plans,
                             gsize n_plans, const DbRejectedRecord *rejected, gsize n_rejected,
                             gint64 *out_run_id, gint64 *out_plan_ids, GError **error);

/*
 * A finished run of measured rows beside their predictions, in one transaction.
 *
 * @run: its status must not be DB_RUN_RUNNING
 * @rows: calibration_id from db_store_calibration(); their order is kept
 * @skipped: why rows were not predicted, kept as rejections
 */
gboolean db_store_validation (DbDatabase *db, const DbRunRecord *run,
                              const DbValidationRecord *rows, gsize n_rows,
                              const DbRejectedRecord *skipped, gsize n_skipped, gint64 *out_run_id,
                              GError **error);

/* ---- searches, which may be stopped and go on ---- */

/* db_store_begin_run, remembering the process that works on it. */
gboolean db_store_begin_search (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id,
                                GError **error);
/*
 * Takes over a run of these inputs by this version that was interrupted or whose process is gone:
 * it is "running" again. Looked for among those begun after the last one that was done; of several,
 * the one with most search points.
 *
 * @take_over: also one on a host or in a container whose processes cannot be seen from here
 * @out_run_id: (out) 0 if there is none
 * @out_note: (out) (owned) one line on a run that was left alone, NULL without
 */
gboolean db_store_resume_search (DbDatabase *db, const char *inputs_hash, gboolean take_over,
                                 gint64 *out_run_id, char **out_note, GError **error);
/* A search point with its plans, in one transaction; the rest as db_store_plans. @answer: what
 * there is to know beside the plans, the caller's own text. */
gboolean db_store_point (DbDatabase *db, gint64 run_id, const char *point_hash, const char *answer,
                         const DbPlanRecord *plans, gsize n_plans, gint64 *out_plan_ids,
                         GError **error);
/* *out_answer: (owned) NULL if the point has not been searched. Plan ids follow one another. */
gboolean db_load_point (DbDatabase *db, gint64 run_id, const char *point_hash, char **out_answer,
                        gint64 *out_first_plan_id, gsize *out_n_plans, GError **error);

/* Deletes the plans of a run whose rank is beyond @keep_count (at each search point).
 * @out_deleted_count: (out, optional) */
gboolean db_store_keep_best (DbDatabase *db, gint64 run_id, guint64 keep_count,
                             guint64 *out_deleted_count, GError **error);

/* A stored plan with the rows it refers to. */
typedef struct {
  DbPlanRecord plan; /* with its stage, breakdown, group and assumed rows */
  DbMachineRecord machine;
  DbModelRecord model;
  DbJobRecord job;
  DbCalibrationRecord calibration;
  GStringChunk *strings; /* owns the text of the records above */
  GPtrArray *arrays;     /* owns their arrays */
} DbPlan;

/* An empty plan, for callers that fill one themselves: text goes to g_string_chunk_insert (strings),
 * arrays from g_malloc() to g_ptr_array_add (arrays). Returns: (owned). */
DbPlan *db_plan_new (void);
void db_plan_free (DbPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DbPlan, db_plan_free)

/* Returns: (owned) or NULL with DB_ERROR_NOT_FOUND. */
DbPlan *db_load_plan (DbDatabase *db, gint64 plan_id, GError **error);

/*
 * Id of the best plan of the last run that finished with plans: among its plans of rank 1, one
 * that fits before one that does not, then most tokens per second over all its GPUs, then least
 * GPUs, then least id.
 */
gboolean db_find_best_plan (DbDatabase *db, gint64 *out_plan_id, GError **error);

/* Ids of a run's plans, ordered by search point and rank. Returns: (owned) GArray of gint64. */
GArray *db_list_plans (DbDatabase *db, gint64 run_id, GError **error);

/* A stored run with its rejections, most frequent first. */
typedef struct {
  DbRunRecord run;
  DbRejectedRecord *rejected;
  gsize n_rejected;
  /*< private >*/
  GStringChunk *strings;
} DbRun;

void db_run_free (DbRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DbRun, db_run_free)

/* Returns: (owned) or NULL with DB_ERROR_NOT_FOUND. */
DbRun *db_load_run (DbDatabase *db, gint64 run_id, GError **error);

/* Content of the newest calibration called @name. Returns: (owned) or NULL (DB_ERROR_NOT_FOUND). */
char *db_load_calibration (DbDatabase *db, const char *name, GError **error);

/* Commits a run with status "running" and its exec_run row, before the ranks start. */
gboolean db_store_begin_exec (DbDatabase *db, const DbRunRecord *run, const DbExecRecord *exec,
                              gint64 *out_run_id, GError **error);
/* Ends it. @exec: (nullable) the row with what was measured. */
gboolean db_store_finish_exec (DbDatabase *db, gint64 run_id, DbRunStatus status,
                               const char *message, const DbExecRecord *exec,
                               const DbExecOpRecord *ops, gsize n_ops,
                               const DbExecMemoryRecord *memory, gsize n_memory, GError **error);
/* Commits a run with status "running" and its calibration_run row, before anything is measured. */
gboolean db_store_begin_calibration (DbDatabase *db, const DbRunRecord *run,
                                     const DbCalibrationRunRecord *made, gint64 *out_run_id,
                                     GError **error);
/* The rows of one benchmark, in one transaction. */
gboolean db_store_points (DbDatabase *db, gint64 run_id, const DbPointRecord *points,
                          gsize n_points, GError **error);
/* What a calibration rests on. */
typedef struct {
  const DbCalibrationValueRecord *values;
  gsize n_values;
  const DbCalibrationResidualRecord *residuals;
  gsize n_residuals;
  double median_abs_err, median_abs_err_base; /* of step times, NaN = none */
} DbCalibrationMade;
/* Stores the calibration with its values and residuals, and ends the run. */
gboolean db_store_finish_calibration (DbDatabase *db, gint64 run_id,
                                      const DbCalibrationRecord *calibration,
                                      const DbCalibrationMade *made, GError **error);

/* Rows that were read back. */
typedef struct {
  GArray *records; /* (owned) of the record type */
  /*< private >*/
  GStringChunk *strings;
} DbRows;
void db_rows_free (DbRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DbRows, db_rows_free)

/* DbPointRecord: everything measured on the node that @node describes (host, backend, topology,
 * versions) by runs after @after_run_id (0: all), oldest first. (owned) */
DbRows *db_load_points (DbDatabase *db, const DbCalibrationRunRecord *node, gint64 after_run_id,
                        GError **error);
/* DbExecLoaded: finished runs on a machine. (owned) */
DbRows *db_load_exec_runs (DbDatabase *db, const char *topology_hash, const char *backend,
                           GError **error);
DbRows *db_load_exec_ops (DbDatabase *db, gint64 run_id, GError **error); /* DbExecOpRecord */
/* DbCalibrationValueRecord, DbCalibrationResidualRecord */
DbRows *db_load_calibration_values (DbDatabase *db, gint64 calibration_id, GError **error);
DbRows *db_load_calibration_residuals (DbDatabase *db, gint64 calibration_id, GError **error);

/* A calibration that `plait calibrate` made. */
typedef struct {
  gint64 calibration_id, rank_count; /* rank_count: 0 = absent */
  char *name, *content, *source, *created_at, *host;
  char *backend, *topology_hash, *versions; /* (nullable) */
} DbMadeCalibration;
void db_made_calibration_free (DbMadeCalibration *made);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DbMadeCalibration, db_made_calibration_free)
/* The newest called @name. (owned), NULL with DB_ERROR_NOT_FOUND. */
DbMadeCalibration *db_find_calibration (DbDatabase *db, const char *name, GError **error);
/* The newest of the machine @topology_hash (nullable), or else the newest of all. */
DbMadeCalibration *db_find_latest_calibration (DbDatabase *db, const char *topology_hash,
                                               GError **error);

/* Runs that say "running" and whose process is known to be gone become failed, searches (which can
 * go on) interrupted, "killed" either way. Done whenever a database is opened for writing. */
gboolean db_store_bury_dead (DbDatabase *db, GError **error);

G_END_DECLS
