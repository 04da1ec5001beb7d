/* model/placement.c - placements as text: "[S(0);R]", "S(0),R", "_S(0, 2)", "P(sum)". */
#include "base/suggest.h"
#include "base/text.h"
#include "base/units.h"
#include "model/shard.h"
#include <string.h>

static const char *const reduce_names[] = { "sum", "avg", "product", "max", "min", NULL };

/* A number inside parentheses, possibly negative, of at most nine digits. */
static gboolean
parse_int (const char *text, gint64 *out)
{
  g_autofree char *copy = g_strstrip (g_strdup (text));
  gboolean negative = copy[0] == '-';
  guint64 size;
  if (!base_units_parse_count (copy + negative, 0, 999999999, &size, NULL))
    return FALSE;
  *out = negative ? -(gint64)size : (gint64)size;
  return TRUE;
}

static gboolean
refuse (const char *text, GError **error)
{
  g_autofree char *found = base_text_excerpt (text, -1);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "placement: found '%s', expected S(dim), R, P, P(sum|avg|product|max|min) or "
               "_S(dim, split_factor)",
               found);
  return FALSE;
}

static gboolean
set_dim (const char *text, gint64 dim, guint n_dims, ModelPlacement *out, GError **error)
{
  gint64 normalised = dim < 0 ? dim + n_dims : dim;
  if (normalised < 0 || normalised >= n_dims) {
    g_autofree char *found = base_text_excerpt (text, -1);
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "placement '%s': tensor dimension %" G_GINT64_FORMAT
                 " of a tensor with %u dimensions",
                 found, dim, n_dims);
    return FALSE;
  }
  out->dim = (gint8)normalised;
  return TRUE;
}

/* @inside: what stands between the parentheses of _S(…). */
static gboolean
parse_strided (const char *text, const char *inside, guint n_dims, ModelPlacement *out,
               GError **error)
{
  g_auto (GStrv) parts = g_strsplit (inside, ",", -1);
  gint64 dim, factor;
  if (g_strv_length (parts) != 2 || !parse_int (parts[0], &dim) || !parse_int (parts[1], &factor))
    return refuse (text, error);
  if (factor < 1) {
    g_autofree char *found = base_text_excerpt (text, -1);
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "placement '%s': found split factor %" G_GINT64_FORMAT ", expected at least 1",
                 found, factor);
    return FALSE;
  }
  out->kind = MODEL_PLACEMENT_STRIDED_SHARD;
  out->split_factor = (guint32)factor;
  return set_dim (text, dim, n_dims, out, error);
}

static gboolean
parse_partial (const char *text, const char *inside, ModelPlacement *out, GError **error)
{
  out->kind = MODEL_PLACEMENT_PARTIAL;
  gint reduce = base_name_index (inside, reduce_names);
  if (reduce < 0)
    return refuse (text, error);
  out->reduce = (guint8)reduce;
  return TRUE;
}

static gboolean
parse_one (const char *text, guint n_dims, ModelPlacement *out, GError **error)
{
  *out = (ModelPlacement){ .kind = MODEL_PLACEMENT_REPLICATE };
  if (g_str_equal (text, "R"))
    return TRUE;
  if (g_str_equal (text, "P"))
    return parse_partial (text, "sum", out, error);
  const char *open = strchr (text, '(');
  gsize length = strlen (text);
  if (open == NULL || text[length - 1] != ')')
    return refuse (text, error);
  g_autofree char *inside = g_strndup (open + 1, (gsize)(text + length - 1 - (open + 1)));
  if (g_str_has_prefix (text, "_S("))
    return parse_strided (text, inside, n_dims, out, error);
  if (g_str_has_prefix (text, "P("))
    return parse_partial (text, g_strstrip (inside), out, error);
  gint64 dim;
  if (!g_str_has_prefix (text, "S(") || !parse_int (inside, &dim))
    return refuse (text, error);
  out->kind = MODEL_PLACEMENT_SHARD;
  return set_dim (text, dim, n_dims, out, error);
}

/* Length of the item at @text: up to a ';' or ',' outside parentheses. */
static gsize
item_length (const char *text)
{
  guint depth = 0;
  gsize i = 0;
  for (; text[i] != '\0'; i++) {
    if (text[i] == '(')
      depth++;
    else if (text[i] == ')' && depth > 0)
      depth--;
    else if ((text[i] == ';' || text[i] == ',') && depth == 0)
      break;
  }
  return i;
}

gboolean
model_placements_parse (const char *text, guint n_dims, ModelPlacement *out, guint max,
                        guint *out_n, GError **error)
{
  g_autofree char *copy = g_strstrip (g_strdup (text));
  gsize length = strlen (copy);
  const char *at = copy;
  guint n = 0;
  if (n_dims > MODEL_SHARD_MAX_DIMS) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "found a tensor of %u dimensions, expected at most %d", n_dims,
                 MODEL_SHARD_MAX_DIMS);
    return FALSE;
  }
  if (length >= 2 && copy[0] == '[' && copy[length - 1] == ']') {
    copy[length - 1] = '\0';
    at++;
  }
  for (;;) {
    gsize item = item_length (at);
    g_autofree char *one = g_strstrip (g_strndup (at, item));
    if (n == max) {
      g_autofree char *found = base_text_excerpt (text, -1);
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                   "placements '%s': found more than %u, expected one per mesh dimension", found,
                   max);
      return FALSE;
    }
    if (!parse_one (one, n_dims, &out[n], error))
      return FALSE;
    n++;
    at += item;
    if (*at == '\0')
      break;
    at++;
  }
  *out_n = n;
  return TRUE;
}

char *
model_placement_format (const ModelPlacement *placement)
{
  switch (placement->kind) {
  case MODEL_PLACEMENT_SHARD:
    return g_strdup_printf ("S(%d)", placement->dim);
  case MODEL_PLACEMENT_STRIDED_SHARD:
    return g_strdup_printf ("_S(%d, %u)", placement->dim, placement->split_factor);
  case MODEL_PLACEMENT_PARTIAL:
    if (placement->reduce == MODEL_REDUCE_SUM)
      return g_strdup ("P");
    return g_strdup_printf ("P(%s)", reduce_names[placement->reduce]);
  default:
    return g_strdup ("R");
  }
}
