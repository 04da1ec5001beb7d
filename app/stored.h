/* app/stored.h - use case: what the database already knows. */
#pragma once
#include "db/query.h"
#include "db/store.h"
#include <glib.h>
G_BEGIN_DECLS
/* @which: a plan id or "best". Returns: (owned). */
DbPlan *app_stored_plan (const char *db_path, const char *which, GError **error);
/* FALSE for a plan that was made for a changed machine (--what-if): its name alone does not give
 * that machine back. @what: "simulate plays", … */
gboolean app_stored_plan_is_of_machine (const DbPlan *plan, const char *what, GError **error);
/* Read-only SQL. */
gboolean app_stored_query (const char *db_path, const char *sql, const DbQueryHandler *handler,
                           GError **error);
/* Every table, view and column in words. (owned) */
char *app_stored_schema (void);
G_END_DECLS
