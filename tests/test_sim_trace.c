/* tests/test_sim_trace.c - a trace is read back and held against the events it was made from. */
#include "sim/trace.h"
#include "tests/costmodel_setting.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

typedef struct {
  GArray *events; /* SimEvent */
  SimTrace *trace;
} Both;

static void
note (const SimEvent *event, gpointer data)
{
  Both *both = data;
  g_array_append_val (both->events, *event);
  sim_trace_event (event, both->trace);
}

static gint
by_start (gconstpointer a, gconstpointer b)
{
  const SimEvent *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank < y->rank ? -1 : 1;
  if (x->stream != y->stream)
    return x->stream < y->stream ? -1 : 1;
  if (x->start_s != y->start_s)
    return x->start_s < y->start_s ? -1 : 1;
  return (x->end_s > y->end_s) - (x->end_s < y->end_s);
}

/* Slices as they are in the file, names interned. */
static void
read_trace (const char *path, GArray *slices, GHashTable *sent, GHashTable *received,
            guint *out_counters, guint *out_names)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  assert_true (json_parser_load_from_file (parser, path, &error));
  JsonObject *root = json_node_get_object (json_parser_get_root (parser));
  JsonArray *all = json_object_get_array_member (root, "traceEvents");
  for (guint i = 0; i < json_array_get_length (all); i++) {
    JsonObject *o = json_array_get_object_element (all, i);
    const char *phase = json_object_get_string_member (o, "ph");
    SimEvent event = { .rank = (guint32)json_object_get_int_member (o, "pid"),
                       .stream = (guint8)json_object_get_int_member (o, "tid"),
                       .name = g_intern_string (json_object_get_string_member (o, "name")) };
    if (json_object_has_member (o, "ts"))
      event.start_s = json_object_get_double_member (o, "ts") * 1e-6;
    if (g_str_equal (phase, "X")) {
      event.end_s = event.start_s + json_object_get_double_member (o, "dur") * 1e-6;
      g_array_append_val (slices, event);
    } else if (g_str_equal (phase, "s") || g_str_equal (phase, "f")) {
      gint64 id = json_object_get_int_member (o, "id");
      GHashTable *into = *phase == 's' ? sent : received;
      assert_true (
          g_hash_table_insert (into, GINT_TO_POINTER (id), g_memdup2 (&event, sizeof event)));
    } else if (g_str_equal (phase, "C"))
      ++*out_counters;
    else {
      assert_string_equal (phase, "M");
      ++*out_names;
    }
  }
}

static void
check_slices (GArray *events, GArray *slices)
{
  g_array_sort (events, by_start);
  g_array_sort (slices, by_start);
  assert_int_equal (events->len, slices->len);
  for (guint i = 0; i < events->len; i++) {
    const SimEvent *want = &g_array_index (events, SimEvent, i);
    const SimEvent *got = &g_array_index (slices, SimEvent, i);
    assert_int_equal (got->rank, want->rank);
    assert_int_equal (got->stream, want->stream);
    assert_true (fabs (got->start_s - want->start_s) < 2e-12);
    assert_true (fabs (got->end_s - want->end_s) < 2e-12);
  }
  /* one level: a thread's next slice begins when the one before is over */
  for (guint i = 1; i < slices->len; i++) {
    const SimEvent *a = &g_array_index (slices, SimEvent, i - 1);
    const SimEvent *b = &g_array_index (slices, SimEvent, i);
    if (a->rank == b->rank && a->stream == b->stream)
      assert_true (b->start_s > a->end_s - 1e-13);
  }
}

static void
check_flows (GHashTable *sent, GHashTable *received, guint wanted)
{
  GHashTableIter iter;
  gpointer key, value;
  assert_int_equal (g_hash_table_size (sent), wanted);
  assert_int_equal (g_hash_table_size (received), wanted);
  g_hash_table_iter_init (&iter, sent);
  while (g_hash_table_iter_next (&iter, &key, &value)) {
    const SimEvent *from = value, *to = g_hash_table_lookup (received, key);
    assert_non_null (to);
    assert_true (to->rank != from->rank && to->start_s > from->start_s);
  }
}

typedef struct {
  const char *name, *layout;
  gboolean full, contention;
  guint messages; /* (places − 1) · micro-batches · 2, of every pipeline played */
} TraceCase;

static const TraceCase cases[] = {
  { "trace/1f1b", "tp=4,pp=4,sp=1,zero=1", FALSE, TRUE, 3 * 8 * 2 },
  { "trace/interleaved", "tp=4,pp=4,vpp=2,sp=1,zero=1,overlap_p2p=1", FALSE, TRUE, 7 * 8 * 2 },
  /* the fold needs no message: 2·4 places, 6 hops between ranks */
  { "trace/zb_v", "tp=4,pp=4,sp=1,schedule=zb-v", FALSE, TRUE, 6 * 8 * 2 },
  { "trace/rings_undisturbed", "tp=2,cp=2,pp=4,sp=1", FALSE, FALSE, 3 * 8 * 2 },
  { "trace/every_rank", "tp=4,pp=4,sp=1,zero=1", TRUE, TRUE, 3 * 8 * 2 * 8 },
};

static void
test_trace (void **state)
{
  const TraceCase *t = *state;
  g_auto (Setting) s = { 0 };
  g_auto (ModelLayout) layout = { 0 };
  g_auto (SimCase) c = { 0 };
  g_auto (SimResult) result = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *dir = g_dir_make_tmp ("plait-trace-XXXXXX", &error);
  g_autofree char *path = g_build_filename (dir, "step.json", NULL);
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (SimEvent));
  g_autoptr (GArray) slices = g_array_new (FALSE, FALSE, sizeof (SimEvent));
  g_autoptr (GHashTable) sent = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_autoptr (GHashTable) received = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  guint counters = 0, names = 0;

  setting_init (&s, "llama-3.1-8b", "hgx-h100", "megatron", 32, 2048, 16);
  setting_cut_layers (&s, 16);
  setting_layout (&s, t->layout, &layout);
  assert_true (sim_case_init (&c, &s.problem, &layout, &error));
  g_autoptr (SimTrace) trace = sim_trace_new (path, &error);
  assert_no_error (error);
  Both both = { events, trace };
  const SimPlayOptions options
      = { .full = t->full, .contention = t->contention, .event = note, .user_data = &both };
  g_autoptr (SimPlay) play = sim_play_new (&c, &options, &error);
  assert_no_error (error);
  assert_true (sim_play_run (play, 0, &result, &error));
  assert_false (g_file_test (path, G_FILE_TEST_EXISTS)); /* not before it is whole */
  assert_true (sim_trace_close (trace, &error));
  read_trace (path, slices, sent, received, &counters, &names);
  check_slices (events, slices);
  check_flows (sent, received, t->messages);
  assert_true (counters >= result.n_ranks);
  assert_true (names >= 4 * result.n_ranks); /* process and thread, name and order */
  /* compute in the trace is the ranks' compute */
  double compute_s = 0, want_s = 0;
  for (guint i = 0; i < events->len; i++) {
    const SimEvent *event = &g_array_index (events, SimEvent, i);
    if (event->stream == SIM_STREAM_COMPUTE)
      compute_s += event->end_s - event->start_s;
  }
  for (guint32 r = 0; r < result.n_ranks; r++)
    want_s += result.ranks[r].parts_s[COST_PART_COMPUTE]
              + result.ranks[r].parts_s[COST_PART_OPTIMIZER];
  assert_near (compute_s, want_s, 1e-9);
  g_unlink (path);
  g_rmdir (dir);
}

static void
test_bad_path (void **state)
{
  g_autoptr (GError) error = NULL;
  (void)state;
  assert_null (sim_trace_new ("/nonexistent/step.json", &error));
  assert_true (g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_NOENT));
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 1] = { cmocka_unit_test (test_bad_path) };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i + 1] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = test_trace,
                                        .initial_state = (void *)&cases[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
