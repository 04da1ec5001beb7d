/* app/stored.h - use case: what the database already knows. */
#pragma once
#include "app/problem.h"
#include "db/query.h"
#include "db/store.h"
#include <glib.h>
G_BEGIN_DECLS
/* @which: a plan id or "best". Returns: (owned). */
DbPlan *app_stored_plan (const char *db_path, const char *which, GError **error);

/*
 * What @plan was made of, where @inputs is silent. The model is the one that was stored, whatever
 * became of its file; machine, GPU and profile are looked up again, by the words that the plan's run
 * was given (paths, --what-if), else by name.
 *
 * @plan: lends its strings to @inputs
 * @gpus: to be played or predicted on; 0: the plan's. A live machine has as many devices at least
 */
void app_stored_inputs (DbPlan *plan, const char *db_path, guint64 gpus, AppInputs *inputs);
/* Whether @machine, looked up again, is still what @plan was made for. @else_do: what helps beside
 * planning again, after a comma; may be "". */
gboolean app_stored_plan_is_of_machine (const DbPlan *plan, const TopoMachine *machine,
                                        const char *else_do, GError **error);
/* Read-only SQL. */
gboolean app_stored_query (const char *db_path, const char *sql, const DbQueryHandler *handler,
                           GError **error);
/* Every table, view and column in words. (owned) */
char *app_stored_schema (void);
G_END_DECLS
