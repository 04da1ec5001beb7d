/* topo/nvml.h - NVIDIA's driver library, opened at run time: names and NVLinks of the GPUs. */
#pragma once
#include "topo/sketch.h"
G_BEGIN_DECLS

/*
 * Adds to @sketch, whose GPUs are found by their bus_ids, what NVML knows; links as each end counts
 * them, links[i][j] those of GPU i.
 *
 * @out_unplaced: (out) GPUs of the driver that are none of @sketch's
 * Returns: FALSE, with *out_why (owned) in words, where there is no driver.
 */
gboolean nvml_fill (Sketch *sketch, guint *out_unplaced, char **out_why);
G_END_DECLS
