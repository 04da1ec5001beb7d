/* exec/rendezvous.h - how the ranks that torchrun starts find each other.
 *
 * torchrun gives every process RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Its own
 * store may listen on that port, so rank 0 listens on the next one, or on $PLAIT_PORT.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  guint32 rank, world, local_rank;
  const char *host; /* (borrowed, of the environment) */
  guint16 port;
  double timeout_s; /* for all ranks to come */
} ExecRendezvous;

/* Are the variables set? */
gboolean exec_rendezvous_in_environment (void);
/* FALSE with EXEC_ERROR_BAD_VALUE naming the variable that makes no sense. */
gboolean exec_rendezvous_read (ExecRendezvous *out, GError **error);
/* Hands rank 0's @size bytes to all others, which wait for it. */
gboolean exec_rendezvous_share (const ExecRendezvous *place, void *bytes, gsize size,
                                GError **error);
G_END_DECLS
