/* cli/cmd_query.c - plait query: read-only SQL on the results. */
#include "app/stored.h"
#include "base/csv.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/spool.h"

#include <json-glib/json-glib.h>
#include <math.h>

/* Rows stream in CSV; aligned text is printed a chunk at a time, each with its widths. JSON waits for
 * the last row, as half a document is none. */
#define CHUNK_ROWS 1000

#define MAX_TIMEOUT_S 1e9 /* 32 years: whoever wants more wants none */

typedef struct {
  const CliCommon *common;
  CliTable *table;
  CliSpool json;
  char **names;
  guint64 rows;
  gint64 end_us;  /* of --timeout, by the monotonic clock; G_MAXINT64: none */
  gboolean is_up; /* the time is */
} Output;

static void
output_clear (Output *out)
{
  cli_table_free (out->table);
  cli_spool_clear (&out->json);
  g_strfreev (out->names);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Output, output_clear)

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

  out->names = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++)
    out->names[i] = g_strdup (names[i]);
  if (out->common->json)
    return cli_spool_add (&out->json, "[", error);
  if (out->common->csv) {
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

static gboolean
add_json_row (Output *out, const DbCell *cells, guint n, GError **error)
{
  g_autoptr (JsonObject) object = json_object_new ();
  g_autoptr (JsonNode) node = json_node_alloc ();
  g_autofree char *text = NULL;

  for (guint i = 0; i < n; i++)
    json_object_set_member (object, out->names[i], cell_node (&cells[i]));
  json_node_init_object (node, object);
  text = json_to_string (node, FALSE);
  return cli_spool_add (&out->json, out->rows++ > 0 ? ",\n  " : "\n  ", error)
         && cli_spool_add (&out->json, text, error);
}

static gboolean
take_row (const DbCell *cells, guint n, gpointer data, GError **error)
{
  Output *out = data;

  if (out->common->json)
    return add_json_row (out, cells, n, error);
  if (!out->common->csv) {
    if (cli_table_n_rows (out->table) == CHUNK_ROWS) {
      cli_table_print (out->table, stdout, FALSE);
      start_table (out);
    }
    cli_table_row (out->table);
  }
  for (guint i = 0; i < n; i++) {
    g_autofree char *text = cell_text (&cells[i]);

    if (out->common->csv) {
      if (i > 0)
        fputc (',', stdout);
      base_csv_write_field (stdout, text);
    } else
      cli_table_cell_owned (out->table, g_steal_pointer (&text));
  }
  if (out->common->csv)
    fputs ("\r\n", stdout);
  out->rows++;
  return !ferror (stdout);
}

static gboolean
is_to_stop (gpointer data)
{
  Output *out = data;

  out->is_up = g_get_monotonic_time () >= out->end_us;
  return out->is_up || cli_interrupted (NULL);
}

static CliExit
stopped (const Output *out, const char *timeout)
{
  g_autofree char *message
      = out->is_up
            ? g_strdup_printf ("stopped after %" G_GUINT64_FORMAT " rows: --timeout %s is up",
                               out->rows, timeout)
            : g_strdup_printf ("interrupted after %" G_GUINT64_FORMAT " rows", out->rows);

  return cli_fail_as (out->common, CLI_NO, message);
}

/* The end of an answer that is whole. If it cannot be read back, that is said on stderr alone. */
static CliExit
print_rest (Output *out)
{
  g_autoptr (GError) error = NULL;

  if (out->common->json && !cli_spool_add (&out->json, out->rows > 0 ? "\n]\n" : "]\n", &error))
    return cli_fail (out->common, error);
  if (!out->common->json && !out->common->csv)
    cli_table_print (out->table, stdout, FALSE);
  if (!out->common->json || cli_spool_print (&out->json, stdout, &error))
    return CLI_DONE;
  fprintf (stderr, "plait: %s\n", error->message);
  return CLI_ENVIRONMENT;
}

static CliExit
query (const char *sql, const char *timeout, double timeout_s, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  g_auto (Output) out = { .common = common, .end_us = G_MAXINT64 };
  const DbQueryHandler handler = { take_columns, take_row, is_to_stop, &out };

  cli_spool_init (&out.json);
  if (timeout != NULL)
    out.end_us = g_get_monotonic_time () + (gint64)(timeout_s * 1e6);
  if (app_stored_query (cli_db_path (common), sql, &handler, &error))
    return print_rest (&out);
  if (out.table != NULL) /* as those of a longer table would be by now */
    cli_table_print (out.table, stdout, FALSE);
  if (g_error_matches (error, DB_ERROR, DB_ERROR_CANCELLED))
    return stopped (&out, timeout);
  return cli_fail (common, error);
}

static void
ask_timeout (const char *text, double *out_s, GError **error)
{
  if (text == NULL)
    return;
  if (!base_units_parse (text, BASE_DIM_SECONDS, out_s, error))
    g_prefix_error (error, "--timeout: ");
  else if (!(*out_s > 0) || *out_s > MAX_TIMEOUT_S)
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--timeout: found '%s', expected above 0 and up to %gs", text, MAX_TIMEOUT_S);
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) rest = NULL;
  g_autofree char *timeout = NULL;
  g_autoptr (GError) error = NULL;
  double timeout_s = 0;
  gboolean schema = FALSE;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[]
      = { { "schema", 0, 0, G_OPTION_ARG_NONE, &schema, "Describe every table, view and column",
            NULL },
          { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout,
            "Stop a query that takes longer, for example 30s (none)", "TIME" },
          G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, entries, 0, 1, &common, &rest, &code))
    return code;
  if (schema == (rest[0] != NULL))
    g_set_error (&error, CLI_ERROR, CLI_ERROR_USAGE, "give one SQL statement, or --schema alone");
  else
    ask_timeout (timeout, &timeout_s, &error);
  if (error != NULL)
    return cli_fail (&common, error);
  if (schema) {
    g_autofree char *text = app_stored_schema ();

    fputs (text, stdout);
    return CLI_DONE;
  }
  cli_catch_interrupt ();
  return query (rest[0], timeout, timeout_s, &common);
}

const CliVerb cli_query = {
  .name = "query",
  .arguments = "SQL | --schema",
  .summary = "Read-only SQL on the results",
  .description
  = "One SELECT. Stable views: best_plan, plan_memory, run_summary; --schema describes all.\n"
    "Nothing can be changed: writes, ATTACH and PRAGMA are refused.\n"
    "Exit code 1: it was stopped, by Ctrl-C or --timeout. With --json nothing but the error is\n"
    "then printed, as where a row fails.",
  .run = run,
};
