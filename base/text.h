/* base/text.h - reading text that a user wrote: one decimal number, one file, one excerpt. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

/*
 * Decimal number at the start of @text, independent of the locale: digits with at most one point
 * and an optional exponent. No sign, no blank, no hexadecimal, no "inf" or "nan".
 *
 * @out: (out) the value, HUGE_VAL when it is too large for a double; written only on success
 * Returns: the first character after the number (borrowed), or NULL if there is no number.
 */
const char *base_text_scan_decimal (const char *text, double *out);

/*
 * @text as messages quote it: control characters and invalid UTF-8 replaced by '?', cut after
 * about 60 bytes with "...". Returns: (owned).
 */
char *base_text_excerpt (const char *text, gssize length);

/* The same for the name of a file, of which the last 255 bytes are kept: "...ns/here/machine.ini".
 * Returns: (owned). */
char *base_text_path_excerpt (const char *path);

/* Line (from 1) of @data that holds byte @offset. */
guint base_text_line_at (const char *data, gsize offset);

/* Length of a UTF-8 byte order mark at the start of @data: 3 or 0. */
gsize base_text_bom_length (const char *data, gsize length);

/*
 * Whole content of the regular file @path (never a folder, pipe or device) of at most @max_bytes.
 * Failures are reported as @domain, @code; the message names @path.
 *
 * @out_length: (out) bytes without the NUL that is always appended
 * Returns: (owned) or NULL.
 */
char *base_text_read_file (const char *path, gsize max_bytes, gsize *out_length, GQuark domain,
                           gint code, GError **error);
G_END_DECLS
