/* app/plan_sweep.c - the search points of a request: machines × GPU counts × batches × sequences. */
#include "app/plan-private.h"

#include "base/units.h"

/* More points than anybody reads, and more layouts than a week costs: unless --limit says so. */
#define MOST_POINTS  10000
#define MOST_LAYOUTS G_GUINT64_CONSTANT (100000000000)
/* Playing a plan takes longer than finding it. */
#define MOST_PLAYS            100 /* of a sweep, but for the best of each point */
#define MOST_PLAYS_OF_A_POINT 10

static void
setting_free (gpointer setting)
{
  app_setting_clear (setting);
  g_free (setting);
}

void
app_plan_points_clear (AppPlanPoints *points)
{
  g_clear_pointer (&points->problems, g_ptr_array_unref);
  g_clear_pointer (&points->settings, g_ptr_array_unref);
}

/* ---- how large ---- */

static guint64
n_values (const GArray *list)
{
  return list != NULL ? MAX (list->len, 1) : 1;
}

static guint64
times (guint64 a, guint64 b)
{
  guint64 product = 0;

  return __builtin_mul_overflow (a, b, &product) ? G_MAXUINT64 : product;
}

static guint64
count_points (const AppPlanRequest *request)
{
  return times (times (g_strv_length ((char **)request->machines), n_values (request->gpus)),
                times (n_values (request->batches), n_values (request->seqs)));
}

guint
app_plan_default_plays (const AppPlanRequest *request)
{
  return (guint)CLAMP (MOST_PLAYS / MAX (count_points (request), 1), 1, MOST_PLAYS_OF_A_POINT);
}

static gboolean
check_points (const AppPlanRequest *request, GError **error)
{
  guint64 machines = g_strv_length ((char **)request->machines);
  guint64 gpus = n_values (request->gpus);
  guint64 batches = n_values (request->batches);
  guint64 seqs = n_values (request->seqs);
  guint64 points = count_points (request);
  guint64 most = request->limit > 0 ? request->limit : MOST_POINTS;

  if (points <= most)
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "the sweep has %" G_GUINT64_FORMAT " search points (%" G_GUINT64_FORMAT
               " machines × %" G_GUINT64_FORMAT " GPU counts × %" G_GUINT64_FORMAT
               " batches × %" G_GUINT64_FORMAT " sequence lengths), above the limit of "
               "%" G_GUINT64_FORMAT ": shorten a list or raise --limit",
               points, machines, gpus, batches, seqs, most);
  return FALSE;
}

/* Raw layouts of all points, as far as they can be counted. */
static gboolean
check_layouts (const AppPlanPoints *points, const AppPlanRequest *request, GError **error)
{
  const char *text = request->pins != NULL ? request->pins : "";
  guint64 most = request->limit > 0 ? request->limit : MOST_LAYOUTS;
  guint64 sum = 0;

  for (guint i = 0; i < points->problems->len; i++) {
    const AppProblem *problem = g_ptr_array_index (points->problems, i);
    g_auto (ModelLayout) pins = { 0 };
    g_auto (SimSpace) space = { 0 };

    if (!app_layout_from_text (&pins, problem, text, error)
        || !sim_space_init (&space, &problem->problem, &pins, sim_space_pins_of_text (text), error))
      return FALSE;
    sum = __builtin_add_overflow (sum, sim_space_size (&space), &sum) ? G_MAXUINT64 : sum;
  }
  if (sum <= most)
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "the %u search points have %" G_GUINT64_FORMAT
               " layouts to look at, above the limit of %" G_GUINT64_FORMAT
               ": pin some keys with --layout, shorten a list or raise --limit",
               points->problems->len, sum, most);
  return FALSE;
}

/* ---- all of them ---- */

static gboolean
resolve_points_of (AppPlanPoints *points, const AppSetting *setting, const AppPlanRequest *request,
                   GError **error)
{
  guint n_batches = request->batches != NULL ? request->batches->len : 0;
  guint n_seqs = request->seqs != NULL ? request->seqs->len : 0;

  for (guint g = 0; g < request->gpus->len; g++)
    for (guint b = 0; b < MAX (n_batches, 1); b++)
      for (guint s = 0; s < MAX (n_seqs, 1); s++) {
        AppProblem *problem = g_new0 (AppProblem, 1);

        g_ptr_array_add (points->problems, problem);
        if (!app_problem_init (problem, setting, g_array_index (request->gpus, guint64, g),
                               n_batches > 0 ? g_array_index (request->batches, guint64, b) : 0,
                               n_seqs > 0 ? g_array_index (request->seqs, guint64, s) : 0, error))
          return FALSE;
      }
  return TRUE;
}

gboolean
app_plan_points_resolve (AppPlanPoints *points, const AppPlanRequest *request, GError **error)
{
  if (!check_points (request, error))
    return FALSE;
  points->settings = g_ptr_array_new_with_free_func (setting_free);
  points->problems = g_ptr_array_new_with_free_func (g_free);
  for (const char *const *machine = request->machines; *machine != NULL; machine++) {
    AppSetting *setting = g_new0 (AppSetting, 1);
    AppInputs inputs = request->inputs;

    g_ptr_array_add (points->settings, setting);
    inputs.machine = *machine;
    if (!app_setting_init (setting, &inputs, error)
        || !resolve_points_of (points, setting, request, error))
      return FALSE;
  }
  if (points->problems->len == 0) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "nothing to plan: name at least one machine");
    return FALSE;
  }
  return check_layouts (points, request, error);
}
