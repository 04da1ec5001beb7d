/* costmodel/uncertainty.h - how far a step time may be off: a log-normal with unequal tails. */
#pragma once
#include "costmodel/calibration.h"
#include "model/layout.h"
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  gboolean moe;
  guint assumed_count;      /* numbers resolved by a default */
  guint32 nodes;
  double dp_exposed_ratio;  /* share of the step */
  double bubble_ratio;
} CostRegime;
double cost_uncertainty_sigma (const CostNumbers *numbers, const CostRegime *regime);
void cost_uncertainty_interval (const CostNumbers *numbers, const CostRegime *regime, double step_s,
                                double *out_p10_s, double *out_p90_s);
G_END_DECLS
