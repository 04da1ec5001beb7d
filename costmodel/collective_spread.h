/* costmodel/collective_spread.h - how far a collective's time may be off. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/*
 * Measured over predicted time at the 10th and 90th percentile, by size and by what is known of the
 * links: one node whose link class was measured, several nodes on a measured fabric, or a class
 * never measured. Reference "collective-model" §6 (one machine left out at a time).
 */
void cost_collective_spread (double message_bytes, gboolean over_nodes, gboolean measured,
                             double *out_p10_ratio, double *out_p90_ratio);
G_END_DECLS
