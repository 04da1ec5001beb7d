/* cli/cmd_shard.c - plait shard: DTensor's local shapes, offsets and redistributes. */
#include "app/shard.h"
#include "cli/cli.h"
#include "cli/plan_json.h"

static char *
join (const guint64 *values, guint n, const char *separator)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%" G_GUINT64_FORMAT, i > 0 ? separator : "", values[i]);
  return g_string_free (text, FALSE);
}

static char *
join_coordinates (const AppShardRank *rank, guint n)
{
  guint64 wide[MODEL_SHARD_MAX_DIMS];

  for (guint i = 0; i < n; i++)
    wide[i] = rank->coordinates[i];
  return join (wide, n, ",");
}

static void
add_list (JsonBuilder *builder, const char *key, const guint64 *values, guint n)
{
  json_builder_set_member_name (builder, key);
  json_builder_begin_array (builder);
  for (guint i = 0; i < n; i++)
    json_builder_add_int_value (builder, (gint64)values[i]);
  json_builder_end_array (builder);
}

static void
add_rank (JsonBuilder *builder, const AppShard *shard, guint index)
{
  const AppShardRank *rank = &shard->ranks[index];
  guint64 coordinates[MODEL_SHARD_MAX_DIMS];

  for (guint i = 0; i < shard->n_mesh; i++)
    coordinates[i] = rank->coordinates[i];
  json_builder_begin_object (builder);
  cli_json_count (builder, "rank", index);
  add_list (builder, "coordinates", coordinates, shard->n_mesh);
  add_list (builder, "local_shape", rank->local_shape, shard->n_dims);
  add_list (builder, "offset", rank->offset, shard->n_dims);
  json_builder_end_object (builder);
}

static void
print_json (const AppShard *shard)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "ranks");
  json_builder_begin_array (builder);
  for (guint i = 0; i < shard->n_ranks; i++)
    add_rank (builder, shard, i);
  json_builder_end_array (builder);
  if (shard->steps != NULL) {
    json_builder_set_member_name (builder, "redistribute");
    json_builder_begin_object (builder);
    json_builder_set_member_name (builder, "steps");
    json_builder_begin_array (builder);
    for (guint i = 0; i < shard->steps->len; i++) {
      const ModelRedistributeStep *step = &g_array_index (shard->steps, ModelRedistributeStep, i);

      json_builder_begin_object (builder);
      cli_json_text (builder, "collective", app_shard_step_name (step->kind));
      cli_json_count (builder, "mesh_dim", step->mesh_dim);
      cli_json_count (builder, "bytes_sent_per_rank", (gint64)step->bytes_sent_per_rank);
      json_builder_end_object (builder);
    }
    json_builder_end_array (builder);
    cli_json_number (builder, "time_s", shard->time_s);
    json_builder_end_object (builder);
  }
  json_builder_end_object (builder);
  cli_json_print (builder);
}

static void
print_table (const AppShard *shard, gboolean csv)
{
  g_autoptr (CliTable) table = cli_table_new ();

  cli_table_column (table, "rank", CLI_RIGHT);
  cli_table_column (table, "coordinates", CLI_LEFT);
  cli_table_column (table, "local shape", CLI_LEFT);
  cli_table_column (table, "offset", CLI_LEFT);
  for (guint i = 0; i < shard->n_ranks; i++) {
    cli_table_row (table);
    cli_table_cell (table, "%u", i);
    cli_table_cell_owned (table, join_coordinates (&shard->ranks[i], shard->n_mesh));
    cli_table_cell_owned (table, join (shard->ranks[i].local_shape, shard->n_dims, "x"));
    cli_table_cell_owned (table, join (shard->ranks[i].offset, shard->n_dims, ","));
  }
  cli_table_print (table, stdout, csv);
  for (guint i = 0; shard->steps != NULL && i < shard->steps->len && !csv; i++) {
    const ModelRedistributeStep *step = &g_array_index (shard->steps, ModelRedistributeStep, i);

    printf ("step %u: %s over mesh dimension %u, %" G_GUINT64_FORMAT " bytes sent per rank\n",
            i + 1, app_shard_step_name (step->kind), step->mesh_dim, step->bytes_sent_per_rank);
  }
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (CliCommon) common = { 0 };
  g_autofree char *shape = NULL, *mesh = NULL, *placements = NULL, *to = NULL, *dtype = NULL;
  g_autofree char *machine = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AppShard) shard = NULL;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[]
      = { { "shape", 0, 0, G_OPTION_ARG_STRING, &shape, "Global shape, for example 1024x1024",
            "SHAPE" },
          { "mesh", 0, 0, G_OPTION_ARG_STRING, &mesh, "Mesh, for example 2x4", "MESH" },
          { "placements", 0, 0, G_OPTION_ARG_STRING, &placements, "One per mesh dimension: S(0),R",
            "LIST" },
          { "to", 0, 0, G_OPTION_ARG_STRING, &to, "Redistribute to these placements", "LIST" },
          { "dtype", 0, 0, G_OPTION_ARG_STRING, &dtype, "Element type (bf16)", "DTYPE" },
          { "machine", 0, 0, G_OPTION_ARG_STRING, &machine,
            "Price the redistribute on this machine", "MACHINE" },
          G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, entries, 0, 0, &common, NULL, &code))
    return code;
  if (!cli_require ("--shape", shape, "1024x1024", &error)
      || !cli_require ("--mesh", mesh, "2x4", &error)
      || !cli_require ("--placements", placements, "'S(0),R'", &error))
    return cli_fail (&common, error);
  shard = app_shard_new (common.catalog, shape, mesh, placements, to, dtype, machine, &error);
  if (shard == NULL)
    return cli_fail (&common, error);
  if (common.json)
    print_json (shard);
  else
    print_table (shard, common.csv);
  return CLI_DONE;
}

const CliVerb cli_shard = {
  .name = "shard",
  .arguments = "--shape SHAPE --mesh MESH --placements LIST [--to LIST]",
  .summary = "DTensor: local shapes and offsets; steps of a redistribute",
  .description
  = "Placements: S(d), R, P or P(sum), _S(d, f); one per mesh dimension, left to right.",
  .run = run,
};
