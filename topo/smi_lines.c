/* topo/smi_lines.c - finds header and rows among prompts, log prefixes, legends and prose.
 *
 * A row is a device name followed by cells; it may stand after a prefix. A header is a run of
 * device names up to the end of the line or the affinity titles. All else is skipped.
 */
#include "topo/smi_lines.h"
#include "base/text.h"
#include "topo/sketch.h"
#include "topo/smi_tokens.h"
#include "topo/smi_unwrap.h"
#include <string.h>

#define MAX_ROWS 256

static void
free_row (gpointer data)
{
  SmiRow *row = data;
  g_free (row->label);
  g_array_unref (row->cells);
  g_free (row->cpus);
  g_free (row->numa);
  g_free (row);
}

void
smi_lines_free (SmiLines *lines)
{
  if (lines == NULL)
    return;
  g_ptr_array_unref (lines->header);
  g_ptr_array_unref (lines->rows);
  g_ptr_array_unref (lines->products);
  g_hash_table_unref (lines->legend);
  g_free (lines);
}

static const char *
word_at (GArray *tokens, guint i)
{
  return i < tokens->len ? g_array_index (tokens, SmiToken, i).text : "";
}

/* Index of the device name that cells follow, or -1. */
static gint
find_label (GArray *tokens, gboolean *out_p2p)
{
  for (guint i = 0; i + 1 < tokens->len; i++) {
    guint16 cell;
    const char *next = word_at (tokens, i + 1);
    if (smi_device_of (word_at (tokens, i)) == NULL || strcmp (word_at (tokens, i + 2), "=") == 0)
      continue;
    *out_p2p = FALSE;
    for (guint j = i + 1; j < tokens->len; j++)
      *out_p2p = *out_p2p || smi_is_p2p_word (word_at (tokens, j));
    if (smi_parse_cell (next, &cell) || (*out_p2p && smi_is_p2p_word (next)))
      return (gint)i;
  }
  return -1;
}

/* A CPU list, as opposed to the number of a NUMA node. */
static gboolean
looks_like_cpus (const char *word)
{
  return strchr (word, '-') != NULL || strchr (word, ',') != NULL || g_str_has_prefix (word, "0x");
}

/*
 * What follows the cells: CPU affinity, NUMA affinity, NUMA node of the GPU's memory. The first is
 * empty where a container hides the cores: tabs show it, or fewer words than titles.
 */
static void
take_affinities (SmiRow *row, GArray *tokens, guint first, guint n_titles)
{
  guint left = tokens->len - MIN (first, tokens->len);
  if (left == 0)
    return;
  const char *word = word_at (tokens, first);
  gboolean gap = g_array_index (tokens, SmiToken, first).tabs_before > 1
                 || (left < n_titles && n_titles > 1) || (left == 1 && n_titles != 1);
  if (gap && !looks_like_cpus (word)) {
    row->numa = g_strdup (word);
    return;
  }
  row->cpus = g_strdup (word);
  if (left > 1)
    row->numa = g_strdup (word_at (tokens, first + 1));
}

/* Cells end at the first word that is none; "N/A" among them is an unknown one. */
static SmiRow *
take_row (GArray *tokens, guint label, guint line, guint n_titles)
{
  SmiRow *row = g_new0 (SmiRow, 1);
  guint i = label + 1;
  row->line = line;
  row->label = g_strdup (smi_device_of (word_at (tokens, label)));
  row->cells = g_array_new (FALSE, TRUE, sizeof (guint16));
  for (; i < tokens->len; i++) {
    guint16 cell = SKETCH_UNKNOWN, next;
    gboolean gap = strcmp (word_at (tokens, i), "N/A") == 0
                   && smi_parse_cell (word_at (tokens, i + 1), &next);
    if (!gap && !smi_parse_cell (word_at (tokens, i), &cell))
      break;
    g_array_append_val (row->cells, cell);
  }
  take_affinities (row, tokens, i, n_titles);
  return row;
}

static gboolean
rows_agree (const SmiRow *a, const SmiRow *b)
{
  return a->cells->len == b->cells->len
         && memcmp (a->cells->data, b->cells->data, a->cells->len * sizeof (guint16)) == 0;
}

/* A row seen before is a repetition (several hosts, or the matrix pasted twice). */
static void
add_row (SmiLines *lines, SmiRow *row)
{
  for (guint i = 0; i < lines->rows->len; i++) {
    const SmiRow *other = g_ptr_array_index (lines->rows, i);
    if (strcmp (other->label, row->label) != 0)
      continue;
    lines->matrices += !rows_agree (other, row);
    free_row (row);
    return;
  }
  if (lines->rows->len < MAX_ROWS)
    g_ptr_array_add (lines->rows, row);
  else
    free_row (row);
}

/* Titles among the words from @first on: one of CPUs, one for each mention of NUMA. */
static guint
count_titles (GArray *tokens, guint first)
{
  guint count = 0;
  for (guint i = first; i < tokens->len; i++)
    for (const char *at = word_at (tokens, i); *at != '\0'; at++)
      count += g_str_has_prefix (at, "CPU") || g_ascii_strncasecmp (at, "NUMA", 4) == 0;
  return count;
}

/* The first run of device names that holds a GPU, up to the end or the affinity titles. */
static gboolean
take_header (SmiLines *lines, GArray *tokens)
{
  for (guint first = 0; first < tokens->len; first++) {
    g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
    gboolean affinity = FALSE, ok = TRUE, has_gpu = FALSE;
    const char *start = strstr (word_at (tokens, first), "GPU");
    if (start == NULL || !g_ascii_isdigit (start[3]))
      continue;
    for (guint i = first; i < tokens->len && ok && !affinity; i++)
      ok = smi_split_names (i == first ? start : word_at (tokens, i), names, &affinity);
    for (guint i = 0; i < names->len; i++)
      has_gpu = has_gpu || smi_is_gpu (g_ptr_array_index (names, i));
    if (!ok || !has_gpu)
      continue;
    if (lines->header->len == 0) {
      g_ptr_array_unref (lines->header);
      lines->header = g_steal_pointer (&names);
      lines->n_affinities = count_titles (tokens, first);
    }
    return TRUE;
  }
  return FALSE;
}

/* "GPU 0: NAME (UUID: …)" of nvidia-smi -L, or without the UUID as collect_env prints it. */
static void
take_product (SmiLines *lines, GArray *tokens, const char *line, gsize length)
{
  g_autofree char *text = g_strndup (line, length);
  const char *start = strstr (text, ": "), *end = strstr (text, " (UUID");
  if (tokens->len < 3 || strcmp (word_at (tokens, 0), "GPU") != 0
      || !g_str_has_suffix (word_at (tokens, 1), ":") || start == NULL)
    return;
  end = end != NULL ? end : text + strlen (text);
  if (end <= start + 2)
    return;
  g_autofree char *name = base_text_excerpt (start + 2, end - start - 2);
  g_ptr_array_add (lines->products, g_strdup (g_strstrip (name)));
}

/* "|   0  NVIDIA H100 80GB HBM3   On  | 00000000:1B:00.0 Off |": the name up to persistence and bus
 * id in the table of nvidia-smi. */
static void
take_product_of_table (SmiLines *lines, GArray *tokens)
{
  guint end = 1;
  guint64 number = 0;
  if (!base_units_parse_count (word_at (tokens, 0), 0, 63, &number, NULL))
    return;
  while (end < tokens->len && strcmp (word_at (tokens, end), "On") != 0
         && strcmp (word_at (tokens, end), "Off") != 0)
    end++;
  const char *bus_id = word_at (tokens, end + 1);
  if (end < 3 || strlen (bus_id) < 12 || strchr (bus_id, ':') == NULL)
    return;
  g_autoptr (GString) name = g_string_new (word_at (tokens, 1));
  for (guint i = 2; i < end; i++)
    g_string_append_printf (name, " %s", word_at (tokens, i));
  g_ptr_array_add (lines->products, g_string_free (g_steal_pointer (&name), FALSE));
}

/* "NIC0: mlx5_0" of the NIC legend; models of the GPUs. */
static void
take_names (SmiLines *lines, GArray *tokens, const char *line, gsize length)
{
  const char *nic = tokens->len > 1 ? word_at (tokens, tokens->len - 2) : "";
  const char *name = tokens->len > 1 ? smi_device_of (word_at (tokens, tokens->len - 1)) : NULL;
  const char *at = strstr (nic, "NIC");
  if (at != NULL && g_ascii_isdigit (at[3]) && g_str_has_suffix (at, ":") && name != NULL)
    g_hash_table_insert (lines->legend, g_strndup (at, strlen (at) - 1), g_strdup (name));
  take_product (lines, tokens, line, length);
  take_product_of_table (lines, tokens);
}

static void
take_line (SmiLines *lines, const char *line, gsize length, guint number)
{
  g_autoptr (GArray) tokens = smi_tokens_new (line, length);
  gboolean p2p = FALSE;
  gint label = find_label (tokens, &p2p);
  if (label >= 0 && p2p)
    lines->p2p_rows++;
  else if (label >= 0)
    add_row (lines, take_row (tokens, (guint)label, number, lines->n_affinities));
  else if (!take_header (lines, tokens))
    take_names (lines, tokens, line, length);
}

SmiLines *
smi_lines_new (const char *data, gsize length)
{
  SmiLines *lines = g_new0 (SmiLines, 1);
  lines->is_amd = memmem (data, length, "XGMI", 4) != NULL;
  GString *whole = smi_unwrap (data, length, &lines->joined);
  const char *at = whole->str, *end = at + whole->len;
  guint number = 0;
  lines->header = g_ptr_array_new_with_free_func (g_free);
  lines->rows = g_ptr_array_new_with_free_func (free_row);
  lines->products = g_ptr_array_new_with_free_func (g_free);
  lines->legend = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  while (at < end) {
    const char *stop = memchr (at, '\n', (gsize)(end - at));
    gsize n = (gsize)((stop != NULL ? stop : end) - at);
    take_line (lines, at, n, ++number);
    at += n + 1;
  }
  g_string_free (whole, TRUE);
  return lines;
}
