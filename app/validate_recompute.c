/* app/validate_recompute.c - what a measured row recomputes.
 *
 * "selective" alone means core attention; modules stand in the notes, in one of the forms
 *   recompute_modules=core_attn+mlp · recompute_modules=[mlp, core_attn] · recompute modules: mlp
 * Words that are no modules, and modules that the model does not have, are passed over.
 */
#include "app/validate-private.h"

#include <string.h>

/* What may stand between the words "recompute" and "modules". */
static gboolean
is_joint (char c)
{
  return c == '_' || c == '-' || c == ' ';
}

/* Start of the list behind "recompute_modules=", or NULL. */
static const char *
find_list (const char *notes)
{
  static const char first[] = "recompute", second[] = "modules";

  for (const char *at = strstr (notes, first); at != NULL; at = strstr (at + 1, first)) {
    const char *rest = at + strlen (first);

    if (!is_joint (*rest) || !g_str_has_prefix (rest + 1, second))
      continue;
    rest += 1 + strlen (second);
    if (*rest != '=' && *rest != ':')
      continue;
    rest++;
    while (*rest == ' ')
      rest++;
    return rest;
  }
  return NULL;
}

static gboolean
has_module (const ModelArch *arch, guint module)
{
  if (module == MODEL_RECOMPUTE_CORE_ATTN || module == MODEL_RECOMPUTE_LAYERNORM)
    return TRUE;
  if (module == MODEL_RECOMPUTE_MLA_UP_PROJ)
    return arch->attention.kind == MODEL_ATTENTION_MLA;
  for (guint i = 0; i < arch->n_runs; i++) {
    const ModelBlockRun *run = &arch->runs[i];
    gboolean is_moe = run->kind == MODEL_BLOCK_MOE;

    if (module == MODEL_RECOMPUTE_MLP              ? !is_moe
        : module == MODEL_RECOMPUTE_SHARED_EXPERTS ? is_moe && run->moe.shared_ffn > 0
                                                   : is_moe)
      return TRUE;
  }
  return FALSE;
}

/* Bit of the module @word names, 0 for anything else. */
static guint
module_of (const char *word, const ModelProfile *profile)
{
  g_autofree char *text = g_strconcat ("recompute=selective:", word, NULL);
  g_auto (ModelLayout) parsed = { 0 };

  if (*word == '\0' || !model_layout_parse (&parsed, text, profile, NULL))
    return 0;
  return parsed.recompute.modules;
}

static guint
modules_in_notes (const ValidateCase *c)
{
  const char *at = find_list (validate_cell (&c->cells, "notes"));
  gboolean is_bracketed = at != NULL && *at == '[';
  guint modules = 0;

  at = is_bracketed ? at + 1 : at;
  while (at != NULL) {
    gsize length = strspn (at, "abcdefghijklmnopqrstuvwxyz_");
    g_autofree char *word = g_strndup (at, length);
    guint module = module_of (word, c->setting.profile);
    const char *end = at + length;

    if (module != 0 && has_module (c->setting.arch, module))
      modules |= module;
    if (is_bracketed)
      end += strspn (end, ", ");
    else
      end += *end == '+';
    if (end == at + length || *end == '\0')
      break;
    at = end;
  }
  return modules;
}

gboolean
validate_read_recompute (ValidateCase *c)
{
  const char *word = validate_field (c, "recompute");
  g_autofree char *text = g_strconcat ("recompute=", *word != '\0' ? word : "none", NULL);
  g_auto (ModelLayout) parsed = { 0 };
  g_autoptr (GError) why = NULL;
  guint modules = 0;

  if (!model_layout_parse (&parsed, text, c->setting.profile, &why))
    return validate_skip (c, "%s", why->message);
  c->layout.recompute = parsed.recompute;
  if (parsed.recompute.kind == MODEL_RECOMPUTE_SELECTIVE)
    modules = modules_in_notes (c);
  if (modules != 0)
    c->layout.recompute.modules = (guint16)modules;
  return TRUE;
}
