/* topo/read_smi.c - `nvidia-smi topo -m` and `-mp`: from header and rows to a sketch.
 *
 * The X of a row says which column is its device's, whatever the header says; the header names the
 * columns that have no row. Cells without a row come from the column (the matrix is symmetric);
 * what is in neither is unknown, and said.
 */
#include "topo/reading-private.h"
#include "topo/smi_lines.h"
#include <string.h>

#define MAX_COLUMNS (2 * SKETCH_MAX_DEVICES)

typedef struct {
  TopoReading *reading;
  const SmiLines *lines;
  guint n;                                 /* columns */
  const char *names[MAX_COLUMNS];          /* (borrowed, NULL unnamed) */
  const SmiRow *row[MAX_COLUMNS];          /* (borrowed, NULL without one) */
  guint16 cells[MAX_COLUMNS][MAX_COLUMNS]; /* as read: row, column */
  guint n_gpus;
  guint device[MAX_COLUMNS]; /* columns in the order GPUs, then NICs */
} Matrix;

static const char *
name_of (const Matrix *matrix, guint column)
{
  return matrix->names[column] != NULL ? matrix->names[column] : "an unnamed device";
}

static gboolean fail_at (const SmiRow *row, GError **error, const char *format, ...)
    G_GNUC_PRINTF (3, 4);

static gboolean
fail_at (const SmiRow *row, GError **error, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "line %u: row '%s' %s", row->line, row->label,
               text);
  return FALSE;
}

/* Column of the X of @row, -1 when it was cut off before. */
static gboolean
find_self (const SmiRow *row, gint *out, GError **error)
{
  *out = -1;
  for (guint c = 0; c < row->cells->len; c++) {
    if (g_array_index (row->cells, guint16, c) != SMI_CELL_SELF)
      continue;
    if (*out >= 0)
      return fail_at (row, error, "holds several X, expected one, at its own column");
    *out = (gint)c;
  }
  return TRUE;
}

/* How far the header stands left of the columns: 0, unless it lost or gained names in front. */
static gboolean
header_shift (const Matrix *matrix, gint *out)
{
  const GPtrArray *header = matrix->lines->header;
  for (gint shift = -2; shift <= 2; shift++) {
    guint fits = 0, rows = 0;
    for (guint c = 0; c < matrix->n; c++) {
      gint h = (gint)c + shift;
      if (matrix->row[c] == NULL || h < 0 || h >= (gint)header->len)
        continue;
      rows++;
      fits += strcmp (g_ptr_array_index (header, h), matrix->row[c]->label) == 0;
    }
    if (rows > 0 && fits == rows) {
      *out = shift;
      return TRUE;
    }
  }
  return FALSE;
}

static void
name_columns (Matrix *matrix)
{
  const GPtrArray *header = matrix->lines->header;
  gint shift = 0;
  gboolean fits = header->len > 0 && header_shift (matrix, &shift);
  if (header->len > 0 && !fits)
    reading_note (matrix->reading, "the header does not match the rows: the rows name the columns");
  if (fits && shift != 0)
    reading_note (matrix->reading, "the header is shifted by %d columns", shift);
  if (fits && (gint)header->len - shift > (gint)matrix->n)
    matrix->n = MIN ((guint)((gint)header->len - shift), MAX_COLUMNS);
  for (guint c = 0; c < matrix->n; c++) {
    gint h = (gint)c + shift;
    if (matrix->row[c] != NULL)
      matrix->names[c] = matrix->row[c]->label;
    else if (fits && h >= 0 && h < (gint)header->len)
      matrix->names[c] = g_ptr_array_index (header, h);
  }
}

/* Columns that nothing names: GPUs stand first, and NVLink is theirs alone. */
static gboolean
classify_columns (Matrix *matrix)
{
  guint gpus = 0, unnamed = 0, k = 0;
  for (guint c = 0; c < matrix->n; c++) {
    gboolean nvlink = FALSE;
    for (guint r = 0; r < matrix->n; r++)
      nvlink = nvlink || matrix->cells[r][c] >= SMI_CELL_NVLINK;
    if ((matrix->names[c] != NULL && smi_is_gpu (matrix->names[c])) || nvlink)
      gpus = c + 1;
    unnamed += matrix->names[c] == NULL;
  }
  if (unnamed > 0)
    reading_note (matrix->reading, "no header names %u of %u columns: taken as %u GPUs, then NICs",
                  unnamed, matrix->n, gpus);
  for (guint pass = 0; pass < 2; pass++)
    for (guint c = 0; c < matrix->n; c++) {
      const char *name = matrix->names[c];
      gboolean is_gpu = name != NULL ? smi_is_gpu (name) : c < gpus;
      if (is_gpu == (pass == 0))
        matrix->device[k++] = c;
      matrix->n_gpus += pass == 0 && is_gpu;
    }
  return matrix->n_gpus > 0;
}

/* Puts each row at the column of its X; rows cut before their X follow the header. */
static gboolean
place_rows (Matrix *matrix, GError **error)
{
  const SmiLines *lines = matrix->lines;
  for (guint r = 0; r < lines->rows->len; r++) {
    const SmiRow *row = g_ptr_array_index (lines->rows, r);
    gint column;
    if (!find_self (row, &column, error))
      return FALSE;
    for (guint h = 0; column < 0 && h < lines->header->len; h++)
      if (strcmp (g_ptr_array_index (lines->header, h), row->label) == 0 && h >= row->cells->len)
        column = (gint)h;
    if (column < 0)
      return fail_at (row, error, "holds no X, expected one at its own column");
    if (row->cells->len > MAX_COLUMNS || column >= MAX_COLUMNS)
      return fail_at (row, error, "has more cells than 64 GPUs and 64 NICs");
    if (matrix->row[column] != NULL)
      return fail_at (row, error, "has its X where row '%s' has its own",
                      matrix->row[column]->label);
    matrix->row[column] = row;
    matrix->n = MAX (matrix->n, MAX (row->cells->len, (guint)column + 1));
    for (guint c = 0; c < row->cells->len; c++)
      matrix->cells[column][c] = g_array_index (row->cells, guint16, c);
  }
  return TRUE;
}

static char *
cell_word (guint16 cell)
{
  static const char *const words[] = { "", "PIX", "PXB", "PHB", "NODE", "SYS" };
  if (cell == SMI_CELL_SELF)
    return g_strdup ("X");
  if (cell >= SMI_CELL_NVLINK)
    return g_strdup_printf ("NV%u", cell - SMI_CELL_NVLINK);
  return g_strdup (words[cell]);
}

/* The two cells of a pair as one: where they differ, fewer links and the longer way. */
static guint16
pair_cell (const Matrix *matrix, guint a, guint b, guint *asymmetric)
{
  guint16 x = matrix->cells[a][b], y = matrix->cells[b][a];
  if (x == SKETCH_UNKNOWN || y == SKETCH_UNKNOWN || x == y)
    return MAX (x, y);
  if ((*asymmetric)++ == 0) {
    g_autofree char *there = cell_word (x), *back = cell_word (y);
    reading_note (matrix->reading, "the matrix is not symmetric: %s-%s is %s one way, %s the other",
                  name_of (matrix, a), name_of (matrix, b), there, back);
  }
  if (x >= SMI_CELL_NVLINK || y >= SMI_CELL_NVLINK)
    return MIN (x, y);
  return MAX (x, y);
}

static void
name_devices (const Matrix *matrix, Sketch *sketch)
{
  for (guint i = 0; i < matrix->n; i++) {
    const char *name = matrix->names[matrix->device[i]];
    g_autofree char *numbered = NULL;
    if (i < sketch->n_gpus) {
      g_autofree char *expected = g_strdup_printf ("GPU%u", i);
      if (name != NULL && strcmp (name, expected) != 0)
        reading_note (matrix->reading, "%s of the file is called %s", name, expected);
      g_strlcpy (sketch->gpus[i].name, expected, sizeof sketch->gpus[i].name);
      continue;
    }
    guint nic = i - sketch->n_gpus;
    const char *real = name != NULL ? g_hash_table_lookup (matrix->lines->legend, name) : NULL;
    if (name == NULL)
      name = numbered = g_strdup_printf ("NIC%u", nic);
    sketch_name_nic (sketch, nic, real != NULL ? real : name);
  }
}

/* NUMA affinity when it is one node; -1 for N/A, ranges and lists. */
static gint32
numa_of (const SmiRow *row)
{
  guint64 numa = 0;
  if (row == NULL || row->numa == NULL || !base_units_parse_count (row->numa, 0, 255, &numa, NULL))
    return -1;
  return (gint32)numa;
}

static guint
fill_relations (const Matrix *matrix, Sketch *sketch, SketchRelations *relations)
{
  guint asymmetric = 0, unknown = 0;
  relations->n = matrix->n;
  for (guint i = 0; i < matrix->n; i++) {
    guint a = matrix->device[i];
    relations->numa[i] = numa_of (matrix->row[a]);
    relations->cpus[i] = matrix->row[a] != NULL ? matrix->row[a]->cpus : NULL;
    for (guint j = i + 1; j < matrix->n; j++) {
      guint16 cell = pair_cell (matrix, a, matrix->device[j], &asymmetric);
      if (cell >= SMI_CELL_NVLINK && j < sketch->n_gpus)
        sketch->links[i][j] = sketch->links[j][i] = cell - SMI_CELL_NVLINK;
      else if (cell <= SKETCH_SYS)
        relations->relation[i][j] = relations->relation[j][i] = (guint8)cell;
      unknown += cell == SKETCH_UNKNOWN;
    }
  }
  if (asymmetric > 1)
    reading_note (matrix->reading, "%u pairs differ between row and column in all", asymmetric);
  return unknown;
}

/*
 * GPUs whose rows are cut off: when all known pairs show a switch (the same count, more of them
 * than a card has), so do the others.
 */
static void
fill_missing_links (const Matrix *matrix, Sketch *sketch)
{
  guint16 common = 0;
  guint missing = 0;
  SketchWiring wiring;
  for (guint i = 0; i < sketch->n_gpus; i++)
    for (guint j = i + 1; j < sketch->n_gpus; j++) {
      guint a = matrix->device[i], b = matrix->device[j];
      guint16 there = matrix->cells[a][b], back = matrix->cells[b][a];
      if (there == SKETCH_UNKNOWN && back == SKETCH_UNKNOWN)
        missing++;
      else if (sketch->links[i][j] > 0)
        common = MAX (common, sketch->links[i][j]);
    }
  if (missing == 0 || common == 0)
    return;
  Sketch *copy = g_memdup2 (sketch, sizeof *sketch);
  for (guint i = 0; i < sketch->n_gpus; i++)
    for (guint j = 0; j < sketch->n_gpus; j++) {
      guint a = matrix->device[i], b = matrix->device[j];
      gboolean seen_i = FALSE, seen_j = FALSE;
      for (guint k = 0; k < sketch->n_gpus; k++) {
        seen_i = seen_i || sketch->links[i][k] > 0;
        seen_j = seen_j || sketch->links[j][k] > 0;
      }
      if (i != j && matrix->cells[a][b] == SKETCH_UNKNOWN && matrix->cells[b][a] == SKETCH_UNKNOWN
          && seen_i && seen_j)
        copy->links[i][j] = common;
    }
  sketch_wiring (copy, 0, &wiring);
  if (wiring.inferred) {
    memcpy (sketch->links, copy->links, sizeof sketch->links);
    reading_assume (matrix->reading, "missing_rows",
                    "%u pairs of GPUs are not in the paste: joined by the switch as the others, "
                    "NV%u",
                    missing, common);
  } else {
    reading_assume (matrix->reading, "missing_rows",
                    "%u pairs of GPUs are not in the paste: no NVLink between them", missing);
  }
  g_free (copy);
}

static void
say_tree (const Matrix *matrix, const SketchTreeResult *tree, guint unknown)
{
  TopoReading *reading = matrix->reading;
  guint rows = matrix->lines->rows->len;
  if (unknown > 0 && rows < matrix->n)
    reading_note (reading, "cut: %u rows for %u devices; %u pairs are in no row", rows, matrix->n,
                  unknown);
  if (tree->beside > 0)
    reading_assume (reading, "places_of_gpus",
                    "nothing places %u GPUs: taken beside the GPU before them", tree->beside);
  if (tree->unplaced > 0)
    reading_assume (reading, "places", "nothing places %u of %u devices: below one NUMA node",
                    tree->unplaced, matrix->n);
  if (tree->numbered > 0)
    reading_assume (reading, "numa", "the numbers of %u NUMA nodes are not told", tree->numbered);
  if (tree->contradictions > 0)
    reading_note (reading,
                  "%u pairs contradict the others or the NUMA affinities, the first %s-%s: the "
                  "nearer relation was taken",
                  tree->contradictions, name_of (matrix, matrix->device[tree->first]),
                  name_of (matrix, matrix->device[tree->second]));
}

static void
keep_cells (const Matrix *matrix)
{
  TopoReading *reading = matrix->reading;
  reading->n_cells = matrix->n;
  reading->cells = g_new0 (char *, (gsize)matrix->n * matrix->n);
  for (guint i = 0; i < matrix->n; i++)
    for (guint j = 0; j < matrix->n; j++) {
      guint a = matrix->device[i], b = matrix->device[j];
      guint16 cell
          = matrix->cells[a][b] != SKETCH_UNKNOWN ? matrix->cells[a][b] : matrix->cells[b][a];
      reading->cells[i * matrix->n + j] = i == j ? g_strdup ("X") : cell_word (cell);
    }
}

static gboolean
check_rows (const SmiLines *lines, GError **error)
{
  if (lines->rows->len > 0)
    return TRUE;
  if (lines->is_amd)
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "a table of rocm-smi or amd-smi does not place GPUs and NICs: give RCCL's XML "
                 "(NCCL_TOPO_DUMP_FILE)");
  else if (lines->p2p_rows > 0)
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "a P2P capability matrix (nvidia-smi topo -p2p) does not tell how GPUs are "
                 "joined: give the output of nvidia-smi topo -m");
  else if (lines->header->len > 0)
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "the matrix has a header but no rows: the paste is cut");
  else
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "found no row of an nvidia-smi topo matrix, expected a line such as "
                 "\"GPU0  X  NV12 …\"");
  return FALSE;
}

static void
take_product (const SmiLines *lines, Sketch *sketch, TopoReading *reading)
{
  const char *first = lines->products->len > 0 ? g_ptr_array_index (lines->products, 0) : NULL;
  for (guint i = 1; i < lines->products->len; i++)
    if (strcmp (first, g_ptr_array_index (lines->products, i)) != 0) {
      reading_note (reading, "the GPUs differ ('%s', '%s')", first,
                    (const char *)g_ptr_array_index (lines->products, i));
      return;
    }
  sketch->gpu_product = g_strdup (first);
}

static gboolean
fill_sketch (Matrix *matrix, Sketch *sketch, GError **error)
{
  g_autofree SketchRelations *relations = g_new0 (SketchRelations, 1);
  SketchTreeResult tree;
  if (matrix->n_gpus > SKETCH_MAX_DEVICES || matrix->n - matrix->n_gpus > SKETCH_MAX_DEVICES) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE,
                 "found %u GPUs and %u NICs, expected at most 64 of each", matrix->n_gpus,
                 matrix->n - matrix->n_gpus);
    return FALSE;
  }
  sketch->n_gpus = matrix->n_gpus;
  sketch->n_nics = matrix->n - matrix->n_gpus;
  name_devices (matrix, sketch);
  guint unknown = fill_relations (matrix, sketch, relations);
  fill_missing_links (matrix, sketch);
  sketch_tree (sketch, relations, &tree);
  say_tree (matrix, &tree, unknown);
  keep_cells (matrix);
  return TRUE;
}

gboolean
read_smi_topo (const char *data, gsize length, TopoReading *reading, Sketch *sketch, GError **error)
{
  g_autoptr (SmiLines) lines = smi_lines_new (data, length);
  g_autofree Matrix *matrix = g_new0 (Matrix, 1);
  matrix->reading = reading;
  matrix->lines = lines;
  if (!check_rows (lines, error) || !place_rows (matrix, error))
    return FALSE;
  name_columns (matrix);
  if (!classify_columns (matrix)) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "the matrix names no GPU");
    return FALSE;
  }
  if (lines->joined > 0)
    reading_note (reading,
                  "%u line breaks inside rows were taken out: a terminal's, by their looks",
                  lines->joined);
  if (lines->p2p_rows > 0)
    reading_note (reading, "a P2P capability matrix in the same file was left out");
  if (lines->matrices > 0)
    reading_note (reading, "%u rows of further, different matrices were left out", lines->matrices);
  sketch->source = g_strdup ("nvidia-smi topo");
  /* -mp shows PCIe alone. */
  sketch->links_seen = memmem (data, length, "topo -mp", 8) == NULL
                       && memmem (data, length, "--matrix_pci", 12) == NULL;
  take_product (lines, sketch, reading);
  return fill_sketch (matrix, sketch, error);
}
