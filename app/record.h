/* app/record.h - predictions as the records that are stored, printed and read back.
 *
 * Everything shown to a user, fresh or from the database, is a DbPlan: one form, one printer.
 */
#pragma once
#include "app/problem.h"
#include "db/store.h"
#include <glib.h>
G_BEGIN_DECLS
/* @rank: 1 is best of its search point. Returns: (owned) with every string and array its own. */
DbPlan *app_record_plan (const AppProblem *problem, const ModelLayout *layout,
                         const CostPrediction *prediction, gint64 rank);
/* The same for the later plans of a search point, without the texts that identify the inputs: those
 * are stored with the first plan. */
DbPlan *app_record_next_plan (const AppProblem *problem, const ModelLayout *layout,
                              const CostPrediction *prediction, gint64 rank);

/* The main facts of a machine, as "key=value" lines: what a calibration made on it is known by, whatever
 * was measured or noted since. (owned) */
char *app_record_machine_content (const TopoMachine *machine);
/* The same with a last line "details=HASH" of all else that predictions depend on (rates of single
 * links, places, the spine, measured curves): what a plan is known by. (owned) */
char *app_record_machine_whole (const TopoMachine *machine);

/* Stores the inputs of @plan and fills in their ids; the ids of plans with the same inputs are
 * the same. */
gboolean app_record_store_inputs (DbDatabase *db, DbPlan *plan, GError **error);
G_END_DECLS
