/* sim/straggler.c - see straggler.h. */
#include "sim/straggler.h"

#include "base/suggest.h"
#include "base/units.h"
#include "model/error.h"

#include <string.h>

static const char *const keys[] = { "rank", "slow", NULL };

static gboolean
refuse (const char *entry, GError **error, const char *what)
{
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "straggler '%s': %s, expected rank=N,slow=FACTOR", entry, what);
  return FALSE;
}

static gboolean
set_key (SimStraggler *out, const char *entry, const char *key, const char *value, guint *seen,
         GError **error)
{
  guint64 rank = 0;
  guint which = 0;

  while (keys[which] != NULL && !g_str_equal (keys[which], key))
    which++;
  if (keys[which] == NULL) {
    g_autofree char *hint = base_suggest_clause (key, keys);
    g_autofree char *what = g_strdup_printf ("unknown key '%s'%s", key, hint);
    return refuse (entry, error, what);
  }
  if (*seen & 1u << which)
    return refuse (entry, error, which == 0 ? "rank is given twice" : "slow is given twice");
  *seen |= 1u << which;
  gboolean parsed = which == 0 ? base_units_parse_count (value, 0, G_MAXUINT32 - 1, &rank, error)
                               : base_units_parse (value, BASE_DIM_RATIO, &out->slow, error);
  if (!parsed) {
    g_prefix_error (error, "straggler '%s': %s: ", entry, key);
    return FALSE;
  }
  if (which == 0)
    out->rank = (guint32)rank;
  return TRUE;
}

static gboolean
parse_entry (SimStraggler *out, const char *entry, GError **error)
{
  g_auto (GStrv) pairs = g_strsplit (entry, ",", -1);
  guint seen = 0;

  for (char **pair = pairs; *pair != NULL; pair++) {
    char *equals = strchr (*pair, '=');
    if (equals == NULL)
      return refuse (entry, error, "a pair without '='");
    *equals = '\0';
    if (!set_key (out, entry, g_strstrip (*pair), g_strstrip (equals + 1), &seen, error))
      return FALSE;
  }
  return seen == 3 || refuse (entry, error, seen & 1 ? "slow is missing" : "rank is missing");
}

GArray *
sim_stragglers_parse (const char *text, GError **error)
{
  g_autoptr (GArray) out = g_array_new (FALSE, TRUE, sizeof (SimStraggler));
  g_auto (GStrv) entries = g_strsplit (text, ";", -1);

  for (char **entry = entries; *entry != NULL; entry++) {
    SimStraggler straggler = { 0 };
    if (!parse_entry (&straggler, g_strstrip (*entry), error))
      return NULL;
    g_array_append_val (out, straggler);
  }
  if (out->len == 0) {
    refuse ("", error, "nothing given");
    return NULL;
  }
  return g_steal_pointer (&out);
}
