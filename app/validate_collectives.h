/* app/validate_collectives.h - use case: predict every row of nccl-tests figures, and say how far
 * off each is. Error = predicted / measured - 1; rows with use = 1. Columns: collective_rows.h. */
#pragma once
#include "app/validate.h"
#include "model/op.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  char *log, *machine; /* (owned) */
  ModelCollectiveKind kind;
  guint32 ranks, domains;
  TopoLinkClass link_class;
  double bytes, measured_s, predicted_s, predicted_p10_s, predicted_p90_s;
} AppCollectiveRow;

typedef struct {
  char *machine; /* (owned) */
  ModelCollectiveKind kind;
  gboolean is_large; /* 1 MiB and more */
  AppErrorStats stats;
} AppCollectiveGroup;

typedef struct {
  guint n_rows;        /* with use = 1 */
  GPtrArray *rows;     /* (owned) AppCollectiveRow *, predicted, in the files' order */
  GArray *skipped;     /* (owned) AppCount */
  GPtrArray *left_out; /* (owned) char *: files that are no such table, and what they lack */
  AppErrorStats all;
  AppErrorStats node, network; /* within one domain, over several */
  AppErrorStats nvlink;        /* within one domain of NVLink 3 to 5 */
  GArray *groups;              /* (owned) AppCollectiveGroup by machine, collective, band */
} AppCollectiveValidation;

/* @calibration (nullable): "default". @files: NULL-terminated. Returns: (owned) or NULL. */
AppCollectiveValidation *app_validate_collectives (const char *catalog_dir, const char *calibration,
                                                   const char *const *files, GError **error);
void app_collective_validation_free (AppCollectiveValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppCollectiveValidation, app_collective_validation_free)
G_END_DECLS
