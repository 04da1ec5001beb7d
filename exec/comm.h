/* exec/comm.h - transport between the ranks of a run: what a backend must offer.
 *
 * One process is one rank. Groups are made once; a collective names its group. Buffers hold
 * elements of the table (fp32, or bf16: backend.h) in the backend's memory. Calls return FALSE with
 * an error that says what failed; the runner adds the op and the rank. A rank alone never calls any
 * of it.
 *
 * Beside compute: what start () and send () are given begins when compute has come to the call, and
 * goes on beside what compute does after it, until join () or wait (). Its buffers are its own until
 * then. Work of one kind of communication is done in the order of the calls.
 */
#pragma once
#include "model/op.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum { EXEC_REDUCE_SUM, EXEC_REDUCE_MAX } ExecReduce;

/* A collective that runs beside compute. */
typedef struct {
  ModelCollectiveKind kind; /* all_reduce (a sum), all_gather or reduce_scatter */
  guint group;
  const void *in;
  void *out;     /* all_reduce: the same as @in */
  guint64 count; /* elements; of one rank but for all_reduce */
} ExecCollective;

typedef struct {
  /* Joins the job this process was started in. @out_rank, @out_world: where it stands. */
  gboolean (*open) (guint32 *out_rank, guint32 *out_world, GError **error);
  /* Number @id (small) of a group: ranks base + i·stride, i < size. All ranks of the world make
   * the same ids in the same order. An id that is in use gets another group. @stream: the kind of
   * communication it carries; collectives of different kinds may be under way at once. COMPUTE: its
   * collectives are never beside anything. */
  gboolean (*make_group) (guint id, ModelStream stream, guint32 base, guint32 size, guint32 stride,
                          GError **error);
  /* (nullable) The pipeline of this rank, whose ranks send to the next and the one before. */
  gboolean (*make_pipeline) (guint32 base, guint32 size, guint32 stride, GError **error);
  gboolean (*all_reduce) (guint group, ExecReduce op, void *buffer, guint64 count, GError **error);
  /* @count_each: elements of one rank. all_gather may have @in at its place inside @out. */
  gboolean (*all_gather) (guint group, const void *in, void *out, guint64 count_each,
                          GError **error);
  /* May have @out at this rank's place inside @in, whose other elements are then undefined. */
  gboolean (*reduce_scatter) (guint group, const void *in, void *out, guint64 count_each,
                              GError **error);
  /* (nullable) Starts a collective beside compute. @ticket (small): for join, which makes compute
   * wait for it; a ticket without a collective is done. @mark: its stream passes the device's mark
   * (backend.h) of this index when it begins and the next one when it is done. */
  gboolean (*start) (const ExecCollective *collective, guint ticket, guint mark, GError **error);
  gboolean (*join) (guint ticket, GError **error);
  /* Starts a message; even tags go forward in the pipeline, odd ones backward, each in the order in
   * which the other side receives them; tags from EXEC_TAG_LOOSE on are apart. @buffer stays
   * untouched until wait. @slot (small): which of the sends. @mark: as of start, where there are
   * marks; EXEC_NO_MARK: none. */
  gboolean (*send) (guint32 to_rank, guint32 tag, const void *buffer, guint64 count, guint slot,
                    guint mark, GError **error);
  gboolean (*wait) (guint slot, GError **error); /* a slot without message is done */
  gboolean (*receive) (guint32 from_rank, guint32 tag, void *buffer, guint64 count, GError **error);
  gboolean (*barrier) (GError **error);
  /* Ends every rank of the job at once; does not return. */
  void (*abort) (int exit_code);
  void (*close) (void);
  const char *(*version) (void); /* (borrowed) "Open MPI v4.1.4" */
} ExecComm;

#define EXEC_TAG_LOOSE   0x3fffffff
#define EXEC_NO_MARK     G_MAXUINT
#define EXEC_MAX_GROUPS  16
#define EXEC_MAX_SLOTS   256
#define EXEC_MAX_TICKETS 256
G_END_DECLS
