/* app/node_exec.c - stored runs of exec as points of the fit. */
#include "app/node-private.h"

#include "exec/runner.h"

#include <math.h>

static gint
bucket_called (const char *name)
{
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    if (g_str_equal (exec_bucket_name (i), name))
      return (gint)i;
  return -1;
}

static NodePoint *
make_point (NodePointKind kind, const NodeProgram *program, const DbExecLoaded *run,
            const char *word, double measured_s)
{
  NodePoint *point = g_new0 (NodePoint, 1);
  point->kind = kind;
  point->program = program;
  point->benchmark = g_strdup_printf ("exec run %" G_GINT64_FORMAT ": %s %s", run->run_id,
                                      run->model, run->layout_text);
  point->item = g_strdup (word);
  point->word = word;
  point->measured_s = measured_s;
  point->in_step = 1;
  point->repeats = 1;
  return point;
}

/* Every op of every stage, as often as a step runs it; mean over the ranks. */
static gboolean
collect_terms (const NodeProgram *p, const ModelProfile *profile, GArray *terms[], GError **error)
{
  for (guint32 pp = 0; pp < p->layout.pp; pp++) {
    g_autoptr (ModelProgram) program
        = model_program_new (p->arch, &p->job, &p->layout, profile, pp, error);
    if (program == NULL)
      return FALSE;
    for (guint32 i = 0; i < program->n_ops; i++) {
      const ModelOp *op = &program->ops[i];
      double times = op->phase == MODEL_PHASE_TAIL ? 1 : (double)program->microbatches;
      const NodeTerm term = { *op, times / p->layout.pp };
      GArray **list = &terms[exec_op_bucket (op)];
      if (*list == NULL)
        *list = g_array_new (FALSE, FALSE, sizeof (NodeTerm));
      g_array_append_val (*list, term);
    }
  }
  return TRUE;
}

/* Waiting for other stages is no property of a message. */
static gboolean
is_priced (guint bucket)
{
  return bucket != MODEL_OP_SEND && bucket != MODEL_OP_RECV;
}

static gboolean
add_op_points (const NodeSetting *setting, DbDatabase *db, const DbExecLoaded *run,
               const NodeProgram *p, GPtrArray *points, GError **error)
{
  GArray *terms[EXEC_N_BUCKETS] = { NULL };
  g_autoptr (DbRows) ops = db_load_exec_ops (db, run->run_id, error);
  g_autoptr (GPtrArray) own = g_ptr_array_new ();
  gboolean ok = ops != NULL && collect_terms (p, setting->profile, terms, error);
  for (guint i = 0; ok && i < ops->records->len; i++) {
    const DbExecOpRecord *op = &g_array_index (ops->records, DbExecOpRecord, i);
    gint bucket = bucket_called (op->kind);
    if (bucket < 0 || !is_priced ((guint)bucket) || terms[bucket] == NULL || !(op->measured_s > 0))
      continue;
    NodePoint *point
        = make_point (NODE_OPS, p, run, exec_bucket_name ((guint)bucket), op->measured_s);
    point->terms = g_steal_pointer (&terms[bucket]);
    g_ptr_array_add (own, point);
    g_ptr_array_add (points, point);
  }
  node_points_weigh (own, 0);
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    g_clear_pointer (&terms[i], g_array_unref);
  return ok;
}

gboolean
node_exec_points (const NodeSetting *setting, const BaseCatalog *catalog, DbDatabase *db,
                  const char *topology_hash, const char *backend, GPtrArray *programs,
                  GPtrArray *points, guint *out_runs, GError **error)
{
  g_autoptr (DbRows) runs = db_load_exec_runs (db, topology_hash, backend, error);
  *out_runs = 0;
  if (runs == NULL)
    return FALSE;
  for (guint i = 0; i < runs->records->len; i++) {
    const DbExecLoaded *run = &g_array_index (runs->records, DbExecLoaded, i);
    ModelArch *arch = model_arch_load (catalog, run->model, NULL);
    NodeProgram *p = arch != NULL
                         ? node_program_new (arch, setting->profile, run->layout_text,
                                             (guint64)run->seq, (guint64)run->global_batch,
                                             (guint32)run->rank_count, setting->dtype, NULL)
                         : NULL;
    if (p == NULL)
      continue;
    g_ptr_array_add (programs, p);
    if (!add_op_points (setting, db, run, p, points, error))
      return FALSE;
    ++*out_runs;
    /* What a step hides is no number of this fit: it would pull at those of what it does not. */
    if (p->layout.overlap_tp || p->layout.overlap_dp)
      continue;
    NodePoint *step = make_point (NODE_STEP, p, run, "step", run->measured_s_min);
    step->weight = 4 * NODE_STEP_WEIGHT;
    g_ptr_array_add (points, step);
  }
  return TRUE;
}
