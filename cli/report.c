/* cli/report.c - errors, Ctrl-C and SIGTERM, progress. */
#include "cli/cli.h"

#include "app/error.h"

#include <json-glib/json-glib.h>
#include <signal.h>
#include <unistd.h>

static void
print_json_error (CliExit code, const char *message)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autofree char *text = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "error");
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "code");
  json_builder_add_int_value (builder, code);
  json_builder_set_member_name (builder, "message");
  json_builder_add_string_value (builder, message);
  json_builder_end_object (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  text = json_to_string (root, TRUE);
  puts (text);
}

/* One line, whatever a message from below contains. */
static char *
single_line (const char *message)
{
  char *line = g_utf8_make_valid (message, -1);

  for (char *c = line; *c != '\0'; c++)
    if ((guchar)*c < ' ')
      *c = ' ';
  return g_strchomp (line);
}

CliExit
cli_fail (const CliCommon *common, const GError *error)
{
  gboolean is_environment = app_error_is_environment (error)
                            || g_error_matches (error, CLI_ERROR, CLI_ERROR_ENVIRONMENT);

  return cli_fail_as (common, is_environment ? CLI_ENVIRONMENT : CLI_USAGE, error->message);
}

CliExit
cli_fail_as (const CliCommon *common, CliExit code, const char *message)
{
  g_autofree char *line = single_line (message);

  cli_progress_end ();
  fprintf (stderr, "plait: %s\n", line);
  if (common->json)
    print_json_error (code, line);
  return code;
}

/* ---- Ctrl-C, and SIGTERM, which batch systems and containers send before they kill ---- */

static volatile sig_atomic_t interrupts;

/* Exits as a shell reports a process that the signal ended. */
static void
on_interrupt (int signal_number)
{
  if (interrupts++ > 0)
    _exit (128 + signal_number);
}

void
cli_catch_interrupt (void)
{
  /* what is being written goes on: half an answer is none */
  struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };

  sigemptyset (&action.sa_mask);
  sigaction (SIGINT, &action, NULL);
  sigaction (SIGTERM, &action, NULL);
}

gboolean
cli_interrupted (gpointer unused)
{
  (void)unused;
  return interrupts > 0;
}

/* ---- progress: on a terminal only, at most ten times a second ---- */

static gboolean progress_enabled;
static gint progress_shown;
static gint64 progress_last_us;
static GMutex progress_lock;

void
cli_progress_enable (gboolean enable)
{
  progress_enabled = enable;
}

void
cli_progress (const char *what, guint64 done, guint64 total)
{
  gint64 now_us = g_get_monotonic_time ();

  if (!progress_enabled)
    return;
  g_mutex_lock (&progress_lock);
  if (now_us - progress_last_us >= 100000) {
    progress_last_us = now_us;
    progress_shown = TRUE;
    fprintf (stderr, "\r\033[K%s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " (%.0f %%)", what,
             done, total, total > 0 ? 100.0 * (double)done / (double)total : 100.0);
    fflush (stderr);
  }
  g_mutex_unlock (&progress_lock);
}

void
cli_progress_end (void)
{
  if (progress_shown)
    fputs ("\r\033[K", stderr);
  progress_shown = FALSE;
}
