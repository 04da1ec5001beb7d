/* cli/cmd_collective.c - plait collective: time and bus bandwidth by size. */
#include "app/collective.h"
#include "cli/cli.h"
#include "cli/plan_json.h"

#include "base/units.h"

typedef struct {
  char *machine, *gpu, *calibration, *ranks, *op, *bytes, *algo, *proto;
} Options;

static void
options_clear (Options *o)
{
  char **all[] = { &o->machine, &o->gpu,   &o->calibration, &o->ranks,
                   &o->op,      &o->bytes, &o->algo,        &o->proto };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_clear_pointer (all[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static void
print_json (const AppCollective *collective)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  cli_json_text (builder, "machine", collective->machine);
  cli_json_count (builder, "ranks", (gint64)collective->ranks);
  cli_json_text (builder, "op", collective->op);
  json_builder_set_member_name (builder, "sizes");
  json_builder_begin_array (builder);
  for (guint i = 0; i < collective->sizes->len; i++) {
    const AppCollectiveSize *size = &g_array_index (collective->sizes, AppCollectiveSize, i);

    json_builder_begin_object (builder);
    cli_json_count (builder, "bytes", (gint64)size->bytes);
    cli_json_number (builder, "time_s", size->time_s);
    cli_json_number (builder, "time_s_p10", size->time_s_p10);
    cli_json_number (builder, "time_s_p90", size->time_s_p90);
    cli_json_number (builder, "algbw_bytes_per_s", size->algbw_bytes_per_s);
    cli_json_number (builder, "busbw_bytes_per_s", size->busbw_bytes_per_s);
    cli_json_text (builder, "algorithm", size->algorithm);
    cli_json_text (builder, "protocol", size->protocol);
    cli_json_text (builder, "bottleneck", collective->bottleneck);
    cli_json_text (builder, "from", size->is_measured ? "measured" : "formula");
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  cli_json_print (builder);
}

static void
print_table (const AppCollective *collective, gboolean csv)
{
  static const char *const text[]
      = { "bytes", "time", "10 % … 90 %", "algbw GB/s", "busbw GB/s", "from", "algorithm" };
  static const char *const keys[]
      = { "bytes", "time_s",   "time_s_p10", "time_s_p90", "algbw_bytes_per_s", "busbw_bytes_per_s",
          "from",  "algorithm" };
  g_autoptr (CliTable) table = cli_table_new ();
  gsize n = csv ? G_N_ELEMENTS (keys) : G_N_ELEMENTS (text);

  for (gsize i = 0; i < n; i++)
    cli_table_column (table, csv ? keys[i] : text[i], i + 2 >= n ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < collective->sizes->len; i++) {
    const AppCollectiveSize *size = &g_array_index (collective->sizes, AppCollectiveSize, i);

    cli_table_row (table);
    if (csv) {
      cli_table_cell (table, "%" G_GUINT64_FORMAT, size->bytes);
      cli_table_cell (table, "%.17g", size->time_s);
      cli_table_cell (table, "%.17g", size->time_s_p10);
      cli_table_cell (table, "%.17g", size->time_s_p90);
      cli_table_cell (table, "%.17g", size->algbw_bytes_per_s);
      cli_table_cell (table, "%.17g", size->busbw_bytes_per_s);
    } else {
      g_autofree char *low = base_units_format_seconds (size->time_s_p10);
      g_autofree char *high = base_units_format_seconds (size->time_s_p90);

      cli_table_cell_owned (table, base_units_format_bytes ((double)size->bytes));
      cli_table_cell_owned (table, base_units_format_seconds (size->time_s));
      cli_table_cell (table, "%s … %s", low, high);
      cli_table_cell (table, "%.1f", size->algbw_bytes_per_s / 1e9);
      cli_table_cell (table, "%.1f", size->busbw_bytes_per_s / 1e9);
    }
    cli_table_cell (table, "%s", size->is_measured ? "measured" : "formula");
    cli_table_cell (table, "%s", size->algorithm);
  }
  if (!csv)
    printf ("%s over %" G_GUINT64_FORMAT " ranks of %s; bottleneck: %s\n", collective->op,
            collective->ranks, collective->machine, collective->bottleneck);
  cli_table_print (table, stdout, csv);
}

static gboolean
ask (const Options *o, const CliCommon *common, AppCollectiveRequest *request, GArray **out_bytes,
     GError **error)
{
  if (!cli_require ("--machine", o->machine, "hgx-h100", error)
      || !cli_require ("--ranks", o->ranks, "8", error)
      || !cli_count ("--ranks", o->ranks, 2, 1u << 24, &request->ranks, error))
    return FALSE;
  *out_bytes = base_units_parse_bytes_list (o->bytes != NULL ? o->bytes : "8B..16GiB", error);
  if (*out_bytes == NULL) {
    g_prefix_error (error, "--bytes: ");
    return FALSE;
  }
  request->inputs = (AppInputs){ .catalog_dir = common->catalog,
                                 .machine = o->machine,
                                 .gpu = o->gpu,
                                 .calibration = o->calibration,
                                 .db_path = common->db,
                                 .live_ranks = (guint32)request->ranks };
  request->op = o->op != NULL ? o->op : "all_reduce";
  request->algo = o->algo;
  request->proto = o->proto;
  request->bytes = *out_bytes;
  return TRUE;
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) bytes = NULL;
  g_autoptr (AppCollective) collective = NULL;
  AppCollectiveRequest request = { 0 };
  CliExit code = CLI_DONE;
  const GOptionEntry entries[]
      = { { "machine", 0, 0, G_OPTION_ARG_STRING, &o.machine, "Machine: slug or file", "MACHINE" },
          { "gpu", 0, 0, G_OPTION_ARG_STRING, &o.gpu, "Replace the machine's GPU", "GPU" },
          { "calibration", 0, 0, G_OPTION_ARG_STRING, &o.calibration, "Calibration (default)",
            "NAME" },
          { "ranks", 0, 0, G_OPTION_ARG_STRING, &o.ranks, "Number of ranks, filling nodes in order",
            "N" },
          { "op", 0, 0, G_OPTION_ARG_STRING, &o.op, "Collective (all_reduce)", "OP" },
          { "bytes", 0, 0, G_OPTION_ARG_STRING, &o.bytes, "Sizes as nccl-tests counts (8B..16GiB)",
            "LIST" },
          { "algo", 0, 0, G_OPTION_ARG_STRING, &o.algo, "Force an algorithm (auto)", "ALGO" },
          { "proto", 0, 0, G_OPTION_ARG_STRING, &o.proto, "Force a protocol (auto)", "PROTO" },
          G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, entries, 0, 0, &common, NULL, &code))
    return code;
  if (!ask (&o, &common, &request, &bytes, &error))
    return cli_fail (&common, error);
  collective = app_collective (&request, &error);
  if (collective == NULL)
    return cli_fail (&common, error);
  if (common.json)
    print_json (collective);
  else
    print_table (collective, common.csv);
  return CLI_DONE;
}

const CliVerb cli_collective = {
  .name = "collective",
  .arguments = "--machine MACHINE --ranks N [--op OP]",
  .summary = "Time and bus bandwidth of a collective on a machine",
  .description = "Sizes and bandwidths as nccl-tests counts them; a quiet network is assumed.",
  .run = run,
};
