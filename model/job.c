/* model/job.c - sequence length, batch and dropout of one step. */
#include "model/job.h"

/* Beyond any published job, and small enough that tokens per step fit in 64 bits. */
#define JOB_MAX_COUNT (G_GUINT64_CONSTANT (1) << 30)

/* @asked, or the model's own where that is 0. */
static gboolean
take_count (const char *what, const char *option, const char *model, guint64 asked, guint64 own,
            guint64 *out, GError **error)
{
  guint64 count = asked != 0 ? asked : own;
  if (count == 0) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "model '%s' has no %s of its own: give %s", model, what, option);
    return FALSE;
  }
  if (count > JOB_MAX_COUNT) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "%s: found %" G_GUINT64_FORMAT ", expected 1 to %" G_GUINT64_FORMAT, what, count,
                 JOB_MAX_COUNT);
    return FALSE;
  }
  *out = count;
  return TRUE;
}

gboolean
model_job_init (ModelJob *job, const ModelArch *arch, guint64 seq, guint64 global_batch,
                double dropout, GError **error)
{
  ModelJob new_job = { .phase = MODEL_PHASE_TRAIN };
  if (!take_count ("sequence length", "--seq", arch->name, seq, arch->seq, &new_job.seq, error)
      || !take_count ("global batch", "--global-batch", arch->name, global_batch,
                      arch->global_batch, &new_job.global_batch, error))
    return FALSE;
  new_job.dropout = dropout < 0 ? arch->dropout : dropout;
  /* Written so that NaN is refused too. */
  if (!(new_job.dropout >= 0 && new_job.dropout < 1)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "dropout: found %g, expected at least 0 and less than 1", new_job.dropout);
    return FALSE;
  }
  *job = new_job;
  return TRUE;
}
