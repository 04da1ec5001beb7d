/* cli/validate_text.c - a validation for people: errors by group, worst rows, what was skipped. */
#include "cli/validate_json.h"

#include <math.h>

static void
percent (CliTable *table, double ratio, gboolean with_sign)
{
  if (isnan (ratio))
    cli_table_cell (table, "-");
  else if (with_sign)
    cli_table_cell (table, "%+.1f", 100 * ratio);
  else
    cli_table_cell (table, "%.1f", 100 * ratio);
}

static CliTable *
error_table (const char *first)
{
  static const char *const headers[]
      = { "RUNS",    "MEDIAN %", "MEAN %",   "P90 %", "BIAS %", "IN 80 %",
          "P90/P10", "MEMORY",   "MEDIAN %", "P90 %", "BIAS %" };
  CliTable *table = cli_table_new ();

  cli_table_column (table, first, CLI_LEFT);
  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], CLI_RIGHT);
  return table;
}

static void
error_row (CliTable *table, const char *name, const AppErrorStats *step,
           const AppErrorStats *memory)
{
  cli_table_row (table);
  cli_table_cell (table, "%s", name);
  cli_table_cell (table, "%u", step->n);
  percent (table, step->median_abs_err, FALSE);
  percent (table, step->mean_abs_err, FALSE);
  percent (table, step->p90_abs_err, FALSE);
  percent (table, step->bias, TRUE);
  percent (table, step->coverage_80, FALSE);
  if (isnan (step->width_80))
    cli_table_cell (table, "-");
  else
    cli_table_cell (table, "%.2f", step->width_80);
  cli_table_cell (table, "%u", memory->n);
  percent (table, memory->median_abs_err, FALSE);
  percent (table, memory->p90_abs_err, FALSE);
  percent (table, memory->bias, TRUE);
}

static void
print_groups (const AppValidation *v)
{
  for (guint i = 0; v->by[i] != NULL; i++) {
    const GArray *groups = g_ptr_array_index (v->groups, i);
    g_autofree char *header = g_utf8_strup (v->by[i], -1);
    g_autoptr (CliTable) table = error_table (header);

    for (guint j = 0; j < groups->len; j++) {
      const AppErrorGroup *group = &g_array_index (groups, AppErrorGroup, j);

      if (group->step_time.n + group->memory.n > 0)
        error_row (table, group->name, &group->step_time, &group->memory);
    }
    if (i == 0)
      error_row (table, "all", &v->step_time, &v->memory);
    cli_table_print (table, stdout, FALSE);
    putchar ('\n');
  }
}

static void
print_memory_kinds (const AppValidation *v)
{
  g_autoptr (CliTable) table = cli_table_new ();

  cli_table_column (table, "MEMORY AS", CLI_LEFT);
  cli_table_column (table, "RUNS", CLI_RIGHT);
  cli_table_column (table, "MEDIAN %", CLI_RIGHT);
  cli_table_column (table, "P90 %", CLI_RIGHT);
  cli_table_column (table, "BIAS %", CLI_RIGHT);
  for (AppMemKind kind = APP_MEM_ALLOCATED; kind < APP_MEM_N_KINDS; kind++) {
    const AppErrorStats *stats = &v->memory_by_kind[kind];

    cli_table_row (table);
    cli_table_cell (table, "%s", app_mem_kind_name (kind));
    cli_table_cell (table, "%u", stats->n);
    percent (table, stats->median_abs_err, FALSE);
    percent (table, stats->p90_abs_err, FALSE);
    percent (table, stats->bias, TRUE);
  }
  cli_table_print (table, stdout, FALSE);
}

static void
print_oom (const AppOomStats *oom)
{
  printf ("\nOut of memory: %u of %u runs that ran out have a risk below 0.5, %u of %u that ran "
          "above; unknown for %u",
          oom->oom_below_half, oom->n_oom, oom->ran_above_half, oom->n_ran, oom->n_unknown);
  if (!isnan (oom->brier))
    printf ("; Brier %.4f", oom->brier);
  if (!isnan (oom->noisy_auc))
    printf ("; AUC of the crash labels %.3f, up to 8 stages %.3f", oom->noisy_auc,
            oom->noisy_auc_pp8);
  printf ("\n  risk of        runs  mean risk  ran out\n");
  for (guint i = 0; i < G_N_ELEMENTS (oom->bin_n); i++)
    if (oom->bin_n[i] > 0)
      printf ("  %.1f to %.1f  %8u  %9.3f  %7.3f\n", i / 10.0, (i + 1) / 10.0, oom->bin_n[i],
              oom->bin_risk[i] / oom->bin_n[i], (double)oom->bin_n_oom[i] / oom->bin_n[i]);
}

static void
print_counts (const char *title, const GArray *counts)
{
  if (counts->len == 0)
    return;
  printf ("\n%s\n", title);
  for (guint i = 0; i < counts->len; i++) {
    const AppCount *count = &g_array_index (counts, AppCount, i);

    printf ("  %5u  %s\n", count->count, count->name);
  }
}

#define MOST_NAMED 3

/* Reasons, each with the first rows that have it. */
static void
print_skipped (const AppValidation *v)
{
  if (v->skipped_rows == NULL || v->skipped->len == 0) {
    print_counts ("Skipped", v->skipped);
    return;
  }
  printf ("\nSkipped\n");
  for (guint i = 0; i < v->skipped->len; i++) {
    const AppCount *count = &g_array_index (v->skipped, AppCount, i);
    guint named = 0;

    printf ("  %5u  %s:", count->count, count->name);
    for (guint j = 0; j < v->skipped_rows->len && named < MOST_NAMED; j++) {
      const AppSkipped *row = &g_array_index (v->skipped_rows, AppSkipped, j);

      if (!g_str_equal (row->reason, count->name))
        continue;
      printf ("%s ", named++ > 0 ? "," : "");
      if (*row->id != '\0')
        fputs (row->id, stdout);
      else
        printf ("line %u", row->line);
    }
    puts (count->count > named ? ", …" : "");
  }
}

static void
print_worst (const AppValidation *v, guint n_worst)
{
  g_autoptr (GPtrArray) worst = app_validation_worst (v);
  g_autoptr (CliTable) table = cli_table_new ();

  if (worst->len == 0 || n_worst == 0)
    return;
  printf ("\nWorst rows, with seconds of each part\n");
  cli_table_column (table, "ID", CLI_LEFT);
  cli_table_column (table, "MEASURED", CLI_RIGHT);
  cli_table_column (table, "PREDICTED", CLI_RIGHT);
  cli_table_column (table, "OFF %", CLI_RIGHT);
  for (guint part = 0; part < COST_PART_N_KINDS; part++)
    cli_table_column (table, cost_part_name ((CostPart)part), CLI_RIGHT);
  cli_table_column (table, "LAYOUT", CLI_LEFT);
  for (guint i = 0; i < MIN (worst->len, n_worst); i++) {
    const AppValidateRow *row = g_ptr_array_index (worst, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", row->id);
    cli_table_cell (table, "%.4g", row->measured_s);
    cli_table_cell (table, "%.4g", row->predicted_s);
    percent (table, row->predicted_s / row->measured_s - 1, TRUE);
    for (guint part = 0; part < COST_PART_N_KINDS; part++)
      cli_table_cell (table, "%.3g", row->breakdown_s[part]);
    cli_table_cell (table, "%s %s", row->machine, row->layout_text);
  }
  cli_table_print (table, stdout, FALSE);
}

/* One line per predicted row. */
static void
print_csv (const AppValidation *v)
{
  static const char *const headers[]
      = { "id",          "use",        "profile",         "machine",        "layout",
          "predicted_s", "measured_s", "predicted_bytes", "measured_bytes", "mem_kind",
          "oom_risk" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], CLI_LEFT);
  for (guint part = 0; part < COST_PART_N_KINDS; part++) {
    g_autofree char *header = g_strconcat (cost_part_name ((CostPart)part), "_s", NULL);

    cli_table_column (table, header, CLI_LEFT);
  }
  for (guint i = 0; i < v->rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (v->rows, i);
    const double numbers[]
        = { row->predicted_s, row->measured_s, row->predicted_bytes, row->measured_bytes };

    cli_table_row (table);
    cli_table_cell (table, "%s", row->id);
    cli_table_cell (table, "%g", row->use);
    cli_table_cell (table, "%s", row->profile);
    cli_table_cell (table, "%s", row->machine);
    cli_table_cell (table, "%s", row->layout_text);
    for (gsize k = 0; k < G_N_ELEMENTS (numbers); k++)
      cli_table_cell_owned (table, isnan (numbers[k]) ? g_strdup ("")
                                                      : g_strdup_printf ("%.9g", numbers[k]));
    cli_table_cell (table, "%s", app_mem_kind_name (row->mem_kind));
    cli_table_cell (table, "%.6g", row->oom_risk);
    for (guint part = 0; part < COST_PART_N_KINDS; part++)
      cli_table_cell (table, "%.6g", row->breakdown_s[part]);
  }
  cli_table_print (table, stdout, TRUE);
}

void
cli_print_hints (const AppValidation *v)
{
  for (guint i = 0; v->hints != NULL && i < v->hints->len; i++)
    fprintf (stderr, "plait: note: %s\n", (const char *)g_ptr_array_index (v->hints, i));
}

void
cli_print_validation (const AppValidation *v, guint n_worst, const CliCommon *common)
{
  if (common->csv) {
    print_csv (v);
    return;
  }
  printf ("%u rows, %u predicted with calibration '%s'; errors of rows with use = 1:\n\n",
          v->n_rows, v->rows->len, v->calibration);
  print_groups (v);
  print_memory_kinds (v);
  print_oom (&v->oom);
  print_worst (v, n_worst);
  print_skipped (v);
  print_counts ("Filled in, because the row does not say", v->assumed);
}
