/* cli/plan_text.c - plans for people. */
#include "cli/plan_text.h"

#include "app/plan.h"
#include "base/units.h"
#include "cli/plan_json.h"

#include <math.h>

static const double GIB = 1073741824.0;

char *
cli_format_risk (double risk)
{
  if (risk < 0.0005)
    return g_strdup ("<0.1 %");
  if (risk > 0.9995)
    return g_strdup (">99.9 %");
  return g_strdup_printf ("%.1f %%", 100 * risk);
}

char *
cli_format_usd (double usd)
{
  /* beyond what a count holds nobody counts */
  return usd >= 0 && usd < 1e18 ? base_units_format_count ((guint64)(usd + 0.5))
                                : g_strdup_printf ("%.3g", usd);
}

/* As plan lists it, whose own figure is off by up to 1e-4. */
static gboolean
is_listed (double risk)
{
  return risk <= APP_MAX_OOM_RISK + 1e-4;
}

const char *
cli_risk_word (double risk)
{
  if (risk > APP_FITS_RISK)
    return "does not fit";
  return is_listed (risk) ? "fits" : "may not fit";
}

/* ---- one plan in full ---- */

/* Three counts of the same GPU, and what to make of them. */
static void
print_memory (const DbPredictionRecord *p, const CliCommon *common)
{
  g_autofree char *risk = cli_format_risk (p->oom_risk);
  gboolean listed = is_listed (p->oom_risk);
  const char *on = !common->colored ? "" : listed ? "\033[32m" : p->fits ? "\033[33m" : "\033[31m";
  const char *off = common->colored ? "\033[0m" : "";

  printf ("memory  fullest GPU: peak %.1f of %.1f GiB usable (allocated %.1f, reserved %.1f)\n",
          (double)p->peak_bytes / GIB, (double)p->usable_bytes / GIB,
          (double)p->allocated_bytes / GIB, (double)p->reserved_bytes / GIB);
  if (!common->quiet)
    puts ("        (allocated: tensors; reserved: and the allocator's cache, which it gives back "
          "when "
          "memory is short;\n         peak: and the context and communicators, as the driver shows "
          "it)");
  printf ("risk    %s of running out of memory: %s%s%s%s\n", risk, on, cli_risk_word (p->oom_risk),
          off,
          listed    ? ""
          : p->fits ? " (plan lists up to 10 %, or --max-oom-risk)"
                    : "");
}

static void
print_headline (const DbPlan *plan, const CliCommon *common)
{
  const DbPlanRecord *record = &plan->plan;
  const DbPredictionRecord *p = &record->prediction;
  g_autofree char *step = base_units_format_seconds (p->step_s);
  g_autofree char *low = base_units_format_seconds (p->step_s_p10);
  g_autofree char *high = base_units_format_seconds (p->step_s_p90);
  g_autofree char *layout = model_layout_shorten (record->layout_text);
  g_autofree char *price = cli_format_usd (p->cost_usd_per_1e12_tokens);

  printf ("%s on %" G_GINT64_FORMAT " × %s (%s), batch %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT
          " tokens, profile %s, calibration %s\n",
          plan->model.name, record->gpus, plan->machine.gpu, plan->machine.name,
          record->global_batch, record->seq, record->profile, plan->calibration.name);
  printf ("layout  %s\n\n", layout);
  printf ("step    %s   (8 in 10 between %s and %s)\n", step, low, high);
  printf ("rate    %.0f tokens/s/GPU, %.1f TFLOP/s/GPU, MFU %.1f %%\n", p->tokens_per_s_per_gpu,
          p->tflops_per_gpu, 100 * p->mfu);
  print_memory (p, common);
  if (isfinite (p->cost_usd_per_1e12_tokens))
    printf ("price   %s USD per 10^12 tokens at %.2f USD per GPU-hour (date: %s)\n", price,
            record->usd_per_gpu_h,
            plan->machine.price_as_of != NULL ? plan->machine.price_as_of : "unknown");
}

static void
print_breakdown (const DbPlanRecord *plan)
{
  g_autoptr (CliTable) table = cli_table_new ();

  puts ("\nWhere the time goes (exposed, on the critical stage)");
  cli_table_column (table, "part", CLI_LEFT);
  cli_table_column (table, "time", CLI_RIGHT);
  cli_table_column (table, "share", CLI_RIGHT);
  for (gsize i = 0; i < plan->n_breakdown; i++) {
    if (!(plan->breakdown[i].exposed_s > 0))
      continue;
    cli_table_row (table);
    cli_table_cell (table, "%s", plan->breakdown[i].component);
    cli_table_cell_owned (table, base_units_format_seconds (plan->breakdown[i].exposed_s));
    cli_table_cell (table, "%.1f %%", 100 * plan->breakdown[i].exposed_s / plan->prediction.step_s);
  }
  cli_table_print (table, stdout, FALSE);
}

static void
print_stages (const DbPlanRecord *plan)
{
  static const char *const headers[]
      = { "stage", "layers", "in flight", "weights", "grads", "optim",
          "activ", "logits", "gathers",   "comm",    "work",  "context",
          "frag",  "alloc",  "reserved",  "peak",    "risk" };
  g_autoptr (CliTable) table = cli_table_new ();

  puts ("\nMemory per GPU by pipeline stage, GiB");
  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], CLI_RIGHT);
  for (gsize i = 0; i < plan->n_stage_rows; i++) {
    const DbStageMemoryRecord *row = &plan->stage_rows[i];
    const guint64 parts[] = { row->weights_bytes,       row->gradients_bytes, row->optimizer_bytes,
                              row->activations_bytes,   row->logits_bytes,    row->gathers_bytes,
                              row->comm_buffers_bytes,  row->workspace_bytes, row->context_bytes,
                              row->fragmentation_bytes, row->allocated_bytes, row->reserved_bytes,
                              row->peak_bytes };

    cli_table_row (table);
    cli_table_cell (table, "%" G_GINT64_FORMAT, row->stage);
    cli_table_cell (table, "%" G_GINT64_FORMAT, row->layers);
    cli_table_cell (table, "%" G_GINT64_FORMAT, row->in_flight_count);
    for (gsize c = 0; c < G_N_ELEMENTS (parts); c++)
      cli_table_cell (table, "%.2f", (double)parts[c] / GIB);
    cli_table_cell_owned (table, cli_format_risk (row->oom_risk));
  }
  cli_table_print (table, stdout, FALSE);
}

static void
print_groups (const DbPlanRecord *plan)
{
  g_autoptr (CliTable) table = cli_table_new ();

  if (plan->n_groups == 0)
    return;
  puts ("\nGroups");
  cli_table_column (table, "kind", CLI_LEFT);
  cli_table_column (table, "ranks", CLI_RIGHT);
  cli_table_column (table, "bottleneck", CLI_LEFT);
  for (gsize i = 0; i < plan->n_groups; i++) {
    cli_table_row (table);
    cli_table_cell (table, "%s", plan->groups[i].kind);
    cli_table_cell (table, "%" G_GINT64_FORMAT, plan->groups[i].size);
    cli_table_cell (table, "%s",
                    plan->groups[i].bottleneck != NULL ? plan->groups[i].bottleneck : "");
  }
  cli_table_print (table, stdout, FALSE);
}

void
cli_print_plan (const DbPlan *plan, const CliCommon *common)
{
  print_headline (plan, common);
  print_breakdown (&plan->plan);
  print_stages (&plan->plan);
  print_groups (&plan->plan);
  if (plan->plan.n_assumed > 0 && !common->quiet) {
    puts ("\nAssumed");
    for (gsize i = 0; i < plan->plan.n_assumed; i++) {
      const DbAssumedRecord *row = &plan->plan.assumed[i];

      printf ("  %s = %s%s%s\n", row->key, row->value, row->why != NULL ? ": " : "",
              row->why != NULL ? row->why : "");
    }
  }
}

static void
print_fixes (const GPtrArray *fixes)
{
  g_autoptr (CliTable) table = cli_table_new ();

  if (fixes == NULL || fixes->len == 0)
    return;
  puts ("\nWhat lowers the risk of running out of memory, cheapest in time first");
  cli_table_column (table, "change", CLI_LEFT);
  cli_table_column (table, "risk", CLI_RIGHT);
  cli_table_column (table, "peak GiB", CLI_RIGHT);
  cli_table_column (table, "step", CLI_RIGHT);
  cli_table_column (table, "cost", CLI_RIGHT);
  for (guint i = 0; i < fixes->len; i++) {
    const AppFix *fix = g_ptr_array_index (fixes, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", fix->what);
    cli_table_cell_owned (table, cli_format_risk (fix->oom_risk));
    cli_table_cell (table, "%.1f", (double)fix->peak_bytes / GIB);
    cli_table_cell_owned (table, base_units_format_seconds (fix->step_s));
    cli_table_cell (table, "%+.1f %%", 100 * fix->cost_ratio);
  }
  cli_table_print (table, stdout, FALSE);
}

/* ---- many plans ---- */

static const char *const text_headers[] = { "rank",      "layout",    "step", "10 % … 90 %",
                                            "simulated", "tok/s/GPU", "MFU",  "peak of usable GiB",
                                            "OOM risk",  "compute",   "tp",   "ep+cp",
                                            "bubble",    "dp",        "other" };
static const char *const csv_headers[] = { "model",
                                           "machine",
                                           "gpus",
                                           "global_batch",
                                           "seq",
                                           "rank",
                                           "layout_text",
                                           "step_s",
                                           "step_s_p10",
                                           "step_s_p90",
                                           "tokens_per_s_per_gpu",
                                           "tflops_per_gpu",
                                           "mfu",
                                           "oom_risk",
                                           "peak_bytes",
                                           "usable_bytes",
                                           "cost_usd_per_1e12_tokens",
                                           "simulated_s" };

CliTable *
cli_plan_table_new (gboolean csv, gboolean with_price)
{
  CliTable *table = cli_table_new ();

  if (csv) {
    for (gsize i = 0; i < G_N_ELEMENTS (csv_headers); i++)
      cli_table_column (table, csv_headers[i], CLI_LEFT);
    return table;
  }
  for (gsize i = 0; i < G_N_ELEMENTS (text_headers); i++)
    cli_table_column (table, text_headers[i], i == 1 ? CLI_LEFT : CLI_RIGHT);
  if (with_price)
    cli_table_column (table, "USD/10^12 tok", CLI_RIGHT);
  return table;
}

static double
part (const DbPlanRecord *plan, const char *name)
{
  for (gsize i = 0; i < plan->n_breakdown; i++)
    if (g_str_equal (plan->breakdown[i].component, name))
      return plan->breakdown[i].exposed_s;
  return 0;
}

static void
add_csv_row (CliTable *table, const DbPlan *plan)
{
  const DbPlanRecord *record = &plan->plan;
  const DbPredictionRecord *p = &record->prediction;

  cli_table_cell (table, "%s", plan->model.name);
  cli_table_cell (table, "%s", plan->machine.name);
  cli_table_cell (table, "%" G_GINT64_FORMAT, record->gpus);
  cli_table_cell (table, "%" G_GINT64_FORMAT, record->global_batch);
  cli_table_cell (table, "%" G_GINT64_FORMAT, record->seq);
  cli_table_cell (table, "%" G_GINT64_FORMAT, record->rank);
  cli_table_cell (table, "%s", record->layout_text);
  cli_table_cell (table, "%.17g", p->step_s);
  cli_table_cell (table, "%.17g", p->step_s_p10);
  cli_table_cell (table, "%.17g", p->step_s_p90);
  cli_table_cell (table, "%.17g", p->tokens_per_s_per_gpu);
  cli_table_cell (table, "%.17g", p->tflops_per_gpu);
  cli_table_cell (table, "%.17g", p->mfu);
  cli_table_cell (table, "%.17g", p->oom_risk);
  cli_table_cell (table, "%" G_GUINT64_FORMAT, p->peak_bytes);
  cli_table_cell (table, "%" G_GUINT64_FORMAT, p->usable_bytes);
  if (isfinite (p->cost_usd_per_1e12_tokens))
    cli_table_cell (table, "%.17g", p->cost_usd_per_1e12_tokens);
  else
    cli_table_cell (table, "%s", "");
  if (isfinite (p->simulated_s))
    cli_table_cell (table, "%.17g", p->simulated_s);
  else
    cli_table_cell (table, "%s", "");
}

static void
add_shares (CliTable *table, const DbPlanRecord *record)
{
  const double shares[] = {
    part (record, "compute"),
    part (record, "tp"),
    part (record, "ep") + part (record, "cp"),
    part (record, "pp_bubble") + part (record, "p2p"),
    part (record, "dp"),
    part (record, "optimizer") + part (record, "other"),
  };

  for (gsize i = 0; i < G_N_ELEMENTS (shares); i++)
    cli_table_cell (table, "%.0f %%", 100 * shares[i] / record->prediction.step_s);
}

void
cli_plan_table_add (CliTable *table, const DbPlan *plan, gboolean csv, gboolean with_price)
{
  const DbPlanRecord *record = &plan->plan;
  const DbPredictionRecord *p = &record->prediction;
  g_autofree char *low = base_units_format_seconds (p->step_s_p10);
  g_autofree char *high = base_units_format_seconds (p->step_s_p90);

  cli_table_row (table);
  if (csv) {
    add_csv_row (table, plan);
    return;
  }
  cli_table_cell (table, "%" G_GINT64_FORMAT, record->rank);
  cli_table_cell_owned (table, model_layout_shorten (record->layout_text));
  cli_table_cell_owned (table, base_units_format_seconds (p->step_s));
  cli_table_cell (table, "%s … %s", low, high);
  if (isfinite (p->simulated_s))
    cli_table_cell_owned (table, base_units_format_seconds (p->simulated_s));
  else
    cli_table_cell (table, "%s", "");
  cli_table_cell (table, "%.0f", p->tokens_per_s_per_gpu);
  cli_table_cell (table, "%.1f %%", 100 * p->mfu);
  cli_table_cell (table, "%.1f of %.1f", (double)p->peak_bytes / GIB,
                  (double)p->usable_bytes / GIB);
  cli_table_cell_owned (table, cli_format_risk (p->oom_risk));
  add_shares (table, record);
  if (!with_price)
    return;
  if (isfinite (p->cost_usd_per_1e12_tokens))
    cli_table_cell_owned (table, cli_format_usd (p->cost_usd_per_1e12_tokens));
  else
    cli_table_cell (table, "%s", "unknown");
}

/* ---- one plan, as asked ---- */

void
cli_output_plan (const DbPlan *plan, const GPtrArray *fixes, const CliCommon *common)
{
  if (common->json) {
    g_autoptr (JsonBuilder) builder = json_builder_new ();

    cli_json_plan_with_fixes (builder, plan, fixes);
    cli_json_print (builder);
  } else if (common->csv) {
    g_autoptr (CliTable) table = cli_plan_table_new (TRUE, TRUE);

    cli_plan_table_add (table, plan, TRUE, TRUE);
    cli_table_print (table, stdout, TRUE);
  } else {
    cli_print_plan (plan, common);
    print_fixes (fixes);
  }
}
