/* costmodel/oomrisk.h - P(need > usable): normal in the logarithm of need.
 *
 * P = Phi (ln (need / usable) / sigma). On 452 fully described runs sigma .08 to .10 gave the best
 * Brier score and an AUC of .97 (reference "memory-model" §5). Below P = .05 none of 399 runs
 * failed; above .5 it cries wolf, since people publish runs tuned until they just fit.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* 0 for need 0, 1 for usable 0. @sigma > 0. */
double cost_oom_risk (double need_bytes, double usable_bytes, double sigma);
/* Without logarithm and exponential, for hot paths: off by less than 1e-4. */
double cost_oom_risk_fast (double need_bytes, double usable_bytes, double sigma);
G_END_DECLS
