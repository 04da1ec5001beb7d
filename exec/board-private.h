/* exec/board-private.h - the job's folder: a board that all ranks share, and rank 0's result. */
#pragma once
#include "exec/run.h"
G_BEGIN_DECLS
#define EXEC_JOB_VARIABLE "PLAIT_EXEC_JOB"

/* Maps file @name of @folder, shared by all processes; @create: zeroed. NULL on error. */
void *board_map_file (const char *folder, const char *name, gsize bytes, gboolean create,
                      GError **error);
void board_unmap_file (void *memory, gsize bytes);
/* Maps the board of @ranks ranks in @folder. (borrowed for the life of the process) */
ExecProgress *board_map (const char *folder, guint32 ranks, gboolean create, GError **error);
gboolean board_write_result (const char *folder, const ExecResult *result, GError **error);
gboolean board_read_result (const char *folder, ExecResult *out, GError **error);
void board_remove (const char *folder);

/* A thread that shows that this process runs. Without a board it also ends the job when nothing
 * has happened for @timeout_s. */
void heart_start (ExecProgress *own, const ExecComm *comm, gboolean alone, double timeout_s,
                  guint32 rank);
G_END_DECLS
