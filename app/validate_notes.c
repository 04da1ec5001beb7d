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

/* A size from the flag @name, else the profile's default for it, noted as assumed. */
static gboolean
read_size (ValidateCase *c, const char *name, guint32 *out)
{
  g_autofree char *flag = g_strdelimit (g_strdup (name), "_", '-');
  double number = validate_note_number (c, flag);
  const char *fallback = g_hash_table_lookup (c->setting.profile->row_defaults, name);

  if (!(number >= 1) && fallback == NULL) {
    validate_skip (c, "latent attention without %s", flag);
    return FALSE;
  }
  if (!(number >= 1))
    validate_assume (c, name);
  *out = number >= 1 ? (guint32)number : (guint32)g_ascii_strtoull (fallback, NULL, 10);
  return TRUE;
}

static void
fill_latent_attention (ValidateCase *c, ModelAttention *a)
{
  double q_rank = validate_note_number (c, "q-lora-rank");

  if (!validate_note_is_on (c, "multi-latent-attention")
      || !read_size (c, "kv_lora_rank", &a->kv_lora_rank)
      || !read_size (c, "qk_head_dim", &a->qk_nope_dim)
      || !read_size (c, "qk_pos_emb_head_dim", &a->qk_rope_dim)
      || !read_size (c, "v_head_dim", &a->v_head_dim))
    return;
  a->kind = MODEL_ATTENTION_MLA;
  a->kv_heads = a->heads;
  a->q_lora_rank = q_rank > 0 ? (guint32)q_rank : 0;
  a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
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
validate_fill_from_notes (ValidateCase *c, ModelArch *arch)
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
