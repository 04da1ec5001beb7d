/* exec/cuda/comm-private.h - this rank's job: communicators, and what is under way on which stream. */
#pragma once
#include "exec/cuda/nccl-private.h"
G_BEGIN_DECLS
/* Forward and backward edges out of this rank and into it. */
enum { CUDA_FORWARD, CUDA_BACKWARD, CUDA_N_DIRECTIONS };
enum { CUDA_OUT, CUDA_IN, CUDA_N_ENDS };

typedef struct {
  ncclComm_t comm; /* of two ranks, NULL: no edge */
  guint32 peer;    /* in the world */
  int place;       /* the peer's in comm */
} CudaEdge;

typedef struct {
  guint32 rank, world;
  ncclComm_t whole;
  ncclComm_t groups[EXEC_MAX_GROUPS];
  guint streams[EXEC_MAX_GROUPS];
  guint32 places[EXEC_MAX_GROUPS]; /* this rank's in them */
  CudaEdge edges[CUDA_N_DIRECTIONS][CUDA_N_ENDS];
  GArray *shapes;                   /* (owned) of comm.c */
  cudaEvent_t sent[EXEC_MAX_SLOTS]; /* NULL: never used */
  gboolean under_way[EXEC_MAX_SLOTS];
  cudaEvent_t done[EXEC_MAX_TICKETS]; /* of collectives beside compute, as sent */
  gboolean beside[EXEC_MAX_TICKETS];
  float *pulse; /* one element for barriers */
  GMutex lock;  /* of the list that the watchdog reads */
  GPtrArray *comms;
  gboolean ended;
} CudaJob;
extern CudaJob cuda_job;

/* exec/cuda/comm.c: the functions of exec/comm.h that open and close. */
gboolean cuda_job_open (guint32 *out_rank, guint32 *out_world, GError **error);
gboolean cuda_job_make_group (guint id, ModelStream stream, guint32 base, guint32 size,
                              guint32 stride, GError **error);
gboolean cuda_job_make_pipeline (guint32 base, guint32 size, guint32 stride, GError **error);
/* exec/cuda/transfer.c: one message of this rank and @edge's other one, on @stream. */
gboolean cuda_exchange (const CudaEdge *edge, gboolean sends, ncclDataType_t type,
                        const void *buffer, guint64 count, guint stream, guint mark,
                        GError **error);
void cuda_job_abort (int exit_code);
void cuda_job_close (void);
const char *cuda_job_version (void);
G_END_DECLS
