/* costmodel/calibration-private.h - a calibration file in memory; for costmodel/calibration*.c. */
#pragma once
#include "costmodel/calibration.h"
G_BEGIN_DECLS

typedef enum {
  COST_SECTION_GPU,
  COST_SECTION_LINK,
  COST_SECTION_FABRIC,
  COST_SECTION_PROFILE,
  COST_SECTION_COLLECTIVE,
  COST_SECTION_SPREAD,
  COST_SECTION_STEP,
  COST_SECTION_MEMORY,
  COST_SECTION_UNCERTAINTY,
  COST_SECTION_N_KINDS
} CostSection;

#define COST_MAX_KEYS 64 /* of one section */

/* One key: where its number goes in the struct of its section. */
typedef struct {
  const char *name;
  BaseDim dim;
  gsize offset;
  double min, max;
  double neutral; /* what holds where nobody gives it; NaN: somebody has to */
} CostKey;

typedef struct {
  const char *word; /* "gpu" */
  gboolean named;   /* "[gpu hopper]" rather than "[step]" */
  const CostKey *keys;
  guint n_keys;
} CostSectionSchema;
extern const CostSectionSchema cost_sections[COST_SECTION_N_KINDS];

/* One group of the file. */
typedef struct {
  CostSection section;
  char *name;          /* (owned) (nullable) "hopper"; NULL where the section isn't named */
  char *source;        /* (owned) */
  char **gpus;         /* (owned) strv: slugs a generation's numbers were read on */
  guint64 largest_run; /* GPUs of the largest measured run of a generation; 0: none, or not known */
  gboolean assumed;    /* nobody measured it */
  guint64 set;         /* bit per key of the section */
  double value[COST_MAX_KEYS], spread[COST_MAX_KEYS];
} CostCalibrationGroup;

struct _CostCalibration {
  char *name;
  char *file; /* how messages call it */
  char *source;
  GPtrArray *groups; /* (owned) of CostCalibrationGroup, sorted by section and name */
};

/* The group of @section called @name (NULL where it isn't named), or NULL. (borrowed) */
const CostCalibrationGroup *cost_calibration_find (const CostCalibration *calibration,
                                                   CostSection section, const char *name);
/* An empty group in its place. (borrowed) */
CostCalibrationGroup *cost_calibration_add_group (CostCalibration *calibration, CostSection section,
                                                  const char *name, const char *source);
/* "gpu hopper", "step". Returns: (owned) */
char *cost_calibration_group_title (const CostCalibrationGroup *group);
/* Splits "gpu hopper" into section and name. FALSE: no group of a calibration. */
gboolean cost_calibration_split_title (const char *title, CostSection *out_section,
                                       const char **out_name);
const CostKey *cost_calibration_key (CostSection section, const char *key); /* (nullable) */
const char *cost_calibration_unit_of (BaseDim dim);
G_END_DECLS
