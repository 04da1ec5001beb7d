/* costmodel/measured.c - see measured.h. */
#include "costmodel/measured.h"

#include "base/suggest.h"
#include "costmodel/collective.h"

#include <math.h>

void
cost_curve_clear (CostCurve *curve)
{
  g_clear_pointer (&curve->log_bytes, g_free);
  g_clear_pointer (&curve->log_ratio, g_free);
}

/* FALSE if the formulas have no way. */
static gboolean
curve_init (CostCurve *out, const CostNumbers *numbers, const TopoMachine *machine,
            const TopoCurve *curve)
{
  CostGroup group;
  *out = (CostCurve){ .kind
                      = (ModelCollectiveKind)base_name_index (curve->what, model_collective_names),
                      .n = curve->points->len,
                      .log_bytes = g_new (double, curve->points->len),
                      .log_ratio = g_new (double, curve->points->len) };
  topo_group_shape (machine, curve->ranks, 1, curve->ranks, &out->shape);
  cost_group_init (&group, numbers, &out->shape);
  for (guint i = 0; i < out->n; i++) {
    const TopoCurvePoint *point = &g_array_index (curve->points, TopoCurvePoint, i);
    double formula_s = cost_collective_s (&group, out->kind, point->bytes);
    out->log_bytes[i] = log (point->bytes);
    out->log_ratio[i] = log (point->time_s / formula_s);
    if (!isfinite (out->log_ratio[i]))
      return FALSE;
  }
  return TRUE;
}

GArray *
cost_curves_new (const CostNumbers *numbers, const TopoMachine *machine)
{
  CostNumbers alone = *numbers; /* borrows what it points to */
  if (machine->curves == NULL || machine->curves->len == 0)
    return NULL;
  GArray *curves = g_array_new (FALSE, TRUE, sizeof (CostCurve));
  g_array_set_clear_func (curves, (GDestroyNotify)cost_curve_clear);
  cost_numbers_alone (&alone);
  alone.curves = NULL;
  for (guint i = 0; i < machine->curves->len; i++) {
    CostCurve curve;
    if (curve_init (&curve, &alone, machine, &g_array_index (machine->curves, TopoCurve, i)))
      g_array_append_val (curves, curve);
    else
      cost_curve_clear (&curve);
  }
  return curves;
}

static gboolean
is_alike (const TopoGroupShape *a, const TopoGroupShape *b)
{
  return a->ranks == b->ranks && a->domains == b->domains
         && a->ranks_per_domain == b->ranks_per_domain
         && a->ranks_per_domain_max == b->ranks_per_domain_max && a->link_class == b->link_class
         && a->fabric == b->fabric && a->nvls == b->nvls
         && a->intra_bytes_per_s == b->intra_bytes_per_s
         && a->inter_bytes_per_s == b->inter_bytes_per_s;
}

const CostCurve *
cost_curve_find (const GArray *curves, ModelCollectiveKind kind, const TopoGroupShape *shape)
{
  for (guint i = 0; curves != NULL && i < curves->len; i++) {
    const CostCurve *curve = &g_array_index (curves, CostCurve, i);
    if (curve->kind == kind && is_alike (&curve->shape, shape))
      return curve;
  }
  return NULL;
}

double
cost_curve_ratio (const CostCurve *curve, double bytes)
{
  double at = log (fmax (bytes, 1));
  guint low = 0, high = curve->n - 1;
  if (at <= curve->log_bytes[low])
    return exp (curve->log_ratio[low]);
  if (at >= curve->log_bytes[high])
    return exp (curve->log_ratio[high]);
  while (high - low > 1) {
    guint middle = (low + high) / 2;
    if (curve->log_bytes[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  double part = (at - curve->log_bytes[low]) / (curve->log_bytes[high] - curve->log_bytes[low]);
  return exp (curve->log_ratio[low] + part * (curve->log_ratio[high] - curve->log_ratio[low]));
}

gboolean
cost_curve_covers (const CostCurve *curve, double bytes)
{
  double at = log (fmax (bytes, 1));
  return at >= curve->log_bytes[0] && at <= curve->log_bytes[curve->n - 1];
}
