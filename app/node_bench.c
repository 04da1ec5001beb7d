/* app/node_bench.c - which benchmarks a node has, and their points. */
#include "app/node-private.h"

#include "exec/rank.h"
#include "topo/placement.h"

#include <math.h>
#include <string.h>

#define PROGRAM_SHARE   60.0  /* a program gets this part of the budget, */
#define WIRE_SHARE      200.0 /* anything else this */
#define PROGRAM_LEAST_S 0.05
#define PROGRAM_MOST_S  5.0
#define STEPS_LEAST     6.0 /* steps of a program that have to fit into its share */

static void
bench_free (gpointer data)
{
  NodeBench *bench = data;
  g_free (bench->key);
  node_program_free (bench->program);
  g_ptr_array_unref (bench->points);
  g_free (bench->point_of_op);
  g_free (bench->device_s);
  g_free (bench);
}

static NodeBench *
add_bench (GPtrArray *benches, const NodeSetting *setting, ExecBenchKind kind, char *key)
{
  NodeBench *bench = g_new0 (NodeBench, 1);
  double share = kind == EXEC_BENCH_PROGRAM ? PROGRAM_SHARE : WIRE_SHARE;
  bench->bench.kind = kind;
  bench->bench.limit_s = CLAMP (setting->budget_s / share, PROGRAM_LEAST_S, PROGRAM_MOST_S);
  bench->key = key;
  bench->points = g_ptr_array_new_with_free_func ((GDestroyNotify)node_point_free);
  bench->device_s = g_new0 (double, setting->ranks);
  g_ptr_array_add (benches, bench);
  return bench;
}

static NodePoint *
add_point (NodeBench *bench, NodePointKind kind, const char *word, char *item)
{
  NodePoint *point = g_new0 (NodePoint, 1);
  point->kind = kind;
  point->benchmark = g_strdup (bench->key);
  point->item = item;
  point->word = word;
  point->measured_s = NAN;
  point->weight = 1;
  point->in_step = 1;
  g_ptr_array_add (bench->points, point);
  return point;
}

static void
add_term (NodePoint *point, const ModelOp *op, double times)
{
  const NodeTerm term = { *op, times };
  if (point->terms == NULL)
    point->terms = g_array_new (FALSE, FALSE, sizeof (NodeTerm));
  g_array_append_val (point->terms, term);
}

/* ---- programs ---- */

/* A small model, in words. Widths as models have them: ffn 2 to 4 times hidden. */
typedef struct {
  guint hidden, head_dim, kv_share, ffn, vocab;
  gboolean llama; /* RMSNorm, rotary, gated; else LayerNorm, learned positions, GELU */
} Width;

/* From a laptop's core to a GPU: those whose steps are too short or too long are left out. */
static const Width widths[] = {
  { 32, 16, 1, 64, 256, FALSE },        { 64, 16, 2, 128, 512, TRUE },
  { 128, 32, 1, 512, 1024, FALSE },     { 256, 64, 2, 704, 1024, TRUE },
  { 512, 64, 1, 2048, 2048, FALSE },    { 1024, 64, 4, 2816, 4096, TRUE },
  { 2048, 128, 1, 8192, 8192, FALSE },  { 4096, 128, 4, 14336, 32768, TRUE },
  { 8192, 128, 8, 28672, 32768, TRUE },
};

typedef struct {
  guint seq, mbs;
} Length;

static const Length lengths[] = { { 16, 1 },  { 32, 2 },  { 128, 1 },  { 64, 8 },
                                  { 512, 1 }, { 256, 8 }, { 2048, 1 }, { 4096, 2 } };

static char *
arch_text (const Width *w, guint layers, guint seq)
{
  guint heads = w->hidden / w->head_dim;
  g_autofree char *rows = g_strdup_printf ("%u\n", seq);
  return g_strdup_printf (
      "[model]\nsource = a benchmark\nfamily = benchmark\nlayers = %u\nhidden = %u\nvocab = %u\n"
      "activation = %s\ngated = %s\nnorm = %s\nposition = %s\n%s%stied = no\nseq = %u\n"
      "global_batch = 1\n[attention]\nsource = a benchmark\nheads = %u\nkv_heads = %u\n"
      "head_dim = %u\n[blocks 1]\nsource = a benchmark\nkind = dense\ncount = %u\nffn = %u\n",
      layers, w->hidden, w->vocab, w->llama ? "silu" : "gelu", w->llama ? "yes" : "no",
      w->llama ? "rms" : "layer", w->llama ? "rotary" : "learned",
      w->llama ? "" : "position_rows = ", w->llama ? "" : rows, seq, heads, heads / w->kv_share,
      w->head_dim, layers, w->ffn);
}

/* "gemm forward 256x768x256 acc": kind, phase and what decides the cost. (owned) */
static char *
describe_op (const ModelOp *op)
{
  static const char *const phases[MODEL_PHASE_N_KINDS]
      = { "forward", "recompute", "backward", "gradient", "tail" };
  const char *kind = model_op_kind_name ((ModelOpKind)op->kind), *phase = phases[op->phase];
  const ModelAttentionShape *a = &op->attention;
  if (op->kind == MODEL_OP_GEMM)
    return g_strdup_printf ("%s %s %" G_GUINT64_FORMAT "x%" G_GUINT64_FORMAT "x%" G_GUINT64_FORMAT
                            "%s",
                            kind, phase, op->m, op->n, op->k,
                            op->flags & MODEL_OP_ACCUMULATE ? " acc" : "");
  if (op->kind == MODEL_OP_ATTENTION)
    return g_strdup_printf ("%s %s %s %ux%ux%u seq %" G_GUINT64_FORMAT, kind, phase,
                            model_attn_name ((ModelAttnKernel)a->kernel), a->batch, a->heads,
                            a->dim_qk, a->seq_q);
  if (op->kind == MODEL_OP_COLLECTIVE)
    return g_strdup_printf ("%s %s %s %" G_GUINT64_FORMAT "B",
                            model_collective_name ((ModelCollectiveKind)op->collective), phase,
                            model_group_name ((ModelGroupKind)op->group), op->message_bytes);
  return g_strdup_printf ("%s %s %" G_GUINT64_FORMAT "B", kind, phase,
                          op->read_bytes + op->write_bytes);
}

static guint
point_called (const NodeBench *bench, const char *item)
{
  for (guint i = 0; i < bench->points->len; i++)
    if (g_str_equal (((NodePoint *)g_ptr_array_index (bench->points, i))->item, item))
      return i;
  return G_MAXUINT;
}

/* What waits for other stages tells nothing of itself. */
static gboolean
is_point (const NodeProgram *p, const ModelOp *op)
{
  return p->layout.pp == 1 && op->kind != MODEL_OP_SEND && op->kind != MODEL_OP_RECV;
}

static NodePoint *
add_op_point (NodeBench *bench, const ModelOp *op, char *item)
{
  gboolean joint = op->kind == MODEL_OP_COLLECTIVE;
  const char *word = joint ? model_collective_name ((ModelCollectiveKind)op->collective)
                           : model_op_kind_name ((ModelOpKind)op->kind);
  NodePoint *point = add_point (bench, NODE_OPS, word, item);
  point->program = joint ? bench->program : NULL;
  point->in_step = 0;
  add_term (point, op, 1);
  return point;
}

/* One point per distinct op. */
static gboolean
add_op_points (NodeBench *bench, const ModelProfile *profile, GError **error)
{
  const NodeProgram *p = bench->program;
  g_autoptr (ModelProgram) program
      = model_program_new (p->arch, &p->job, &p->layout, profile, 0, error);
  if (program == NULL || program->n_ops > EXEC_BENCH_MAX_OPS)
    return FALSE;
  bench->point_of_op = g_new (guint, program->n_ops);
  for (guint32 i = 0; i < program->n_ops; i++) {
    const ModelOp *op = &program->ops[i];
    g_autofree char *item = describe_op (op);
    double times = op->phase == MODEL_PHASE_TAIL ? 1 : (double)program->microbatches;
    bench->point_of_op[i] = G_MAXUINT;
    if (!is_point (p, op))
      continue;
    guint at = point_called (bench, item);
    if (at == G_MAXUINT) {
      add_op_point (bench, op, g_steal_pointer (&item));
      at = bench->points->len - 1;
    }
    bench->point_of_op[i] = at;
    ((NodePoint *)g_ptr_array_index (bench->points, at))->in_step += times;
  }
  return TRUE;
}

static double
predicted_step_s (const NodeSetting *setting, const CostNumbers *numbers, const NodeProgram *p)
{
  const NodePoint point = { .kind = NODE_STEP, .program = p };
  NodePricer pricer;
  node_pricer_init (&pricer, setting, numbers);
  return node_point_s (&point, &pricer);
}

/* Adds the program if exec runs it and its step fits the time; what doesn't is no error. */
static void
add_program (GPtrArray *benches, const NodeSetting *setting, const CostNumbers *numbers,
             const Width *w, const Length *length, const char *layout, guint32 dp)
{
  guint layers = strstr (layout, "pp=") != NULL ? 2 * MAX (setting->ranks, 1) : 2;
  g_autofree char *text = arch_text (w, layers, length->seq);
  g_autofree char *words = g_strdup_printf ("%s,mbs=%u", layout, length->mbs);
  guint64 batch = (guint64)length->mbs * dp * 2;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "benchmark", NULL);
  ModelArch *arch = ini != NULL ? model_arch_from_ini (ini, "benchmark", NULL) : NULL;
  g_autoptr (NodeProgram) p = arch != NULL
                                  ? node_program_new (arch, setting->profile, words, length->seq,
                                                      batch, setting->ranks, setting->dtype, NULL)
                                  : NULL;
  if (p == NULL)
    return;
  double limit_s = CLAMP (setting->budget_s / PROGRAM_SHARE, PROGRAM_LEAST_S, PROGRAM_MOST_S);
  double expected_s = predicted_step_s (setting, numbers, p);
  if (!(expected_s * STEPS_LEAST < limit_s) || strlen (words) >= sizeof ((ExecBench *)0)->layout
      || strlen (text) >= sizeof ((ExecBench *)0)->arch)
    return;
  NodeBench *bench = add_bench (benches, setting, EXEC_BENCH_PROGRAM,
                                g_strdup_printf ("program %s hidden=%u,ffn=%u,vocab=%u,seq=%u %s",
                                                 w->llama ? "llama" : "gpt", w->hidden, w->ffn,
                                                 w->vocab, length->seq, words));
  bench->program = g_steal_pointer (&p);
  bench->bench.dtype = setting->dtype;
  bench->bench.seq = length->seq;
  bench->bench.global_batch = batch;
  g_strlcpy (bench->bench.arch, text, sizeof bench->bench.arch);
  g_strlcpy (bench->bench.layout, words, sizeof bench->bench.layout);
  if (!add_op_points (bench, setting->profile, NULL)) {
    g_ptr_array_remove (benches, bench);
    return;
  }
  NodePoint *step = add_point (bench, NODE_STEP, "step", g_strdup ("step"));
  step->program = bench->program;
}

/* Every width with every length, split over data; some of each other way to split. */
static void
add_programs (GPtrArray *benches, const NodeSetting *setting, const CostNumbers *numbers)
{
  guint32 ranks = setting->ranks;
  g_autofree char *dp = g_strdup_printf ("dp=%u", ranks);
  g_autofree char *unfused = g_strdup_printf ("dp=%u,attn=unfused", ranks);
  g_autofree char *tp = g_strdup_printf ("tp=%u", ranks);
  g_autofree char *sp = g_strdup_printf ("tp=%u,sp=1", ranks);
  g_autofree char *pp = g_strdup_printf ("pp=%u", ranks);
  g_autofree char *zero = g_strdup_printf ("dp=%u,zero=1", ranks);
  const char *const splits[] = { tp, pp, sp, zero };
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    for (guint j = 0; j < G_N_ELEMENTS (lengths); j++) {
      add_program (benches, setting, numbers, &widths[i], &lengths[j], dp, ranks);
      if ((i + j) % 3 == 0)
        add_program (benches, setting, numbers, &widths[i], &lengths[j], unfused, ranks);
      guint split = (i + j) % G_N_ELEMENTS (splits);
      if (ranks > 1)
        add_program (benches, setting, numbers, &widths[i], &lengths[j], splits[split],
                     splits[split] == zero ? ranks : 1);
    }
}

/* ---- collectives, messages and the rest ---- */

static void
add_collectives (GPtrArray *benches, const NodeSetting *setting)
{
  static const ModelCollectiveKind kinds[]
      = { MODEL_COLLECTIVE_ALL_REDUCE, MODEL_COLLECTIVE_ALL_GATHER,
          MODEL_COLLECTIVE_REDUCE_SCATTER };
  g_autoptr (GArray) shapes = g_array_new (FALSE, FALSE, sizeof (TopoGroupShape));
  for (guint32 size = 2; size <= setting->ranks; size++)
    for (guint32 stride = 1; size * stride <= setting->ranks; stride++) {
      TopoGroupShape shape;
      gboolean known = FALSE;
      if (setting->ranks % (size * stride) != 0)
        continue;
      topo_group_shape (setting->machine, setting->ranks, stride, size, &shape);
      for (guint i = 0; i < shapes->len; i++)
        known |= memcmp (&g_array_index (shapes, TopoGroupShape, i), &shape, sizeof shape) == 0;
      if (known)
        continue;
      g_array_append_val (shapes, shape);
      for (guint64 bytes = 1024; bytes <= 256 * 1048576; bytes *= 4)
        for (guint k = 0; k < G_N_ELEMENTS (kinds); k++) {
          const char *word = model_collective_name (kinds[k]);
          NodeBench *bench
              = add_bench (benches, setting, EXEC_BENCH_COLLECTIVE,
                           g_strdup_printf ("%s %u ranks, stride %u, %" G_GUINT64_FORMAT "B", word,
                                            size, stride, bytes));
          NodePoint *point = add_point (bench, NODE_COLLECTIVE, word, g_strdup (word));
          bench->bench.collective = point->collective = kinds[k];
          bench->bench.size = point->size = size;
          bench->bench.stride = point->stride = stride;
          bench->bench.bytes = point->bytes = bytes;
        }
    }
}

/* Small and large to every neighbour, so that a slow link shows; between the first two also what
 * lies between. */
static void
add_messages (GPtrArray *benches, const NodeSetting *setting)
{
  for (guint32 from = 0; from + 1 < setting->ranks; from++)
    for (guint64 bytes = 1024; bytes <= 64 * 1048576; bytes *= 16) {
      gboolean edge = bytes == 1024 || bytes == 4194304;
      if (from > 0 && !edge)
        continue;
      NodeBench *bench = add_bench (benches, setting, EXEC_BENCH_MESSAGE,
                                    g_strdup_printf ("message %u to %u, %" G_GUINT64_FORMAT "B",
                                                     from, from + 1, bytes));
      NodePoint *point = add_point (bench, NODE_MESSAGE, "message", g_strdup ("message"));
      bench->bench.from = from;
      bench->bench.to = from + 1;
      bench->bench.bytes = point->bytes = bytes;
      point->stride = 1;
    }
}

static void
add_device (GPtrArray *benches, const NodeSetting *setting)
{
  NodeBench *launch = add_bench (benches, setting, EXEC_BENCH_LAUNCH, g_strdup ("launch"));
  NodePoint *point = add_point (launch, NODE_OPS, "launch", g_strdup ("launch"));
  const ModelOp nothing = { .kind = MODEL_OP_CAST, .write_bytes = sizeof (float) };
  add_term (point, &nothing, 1);
  add_bench (benches, setting, EXEC_BENCH_RESIDENT, g_strdup ("resident"));
  for (guint64 bytes = 16 * 1048576; bytes <= 256 * 1048576; bytes *= 4) {
    NodeBench *copy = add_bench (benches, setting, EXEC_BENCH_COPY,
                                 g_strdup_printf ("copy %" G_GUINT64_FORMAT "B", bytes));
    const ModelOp op = { .kind = MODEL_OP_CAST, .read_bytes = bytes, .write_bytes = bytes };
    point = add_point (copy, NODE_OPS, "copy", g_strdup ("copy"));
    copy->bench.bytes = bytes;
    add_term (point, &op, 1);
  }
}

GPtrArray *
node_benches_new (const NodeSetting *setting, const CostNumbers *numbers)
{
  g_autoptr (GPtrArray) benches = g_ptr_array_new_with_free_func (bench_free);
  add_device (benches, setting);
  add_programs (benches, setting, numbers);
  if (setting->ranks > 1) {
    add_collectives (benches, setting);
    add_messages (benches, setting);
  }
  return g_steal_pointer (&benches);
}

/* ---- what was measured ---- */

/* A message is timed where it starts; all else by the rank it takes longest on. */
static double
time_of (const NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks)
{
  double most_s = 0;
  for (guint32 r = 0; r < ranks; r++) {
    if (bench->bench.kind == EXEC_BENCH_PROGRAM)
      most_s = MAX (most_s, sheets[r].step_s);
    else if (bench->bench.kind != EXEC_BENCH_MESSAGE || r == bench->bench.from)
      most_s = MAX (most_s, sheets[r].seconds[0]);
  }
  return most_s;
}

/* Op @i: the mean of the ranks; a collective by who came last, who waited for nobody. */
static double
op_s (const ExecBenchSheet *sheets, guint32 ranks, guint i, gboolean joint)
{
  double sum_s = 0, least_s = INFINITY;
  for (guint32 r = 0; r < ranks; r++) {
    sum_s += sheets[r].seconds[i];
    least_s = MIN (least_s, sheets[r].seconds[i]);
  }
  return joint ? least_s : sum_s / ranks;
}

/* Means over equal ops. */
static void
take_ops (NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks)
{
  g_autofree double *sums = g_new0 (double, bench->points->len);
  g_autofree guint *counts = g_new0 (guint, bench->points->len);
  for (guint i = 0; i < sheets[0].n; i++) {
    guint at = bench->point_of_op[i];
    if (at == G_MAXUINT)
      continue;
    gboolean joint = ((NodePoint *)g_ptr_array_index (bench->points, at))->program != NULL;
    sums[at] += op_s (sheets, ranks, i, joint);
    counts[at]++;
  }
  for (guint i = 0; i < bench->points->len; i++)
    ((NodePoint *)g_ptr_array_index (bench->points, i))->measured_s = sums[i] / MAX (counts[i], 1);
}

static void
take_program (NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks)
{
  NodePoint *step = g_ptr_array_index (bench->points, bench->points->len - 1);
  bench->ops_s = 0;
  for (guint32 r = 0; r < ranks; r++) {
    bench->device_s[r] = sheets[r].gemm_s;
    if (bench->program->layout.pp == 1)
      bench->ops_s = MAX (bench->ops_s, sheets[r].least_s);
  }
  take_ops (bench, sheets, ranks);
  step->measured_s = time_of (bench, sheets, ranks);
  for (guint i = 0; i < bench->points->len; i++)
    ((NodePoint *)g_ptr_array_index (bench->points, i))->repeats = sheets[0].repeats;
}

static void
take_sheets (NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks)
{
  for (guint i = 0; i < EXEC_RESIDENT_N_KINDS; i++)
    bench->bytes[i] = sheets[0].bytes[i];
  if (bench->bench.kind == EXEC_BENCH_PROGRAM) {
    take_program (bench, sheets, ranks);
  } else if (bench->points->len > 0) {
    NodePoint *point = g_ptr_array_index (bench->points, 0);
    point->measured_s = time_of (bench, sheets, ranks);
    point->repeats = sheets[0].repeats;
  }
  if (bench->bench.kind == EXEC_BENCH_LAUNCH)
    bench->device_s[0] = sheets[0].seconds[1];
}

void
node_bench_take (NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks)
{
  bench->state = NODE_BENCH_DONE;
  for (guint32 r = 0; r < ranks; r++)
    if (sheets[r].status != EXEC_BENCH_MEASURED)
      bench->state = NODE_BENCH_WITHOUT_RESULT;
  if (bench->state == NODE_BENCH_DONE)
    take_sheets (bench, sheets, ranks);
}

static void
add_row (GArray *rows, const NodeBench *bench, const char *item, const char *kind, double seconds,
         guint64 repeats)
{
  const DbPointRecord row = { .benchmark = bench->key,
                              .item = item,
                              .kind = kind,
                              .status = "measured",
                              .measured_s = seconds,
                              .repeat_count = repeats };
  g_array_append_val (rows, row);
}

static void
add_device_rows (GArray *rows, const NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks,
                 GStringChunk *strings)
{
  for (guint32 r = 0; r < ranks; r++) {
    g_autofree char *name = g_strdup_printf ("%u", r);
    add_row (rows, bench, "gemm", "device", bench->device_s[r], sheets[r].repeats);
    g_array_index (rows, DbPointRecord, rows->len - 1).device
        = g_string_chunk_insert (strings, name);
  }
}

static void
add_without_result (GArray *rows, const NodeBench *bench, const ExecBenchSheet *sheets,
                    guint32 ranks, GStringChunk *strings)
{
  const char *status = "does_not_fit", *note = "";
  for (guint32 r = 0; r < ranks; r++)
    if (sheets[r].status == EXEC_BENCH_FAILED) {
      status = "failed";
      note = sheets[r].message;
    }
  add_row (rows, bench, "all", exec_bench_kind_name (bench->bench.kind), NAN, 0);
  DbPointRecord *row = &g_array_index (rows, DbPointRecord, 0);
  row->status = status;
  row->note = *note != '\0' ? g_string_chunk_insert (strings, note) : NULL;
}

GArray *
node_bench_rows (const NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks,
                 GStringChunk *strings)
{
  static const char *const resident[EXEC_RESIDENT_N_KINDS]
      = { "context", "communicator", "workspace" };
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (DbPointRecord));
  if (bench->state != NODE_BENCH_DONE) {
    add_without_result (rows, bench, sheets, ranks, strings);
    return rows;
  }
  for (guint i = 0; i < bench->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (bench->points, i);
    if (point->measured_s > 0)
      add_row (rows, bench, point->item, point->word, point->measured_s, point->repeats);
  }
  if (bench->ops_s > 0)
    add_row (rows, bench, "ops", "sum", bench->ops_s, sheets[0].repeats);
  if (bench->bench.kind == EXEC_BENCH_PROGRAM)
    add_device_rows (rows, bench, sheets, ranks, strings);
  if (bench->bench.kind == EXEC_BENCH_LAUNCH)
    add_row (rows, bench, "queued", "launch", bench->device_s[0], sheets[0].repeats);
  for (guint i = 0; bench->bench.kind == EXEC_BENCH_RESIDENT && i < EXEC_RESIDENT_N_KINDS; i++) {
    add_row (rows, bench, resident[i], "resident", NAN, 1);
    g_array_index (rows, DbPointRecord, rows->len - 1).measured_bytes = (gint64)bench->bytes[i];
  }
  return rows;
}

/* ---- and back ---- */

static void
restore_row (NodeBench *bench, const DbPointRecord *row, guint32 ranks)
{
  static const char *const resident[] = { "context", "communicator", "workspace", NULL };
  guint64 device = row->device != NULL ? g_ascii_strtoull (row->device, NULL, 10) : 0;
  if (g_str_equal (row->status, "does_not_fit"))
    bench->state = NODE_BENCH_WITHOUT_RESULT; /* what failed is tried again */
  if (!g_str_equal (row->status, "measured"))
    return;
  bench->state = NODE_BENCH_DONE;
  if (g_str_equal (row->kind, "device") && device < ranks)
    bench->device_s[device] = row->measured_s;
  if (g_str_equal (row->kind, "sum"))
    bench->ops_s = row->measured_s;
  if (g_str_equal (row->kind, "launch") && g_str_equal (row->item, "queued"))
    bench->device_s[0] = row->measured_s;
  for (guint i = 0; g_str_equal (row->kind, "resident") && resident[i] != NULL; i++)
    if (g_str_equal (row->item, resident[i]))
      bench->bytes[i] = (guint64)row->measured_bytes;
  guint at = point_called (bench, row->item);
  if (at == G_MAXUINT)
    return;
  NodePoint *point = g_ptr_array_index (bench->points, at);
  point->measured_s = row->measured_s;
  point->repeats = row->repeat_count;
}

void
node_benches_restore (GPtrArray *benches, const GArray *rows, guint32 ranks)
{
  g_autoptr (GHashTable) by_key = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (benches, i);
    g_hash_table_insert (by_key, bench->key, bench);
  }
  for (guint i = 0; i < rows->len; i++) {
    const DbPointRecord *row = &g_array_index (rows, DbPointRecord, i);
    NodeBench *bench = g_hash_table_lookup (by_key, row->benchmark);
    if (bench != NULL)
      restore_row (bench, row, ranks);
  }
}
