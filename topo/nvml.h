/* topo/nvml.h - NVIDIA's driver library, opened at run time: names and NVLinks of the GPUs. */
#pragma once
#include "topo/sketch.h"
G_BEGIN_DECLS

/*
 * Adds to @sketch, whose GPUs are found by PCI bus id (@bus_ids: (borrowed) one per GPU), what
 * NVML knows. Returns: FALSE, with *out_why (owned) in words, where there is no driver.
 */
gboolean nvml_fill (Sketch *sketch, const char *const *bus_ids, char **out_why);
G_END_DECLS
