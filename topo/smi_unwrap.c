/* topo/smi_unwrap.c - which line continues the one before, and where its first word belongs. */
#include "topo/smi_unwrap.h"
#include "topo/smi_tokens.h"
#include <string.h>

typedef enum { LINE_OTHER, LINE_ROW, LINE_HEADER } LineKind;

typedef struct {
  GString *out;
  GString *line; /* (owned) as far as it is put together */
  GString *last; /* (owned) its last word */
  LineKind kind;
  guint breaks; /* taken out of it */
  guint joined; /* taken out in all */
  gboolean is_open;
} Unwrap;

static const char *
word_at (GArray *tokens, guint i)
{
  return i < tokens->len ? g_array_index (tokens, SmiToken, i).text : "";
}

static gboolean
is_cell (const char *word)
{
  guint16 cell;
  return smi_parse_cell (word, &cell);
}

/* "0-47,96-143", "0x3", "1", "N/A". */
static gboolean
is_affinity (const char *word)
{
  return strcmp (word, "N/A") == 0
         || (g_ascii_isdigit (*word)
             && strspn (word, "0123456789abcdefABCDEFx,-") == strlen (word));
}

/* The beginning of a cell, cut by the end of the line. */
static gboolean
is_cut_cell (const char *word)
{
  static const char *const words[] = { "NODE", "PIX", "PXB", "PHB", "SYS", "SOC", "NV" };
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (words[i], word))
      return *word != '\0';
  return FALSE;
}

static gboolean
is_title (const char *word)
{
  static const char *const words[] = { "CPU", "NUMA", "Affinity", "GPU", "ID" };
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (strcmp (word, words[i]) == 0)
      return TRUE;
  return FALSE;
}

/* Devices, or from the titles on anything. */
static gboolean
is_name (const char *word, gboolean *out_titles)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  return smi_split_names (word, names, out_titles) && (names->len > 0 || *out_titles);
}

static LineKind
kind_of (GArray *tokens)
{
  gboolean titles = FALSE;
  guint names = 0;
  for (guint i = 0; i + 1 < tokens->len; i++)
    if (smi_device_of (word_at (tokens, i)) != NULL && is_cell (word_at (tokens, i + 1)))
      return LINE_ROW;
  for (guint i = 0; i < tokens->len && !titles; i++)
    names
        += is_name (word_at (tokens, i), &titles) && g_str_has_prefix (word_at (tokens, i), "GPU");
  return names > 1 ? LINE_HEADER : LINE_OTHER;
}

/* Whether @first, the word a line begins with, is the rest of @last, that ends the one before. */
static gboolean
is_rest_of (const char *last, const char *first, LineKind kind)
{
  g_autofree char *whole = g_strconcat (last, first, NULL);
  gboolean titles = FALSE;
  if (kind == LINE_HEADER)
    return is_title (whole)
           || (!is_title (first) && !is_name (first, &titles) && is_name (whole, &titles))
           || (g_ascii_isdigit (*first) && is_name (whole, &titles));
  return is_cell (whole)
         || (strpbrk (last, ",-") != NULL && is_affinity (last) && is_affinity (whole));
}

static gboolean
fits_row (GArray *tokens, guint from)
{
  for (guint i = from; i < tokens->len; i++) {
    const char *word = word_at (tokens, i);
    if (!is_cell (word) && !is_affinity (word) && !(i + 1 == tokens->len && is_cut_cell (word)))
      return FALSE;
  }
  return TRUE;
}

static gboolean
fits_header (GArray *tokens, guint from)
{
  gboolean titles = FALSE;
  for (guint i = from; i < tokens->len; i++) {
    const char *word = word_at (tokens, i);
    if (!is_title (word) && !is_name (word, &titles) && i + 1 < tokens->len)
      return FALSE;
  }
  return TRUE;
}

/* Appends @text to the open line if it continues it. */
static gboolean
continue_line (Unwrap *unwrap, const char *text, gsize length)
{
  g_autoptr (GArray) tokens = smi_tokens_new (text, length);
  if (unwrap->kind == LINE_OTHER || tokens->len == 0)
    return FALSE;
  gboolean tight
      = !g_ascii_isspace (*text) && !g_ascii_isspace (unwrap->line->str[unwrap->line->len - 1]);
  gboolean glued = tight && is_rest_of (unwrap->last->str, word_at (tokens, 0), unwrap->kind);
  gboolean fits = unwrap->kind == LINE_ROW ? fits_row (tokens, glued) : fits_header (tokens, glued);
  /* "V18" of a cut NV18 looks like a device before cells. */
  if (!fits || (!glued && kind_of (tokens) == LINE_ROW))
    return FALSE;
  if (!glued)
    g_string_append_c (unwrap->line, ' ');
  g_string_append_len (unwrap->line, text, (gssize)length);
  if (!glued || tokens->len > 1)
    g_string_truncate (unwrap->last, 0);
  g_string_append (unwrap->last, word_at (tokens, tokens->len - 1));
  unwrap->breaks++;
  return TRUE;
}

static void
close_line (Unwrap *unwrap)
{
  if (!unwrap->is_open)
    return;
  g_string_append_len (unwrap->out, unwrap->line->str, (gssize)unwrap->line->len);
  for (guint i = 0; i <= unwrap->breaks; i++)
    g_string_append_c (unwrap->out, '\n');
  unwrap->joined += unwrap->breaks;
  unwrap->breaks = 0;
  unwrap->is_open = FALSE;
}

static void
take_line (Unwrap *unwrap, const char *text, gsize length)
{
  gsize shown = length > 0 && text[length - 1] == '\r' ? length - 1 : length;
  if (unwrap->is_open && shown > 0 && continue_line (unwrap, text, shown))
    return;
  close_line (unwrap);
  g_autoptr (GArray) tokens = smi_tokens_new (text, shown);
  g_string_truncate (unwrap->line, 0);
  g_string_append_len (unwrap->line, text, (gssize)shown);
  g_string_assign (unwrap->last, tokens->len > 0 ? word_at (tokens, tokens->len - 1) : "");
  unwrap->kind = shown > 0 ? kind_of (tokens) : LINE_OTHER;
  unwrap->is_open = TRUE;
}

GString *
smi_unwrap (const char *data, gsize length, guint *out_joined)
{
  Unwrap unwrap = { .out = g_string_sized_new (length + 1),
                    .line = g_string_new (NULL),
                    .last = g_string_new (NULL) };
  const char *at = data, *end = data + length;
  while (at < end) {
    const char *stop = memchr (at, '\n', (gsize)(end - at));
    gsize n = (gsize)((stop != NULL ? stop : end) - at);
    take_line (&unwrap, at, n);
    at += n + 1;
  }
  close_line (&unwrap);
  g_string_free (unwrap.line, TRUE);
  g_string_free (unwrap.last, TRUE);
  *out_joined = unwrap.joined;
  return unwrap.out;
}
