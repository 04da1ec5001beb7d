/* topo/maxmin.c - progressive filling. */
#include "topo/maxmin.h"
#include <math.h>
#include <string.h>

/* Per-solve arrays, all in the caller's scratch. */
typedef struct {
  double *weight; /* per link: of the flows still rising; then the level at which it is full */
  double *used;   /* per link: by fixed flows */
  double *rates;  /* per class; NaN while it rises */
} Filling;

gsize
topo_maxmin_scratch_count (const TopoMaxmin *problem)
{
  return (gsize)problem->n_links * 2 + problem->n_classes;
}

static double
weight_at (const TopoMaxmin *problem, guint32 entry)
{
  return problem->weights == NULL ? 1 : problem->weights[entry];
}

static double
count_of (const TopoMaxmin *problem, guint32 flow_class)
{
  return problem->counts == NULL ? 1 : problem->counts[flow_class];
}

static double
cap_of (const TopoMaxmin *problem, guint32 flow_class)
{
  return problem->caps == NULL ? INFINITY : problem->caps[flow_class];
}

static gboolean
check_entries (const TopoMaxmin *problem, guint32 c, gboolean *bounded, GError **error)
{
  for (guint32 e = problem->first[c]; e < problem->first[c + 1]; e++) {
    double weight = weight_at (problem, e);
    if (problem->links[e] >= problem->n_links) {
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                   "flow class %u: found link %u, expected one of %u links", c, problem->links[e],
                   problem->n_links);
      return FALSE;
    }
    if (!(weight > 0) || !isfinite (weight)) {
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                   "flow class %u on link %u: found weight %g, expected a finite number > 0", c,
                   problem->links[e], weight);
      return FALSE;
    }
    *bounded = *bounded || isfinite (problem->capacities[problem->links[e]]);
  }
  return TRUE;
}

static gboolean
check_class (const TopoMaxmin *problem, guint32 c, GError **error)
{
  gboolean bounded = isfinite (cap_of (problem, c));
  if (problem->first[c] > problem->first[c + 1]) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                 "flow class %u: its links begin at %u and end at %u, expected ascending numbers",
                 c, problem->first[c], problem->first[c + 1]);
    return FALSE;
  }
  if (!(cap_of (problem, c) >= 0) || !(count_of (problem, c) >= 1)) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                 "flow class %u: found %g flows capped at %g, expected 1 or more and a cap >= 0", c,
                 count_of (problem, c), cap_of (problem, c));
    return FALSE;
  }
  if (!check_entries (problem, c, &bounded, error))
    return FALSE;
  if (bounded)
    return TRUE;
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
               "flow class %u: no link and no cap bounds its rate, expected at least one", c);
  return FALSE;
}

static gboolean
check (const TopoMaxmin *problem, GError **error)
{
  for (guint32 l = 0; l < problem->n_links; l++)
    if (!(problem->capacities[l] >= 0)) {
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                   "link %u: found capacity %g, expected a number >= 0", l, problem->capacities[l]);
      return FALSE;
    }
  for (guint32 c = 0; c < problem->n_classes; c++)
    if (!check_class (problem, c, error))
      return FALSE;
  return TRUE;
}

/* Sums the loads, then puts into weight[l] the common rate at which link l is full. */
static void
levels_of_links (const TopoMaxmin *problem, Filling *filling)
{
  memset (filling->weight, 0, problem->n_links * sizeof (double));
  memset (filling->used, 0, problem->n_links * sizeof (double));
  for (guint32 c = 0; c < problem->n_classes; c++) {
    double rate = filling->rates[c], count = count_of (problem, c);
    gboolean rising = isnan (rate);
    double *into = rising ? filling->weight : filling->used;
    double factor = rising ? count : count * rate;
    for (guint32 e = problem->first[c]; e < problem->first[c + 1]; e++)
      into[problem->links[e]] += factor * weight_at (problem, e);
  }
  for (guint32 l = 0; l < problem->n_links; l++) {
    double left = fmax (problem->capacities[l] - filling->used[l], 0);
    filling->weight[l] = filling->weight[l] > 0 ? left / filling->weight[l] : INFINITY;
  }
}

/* The lowest level at which anything stops a rising class. */
static double
next_level (const TopoMaxmin *problem, const Filling *filling)
{
  double level = INFINITY;
  for (guint32 l = 0; l < problem->n_links; l++)
    level = fmin (level, filling->weight[l]);
  for (guint32 c = 0; problem->caps != NULL && c < problem->n_classes; c++)
    if (isnan (filling->rates[c]))
      level = fmin (level, problem->caps[c]);
  return level;
}

/* What stops class @c at @level; FALSE if it rises on. */
static gboolean
find_stop (const TopoMaxmin *problem, const Filling *filling, guint32 c, double level,
           guint32 *out_bottleneck)
{
  for (guint32 e = problem->first[c]; e < problem->first[c + 1]; e++)
    if (filling->weight[problem->links[e]] <= level) {
      *out_bottleneck = problem->links[e];
      return TRUE;
    }
  *out_bottleneck = TOPO_MAXMIN_BY_CAP;
  return cap_of (problem, c) <= level;
}

/* Rounding may put a level a hair below one already reached: rates never fall. Returns: how many
 * classes still rise. */
static guint32
fix_stopped (const TopoMaxmin *problem, Filling *filling, double level, double floor_level,
             guint32 *bottlenecks)
{
  guint32 n_rising = 0;
  for (guint32 c = 0; c < problem->n_classes; c++) {
    guint32 bottleneck;
    if (!isnan (filling->rates[c]))
      continue;
    if (!find_stop (problem, filling, c, level, &bottleneck)) {
      n_rising++;
      continue;
    }
    filling->rates[c] = fmin (fmax (level, floor_level), cap_of (problem, c));
    if (bottlenecks != NULL)
      bottlenecks[c] = bottleneck;
  }
  return n_rising;
}

gboolean
topo_maxmin_solve (const TopoMaxmin *problem, double *out_rates, guint32 *out_bottlenecks,
                   double *scratch, GError **error)
{
  Filling filling = { .weight = scratch,
                      .used = scratch + problem->n_links,
                      .rates = scratch + (gsize)problem->n_links * 2 };
  guint32 n_rising = problem->n_classes;
  double floor_level = 0;
  if (!check (problem, error))
    return FALSE;
  for (guint32 c = 0; c < problem->n_classes; c++)
    filling.rates[c] = NAN;
  while (n_rising > 0) {
    levels_of_links (problem, &filling);
    double level = next_level (problem, &filling);
    n_rising = fix_stopped (problem, &filling, level, floor_level, out_bottlenecks);
    floor_level = fmax (floor_level, level);
  }
  for (guint32 c = 0; c < problem->n_classes; c++)
    out_rates[c] = filling.rates[c];
  return TRUE;
}
