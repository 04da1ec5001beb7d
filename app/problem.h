/* app/problem.h - from the user's words to everything a prediction rests on.
 *
 * Input is resolved here, before a database is opened, so that bad input is always bad input.
 */
#pragma once
#include "app/error.h"
#include "costmodel/evaluate.h"
#include <glib.h>
G_BEGIN_DECLS

/* What the command line says; NULL or 0 where it is silent. All borrowed. */
typedef struct {
  const char *catalog_dir;
  const char *model;
  const char *model_content; /* INI text of @model as a plan has kept it; then @model is only its
                                name (nullable) */
  const char *machine;
  const char *gpu;         /* replaces the machine's GPU */
  const char *profile;     /* default: megatron */
  const char *calibration; /* default: default */
  const char *db_path;     /* (nullable) where calibrations are looked for that the catalog lacks */
  double dropout;          /* < 0: the model's */
  const char *what_if;     /* changes to the machine (topo/change.h), (nullable) */
  const struct _TopoChanges *changes; /* the same, read already; goes before it (nullable) */
  guint32 live_ranks;                 /* machine live without GPUs: one device per rank; 0: one */
} AppInputs;

/* The catalog entries of one model, machine, profile and calibration. */
typedef struct {
  BaseCatalog *catalog;         /* (owned) */
  ModelArch *arch;              /* (owned) */
  TopoMachine *machine;         /* (owned) */
  ModelProfile *profile;        /* (owned) */
  CostCalibration *calibration; /* (owned) */
  CostNumbers numbers;          /* (owned) */
  double dropout;
} AppSetting;

/* What --model and --machine say. Return: (owned). */
ModelArch *app_model_load (const BaseCatalog *catalog, const AppInputs *inputs, GError **error);
TopoMachine *app_machine_load (const BaseCatalog *catalog, const AppInputs *inputs, GError **error);

gboolean app_setting_init (AppSetting *setting, const AppInputs *inputs, GError **error);
void app_setting_clear (AppSetting *setting);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AppSetting, app_setting_clear)

/* One search point or one prediction. Borrows the setting. */
typedef struct {
  const AppSetting *setting;
  ModelJob job;
  TopoCluster cluster;
  CostProblem problem; /* points into this struct: do not move it */
} AppProblem;

/* @global_batch, @seq: 0 takes the model's. */
gboolean app_problem_init (AppProblem *problem, const AppSetting *setting, guint64 gpus,
                           guint64 global_batch, guint64 seq, GError **error);

/*
 * A layout from text, with the dtype the GPU can run where the text names none (fp16 on GPUs
 * without bf16). @layout is initialised by this.
 */
gboolean app_layout_from_text (ModelLayout *layout, const AppProblem *problem, const char *text,
                               GError **error);
G_END_DECLS
