/* exec/run_fill.c - start values of the weights: the same function of their global index for every
 * layout. */
#include "exec/runner.h"

#define MAX_FILLERS 32
#define FEW_VALUES  65536 /* not worth a thread */

/* Start values of a part of one parameter: a share of the work of fill_weights. */
typedef struct {
  const ExecRank *rank;
  const ExecParam *param;
  guint32 shard;
  guint64 first, end;
  float *values;
} Share;

static gpointer
fill_share (gpointer data)
{
  const Share *s = data;
  for (guint64 j = s->first; j < s->end; j++)
    s->values[j] = exec_param_initial (s->param, exec_param_global (s->param, s->rank->layout->tp,
                                                                    s->shard, j));
  return NULL;
}

/* Billions of random numbers: by all cores where there are many. */
static void
fill_param (const ExecRank *rank, const ExecParam *p, guint32 shard, float *values)
{
  GThread *threads[MAX_FILLERS] = { NULL };
  Share shares[MAX_FILLERS];
  guint n = p->count < FEW_VALUES ? 1 : MIN (g_get_num_processors (), MAX_FILLERS);
  for (guint i = 0; i < n; i++) {
    shares[i] = (Share){ rank, p, shard, p->count * i / n, p->count * (i + 1) / n, values };
    if (i + 1 < n)
      threads[i] = g_thread_new ("fill", fill_share, &shares[i]);
    else
      fill_share (&shares[i]);
  }
  for (guint i = 0; i + 1 < n; i++)
    g_thread_join (threads[i]);
}

/* Values of parameter @p at @values, in device memory; bf16 weights are rounded ones, and the
 * optimizer's fp32 weights those of its shard. */
static void
store_param (ExecRunner *r, const ExecParam *p, const float *values)
{
  const ExecRank *rank = r->rank;
  if (rank->element_bytes == 4) {
    r->backend->upload (exec_weight (r, p->offset), values, p->count);
    return;
  }
  const ExecGradBucket *b = &rank->buckets[p->bucket];
  guint64 low = MAX (p->offset, b->own_first);
  guint64 high = MIN (p->offset + p->count, b->own_first + b->shard_count);
  float *staging = exec_gradients (r) + p->offset; /* not needed before the first step */
  r->backend->upload (staging, values, p->count);
  r->elements->cast (exec_weight (r, p->offset), staging, p->count);
  if (low < high)
    r->backend->copy (exec_at (r, r->memory.master) + b->state_first + (low - b->own_first),
                      exec_gradients (r) + low, high - low);
}

void
exec_run_fill (ExecRunner *r)
{
  const ExecRank *rank = r->rank;
  guint32 tp = rank->layout->tp, place = rank->at.tp;
  for (guint i = 0; i < rank->n_params; i++) {
    const ExecParam *p = &rank->params[i];
    g_autofree float *values = g_new (float, p->count);
    guint32 shard = place;
    if (r->inject == EXEC_INJECT_SWAP_SHARDS && g_str_equal (p->name, "linear_fc2.weight")
        && place < 2 && tp > 1)
      shard = 1 - place;
    fill_param (rank, p, shard, values);
    store_param (r, p, values);
  }
}
