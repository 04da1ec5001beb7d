/* app/collective.h - use case: how long a collective takes on a machine, as nccl-tests would say. */
#pragma once
#include "app/problem.h"
#include "costmodel/collective.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  AppInputs inputs; /* of which catalog_dir, machine, gpu, calibration, db_path, live_ranks */
  guint64 ranks;
  const char *op;      /* "all_reduce", … */
  const char *algo;    /* NULL or "auto": the fastest */
  const char *proto;   /* NULL or "auto", "ll", "ll128", "simple" */
  const GArray *bytes; /* guint64, as nccl-tests counts them */
} AppCollectiveRequest;

typedef struct {
  guint64 bytes;
  double time_s, time_s_p10, time_s_p90;
  double algbw_bytes_per_s, busbw_bytes_per_s;
  const char *algorithm; /* static */
  const char *protocol;  /* static: "ll", "simple", "auto": one way for all sizes */
  gboolean is_measured;  /* between points measured on the machine; else by formula */
} AppCollectiveSize;

typedef struct {
  char *machine; /* (owned) slug */
  guint64 ranks;
  const char *op;   /* static */
  char *bottleneck; /* (owned) */
  GArray *sizes;    /* (owned) AppCollectiveSize */
} AppCollective;

AppCollective *app_collective (const AppCollectiveRequest *request, GError **error);
void app_collective_free (AppCollective *collective);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppCollective, app_collective_free)
G_END_DECLS
