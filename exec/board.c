/* exec/board.c - see board-private.h. */
#include "exec/board-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static gboolean
fail (const char *path, GError **error)
{
  g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE, "job file '%s': %s", path,
               g_strerror (errno));
  return FALSE;
}

void *
board_map_file (const char *folder, const char *name, gsize bytes, gboolean create, GError **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  int file = open (path, create ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 || (create && ftruncate (file, (off_t)bytes) != 0)) {
    fail (path, error);
    return NULL;
  }
  void *board = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close (file);
  if (board == MAP_FAILED) {
    fail (path, error);
    return NULL;
  }
  return board;
}

void
board_unmap_file (void *memory, gsize bytes)
{
  munmap (memory, bytes);
}

ExecProgress *
board_map (const char *folder, guint32 ranks, gboolean create, GError **error)
{
  return board_map_file (folder, "board", ranks * sizeof (ExecProgress), create, error);
}

/* Written and read by the same program on the same host: the struct as it is, then the text. */
gboolean
board_write_result (const char *folder, const ExecResult *result, GError **error)
{
  g_autofree char *path = g_build_filename (folder, "result", NULL);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  const char *fault = result->verdict.first_fault != NULL ? result->verdict.first_fault : "";
  g_byte_array_append (bytes, (const guint8 *)result, sizeof *result);
  g_byte_array_append (bytes, (const guint8 *)fault, (guint)strlen (fault) + 1);
  return g_file_set_contents (path, (const char *)bytes->data, (gssize)bytes->len, error);
}

gboolean
board_read_result (const char *folder, ExecResult *out, GError **error)
{
  g_autofree char *path = g_build_filename (folder, "result", NULL);
  g_autofree char *bytes = NULL;
  gsize length = 0;
  if (!g_file_get_contents (path, &bytes, &length, NULL) || length <= sizeof *out) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED, "the ranks ended without a result");
    return FALSE;
  }
  memcpy (out, bytes, sizeof *out);
  const char *fault = bytes + sizeof *out;
  out->verdict.first_fault = *fault != '\0' ? g_strdup (fault) : NULL;
  return TRUE;
}

void
board_remove (const char *folder)
{
  static const char *const files[] = { "board", "desk", "result", "log" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree char *path = g_build_filename (folder, files[i], NULL);
    unlink (path);
  }
  rmdir (folder);
}

typedef struct {
  ExecProgress *own;
  const ExecComm *comm;
  gboolean alone;
  double timeout_s;
  guint32 rank;
} Heart;

static gpointer
beat (gpointer user_data)
{
  Heart *heart = user_data;
  guint64 seen = 0;
  gint64 moved_us = g_get_monotonic_time ();
  for (;;) {
    gint64 now_us = g_get_monotonic_time ();
    heart->own->beat_us = now_us;
    if (heart->own->ops_done != seen || heart->own->state == EXEC_STATE_DONE) {
      seen = heart->own->ops_done;
      moved_us = now_us;
    }
    if (heart->alone && (double)(now_us - moved_us) * 1e-6 > heart->timeout_s) {
      fprintf (stderr, "plait: rank %u: nothing has happened for %g s in step %u, op '%s'\n",
               heart->rank, heart->timeout_s, heart->own->step, heart->own->what);
      heart->comm->abort (3);
    }
    g_usleep (50000);
  }
  return NULL;
}

void
heart_start (ExecProgress *own, const ExecComm *comm, gboolean alone, double timeout_s,
             guint32 rank)
{
  Heart *heart = g_new (Heart, 1);
  *heart = (Heart){ own, comm, alone, timeout_s, rank };
  own->beat_us = g_get_monotonic_time ();
  g_thread_unref (g_thread_new ("heart", beat, heart));
}
