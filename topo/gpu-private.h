/* topo/gpu-private.h - shared by the files that read GPUs. */
#pragma once
#include "topo/gpu.h"
G_BEGIN_DECLS

/* Refuses @text as usable= of @ini when it is the label @label_gb written with decimal "GB". */
gboolean topo_gpu_check_label (const BaseIni *ini, const char *text, double label_gb,
                               GError **error);

/* "dir/my-node.ini" -> "my-node". Returns: (owned). */
char *topo_slug_of_file (const char *path);
G_END_DECLS
