/* app/predict.h - use case: what one layout does on one machine. */
#pragma once
#include "app/record.h"
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  AppInputs inputs;
  guint64 gpus;         /* > 0 */
  guint64 global_batch; /* 0: the model's */
  guint64 seq;          /* 0: the model's */
  const char *layout;   /* layout text, may be "" */
} AppPredictRequest;
/* Returns: (owned) the prediction, also when it does not fit. */
DbPlan *app_predict (const AppPredictRequest *request, GError **error);
/* Stores @plan, the answer to @request, as a run of its own. */
gboolean app_predict_store (const AppPredictRequest *request, DbPlan *plan, const char *db_path,
                            GError **error);
G_END_DECLS
