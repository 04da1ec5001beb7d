/* tests/costmodel_setting.h - a problem made from the catalog, for tests of the cost model. */
#pragma once
#include "costmodel/evaluate.h"
#include "model/program.h"
#include "tests/testutil.h"

typedef struct {
  BaseCatalog *catalog;
  ModelArch *arch;
  ModelProfile *profile;
  TopoMachine *machine;
  CostCalibration *calibration;
  CostNumbers numbers;
  ModelJob job;
  CostProblem problem; /* points into this struct */
} Setting;

static inline void
setting_clear (Setting *setting)
{
  cost_numbers_clear (&setting->numbers);
  g_clear_pointer (&setting->calibration, cost_calibration_free);
  g_clear_pointer (&setting->machine, topo_machine_free);
  g_clear_pointer (&setting->profile, model_profile_free);
  g_clear_pointer (&setting->arch, model_arch_free);
  g_clear_pointer (&setting->catalog, base_catalog_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Setting, setting_clear)

static inline void
setting_init (Setting *s, const char *model, const char *machine, const char *profile, guint32 gpus,
              guint64 seq, guint64 global_batch)
{
  GError *error = NULL;
  memset (s, 0, sizeof *s);
  s->catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  s->arch = model_arch_load (s->catalog, model, &error);
  assert_no_error (error);
  s->profile = model_profile_load (s->catalog, profile, &error);
  assert_no_error (error);
  s->machine = topo_machine_load (s->catalog, machine, NULL, &error);
  assert_no_error (error);
  s->calibration = cost_calibration_load (s->catalog, "default", &error);
  assert_no_error (error);
  cost_numbers_init (&s->numbers, s->calibration, s->machine, profile, &error);
  assert_no_error (error);
  model_job_init (&s->job, s->arch, seq, global_batch, -1, &error);
  assert_no_error (error);
  s->problem = (CostProblem){ .arch = s->arch,
                              .job = &s->job,
                              .profile = s->profile,
                              .machine = s->machine,
                              .numbers = &s->numbers,
                              .gpus = gpus,
                              .model_flop = model_step_flop (s->arch, &s->job) };
}

/* The first @layers layers of a model of equal blocks. */
static inline void
setting_cut_layers (Setting *s, guint32 layers)
{
  assert_int_equal (s->arch->n_runs, 1);
  s->arch->runs[0].count = s->arch->layers = layers;
}

static inline void
setting_layout (const Setting *s, const char *text, ModelLayout *layout)
{
  GError *error = NULL;
  model_layout_parse (layout, text, s->profile, &error);
  assert_no_error (error);
  model_layout_resolve (layout, s->arch, &s->job, s->profile, s->problem.gpus, &error);
  assert_no_error (error);
}

static inline void
setting_predict (const Setting *s, const char *text, CostPrediction *out)
{
  GError *error = NULL;
  g_auto (ModelLayout) layout = { 0 };
  setting_layout (s, text, &layout);
  cost_predict (&s->problem, &layout, out, &error);
  assert_no_error (error);
}
