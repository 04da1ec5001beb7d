/* costmodel/measured.h - measured curves of a machine, between whose points a time is interpolated.
 *
 *   t = formula(P) · exp (interpolation of log (measured / formula) in log P)
 *
 * so that jumps between protocols stay where they are and a training step's own factors apply.
 * Beyond the first and last point their ratio is kept. Error at left-out sizes of the published
 * curves: docs/model.md. Source: reference "collective-model" §7.
 */
#pragma once
#include "costmodel/calibration.h"
#include "model/op.h"
#include "topo/placement.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  ModelCollectiveKind kind;
  TopoGroupShape shape; /* groups alike in shape have the curve */
  guint n;              /* points, 2 and more */
  double *log_bytes;    /* (owned) n, rising */
  double *log_ratio;    /* (owned) n: measured over formula */
} CostCurve;

void cost_curve_clear (CostCurve *curve);

/*
 * The curves of @machine against the formulas of @numbers, for collectives on their own. A curve
 * that the formulas have no way for is left out. Returns: (owned) GArray of CostCurve, NULL
 * without any.
 */
GArray *cost_curves_new (const CostNumbers *numbers, const TopoMachine *machine);

/* (borrowed, nullable) @curves: (nullable) */
const CostCurve *cost_curve_find (const GArray *curves, ModelCollectiveKind kind,
                                  const TopoGroupShape *shape);
/* Measured over formula at @bytes. */
double cost_curve_ratio (const CostCurve *curve, double bytes);
/* @bytes lie between the first and the last point. */
gboolean cost_curve_covers (const CostCurve *curve, double bytes);
G_END_DECLS
