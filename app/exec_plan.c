/* app/exec_plan.c - a stored plan as what exec runs. */
#include "app/exec.h"
#include "app/stored.h"
#include "exec/launch.h"

/* The launcher tells its ranks which plan "best" was. */
#define PLAN_VARIABLE "PLAIT_EXEC_PLAN"

static gboolean
check_model (const DbPlan *plan, const char *catalog_dir, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (catalog_dir, error);
  g_autoptr (ModelArch) arch
      = catalog != NULL ? model_arch_load (catalog, plan->model.name, error) : NULL;
  if (arch == NULL)
    return FALSE;
  g_autofree char *now = model_arch_to_ini (arch);
  if (g_str_equal (now, plan->model.content))
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "plan %" G_GINT64_FORMAT ": model '%s' has changed since it was planned; plan again",
               plan->plan.plan_id, plan->model.name);
  return FALSE;
}

gboolean
app_exec_plan (AppExecPlan *out, const char *db_path, const char *catalog_dir, const char *which,
               GError **error)
{
  gboolean is_rank = exec_place () == EXEC_PLACE_RANK;
  const char *resolved = is_rank ? g_getenv (PLAN_VARIABLE) : NULL;
  *out = (AppExecPlan){ 0 };
  out->plan = app_stored_plan (db_path, resolved != NULL ? resolved : which, error);
  if (out->plan == NULL || !check_model (out->plan, catalog_dir, error)) {
    app_exec_plan_clear (out);
    return FALSE;
  }
  const DbPlanRecord *plan = &out->plan->plan;
  out->ranks = (guint64)plan->gpus;
  out->global_batch = (guint64)plan->global_batch;
  out->seq = (guint64)plan->seq;
  out->model = out->plan->model.name;
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
