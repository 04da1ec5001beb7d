/* exec/cuda/bootstrap.h - how ranks find each other before NCCL does: over MPI, or over TCP in the
 * environment that torchrun makes (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). */
#pragma once
#include "exec/comm.h"
G_BEGIN_DECLS
/* @mpi: (borrowed, for good) what to use outside of torchrun. */
void bootstrap_use (const ExecComm *mpi);
/* @out_local: place among the ranks of this node. */
gboolean bootstrap_open (guint32 *out_rank, guint32 *out_world, guint32 *out_local, GError **error);
/* Rank 0's @size bytes (a multiple of 4, at most 256) for all. */
gboolean bootstrap_share (void *bytes, gsize size, GError **error);
void bootstrap_abort (int exit_code); /* returns where the launcher ends the others */
void bootstrap_close (void);
G_END_DECLS
