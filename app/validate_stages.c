/* app/validate_stages.c - the stages that a row's notes spell out, in Megatron-core's notation.
 *
 * pipeline-model-parallel-layout=Et*3|(tt|)*6mL: virtual stages in pipeline order, apart by '|';
 * E embedding, t transformer layer, m multi-token prediction (counted as a layer), L loss; X*N and
 * (…)*N repeat. The number of stages over pp is vpp, whatever the row's own column says; the loss
 * may stand alone on the last stage.
 */
#include "app/validate-private.h"

#include <string.h>

#define MAX_TEXT 65536 /* of a list written out */

/* A list being written out. */
typedef struct {
  const char *at; /* the next letter */
  GString *out;
  gboolean is_broken;
} Spelling;

static void spell_list (Spelling *s, guint depth);

/* A letter, '|' or a list in brackets. */
static void
spell_item (Spelling *s, guint depth)
{
  char letter = *s->at++;

  if (letter != '(') {
    s->is_broken |= strchr ("EtmL|", letter) == NULL;
    g_string_append_c (s->out, letter);
    return;
  }
  spell_list (s, depth + 1);
  s->is_broken |= *s->at != ')';
  s->at += *s->at == ')';
}

static void
spell_list (Spelling *s, guint depth)
{
  s->is_broken |= depth > 8;
  while (!s->is_broken && *s->at != '\0' && *s->at != ')') {
    gsize from = s->out->len;
    guint64 times = 1;

    spell_item (s, depth);
    if (*s->at == '*') {
      char *end = NULL;

      times = g_ascii_strtoull (s->at + 1, &end, 10);
      s->is_broken |= end == s->at + 1 || times == 0 || times > MAX_TEXT;
      s->at = end;
    }
    g_autofree char *again = g_strdup (s->out->str + from);
    for (guint64 i = 1; i < times && !s->is_broken; i++) {
      g_string_append (s->out, again);
      s->is_broken = s->out->len > MAX_TEXT;
    }
  }
}

/* One letter per part. Returns: (owned), or NULL for what is no such list. */
static char *
spell (const char *text)
{
  Spelling s = { text, g_string_new (NULL), FALSE };

  spell_list (&s, 0);
  s.is_broken |= *s.at != '\0';
  return g_string_free (s.out, s.is_broken);
}

static guint32
count_layers (const char *stage)
{
  guint32 n = 0;

  for (; *stage != '\0'; stage++)
    n += *stage == 't' || *stage == 'm';
  return n;
}

gboolean
validate_read_stages (ValidateCase *c)
{
  ModelLayout *l = &c->layout;
  g_autofree char *text = validate_note_word (c, "pipeline-model-parallel-layout");
  g_autofree char *letters = text != NULL ? spell (text) : NULL;
  g_auto (GStrv) stages = letters != NULL ? g_strsplit (letters, "|", -1) : NULL;
  guint n = stages != NULL ? g_strv_length (stages) : 0;
  guint64 sum = 0;

  if (text == NULL)
    return TRUE;
  if (n == 0 || n % l->pp != 0)
    return validate_skip (c, "pipeline layout '%s' does not suit pp=%u", text, l->pp);
  g_free (l->stage_layers);
  l->stage_layers = g_new (guint32, n);
  for (guint i = 0; i < n; i++)
    sum += l->stage_layers[i] = count_layers (stages[i]);
  if (sum != c->setting.arch->layers)
    return validate_skip (c, "pipeline layout '%s' does not have the model's layers", text);
  l->vpp = n / l->pp;
  l->schedule = l->vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B;
  l->head_alone = l->stage_layers[n - 1] == 0;
  return TRUE;
}
