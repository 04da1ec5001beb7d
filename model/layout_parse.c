/* model/layout_parse.c - reads "tp=8,pp=8,vpp=3". */
#include "base/suggest.h"
#include "base/text.h"
#include "base/units.h"
#include "model/layout-private.h"
#include "model/schedule.h"
#include <string.h>

#define MAX_DEGREE (1u << 20)

/* What a parse has seen so far, for the keys that depend on each other. */
typedef struct {
  ModelLayout *layout;
  gboolean zero_given, fsdp_given, fsdp, schedule_given, vpp_given, pp_given;
  guint n_stages; /* entries of stages=, 0: auto */
} ParseState;

typedef gboolean (*ParseFunc) (ParseState *state, const char *key, const char *value, gsize offset,
                               GError **error);

/* Every refusal of a value reads the same. */
static gboolean
refuse (const char *key, const char *value, GError **error, const char *expected)
{
  g_autofree char *found = base_text_excerpt (value, -1);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE, "layout: %s: found '%s', expected %s", key,
               found, expected);
  return FALSE;
}

static gboolean
parse_count (const char *key, const char *value, guint32 min, guint32 max, guint32 *out,
             GError **error)
{
  guint64 count;
  if (base_units_parse_count (value, min, max, &count, NULL)) {
    *out = (guint32)count;
    return TRUE;
  }
  g_autofree char *expected = g_strdup_printf ("a whole number from %u to %u", min, max);
  return refuse (key, value, error, expected);
}

static gboolean
parse_degree (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  return parse_count (key, value, 1, MAX_DEGREE, G_STRUCT_MEMBER_P (state->layout, offset), error);
}

static gboolean
parse_pp (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  state->pp_given = TRUE;
  return parse_degree (state, key, value, offset, error);
}

static gboolean
parse_vpp (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  state->vpp_given = TRUE;
  return parse_degree (state, key, value, offset, error);
}

static gboolean
parse_flag (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  gboolean *out = G_STRUCT_MEMBER_P (state->layout, offset);
  if (!g_str_equal (value, "0") && !g_str_equal (value, "1"))
    return refuse (key, value, error, "0 or 1");
  *out = value[0] == '1';
  return TRUE;
}

static gboolean
parse_zero (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  guint32 stage;
  if (!parse_count (key, value, 0, 3, &stage, error))
    return FALSE;
  state->layout->zero = (guint8)stage;
  state->zero_given = TRUE;
  return TRUE;
}

static gboolean
parse_fsdp (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  if (!g_str_equal (value, "0") && !g_str_equal (value, "1"))
    return refuse (key, value, error, "0 or 1");
  state->fsdp_given = TRUE;
  state->fsdp = value[0] == '1';
  return TRUE;
}

/* Index of @value in @names, or an error that lists them. */
static gboolean
parse_word (const char *key, const char *value, const char *const *names, guint *out,
            GError **error)
{
  gint index = base_name_index (value, names);
  if (index >= 0) {
    *out = (guint)index;
    return TRUE;
  }
  g_autofree char *expected = base_suggest_one_of (value, names);
  return refuse (key, value, error, expected);
}

static gboolean
parse_schedule (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  state->schedule_given = TRUE;
  if (g_str_has_prefix (value, "file:")) {
    if (value[5] == '\0')
      return refuse (key, value, error, "a path after 'file:'");
    state->layout->schedule_file = g_strdup (value + 5);
    state->layout->schedule_list = model_schedule_read (value + 5, error);
    if (state->layout->schedule_list == NULL) {
      g_prefix_error (error, "layout: schedule: ");
      return FALSE;
    }
    state->layout->schedule = state->layout->schedule_list->kind;
    return TRUE;
  }
  guint kind;
  if (!parse_word (key, value, model_schedule_names, &kind, error))
    return FALSE;
  state->layout->schedule = kind;
  return TRUE;
}

static gboolean
parse_attn (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  guint kernel;
  if (!parse_word (key, value, model_attn_names, &kernel, error))
    return FALSE;
  state->layout->attn = kernel;
  return TRUE;
}

static gboolean
parse_cp_comm (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  guint comm;
  if (!parse_word (key, value, model_cp_comm_names, &comm, error))
    return FALSE;
  state->layout->cp_comm = comm;
  return TRUE;
}

static gboolean
parse_cuda_graph (ParseState *state, const char *key, const char *value, gsize offset,
                  GError **error)
{
  guint graph;
  if (!parse_word (key, value, model_cuda_graph_names, &graph, error))
    return FALSE;
  state->layout->cuda_graph = graph;
  return TRUE;
}

static gboolean
parse_dtype (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  guint dtype;
  if (!parse_word (key, value, model_dtype_names, &dtype, error))
    return FALSE;
  state->layout->dtype = dtype;
  return TRUE;
}

static gboolean
parse_tp_sync (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  double ratio;
  if (!base_units_parse (value, BASE_DIM_RATIO, &ratio, NULL) || !(ratio > 0 && ratio <= 1))
    return refuse (key, value, error, "a ratio above 0 and at most 1");
  state->layout->tp_sync = ratio;
  return TRUE;
}

/* "15", or "15x4" for four stages of 15 layers each, after @stages. */
static gboolean
parse_stage_run (GArray *stages, const char *part)
{
  g_auto (GStrv) words = g_strsplit (part, "x", 2);
  guint64 layers = 0, times = 1;
  if (words[0] == NULL || !base_units_parse_count (words[0], 1, MAX_DEGREE, &layers, NULL)
      || (words[1] != NULL && !base_units_parse_count (words[1], 1, MAX_DEGREE, &times, NULL))
      || stages->len + times > MAX_DEGREE)
    return FALSE;
  for (guint64 i = 0; i < times; i++) {
    guint32 value = (guint32)layers;
    g_array_append_val (stages, value);
  }
  return TRUE;
}

/* "auto", or layers per virtual stage: "15+16+16+15", "15+16x2+15". */
static gboolean
parse_stages (ParseState *state, const char *key, const char *value, gsize offset, GError **error)
{
  if (g_str_equal (value, "auto"))
    return TRUE;
  g_auto (GStrv) parts = g_strsplit (value, "+", -1);
  g_autoptr (GArray) stages = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint i = 0; parts[i] != NULL; i++)
    if (!parse_stage_run (stages, parts[i]))
      return refuse (key, value, error,
                     "'auto' or at least one layer per stage, as in 15+16+16+15 or 15+16x2+15");
  if (stages->len == 0)
    return refuse (key, value, error,
                   "'auto' or at least one layer per stage, as in 15+16+16+15 or 15+16x2+15");
  state->n_stages = stages->len;
  state->layout->stage_layers
      = (guint32 *)(gpointer)g_array_free (g_steal_pointer (&stages), FALSE);
  return TRUE;
}

static gboolean
parse_modules (ModelRecompute *recompute, const char *key, const char *value, const char *list,
               GError **error)
{
  g_auto (GStrv) parts = g_strsplit (list, "+", -1);
  for (guint i = 0; parts[i] != NULL; i++) {
    guint module;
    if (!parse_word (key, parts[i], model_recompute_module_names, &module, error))
      return FALSE;
    if (recompute->modules & (1u << module))
      return refuse (key, value, error, "each module once");
    recompute->modules |= (guint16)(1u << module);
  }
  if (recompute->modules == 0)
    return refuse (key, value, error, "modules after 'selective:', as in selective:core_attn+mlp");
  return TRUE;
}

static gboolean
parse_full (ModelRecompute *recompute, const char *key, const char *value, const char *rest,
            GError **error)
{
  const char *number = rest;
  if (g_str_has_prefix (rest, "uniform:")) {
    recompute->method = MODEL_RECOMPUTE_UNIFORM;
    number += strlen ("uniform:");
  } else if (g_str_has_prefix (rest, "block:")) {
    recompute->method = MODEL_RECOMPUTE_BLOCK;
    number += strlen ("block:");
  } else {
    return refuse (key, value, error, "full, full:uniform:N or full:block:N");
  }
  return parse_count (key, number, 1, MAX_DEGREE, &recompute->n, error);
}

static gboolean
parse_recompute (ParseState *state, const char *key, const char *value, gsize offset,
                 GError **error)
{
  ModelRecompute *recompute = &state->layout->recompute;
  if (g_str_equal (value, "none"))
    return TRUE;
  if (g_str_equal (value, "selective")) {
    *recompute = (ModelRecompute){ .kind = MODEL_RECOMPUTE_SELECTIVE,
                                   .modules = MODEL_RECOMPUTE_CORE_ATTN };
    return TRUE;
  }
  if (g_str_has_prefix (value, "selective:")) {
    recompute->kind = MODEL_RECOMPUTE_SELECTIVE;
    return parse_modules (recompute, key, value, value + strlen ("selective:"), error);
  }
  *recompute
      = (ModelRecompute){ .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 1 };
  if (g_str_equal (value, "full"))
    return TRUE;
  if (g_str_has_prefix (value, "full:"))
    return parse_full (recompute, key, value, value + strlen ("full:"), error);
  return refuse (key, value, error,
                 "none, selective[:MODULE+MODULE…] or full[:uniform:N|:block:N]");
}

typedef struct {
  const char *key;
  ParseFunc parse;
  gsize offset; /* of the field that parse_degree and parse_flag set */
} KeyFacts;

#define FIELD(name) G_STRUCT_OFFSET (ModelLayout, name)
static const KeyFacts keys[] = {
  { "tp", parse_degree, FIELD (tp) },
  { "cp", parse_degree, FIELD (cp) },
  { "pp", parse_pp, FIELD (pp) },
  { "vpp", parse_vpp, FIELD (vpp) },
  { "ep", parse_degree, FIELD (ep) },
  { "etp", parse_degree, FIELD (etp) },
  { "mbs", parse_degree, FIELD (mbs) },
  { "dp", parse_degree, FIELD (dp) },
  { "hsdp", parse_degree, FIELD (hsdp) },
  { "sp", parse_flag, FIELD (sp) },
  { "overlap_tp", parse_flag, FIELD (overlap_tp) },
  { "overlap_dp", parse_flag, FIELD (overlap_dp) },
  { "overlap_p2p", parse_flag, FIELD (overlap_p2p) },
  { "overlap_ep", parse_flag, FIELD (overlap_ep) },
  { "zero", parse_zero, 0 },
  { "fsdp", parse_fsdp, 0 },
  { "recompute", parse_recompute, 0 },
  { "schedule", parse_schedule, 0 },
  { "stages", parse_stages, 0 },
  { "attn", parse_attn, 0 },
  { "dtype", parse_dtype, 0 },
  { "cp_comm", parse_cp_comm, 0 },
  { "tp_sync", parse_tp_sync, 0 },
  { "cuda_graph", parse_cuda_graph, 0 },
};
#undef FIELD

static gboolean
refuse_key (const char *key, GError **error)
{
  const char *names[G_N_ELEMENTS (keys) + 1] = { NULL };
  g_autofree char *found = base_text_excerpt (key, -1);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    names[i] = keys[i].key;
  const char *near = base_suggest (key, names);
  g_autofree char *list = g_strjoinv (" ", (char **)names);
  if (near != NULL)
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "layout: unknown key '%s': did you mean '%s'", found, near);
  else
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "layout: unknown key '%s': expected one of %s", found, list);
  return FALSE;
}

static gboolean
refuse_pair (const char *pair, GError **error)
{
  g_autofree char *found = base_text_excerpt (pair, -1);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "layout: found '%s', expected key=value pairs with commas between them, as in "
               "tp=8,pp=4",
               found);
  return FALSE;
}

/* One "key=value"; @seen has a bit per entry of keys[]. */
static gboolean
parse_pair (ParseState *state, char *pair, guint32 *seen, GError **error)
{
  char *equals = strchr (pair, '=');
  if (equals == NULL)
    return refuse_pair (pair, error);
  *equals = '\0';
  const char *key = g_strstrip (pair), *value = g_strstrip (equals + 1);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++) {
    if (!g_str_equal (key, keys[i].key))
      continue;
    if (*seen & (1u << i)) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE, "layout: key '%s' is given twice", key);
      return FALSE;
    }
    *seen |= 1u << i;
    return keys[i].parse (state, key, value, keys[i].offset, error);
  }
  return refuse_key (key, error);
}

/* A schedule that fixes the number of chunks, or of ranks, need not be told it. */
static void
fill_from_schedule (ParseState *state)
{
  ModelLayout *layout = state->layout;
  const ModelSchedule *list = layout->schedule_list;
  if (!state->vpp_given && model_schedule_chunks (layout->schedule) > 1)
    layout->vpp = model_schedule_chunks (layout->schedule);
  if (!state->vpp_given && list != NULL)
    layout->vpp = list->vpp;
  if (!state->pp_given && list != NULL)
    layout->pp = list->pp;
}

/* Keys that depend on each other, once all of them are known. */
static gboolean
finish (ParseState *state, GError **error)
{
  ModelLayout *layout = state->layout;
  if (state->fsdp_given && state->zero_given && state->fsdp != (layout->zero == 3)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "layout: fsdp=%d contradicts zero=%u: fsdp=1 is another name for zero=3",
                 state->fsdp, layout->zero);
    return FALSE;
  }
  if (state->fsdp)
    layout->zero = 3;
  if (!state->schedule_given)
    layout->schedule = model_schedule_default (layout->vpp);
  fill_from_schedule (state);
  guint64 n_stages = model_layout_n_stages (layout);
  if (state->n_stages != 0 && state->n_stages != n_stages) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "layout: stages: found %u stages, expected %s = %" G_GUINT64_FORMAT,
                 state->n_stages,
                 model_schedule_is_bidirectional (layout->schedule) ? "pp" : "pp·vpp", n_stages);
    return FALSE;
  }
  return TRUE;
}

/* Text that can be printed on one line. */
static gboolean
check_text (const char *text, GError **error)
{
  gboolean ok = g_utf8_validate (text, -1, NULL);
  for (const char *at = text; ok && *at != '\0'; at++)
    ok = !g_ascii_iscntrl (*at);
  if (ok && *text != '\0')
    return TRUE;
  g_autofree char *found = base_text_excerpt (text, -1);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "layout: found %s'%s', expected at least one key=value, as in tp=1",
               ok ? "empty text " : "control characters or invalid UTF-8 in ", found);
  return FALSE;
}

gboolean
model_layout_parse (ModelLayout *layout, const char *text, const ModelProfile *profile,
                    GError **error)
{
  model_layout_init (layout, profile);
  layout->dp = 0;
  if (!check_text (text, error))
    return FALSE;
  g_auto (GStrv) pairs = g_strsplit (text, ",", -1);
  ParseState state = { .layout = layout };
  guint32 seen = 0;
  gboolean ok = TRUE;
  for (guint i = 0; ok && pairs[i] != NULL; i++)
    ok = parse_pair (&state, pairs[i], &seen, error);
  ok = ok && finish (&state, error);
  if (!ok)
    model_layout_clear (layout);
  return ok;
}
