/* model/arch_ini.c - a model as INI text: one table of keys serves reading and writing. */
#include "model/arch-private.h"
#include "model/arch.h"
#include <stddef.h>
#include <string.h>

typedef enum { FIELD_U32, FIELD_U64, FIELD_BOOL, FIELD_ENUM, FIELD_RATIO } FieldType;

/* One key of a group and where its value lives in the struct the group fills. */
typedef struct {
  const char *key;
  FieldType type;
  size_t offset;
  gboolean required;
  guint64 min, max;         /* FIELD_U32, FIELD_U64 */
  const char *const *names; /* FIELD_ENUM */
} Field;

#define AT(type, member) offsetof (type, member)

static const Field model_fields[] = {
  { "hidden", FIELD_U64, AT (ModelArch, hidden), TRUE, 1, MODEL_MAX_HIDDEN, NULL },
  { "vocab", FIELD_U64, AT (ModelArch, vocab), TRUE, 1, MODEL_MAX_VOCAB, NULL },
  { "activation", FIELD_ENUM, AT (ModelArch, activation), TRUE, 0, 0, model_activation_names },
  { "gated", FIELD_BOOL, AT (ModelArch, gated), TRUE, 0, 0, NULL },
  { "mlp_bias", FIELD_BOOL, AT (ModelArch, mlp_bias), FALSE, 0, 0, NULL },
  { "norm", FIELD_ENUM, AT (ModelArch, norm), TRUE, 0, 0, model_norm_kind_names },
  { "norms_per_block", FIELD_U32, AT (ModelArch, norms_per_block), FALSE, 1, 4, NULL },
  { "parallel_residual", FIELD_BOOL, AT (ModelArch, parallel_residual), FALSE, 0, 0, NULL },
  { "position", FIELD_ENUM, AT (ModelArch, position), TRUE, 0, 0, model_position_kind_names },
  { "position_rows", FIELD_U32, AT (ModelArch, position_rows), FALSE, 1, MODEL_MAX_VOCAB, NULL },
  { "embedding_norm", FIELD_BOOL, AT (ModelArch, embedding_norm), FALSE, 0, 0, NULL },
  { "tied", FIELD_BOOL, AT (ModelArch, tied), TRUE, 0, 0, NULL },
  { "head_bias", FIELD_BOOL, AT (ModelArch, head_bias), FALSE, 0, 0, NULL },
  { "dropout", FIELD_RATIO, AT (ModelArch, dropout), FALSE, 0, 0, NULL },
  { "seq", FIELD_U64, AT (ModelArch, seq), FALSE, 1, MODEL_MAX_SEQ, NULL },
  { "global_batch", FIELD_U64, AT (ModelArch, global_batch), FALSE, 1, MODEL_MAX_SEQ, NULL },
};

static const Field attention_fields[] = {
  { "kind", FIELD_ENUM, AT (ModelAttention, kind), FALSE, 0, 0, model_attention_kind_names },
  { "heads", FIELD_U32, AT (ModelAttention, heads), TRUE, 1, MODEL_MAX_HEADS, NULL },
  { "kv_heads", FIELD_U32, AT (ModelAttention, kv_heads), FALSE, 1, MODEL_MAX_HEADS, NULL },
  { "head_dim", FIELD_U32, AT (ModelAttention, head_dim), FALSE, 1, MODEL_MAX_HEAD_DIM, NULL },
  { "v_head_dim", FIELD_U32, AT (ModelAttention, v_head_dim), FALSE, 1, MODEL_MAX_HEAD_DIM, NULL },
  { "q_lora_rank", FIELD_U32, AT (ModelAttention, q_lora_rank), FALSE, 0, MODEL_MAX_HIDDEN, NULL },
  { "kv_lora_rank", FIELD_U32, AT (ModelAttention, kv_lora_rank), FALSE, 1, MODEL_MAX_HIDDEN,
    NULL },
  { "qk_nope_dim", FIELD_U32, AT (ModelAttention, qk_nope_dim), FALSE, 1, MODEL_MAX_HEAD_DIM,
    NULL },
  { "qk_rope_dim", FIELD_U32, AT (ModelAttention, qk_rope_dim), FALSE, 0, MODEL_MAX_HEAD_DIM,
    NULL },
  { "qkv_bias", FIELD_BOOL, AT (ModelAttention, qkv_bias), FALSE, 0, 0, NULL },
  { "out_bias", FIELD_BOOL, AT (ModelAttention, out_bias), FALSE, 0, 0, NULL },
  { "qk_norm", FIELD_BOOL, AT (ModelAttention, qk_norm), FALSE, 0, 0, NULL },
  { "sinks", FIELD_BOOL, AT (ModelAttention, sinks), FALSE, 0, 0, NULL },
  { "rotary_ratio", FIELD_RATIO, AT (ModelAttention, rotary_ratio), FALSE, 0, 0, NULL },
};

static const Field block_fields[] = {
  { "kind", FIELD_ENUM, AT (ModelBlockRun, kind), FALSE, 0, 0, model_block_kind_names },
  { "count", FIELD_U32, AT (ModelBlockRun, count), TRUE, 1, MODEL_MAX_LAYERS, NULL },
  { "window", FIELD_U32, AT (ModelBlockRun, window), FALSE, 0, G_MAXUINT32, NULL },
  { "ffn", FIELD_U32, AT (ModelBlockRun, ffn), FALSE, 1, MODEL_MAX_FFN, NULL },
  { "experts", FIELD_U32, AT (ModelBlockRun, moe.experts), FALSE, 1, MODEL_MAX_EXPERTS, NULL },
  { "topk", FIELD_U32, AT (ModelBlockRun, moe.topk), FALSE, 1, MODEL_MAX_EXPERTS, NULL },
  { "expert_ffn", FIELD_U32, AT (ModelBlockRun, moe.expert_ffn), FALSE, 1, MODEL_MAX_FFN, NULL },
  { "shared_ffn", FIELD_U32, AT (ModelBlockRun, moe.shared_ffn), FALSE, 0, MODEL_MAX_FFN, NULL },
  { "shared_gate", FIELD_BOOL, AT (ModelBlockRun, moe.shared_gate), FALSE, 0, 0, NULL },
  { "router_bias", FIELD_BOOL, AT (ModelBlockRun, moe.router_bias), FALSE, 0, 0, NULL },
};

static gboolean
read_count (BaseIni *ini, const char *group, const Field *field, void *member, GError **error)
{
  guint64 value = 0;
  if (!base_ini_has_key (ini, group, field->key))
    return TRUE;
  if (!base_ini_get_count (ini, group, field->key, field->min, field->max, &value, error))
    return FALSE;
  if (field->type == FIELD_U64)
    *(guint64 *)member = value;
  else
    *(guint32 *)member = (guint32)value;
  return TRUE;
}

static gboolean
read_field (BaseIni *ini, const char *group, const Field *field, void *object, GError **error)
{
  void *member = (char *)object + field->offset;
  /* Asking for the string makes the "missing" message of a required key. */
  if (field->required && base_ini_get_string (ini, group, field->key, error) == NULL)
    return FALSE;
  switch (field->type) {
  case FIELD_U32:
  case FIELD_U64:
    return read_count (ini, group, field, member, error);
  case FIELD_BOOL:
    return base_ini_get_bool_optional (ini, group, field->key, member, error);
  case FIELD_ENUM:
    return base_ini_get_enum_optional (ini, group, field->key, field->names, member, error);
  case FIELD_RATIO:
    return base_ini_get_number_optional (ini, group, field->key, BASE_DIM_RATIO, 0, 1, member,
                                         error);
  default:
    g_return_val_if_reached (FALSE);
  }
}

static gboolean
read_fields (BaseIni *ini, const char *group, const Field *fields, gsize n, void *object,
             GError **error)
{
  for (gsize i = 0; i < n; i++)
    if (!read_field (ini, group, &fields[i], object, error))
      return FALSE;
  /* Where a group's facts come from; not part of the architecture. */
  base_ini_get_string_or (ini, group, "source", "");
  return TRUE;
}

static void
default_gqa (BaseIni *ini, ModelArch *arch)
{
  ModelAttention *a = &arch->attention;
  if (!base_ini_has_key (ini, "attention", "kv_heads")) {
    a->kv_heads = a->heads;
    model_arch_assume (arch, "kv_heads", "absent, every head has its own", "%u", a->kv_heads);
  }
  if (!base_ini_has_key (ini, "attention", "head_dim") && arch->hidden % a->heads == 0) {
    a->head_dim = (guint32)(arch->hidden / a->heads);
    model_arch_assume (arch, "head_dim", "absent, hidden / heads", "%u", a->head_dim);
  }
  if (!base_ini_has_key (ini, "attention", "v_head_dim"))
    a->v_head_dim = a->head_dim;
  if (arch->position == MODEL_POSITION_ROTARY
      && !base_ini_has_key (ini, "attention", "rotary_ratio"))
    a->rotary_ratio = 1;
}

static void
default_mla (BaseIni *ini, ModelAttention *a)
{
  if (!base_ini_has_key (ini, "attention", "kv_heads"))
    a->kv_heads = a->heads;
  if (!base_ini_has_key (ini, "attention", "head_dim"))
    a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
  if (!base_ini_has_key (ini, "attention", "rotary_ratio") && a->head_dim > 0)
    a->rotary_ratio = (double)a->qk_rope_dim / a->head_dim;
}

static gboolean
read_attention (BaseIni *ini, ModelArch *arch, GError **error)
{
  if (!read_fields (ini, "attention", attention_fields, G_N_ELEMENTS (attention_fields),
                    &arch->attention, error))
    return FALSE;
  if (arch->attention.kind == MODEL_ATTENTION_MLA) {
    default_mla (ini, &arch->attention);
    return TRUE;
  }
  default_gqa (ini, arch);
  if (arch->attention.head_dim == 0) {
    base_ini_set_error (ini, "attention", "heads", error,
                        "found %u, expected a divisor of hidden = %" G_GUINT64_FORMAT
                        ", or a key head_dim",
                        arch->attention.heads, arch->hidden);
    return FALSE;
  }
  return TRUE;
}

/* Groups "blocks 1", "blocks 2", … as long as they go on; a gap is left for base_ini_finish(). */
static gboolean
read_blocks (BaseIni *ini, ModelArch *arch, GError **error)
{
  for (guint i = 1; i <= MODEL_MAX_LAYERS; i++) {
    g_autofree char *group = g_strdup_printf ("blocks %u", i);
    if (i > 1 && !base_ini_has_group (ini, group))
      break;
    ModelBlockRun run = { 0 };
    if (!read_fields (ini, group, block_fields, G_N_ELEMENTS (block_fields), &run, error))
      return FALSE;
    if (run.count > MODEL_MAX_LAYERS - arch->layers) {
      base_ini_set_error (ini, group, "count", error, "found %u, expected at most %u blocks in all",
                          run.count, MODEL_MAX_LAYERS);
      return FALSE;
    }
    model_arch_add_blocks (arch, &run);
  }
  return TRUE;
}

/* A check only: the blocks say how many layers there are. */
static gboolean
check_layers (BaseIni *ini, const ModelArch *arch, GError **error)
{
  guint64 layers = arch->layers;
  if (!base_ini_get_count_optional (ini, "model", "layers", 1, MODEL_MAX_LAYERS, &layers, error))
    return FALSE;
  if (layers == arch->layers)
    return TRUE;
  base_ini_set_error (ini, "model", "layers", error,
                      "found %" G_GUINT64_FORMAT ", expected %u (the blocks added up)", layers,
                      arch->layers);
  return FALSE;
}

/* "[assumed]" keeps what an earlier reader took by default: "key = value: why". */
static void
read_assumed (BaseIni *ini, ModelArch *arch)
{
  if (!base_ini_has_group (ini, "assumed"))
    return;
  g_autofree const char **keys = base_ini_keys (ini, "assumed");
  for (guint i = 0; keys[i] != NULL; i++)
    g_ptr_array_add (arch->assumed,
                     g_strdup_printf ("%s=%s", keys[i],
                                      base_ini_get_string_or (ini, "assumed", keys[i], "")));
}

ModelArch *
model_arch_from_ini (BaseIni *ini, const char *name, GError **error)
{
  g_autoptr (ModelArch) arch = model_arch_new (base_ini_name (ini));
  read_assumed (ini, arch);
  if (!read_fields (ini, "model", model_fields, G_N_ELEMENTS (model_fields), arch, error))
    return NULL;
  arch->family = g_strdup (base_ini_get_string_or (ini, "model", "family", "custom"));
  if (!read_attention (ini, arch, error) || !read_blocks (ini, arch, error)
      || !check_layers (ini, arch, error) || !base_ini_finish (ini, NULL, error))
    return NULL;
  if (!model_arch_validate (arch, error))
    return NULL;
  g_free (arch->name); /* messages so far named the file */
  arch->name = g_strdup (name);
  return g_steal_pointer (&arch);
}

static void
write_ratio (GString *text, const char *key, double value)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf (text, "%s = %s\n", key, g_ascii_dtostr (number, sizeof number, value));
}

/* Zero is what an absent count reads as. */
static void
write_count (GString *text, const char *key, guint64 value)
{
  if (value != 0)
    g_string_append_printf (text, "%s = %" G_GUINT64_FORMAT "\n", key, value);
}

static void
write_field (GString *text, const Field *field, const void *object)
{
  const void *member = (const char *)object + field->offset;
  switch (field->type) {
  case FIELD_BOOL:
    g_string_append_printf (text, "%s = %s\n", field->key,
                            *(const gboolean *)member ? "yes" : "no");
    break;
  case FIELD_ENUM:
    g_string_append_printf (text, "%s = %s\n", field->key, field->names[*(const guint *)member]);
    break;
  case FIELD_RATIO:
    write_ratio (text, field->key, *(const double *)member);
    break;
  case FIELD_U32:
    write_count (text, field->key, *(const guint32 *)member);
    break;
  case FIELD_U64:
  default:
    write_count (text, field->key, *(const guint64 *)member);
  }
}

static void
write_fields (GString *text, const Field *fields, gsize n, const void *object)
{
  for (gsize i = 0; i < n; i++)
    write_field (text, &fields[i], object);
}

char *
model_arch_to_ini (const ModelArch *arch)
{
  GString *text = g_string_new (NULL);
  g_string_append_printf (text, "[model]\nfamily = %s\nlayers = %u\n", arch->family, arch->layers);
  write_fields (text, model_fields, G_N_ELEMENTS (model_fields), arch);
  g_string_append (text, "\n[attention]\n");
  write_fields (text, attention_fields, G_N_ELEMENTS (attention_fields), &arch->attention);
  for (guint i = 0; i < arch->n_runs; i++) {
    g_string_append_printf (text, "\n[blocks %u]\n", i + 1);
    write_fields (text, block_fields, G_N_ELEMENTS (block_fields), &arch->runs[i]);
  }
  if (arch->assumed->len > 0)
    g_string_append (text, "\n[assumed]\n");
  for (guint i = 0; i < arch->assumed->len; i++) {
    const char *note = g_ptr_array_index (arch->assumed, i);
    const char *value = strchr (note, '=');
    g_string_append_printf (text, "%.*s = %s\n", (int)(value - note), note, value + 1);
  }
  return g_string_free (text, FALSE);
}
