/* app/exec_plan.c - a stored plan as what exec runs. */
#include "app/exec.h"
#include "app/stored.h"
#include "exec/launch.h"

/* The launcher tells its ranks which plan "best" was. */
#define PLAN_VARIABLE "PLAIT_EXEC_PLAN"

gboolean
app_exec_plan (AppExecPlan *out, const char *db_path, const char *which, GError **error)
{
  gboolean is_rank = exec_place () == EXEC_PLACE_RANK;
  const char *resolved = is_rank ? g_getenv (PLAN_VARIABLE) : NULL;
  *out = (AppExecPlan){ 0 };
  out->plan = app_stored_plan (db_path, resolved != NULL ? resolved : which, error);
  if (out->plan == NULL)
    return FALSE;
  const DbPlanRecord *plan = &out->plan->plan;
  out->ranks = (guint64)plan->gpus;
  out->global_batch = (guint64)plan->global_batch;
  out->seq = (guint64)plan->seq;
  out->model = out->plan->model.name;
  out->model_content = out->plan->model.content;
  out->layout = plan->layout_text;
  g_autofree char *id = g_strdup_printf ("%" G_GINT64_FORMAT, plan->plan_id);
  g_setenv (PLAN_VARIABLE, id, TRUE);
  return TRUE;
}

void
app_exec_plan_clear (AppExecPlan *plan)
{
  if (plan == NULL)
    return;
  g_clear_pointer (&plan->plan, db_plan_free);
}
