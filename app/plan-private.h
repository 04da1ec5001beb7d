/* app/plan-private.h - one search point: made, stored, and found again by a run that goes on. */
#pragma once
#include "app/plan.h"
G_BEGIN_DECLS

AppPlanPoint *app_plan_point_new (const AppProblem *problem);
void app_plan_point_free (AppPlanPoint *point);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppPlanPoint, app_plan_point_free)

/* What identifies a point within a database. Returns: (owned) */
char *app_plan_point_hash (const AppPlanPoint *point, const char *run_hash);
gboolean app_plan_point_store (const AppPlanPoint *point, DbDatabase *db, gint64 run_id,
                               const char *run_hash, GError **error);
/* *out_found: the run has this point already, and @point is filled from there. */
gboolean app_plan_point_load (AppPlanPoint *point, DbDatabase *db, gint64 run_id,
                              const char *run_hash, gboolean *out_found, GError **error);

/* ---- plan_play.c: the best plans of a point, played on threads of their own ---- */

typedef struct _AppPlanPlays AppPlanPlays;
/* Begins to play the first ones, and takes @result for it; @point, @problem and @request are used
 * until the end, @point by nobody else. Returns: (owned) NULL if there are none to play. */
AppPlanPlays *app_plan_plays_start (AppPlanPoint *point, const AppProblem *problem,
                                    const AppPlanRequest *request, SimSearchResult *result);
/* Waits for the end; then the point has its simulated_s, and its order where that is asked for.
 * FALSE with SIM_ERROR_CANCELLED when the request was cancelled. */
gboolean app_plan_plays_finish (AppPlanPlays *plays, GError **error);
/* Waits as well. */
void app_plan_plays_free (AppPlanPlays *plays);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppPlanPlays, app_plan_plays_free)

/* ---- plan_sweep.c: all points of a request ---- */

/* Everything resolved before any work: bad input fails before a database is opened. */
typedef struct {
  GPtrArray *settings; /* (owned) AppSetting *, one per machine */
  GPtrArray *problems; /* (owned) AppProblem * */
} AppPlanPoints;
void app_plan_points_clear (AppPlanPoints *points);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AppPlanPoints, app_plan_points_clear)
/* Refuses sweeps that are too large, saying how large they are. */
gboolean app_plan_points_resolve (AppPlanPoints *points, const AppPlanRequest *request,
                                  GError **error);
G_END_DECLS
