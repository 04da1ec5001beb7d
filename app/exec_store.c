/* app/exec_store.c - a run of exec in the database: begun before the ranks start, finished after. */
#include "app/exec-private.h"

#include "base/hash.h"

#include <math.h>
#include <unistd.h>

static char *
inputs_json (const AppExecRequest *request, const AppExecResult *r)
{
  g_autofree char *model = g_strescape (request->inputs.model, NULL);
  return g_strdup_printf ("{\"model\":\"%s\",\"ranks\":%" G_GUINT64_FORMAT
                          ",\"backend\":\"%s\",\"layout\":\"%s\",\"verify\":%s,\"inject\":\"%s\","
                          "\"steps\":%u}",
                          model, request->ranks, request->backend, r->layout_text,
                          request->verify ? "true" : "false",
                          request->inject != NULL ? request->inject : "", request->steps);
}

static DbExecRecord
make_record (const AppExecStore *store, const AppExecRequest *request, const AppExecResult *r)
{
  return (DbExecRecord){ .host = g_get_host_name (),
                         .pid = getpid (),
                         .backend = request->backend,
                         .rank_count = (gint64)request->ranks,
                         .model = request->inputs.model,
                         .layout_text = r->layout_text,
                         .machine = request->inputs.machine,
                         .topology_hash = r->topology_hash,
                         .math_version = store->backend->version (),
                         .comm_version
                         = request->ranks > 1 ? store->backend->comm->version () : NULL,
                         .seq = (gint64)r->seq,
                         .global_batch = (gint64)r->global_batch,
                         .calibration = r->calibration,
                         .predicted_s = isfinite (r->predicted_step_s) ? r->predicted_step_s : NAN,
                         .measured_s = NAN,
                         .measured_s_min = NAN,
                         .measured_s_max = NAN };
}

gboolean
app_exec_store_begin (AppExecStore *store, const AppExecRequest *request, const AppExecResult *r,
                      GError **error)
{
  g_autofree char *inputs = inputs_json (request, r);
  DbRunRecord run = { .command = "exec", .inputs = inputs };
  DbExecRecord exec = make_record (store, request, r);
  if (request->db_path == NULL)
    return TRUE;
  store->db = db_database_open (request->db_path, DB_OPEN_READ_WRITE, NULL, error);
  return store->db != NULL && db_store_begin_exec (store->db, &run, &exec, &store->run_id, error);
}

static guint
make_ops (const AppExecResult *r, DbExecOpRecord out[EXEC_N_BUCKETS])
{
  guint n = 0;
  for (guint i = 0; i < EXEC_N_BUCKETS; i++)
    if (r->result.ops[i].count > 0)
      out[n++] = (DbExecOpRecord){
        .kind = exec_bucket_name (i),
        .count = r->result.ops[i].count,
        .predicted_s = isfinite (r->predicted_ops[i].seconds) ? r->predicted_ops[i].seconds : NAN,
        .measured_s = r->result.ops[i].seconds,
      };
  return n;
}

static void
make_memory (const AppExecResult *r, DbExecMemoryRecord out[EXEC_MEMORY_N_KINDS + 1])
{
  for (guint i = 0; i < EXEC_MEMORY_N_KINDS; i++)
    out[i] = (DbExecMemoryRecord){ exec_memory_kind_name ((ExecMemoryKind)i),
                                   r->predicted_memory_bytes[i], r->result.memory_bytes[i] };
  out[EXEC_MEMORY_N_KINDS]
      = (DbExecMemoryRecord){ "peak", r->predicted_peak_bytes, r->result.peak_bytes };
}

gboolean
app_exec_store_finish (AppExecStore *store, const AppExecRequest *request, const AppExecResult *r,
                       const GError *failure, GError **error)
{
  DbExecOpRecord ops[EXEC_N_BUCKETS];
  DbExecMemoryRecord memory[EXEC_MEMORY_N_KINDS + 1];
  DbExecRecord exec = make_record (store, request, r);
  const ExecResult *m = &r->result;
  if (store->db == NULL)
    return TRUE;
  if (failure != NULL)
    return db_store_finish_exec (store->db, store->run_id, DB_RUN_FAILED, failure->message, NULL,
                                 NULL, 0, NULL, 0, error);
  gboolean wrong = request->verify && !m->verdict.passed;
  exec.verified = request->verify && m->verdict.passed;
  exec.measured_s = m->step_s;
  exec.measured_s_min = m->step_s_min;
  exec.measured_s_max = m->step_s_max;
  exec.moved_bytes = (gint64)m->moved_bytes;
  make_memory (r, memory);
  return db_store_finish_exec (store->db, store->run_id, wrong ? DB_RUN_FAILED : DB_RUN_DONE,
                               wrong ? m->verdict.first_fault : NULL, &exec, ops, make_ops (r, ops),
                               memory, G_N_ELEMENTS (memory), error);
}
