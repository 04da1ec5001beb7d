/* bench/simulate.c - op completions per second and core of the player.
 *
 * usage: bench-simulate [MODEL MACHINE GPUS BATCH SEQ LAYOUT [MODE [REPEATS]]]
 * MODE: alone (no contention), shared, full (every rank, shared), grow (batch × 1, 2, 4, 8)
 */
#include "base/units.h"
#include "model/program.h"
#include "sim/play.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  const char *model, *machine, *layout, *mode;
  guint64 gpus, batch, seq, repeats;
} Arguments;

typedef struct {
  BaseCatalog *catalog;
  ModelArch *arch;
  TopoMachine *machine;
  ModelProfile *profile;
  CostCalibration *calibration;
  CostNumbers numbers;
} Setting;

static gboolean
read_arguments (int argc, char **argv, Arguments *out, GError **error)
{
  *out = (Arguments){
    "llama-3.1-405b", "hgx-h100", "tp=8,pp=16,sp=1,zero=1", "shared", 16384, 2048, 8192, 3
  };
  const char **texts[] = { &out->model, &out->machine, NULL, NULL, NULL, &out->layout, &out->mode };
  for (int i = 1; i < argc && i < 8; i++)
    if (texts[i - 1] != NULL)
      *texts[i - 1] = argv[i];
  return (argc <= 3 || base_units_parse_count (argv[3], 1, 1u << 24, &out->gpus, error))
         && (argc <= 4 || base_units_parse_count (argv[4], 1, 1u << 30, &out->batch, error))
         && (argc <= 5 || base_units_parse_count (argv[5], 1, 1u << 30, &out->seq, error))
         && (argc <= 8 || base_units_parse_count (argv[8], 1, 1000, &out->repeats, error));
}

static gboolean
setting_init (Setting *s, const Arguments *a, GError **error)
{
  memset (s, 0, sizeof *s);
  return (s->catalog = base_catalog_new (NULL, error)) != NULL
         && (s->arch = model_arch_load (s->catalog, a->model, error)) != NULL
         && (s->machine = topo_machine_load (s->catalog, a->machine, NULL, error)) != NULL
         && (s->profile = model_profile_load (s->catalog, "megatron", error)) != NULL
         && (s->calibration = cost_calibration_load (s->catalog, "default", error)) != NULL
         && cost_numbers_init (&s->numbers, s->calibration, s->machine, "megatron", error);
}

static void
setting_clear (Setting *s)
{
  cost_numbers_clear (&s->numbers);
  g_clear_pointer (&s->calibration, cost_calibration_free);
  g_clear_pointer (&s->profile, model_profile_free);
  g_clear_pointer (&s->machine, topo_machine_free);
  g_clear_pointer (&s->arch, model_arch_free);
  g_clear_pointer (&s->catalog, base_catalog_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Setting, setting_clear)

static gboolean
measure (const Setting *s, const Arguments *a, guint64 batch, GError **error)
{
  const SimPlayOptions options
      = { .full = g_str_equal (a->mode, "full"), .contention = !g_str_equal (a->mode, "alone") };
  g_auto (ModelLayout) layout = { 0 };
  g_auto (SimCase) c = { 0 };
  g_autoptr (GTimer) timer = g_timer_new ();
  ModelJob job;

  if (!model_job_init (&job, s->arch, a->seq, batch, -1, error)
      || !model_layout_parse (&layout, a->layout, s->profile, error)
      || !model_layout_resolve (&layout, s->arch, &job, s->profile, (guint32)a->gpus, error))
    return FALSE;
  const CostProblem problem = { .arch = s->arch,
                                .job = &job,
                                .profile = s->profile,
                                .machine = s->machine,
                                .numbers = &s->numbers,
                                .gpus = (guint32)a->gpus,
                                .model_flop = model_step_flop (s->arch, &job) };
  if (!sim_case_init (&c, &problem, &layout, error))
    return FALSE;
  g_autoptr (SimPlay) play = sim_play_new (&c, &options, error);
  double setup_s = g_timer_elapsed (timer, NULL), best_s = G_MAXDOUBLE;
  guint64 ops = 0;
  for (guint64 i = 0; play != NULL && i < a->repeats; i++) {
    g_auto (SimResult) result = { 0 };
    g_timer_start (timer);
    if (!sim_play_run (play, i, &result, error))
      return FALSE;
    best_s = MIN (best_s, g_timer_elapsed (timer, NULL));
    ops = result.op_count;
  }
  if (play == NULL)
    return FALSE;
  printf ("%s on %" G_GUINT64_FORMAT " %s, batch %" G_GUINT64_FORMAT ", %s: %" G_GUINT64_FORMAT
          " ops, setup %.4f s, play %.4f s: %.0f ops/s\n",
          a->model, a->gpus, a->machine, batch, a->mode, ops, setup_s, best_s,
          (double)ops / best_s);
  return TRUE;
}

static gboolean
run (const Arguments *a, GError **error)
{
  g_auto (Setting) s = { 0 };

  if (!setting_init (&s, a, error))
    return FALSE;
  if (!g_str_equal (a->mode, "grow"))
    return measure (&s, a, a->batch, error);
  for (guint64 times = 1; times <= 8; times *= 2)
    if (!measure (&s, a, times * a->batch, error))
      return FALSE;
  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  Arguments arguments;

  if (read_arguments (argc, argv, &arguments, &error) && run (&arguments, &error))
    return 0;
  fprintf (stderr, "bench-simulate: %s\n", error->message);
  return 2;
}
