/* cli/plan_rank.c - the ranking under a sweep's tables. */
#include "cli/plan_rank.h"

#include "base/units.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"

#include <math.h>

static gboolean
parse_positive (const char *option, const char *text, BaseDim dim, double *out, GError **error)
{
  if (text == NULL)
    return TRUE;
  if (!base_units_parse (text, dim, out, error)) {
    g_prefix_error (error, "%s: ", option);
    return FALSE;
  }
  if (*out > 0)
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "%s: found '%s', expected more than 0", option,
               text);
  return FALSE;
}

gboolean
cli_rank_parse (const char *objective, gboolean pareto, const char *tokens, const char *deadline,
                CliRank *out, GError **error)
{
  *out = (CliRank){ .request.deadline_s = INFINITY,
                    .only_pareto = pareto,
                    .asked = objective != NULL || pareto || tokens != NULL || deadline != NULL };
  if (objective != NULL && !app_objective_parse (objective, &out->request.objective, error)) {
    g_prefix_error (error, "--objective: ");
    return FALSE;
  }
  if (!parse_positive ("--tokens", tokens, BASE_DIM_TOKENS, &out->request.tokens, error)
      || !parse_positive ("--deadline", deadline, BASE_DIM_SECONDS, &out->request.deadline_s,
                          error))
    return FALSE;
  if (deadline == NULL || tokens != NULL)
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
               "--deadline needs --tokens: how many tokens by then? For example --tokens 15T");
  return FALSE;
}

void
cli_rank_filter (const CliRank *rank, GArray *ranked)
{
  guint kept = 0;

  for (guint i = 0; rank->only_pareto && i < ranked->len; i++)
    if (g_array_index (ranked, AppRanked, i).is_pareto)
      g_array_index (ranked, AppRanked, kept++) = g_array_index (ranked, AppRanked, i);
  if (rank->only_pareto)
    g_array_set_size (ranked, kept);
}

/* ---- for people ---- */

static char *
time_text (double time_s)
{
  return time_s >= 86400 ? g_strdup_printf ("%.1f d", time_s / 86400)
                         : base_units_format_seconds (time_s);
}

/* As --tokens is written: "15T". (owned) */
static char *
tokens_text (double tokens)
{
  static const struct {
    const char *unit;
    double si;
  } units[] = { { "T", 1e12 }, { "B", 1e9 }, { "M", 1e6 } };

  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    if (tokens >= units[i].si)
      return g_strdup_printf ("%.6g%s", tokens / units[i].si, units[i].unit);
  return g_strdup_printf ("%.0f", tokens);
}

static void
print_title (const CliRank *rank)
{
  g_autofree char *deadline = time_text (rank->request.deadline_s);
  g_autofree char *tokens = tokens_text (rank->request.tokens);

  printf ("Search points by %s, ", app_objective_name (rank->request.objective));
  if (rank->request.tokens > 0)
    printf ("for %s tokens", tokens);
  else
    printf ("for 10^12 tokens");
  if (isfinite (rank->request.deadline_s))
    printf (" within %s", deadline);
  puts (rank->only_pareto ? ": the front of time, GPUs and cost"
                          : " (*: on the front of time, GPUs and cost)");
}

static void
add_row (CliTable *table, guint place, const AppRanked *ranked, gboolean has_deadline)
{
  const AppPlanPoint *point = ranked->point;
  const DbPlan *best = g_ptr_array_index (point->plans, 0);

  cli_table_row (table);
  cli_table_cell (table, "%u%s", place, ranked->is_pareto ? "*" : "");
  cli_table_cell (table, "%s", point->machine);
  cli_table_cell (table, "%" G_GUINT64_FORMAT, point->gpus);
  cli_table_cell (table, "%" G_GUINT64_FORMAT, point->global_batch);
  cli_table_cell (table, "%" G_GUINT64_FORMAT, point->seq);
  cli_table_cell_owned (table, base_units_format_seconds (best->plan.prediction.step_s));
  cli_table_cell_owned (table, time_text (ranked->time_s));
  if (has_deadline)
    cli_table_cell (table, "%s", ranked->meets_deadline ? "yes" : "no");
  if (isnan (ranked->cost_usd))
    cli_table_cell (table, "%s", "unknown");
  else
    cli_table_cell_owned (table, cli_format_usd (ranked->cost_usd));
  cli_table_cell_owned (table, model_layout_shorten (best->plan.layout_text));
}

void
cli_rank_print (const CliRank *rank, const GArray *ranked)
{
  static const struct {
    const char *header;
    CliAlign align;
  } columns[] = { { "place", CLI_RIGHT }, { "machine", CLI_LEFT }, { "GPUs", CLI_RIGHT },
                  { "batch", CLI_RIGHT }, { "seq", CLI_RIGHT },    { "step", CLI_RIGHT },
                  { "time", CLI_RIGHT },  { "in time", CLI_LEFT }, { "USD", CLI_RIGHT },
                  { "layout", CLI_LEFT } };
  gboolean has_deadline = isfinite (rank->request.deadline_s);
  g_autoptr (CliTable) table = cli_table_new ();

  print_title (rank);
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (has_deadline || !g_str_equal (columns[i].header, "in time"))
      cli_table_column (table, columns[i].header, columns[i].align);
  for (guint i = 0; i < ranked->len; i++)
    add_row (table, i + 1, &g_array_index (ranked, AppRanked, i), has_deadline);
  cli_table_print (table, stdout, FALSE);
  if (!cli_rank_is_met (rank, ranked))
    puts ("no search point meets the deadline");
}

/* ---- JSON ---- */

static void
add_point (JsonBuilder *builder, const AppRanked *ranked)
{
  const AppPlanPoint *point = ranked->point;
  const DbPlan *best = g_ptr_array_index (point->plans, 0);

  json_builder_begin_object (builder);
  cli_json_text (builder, "machine", point->machine);
  cli_json_count (builder, "gpus", (gint64)point->gpus);
  cli_json_count (builder, "global_batch", (gint64)point->global_batch);
  cli_json_count (builder, "seq", (gint64)point->seq);
  cli_json_text (builder, "layout_text", best->plan.layout_text);
  cli_json_number (builder, "step_s", best->plan.prediction.step_s);
  cli_json_number (builder, "tokens_per_s", ranked->tokens_per_s);
  cli_json_number (builder, "time_s", ranked->time_s);
  cli_json_number (builder, "cost_usd", ranked->cost_usd);
  cli_json_number (builder, "tokens_per_usd", ranked->tokens_per_usd);
  json_builder_set_member_name (builder, "meets_deadline");
  json_builder_add_boolean_value (builder, ranked->meets_deadline);
  json_builder_set_member_name (builder, "pareto");
  json_builder_add_boolean_value (builder, ranked->is_pareto);
  json_builder_end_object (builder);
}

void
cli_rank_json (JsonBuilder *builder, const CliRank *rank, const GArray *ranked)
{
  json_builder_set_member_name (builder, "ranking");
  json_builder_begin_object (builder);
  cli_json_text (builder, "objective", app_objective_name (rank->request.objective));
  cli_json_number (builder, "tokens", rank->request.tokens > 0 ? rank->request.tokens : 1e12);
  cli_json_number (builder, "deadline_s", rank->request.deadline_s);
  json_builder_set_member_name (builder, "points");
  json_builder_begin_array (builder);
  for (guint i = 0; i < ranked->len; i++)
    add_point (builder, &g_array_index (ranked, AppRanked, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

gboolean
cli_rank_is_met (const CliRank *rank, const GArray *ranked)
{
  return !isfinite (rank->request.deadline_s)
         || (ranked->len > 0 && g_array_index (ranked, AppRanked, 0).meets_deadline);
}
