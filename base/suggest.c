/* base/suggest.c - see base/suggest.h. */
#include "base/suggest.h"

#include <string.h>

#define DISTANCE_CAP 255

/* No name plait knows is longer; a longer word is not a typo of one. */
#define WORD_MAX_BYTES 255

guint
base_edit_distance (const char *a, const char *b)
{
  gsize n = strlen (a), m = strlen (b);
  if (MAX (n, m) - MIN (n, m) >= DISTANCE_CAP)
    return DISTANCE_CAP;

  /* Three rows of the usual table: swaps look back two. */
  g_autofree guint *cells = g_new (guint, 3 * (m + 1));
  guint *before = cells, *last = cells + m + 1, *now = cells + 2 * (m + 1);
  for (gsize j = 0; j <= m; j++)
    now[j] = (guint)j;

  for (gsize i = 1; i <= n; i++) {
    guint *reused = before;
    before = last;
    last = now;
    now = reused;
    now[0] = (guint)i;
    for (gsize j = 1; j <= m; j++) {
      guint best = last[j - 1] + (a[i - 1] != b[j - 1]);
      best = MIN (best, last[j] + 1);
      best = MIN (best, now[j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = MIN (best, before[j - 2] + 1);
      now[j] = best;
    }
  }
  return MIN (now[m], DISTANCE_CAP);
}

const char *
base_suggest (const char *word, const char *const *names)
{
  gsize length = strlen (word);
  if (length > WORD_MAX_BYTES)
    return NULL;

  const char *nearest = NULL;
  guint allowed = MAX (2, (guint)length / 3);
  for (gsize i = 0; names != NULL && names[i] != NULL; i++) {
    gsize name_length = strlen (names[i]);
    if (MAX (length, name_length) - MIN (length, name_length) > allowed)
      continue;
    guint distance = base_edit_distance (word, names[i]);
    /* Words without one letter in common are no typo, however short: "xx" is not "tp". */
    if (distance > allowed || distance >= MAX (length, name_length))
      continue;
    nearest = names[i];
    if (distance == 0)
      break;
    allowed = distance - 1;
  }
  return nearest;
}

char *
base_suggest_clause (const char *word, const char *const *names)
{
  const char *near = base_suggest (word, names);
  return near != NULL ? g_strdup_printf ("; did you mean '%s'?", near) : g_strdup ("");
}

char *
base_suggest_one_of (const char *word, const char *const *names)
{
  g_autofree char *all = g_strjoinv (", ", (char **)names);
  g_autofree char *clause = base_suggest_clause (word, names);
  return g_strconcat ("one of ", all, clause, NULL);
}

gint
base_name_index (const char *name, const char *const *names)
{
  for (gint i = 0; names[i] != NULL; i++)
    if (strcmp (name, names[i]) == 0)
      return i;
  return -1;
}
