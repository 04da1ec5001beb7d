/* cli/cli.h - what every subcommand shares: options, errors, exit codes, colour, tables. */
#pragma once
#include <glib.h>
#include <stdio.h>
G_BEGIN_DECLS

typedef enum {
  CLI_DONE = 0,
  CLI_NO = 1,          /* ran, but the answer is no */
  CLI_USAGE = 2,       /* bad usage or input */
  CLI_ENVIRONMENT = 3, /* no GPU, driver, MPI, or a database that cannot be used */
} CliExit;

#define CLI_ERROR (cli_error_quark ())
GQuark cli_error_quark (void);
typedef enum { CLI_ERROR_USAGE, CLI_ERROR_ENVIRONMENT } CliError;

/* Options that every subcommand understands. Strings are owned. */
typedef struct {
  char *db;      /* --db, else $PLAIT_DB, else NULL */
  char *catalog; /* --catalog */
  char *color;   /* auto, always, never */
  gboolean json, csv, quiet;
  gboolean colored; /* resolved */
} CliCommon;

typedef struct _CliVerb CliVerb;
struct _CliVerb {
  const char *name;
  const char *arguments;   /* for usage: "[options]", "SQL" */
  const char *summary;     /* one line */
  const char *description; /* paragraphs for 'plait help NAME' */
  CliExit (*run) (const CliVerb *verb, int argc, char **argv);
};
extern const CliVerb *const cli_verbs[]; /* NULL-terminated */
const CliVerb *cli_verb_find (const char *name);
char *cli_verb_help (const CliVerb *verb, const GOptionEntry *entries);

/*
 * Parses @argv (verb first) by @entries (nullable) and the common options. Positional arguments
 * are left in *out_rest (owned strv). Unknown or repeated options, options without their value and
 * too many arguments are CLI_ERROR_USAGE. Returns FALSE with *out_exit set when the caller should
 * return at once: after printing help (CLI_DONE) or an error.
 */
gboolean cli_parse (const CliVerb *verb, int argc, char **argv, const GOptionEntry *entries,
                    guint min_arguments, guint max_arguments, CliCommon *common, char ***out_rest,
                    CliExit *out_exit);
void cli_common_clear (CliCommon *common);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CliCommon, cli_common_clear)

/* "plait" and @argv, to start ranks with the same words. (owned) strv */
char **cli_command_line (int argc, char **argv);

/* Reports @error once ("plait: message" on stderr; JSON on stdout too with --json) and returns the
 * exit code that its domain asks for. */
CliExit cli_fail (const CliCommon *common, const GError *error);
/* The same of what is no GError, with its exit code. */
CliExit cli_fail_as (const CliCommon *common, CliExit code, const char *message);

/* Option values, with the option's name in the message; NULL text: *out stays untouched. */
gboolean cli_count (const char *option, const char *text, guint64 min, guint64 max, guint64 *out,
                    GError **error);
gboolean cli_ratio (const char *option, const char *text, double *out, GError **error);
/* NULL text with @required FALSE gives *out = NULL. (owned) GArray of guint64. */
gboolean cli_count_list (const char *option, const char *text, gboolean required, guint64 min,
                         guint64 max, GArray **out, GError **error);
gboolean cli_require (const char *option, const char *value, const char *example, GError **error);

/* Catches SIGINT and SIGTERM: the first asks politely, the second ends the program. */
void cli_catch_interrupt (void);
gboolean cli_interrupted (gpointer unused);

/* A line that is rewritten on a terminal, nothing elsewhere. */
void cli_progress (const char *what, guint64 done, guint64 total);
void cli_progress_end (void);
void cli_progress_enable (gboolean enable);

/* ---- tables ---- */
typedef struct _CliTable CliTable;
typedef enum { CLI_LEFT, CLI_RIGHT } CliAlign;
CliTable *cli_table_new (void);
void cli_table_free (CliTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CliTable, cli_table_free)
void cli_table_column (CliTable *table, const char *header, CliAlign align);
/* Starts a row; then one cell per column. */
void cli_table_row (CliTable *table);
void cli_table_cell (CliTable *table, const char *format, ...) G_GNUC_PRINTF (2, 3);
void cli_table_cell_owned (CliTable *table, char *text); /* takes @text */
guint cli_table_n_rows (const CliTable *table);
/* Aligned text, or CSV (RFC 4180). */
void cli_table_print (const CliTable *table, FILE *out, gboolean csv);

/* ---- the subcommands ---- */
extern const CliVerb cli_plan, cli_predict, cli_show, cli_compare, cli_query, cli_models,
    cli_machines, cli_gpus, cli_profiles, cli_shard, cli_topo, cli_validate, cli_calibrate,
    cli_collective, cli_exec, cli_simulate;

/* Path of the database: --db, $PLAIT_DB, "plait.db". (borrowed) */
const char *cli_db_path (const CliCommon *common);
G_END_DECLS
