/* app/validate_stats.c - errors, coverage, and how well the risk tells what ran. */
#include "app/validate-private.h"

#include "base/stats.h"

#include <math.h>

/* One compared figure. */
typedef struct {
  double predicted, p10, p90, measured;
} Pair;

static void
stats_of (AppErrorStats *out, const GArray *pairs)
{
  guint n = pairs->len;
  g_autofree double *error = g_new (double, MAX (n, 1));
  g_autofree double *distance = g_new (double, MAX (n, 1));
  g_autofree double *width = g_new (double, MAX (n, 1));
  guint covered = 0;

  for (guint i = 0; i < n; i++) {
    const Pair *pair = &g_array_index (pairs, Pair, i);

    error[i] = pair->predicted / pair->measured - 1;
    distance[i] = fabs (error[i]);
    width[i] = pair->p90 / pair->p10;
    covered += pair->measured >= pair->p10 && pair->measured <= pair->p90;
  }
  *out = (AppErrorStats){ .n = n,
                          .median_abs_err = base_quantile (distance, n, 0.5),
                          .mean_abs_err = n > 0 ? base_mean (distance, n) : NAN,
                          .p90_abs_err = base_quantile (distance, n, 0.9),
                          .bias = base_quantile (error, n, 0.5),
                          .coverage_80 = n > 0 ? (double)covered / n : NAN,
                          .width_80 = base_quantile (width, n, 0.5) };
}

void
validate_stats_step (AppErrorStats *out, const GPtrArray *rows, ValidateFilter filter,
                     gconstpointer data)
{
  g_autoptr (GArray) pairs = g_array_new (FALSE, FALSE, sizeof (Pair));

  for (guint i = 0; i < rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (rows, i);
    const Pair pair
        = { row->predicted_s, row->predicted_p10_s, row->predicted_p90_s, row->measured_s };

    if (row->measured_s > 0 && filter (row, data))
      g_array_append_val (pairs, pair);
  }
  stats_of (out, pairs);
}

void
validate_stats_memory (AppErrorStats *out, const GPtrArray *rows, ValidateFilter filter,
                       gconstpointer data)
{
  g_autoptr (GArray) pairs = g_array_new (FALSE, FALSE, sizeof (Pair));

  for (guint i = 0; i < rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (rows, i);
    const Pair pair = { row->predicted_bytes, row->predicted_p10_bytes, row->predicted_p90_bytes,
                        row->measured_bytes };

    if (row->measured_bytes > 0 && filter (row, data))
      g_array_append_val (pairs, pair);
  }
  stats_of (out, pairs);
}

static void
add_to_bins (AppOomStats *out, const AppValidateRow *row)
{
  guint bin = (guint)CLAMP (row->oom_risk * 10, 0, 9);

  out->bin_n[bin]++;
  out->bin_risk[bin] += row->oom_risk;
  out->bin_n_oom[bin] += !row->ran;
}

void
validate_stats_oom (AppOomStats *out, const GPtrArray *rows)
{
  double squares = 0;

  *out = (AppOomStats){ .brier = NAN, .noisy_auc = NAN, .noisy_auc_pp8 = NAN };
  for (guint i = 0; i < rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (rows, i);
    double miss = row->oom_risk - !row->ran;

    if (!row->risk_known) {
      out->n_unknown++;
      continue;
    }
    out->n_oom += !row->ran;
    out->n_ran += row->ran;
    out->oom_below_half += !row->ran && row->oom_risk < 0.5;
    out->ran_above_half += row->ran && row->oom_risk > 0.5;
    squares += miss * miss;
    add_to_bins (out, row);
  }
  if (out->n_oom + out->n_ran > 0)
    out->brier = squares / (out->n_oom + out->n_ran);
}

typedef struct {
  double risk;
  gboolean bad;
} Ranked;

static gint
by_risk (gconstpointer a, gconstpointer b)
{
  double x = ((const Ranked *)a)->risk, y = ((const Ranked *)b)->risk;

  return (x > y) - (x < y);
}

/* Mann-Whitney: ranks of the bad among all, equal risks share their mean rank. */
double
validate_stats_auc (const GArray *bad, const GArray *good)
{
  guint n = bad->len + good->len;
  g_autofree Ranked *all = g_new0 (Ranked, MAX (n, 1));
  double rank_sum = 0;

  if (bad->len == 0 || good->len == 0)
    return NAN;
  for (guint i = 0; i < n; i++)
    all[i] = i < bad->len ? (Ranked){ g_array_index (bad, double, i), TRUE }
                          : (Ranked){ g_array_index (good, double, i - bad->len), FALSE };
  qsort (all, n, sizeof *all, by_risk);
  for (guint i = 0, end = 0; i < n; i = end) {
    guint n_bad = 0;

    for (end = i; end < n && all[end].risk == all[i].risk; end++)
      n_bad += all[end].bad;
    rank_sum += n_bad * (i + 1 + end) / 2.0;
  }
  return (rank_sum - bad->len * (bad->len + 1.0) / 2) / ((double)bad->len * good->len);
}

/* ---- everything that follows from the rows ---- */

static gboolean
all_rows (const AppValidateRow *row, gconstpointer data)
{
  return TRUE;
}

static gboolean
scored (const AppValidateRow *row, gconstpointer data)
{
  return row->use >= 1;
}

static gboolean
scored_stated (const AppValidateRow *row, gconstpointer data)
{
  return row->use >= 1 && row->mem_kind != APP_MEM_UNSTATED;
}

static gboolean
scored_of_kind (const AppValidateRow *row, gconstpointer data)
{
  return row->use >= 1 && row->mem_kind == *(const AppMemKind *)data;
}

/* Rows whose value of column @by is @name. */
typedef struct {
  guint by;
  const char *name;
  gboolean memory;
} Group;

static gboolean
in_group (const AppValidateRow *row, gconstpointer data)
{
  const Group *group = data;

  return row->use >= 1 && g_str_equal (row->groups[group->by], group->name)
         && !(group->memory && row->mem_kind == APP_MEM_UNSTATED);
}

static gint
by_text (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(const char *const *)a, *(const char *const *)b);
}

static void
group_clear (gpointer group)
{
  g_free (((AppErrorGroup *)group)->name);
}

static GArray *
groups_of (const GPtrArray *rows, guint by)
{
  GArray *groups = g_array_new (FALSE, TRUE, sizeof (AppErrorGroup));
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  g_array_set_clear_func (groups, group_clear);
  for (guint i = 0; i < rows->len; i++) {
    char *name = ((const AppValidateRow *)g_ptr_array_index (rows, i))->groups[by];

    if (g_hash_table_add (seen, name))
      g_ptr_array_add (names, name);
  }
  g_ptr_array_sort (names, by_text);
  for (guint i = 0; i < names->len; i++) {
    Group group = { .by = by, .name = g_ptr_array_index (names, i) };
    AppErrorGroup out = { .name = g_strdup (*group.name != '\0' ? group.name : "unstated") };

    validate_stats_step (&out.step_time, rows, in_group, &group);
    group.memory = TRUE;
    validate_stats_memory (&out.memory, rows, in_group, &group);
    g_array_append_val (groups, out);
  }
  return groups;
}

void
validate_summarise (AppValidation *out)
{
  validate_stats_step (&out->step_time, out->rows, scored, NULL);
  validate_stats_step (&out->step_time_all, out->rows, all_rows, NULL);
  validate_stats_memory (&out->memory, out->rows, scored_stated, NULL);
  for (AppMemKind kind = APP_MEM_ALLOCATED; kind < APP_MEM_N_KINDS; kind++)
    validate_stats_memory (&out->memory_by_kind[kind], out->rows, scored_of_kind, &kind);
  validate_stats_oom (&out->oom, out->rows);
  out->groups = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  for (guint i = 0; out->by[i] != NULL; i++)
    g_ptr_array_add (out->groups, groups_of (out->rows, i));
}
