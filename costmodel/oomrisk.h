/* costmodel/oomrisk.h - P(need > usable): normal in the logarithm of need. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* Phi (ln (need/usable) / sigma); 0 for need 0. @sigma > 0. */
double cost_oom_risk (double need_bytes, double usable_bytes, double sigma);
/* Cheap form for hot paths: a table of Phi with error < 1e-4. */
double cost_oom_risk_fast (double need_bytes, double usable_bytes, double sigma);
G_END_DECLS
