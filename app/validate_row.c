/* app/validate_row.c - one row: resolved, predicted, compared. */
#include "app/validate-private.h"

#include "base/stats.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define GIB 1073741824.0

static const char *const mem_kind_names[APP_MEM_N_KINDS]
    = { "none", "allocated", "reserved", "driver", "unstated" };

const char *
app_mem_kind_name (AppMemKind kind)
{
  g_return_val_if_fail ((guint)kind < APP_MEM_N_KINDS, "?");
  return mem_kind_names[kind];
}

gboolean
validate_skip (ValidateCase *c, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  if (c->skip == NULL)
    c->skip = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  return TRUE;
}

void
validate_assume (ValidateCase *c, const char *column)
{
  if (!validate_is_assumed (c, column))
    g_ptr_array_add (c->assumed, g_strdup (column));
}

gboolean
validate_is_assumed (const ValidateCase *c, const char *column)
{
  return g_ptr_array_find_with_equal_func (c->assumed, column, g_str_equal, NULL);
}

const char *
validate_field (ValidateCase *c, const char *column)
{
  const char *text = validate_cell (&c->cells, column);
  const char *fallback = NULL;

  if (*text != '\0')
    return text;
  fallback = g_hash_table_lookup (c->setting.profile->row_defaults, column);
  if (fallback == NULL)
    return "";
  validate_assume (c, column);
  return fallback;
}

/* What is predicted: the training of language models. */
static void
check_scope (ValidateCase *c)
{
  const char *phase = validate_cell (&c->cells, "phase");
  const char *arch = validate_cell (&c->cells, "arch");

  if (*phase == '\0')
    validate_skip (c, "no phase");
  else if (!g_str_equal (phase, "train"))
    validate_skip (c, "phase '%s' is not predicted", phase);
  else if (*arch == '\0')
    validate_skip (c, "no arch");
  else if (!g_str_equal (arch, "dense") && !g_str_equal (arch, "moe"))
    validate_skip (c, "arch '%s' is not predicted", arch);
}

gboolean
validate_case_init (ValidateCase *out, ValidateShelf *shelf, const ValidateCells *cells,
                    GError **error)
{
  gboolean ok = TRUE;

  *out = (ValidateCase){ .cells = *cells };
  out->assumed = g_ptr_array_new_with_free_func (g_free);
  out->setting.catalog = shelf->catalog;
  out->setting.calibration = shelf->calibration;
  check_scope (out);
  if (out->skip == NULL)
    ok = validate_resolve_machine (out, shelf, error);
  if (ok && out->skip == NULL)
    ok = validate_resolve_model (out, shelf, error);
  if (ok && out->skip == NULL)
    ok = validate_resolve_layout (out, error);
  if (!ok)
    validate_case_clear (out);
  return ok;
}

void
validate_case_clear (ValidateCase *c)
{
  if (c == NULL)
    return;
  g_clear_pointer (&c->setting.arch, model_arch_free);
  g_clear_pointer (&c->assumed, g_ptr_array_unref);
  g_clear_pointer (&c->skip, g_free);
  model_layout_clear (&c->layout);
}

/* ---- what was measured ---- */

gboolean
validate_measured_step (const ValidateCase *c, double *out_s, GError **error)
{
  double step_s = NAN, rate = NAN;
  const ModelJob *job = &c->problem.job;

  if (!validate_cell_number (&c->cells, "step_s", &step_s, error)
      || !validate_cell_number (&c->cells, "tok_s_gpu", &rate, error))
    return FALSE;
  if (!(step_s > 0) && rate > 0)
    step_s = (double)job->global_batch * (double)job->seq / (rate * c->problem.problem.gpus);
  *out_s = step_s > 0 ? step_s : NAN;
  return TRUE;
}

static AppMemKind
mem_kind_of (const char *word)
{
  for (guint i = APP_MEM_ALLOCATED; i < APP_MEM_N_KINDS; i++)
    if (g_str_equal (word, mem_kind_names[i]))
      return (AppMemKind)i;
  return *word == '\0' ? APP_MEM_UNSTATED : APP_MEM_NONE;
}

static const char *
word_or (const char *cell, const char *fallback)
{
  return *cell != '\0' || fallback == NULL ? cell : fallback;
}

static guint64
view_bytes (const CostStageMemory *memory, AppMemKind kind)
{
  switch (kind) {
  case APP_MEM_ALLOCATED:
    return memory->allocated_bytes;
  case APP_MEM_DRIVER:
    return memory->peak_bytes;
  default:
    return memory->reserved_bytes;
  }
}

/* The stage that @scope names; the fullest in that view for any other word. */
static guint32
compared_stage (const CostPrediction *prediction, AppMemKind kind, const char *scope)
{
  guint32 fullest = 0;

  if (g_str_equal (scope, "rank0"))
    return 0;
  if (g_str_equal (scope, "last-rank"))
    return prediction->n_stages - 1;
  for (guint32 i = 1; i < prediction->n_stages; i++)
    if (view_bytes (&prediction->stages[i].memory, kind)
        > view_bytes (&prediction->stages[fullest].memory, kind))
      fullest = i;
  return fullest;
}

static gboolean
compare_memory (const ValidateCase *c, const AppValidateRequest *request,
                const CostPrediction *prediction, AppValidateRow *row, GError **error)
{
  const char *kind = word_or (validate_cell (&c->cells, "mem_kind"), request->mem_kind);
  const char *scope = word_or (validate_cell (&c->cells, "mem_scope"), request->mem_scope);
  double gib = NAN, sigma = prediction->need_sigma;

  if (!validate_cell_number (&c->cells, "mem_gib", &gib, error))
    return FALSE;
  row->mem_kind = gib > 0 ? mem_kind_of (kind) : APP_MEM_NONE;
  row->memory_stage = compared_stage (prediction, row->mem_kind, scope);
  row->memory = prediction->stages[row->memory_stage].memory;
  row->predicted_bytes = (double)view_bytes (&row->memory, row->mem_kind);
  row->predicted_p10_bytes = row->predicted_bytes * exp (base_normal_quantile (0.1) * sigma);
  row->predicted_p90_bytes = row->predicted_bytes * exp (base_normal_quantile (0.9) * sigma);
  row->measured_bytes = row->mem_kind != APP_MEM_NONE ? gib * GIB : NAN;
  return TRUE;
}

static void
add_groups (const ValidateCase *c, const AppValidateRequest *request, AppValidateRow *row)
{
  guint n = g_strv_length ((char **)request->by);

  row->groups = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++)
    row->groups[i] = g_strdup (validate_cell (&c->cells, request->by[i]));
}

/* What an unknown framework keeps, nobody said. */
static gboolean
has_memory_facts (const ModelProfile *profile)
{
  return !g_str_equal (profile->name, "generic");
}

/* What does not depend on the prediction. */
static AppValidateRow *
row_new (const ValidateCase *c, const AppValidateRequest *request)
{
  AppValidateRow *row = g_new0 (AppValidateRow, 1);
  const char *fits = validate_cell (&c->cells, "fits");

  row->id = g_strdup (validate_cell (&c->cells, "id"));
  row->family = g_strdup (validate_cell (&c->cells, "family"));
  add_groups (c, request, row);
  row->ran = !g_str_equal (fits, "0");
  row->risk_known = !validate_is_assumed (c, "recompute") && !validate_is_assumed (c, "dtype")
                    && !validate_is_assumed (c, "attn") && has_memory_facts (c->setting.profile);
  row->profile = g_strdup (c->setting.profile->name);
  row->machine = g_strdup (c->setting.machine->slug);
  row->layout_text = model_layout_format (&c->layout, c->setting.profile);
  row->assumed = g_ptr_array_ref (c->assumed);
  return row;
}

static void
fill_risk (AppValidateRow *row, const CostPrediction *prediction)
{
  row->oom_risk = prediction->oom_risk;
  row->usable_bytes = prediction->usable_bytes;
  row->pp = prediction->n_stages;
  for (guint32 i = 0; i < prediction->n_stages; i++)
    row->need_bytes = MAX (row->need_bytes, prediction->stages[i].memory.need_bytes);
}

AppValidateRow *
validate_row_predict (ValidateCase *c, const AppValidateRequest *request, GError **error)
{
  g_auto (CostPrediction) prediction = { 0 };
  g_autoptr (GError) why = NULL;
  AppValidateRow *row = NULL;
  double use = NAN;

  if (!validate_cell_number (&c->cells, "use", &use, error))
    return NULL;
  if (!cost_predict (&c->problem.problem, &c->layout, &prediction, &why)) {
    validate_skip (c, "%s", why->message);
    return NULL;
  }
  row = row_new (c, request);
  row->use = isnan (use) ? 1 : use;
  row->predicted_s = prediction.step_s;
  row->predicted_p10_s = prediction.step_s_p10;
  row->predicted_p90_s = prediction.step_s_p90;
  fill_risk (row, &prediction);
  memcpy (row->breakdown_s, prediction.breakdown_s, sizeof row->breakdown_s);
  if (validate_measured_step (c, &row->measured_s, error)
      && compare_memory (c, request, &prediction, row, error))
    return row;
  validate_row_free (row);
  return NULL;
}

void
validate_row_free (AppValidateRow *row)
{
  if (row == NULL)
    return;
  g_free (row->id);
  g_free (row->family);
  g_strfreev (row->groups);
  g_free (row->profile);
  g_free (row->machine);
  g_free (row->layout_text);
  g_clear_pointer (&row->assumed, g_ptr_array_unref);
  g_free (row);
}
