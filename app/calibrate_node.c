/* app/calibrate_node.c - measure, store, fit, store. */
#include "app/calibrate_node.h"

#include "app/node-private.h"
#include "app/node_result-private.h"
#include "app/record.h"
#include "base/hash.h"
#include "exec/crew.h"
#include "topo/live.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_BUDGET_S 60.0

typedef struct {
  const AppCalibrateNodeRequest *request;
  BaseCatalog *catalog;
  TopoMachine *machine;
  ModelProfile *profile;
  CostCalibration *base;
  CostNumbers numbers; /* of the base */
  const ExecBackend *backend;
  char *topology_hash, *base_text, *name, *math_version, *comm_version;
  NodeSetting setting;
  GPtrArray *benches;
  GPtrArray *programs; /* of exec runs */
  GPtrArray *points;   /* of exec runs (owned) */
  GPtrArray *measured; /* all points with a measurement (borrowed) */
  DbDatabase *db;
  gint64 run_id;
  NodeFit fit;
  AppNodeCalibration *out;
} Work;

static void
work_clear (Work *w)
{
  node_fit_clear (&w->fit);
  g_clear_pointer (&w->measured, g_ptr_array_unref);
  g_clear_pointer (&w->points, g_ptr_array_unref);
  g_clear_pointer (&w->programs, g_ptr_array_unref);
  g_clear_pointer (&w->benches, g_ptr_array_unref);
  g_clear_pointer (&w->db, db_database_free);
  cost_numbers_clear (&w->numbers);
  g_clear_pointer (&w->base, cost_calibration_free);
  g_clear_pointer (&w->profile, model_profile_free);
  g_clear_pointer (&w->machine, topo_machine_free);
  g_clear_pointer (&w->catalog, base_catalog_free);
  char **texts[]
      = { &w->topology_hash, &w->base_text, &w->name, &w->math_version, &w->comm_version };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_clear_pointer (texts[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

/* ---- what is calibrated ---- */

static gboolean
check_name (const Work *w, const char *name, GError **error)
{
  g_auto (GStrv) known = base_catalog_list (w->catalog, "calibrations");
  gboolean taken = g_strv_contains ((const char *const *)known, name);
  if (!taken && !g_str_equal (name, "latest") && *name != '\0' && strpbrk (name, "/#\n\r") == NULL)
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "--name '%s': %s; give another", name,
               taken ? "is the catalog's" : "is no name for a calibration");
  return FALSE;
}

/* Unless it is said: one per device, or per core where the cores are the devices. */
static guint64
rank_count (const AppCalibrateNodeRequest *request, const ExecBackend *backend)
{
  long devices = backend->device_count != NULL ? (long)backend->device_count ()
                                               : sysconf (_SC_NPROCESSORS_ONLN);
  return request->ranks > 0 ? request->ranks : (guint64)CLAMP (devices, 1, 64);
}

/* Two ranks on one device measure each other. */
static gboolean
check_devices (const Work *w, GError **error)
{
  guint32 devices = w->backend->device_count != NULL ? w->backend->device_count () : 0;
  if (devices == 0 || w->setting.ranks <= devices || w->request->from_exec)
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "--ranks %u: each needs a device of its own, and the number that backend '%s' finds "
               "on this node is %u",
               w->setting.ranks, w->request->backend, devices);
  return FALSE;
}

/* Loads the backend, and says what it lacks here if it is to measure. */
static gboolean
load_backend (Work *w, GError **error)
{
  w->backend = exec_backend_load (w->request->backend, error);
  if (w->backend == NULL)
    return FALSE;
  w->setting.ranks = (guint32)rank_count (w->request, w->backend);
  if (!check_devices (w, error))
    return FALSE;
  return w->request->from_exec || w->backend->probe == NULL
         || w->backend->probe (w->setting.ranks, error);
}

/* Programs compute as models are trained, where both backend and device know bf16. */
static ModelDtype
dtype_of (const ExecBackend *backend, const TopoGpu *gpu)
{
  return backend->bf16 != NULL && gpu->peak_flop_per_s[TOPO_DTYPE_BF16] > 0 ? MODEL_DTYPE_BF16
                                                                            : MODEL_DTYPE_FP32;
}

static gboolean
load_inputs (Work *w, GError **error)
{
  const AppCalibrateNodeRequest *request = w->request;
  const char *machine = request->machine != NULL ? request->machine : "live";
  guint32 ranks = w->setting.ranks;
  w->catalog = base_catalog_new (request->catalog_dir, error);
  if (w->catalog == NULL)
    return FALSE;
  const TopoReadOptions options = { .catalog = w->catalog };
  w->machine = g_str_equal (machine, "live") ? topo_machine_new_live (&options, ranks, error)
                                             : topo_machine_load (w->catalog, machine, NULL, error);
  w->profile = w->machine != NULL ? model_profile_load (w->catalog, "plait", error) : NULL;
  w->base = w->profile != NULL
                ? cost_calibration_load (w->catalog,
                                         request->base != NULL ? request->base : "default", error)
                : NULL;
  if (w->base == NULL
      || !cost_numbers_init (&w->numbers, w->base, w->machine, w->profile->name, error))
    return FALSE;
  w->base_text = cost_calibration_format (w->base);
  w->name = request->name != NULL
                ? g_strdup (request->name)
                : g_strdup_printf ("%s-%s-%u", g_get_host_name (), request->backend, ranks);
  w->setting.machine = w->machine;
  w->setting.dtype = dtype_of (w->backend, w->machine->gpu);
  w->setting.profile = w->profile;
  w->setting.budget_s = request->budget_s > 0 ? request->budget_s : DEFAULT_BUDGET_S;
  return check_name (w, w->name, error);
}

static gboolean
init (Work *w, GError **error)
{
  if (!load_backend (w, error) || !load_inputs (w, error))
    return FALSE;
  g_autofree char *content = app_record_machine_content (w->machine);
  w->topology_hash = base_hash_text (content);
  w->math_version = g_strdup (w->backend->version ());
  if (w->setting.ranks > 1)
    w->comm_version = g_strdup (w->backend->comm->version ());
  w->benches = node_benches_new (&w->setting, &w->numbers);
  w->programs = g_ptr_array_new_with_free_func ((GDestroyNotify)node_program_free);
  w->points = g_ptr_array_new_with_free_func ((GDestroyNotify)node_point_free);
  w->measured = g_ptr_array_new ();
  return TRUE;
}

/* ---- the database ---- */

static DbCalibrationRunRecord
node_record (const Work *w)
{
  return (DbCalibrationRunRecord){ .host = g_get_host_name (),
                                   .pid = getpid (),
                                   .backend = w->request->backend,
                                   .rank_count = w->setting.ranks,
                                   .topology_hash = w->topology_hash,
                                   .math_version = w->math_version,
                                   .comm_version = w->comm_version,
                                   .base = cost_calibration_name (w->base),
                                   .budget_s = w->setting.budget_s };
}

static gboolean
begin (Work *w, GError **error)
{
  g_autofree char *inputs
      = g_strdup_printf ("{\"backend\":\"%s\",\"ranks\":%u,\"from_exec\":%s}", w->request->backend,
                         w->setting.ranks, w->request->from_exec ? "true" : "false");
  const DbRunRecord run = { .command = "calibrate", .inputs = inputs };
  const DbCalibrationRunRecord node = node_record (w);
  w->db = db_database_open (w->request->db_path, DB_OPEN_READ_WRITE, NULL, error);
  return w->db != NULL && db_store_begin_calibration (w->db, &run, &node, &w->run_id, error);
}

static gboolean
restore (Work *w, GError **error)
{
  const DbCalibrationRunRecord node = node_record (w);
  g_autoptr (DbRows) rows
      = db_load_points (w->db, &node, w->request->fresh ? w->run_id - 1 : 0, error);
  if (rows == NULL)
    return FALSE;
  node_benches_restore (w->benches, rows->records, w->setting.ranks);
  for (guint i = 0; i < w->benches->len; i++)
    w->out->n_known
        += ((NodeBench *)g_ptr_array_index (w->benches, i))->state != NODE_BENCH_MISSING;
  return TRUE;
}

/* ---- measuring ---- */

/* Every point with a measurement, those of exec runs last. */
static void
gather_points (Work *w)
{
  g_ptr_array_set_size (w->measured, 0);
  for (guint i = 0; i < w->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (w->benches, i);
    if (bench->state != NODE_BENCH_DONE)
      continue;
    if (bench->bench.kind == EXEC_BENCH_PROGRAM)
      node_points_weigh (bench->points, bench->ops_s);
    for (guint j = 0; j < bench->points->len; j++) {
      NodePoint *point = g_ptr_array_index (bench->points, j);
      if (point->measured_s > 0)
        g_ptr_array_add (w->measured, point);
    }
  }
  for (guint i = 0; i < w->points->len; i++)
    g_ptr_array_add (w->measured, g_ptr_array_index (w->points, i));
}

/* What it costs to run @bench: warm-up and least repeats, and what it may take beyond. */
static double
duration_s (const NodeBench *bench, double time_s)
{
  return MAX ((EXEC_BENCH_LEAST + 2) * time_s, bench->bench.limit_s);
}

/*
 * The missing benchmark that tells most for its time: doubt over the root of the time it takes (a
 * mean of n is worth sqrt n). Left for later is what would take more than a quarter of @left_s.
 * NULL: nothing is left that fits.
 */
static NodeBench *
choose (Work *w, double left_s)
{
  NodeBench *best = NULL;
  double most = -1;
  g_autoptr (GPtrArray) ops = g_ptr_array_new ();
  gather_points (w);
  for (guint i = 0; i < w->measured->len; i++)
    if (((NodePoint *)g_ptr_array_index (w->measured, i))->kind != NODE_STEP)
      g_ptr_array_add (ops, g_ptr_array_index (w->measured, i));
  /* a fit that fails here fails again at the end, and is told */
  g_autofree double *doubts = g_new0 (double, w->benches->len);
  g_autofree double *times_s = g_new0 (double, w->benches->len);
  if (node_fit_run (&w->fit, ops, TRUE, NULL))
    node_fit_doubts (&w->fit, w->benches, doubts, times_s);
  for (guint i = 0; i < w->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (w->benches, i);
    double needed_s = duration_s (bench, times_s[i]);
    if (bench->state != NODE_BENCH_MISSING || needed_s > MAX (left_s / 4, bench->bench.limit_s)
        || doubts[i] / sqrt (needed_s) <= most)
      continue;
    most = doubts[i] / sqrt (needed_s);
    best = bench;
  }
  return best;
}

static gboolean
measure_one (Work *w, ExecCrew *crew, NodeBench *bench, GError **error)
{
  const ExecBenchSheet *sheets = NULL;
  g_autoptr (GStringChunk) strings = g_string_chunk_new (256);
  if (!exec_crew_measure (crew, &bench->bench, &sheets, error))
    return FALSE;
  node_bench_take (bench, sheets, w->setting.ranks);
  g_autoptr (GArray) rows = node_bench_rows (bench, sheets, w->setting.ranks, strings);
  w->out->n_measured++;
  return db_store_points (w->db, w->run_id, (const DbPointRecord *)rows->data, rows->len, error);
}

/* Starts the ranks and waits until they are there: the first benchmark needs no time of its own. */
static ExecCrew *
start_crew (Work *w, GError **error)
{
  const AppCalibrateNodeRequest *request = w->request;
  long cores = sysconf (_SC_NPROCESSORS_ONLN);
  guint threads = (guint)MAX (cores / (long)w->setting.ranks, 1);
  const ExecBenchSheet *sheets = NULL;
  g_autoptr (ExecCrew) crew = exec_crew_new (request->argv, w->setting.ranks, threads, w->backend,
                                             w->profile, request->timeout_s, error);
  for (guint i = 0; crew != NULL && i < w->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (w->benches, i);
    if (bench->bench.kind != EXEC_BENCH_RESIDENT)
      continue;
    if (bench->state == NODE_BENCH_MISSING
            ? !measure_one (w, crew, bench, error)
            : !exec_crew_measure (crew, &bench->bench, &sheets, error))
      return NULL;
  }
  return g_steal_pointer (&crew);
}

static gboolean
measure (Work *w, GError **error)
{
  const AppCalibrateNodeRequest *request = w->request;
  g_autoptr (ExecCrew) crew = NULL;
  if (w->out->n_known == w->benches->len)
    return TRUE;
  crew = start_crew (w, error);
  if (crew == NULL)
    return FALSE;
  gint64 start_us = g_get_monotonic_time ();
  for (;;) {
    double spent_s = (double)(g_get_monotonic_time () - start_us) * 1e-6;
    w->out->measuring_s = spent_s;
    NodeBench *bench
        = spent_s < w->setting.budget_s ? choose (w, w->setting.budget_s - spent_s) : NULL;
    if (bench == NULL)
      return TRUE;
    if (request->progress != NULL)
      request->progress (w->out->n_known + w->out->n_measured, w->benches->len,
                         w->setting.budget_s - spent_s, bench->key, request->user_data);
    if (!measure_one (w, crew, bench, error))
      return FALSE;
  }
}

/* ---- numbers that are read off, not fitted ---- */

static NodeBench *
bench_of_kind (const Work *w, ExecBenchKind kind)
{
  for (guint i = 0; i < w->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (w->benches, i);
    if (bench->bench.kind == kind && bench->state == NODE_BENCH_DONE)
      return bench;
  }
  return NULL;
}

/* Ops of one layer, forward and backward: what the host launches. */
static double
ops_per_layer (const Work *w)
{
  for (guint i = 0; i < w->benches->len; i++) {
    const NodeBench *bench = g_ptr_array_index (w->benches, i);
    if (bench->program == NULL || bench->program->layout.pp > 1)
      continue;
    g_autoptr (ModelProgram) program
        = model_program_new (bench->program->arch, &bench->program->job, &bench->program->layout,
                             w->profile, 0, NULL);
    if (program != NULL)
      return (double)(program->n_ops - program->tail.count) / bench->program->arch->layers;
  }
  return 0;
}

static void
put_measured (Work *w)
{
  const NodeBench *launch = bench_of_kind (w, EXEC_BENCH_LAUNCH);
  const NodeBench *resident = bench_of_kind (w, EXEC_BENCH_RESIDENT);
  g_autofree char *profile = g_strdup_printf ("profile %s", w->profile->name);
  g_autofree char *gpu = g_strdup_printf ("gpu %s", w->machine->gpu->slug);
  if (launch != NULL && launch->device_s[0] > 0)
    node_fit_put (&w->fit, profile, "host_layer", launch->device_s[0] * ops_per_layer (w), 0.2, 1);
  if (resident == NULL)
    return;
  memcpy (w->out->resident_bytes, resident->bytes, sizeof w->out->resident_bytes);
  if (w->setting.ranks > 1)
    node_fit_put (&w->fit, "memory", "communicator",
                  (double)resident->bytes[EXEC_RESIDENT_COMMUNICATOR], 0.1, 1);
  node_fit_put (&w->fit, gpu, "cublas_workspace", (double)resident->bytes[EXEC_RESIDENT_WORKSPACE],
                0.1, 1);
}

/* ---- the use case ---- */

static gboolean
fit (Work *w, GError **error)
{
  gather_points (w);
  if (w->measured->len == 0) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "nothing was measured on this node yet: run 'plait calibrate --backend %s' or "
                 "'plait exec' first",
                 w->request->backend);
    return FALSE;
  }
  put_measured (w);
  return node_fit_run (&w->fit, w->measured, FALSE, error) && node_fit_judge (&w->fit, error);
}

static gboolean
store (Work *w, GError **error)
{
  g_autofree char *source
      = g_strdup_printf ("plait calibrate on %s, backend %s, %u ranks: %u measurements around '%s'",
                         g_get_host_name (), w->request->backend, w->setting.ranks,
                         w->measured->len, cost_calibration_name (w->base));
  g_autoptr (GStringChunk) strings = g_string_chunk_new (1024);
  node_result_fill (w->out, &w->fit, w->benches, w->request->backend);
  cost_calibration_rename (w->fit.calibration, w->name, source);
  return node_result_store (w->db, w->run_id, &w->fit, w->out, source, error);
}

static gboolean
run_stored (Work *w, GError **error)
{
  const AppCalibrateNodeRequest *request = w->request;
  return restore (w, error)
         && node_fit_init (&w->fit, &w->setting, w->base_text, cost_calibration_name (w->base),
                           error)
         && node_exec_points (&w->setting, w->catalog, w->db, w->topology_hash, request->backend,
                              w->programs, w->points, &w->out->n_exec_runs, error)
         && (request->from_exec || measure (w, error)) && fit (w, error) && store (w, error);
}

static gboolean
run (Work *w, GError **error)
{
  g_autoptr (GError) failure = NULL;
  const DbRunCounts none = { .elapsed_s = 0 };
  if (!begin (w, error))
    return FALSE;
  if (run_stored (w, &failure))
    return TRUE;
  db_store_finish_run (w->db, w->run_id, DB_RUN_FAILED, failure->message, &none, NULL, 0, NULL);
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

/* A rank of a crew knows the backend and the profile, and takes all else from the desk. */
static gboolean
serve (const AppCalibrateNodeRequest *request, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (request->catalog_dir, error);
  g_autoptr (ModelProfile) profile
      = catalog != NULL ? model_profile_load (catalog, "plait", error) : NULL;
  const ExecBackend *backend = profile != NULL ? exec_backend_load (request->backend, error) : NULL;
  return backend != NULL
         && exec_crew_serve (backend, profile, (guint32)rank_count (request, backend), error);
}

AppNodeCalibration *
app_calibrate_node (const AppCalibrateNodeRequest *request, GError **error)
{
  g_auto (Work) w = { .request = request };
  g_autoptr (AppNodeCalibration) out = node_result_new ();
  w.out = out;
  if (exec_place () == EXEC_PLACE_RANK) {
    out->is_silent = TRUE;
    return serve (request, error) ? g_steal_pointer (&out) : NULL;
  }
  if (exec_place () == EXEC_PLACE_DIRECT) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "calibrate starts its own ranks: run it without mpirun or srun");
    return NULL;
  }
  if (!init (&w, error))
    return NULL;
  out->ranks = w.setting.ranks;
  out->name = g_strdup (w.name);
  out->base = g_strdup (cost_calibration_name (w.base));
  out->versions = w.comm_version != NULL
                      ? g_strdup_printf ("%s, %s", w.math_version, w.comm_version)
                      : g_strdup (w.math_version);
  return run (&w, error) ? g_steal_pointer (&out) : NULL;
}
