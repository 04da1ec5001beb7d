/* app/validate_layout.c - the job and the layout of a measured row. */
#include "app/validate-private.h"
#include "model/stages.h"

#include <math.h>

#define MAX_DEGREE (1u << 20)

/* A degree from the cell or the profile's default for it. */
static gboolean
degree (ValidateCase *c, const char *column, guint32 *out, GError **error)
{
  guint64 value = 0;
  const char *fallback = NULL;

  if (!validate_cell_count (&c->cells, column, FALSE, MAX_DEGREE, &value, error))
    return FALSE;
  if (value == 0) {
    fallback = validate_field (c, column);
    value = *fallback != '\0' ? g_ascii_strtoull (fallback, NULL, 10) : 0;
  }
  *out = (guint32)value;
  return TRUE;
}

static gboolean
read_degrees (ValidateCase *c, GError **error)
{
  ModelLayout *l = &c->layout;
  const struct {
    const char *column;
    guint32 *out;
  } degrees[] = { { "tp", &l->tp }, { "cp", &l->cp }, { "pp", &l->pp },  { "vpp", &l->vpp },
                  { "ep", &l->ep }, { "dp", &l->dp }, { "mbs", &l->mbs } };

  for (gsize i = 0; i < G_N_ELEMENTS (degrees); i++)
    if (!degree (c, degrees[i].column, degrees[i].out, error))
      return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (degrees); i++)
    if (*degrees[i].out == 0 && degrees[i].out != &l->dp)
      return validate_skip (c, "no %s", degrees[i].column);
  l->schedule = l->vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B;
  return TRUE;
}

/* Largest divisor of @n up to @most. */
static guint32
largest_divisor (guint32 n, guint32 most)
{
  guint32 divisor = MIN (n, most);

  while (n % divisor != 0)
    divisor--;
  return divisor;
}

/* none, dist-opt, zero2, fsdp; hsdp shards within the NVLink domain and replicates beyond. */
static gboolean
read_shard (ValidateCase *c)
{
  static const char *const words[] = { "none", "dist-opt", "zero2", "fsdp", "hsdp" };
  const char *shard = validate_field (c, "shard");
  const TopoCluster *cluster = &c->problem.cluster;
  ModelLayout *l = &c->layout;
  guint found = 0;

  while (found < G_N_ELEMENTS (words) && !g_str_equal (shard, words[found]))
    found++;
  if (found == G_N_ELEMENTS (words))
    return validate_skip (c,
                          *shard != '\0'
                              ? "shard '%s' is not known (none, dist-opt, zero2, fsdp, hsdp are)"
                              : "no shard%s",
                          shard);
  l->zero = (guint8)MIN (found, 3);
  if (found == 4) {
    l->hsdp = largest_divisor (l->dp * l->cp, MAX (cluster->domain_in_use / l->tp, 1));
    validate_assume (c, "hsdp");
  }
  return TRUE;
}

/* Words that the layout's own parser knows. */
static gboolean
read_words (ValidateCase *c)
{
  const char *attn = validate_field (c, "attn");
  const char *dtype = validate_field (c, "dtype");
  g_autofree char *text = g_strdup_printf ("attn=%s,dtype=%s", *attn != '\0' ? attn : "flash",
                                           *dtype != '\0' ? dtype : "bf16");
  g_auto (ModelLayout) parsed = { 0 };
  g_autoptr (GError) why = NULL;

  if (!model_layout_parse (&parsed, text, c->setting.profile, &why))
    return validate_skip (c, "%s", why->message);
  c->layout.attn = parsed.attn;
  c->layout.dtype = parsed.dtype;
  return TRUE;
}

static gboolean
read_sp (ValidateCase *c, GError **error)
{
  double sp = NAN;
  const char *fallback = NULL;

  if (!validate_cell_number (&c->cells, "sp", &sp, error))
    return FALSE;
  if (isnan (sp)) {
    fallback = validate_field (c, "sp");
    sp = g_ascii_strtod (fallback, NULL);
  }
  c->layout.sp = sp > 0 && c->layout.tp > 1;
  return TRUE;
}

/*
 * As the notes say; else experts are split over tp by Megatron's default; recipes with many small experts (narrower than
 * the model) keep them whole.
 */
static void
choose_etp (ValidateCase *c)
{
  const ModelArch *arch = c->setting.arch;
  ModelLayout *l = &c->layout;
  guint64 ranks = (guint64)l->tp * l->cp * l->dp;
  double stated = validate_note_number (c, "expert-tensor-parallel-size");

  l->etp = 1;
  if (g_str_equal (validate_cell (&c->cells, "arch"), "moe") && stated >= 1
      && stated <= MAX_DEGREE) {
    l->etp = (guint32)stated;
    return;
  }
  for (guint i = 0; i < arch->n_runs && l->tp > 1; i++) {
    const ModelBlockRun *run = &arch->runs[i];

    if (run->kind == MODEL_BLOCK_MOE && run->moe.expert_ffn >= arch->hidden
        && ranks % ((guint64)l->ep * l->tp) == 0 && run->moe.expert_ffn % l->tp == 0)
      l->etp = l->tp;
    if (run->kind == MODEL_BLOCK_MOE) {
      validate_assume (c, "etp");
      return;
    }
  }
}

/* tp · cp · pp · dp where a row states all of them and no GPU count; else 0. */
static gboolean
product_of_degrees (ValidateCase *c, guint64 *out_gpus, GError **error)
{
  static const char *const columns[] = { "tp", "cp", "pp", "dp" };
  guint64 product = 1;

  for (gsize i = 0; i < G_N_ELEMENTS (columns); i++) {
    guint64 degree = 0;

    if (!validate_cell_count (&c->cells, columns[i], FALSE, MAX_DEGREE, &degree, error))
      return FALSE;
    product = degree > 0 && product <= MAX_DEGREE / degree ? product * degree : 0;
  }
  *out_gpus = product;
  return TRUE;
}

/* Cluster and job. */
static gboolean
make_problem (ValidateCase *c, GError **error)
{
  guint64 gpus = 0, seq = 0, batch = 0;
  g_autoptr (GError) why = NULL;
  const TopoMachine *machine = c->setting.machine;

  if (!validate_cell_count (&c->cells, "gpus", FALSE, MAX_DEGREE, &gpus, error)
      || !validate_cell_count (&c->cells, "seq", FALSE, G_MAXUINT32, &seq, error)
      || !validate_cell_count (&c->cells, "gbs", FALSE, G_MAXUINT32, &batch, error))
    return FALSE;
  if (gpus == 0 && !product_of_degrees (c, &gpus, error))
    return FALSE;
  if (gpus == 0 || batch == 0)
    return validate_skip (c, gpus == 0 ? "no gpus" : "no gbs");
  c->setting.dropout = -1;
  if (!app_problem_init (&c->problem, &c->setting, gpus, batch, seq, &why))
    return validate_skip (c, "%s", why->message);
  if (gpus > machine->domain_size && *validate_cell (&c->cells, "inter_gbps") == '\0')
    validate_assume (c, "inter_gbps");
  return TRUE;
}

/* What the framework does where a row states no stages. */
static void
cut_stages (ValidateCase *c)
{
  ModelLayout *l = &c->layout;
  guint32 n = l->pp * l->vpp;

  if (!c->setting.profile->balances_by_cost || l->pp == 1 || n > c->setting.arch->layers)
    return;
  l->stage_layers = g_new (guint32, n);
  model_stages_by_cost (c->setting.arch, n, l->stage_layers);
}

/* How many layers stay on the GPU is the profile's to know. */
static void
read_offloading (ValidateCase *c)
{
  const char *layers = g_hash_table_lookup (c->setting.profile->row_defaults, "layers_on_gpu");

  if (!validate_note_is_on (c, "fine-grained-activation-offloading"))
    return;
  if (layers == NULL)
    validate_skip (c, "activations offloaded by a profile that does not say how");
  else
    c->layout.layers_on_gpu = (guint32)g_ascii_strtoull (layers, NULL, 10);
}

/* Settings that move the step's time and that the row does not state. */
static guint
guessed_count (const ValidateCase *c)
{
  static const char *const columns[] = { "recompute", "dtype", "attn", "sp", "shard", "tied" };
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    n += validate_is_assumed (c, columns[i]);
  return n;
}

gboolean
validate_resolve_layout (ValidateCase *c, GError **error)
{
  ModelLayout *l = &c->layout;
  ModelLegality reason = MODEL_LEGAL;

  model_layout_init (l, c->setting.profile);
  if (!make_problem (c, error))
    return FALSE;
  if (c->skip != NULL)
    return TRUE;
  if (!read_degrees (c, error))
    return FALSE;
  if (c->skip != NULL || !read_sp (c, error))
    return c->skip != NULL;
  if (l->dp == 0) { /* as in any layout that leaves it open */
    guint64 model = (guint64)l->tp * l->cp * l->pp;

    l->dp = (guint32)MAX (c->problem.problem.gpus / model, 1);
    validate_assume (c, "dp");
  }
  read_shard (c);
  if (c->skip == NULL)
    read_words (c);
  if (c->skip == NULL)
    validate_read_recompute (c);
  if (c->skip != NULL)
    return TRUE;
  validate_read_recipe (c);
  choose_etp (c);
  cut_stages (c);
  read_offloading (c);
  if (c->skip != NULL || !validate_read_stages (c) || c->skip != NULL)
    return TRUE;
  c->problem.problem.is_layout_assumed
      = validate_is_assumed (c, "recompute") || validate_is_assumed (c, "attn");
  c->problem.problem.guessed_count = guessed_count (c);
  reason = model_layout_check (c->setting.arch, &c->problem.job, l, c->setting.profile,
                               c->problem.problem.gpus);
  if (reason != MODEL_LEGAL)
    return validate_skip (c, "layout: %s", model_legality_name (reason));
  return TRUE;
}
