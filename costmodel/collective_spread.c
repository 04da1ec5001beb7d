/* costmodel/collective_spread.c - the table of spreads. */
#include "costmodel/collective_spread.h"

#define KIB 1024.0
#define MIB (1024.0 * KIB)

/* Up to how many bytes a row holds. */
static const double limits_bytes[] = { 64 * KIB, MIB, 64 * MIB, G_MAXDOUBLE };

/* p10 and p90 of measured / predicted, collective-model §6. */
static const double one_node[][2] = { { .86, 1.18 }, { .88, 1.28 }, { .88, 1.27 }, { .90, 1.11 } };
static const double several_nodes[][2]
    = { { .47, 1.79 }, { .80, 2.80 }, { .61, 1.79 }, { .72, 1.62 } };
/* the 10th percentile of large messages was above the prediction: 1 is kept for it */
static const double never_measured[][2]
    = { { .72, 1.14 }, { .86, 2.26 }, { .93, 3.73 }, { 1.0, 4.73 } };

void
cost_collective_spread (double message_bytes, gboolean over_nodes, gboolean measured,
                        double *out_p10_ratio, double *out_p90_ratio)
{
  guint band = 0;
  const double (*table)[2] = over_nodes ? several_nodes : one_node;
  while (message_bytes >= limits_bytes[band] && band + 1 < G_N_ELEMENTS (limits_bytes))
    band++;
  if (!measured)
    table = never_measured;
  *out_p10_ratio = table[band][0];
  *out_p90_ratio = table[band][1];
}
