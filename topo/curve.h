/* topo/curve.h - measured times of one collective over the first ranks of a machine, by size.
 *
 * What a file's [measured OP RANKS] states: nccl-tests on the machine at hand. Sizes are bytes as
 * nccl-tests counts them, times those of its out-of-place column.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  double bytes; /* > 0 */
  double time_s;
} TopoCurvePoint;

typedef struct {
  char *what;     /* (owned) one of topo_curve_names */
  guint32 ranks;  /* the first of the machine, nodes filled in order */
  GArray *points; /* (owned) of TopoCurvePoint, bytes rising */
  char *source;   /* (owned) */
} TopoCurve;

/* NULL-terminated: "all_reduce" … "sendrecv", as nccl-tests names its programs. */
extern const char *const topo_curve_names[];

void topo_curve_clear (TopoCurve *curve);
G_END_DECLS
