/* topo/measurement.h - a measured transfer or collective: what ran, how much, how long. */
#pragma once
#include "topo/error.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  char what[48];            /* "all_reduce", "device_to_device_memcpy_read_ce" */
  gint32 from, to;          /* devices of a copy, -1 none; the host is -2 */
  guint32 ranks;            /* of a collective; 0 unknown or not one */
  guint64 size_bytes;       /* 0 unknown */
  double time_s;            /* NaN unknown */
  double algbw_bytes_per_s; /* NaN unknown */
  double busbw_bytes_per_s; /* of a copy: its rate; NaN unknown */
  gboolean in_place;
} TopoMeasurement;

#define TOPO_MEASUREMENT_HOST (-2)
G_END_DECLS
