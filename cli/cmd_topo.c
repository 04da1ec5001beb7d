/* cli/cmd_topo.c - plait topo: show, convert and check a topology. */
#include "app/topo.h"
#include "cli/cli.h"
#include "cli/topo_json.h"

#include "base/units.h"

#include <math.h>

static char *
rate_text (double bytes_per_s)
{
  return isnan (bytes_per_s) ? g_strdup ("unknown") : base_units_format_rate (bytes_per_s);
}

static void
print_links (const TopoGraph *graph, gboolean csv)
{
  static const char *const headers[] = { "a", "b", "kind", "links", "one way" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i < 3 ? CLI_LEFT : CLI_RIGHT);
  for (guint32 l = 0; l < topo_graph_n_links (graph); l++) {
    const TopoLink *link = topo_graph_link (graph, l);

    if (link->from > link->to)
      continue;
    cli_table_row (table);
    cli_table_cell (table, "%s", topo_graph_vertex (graph, link->from)->name);
    cli_table_cell (table, "%s", topo_graph_vertex (graph, link->to)->name);
    cli_table_cell (table, "%s", topo_link_kind_name (link->kind));
    cli_table_cell (table, "%u", link->count);
    cli_table_cell_owned (table, rate_text (link->bytes_per_s));
  }
  cli_table_print (table, stdout, csv);
}

static void
add_where (CliTable *table, const TopoMeasurement *m)
{
  if (m->to == TOPO_MEASUREMENT_HOST)
    cli_table_cell (table, "GPU%d to host", m->from);
  else if (m->from == TOPO_MEASUREMENT_HOST)
    cli_table_cell (table, "host to GPU%d", m->to);
  else if (m->from >= 0)
    cli_table_cell (table, "GPU%d to GPU%d", m->from, m->to);
  else
    cli_table_cell_owned (table,
                          m->ranks > 0 ? g_strdup_printf ("%u ranks", m->ranks) : g_strdup (""));
}

static void
print_measurements (const GArray *measurements, gboolean csv)
{
  static const char *const headers[]
      = { "what", "where", "size", "time", "bus bandwidth", "in place" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i < 2 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < measurements->len; i++) {
    const TopoMeasurement *m = &g_array_index (measurements, TopoMeasurement, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", m->what);
    add_where (table, m);
    cli_table_cell_owned (table, m->size_bytes > 0 ? base_units_format_bytes ((double)m->size_bytes)
                                                   : g_strdup (""));
    cli_table_cell_owned (table, isnan (m->time_s) ? g_strdup ("")
                                                   : base_units_format_seconds (m->time_s));
    cli_table_cell_owned (table, isnan (m->busbw_bytes_per_s) ? g_strdup ("")
                                                              : rate_text (m->busbw_bytes_per_s));
    cli_table_cell (table, "%s", m->in_place ? "yes" : "");
  }
  cli_table_print (table, stdout, csv);
}

static void
print_words (const TopoReading *reading)
{
  for (guint i = 0; i < reading->assumed->len; i++) {
    const TopoAssumption *assumption = g_ptr_array_index (reading->assumed, i);

    printf ("assumed: %s: %s\n", assumption->key, assumption->text);
  }
  for (char **text = reading->machine != NULL ? reading->machine->assumed : NULL;
       text != NULL && *text != NULL; text++)
    printf ("assumed: %s\n", *text);
  for (guint i = 0; i < reading->notes->len; i++)
    printf ("note: %s\n", (const char *)g_ptr_array_index (reading->notes, i));
}

static void
print_text (const TopoReading *reading, gboolean csv)
{
  if (reading->machine == NULL) {
    print_measurements (reading->measurements, csv);
  } else if (csv) {
    print_links (reading->machine->graph, csv);
    return;
  } else {
    g_autofree char *matrix = topo_write_matrix (reading);

    printf ("%s: %s, %u GPUs (%s)\n\n%s\n", reading->name, topo_format_name (reading->format),
            reading->machine->gpus_per_node, reading->machine->gpu->slug, matrix);
    print_links (reading->machine->graph, csv);
  }
  if (csv)
    return;
  puts ("");
  if (reading->machine != NULL && reading->measurements->len > 0) {
    print_measurements (reading->measurements, csv);
    puts ("");
  }
  print_words (reading);
}

static CliExit
check (const CliCommon *common, const TopoReading *reading, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) differences = app_topo_check (common->catalog, reading, expected, &error);

  if (differences == NULL)
    return cli_fail (common, error);
  if (common->json)
    cli_topo_differences_json (expected, differences);
  for (guint i = 0; i < differences->len && !common->json; i++)
    puts (g_ptr_array_index (differences, i));
  if (differences->len > 0 || common->json)
    return differences->len > 0 ? CLI_NO : CLI_DONE;
  if (!common->quiet)
    printf ("as %s\n", expected);
  return CLI_DONE;
}

static CliExit
print_as (const CliCommon *common, const TopoReading *reading, gboolean dot, gboolean ini)
{
  g_autoptr (GError) error = NULL;

  if ((dot || ini) && reading->machine == NULL) {
    g_set_error (&error, APP_ERROR, APP_ERROR_USAGE,
                 "'%s' (%s) holds measurements, expected a topology", reading->name,
                 topo_format_name (reading->format));
    return cli_fail (common, error);
  }
  if (dot) {
    g_autofree char *text = topo_write_dot (reading->machine);

    fputs (text, stdout);
  } else if (ini) {
    /* the file itself cannot say what was odd in what it was made from */
    for (guint i = 0; i < reading->notes->len && !common->quiet; i++)
      fprintf (stderr, "plait: note: %s\n", (const char *)g_ptr_array_index (reading->notes, i));
    fputs (reading->ini, stdout);
  } else if (common->json) {
    cli_topo_json (reading);
  } else {
    print_text (reading, common->csv);
  }
  return CLI_DONE;
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) rest = NULL;
  g_autofree char *gpu = NULL, *machine = NULL, *expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (TopoReading) reading = NULL;
  gboolean live = FALSE, dot = FALSE, ini = FALSE;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[]
      = { { "gpu", 0, 0, G_OPTION_ARG_STRING, &gpu,
            "Model of the GPUs, which a matrix does not tell", "GPU" },
          { "machine", 0, 0, G_OPTION_ARG_STRING, &machine,
            "Fill in what a partial file leaves out", "MACHINE" },
          { "check", 0, 0, G_OPTION_ARG_STRING, &expected,
            "Report differences; exit 1 when there are any", "MACHINE" },
          { "dot", 0, 0, G_OPTION_ARG_NONE, &dot, "Print a graph for Graphviz", NULL },
          { "ini", 0, 0, G_OPTION_ARG_NONE, &ini, "Print a machine file to edit", NULL },
          { "live", 0, 0, G_OPTION_ARG_NONE, &live, "This host, through hwloc and the driver",
            NULL },
          G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, entries, 0, 1, &common, &rest, &code))
    return code;
  if (live == (rest[0] != NULL))
    g_set_error (&error, APP_ERROR, APP_ERROR_USAGE,
                 "give one of a file, a machine of the catalog, and --live");
  else if (common.json + dot + ini + (expected != NULL && !common.json) > 1)
    g_set_error (&error, APP_ERROR, APP_ERROR_USAGE,
                 "give at most one of --json, --dot, --ini and --check");
  if (error != NULL)
    return cli_fail (&common, error);
  const AppTopoInputs inputs = { common.catalog, live ? "live" : rest[0], gpu, machine };
  reading = app_topo_read (&inputs, &error);
  if (reading == NULL)
    return cli_fail (&common, error);
  return expected != NULL ? check (&common, reading, expected)
                          : print_as (&common, reading, dot, ini);
}

const CliVerb cli_topo = {
  .name = "topo",
  .arguments = "FILE|MACHINE|--live [--json|--dot|--ini|--check MACHINE]",
  .summary = "Show, convert or check a topology",
  .description
  = "FILE is nvidia-smi topo -m text, NCCL or hwloc XML, a machine file, or the output of "
    "nccl-tests or nvbandwidth; the format is found from its content. What it does not "
    "tell is unknown, and what was inferred is said.",
  .run = run,
};
