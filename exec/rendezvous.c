/* exec/rendezvous.c - see rendezvous.h. */
#include "exec/rendezvous.h"
#include "exec/error.h"

#include <gio/gio.h>
#include <string.h>

#define MAGIC     0x706c6169u /* "plai": whoever else connects is turned away */
#define TIMEOUT_S 60
#define HELLO_S   5 /* for a few bytes from who has connected */
#define RETRY_US  50000

gboolean
exec_rendezvous_in_environment (void)
{
  return g_getenv ("RANK") != NULL && g_getenv ("WORLD_SIZE") != NULL
         && g_getenv ("MASTER_ADDR") != NULL && g_getenv ("MASTER_PORT") != NULL;
}

static gboolean
read_number (const char *name, guint64 most, guint32 *out, GError **error)
{
  const char *text = g_getenv (name);
  guint64 value = 0;
  if (text == NULL)
    return TRUE;
  if (!g_ascii_string_to_unsigned (text, 10, 0, most, &value, NULL)) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_BAD_VALUE,
                 "environment variable %s is '%s': expected a number from 0 to %" G_GUINT64_FORMAT,
                 name, text, most);
    return FALSE;
  }
  *out = (guint32)value;
  return TRUE;
}

gboolean
exec_rendezvous_read (ExecRendezvous *out, GError **error)
{
  guint32 rank = 0, world = 1, master = 0, port = 0;
  if (!read_number ("WORLD_SIZE", 1u << 20, &world, error)
      || !read_number ("RANK", MAX (world, 1) - 1, &rank, error)
      || !read_number ("MASTER_PORT", 65534, &master, error))
    return FALSE;
  *out = (ExecRendezvous){ .rank = rank,
                           .world = world,
                           .local_rank = rank,
                           .host = g_getenv ("MASTER_ADDR"),
                           .timeout_s = TIMEOUT_S };
  port = master + 1;
  if (!read_number ("LOCAL_RANK", 1u << 20, &out->local_rank, error)
      || !read_number ("PLAIT_PORT", 65535, &port, error))
    return FALSE;
  out->port = (guint16)port;
  return TRUE;
}

static GSocket *
listen_on (guint16 port, GError **error)
{
  g_autoptr (GInetAddress) any = g_inet_address_new_any (G_SOCKET_FAMILY_IPV6);
  g_autoptr (GSocketAddress) address = g_inet_socket_address_new (any, port);
  g_autoptr (GSocket) socket
      = g_socket_new (G_SOCKET_FAMILY_IPV6, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, NULL);
  if (socket == NULL) { /* a machine without IPv6 */
    g_clear_object (&any);
    g_clear_object (&address);
    any = g_inet_address_new_any (G_SOCKET_FAMILY_IPV4);
    address = g_inet_socket_address_new (any, port);
    socket
        = g_socket_new (G_SOCKET_FAMILY_IPV4, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, error);
  }
  if (socket == NULL || !g_socket_bind (socket, address, TRUE, error)
      || !g_socket_listen (socket, error)) {
    g_prefix_error (error, "rank 0 cannot listen on port %u ($PLAIT_PORT names another): ", port);
    return NULL;
  }
  return g_steal_pointer (&socket);
}

/* Who comes says who it is; TRUE if it is one of ours and has its bytes. */
static gboolean
serve_one (const ExecRendezvous *place, GSocket *peer, const void *bytes, gsize size, guint8 *seen)
{
  guint32 hello[3] = { 0 };
  gsize done = 0;
  g_autoptr (GSocketConnection) connection = g_socket_connection_factory_create_connection (peer);
  GIOStream *stream = G_IO_STREAM (connection);
  g_socket_set_timeout (peer, HELLO_S);
  if (!g_input_stream_read_all (g_io_stream_get_input_stream (stream), hello, sizeof hello, &done,
                                NULL, NULL)
      || done != sizeof hello || hello[0] != MAGIC || hello[1] != place->world || hello[2] == 0
      || hello[2] >= place->world || seen[hello[2]])
    return FALSE;
  if (!g_output_stream_write_all (g_io_stream_get_output_stream (stream), bytes, size, &done, NULL,
                                  NULL))
    return FALSE;
  seen[hello[2]] = 1;
  return TRUE;
}

static gboolean
serve (const ExecRendezvous *place, const void *bytes, gsize size, GError **error)
{
  g_autofree guint8 *seen = g_malloc0 (place->world);
  g_autoptr (GSocket) socket = listen_on (place->port, error);
  gint64 until_us = g_get_monotonic_time () + (gint64)(place->timeout_s * 1e6);
  if (socket == NULL)
    return FALSE;
  for (guint32 served = 1; served < place->world;) {
    gint64 left_us = MAX (until_us - g_get_monotonic_time (), 0);
    g_autoptr (GSocket) peer = NULL;
    if (!g_socket_condition_timed_wait (socket, G_IO_IN, left_us, NULL, NULL)
        || (peer = g_socket_accept (socket, NULL, error)) == NULL) {
      g_clear_error (error);
      g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                   "only %u of %u ranks came to rank 0 at port %u within %g s", served,
                   place->world, place->port, place->timeout_s);
      return FALSE;
    }
    served += serve_one (place, peer, bytes, size, seen) ? 1 : 0;
  }
  return TRUE;
}

static gboolean
fetch (const ExecRendezvous *place, void *bytes, gsize size, GError **error)
{
  gint64 until_us = g_get_monotonic_time () + (gint64)(place->timeout_s * 1e6);
  guint32 hello[3] = { MAGIC, place->world, place->rank };
  for (;;) {
    g_autoptr (GSocketClient) client = g_socket_client_new ();
    g_autoptr (GError) reason = NULL;
    gsize done = 0;
    g_socket_client_set_timeout (client, HELLO_S);
    g_autoptr (GSocketConnection) peer
        = g_socket_client_connect_to_host (client, place->host, place->port, NULL, &reason);
    if (peer != NULL
        && g_output_stream_write_all (g_io_stream_get_output_stream (G_IO_STREAM (peer)), hello,
                                      sizeof hello, &done, NULL, &reason)
        && g_input_stream_read_all (g_io_stream_get_input_stream (G_IO_STREAM (peer)), bytes, size,
                                    &done, NULL, &reason)
        && done == size)
      return TRUE;
    if (g_get_monotonic_time () > until_us) {
      g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                   "rank %u found no rank 0 at %s:%u within %g s: %s (MASTER_ADDR, MASTER_PORT, "
                   "PLAIT_PORT)",
                   place->rank, place->host, place->port, place->timeout_s,
                   reason != NULL ? reason->message : "it closed the connection");
      return FALSE;
    }
    g_usleep (RETRY_US);
  }
}

gboolean
exec_rendezvous_share (const ExecRendezvous *place, void *bytes, gsize size, GError **error)
{
  return place->rank == 0 ? serve (place, bytes, size, error) : fetch (place, bytes, size, error);
}
