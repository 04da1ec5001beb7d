/* base/text.c - see base/text.h. */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Long enough for any unit or key, short enough for one line of a terminal. */
#define EXCERPT_BYTES 60
/* The longest name that file systems take is 255; folders in front of it are cut first. */
#define PATH_BYTES 255

static const char *
skip_digits (const char *p)
{
  while (g_ascii_isdigit (*p))
    p++;
  return p;
}

const char *
base_text_scan_decimal (const char *text, double *out)
{
  const char *p = skip_digits (text);
  gsize n_digits = (gsize)(p - text);

  if (*p == '.') {
    const char *fraction = p + 1;
    p = skip_digits (fraction);
    n_digits += (gsize)(p - fraction);
  }
  if (n_digits == 0 || (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')))
    return NULL;
  if (*p == 'e' || *p == 'E') {
    const char *exponent = p + 1 + (p[1] == '+' || p[1] == '-');
    if (g_ascii_isdigit (*exponent))
      p = skip_digits (exponent);
  }

  /* A copy, because strtod would read on where this scanner stops ("1e5" in "1e5e5" is safe,
   * but the rule must not depend on it). */
  g_autofree char *number = g_strndup (text, (gsize)(p - text));
  *out = g_ascii_strtod (number, NULL);
  return p;
}

/* Appends @p up to @end, with '?' for control characters and invalid UTF-8. */
static void
append_clean (GString *out, const char *p, const char *end)
{
  while (p < end) {
    gunichar c = g_utf8_get_char_validated (p, end - p);
    gboolean valid = c != (gunichar)-1 && c != (gunichar)-2 && c != 0;
    if (!valid || g_unichar_iscntrl (c)) {
      g_string_append_c (out, '?');
      p = valid ? g_utf8_next_char (p) : p + 1;
    } else {
      g_string_append_unichar (out, c);
      p = g_utf8_next_char (p);
    }
  }
}

static gboolean
is_inside_character (char c)
{
  return ((guchar)c & 0xc0) == 0x80;
}

char *
base_text_excerpt (const char *text, gssize length)
{
  gsize n = length < 0 ? strlen (text) : (gsize)length;
  gsize kept = MIN (n, EXCERPT_BYTES);
  while (kept < n && kept > 0 && is_inside_character (text[kept]))
    kept--;

  GString *out = g_string_sized_new (kept + 4);
  append_clean (out, text, text + kept);
  if (kept < n)
    g_string_append (out, "...");
  return g_string_free (out, FALSE);
}

char *
base_text_path_excerpt (const char *path)
{
  const char *end = path + strlen (path);
  const char *from = end - path > PATH_BYTES ? end - PATH_BYTES : path;
  while (from > path && is_inside_character (*from))
    from++;

  GString *out = g_string_new (from > path ? "..." : "");
  append_clean (out, from, end);
  return g_string_free (out, FALSE);
}

guint
base_text_line_at (const char *data, gsize offset)
{
  guint line = 1;
  for (gsize i = 0; i < offset; i++)
    line += data[i] == '\n';
  return line;
}

gsize
base_text_bom_length (const char *data, gsize length)
{
  return length >= 3 && memcmp (data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Reads @fd to its end into @buffer; FALSE with errno, or EFBIG past @max_bytes. */
static gboolean
read_all (int fd, gsize max_bytes, GString *buffer)
{
  char block[65536];
  for (;;) {
    gssize got = read (fd, block, sizeof block);
    if (got == 0)
      return TRUE;
    if (got < 0) {
      if (errno == EINTR)
        continue;
      return FALSE;
    }
    if (buffer->len + (gsize)got > max_bytes) {
      errno = EFBIG;
      return FALSE;
    }
    g_string_append_len (buffer, block, got);
  }
}

char *
base_text_read_file (const char *path, gsize max_bytes, gsize *out_length, GQuark domain, gint code,
                     GError **error)
{
  /* Without O_NONBLOCK the open of a pipe nobody writes to would hang. */
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    g_set_error (error, domain, code, "%s: cannot open: %s", path, g_strerror (errno));
    return NULL;
  }

  struct stat info;
  if (fstat (fd, &info) != 0 || !S_ISREG (info.st_mode)) {
    g_set_error (error, domain, code, "%s: %s, expected a regular file", path,
                 S_ISDIR (info.st_mode) ? "is a folder" : "is a pipe or device");
    close (fd);
    return NULL;
  }

  GString *buffer = g_string_new (NULL);
  gboolean ok = read_all (fd, max_bytes, buffer);
  int failure = errno;
  close (fd);
  if (!ok) {
    if (failure == EFBIG)
      g_set_error (error, domain, code, "%s: is larger than %" G_GSIZE_FORMAT " MiB", path,
                   max_bytes >> 20);
    else
      g_set_error (error, domain, code, "%s: cannot read: %s", path, g_strerror (failure));
    g_string_free (buffer, TRUE);
    return NULL;
  }
  *out_length = buffer->len;
  return g_string_free (buffer, FALSE);
}
