/* app/validate-private.h - from a row of measured runs to a problem with a layout. */
#pragma once
#include "app/problem.h"
#include "app/validate.h"
#include "base/csv.h"
G_BEGIN_DECLS

/* One row of a table. */
typedef struct {
  const BaseCsv *csv;
  const char *file;
  guint row;
} ValidateCells;

/* Text of a cell, "" where the column or the value is absent. (borrowed) */
const char *validate_cell (const ValidateCells *cells, const char *column);
/*
 * A whole number ("8" or "8.0") from 1 to @max; zero where @zero_ok. *out stays untouched where the
 * cell is empty. Returns: FALSE for anything else, naming file, line and column.
 */
gboolean validate_cell_count (const ValidateCells *cells, const char *column, gboolean zero_ok,
                              guint64 max, guint64 *out, GError **error);
/* A number >= 0; *out is NaN where the cell is empty. */
gboolean validate_cell_number (const ValidateCells *cells, const char *column, double *out,
                               GError **error);

/* Whether @csv has the columns that every table needs, and those of @by (NULL-terminated; nullable)
 * but for family. */
gboolean validate_check_columns (const BaseCsv *csv, const char *const *by, const char *file,
                                 GError **error);
/* Adds a line to @out for every column that is not read, but nearly has the name of one that is and
 * that the table lacks. */
void validate_hint_columns (const BaseCsv *csv, const char *file, GPtrArray *out);

/* What rows share, loaded once. */
typedef struct {
  BaseCatalog *catalog;         /* (owned) */
  CostCalibration *calibration; /* (owned) */
  TopoGpuTable *gpus;           /* (owned) */
  GPtrArray *models;            /* (owned) ModelArch * of the catalog */
  GHashTable *machines;         /* (owned) char * -> TopoMachine * */
  GHashTable *profiles;         /* (owned) slug -> ModelProfile * */
  GHashTable *numbers;          /* (owned) "machine key|profile" -> CostNumbers * */
} ValidateShelf;
/* @db_path: (nullable) where @calibration is looked up if the catalog lacks it. */
gboolean validate_shelf_init (ValidateShelf *shelf, const char *catalog_dir,
                              const char *calibration, const char *db_path, GError **error);
void validate_shelf_clear (ValidateShelf *shelf);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ValidateShelf, validate_shelf_clear)

/* A row, resolved. Do not move it: the problem points into it. */
typedef struct {
  ValidateCells cells;
  AppSetting setting; /* borrows from the shelf, but for the model */
  AppProblem problem;
  ModelLayout layout;
  GPtrArray *assumed; /* (owned) char *: columns filled in */
  char *skip;         /* (owned) why the row cannot be predicted; NULL: it can */
} ValidateCase;
/*
 * Returns: FALSE only for a malformed cell. A row that cannot be predicted succeeds with
 * @out->skip set.
 */
gboolean validate_case_init (ValidateCase *out, ValidateShelf *shelf, const ValidateCells *cells,
                             GError **error);
void validate_case_clear (ValidateCase *c);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ValidateCase, validate_case_clear)

/* Sets c->skip, once; returns TRUE, since to skip a row is no failure. */
gboolean validate_skip (ValidateCase *c, const char *format, ...) G_GNUC_PRINTF (2, 3);
void validate_assume (ValidateCase *c, const char *column);
gboolean validate_is_assumed (const ValidateCase *c, const char *column);
/* The cell, else the profile's default for it, noted as assumed; "" if neither says. */
const char *validate_field (ValidateCase *c, const char *column);

/* The steps of validate_case_init; each may set c->skip. */
gboolean validate_resolve_machine (ValidateCase *c, ValidateShelf *shelf, GError **error);
gboolean validate_resolve_model (ValidateCase *c, const ValidateShelf *shelf, GError **error);
gboolean validate_resolve_layout (ValidateCase *c, GError **error);
/* app/validate_notes.c. Flags that the notes quote as "name=value"; NaN where they do not. */
gboolean validate_note_is_on (const ValidateCase *c, const char *flag);
double validate_note_number (const ValidateCase *c, const char *flag);
char *validate_note_word (const ValidateCase *c, const char *flag); /* (owned), or NULL */
/* What the columns have no word for, from those flags; may set c->skip. */
void validate_fill_from_notes (ValidateCase *c, ModelArch *arch);
gboolean validate_read_recompute (ValidateCase *c); /* into c->layout; may set c->skip */
void validate_read_recipe (ValidateCase *c);        /* into c->layout */
gboolean validate_read_stages (ValidateCase *c);    /* into c->layout; may set c->skip */

/* Compares a resolved row. Returns: (owned), or NULL with c->skip set, or NULL with @error. */
AppValidateRow *validate_row_predict (ValidateCase *c, const AppValidateRequest *request,
                                      GError **error);
void validate_row_free (AppValidateRow *row);
/* Adds a line to @out if the row's time looks as if it were in milliseconds. */
void validate_hint_unit (const AppValidateRow *row, GPtrArray *out);

/* Measured seconds of a step: step_s, else from the token rate; NaN without either. */
gboolean validate_measured_step (const ValidateCase *c, double *out_s, GError **error);
/* Most frequent first. @table: name -> count. (owned) GArray of AppCount */
GArray *validate_counts_of (GHashTable *table);

/* Statistics over rows (GPtrArray of AppValidateRow). */
typedef gboolean (*ValidateFilter) (const AppValidateRow *row, gconstpointer data);
void validate_stats_step (AppErrorStats *out, const GPtrArray *rows, ValidateFilter filter,
                          gconstpointer data);
void validate_stats_memory (AppErrorStats *out, const GPtrArray *rows, ValidateFilter filter,
                            gconstpointer data);
void validate_stats_oom (AppOomStats *out, const GPtrArray *rows);
/* P(risk of a row of @bad > risk of a row of @good), ties count half; NaN without either. */
double validate_stats_auc (const GArray *bad, const GArray *good);
/* Everything of @out that follows from its rows. */
void validate_summarise (AppValidation *out);
G_END_DECLS
