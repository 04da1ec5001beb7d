/* cli/parse.c - options of a subcommand. */
#include "cli/cli.h"

#include "base/units.h"

#include <string.h>
#include <unistd.h>

G_DEFINE_QUARK (plait_cli_error_quark, cli_error)

/* An option given twice is a mistake: which one was meant? */
static gboolean
refuse_repeats (char **argv, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (char **arg = argv; *arg != NULL && !g_str_equal (*arg, "--"); arg++) {
    const char *equals = strchr (*arg, '=');
    g_autofree char *name = NULL;

    if (!g_str_has_prefix (*arg, "--"))
      continue;
    name = equals != NULL ? g_strndup (*arg, (gsize)(equals - *arg)) : g_strdup (*arg);
    if (g_hash_table_contains (seen, name)) {
      g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "option '%s' is given twice: give it once",
                   name);
      return FALSE;
    }
    g_hash_table_add (seen, g_steal_pointer (&name));
  }
  return TRUE;
}

/* GLib would refuse it too, without a word on where. Names of files may be any bytes. */
static gboolean
refuse_bad_text (char **argv, GError **error)
{
  const char *option = NULL;

  for (char **arg = argv; *arg != NULL; arg++) {
    gboolean file = g_strcmp0 (option, "--db") == 0 || g_strcmp0 (option, "--catalog") == 0;

    if (!file && !g_str_has_prefix (*arg, "--db=") && !g_str_has_prefix (*arg, "--catalog=")
        && !g_utf8_validate (*arg, -1, NULL)) {
      g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "%s '%s': is not UTF-8 text",
                   option != NULL ? option : "argument", *arg);
      return FALSE;
    }
    option = g_str_has_prefix (*arg, "--") ? *arg : NULL;
  }
  return TRUE;
}

static gboolean
resolve_color (CliCommon *common, GError **error)
{
  const char *no_color = g_getenv ("NO_COLOR");
  const char *term = g_getenv ("TERM");

  if (common->color == NULL)
    common->color = g_strdup ("auto");
  if (g_str_equal (common->color, "always"))
    common->colored = TRUE;
  else if (g_str_equal (common->color, "never"))
    common->colored = FALSE;
  else if (g_str_equal (common->color, "auto"))
    common->colored = isatty (STDOUT_FILENO) && (no_color == NULL || *no_color == '\0')
                      && g_strcmp0 (term, "dumb") != 0;
  else {
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--color is '%s': expected auto, always or never", common->color);
    return FALSE;
  }
  return TRUE;
}

static gboolean
check_form (const CliCommon *common, GError **error)
{
  if (!common->json || !common->csv)
    return TRUE;
  g_set_error_literal (error, CLI_ERROR, CLI_ERROR_USAGE,
                       "--json and --csv are two forms of one answer: give one of them");
  return FALSE;
}

static GOptionContext *
make_context (const CliVerb *verb, const GOptionEntry *entries, CliCommon *common)
{
  const GOptionEntry shared[]
      = { { "db", 0, 0, G_OPTION_ARG_FILENAME, &common->db,
            "Database (default plait.db or $PLAIT_DB)", "FILE" },
          { "catalog", 0, 0, G_OPTION_ARG_FILENAME, &common->catalog,
            "Catalog folder searched first", "DIR" },
          { "json", 0, 0, G_OPTION_ARG_NONE, &common->json, "Print JSON", NULL },
          { "csv", 0, 0, G_OPTION_ARG_NONE, &common->csv, "Print CSV where the answer is a table",
            NULL },
          { "quiet", 0, 0, G_OPTION_ARG_NONE, &common->quiet, "No progress, no notes", NULL },
          { "color", 0, 0, G_OPTION_ARG_STRING, &common->color, "auto, always or never", "WHEN" },
          G_OPTION_ENTRY_NULL };
  GOptionContext *context = g_option_context_new (verb->arguments);

  if (entries != NULL)
    g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_add_main_entries (context, shared, NULL);
  g_option_context_set_summary (context, verb->summary);
  g_option_context_set_description (context, verb->description);
  g_option_context_set_help_enabled (context, FALSE);
  return context;
}

static gboolean
wants_help (char **argv)
{
  for (char **arg = argv; *arg != NULL && !g_str_equal (*arg, "--"); arg++)
    if (g_str_equal (*arg, "--help") || g_str_equal (*arg, "-h"))
      return TRUE;
  return FALSE;
}

static gboolean
count_arguments (const CliVerb *verb, char **rest, guint min, guint max, GError **error)
{
  guint n = g_strv_length (rest);

  if (n >= min && n <= max)
    return TRUE;
  if (n > max)
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "unexpected argument '%s': usage: plait %s %s",
                 rest[max], verb->name, verb->arguments);
  else
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "missing argument: usage: plait %s %s",
                 verb->name, verb->arguments);
  return FALSE;
}

static void
print_help (const CliVerb *verb, GOptionContext *context)
{
  g_autofree char *help = g_option_context_get_help (context, TRUE, NULL);
  g_autofree char *with_verb = g_strdup_printf ("plait %s", verb->name);
  const char *rest = strstr (help, "plait");

  /* "Usage:\n  plait [OPTION…] …" → "plait VERB [OPTION…] …" */
  if (rest != NULL)
    printf ("%.*s%s%s", (int)(rest - help), help, with_verb, rest + strlen ("plait"));
  else
    fputs (help, stdout);
}

static void
drop_separator (char **rest)
{
  for (char **arg = rest; *arg != NULL; arg++)
    if (g_str_equal (*arg, "--")) {
      g_free (*arg);
      memmove (arg, arg + 1, sizeof *arg * g_strv_length (arg));
      return;
    }
}

gboolean
cli_parse (const CliVerb *verb, int argc, char **argv, const GOptionEntry *entries,
           guint min_arguments, guint max_arguments, CliCommon *common, char ***out_rest,
           CliExit *out_exit)
{
  g_autoptr (GOptionContext) context = NULL;
  g_auto (GStrv) rest = g_strdupv (argv);
  g_autoptr (GError) error = NULL;

  *common = (CliCommon){ 0 };
  context = make_context (verb, entries, common);
  if (wants_help (argv + 1)) {
    print_help (verb, context);
    *out_exit = CLI_DONE;
    return FALSE;
  }
  if (!refuse_bad_text (argv + 1, &error) || !refuse_repeats (argv + 1, &error)
      || !g_option_context_parse_strv (context, &rest, &error) || !resolve_color (common, &error)
      || !check_form (common, &error)) {
    for (char **arg = argv + 1; *arg != NULL; arg++)
      common->json |= g_str_equal (*arg, "--json");
    *out_exit = cli_fail (common, error);
    return FALSE;
  }
  drop_separator (rest);
  if (!count_arguments (verb, rest + 1, min_arguments, max_arguments, &error)) {
    *out_exit = cli_fail (common, error);
    return FALSE;
  }
  if (out_rest != NULL)
    *out_rest = g_strdupv (rest + 1);
  cli_progress_enable (!common->quiet && isatty (STDERR_FILENO));
  return TRUE;
}

void
cli_common_clear (CliCommon *common)
{
  if (common == NULL)
    return;
  g_clear_pointer (&common->db, g_free);
  g_clear_pointer (&common->catalog, g_free);
  g_clear_pointer (&common->color, g_free);
}

const char *
cli_db_path (const CliCommon *common)
{
  const char *from_environment = g_getenv ("PLAIT_DB");

  if (common->db != NULL)
    return common->db;
  return from_environment != NULL && *from_environment != '\0' ? from_environment : "plait.db";
}

gboolean
cli_count (const char *option, const char *text, guint64 min, guint64 max, guint64 *out,
           GError **error)
{
  if (text == NULL || base_units_parse_count (text, min, max, out, error))
    return TRUE;
  g_prefix_error (error, "%s: ", option);
  return FALSE;
}

gboolean
cli_ratio (const char *option, const char *text, double *out, GError **error)
{
  double value = 0;

  if (text == NULL)
    return TRUE;
  if (!base_units_parse (text, BASE_DIM_RATIO, &value, error)) {
    g_prefix_error (error, "%s: ", option);
    return FALSE;
  }
  if (!(value <= 1)) {
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "%s: found '%s', expected a ratio from 0 to 1, for example 0.03 or 3%%", option,
                 text);
    return FALSE;
  }
  *out = value;
  return TRUE;
}

gboolean
cli_count_list (const char *option, const char *text, gboolean required, guint64 min, guint64 max,
                GArray **out, GError **error)
{
  *out = NULL;
  if (text == NULL && !required)
    return TRUE;
  if (!cli_require (option, text, "64, 64,128 or 64..4096", error))
    return FALSE;
  *out = base_units_parse_count_list (text, min, max, error);
  if (*out == NULL)
    g_prefix_error (error, "%s: ", option);
  return *out != NULL;
}

gboolean
cli_require (const char *option, const char *value, const char *example, GError **error)
{
  if (value != NULL && *value != '\0')
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "%s is missing: for example %s %s", option,
               option, example);
  return FALSE;
}

char **
cli_command_line (int argc, char **argv)
{
  GPtrArray *words = g_ptr_array_new ();

  g_ptr_array_add (words, g_strdup ("plait"));
  for (int i = 0; i < argc; i++)
    g_ptr_array_add (words, g_strdup (argv[i]));
  g_ptr_array_add (words, NULL);
  return (char **)g_ptr_array_free (words, FALSE);
}
