/* model/layout.c - defaults, copies and the text form of a layout, written. Read: layout_parse.c. */
#include "model/layout-private.h"
#include "model/schedule.h"
#include <string.h>

void
model_layout_init (ModelLayout *layout, const ModelProfile *profile)
{
  *layout = (ModelLayout){
    .tp = 1,
    .cp = 1,
    .pp = 1,
    .vpp = 1,
    .ep = 1,
    .etp = 1,
    .dp = 1,
    .mbs = 1,
    .schedule = MODEL_SCHEDULE_1F1B,
    .attn = MODEL_ATTN_FLASH,
    .dtype = MODEL_DTYPE_BF16,
    .cp_comm = MODEL_CP_P2P,
    .tp_sync = 1.0,
    .overlap_tp = profile->overlap_tp,
    .overlap_dp = profile->overlap_dp,
    .overlap_p2p = profile->overlap_p2p,
  };
}

void
model_layout_clear (ModelLayout *layout)
{
  if (layout == NULL)
    return;
  g_clear_pointer (&layout->schedule_file, g_free);
  g_clear_pointer (&layout->schedule_list, model_schedule_free);
  g_clear_pointer (&layout->stage_layers, g_free);
}

void
model_layout_copy (ModelLayout *to, const ModelLayout *from)
{
  *to = *from;
  to->schedule_file = g_strdup (from->schedule_file);
  to->schedule_list = model_schedule_ref (from->schedule_list);
  if (from->stage_layers != NULL)
    to->stage_layers
        = g_memdup2 (from->stage_layers, model_layout_n_stages (from) * sizeof *from->stage_layers);
}

char *
model_recompute_format (const ModelRecompute *recompute)
{
  switch (recompute->kind) {
  case MODEL_RECOMPUTE_FULL:
    return g_strdup_printf ("full:%s:%u",
                            recompute->method == MODEL_RECOMPUTE_BLOCK ? "block" : "uniform",
                            recompute->n);
  case MODEL_RECOMPUTE_SELECTIVE: {
    GString *text = g_string_new ("selective");
    char separator = ':';
    for (guint i = 0; model_recompute_module_names[i] != NULL; i++)
      if (recompute->modules & (1u << i)) {
        g_string_append_printf (text, "%c%s", separator, model_recompute_module_names[i]);
        separator = '+';
      }
    return g_string_free (text, FALSE);
  }
  default:
    return g_strdup ("none");
  }
}

static void
append_count (GString *text, const char *key, guint32 value, guint32 fallback)
{
  if (value != fallback)
    g_string_append_printf (text, "%s%s=%u", text->len > 0 ? "," : "", key, value);
}

static void
append_word (GString *text, const char *key, const char *word, gboolean differs)
{
  if (differs)
    g_string_append_printf (text, "%s%s=%s", text->len > 0 ? "," : "", key, word);
}

static void
append_schedule (GString *text, const ModelLayout *layout)
{
  if (model_schedule_is_file (layout->schedule)) {
    g_string_append_printf (text, ",schedule=file:%s",
                            layout->schedule_file != NULL ? layout->schedule_file : "");
    return;
  }
  append_word (text, "schedule", model_schedule_name (layout->schedule),
               layout->schedule != model_schedule_default (layout->vpp));
}

static void
append_stages (GString *text, const ModelLayout *layout)
{
  if (layout->stage_layers == NULL)
    return;
  g_string_append (text, ",stages=");
  for (guint64 i = 0; i < model_layout_n_stages (layout); i++)
    g_string_append_printf (text, "%s%u", i > 0 ? "+" : "", layout->stage_layers[i]);
}

/* A list of stages, "2+2+2+3": runs of three and more as "2x3". */
static void
append_short_stages (GString *text, const char *list, gsize length)
{
  g_autofree char *value = g_strndup (list, length);
  g_auto (GStrv) parts = g_strsplit (value, "+", -1);
  for (guint i = 0, next = 0; parts[i] != NULL; i = next) {
    for (next = i + 1; parts[next] != NULL && g_str_equal (parts[next], parts[i]);)
      next++;
    gboolean is_run = next - i >= 3 && strchr (parts[i], 'x') == NULL;
    for (guint j = i; j < (is_run ? i + 1 : next); j++)
      g_string_append_printf (text, "%s%s", j > 0 ? "+" : "", parts[j]);
    if (is_run)
      g_string_append_printf (text, "x%u", next - i);
  }
}

char *
model_layout_shorten (const char *text)
{
  static const char key[] = "stages=";
  const char *stages = g_str_has_prefix (text, key) ? text : strstr (text, ",stages=");
  if (stages == NULL)
    return g_strdup (text);
  GString *out = g_string_new (NULL);
  stages = strchr (stages, '=') + 1;
  gsize length = strcspn (stages, ",");
  g_string_append_len (out, text, stages - text);
  append_short_stages (out, stages, length);
  g_string_append (out, stages + length);
  return g_string_free (out, FALSE);
}

static void
append_overlaps (GString *text, const ModelLayout *layout, const ModelProfile *profile)
{
  append_count (text, "overlap_tp", layout->overlap_tp != FALSE, profile->overlap_tp != FALSE);
  append_count (text, "overlap_dp", layout->overlap_dp != FALSE, profile->overlap_dp != FALSE);
  append_count (text, "overlap_p2p", layout->overlap_p2p != FALSE, profile->overlap_p2p != FALSE);
  append_count (text, "overlap_ep", layout->overlap_ep != FALSE, 0);
}

char *
model_layout_format (const ModelLayout *layout, const ModelProfile *profile)
{
  g_autofree char *recompute = model_recompute_format (&layout->recompute);
  GString *text = g_string_new (NULL);
  append_count (text, "tp", layout->tp, 1);
  append_count (text, "sp", layout->sp != FALSE, 0);
  append_count (text, "cp", layout->cp, 1);
  append_count (text, "pp", layout->pp, 1);
  /* a schedule of two chunks need not be told so, hence 1 must be said */
  append_count (text, "vpp", layout->vpp, model_schedule_chunks (layout->schedule) == 2 ? 0 : 1);
  append_count (text, "ep", layout->ep, 1);
  append_count (text, "etp", layout->etp, 1);
  append_count (text, "mbs", layout->mbs, 1);
  append_count (text, "dp", layout->dp, 0);
  /* A layout of defaults without dp still needs one pair to be readable text. */
  if (text->len == 0)
    g_string_append (text, "tp=1");
  append_count (text, "zero", layout->zero, 0);
  append_count (text, "hsdp", layout->hsdp, 0);
  append_word (text, "recompute", recompute, layout->recompute.kind != MODEL_RECOMPUTE_NONE);
  append_schedule (text, layout);
  append_stages (text, layout);
  append_word (text, "attn", model_attn_name (layout->attn), layout->attn != MODEL_ATTN_FLASH);
  append_word (text, "dtype", model_dtype_name (layout->dtype), layout->dtype != MODEL_DTYPE_BF16);
  append_word (text, "cp_comm", model_cp_comm_name (layout->cp_comm),
               layout->cp_comm != MODEL_CP_P2P);
  if (layout->tp_sync != 1.0) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    append_word (text, "tp_sync", g_ascii_dtostr (number, sizeof number, layout->tp_sync), TRUE);
  }
  append_word (text, "cuda_graph", model_cuda_graph_name (layout->cuda_graph),
               layout->cuda_graph != MODEL_GRAPH_NONE);
  append_overlaps (text, layout, profile);
  return g_string_free (text, FALSE);
}

guint64
model_layout_microbatches (const ModelLayout *layout, const ModelJob *job)
{
  guint64 per_microbatch = (guint64)layout->mbs * layout->dp;
  return per_microbatch == 0 ? 0 : job->global_batch / per_microbatch;
}
