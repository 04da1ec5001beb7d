/* app/collective_rows.c - reading and pricing rows of nccl-tests figures. */
#include "app/collective_rows.h"

#include "app/validate-private.h"
#include "base/suggest.h"

#include <math.h>
#include <string.h>

#define BYTES_PER_S_PER_GBIT_PER_S 1.25e8
#define MAX_RANKS                  1048576

static gboolean
skip (CollectiveRows *rows, char *reason)
{
  guint count = GPOINTER_TO_UINT (g_hash_table_lookup (rows->skipped, reason));

  g_hash_table_replace (rows->skipped, reason, GUINT_TO_POINTER (count + 1));
  return TRUE;
}

/* ---- settings ---- */

static TopoMachine *
load_machine (const CollectiveRows *rows, const char *slug, const char *gpu, GError **error)
{
  return *slug != '\0' ? topo_machine_load (rows->catalog, slug, NULL, error)
                       : topo_machine_load_for_gpu (rows->catalog, gpu, 8, error);
}

/* A row's word for the network, unless it says less than the machine's file: GCP's RDMA is RoCE
 * with a transport of its own, EFA has generations. Words of links inside a node ("nvlink", "pcie")
 * are no fabric. */
static void
set_fabric (TopoMachine *machine, const char *word)
{
  TopoFabric fabric;

  if (!topo_fabric_from_name (word, &fabric) || fabric == TOPO_FABRIC_NONE
      || (fabric == TOPO_FABRIC_ROCE && machine->fabric == TOPO_FABRIC_GCPRDMA)
      || (fabric == TOPO_FABRIC_EFA && machine->fabric == TOPO_FABRIC_EFA1))
    return;
  machine->fabric = fabric;
}

static gboolean
find_setting (CollectiveRows *rows, const ValidateCells *cells, guint *out, GError **error)
{
  const char *slug = validate_cell (cells, "machine"), *gpu = validate_cell (cells, "gpu");
  const char *fabric = validate_cell (cells, "fabric");
  gboolean old = g_str_has_prefix (validate_cell (cells, "nccl_version"), "2.8");
  g_autofree char *key
      = g_strdup_printf ("%s|%s|%s|%d", slug, *slug == '\0' ? gpu : "", fabric, old);
  guint known = GPOINTER_TO_UINT (g_hash_table_lookup (rows->setting_keys, key));

  if (known == 0) {
    CollectiveSetting setting = { .old_nccl = old };

    setting.machine = load_machine (rows, slug, gpu, error);
    if (setting.machine == NULL)
      return FALSE;
    set_fabric (setting.machine, fabric);
    g_array_append_val (rows->settings, setting);
    known = rows->settings->len;
    g_hash_table_insert (rows->setting_keys, g_steal_pointer (&key), GUINT_TO_POINTER (known));
  }
  *out = known - 1;
  return TRUE;
}

/* ---- curves ---- */

/*
 * Where @ranks on @nodes nodes sit: the first ranks of one domain, whole nodes, or one rank of
 * each node. FALSE: none of these.
 */
static gboolean
find_shape (const TopoMachine *machine, guint32 ranks, guint32 nodes, TopoGroupShape *out)
{
  guint32 per_node = machine->gpus_per_node;

  if (nodes <= 1 ? ranks <= machine->domain_size
                 : (ranks % nodes == 0 && ranks / nodes == per_node)
                       || (ranks <= machine->domain_size && machine->domain_size > per_node)) {
    topo_group_shape (machine, ranks, 1, ranks, out);
    return TRUE;
  }
  if (ranks == nodes && nodes > 1 && (guint64)nodes * per_node <= MAX_RANKS) {
    topo_group_shape (machine, nodes * per_node, per_node, nodes, out);
    return TRUE;
  }
  return FALSE;
}

static CollectiveHarness
harness_of (const char *notes)
{
  if (strstr (notes, "torch ") != NULL)
    return COLLECTIVE_HARNESS_TORCH;
  return strstr (notes, "single process") != NULL ? COLLECTIVE_HARNESS_ONE_PROCESS
                                                  : COLLECTIVE_HARNESS_NCCL_TESTS;
}

static double
harness_s (const CostCollectiveNumbers *numbers, CollectiveHarness harness)
{
  switch (harness) {
  case COLLECTIVE_HARNESS_TORCH:
    return numbers->torch_loop_s;
  case COLLECTIVE_HARNESS_ONE_PROCESS:
    return numbers->one_process_s;
  default:
    return 0;
  }
}

/* "ring" and "tree" name what ran. Without a name for the rest: all but those is a choice. */
static void
set_algorithm (CollectiveCurve *curve, const char *algo)
{
  curve->no_nvls = g_str_equal (algo, "ring") || g_str_equal (algo, "tree");
  if (g_str_equal (algo, "ring") && curve->shape.domains == 1)
    curve->algorithm = "ring";
}

static gboolean
find_curve (CollectiveRows *rows, const ValidateCells *cells, ModelCollectiveKind kind, guint *out,
            char **out_skip, GError **error)
{
  guint64 ranks = 0, nodes = 1;
  double nic_gbps = NAN;
  CollectiveCurve curve = { .kind = kind };
  g_autofree char *key = NULL;
  guint known = 0;
  g_autoptr (GError) why = NULL;

  if (!validate_cell_count (cells, "gpus", FALSE, MAX_RANKS, &ranks, error)
      || !validate_cell_count (cells, "nodes", FALSE, MAX_RANKS, &nodes, error)
      || !validate_cell_number (cells, "nic_gbps_per_gpu", &nic_gbps, error))
    return FALSE;
  if (!find_setting (rows, cells, &curve.setting, &why)) {
    *out_skip = g_strdup_printf ("machine: %s", why->message);
    return TRUE;
  }
  const char *algo = validate_cell (cells, "algo");
  curve.harness = harness_of (validate_cell (cells, "notes"));
  key = g_strdup_printf ("%u|%d|%" G_GUINT64_FORMAT "|%" G_GUINT64_FORMAT "|%.17g|%s|%d",
                         curve.setting, kind, ranks, nodes, nic_gbps, algo, curve.harness);
  known = GPOINTER_TO_UINT (g_hash_table_lookup (rows->curve_keys, key));
  if (known == 0) {
    const TopoMachine *machine
        = g_array_index (rows->settings, CollectiveSetting, curve.setting).machine;

    if (ranks < 2 || !find_shape (machine, (guint32)ranks, (guint32)nodes, &curve.shape)) {
      *out_skip = g_strdup ("ranks neither fill nodes nor sit one in each");
      return TRUE;
    }
    if (curve.shape.domains > 1 && nic_gbps > 0)
      curve.shape.inter_bytes_per_s = nic_gbps * BYTES_PER_S_PER_GBIT_PER_S;
    if (curve.shape.domains > 1 && !(curve.shape.inter_bytes_per_s > 0)) {
      *out_skip = g_strdup ("no NIC rate");
      return TRUE;
    }
    curve.nic_assumed = curve.shape.domains > 1 && !(nic_gbps > 0);
    set_algorithm (&curve, algo);
    g_array_append_val (rows->curves, curve);
    known = rows->curves->len;
    g_hash_table_insert (rows->curve_keys, g_steal_pointer (&key), GUINT_TO_POINTER (known));
  }
  *out = known - 1;
  return TRUE;
}

/* ---- rows ---- */

static gboolean
read_row (CollectiveRows *rows, const ValidateCells *cells, GError **error)
{
  CollectiveRow row = { 0 };
  const char *collective = validate_cell (cells, "collective");
  gint kind = base_name_index (collective, model_collective_names);
  double use = NAN, time_us = NAN;
  char *why = NULL;

  if (!validate_cell_number (cells, "use", &use, error)
      || !validate_cell_number (cells, "bytes", &row.bytes, error)
      || !validate_cell_number (cells, "time_us", &time_us, error))
    return FALSE;
  if (!isnan (use) && use != 1)
    return TRUE;
  rows->n_rows++;
  if (kind < 0)
    return skip (rows, g_strdup_printf ("collective '%s' is not known", collective));
  if (!(row.bytes >= 0) || !(time_us > 0))
    return skip (rows, g_strdup ("no bytes or no time"));
  if (!find_curve (rows, cells, (ModelCollectiveKind)kind, &row.curve, &why, error))
    return FALSE;
  if (why != NULL)
    return skip (rows, why);
  row.measured_s = time_us * 1e-6;
  const char *log = validate_cell (cells, "slug");
  row.machine
      = g_strdup (*validate_cell (cells, "machine") != '\0' ? validate_cell (cells, "machine")
                                                            : validate_cell (cells, "gpu"));
  row.log = g_strdup (*log != '\0' ? log : row.machine);
  g_array_append_val (rows->rows, row);
  return TRUE;
}

/* A table of something else is left out: among the files of a folder it may lie there. */
static gboolean
read_file (CollectiveRows *rows, const char *file, GError **error)
{
  static const char *const needed[] = { "gpus", "collective", "bytes", "time_us", NULL };
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (file, error);
  g_autoptr (GError) why = NULL;

  if (csv == NULL)
    return FALSE;
  if (!base_csv_require_columns (csv, needed, &why)) {
    g_ptr_array_add (rows->left_out, g_strdup (why->message));
    return TRUE;
  }
  rows->n_tables++;
  for (guint i = 0; i < base_csv_n_rows (csv); i++) {
    ValidateCells cells = { csv, file, i };

    if (!read_row (rows, &cells, error))
      return FALSE;
  }
  return TRUE;
}

static void
setting_clear (gpointer data)
{
  CollectiveSetting *setting = data;

  topo_machine_free (setting->machine);
  if (setting->resolved)
    cost_numbers_clear (&setting->numbers);
}

static void
row_clear (gpointer data)
{
  CollectiveRow *row = data;

  g_free (row->log);
  g_free (row->machine);
}

gboolean
collective_rows_init (CollectiveRows *rows, const char *catalog_dir, const char *calibration,
                      const char *const *files, GError **error)
{
  *rows = (CollectiveRows){
    .setting_keys = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
    .curve_keys = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
    .skipped = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
    .settings = g_array_new (FALSE, TRUE, sizeof (CollectiveSetting)),
    .curves = g_array_new (FALSE, TRUE, sizeof (CollectiveCurve)),
    .rows = g_array_new (FALSE, TRUE, sizeof (CollectiveRow)),
    .left_out = g_ptr_array_new_with_free_func (g_free),
  };
  g_array_set_clear_func (rows->settings, setting_clear);
  g_array_set_clear_func (rows->rows, row_clear);
  rows->catalog = base_catalog_new (catalog_dir, error);
  if (rows->catalog != NULL)
    rows->calibration
        = cost_calibration_load (rows->catalog, calibration != NULL ? calibration : "default",
                                 error);
  gboolean ok = rows->calibration != NULL;
  for (guint i = 0; ok && files[i] != NULL; i++)
    ok = read_file (rows, files[i], error);
  if (ok && rows->n_tables == 0 && rows->left_out->len > 0) {
    g_set_error_literal (error, APP_ERROR, APP_ERROR_USAGE, g_ptr_array_index (rows->left_out, 0));
    ok = FALSE;
  }
  if (!ok)
    collective_rows_clear (rows);
  return ok;
}

void
collective_rows_clear (CollectiveRows *rows)
{
  if (rows == NULL)
    return;
  g_clear_pointer (&rows->setting_keys, g_hash_table_unref);
  g_clear_pointer (&rows->curve_keys, g_hash_table_unref);
  g_clear_pointer (&rows->skipped, g_hash_table_unref);
  g_clear_pointer (&rows->settings, g_array_unref);
  g_clear_pointer (&rows->curves, g_array_unref);
  g_clear_pointer (&rows->rows, g_array_unref);
  g_clear_pointer (&rows->left_out, g_ptr_array_unref);
  g_clear_pointer (&rows->calibration, cost_calibration_free);
  g_clear_pointer (&rows->catalog, base_catalog_free);
}

/* ---- prices ---- */

gboolean
collective_rows_resolve (CollectiveRows *rows, GError **error)
{
  for (guint i = 0; i < rows->settings->len; i++) {
    CollectiveSetting *setting = &g_array_index (rows->settings, CollectiveSetting, i);

    if (setting->resolved)
      cost_numbers_clear (&setting->numbers);
    setting->resolved = cost_numbers_init (&setting->numbers, rows->calibration, setting->machine,
                                           "generic", error);
    if (!setting->resolved)
      return FALSE;
    cost_numbers_alone (&setting->numbers);
    if (setting->old_nccl)
      cost_numbers_old_nccl (&setting->numbers);
  }
  return TRUE;
}

void
collective_rows_predict (const CollectiveRows *rows, double *out_s)
{
  g_autofree CostGroup *groups = g_new (CostGroup, rows->curves->len + 1);

  for (guint i = 0; i < rows->curves->len; i++) {
    const CollectiveCurve *curve = &g_array_index (rows->curves, CollectiveCurve, i);
    TopoGroupShape shape = curve->shape;

    if (curve->no_nvls)
      shape.nvls = FALSE;
    cost_group_init (&groups[i],
                     &g_array_index (rows->settings, CollectiveSetting, curve->setting).numbers,
                     &shape);
  }
  for (guint i = 0; i < rows->rows->len; i++) {
    const CollectiveRow *row = &g_array_index (rows->rows, CollectiveRow, i);
    const CollectiveCurve *curve = &g_array_index (rows->curves, CollectiveCurve, row->curve);
    const CollectiveSetting *setting
        = &g_array_index (rows->settings, CollectiveSetting, curve->setting);
    double added_s = harness_s (&setting->numbers.collective, curve->harness);
    const CostWay *way = cost_collective_way (&groups[row->curve], curve->kind, row->bytes,
                                              curve->algorithm, NULL);

    out_s[i] = way != NULL ? cost_way_s (way, row->bytes) + added_s : NAN;
  }
}
