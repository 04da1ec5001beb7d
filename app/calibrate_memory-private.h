/* app/calibrate_memory-private.h - the part of the fit that is about bytes. */
#pragma once
#include "app/calibrate-private.h"
#include "app/calibrate_file-private.h"
G_BEGIN_DECLS
/*
 * Fits reserved ratios and spreads of need to the memory figures of @rows, moves the rows to what
 * the fold that did not see them predicts, writes the numbers into data's calibration and appends
 * the ratios to @parameters.
 *
 * @rows: AppValidateRow, one per row of @data, in its order
 * @folds: which of @n_folds leaves out each row; @n_folds 0: none does
 */
gboolean calibrate_memory (CalibrateData *data, GPtrArray *rows, const guint *folds, guint n_folds,
                           GArray *parameters, GError **error);
G_END_DECLS
