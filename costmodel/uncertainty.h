/* costmodel/uncertainty.h - how far a step time may be off: a log-normal with unequal tails.
 *
 *   sigma² = (profile² + moe² + assumed²·n + guessed²·g + (scale·log2 (nodes))²) · exp (2·0.36·dp)
 *   p10 = step · exp (−z10·sigma), p90 = step · exp (z90·sigma)
 *
 * profile: the spread of that framework's residuals; moe: 0 for dense models; n: numbers taken from
 * a default; g: settings of the layout that are guesses, 0 where somebody plans; dp: share of the step that is exposed data-parallel traffic, the part predicted worst. Of published runs on machines and frameworks
 * never seen in the fit 77 % fell inside (reference "time-model" §8). Errors of layouts on one
 * machine go together, so an order of layouts is safer than their times.
 */
#pragma once
#include "costmodel/calibration.h"
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  gboolean moe;
  guint assumed_count;     /* numbers resolved by a default */
  guint guessed_count;     /* settings of the layout that are guesses */
  guint32 nodes;           /* >= 1 */
  double dp_exposed_ratio; /* share of the step */
} CostRegime;
double cost_uncertainty_sigma (const CostNumbers *numbers, const CostRegime *regime);
/* p10 < step < p90 for step > 0. */
void cost_uncertainty_interval (const CostNumbers *numbers, const CostRegime *regime, double step_s,
                                double *out_p10_s, double *out_p90_s);
G_END_DECLS
