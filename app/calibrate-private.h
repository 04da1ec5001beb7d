/* app/calibrate-private.h - which numbers are fitted, and the rows they are fitted to. */
#pragma once
#include "app/calibrate.h"
#include "app/validate-private.h"
#include "costmodel/fit.h"
G_BEGIN_DECLS

#define CALIBRATE_MAX_ENTRIES 12

/* One factor and the numbers it multiplies: what generations and dtypes share. */
typedef struct {
  const char *name; /* first entry, as in the file */
  struct {
    const char *group, *key;
  } entries[CALIBRATE_MAX_ENTRIES];
} CalibrateParameter;

extern const CalibrateParameter calibrate_parameters[];
extern const guint calibrate_n_parameters;

/* The factors applied to a calibration in memory. */
typedef struct {
  CostCalibration *calibration; /* (borrowed) */
  guint n;
  double *slots[64][CALIBRATE_MAX_ENTRIES]; /* where the numbers live; NULL: no more */
  double priors[64][CALIBRATE_MAX_ENTRIES];
  CostFitParameter fit[64];
} CalibrateNumbers;
gboolean calibrate_numbers_init (CalibrateNumbers *numbers, CostCalibration *calibration,
                                 GError **error);
/* Numbers = priors · exp (x). */
void calibrate_numbers_apply (const CalibrateNumbers *numbers, const double *x);

/* One row of the fit. */
typedef struct {
  ValidateCase c;
  guint setting;     /* index of its numbers */
  double measured_s; /* NaN: memory only */
  double use;
  char *group, *family; /* (owned) */
} CalibrateRow;

typedef struct {
  ValidateShelf shelf;
  CalibrateNumbers numbers;
  char **files;                     /* (owned) paths of the tables */
  GPtrArray *tables;                /* (owned) BaseCsv * that the rows point into */
  GPtrArray *rows;                  /* (owned) CalibrateRow * */
  GArray *settings;                 /* (owned) CalibrateSetting: distinct (machine, profile) */
  const double *offset;             /* (nullable) added to x: what the priors are centred on */
  struct _AppGemmCalibration *gemm; /* (owned) (nullable) */
  AppValidation *all;               /* (borrowed) counts of what was skipped and assumed */
} CalibrateData;

typedef struct {
  const TopoMachine *machine;
  const char *profile;
  CostNumbers numbers, moved; /* at the last full x, and with one parameter moved */
} CalibrateSetting;

gboolean calibrate_data_init (CalibrateData *data, const AppCalibrateRequest *request,
                              AppValidation *all, GError **error);
void calibrate_data_clear (CalibrateData *data);
/* CostFitProblem.residuals of a CalibrateData. */
gboolean calibrate_residuals (const double *x, guint moved, double *r, gpointer data,
                              GError **error);
/* Makes every row see the numbers at @x (and no offset). */
gboolean calibrate_move_to (CalibrateData *data, const double *x, GError **error);
G_END_DECLS
