/* app/sensitivity.h - which resource limits a plan: the same layout on a machine with a tenth more
 * of one resource at a time. */
#pragma once
#include "app/problem.h"
G_BEGIN_DECLS
typedef struct {
  const char *resource; /* static: flops, hbm, hbm_bw, nvlink, nic */
  double step_s;        /* with 10 % more of it */
  double saved_ratio;   /* of the step */
  double oom_risk;
} AppSensitivity;
/* @inputs: with their machine. Resources that the machine does not have are left out. Returns:
 * (owned) GArray of AppSensitivity, the most saving first. */
GArray *app_sensitivity (const AppInputs *inputs, guint64 gpus, guint64 global_batch, guint64 seq,
                         const char *layout, GError **error);
G_END_DECLS
