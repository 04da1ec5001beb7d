/* sim/space.c - the values a search tries. */
#include "sim/space.h"

#include <string.h>

G_DEFINE_QUARK (plait_sim_error_quark, sim_error)

#define MAX_VPP      16
#define MAX_MBS      64
#define MIN_CP_CHUNK 1024 /* tokens per rank below which context parallelism has no use */

/* ---- value lists ---- */

static GArray *
list_new (void)
{
  return g_array_new (FALSE, FALSE, sizeof (guint32));
}

static void
list_add (GArray *list, guint32 value)
{
  for (guint i = 0; i < list->len; i++)
    if (g_array_index (list, guint32, i) == value)
      return;
  g_array_append_val (list, value);
}

static GArray *
divisors (guint64 number, guint64 max)
{
  GArray *list = list_new ();

  for (guint32 d = 1; d <= MIN (number, max); d++)
    if (number % d == 0)
      list_add (list, d);
  return list;
}

static GArray *
powers_of_two (guint64 max)
{
  GArray *list = list_new ();

  for (guint32 value = 1; value <= MAX (max, 1); value *= 2)
    list_add (list, value);
  return list;
}

static GArray *
pinned_or (gboolean pinned, guint32 value, GArray *otherwise)
{
  if (pinned) {
    g_array_set_size (otherwise, 0);
    list_add (otherwise, value);
  }
  return otherwise;
}

static guint32
max_experts (const ModelArch *arch)
{
  guint32 experts = 0;

  for (guint i = 0; i < arch->n_runs; i++)
    if (arch->runs[i].kind == MODEL_BLOCK_MOE)
      experts = MAX (experts, arch->runs[i].moe.experts);
  return experts;
}

static gboolean
has_shared_experts (const ModelArch *arch)
{
  for (guint i = 0; i < arch->n_runs; i++)
    if (arch->runs[i].kind == MODEL_BLOCK_MOE && arch->runs[i].moe.shared_ffn > 0)
      return TRUE;
  return FALSE;
}

/* ---- recompute ---- */

static void
add_modules (GArray *choices, guint16 modules)
{
  SimRecompute choice = { MODEL_RECOMPUTE_SELECTIVE, modules };

  g_array_append_val (choices, choice);
}

/* Modules whose output is cheap to rebuild for what it frees; core_attn pays only where the
 * kernel keeps the scores (profiles reference, G.7). */
static void
modules_tried (const ModelArch *arch, ModelAttnKernel attn, GArray *choices)
{
  guint16 base = attn == MODEL_ATTN_UNFUSED ? MODEL_RECOMPUTE_CORE_ATTN : 0;
  gboolean moe = max_experts (arch) > 0;
  guint16 cheap = MODEL_RECOMPUTE_LAYERNORM | (moe ? MODEL_RECOMPUTE_MOE_ACT : 0);

  if (arch->attention.kind == MODEL_ATTENTION_MLA)
    cheap |= MODEL_RECOMPUTE_MLA_UP_PROJ;
  if (base != 0)
    add_modules (choices, base);
  add_modules (choices, base | cheap);
  if (moe) {
    add_modules (choices, base | MODEL_RECOMPUTE_MOE_ACT);
    add_modules (choices, base | cheap | MODEL_RECOMPUTE_MOE
                              | (has_shared_experts (arch) ? MODEL_RECOMPUTE_SHARED_EXPERTS : 0));
  } else
    add_modules (choices, base | MODEL_RECOMPUTE_MLP | MODEL_RECOMPUTE_LAYERNORM);
  if (arch->attention.kind == MODEL_ATTENTION_MLA)
    add_modules (choices, base | MODEL_RECOMPUTE_MLA_UP_PROJ);
}

static GArray *
recompute_choices (const ModelArch *arch, const ModelLayout *pins, gboolean pinned)
{
  GArray *choices = g_array_new (FALSE, FALSE, sizeof (SimRecompute));
  SimRecompute choice = { MODEL_RECOMPUTE_NONE, 0 };

  if (pinned) {
    choice.kind = (ModelRecomputeKind)pins->recompute.kind;
    choice.modules = pins->recompute.modules;
    g_array_append_val (choices, choice);
    return choices;
  }
  g_array_append_val (choices, choice);
  modules_tried (arch, pins->attn, choices);
  choice.kind = MODEL_RECOMPUTE_FULL;
  g_array_append_val (choices, choice);
  return choices;
}

/* ---- families ---- */

typedef struct {
  GArray *tp, *cp, *ep, *mbs;
} FamilyValues;

static void
family_values_init (FamilyValues *values, const CostProblem *problem, const ModelLayout *pins,
                    guint32 pinned)
{
  guint32 experts = max_experts (problem->arch);
  guint64 domain = MAX (problem->machine->domain_size, 1);

  values->tp = pinned_or (pinned & SIM_PIN_TP, pins->tp, divisors (problem->gpus, 2 * domain));
  values->cp = pinned_or (pinned & SIM_PIN_CP, pins->cp,
                          powers_of_two (MIN (problem->job->seq / MIN_CP_CHUNK, problem->gpus)));
  values->ep = pinned_or (pinned & SIM_PIN_EP, pins->ep,
                          divisors (MAX (experts, 1), experts > 0 ? problem->gpus : 1));
  values->mbs
      = pinned_or (pinned & SIM_PIN_MBS, pins->mbs, divisors (problem->job->global_batch, MAX_MBS));
}

static void
family_values_clear (FamilyValues *values)
{
  g_array_unref (values->tp);
  g_array_unref (values->cp);
  g_array_unref (values->ep);
  g_array_unref (values->mbs);
}

static void
add_families_of (SimSpace *space, const FamilyValues *values, SimFamily family)
{
  for (guint b = 0; b < values->mbs->len; b++) {
    family.mbs = g_array_index (values->mbs, guint32, b);
    g_array_append_val (space->families, family);
  }
}

/* etp is 1 or tp; sp needs tp > 1 and is otherwise the same layout. */
static void
add_families (SimSpace *space, const FamilyValues *values, const ModelLayout *pins)
{
  guint32 pinned = space->pinned;

  for (guint t = 0; t < values->tp->len; t++)
    for (guint c = 0; c < values->cp->len; c++)
      for (guint e = 0; e < values->ep->len; e++) {
        SimFamily family = { .tp = g_array_index (values->tp, guint32, t),
                             .cp = g_array_index (values->cp, guint32, c),
                             .ep = g_array_index (values->ep, guint32, e) };
        gboolean moe = values->ep->len > 1 || family.ep > 1;
        guint32 last_etp = moe && family.tp > 1 && !(pinned & SIM_PIN_ETP) ? 1 : 0;
        gboolean first_sp = pinned & SIM_PIN_SP ? pins->sp : FALSE;
        gboolean last_sp = pinned & SIM_PIN_SP ? pins->sp : family.tp > 1;

        for (guint32 x = 0; x <= last_etp; x++)
          for (gboolean sp = first_sp; sp <= last_sp; sp++) {
            family.etp = pinned & SIM_PIN_ETP ? pins->etp : (x == 0 ? 1 : family.tp);
            family.sp = sp;
            add_families_of (space, values, family);
          }
      }
}

/* ---- pipelines ---- */

gboolean
sim_space_tries_partial (const SimSpace *space)
{
  return !(space->pinned & SIM_PIN_RECOMPUTE);
}

guint32
sim_space_pinned_partial (const SimSpace *space)
{
  const ModelRecompute *pinned = &space->base.recompute;
  gboolean block = pinned->kind == MODEL_RECOMPUTE_FULL && pinned->method == MODEL_RECOMPUTE_BLOCK;

  return (space->pinned & SIM_PIN_RECOMPUTE) && block ? pinned->n : 0;
}

static void
pipeline_clear (gpointer pipeline)
{
  sim_pipeline_clear (pipeline);
}

static void
add_pipeline (SimSpace *space, const CostProblem *problem, guint32 pp, guint32 vpp,
              ModelScheduleKind schedule, const guint32 *explicit_layers)
{
  guint32 n = (guint32)model_schedule_n_stages (schedule, pp, vpp);
  SimPipeline pipeline = { .pp = pp, .vpp = vpp, .schedule = schedule };

  if (n > problem->arch->layers) {
    space->refused_stages++;
    return;
  }
  pipeline.stage_layers = g_new (guint32, n);
  if (explicit_layers != NULL) {
    memcpy (pipeline.stage_layers, explicit_layers, n * sizeof *explicit_layers);
    pipeline.explicit_stages = TRUE;
  } else if (!model_stages_balance (problem->arch->layers, n, pipeline.stage_layers)) {
    g_free (pipeline.stage_layers);
    space->refused_stages++;
    return;
  }
  sim_pipeline_map (&pipeline, problem->arch, &space->kinds);
  if (sim_space_tries_partial (space) || sim_space_pinned_partial (space) > 0)
    sim_pipeline_map_partial (&pipeline, problem->arch, &space->kinds,
                              sim_space_pinned_partial (space));
  g_array_append_val (space->pipelines, pipeline);
}

static gboolean
vpp_worth_trying (guint32 layers, guint32 pp, guint32 vpp)
{
  return vpp == 1 || layers % (pp * vpp) == 0 || (layers + 2) % (pp * vpp) == 0;
}

static void
add_pipelines_of_pp (SimSpace *space, const CostProblem *problem, const ModelLayout *pins,
                     guint32 pp)
{
  guint32 pinned = space->pinned;
  guint32 layers = problem->arch->layers;
  guint32 last = pp > 1 ? MIN (MAX_VPP, layers / MIN (pp, layers)) : 1;

  if (pinned & SIM_PIN_VPP) {
    ModelScheduleKind schedule = pins->schedule;

    if (!(pinned & SIM_PIN_SCHEDULE))
      schedule = pins->vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B;
    add_pipeline (space, problem, pp, pins->vpp, schedule, NULL);
    return;
  }
  if ((pinned & SIM_PIN_SCHEDULE) && model_schedule_is_listed (pins->schedule)) {
    /* asked for by name only; it fixes its chunks */
    add_pipeline (space, problem, pp, pins->vpp, pins->schedule, NULL);
    return;
  }
  for (guint32 vpp = 1; vpp <= last; vpp++) {
    ModelScheduleKind schedule = vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B;

    if ((pinned & SIM_PIN_SCHEDULE) && (vpp == 1 || pins->schedule == MODEL_SCHEDULE_INTERLEAVED))
      schedule = pins->schedule;
    else if ((pinned & SIM_PIN_SCHEDULE) && vpp > 1)
      continue; /* a one-chunk schedule */
    if (vpp_worth_trying (layers, pp, vpp))
      add_pipeline (space, problem, pp, vpp, schedule, NULL);
  }
}

static void
add_pipelines (SimSpace *space, const CostProblem *problem, const ModelLayout *pins)
{
  g_autoptr (GArray) pp = pinned_or (space->pinned & SIM_PIN_PP, pins->pp,
                                     divisors (problem->gpus, problem->arch->layers));

  if (pins->stage_layers != NULL) {
    add_pipeline (space, problem, pins->pp, pins->vpp, pins->schedule, pins->stage_layers);
    return;
  }
  for (guint i = 0; i < pp->len; i++)
    add_pipelines_of_pp (space, problem, pins, g_array_index (pp, guint32, i));
}

/* ---- the space ---- */

static gboolean
check_pins (const CostProblem *problem, const ModelLayout *pins, guint32 pinned, GError **error)
{
  guint64 n = model_layout_n_stages (pins);
  guint64 sum = 0;

  if (pins->stage_layers == NULL)
    return TRUE;
  if (!(pinned & SIM_PIN_PP)) {
    g_set_error (error, SIM_ERROR, SIM_ERROR_SPACE,
                 "stages= needs pp=: how many ranks share these stages?");
    return FALSE;
  }
  for (guint64 i = 0; i < n; i++)
    sum += pins->stage_layers[i];
  if (sum == problem->arch->layers)
    return TRUE;
  g_set_error (error, SIM_ERROR, SIM_ERROR_SPACE,
               "stages= adds up to %" G_GUINT64_FORMAT " layers, %s has %u", sum,
               problem->arch->name, problem->arch->layers);
  return FALSE;
}

gboolean
sim_space_init (SimSpace *space, const CostProblem *problem, const ModelLayout *pins,
                guint32 pinned, GError **error)
{
  FamilyValues values;

  *space = (SimSpace){ .pinned = pinned };
  if (!check_pins (problem, pins, pinned, error)
      || !cost_block_kinds_init (&space->kinds, problem->arch, error))
    return FALSE;
  model_layout_copy (&space->base, pins);
  g_clear_pointer (&space->base.stage_layers, g_free);
  space->families = g_array_new (FALSE, FALSE, sizeof (SimFamily));
  space->recomputes = recompute_choices (problem->arch, pins, pinned & SIM_PIN_RECOMPUTE);
  space->pipelines = g_array_new (FALSE, FALSE, sizeof (SimPipeline));
  g_array_set_clear_func (space->pipelines, pipeline_clear);
  space->zero = list_new ();
  for (guint32 zero = 0; zero <= 3; zero++)
    list_add (space->zero, zero);
  pinned_or (pinned & SIM_PIN_ZERO, pins->zero, space->zero);
  family_values_init (&values, problem, pins, pinned);
  add_families (space, &values, pins);
  family_values_clear (&values);
  add_pipelines (space, problem, pins);
  return TRUE;
}

void
sim_space_clear (SimSpace *space)
{
  if (space == NULL)
    return;
  model_layout_clear (&space->base);
  g_clear_pointer (&space->families, g_array_unref);
  g_clear_pointer (&space->recomputes, g_array_unref);
  g_clear_pointer (&space->pipelines, g_array_unref);
  g_clear_pointer (&space->zero, g_array_unref);
}

guint64
sim_space_size (const SimSpace *space)
{
  gboolean partial = sim_space_tries_partial (space);
  guint64 variants = 0;
  guint64 size = 0;

  for (guint i = 0; i < space->pipelines->len; i++)
    variants += space->recomputes->len
                + (partial ? g_array_index (space->pipelines, SimPipeline, i).n_partial : 0);
  /* sharding stages also inside the domain */
  if (__builtin_mul_overflow (variants, 2 * (guint64)space->zero->len, &size)
      || __builtin_mul_overflow (size, (guint64)space->families->len, &size))
    return G_MAXUINT64;
  return size;
}

guint32
sim_space_pins_of_text (const char *layout_text)
{
  static const struct {
    const char *key;
    SimPin pin;
  } keys[] = {
    { "tp", SIM_PIN_TP },
    { "cp", SIM_PIN_CP },
    { "pp", SIM_PIN_PP },
    { "vpp", SIM_PIN_VPP },
    { "ep", SIM_PIN_EP },
    { "etp", SIM_PIN_ETP },
    { "mbs", SIM_PIN_MBS },
    { "sp", SIM_PIN_SP },
    { "zero", SIM_PIN_ZERO },
    { "fsdp", SIM_PIN_ZERO },
    { "hsdp", SIM_PIN_HSDP },
    { "recompute", SIM_PIN_RECOMPUTE },
    { "schedule", SIM_PIN_SCHEDULE },
    { "stages", SIM_PIN_STAGES },
    { "dp", SIM_PIN_DP },
  };
  g_auto (GStrv) pairs = g_strsplit (layout_text, ",", -1);
  guint32 pinned = 0;

  for (char **pair = pairs; *pair != NULL; pair++) {
    const char *equals = strchr (g_strstrip (*pair), '=');

    for (gsize i = 0; equals != NULL && i < G_N_ELEMENTS (keys); i++)
      if (strlen (keys[i].key) == (gsize)(equals - *pair)
          && strncmp (*pair, keys[i].key, (gsize)(equals - *pair)) == 0)
        pinned |= keys[i].pin;
  }
  return pinned;
}
