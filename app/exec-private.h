/* app/exec-private.h - where a run of exec is remembered. */
#pragma once
#include "app/exec.h"
#include "db/store.h"
G_BEGIN_DECLS
typedef struct {
  const ExecBackend *backend; /* (borrowed) */
  DbDatabase *db;             /* (owned, nullable) */
  gint64 run_id;
} AppExecStore;
gboolean app_exec_store_begin (AppExecStore *store, const AppExecRequest *request,
                               const AppExecResult *r, GError **error);
/* @failure: (nullable) why it did not end well */
gboolean app_exec_store_finish (AppExecStore *store, const AppExecRequest *request,
                                const AppExecResult *r, const GError *failure, GError **error);
G_END_DECLS
