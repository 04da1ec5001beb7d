/* app/validate.h - use case: predict every row of measured runs, and say how far off each is.
 *
 * Error = predicted / measured - 1. Measured time is step_s, else global batch x sequence /
 * (tok_s_gpu x GPUs). Rows that cannot be predicted are counted by reason, never guessed through:
 * a field that the row leaves empty comes from the profile's [row_defaults] and is counted as
 * assumed. How a row is resolved: docs/validate.md.
 */
#pragma once
#include "app/error.h"
#include "costmodel/evaluate.h"
#include <glib.h>
G_BEGIN_DECLS

/* What of a GPU's memory a row measured. */
typedef enum {
  APP_MEM_NONE,      /* no figure */
  APP_MEM_ALLOCATED, /* by tensors: torch's max_memory_allocated */
  APP_MEM_RESERVED,  /* by the caching allocator */
  APP_MEM_DRIVER,    /* nvidia-smi */
  APP_MEM_UNSTATED,  /* compared with reserved, reported apart */
  APP_MEM_N_KINDS
} AppMemKind;
const char *app_mem_kind_name (AppMemKind kind); /* "allocated", … */

/* One predicted row. NaN: not measured. */
typedef struct {
  char *id;      /* (owned) */
  char *family;  /* (owned) who measured, may be empty */
  double use;    /* 1 score it, 0.25 doubtful, 0 don't */
  char **groups; /* (owned) strv: the row's values of the columns asked for with @by */
  double predicted_s, predicted_p10_s, predicted_p90_s, measured_s;
  double predicted_bytes, predicted_p10_bytes, predicted_p90_bytes, measured_bytes;
  AppMemKind mem_kind;
  CostStageMemory
      memory; /* of the stage that is compared: the one @mem_scope names, or the fullest */
  guint32 memory_stage;
  guint64 need_bytes, usable_bytes; /* of the stage with the highest risk */
  double oom_risk;
  guint32 pp;
  gboolean ran;        /* FALSE: the source reports out of memory */
  gboolean risk_known; /* recompute and dtype are stated, the framework is one plait has facts of */
  double breakdown_s[COST_PART_N_KINDS];
  char *profile, *machine, *layout_text; /* (owned) */
  GPtrArray *assumed;                    /* (owned) char *: names of columns filled in */
} AppValidateRow;

/* Errors of some rows. NaN where there is no row. */
typedef struct {
  guint n;
  double median_abs_err, mean_abs_err, p90_abs_err;
  double bias;        /* median of the signed errors */
  double coverage_80; /* share of rows measured between p10 and p90 */
  double width_80;    /* median of p90 / p10 */
} AppErrorStats;

typedef struct {
  char *name; /* (owned) */
  AppErrorStats step_time, memory;
} AppErrorGroup;

/* How well the risk tells runs that ran from runs that did not. */
typedef struct {
  guint n_oom, n_ran;   /* rows whose risk is known */
  guint n_unknown;      /* recompute, dtype or kernel assumed: no claim is made */
  guint oom_below_half; /* ran out of memory, risk below 0.5 */
  guint ran_above_half; /* ran, risk above 0.5 */
  double brier;         /* mean squared error of the risk */
  double noisy_auc;     /* NaN without crash labels */
  double noisy_auc_pp8; /* of layouts with at most 8 stages: deeper pipelines crash without regard
                           to memory */
  guint bin_n[10];      /* reliability: rows by tenth of risk, */
  double bin_risk[10];  /* sum of their risks, */
  guint bin_n_oom[10];  /* and how many ran out of memory */
} AppOomStats;

typedef struct {
  const char *catalog_dir;
  const char *calibration;  /* NULL: default; of the catalog, a file, or stored in @db_path */
  const char *db_path;      /* (nullable) where a calibration that the catalog lacks is looked up */
  const char *const *files; /* NULL-terminated CSV files, and folders of such */
  const char *phase;        /* NULL: rows of every phase */
  const char *const *by;    /* NULL-terminated columns to group by; all but family must exist */
  const char *crash_labels; /* (nullable) CSV of rows that crashed, label 0 */
  const char *mem_kind, *mem_scope; /* (nullable) of rows that leave the column empty */
  void (*progress) (const char *what, guint64 done, guint64 total, gpointer user_data);
  gboolean (*cancelled) (gpointer user_data);
  gpointer user_data;
} AppValidateRequest;

/* How many rows were left out for a reason, or had a column filled in. */
typedef struct {
  char *name; /* (owned) */
  guint count;
} AppCount;

/* A row that was not predicted. */
typedef struct {
  char *id, *reason; /* (owned) */
  guint line;        /* of its file */
} AppSkipped;

typedef struct {
  char *calibration;       /* (owned) name */
  char *calibration_text;  /* (owned) its numbers */
  guint n_rows;            /* read, of the phase asked for */
  GPtrArray *rows;         /* (owned) AppValidateRow *, in the files' order */
  GArray *skipped;         /* (owned) AppCount, most frequent first */
  GArray *skipped_rows;    /* (owned) (nullable) AppSkipped, in the files' order */
  GPtrArray *hints;        /* (owned) (nullable) char *: columns whose names look misspelt */
  GArray *assumed;         /* (owned) AppCount: columns filled in, and in how many rows */
  AppErrorStats step_time; /* rows with use = 1 */
  AppErrorStats step_time_all;
  AppErrorStats memory; /* rows with use = 1 and a stated kind */
  AppErrorStats memory_by_kind[APP_MEM_N_KINDS];
  AppOomStats oom;
  char **by;         /* (owned) */
  GPtrArray *groups; /* (owned) one GArray of AppErrorGroup for each of @by, in name order */
} AppValidation;

/* Returns: (owned). Fails on files that are no such table; never on a row that cannot be
 * predicted. */
AppValidation *app_validate (const AppValidateRequest *request, GError **error);
void app_validation_free (AppValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppValidation, app_validation_free)

/* Rows in order of |log (predicted / measured)| of the step time, worst first; use = 1 only.
 * Returns: (owned) GPtrArray of borrowed AppValidateRow. */
GPtrArray *app_validation_worst (const AppValidation *validation);

/* Stores the run with a row per prediction. */
gboolean app_validation_store (const AppValidation *validation, const AppValidateRequest *request,
                               const char *db_path, GError **error);
G_END_DECLS
