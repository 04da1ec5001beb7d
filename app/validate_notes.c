/* app/validate_notes.c - training flags that a row's notes quote, as "name=value".
 *
 * Names are those of Megatron's command line without dashes in front, as in
 * "flags: multi-latent-attention=True, kv-lora-rank=512, hidden-dropout=0.0". Anything else in the
 * notes is prose and passed over.
 */
#include "app/validate-private.h"

#include <math.h>
#include <string.h>

/* Text behind "@name=", or NULL. (borrowed) */
static const char *
find_flag (const ValidateCase *c, const char *name)
{
  const char *notes = validate_cell (&c->cells, "notes");
  gsize length = strlen (name);

  for (const char *at = strstr (notes, name); at != NULL; at = strstr (at + 1, name))
    if (at[length] == '=' && (at == notes || strchr (" ,;(", at[-1]) != NULL))
      return at + length + 1;
  return NULL;
}

gboolean
validate_note_is_on (const ValidateCase *c, const char *flag)
{
  const char *value = find_flag (c, flag);

  return value != NULL && g_str_has_prefix (value, "True");
}

double
validate_note_number (const ValidateCase *c, const char *flag)
{
  const char *value = find_flag (c, flag);
  char *end = NULL;
  double number = value != NULL ? g_ascii_strtod (value, &end) : NAN;

  return value != NULL && end > value && number >= 0 && number <= G_MAXUINT32 ? number : NAN;
}

char *
validate_note_word (const ValidateCase *c, const char *flag)
{
  const char *value = find_flag (c, flag);

  return value != NULL ? g_strndup (value, strcspn (value, " ,;\"")) : NULL;
}

static guint32
count_or (const ValidateCase *c, const char *flag, guint32 fallback)
{
  double number = validate_note_number (c, flag);

  return number >= 1 ? (guint32)number : fallback;
}

/* Latent attention with the ranks and sizes that Megatron has by default where none is given. */
static void
fill_latent_attention (const ValidateCase *c, ModelAttention *a)
{
  double q_rank = validate_note_number (c, "q-lora-rank");

  if (!validate_note_is_on (c, "multi-latent-attention"))
    return;
  a->kind = MODEL_ATTENTION_MLA;
  a->kv_heads = a->heads;
  a->q_lora_rank = q_rank > 0 ? (guint32)q_rank : 0;
  a->kv_lora_rank = count_or (c, "kv-lora-rank", 512);
  a->qk_nope_dim = count_or (c, "qk-head-dim", 128);
  a->qk_rope_dim = count_or (c, "qk-pos-emb-head-dim", 64);
  a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
  a->v_head_dim = count_or (c, "v-head-dim", 128);
}

/* Multi-token prediction: layers like the last one, behind it. Their norms and the projection of two
 * hidden states to one are not counted. */
static void
add_prediction_layers (const ValidateCase *c, ModelArch *arch)
{
  double n = validate_note_number (c, "mtp-num-layers");

  if (!(n >= 1 && n <= arch->layers))
    return;
  arch->runs[arch->n_runs - 1].count += (guint32)n;
  arch->layers += (guint32)n;
  arch->prediction_layers = (guint32)n;
}

void
validate_fill_from_notes (const ValidateCase *c, ModelArch *arch)
{
  double dropout = validate_note_number (c, "hidden-dropout");

  fill_latent_attention (c, &arch->attention);
  add_prediction_layers (c, arch);
  if (!isnan (dropout))
    arch->dropout = MIN (dropout, 1);
  if (find_flag (c, "normalization") != NULL)
    arch->norm = g_str_has_prefix (find_flag (c, "normalization"), "RMSNorm") ? MODEL_NORM_RMS
                                                                              : MODEL_NORM_LAYER;
  if (validate_note_is_on (c, "disable-bias-linear"))
    arch->mlp_bias = arch->attention.qkv_bias = arch->attention.out_bias = FALSE;
  if (find_flag (c, "position-embedding-type") != NULL
      && g_str_has_prefix (find_flag (c, "position-embedding-type"), "rope")) {
    arch->position = MODEL_POSITION_ROTARY;
    arch->position_rows = 0;
    arch->attention.rotary_ratio = 1;
  }
}
