/* sim/trace.c - writes events as they come. */
#include "sim/trace.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>

/* A counter is written again when it has changed by this share. */
#define COUNTER_STEP_RATIO 0.005

/* What has been said of a rank. */
typedef struct {
  guint32 streams; /* bits */
  guint64 alive_bytes;
} Known;

struct _SimTrace {
  FILE *file;        /* (owned) */
  char *path, *part; /* (owned) */
  GHashTable *ranks; /* (owned) rank → Known */
  guint64 n_slices, n_events;
};

static void
set_file_error (GError **error, const char *path, int code)
{
  g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (code), "trace '%s': %s", path,
               g_strerror (code));
}

SimTrace *
sim_trace_new (const char *path, GError **error)
{
  g_autoptr (SimTrace) trace = g_new0 (SimTrace, 1);

  trace->path = g_strdup (path);
  trace->part = g_strconcat (path, ".part", NULL);
  trace->file = g_fopen (trace->part, "w");
  if (trace->file == NULL) {
    set_file_error (error, path, errno);
    return NULL;
  }
  trace->ranks = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  fputs ("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", trace->file);
  return g_steal_pointer (&trace);
}

static gint64
picoseconds (double time_s)
{
  return (gint64)llround (time_s * 1e12);
}

static void
begin (SimTrace *trace)
{
  fputs (trace->n_events++ > 0 ? ",\n" : "\n", trace->file);
}

/* Picoseconds as microseconds with six decimals. */
static void
put_time (SimTrace *trace, const char *key, gint64 ps)
{
  fprintf (trace->file, ",\"%s\":%" G_GINT64_FORMAT ".%06" G_GINT64_FORMAT, key, ps / 1000000,
           ps % 1000000);
}

static void
put_head (SimTrace *trace, const char *phase, const SimEvent *event)
{
  begin (trace);
  fprintf (trace->file, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase, event->rank, event->stream);
}

static Known *
introduce (SimTrace *trace, const SimEvent *event)
{
  Known *known = g_hash_table_lookup (trace->ranks, GUINT_TO_POINTER (event->rank + 1));

  if (known == NULL) {
    known = g_new0 (Known, 1);
    g_hash_table_insert (trace->ranks, GUINT_TO_POINTER (event->rank + 1), known);
    put_head (trace, "M", event);
    fprintf (trace->file, ",\"name\":\"process_name\",\"args\":{\"name\":\"rank %u\"}}",
             event->rank);
    put_head (trace, "M", event);
    fprintf (trace->file, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}",
             event->rank);
  }
  if (!(known->streams & 1u << event->stream)) {
    known->streams |= 1u << event->stream;
    put_head (trace, "M", event);
    fprintf (trace->file, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
             sim_stream_name ((SimStream)event->stream));
    put_head (trace, "M", event);
    fprintf (trace->file, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
             event->stream);
  }
  return known;
}

static const char *
phase_name (guint phase)
{
  static const char *const names[MODEL_PHASE_N_KINDS] = {
    [MODEL_PHASE_FORWARD] = "forward",
    [MODEL_PHASE_RECOMPUTE] = "recompute",
    [MODEL_PHASE_BACKWARD_INPUT] = "backward_input",
    [MODEL_PHASE_BACKWARD_WEIGHT] = "backward_weight",
    [MODEL_PHASE_TAIL] = "tail",
  };
  return phase < MODEL_PHASE_N_KINDS ? names[phase] : "?";
}

static void
put_slice (SimTrace *trace, const SimEvent *event, gint64 start, gint64 end)
{
  put_head (trace, "X", event);
  fprintf (trace->file, ",\"name\":\"%s\",\"cat\":\"%s\"", event->name,
           cost_part_name ((CostPart)event->part));
  put_time (trace, "ts", start);
  put_time (trace, "dur", end - start);
  fprintf (trace->file, ",\"args\":{\"phase\":\"%s\"", phase_name (event->phase));
  if (event->chunk != G_MAXUINT32)
    fprintf (trace->file, ",\"chunk\":%u", event->chunk);
  if (event->microbatch != G_MAXUINT32)
    fprintf (trace->file, ",\"microbatch\":%u", event->microbatch);
  fputs ("}}", trace->file);
  trace->n_slices++;
}

static void
put_flow (SimTrace *trace, const SimEvent *event, gint64 start)
{
  put_head (trace, event->is_send ? "s" : "f", event);
  fprintf (trace->file, ",\"name\":\"message\",\"cat\":\"p2p\",\"id\":%" G_GUINT64_FORMAT,
           event->message);
  put_time (trace, "ts", start);
  fputs (event->is_send ? "}" : ",\"bp\":\"e\"}", trace->file);
}

static void
put_counter (SimTrace *trace, const SimEvent *event, Known *known, gint64 start)
{
  double change = (double)event->alive_bytes - (double)known->alive_bytes;

  if (event->alive_bytes == 0 || fabs (change) < COUNTER_STEP_RATIO * (double)known->alive_bytes)
    return;
  known->alive_bytes = event->alive_bytes;
  put_head (trace, "C", event);
  fputs (",\"name\":\"allocated\"", trace->file);
  put_time (trace, "ts", start);
  fprintf (trace->file, ",\"args\":{\"bytes\":%" G_GUINT64_FORMAT "}}", event->alive_bytes);
}

void
sim_trace_event (const SimEvent *event, gpointer data)
{
  SimTrace *trace = data;
  Known *known = introduce (trace, event);
  gint64 start = picoseconds (event->start_s), end = picoseconds (event->end_s);

  put_slice (trace, event, start, MAX (end, start));
  if (event->message != 0)
    put_flow (trace, event, start);
  put_counter (trace, event, known, start);
}

gboolean
sim_trace_close (SimTrace *trace, GError **error)
{
  fputs ("\n]}\n", trace->file);
  gboolean failed = ferror (trace->file) != 0;
  int code = errno;
  failed |= fclose (trace->file) != 0;
  trace->file = NULL;
  if (failed || g_rename (trace->part, trace->path) != 0) {
    set_file_error (error, trace->path, failed && code != 0 ? code : errno);
    return FALSE;
  }
  return TRUE;
}

guint64
sim_trace_count (const SimTrace *trace)
{
  return trace->n_slices;
}

void
sim_trace_free (SimTrace *trace)
{
  if (trace == NULL)
    return;
  if (trace->file != NULL) {
    fclose (trace->file);
    g_unlink (trace->part);
  }
  g_clear_pointer (&trace->ranks, g_hash_table_unref);
  g_free (trace->path);
  g_free (trace->part);
  g_free (trace);
}
