/* cli/cmd_query.c - plait query: read-only SQL on the results. */
#include "app/stored.h"
#include "base/csv.h"
#include "cli/cli.h"

#include <json-glib/json-glib.h>
#include <math.h>

/* Rows stream in CSV and JSON; aligned text is printed a chunk at a time, each with its widths. */
#define CHUNK_ROWS 1000

typedef struct {
  const CliCommon *common;
  CliTable *table;
  char **names;
  guint64 rows;
} Output;

static char *
cell_text (const DbCell *cell)
{
  switch (cell->kind) {
  case DB_CELL_INTEGER:
    return g_strdup_printf ("%" G_GINT64_FORMAT, cell->integer);
  case DB_CELL_REAL:
    return g_strdup_printf ("%.15g", cell->real);
  case DB_CELL_TEXT:
    return g_strndup (cell->text, cell->length);
  case DB_CELL_BLOB:
    return g_strdup_printf ("<%" G_GSIZE_FORMAT " bytes>", cell->length);
  case DB_CELL_NULL:
    break;
  }
  return g_strdup ("");
}

static JsonNode *
cell_node (const DbCell *cell)
{
  JsonNode *node = json_node_alloc ();
  g_autofree char *text = NULL;

  switch (cell->kind) {
  case DB_CELL_INTEGER:
    return json_node_init_int (node, cell->integer);
  case DB_CELL_REAL:
    return isfinite (cell->real) ? json_node_init_double (node, cell->real)
                                 : json_node_init_null (node);
  case DB_CELL_TEXT:
    text = cell_text (cell);
    return json_node_init_string (node, text);
  case DB_CELL_BLOB:
    text = g_base64_encode (cell->blob, cell->length);
    return json_node_init_string (node, text);
  case DB_CELL_NULL:
    break;
  }
  return json_node_init_null (node);
}

static void
start_table (Output *out)
{
  g_clear_pointer (&out->table, cli_table_free);
  out->table = cli_table_new ();
  for (char **name = out->names; *name != NULL; name++)
    cli_table_column (out->table, *name, CLI_LEFT);
}

static gboolean
take_columns (const char *const *names, guint n, gpointer data, GError **error)
{
  Output *out = data;

  (void)error;
  out->names = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++)
    out->names[i] = g_strdup (names[i]);
  if (out->common->json)
    fputs ("[", stdout);
  else if (out->common->csv) {
    for (guint i = 0; i < n; i++) {
      if (i > 0)
        fputc (',', stdout);
      base_csv_write_field (stdout, names[i]);
    }
    fputs ("\r\n", stdout);
  } else
    start_table (out);
  return TRUE;
}

static void
print_json_row (Output *out, const DbCell *cells, guint n)
{
  g_autoptr (JsonObject) object = json_object_new ();
  g_autoptr (JsonNode) node = json_node_alloc ();
  g_autofree char *text = NULL;

  for (guint i = 0; i < n; i++)
    json_object_set_member (object, out->names[i], cell_node (&cells[i]));
  json_node_init_object (node, object);
  text = json_to_string (node, FALSE);
  printf ("%s\n  %s", out->rows > 0 ? "," : "", text);
}

static gboolean
take_row (const DbCell *cells, guint n, gpointer data, GError **error)
{
  Output *out = data;

  (void)error;
  if (out->common->json)
    print_json_row (out, cells, n);
  else if (!out->common->csv) {
    if (cli_table_n_rows (out->table) == CHUNK_ROWS) {
      cli_table_print (out->table, stdout, FALSE);
      start_table (out);
    }
    cli_table_row (out->table);
  }
  for (guint i = 0; i < n && !out->common->json; i++) {
    g_autofree char *text = cell_text (&cells[i]);

    if (out->common->csv) {
      if (i > 0)
        fputc (',', stdout);
      base_csv_write_field (stdout, text);
    } else
      cli_table_cell_owned (out->table, g_steal_pointer (&text));
  }
  if (out->common->csv && !out->common->json)
    fputs ("\r\n", stdout);
  out->rows++;
  return !ferror (stdout);
}

static CliExit
query (const char *sql, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  Output out = { .common = common };
  const DbQueryHandler handler = { take_columns, take_row, cli_interrupted, &out };
  gboolean done = app_stored_query (cli_db_path (common), sql, &handler, &error);

  if (common->json && out.names != NULL)
    fputs (out.rows > 0 ? "\n]\n" : "]\n", stdout);
  if (!common->json && !common->csv && out.names != NULL)
    cli_table_print (out.table, stdout, FALSE);
  cli_table_free (out.table);
  g_strfreev (out.names);
  if (done)
    return CLI_DONE;
  if (error == NULL)
    return CLI_ENVIRONMENT; /* nobody reads us any more */
  if (g_error_matches (error, DB_ERROR, DB_ERROR_CANCELLED)) {
    fprintf (stderr, "plait: interrupted after %" G_GUINT64_FORMAT " rows\n", out.rows);
    return CLI_NO;
  }
  return cli_fail (common, error);
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) rest = NULL;
  gboolean schema = FALSE;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[] = { { "schema", 0, 0, G_OPTION_ARG_NONE, &schema,
                                     "Describe every table, view and column", NULL },
                                   G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, entries, 0, 1, &common, &rest, &code))
    return code;
  if (schema == (rest[0] != NULL)) {
    g_autoptr (GError) error
        = g_error_new (CLI_ERROR, CLI_ERROR_USAGE, "give one SQL statement, or --schema alone");

    return cli_fail (&common, error);
  }
  if (schema) {
    g_autofree char *text = app_stored_schema ();

    fputs (text, stdout);
    return CLI_DONE;
  }
  cli_catch_interrupt ();
  return query (rest[0], &common);
}

const CliVerb cli_query = {
  .name = "query",
  .arguments = "SQL | --schema",
  .summary = "Read-only SQL on the results",
  .description
  = "One SELECT. Stable views: best_plan, plan_memory, run_summary; --schema describes all.\n"
    "Nothing can be changed: writes, ATTACH and PRAGMA are refused.",
  .run = run,
};
