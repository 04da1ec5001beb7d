/* topo/nvml.h - NVIDIA's driver library, opened at run time: names and NVLinks of the GPUs. */
#pragma once
#include "topo/sketch.h"
G_BEGIN_DECLS

/*
 * Adds to @sketch, whose GPUs are found by their bus_ids, what NVML knows. Returns: FALSE, with
 * *out_why (owned) in words, where there is no driver.
 */
gboolean nvml_fill (Sketch *sketch, char **out_why);
G_END_DECLS
