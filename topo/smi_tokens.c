/* topo/smi_tokens.c - words, cells and device names of pasted text. */
#include "topo/smi_tokens.h"
#include "topo/sketch.h"
#include "topo/smi_lines.h"
#include <string.h>

#define MAX_NAME 48

static void
clear_token (gpointer data)
{
  g_free (((SmiToken *)data)->text);
}

/* Length of the escape sequence at @at: CSI up to its final letter, or two bytes. */
static gsize
escape_length (const char *at, gsize left)
{
  gsize n = 2;
  if (left < 2 || at[1] != '[')
    return MIN (left, 2);
  while (n < left && !(at[n] >= '@' && at[n] <= '~'))
    n++;
  return MIN (n + 1, left);
}

/* Bytes of the blank at @at, 0 when there is none. */
static gsize
blank_length (const char *at, gsize left)
{
  if (*at == '\033')
    return escape_length (at, left);
  if (left >= 2 && (guchar)at[0] == 0xC2 && (guchar)at[1] == 0xA0)
    return 2;
  if (left >= 2 && at[0] == '\\' && strchr ("tnr", at[1]) != NULL) /* of a quoted string */
    return 2;
  if (left >= 6 && memcmp (at, "&nbsp;", 6) == 0)
    return 6;
  return g_ascii_isspace (*at) || *at == '|' || *at == '\0' ? 1 : 0;
}

#define MAX_GLUED 160

/* Cells at the start of a word, and what follows them. */
typedef struct {
  guint n, selves;
  gsize lengths[MAX_GLUED];
  const char *rest;
} Glued;

/*
 * Bytes of the cell that @text begins with, 0 when it begins with none. Of an NV whose digits run into
 * a list of CPUs ("NV120-23") the count is @before, that of the NV before it, if it can be.
 */
static gsize
cell_length (const char *text, const char *before, gsize before_length)
{
  static const char *const words[] = { "NODE", "PIX", "PXB", "PHB", "SYS", "SOC", "X" };
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (text, words[i]))
      return strlen (words[i]);
  gsize digits = g_str_has_prefix (text, "NV") ? strspn (text + 2, "0123456789") : 0;
  if (digits > 0 && (text[2 + digits] == '-' || text[2 + digits] == ','))
    return before_length > 0 && digits > before_length
                   && strncmp (text + 2, before, before_length) == 0
               ? 2 + before_length
               : 0;
  return digits > 0 ? digits + 2 : 0;
}

/* The count of the last NV among the cells before, or NULL. (borrowed) */
static const char *
last_count (GArray *tokens)
{
  guint least = tokens->len > MAX_GLUED ? tokens->len - MAX_GLUED : 0;
  for (guint i = tokens->len; i-- > least;) {
    const char *text = g_array_index (tokens, SmiToken, i).text;
    if (g_str_has_prefix (text, "NV") && g_ascii_isdigit (text[2]))
      return text + 2;
  }
  return NULL;
}

static void
take_cells (const char *text, const char *before, Glued *out)
{
  gsize before_length = before != NULL ? strspn (before, "0123456789") : 0, length;
  out->n = out->selves = 0;
  while (out->n < MAX_GLUED && (length = cell_length (text, before, before_length)) > 0) {
    if (*text == 'N' && text[1] == 'V') {
      before = text + 2;
      before_length = length - 2;
    }
    out->selves += *text == 'X';
    out->lengths[out->n++] = length;
    text += length;
  }
  out->rest = text;
}

/* Affinities glued to one another: "0-15,32-470N/A". */
static gboolean
is_list_of_cpus (const char *text)
{
  gsize digits = strspn (text, "0123456789");
  return digits > 0 && (text[digits] == '-' || text[digits] == ',')
         && strspn (text, "0123456789,-N/A") == strlen (text);
}

/* Bytes of "GPU12", "NIC3" or "mlx5_0" at the start of @text, 0 without. */
static gsize
device_length (const char *text)
{
  static const char *const starts[] = { "GPU", "NIC", "mlx4_", "mlx5_" };
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++) {
    gsize n = strlen (starts[i]), digits = 0;
    if (g_str_has_prefix (text, starts[i]))
      digits = strspn (text + n, "0123456789");
    if (digits > 0)
      return n + digits;
  }
  return 0;
}

static void
append_token (GArray *tokens, const char *text, gsize length, guint tabs)
{
  SmiToken token = { g_strndup (text, length), tabs };
  g_array_append_val (tokens, token);
}

/* @word as one token, or where tabs were lost ("GPU0X", "NV12NV120-23") as several. */
static void
append_word (GArray *tokens, const char *word, guint tabs)
{
  gsize device = device_length (word);
  const char *at = word + device;
  Glued glued;
  take_cells (at, last_count (tokens), &glued);
  gboolean cpus = is_list_of_cpus (glued.rest);
  if (glued.n == 0 || glued.selves > 1 || (*glued.rest != '\0' && !cpus)
      || glued.n + (device > 0) + cpus < 2) {
    append_token (tokens, word, strlen (word), tabs);
    return;
  }
  if (device > 0)
    append_token (tokens, word, device, tabs);
  for (guint i = 0; i < glued.n; at += glued.lengths[i++])
    append_token (tokens, at, glued.lengths[i], device > 0 || i > 0 ? 0 : tabs);
  if (cpus)
    append_token (tokens, glued.rest, strlen (glued.rest), 0);
}

GArray *
smi_tokens_new (const char *line, gsize length)
{
  GArray *tokens = g_array_new (FALSE, TRUE, sizeof (SmiToken));
  guint tabs = 0;
  g_array_set_clear_func (tokens, clear_token);
  for (gsize i = 0; i < length;) {
    gsize blank = blank_length (line + i, length - i), start = i;
    if (blank > 0) {
      tabs += line[i] == '\t' || (blank == 2 && line[i] == '\\' && line[i + 1] == 't');
      i += blank;
      continue;
    }
    g_autoptr (GString) word = g_string_new (NULL);
    while (i < length && (blank = blank_length (line + i, length - i)) == 0)
      i++;
    g_string_append_len (word, line + start, (gssize)(i - start));
    /* An escape sequence inside a word only colours it. */
    while (i < length && line[i] == '\033') {
      i += escape_length (line + i, length - i);
      start = i;
      while (i < length && blank_length (line + i, length - i) == 0)
        i++;
      g_string_append_len (word, line + start, (gssize)(i - start));
    }
    g_autofree char *text = g_utf8_make_valid (word->str, (gssize)word->len);
    append_word (tokens, text, tabs);
    tabs = 0;
  }
  return tokens;
}

gboolean
smi_parse_cell (const char *word, guint16 *out)
{
  static const struct {
    const char *word;
    guint16 cell;
  } words[] = { { "X", SMI_CELL_SELF }, { "PIX", SKETCH_PIX },   { "PXB", SKETCH_PXB },
                { "PHB", SKETCH_PHB },  { "NODE", SKETCH_NODE }, { "SYS", SKETCH_SYS },
                { "SOC", SKETCH_SYS } };
  guint64 count = 0;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (strcmp (word, words[i].word) == 0) {
      *out = words[i].cell;
      return TRUE;
    }
  if (strncmp (word, "NV", 2) != 0 || !base_units_parse_count (word + 2, 1, 255, &count, NULL))
    return FALSE;
  *out = (guint16)(SMI_CELL_NVLINK + count);
  return TRUE;
}

gboolean
smi_is_p2p_word (const char *word)
{
  static const char *const words[] = { "OK", "CNS", "GNS", "TNS", "NS", "DR", "U", NULL };
  return g_strv_contains (words, word);
}

gboolean
smi_is_gpu (const char *name)
{
  return strncmp (name, "GPU", 3) == 0
         && base_units_parse_count (name + 3, 0, 4095, &(guint64){ 0 }, NULL);
}

static gboolean
is_name (const char *text)
{
  guint16 cell;
  gsize length = strlen (text), digits = 0;
  if (length == 0 || length > MAX_NAME || !g_ascii_isalpha (*text) || smi_parse_cell (text, &cell))
    return FALSE;
  for (const char *c = text; *c != '\0'; c++) {
    if (!g_ascii_isalnum (*c) && *c != '_' && *c != '-' && *c != '.')
      return FALSE;
    digits += g_ascii_isdigit (*c) != 0;
  }
  return digits > 0;
}

const char *
smi_device_of (const char *word)
{
  const char *at = word;
  for (const char *c = word; *c != '\0'; c++)
    if (strchr (":>])}=|#\"'", *c) != NULL)
      at = c + 1;
  return is_name (at) ? at : NULL;
}

/* Words that stand over the affinity columns, also glued or cut. */
static gboolean
smi_is_affinity_word (const char *word)
{
  static const char *const words[] = { "CPU", "NUMA", "Numa", "Affinity", "ID", NULL };
  if (strcmp (word, "GPU") == 0)
    return TRUE;
  for (guint i = 0; words[i] != NULL; i++)
    if (strncmp (word, words[i], strlen (words[i])) == 0)
      return TRUE;
  return FALSE;
}

/* Start of the next glued name after position 0, or the end. */
static gsize
next_name (const char *word)
{
  static const char *const starts[]
      = { "GPU", "NIC", "mlx", "hfi", "CPU", "NUMA", "bnxt", "irdma", "efa", "rdma", "cxi", "ib" };
  for (gsize i = 1; word[i] != '\0'; i++)
    for (guint s = 0; g_ascii_isdigit (word[i - 1]) && s < G_N_ELEMENTS (starts); s++)
      if (strncmp (word + i, starts[s], strlen (starts[s])) == 0)
        return i;
  return strlen (word);
}

gboolean
smi_split_names (const char *word, GPtrArray *names, gboolean *out_affinity)
{
  while (*word != '\0') {
    gsize length = next_name (word);
    g_autofree char *name = g_strndup (word, length);
    if (smi_is_affinity_word (name)) {
      *out_affinity = TRUE;
      return TRUE;
    }
    if (!is_name (name))
      return FALSE;
    g_ptr_array_add (names, g_steal_pointer (&name));
    word += length;
  }
  return TRUE;
}
