/* cli/simulate_text.c - a played step for people. */
#include "cli/simulate_output.h"

#include "base/units.h"

#include <math.h>

#define GIB       1073741824.0
#define MOST_ROWS 32 /* ranks and critical steps printed */

char *
cli_traffic_names (guint32 traffic)
{
  static const struct {
    guint kind;
    const char *name;
  } names[] = { { MODEL_GROUP_TP, "tp" },
                { MODEL_GROUP_CP, "cp" },
                { MODEL_GROUP_EP, "ep" },
                { MODEL_GROUP_ETP, "etp" },
                { MODEL_GROUP_DP, "dp" },
                { MODEL_GROUP_DPCP, "dp" },
                { MODEL_GROUP_HSDP_SHARD, "dp shard" },
                { MODEL_GROUP_HSDP_REPLICATE, "dp copies" },
                { MODEL_GROUP_EDP, "expert dp" },
                { MODEL_GROUP_EDP_SHARD, "expert dp shard" },
                { MODEL_GROUP_EDP_REPLICATE, "expert dp copies" },
                { MODEL_GROUP_EMBEDDING, "embedding" },
                { SIM_TRAFFIC_NEXT, "activations" },
                { SIM_TRAFFIC_BACK, "gradients back" },
                { SIM_TRAFFIC_MIRROR, "mirror" } };
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (traffic >> names[i].kind & 1)
      g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", names[i].name);
  return g_string_free (text, FALSE);
}

const char *
cli_step_name (guint kind)
{
  static const char *const names[] = { [MODEL_STEP_FORWARD] = "F",
                                       [MODEL_STEP_BACKWARD] = "B",
                                       [MODEL_STEP_BACKWARD_INPUT] = "I",
                                       [MODEL_STEP_BACKWARD_WEIGHT] = "W" };
  return kind < G_N_ELEMENTS (names) ? names[kind] : "tail";
}

static void
print_headline (const AppSimulateResult *result, const AppSimulateRequest *request)
{
  const DbPlan *plan = result->plan;
  const SimResult *play = &result->first;
  double step_s = plan->plan.prediction.step_s;
  g_autofree char *simulated = base_units_format_seconds (result->simulated_s);
  g_autofree char *step = base_units_format_seconds (step_s);
  g_autofree char *ops = base_units_format_count (play->op_count);
  g_autofree char *layout = model_layout_shorten (plan->plan.layout_text);

  printf ("%s on %" G_GINT64_FORMAT " × %s, batch %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT
          " tokens\n%s\n\n",
          plan->model.name, plan->plan.gpus, plan->machine.name, plan->plan.global_batch,
          plan->plan.seq, layout);
  printf (
      "step simulated %s, predicted %s (%+.2f %%); utilisation %.1f %%; %s ops of %u rank%s%s\n",
      simulated, step, 100 * (result->simulated_s / step_s - 1), 100 * play->utilisation, ops,
      play->n_ranks, play->n_ranks == 1 ? "" : "s",
      request->full ? "" : ", each for all that behave alike");
  if (result->runs > 1) {
    g_autofree char *low = base_units_format_seconds (result->step.p10);
    g_autofree char *high = base_units_format_seconds (result->step.p90);
    g_autofree char *min = base_units_format_seconds (result->step.min);
    g_autofree char *max = base_units_format_seconds (result->step.max);
    printf ("%u runs: p10 %s, p90 %s, from %s to %s (ranks below: the first run)\n", result->runs,
            low, high, min, max);
  }
}

static void
print_cell_s (CliTable *table, double time_s)
{
  if (time_s > 0)
    cli_table_cell_owned (table, base_units_format_seconds (time_s));
  else
    cli_table_cell (table, "%s", "");
}

/* Mean over the ranks, the longest chain, and what each part's being faster would bring. */
static void
print_parts (const AppSimulateResult *result)
{
  const SimResult *play = &result->first;
  g_autoptr (CliTable) table = cli_table_new ();
  double mean_s[COST_PART_N_KINDS] = { 0 }, ranks = 0;

  for (guint32 r = 0; r < play->n_ranks; r++) {
    ranks += play->ranks[r].stands_for;
    for (guint part = 0; part < COST_PART_N_KINDS; part++)
      mean_s[part] += play->ranks[r].stands_for * play->ranks[r].parts_s[part];
  }
  puts ("\nWhere the time goes, as played (before the fitted corrections)");
  cli_table_column (table, "part", CLI_LEFT);
  cli_table_column (table, "a rank, mean", CLI_RIGHT);
  cli_table_column (table, "share", CLI_RIGHT);
  cli_table_column (table, "on the critical path", CLI_RIGHT);
  cli_table_column (table, "10 % faster saves", CLI_RIGHT);
  for (guint part = 0; part < COST_PART_N_KINDS; part++) {
    double part_s = mean_s[part] / ranks;
    if (!(part_s > 0) && !(play->critical_s[part] > 0))
      continue;
    cli_table_row (table);
    cli_table_cell (table, "%s", cost_part_name ((CostPart)part));
    print_cell_s (table, part_s);
    cli_table_cell (table, "%.1f %%", 100 * part_s / play->played_s);
    print_cell_s (table, play->critical_s[part]);
    if (isfinite (result->saving_ratio[part]))
      cli_table_cell (table, "%.2f %%", 100 * result->saving_ratio[part]);
    else
      cli_table_cell (table, "%s", "");
  }
  cli_table_print (table, stdout, FALSE);
}

static void
print_contention (const AppSimulateResult *result, const AppSimulateRequest *request)
{
  const SimResult *play = &result->first;
  g_autofree char *played = base_units_format_seconds (play->played_s);
  g_autofree char *alone = base_units_format_seconds (result->undisturbed_s);
  g_autofree char *tier2 = base_units_format_seconds (result->recurrence_s);

  printf ("\nplayed %s; undisturbed %s; by the recurrence %s (%+.2f %%)\n", played, alone, tier2,
          100 * (play->played_s / result->recurrence_s - 1));
  if (request->ideal)
    return;
  if (play->n_links == 0)
    puts ("no link was asked for more than it has");
  for (guint i = 0; i < MIN (play->n_links, 5); i++) {
    g_autofree char *traffic = cli_traffic_names (play->links[i].traffic);
    g_autofree char *lost = base_units_format_seconds (play->links[i].lost_s);
    printf ("  link %s: %s meet, late by %s in all\n", play->links[i].name, traffic, lost);
  }
  if (play->slowed_s > 0) {
    g_autofree char *slowed = base_units_format_seconds (play->slowed_s / play->n_ranks);
    printf ("  compute beside communication: slower by %s a rank\n", slowed);
  }
  if (play->queued_s > 0) {
    g_autofree char *queued = base_units_format_seconds (play->queued_s / play->n_ranks);
    printf ("  streams still busy with a hidden part: %s a rank\n", queued);
  }
}

static void
print_ranks (const SimResult *play)
{
  static const CostPart parts[]
      = { COST_PART_COMPUTE,   COST_PART_TP, COST_PART_CP,        COST_PART_EP,   COST_PART_P2P,
          COST_PART_PP_BUBBLE, COST_PART_DP, COST_PART_OPTIMIZER, COST_PART_OTHER };
  g_autoptr (CliTable) table = cli_table_new ();
  guint32 n = MIN (play->n_ranks, MOST_ROWS);

  puts ("\nRanks");
  cli_table_column (table, "rank", CLI_RIGHT);
  cli_table_column (table, "stage", CLI_RIGHT);
  cli_table_column (table, "for", CLI_RIGHT);
  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    cli_table_column (table, cost_part_name (parts[i]), CLI_RIGHT);
  cli_table_column (table, "peak GiB", CLI_RIGHT);
  cli_table_column (table, "closed form", CLI_RIGHT);
  cli_table_column (table, "at op", CLI_LEFT);
  for (guint32 r = 0; r < n; r++) {
    const SimRank *rank = &play->ranks[r];
    cli_table_row (table);
    cli_table_cell (table, "%u", rank->rank);
    cli_table_cell (table, "%u", rank->pp_rank);
    cli_table_cell (table, "%u", rank->stands_for);
    for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
      print_cell_s (table, rank->parts_s[parts[i]]);
    cli_table_cell (table, "%.2f", (double)rank->peak_bytes / GIB);
    cli_table_cell (table, "%.2f", (double)rank->closed_bytes / GIB);
    if (rank->peak_chunk != G_MAXUINT32)
      cli_table_cell (table, "%s of chunk %u, micro-batch %u", rank->peak_op, rank->peak_chunk,
                      rank->peak_microbatch);
    else
      cli_table_cell (table, "%s", rank->peak_op);
  }
  cli_table_print (table, stdout, FALSE);
  if (n < play->n_ranks)
    printf ("(%u of %u ranks; --json and --csv have all)\n", n, play->n_ranks);
}

void
cli_simulate_csv (const AppSimulateResult *result)
{
  const SimResult *play = &result->first;
  g_autoptr (CliTable) table = cli_table_new ();
  static const char *const headers[] = { "rank", "pp_rank", "stands_for_count" };

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], CLI_LEFT);
  for (guint part = 0; part < COST_PART_N_KINDS; part++) {
    g_autofree char *header = g_strdup_printf ("%s_s", cost_part_name ((CostPart)part));
    cli_table_column (table, header, CLI_LEFT);
  }
  cli_table_column (table, "allocated_bytes", CLI_LEFT);
  cli_table_column (table, "peak_op", CLI_LEFT);
  for (guint32 r = 0; r < play->n_ranks; r++) {
    const SimRank *rank = &play->ranks[r];
    cli_table_row (table);
    cli_table_cell (table, "%u", rank->rank);
    cli_table_cell (table, "%u", rank->pp_rank);
    cli_table_cell (table, "%u", rank->stands_for);
    for (guint part = 0; part < COST_PART_N_KINDS; part++)
      cli_table_cell (table, "%.17g", rank->parts_s[part]);
    cli_table_cell (table, "%" G_GUINT64_FORMAT, rank->peak_bytes);
    cli_table_cell (table, "%s", rank->peak_op);
  }
  cli_table_print (table, stdout, TRUE);
}

void
cli_simulate_text (const AppSimulateResult *result, const AppSimulateRequest *request,
                   const CliCommon *common)
{
  print_headline (result, request);
  print_parts (result);
  print_contention (result, request);
  print_ranks (&result->first);
  if (request->trace_path != NULL && !common->quiet) {
    g_autofree char *count = base_units_format_count (result->trace_count);
    printf ("\n%s slices in %s: open it in https://ui.perfetto.dev\n", count, request->trace_path);
  }
}
