/* topo/read_nccltests.c - the table nccl-tests prints, whatever log is around it.
 *
 * The header line names the columns: "#  size  count  type  redop  root  time  algbw  busbw
 * #wrong  time  algbw  busbw  #wrong"; older versions lack root or have an error column. A second
 * header line gives the units (B, us, GB/s). The first time is out of place, the second in place.
 */
#include "base/text.h"
#include "topo/nccltests-private.h"
#include <math.h>
#include <string.h>

#define MAX_COLUMNS 32

typedef struct {
  TopoReading *reading;
  char *what;   /* (owned, nullable) */
  gboolean old; /* rows of it were read: the next ranks are of another run */
  guint ranks;
  guint n_columns;                   /* 0 before the header */
  guint time[2], algbw[2], busbw[2]; /* columns; G_MAXUINT absent */
} Table;

/* The collective that @word ends with, after a "_" or as a whole: "h100_all_reduce". NULL: none. */
static const char *
collective_of_word (const char *word)
{
  static const char *const names[]
      = { "reduce_scatter", "all_reduce", "all_gather", "hypercube", "alltoallv", "broadcast",
          "alltoall",       "sendrecv",   "scatter",    "gather",    "reduce" }; /* longest first */
  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    gsize before = strlen (word) - MIN (strlen (word), strlen (names[i]));
    if (g_str_has_suffix (word, names[i]) && (before == 0 || word[before - 1] == '_'))
      return names[i];
  }
  return NULL;
}

char *
nccltests_collective (const char *text, gsize length)
{
  const char *end = text + length;
  for (const char *at = text; (at = memmem (at, (gsize)(end - at), "_perf", 5)) != NULL; at += 5) {
    const char *start = at;
    while (start > text && (g_ascii_isalnum (start[-1]) || start[-1] == '_'))
      start--;
    g_autofree char *word = g_strndup (start, (gsize)(at - start));
    if (collective_of_word (word) != NULL)
      return g_strdup (collective_of_word (word));
  }
  return NULL;
}

void
nccltests_add (TopoReading *reading, const char *what, guint32 ranks, guint64 size_bytes,
               double time_us, double algbw_gb, double busbw_gb, gboolean in_place)
{
  TopoMeasurement m
      = { .from = -1, .to = -1, .ranks = ranks, .size_bytes = size_bytes, .in_place = in_place };
  g_strlcpy (m.what, what != NULL ? what : NCCLTESTS_UNNAMED, sizeof m.what);
  m.time_s = time_us > 0 && time_us < 1e15 ? time_us * 1e-6 : NAN;
  m.algbw_bytes_per_s = algbw_gb >= 0 && algbw_gb < 1e9 ? algbw_gb * 1e9 : NAN;
  m.busbw_bytes_per_s = busbw_gb >= 0 && busbw_gb < 1e9 ? busbw_gb * 1e9 : NAN;
  if (!isnan (m.time_s) || !isnan (m.busbw_bytes_per_s))
    g_array_append_val (reading->measurements, m);
}

gboolean
nccltests_finish (TopoReading *reading, GError **error)
{
  guint unnamed = 0;

  if (reading->measurements->len == 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "nccl-tests output without a measured row: the run failed or the log is cut");
    return FALSE;
  }
  for (guint i = 0; i < reading->measurements->len; i++)
    unnamed += strcmp (g_array_index (reading->measurements, TopoMeasurement, i).what,
                       NCCLTESTS_UNNAMED)
               == 0;
  if (unnamed > 0)
    reading_note (reading, "%u of %u times do not tell their collective: no …_perf before them",
                  unnamed, reading->measurements->len);
  return TRUE;
}

static guint
split (const char *line, gsize length, char **words)
{
  guint n = 0;
  for (gsize i = 0; i < length && n < MAX_COLUMNS;) {
    gsize start = i;
    while (i < length && !g_ascii_isspace (line[i]) && line[i] != '\0')
      i++;
    if (i > start)
      words[n++] = g_strndup (line + start, i - start);
    while (i < length && (g_ascii_isspace (line[i]) || line[i] == '\0'))
      i++;
  }
  return n;
}

static void
free_words (char **words, guint n)
{
  for (guint i = 0; i < n; i++)
    g_free (words[i]);
}

/* The header's columns: from "size" on. */
static gboolean
take_header (Table *known, char **words, guint n)
{
  Table copy = *known, *table = &copy; /* a line that is no header changes nothing */
  guint first = 0, times = 0, algs = 0, buses = 0;
  while (first < n && strcmp (words[first], "size") != 0)
    first++;
  if (first == n || first == 0 || !g_str_has_suffix (words[first - 1], "#"))
    return FALSE;
  for (guint i = first; i < n; i++) {
    if (strcmp (words[i], "time") == 0 && times < 2)
      table->time[times++] = i - first;
    else if (strcmp (words[i], "algbw") == 0 && algs < 2)
      table->algbw[algs++] = i - first;
    else if (strcmp (words[i], "busbw") == 0 && buses < 2)
      table->busbw[buses++] = i - first;
  }
  if (times == 0 || buses != times || algs != times)
    return FALSE;
  for (guint k = times; k < 2; k++)
    table->time[k] = table->algbw[k] = table->busbw[k] = G_MAXUINT;
  table->n_columns = n - first;
  *known = copy;
  return TRUE;
}

static double
number_at (char **words, guint column)
{
  double value = NAN;
  const char *rest = base_text_scan_decimal (words[column], &value);
  return rest != NULL && *rest == '\0' ? value : NAN;
}

/* A row ends the line; a log prefix may stand in front of it. */
static void
take_row (Table *table, char **words, guint n)
{
  guint64 size = 0;
  char **row = words + (n - table->n_columns);
  if (n < table->n_columns || !base_units_parse_count (row[0], 0, G_MAXINT64, &size, NULL))
    return;
  table->old = TRUE;
  for (guint k = 0; k < 2; k++)
    if (table->time[k] != G_MAXUINT)
      nccltests_add (table->reading, table->what, table->ranks, size,
                     number_at (row, table->time[k]), number_at (row, table->algbw[k]),
                     number_at (row, table->busbw[k]), k == 1);
}

/* Several runs in one log: what is not told of the next is not that of the one before. */
static void
begin_run (Table *table, char *what)
{
  g_free (table->what);
  table->what = what;
  table->ranks = 0;
  table->n_columns = 0;
  table->old = FALSE;
}

/* "… device  0 [0000:01:00] NVIDIA A100 80GB PCIe": the name is what follows the bus number. */
static void
take_device (Table *table, char **words, guint n)
{
  guint64 number = 0;
  guint i = 0;
  while (i + 2 < n && strcmp (words[i], "device") != 0)
    i++;
  if (i + 2 >= n || !base_units_parse_count (words[i + 1], 0, 1 << 20, &number, NULL)
      || words[i + 2][0] != '[')
    return;
  for (i += 2; i < n && !g_str_has_suffix (words[i], "]");)
    i++;
  g_autoptr (GString) name = g_string_new (NULL);
  while (++i < n)
    g_string_append_printf (name, "%s%s", name->len > 0 ? " " : "", words[i]);
  nccltests_add_device (table->reading, (double)number, name->str);
}

/* "#  Rank  3 Group  0 Pid …": ranks are counted by the highest number. */
static void
take_rank (Table *table, char **words, guint n)
{
  guint64 rank = 0;
  for (guint i = 0; i + 2 < n; i++)
    if (strcmp (words[i], "Rank") == 0
        && base_units_parse_count (words[i + 1], 0, 1 << 24, &rank, NULL)) {
      if (table->old)
        begin_run (table, NULL);
      table->ranks = MAX (table->ranks, (guint)rank + 1);
      take_device (table, words + i, n - i);
    }
}

static void
take_line (Table *table, const char *line, gsize length)
{
  char *words[MAX_COLUMNS];
  guint n = split (line, length, words);
  g_autofree char *named = nccltests_collective (line, length);
  if (named != NULL && table->old)
    begin_run (table, g_steal_pointer (&named));
  else if (named != NULL) {
    g_free (table->what);
    table->what = g_steal_pointer (&named);
  }
  if (memmem (line, length, "Rank", 4) != NULL)
    take_rank (table, words, n);
  else if (!take_header (table, words, n) && table->n_columns > 0)
    take_row (table, words, n);
  free_words (words, n);
}

gboolean
read_nccl_tests_text (const char *data, gsize length, TopoReading *reading, GError **error)
{
  Table table = { .reading = reading };
  const char *at = data, *end = data + length;
  g_autofree char *first = nccltests_collective (data, length);
  /* The name of the file speaks only where the log names nothing. */
  table.what = first == NULL ? nccltests_collective (reading->name, strlen (reading->name)) : NULL;
  while (at < end) {
    const char *stop = memchr (at, '\n', (gsize)(end - at));
    gsize n = (gsize)((stop != NULL ? stop : end) - at);
    take_line (&table, at, n);
    at += n + 1;
  }
  g_free (table.what);
  return nccltests_finish (reading, error);
}
