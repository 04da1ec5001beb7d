/* model/schedule_file.c - a user's own order as text, read and written. Format: docs/schedules.md. */
#include "base/suggest.h"
#include "base/text.h"
#include "model/schedule-private.h"
#include <string.h>

#define MAX_FILE_BYTES (64 << 20)
#define MAX_RANKS      65535
#define MAX_CHUNKS     64
#define MAX_MICROBATCH ((1u << 28) - 1)

static const char *const placement_names[] = { "straight", "v", "bidirectional", NULL };
static const ModelScheduleKind placement_kinds[]
    = { MODEL_SCHEDULE_FILE, MODEL_SCHEDULE_FILE_V, MODEL_SCHEDULE_FILE_BIDIRECTIONAL };

typedef struct {
  const char *name;
  guint line;
  guint placement; /* index of placement_names */
  gboolean placement_given;
  GPtrArray *ranks;             /* (owned) GArray of ModelStep, NULL: not yet given */
  guint32 chunks, microbatches; /* largest number seen + 1 */
} Reading;

static gboolean
refuse (const Reading *r, const char *found, const char *expected, GError **error)
{
  g_autofree char *excerpt = base_text_excerpt (found, -1);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE, "%s:%u: found '%s', expected %s", r->name,
               r->line, excerpt, expected);
  return FALSE;
}

/* A number without sign or blanks; moves *@at behind it. */
static gboolean
scan_number (const char **at, guint32 most, guint32 *out)
{
  guint64 value = 0;
  const char *begin = *at;
  for (; g_ascii_isdigit (**at) && value <= most; (*at)++)
    value = value * 10 + (guint)g_ascii_digit_value (**at);
  *out = (guint32)value;
  return *at > begin && value <= most && !g_ascii_isdigit (**at);
}

/* "F3" or "F1.3"; moves *@at behind it. */
static gboolean
scan_step (const char **at, ModelStep *out)
{
  static const char letters[] = "FBIW"; /* in the order of ModelStepKind */
  const char *letter = **at != '\0' ? strchr (letters, **at) : NULL;
  guint32 chunk = 0, microbatch = 0;
  if (letter == NULL)
    return FALSE;
  (*at)++;
  if (!scan_number (at, MAX_MICROBATCH, &microbatch))
    return FALSE;
  if (**at == '.') {
    chunk = microbatch;
    (*at)++;
    if (chunk >= MAX_CHUNKS || !scan_number (at, MAX_MICROBATCH, &microbatch))
      return FALSE;
  }
  *out = model_step ((ModelStepKind)(letter - letters), chunk, microbatch);
  return TRUE;
}

static void
add_step (Reading *r, GArray *steps, const ModelStep *step)
{
  r->chunks = MAX (r->chunks, (guint32)step->chunk + 1);
  r->microbatches = MAX (r->microbatches, step->microbatch + 1);
  g_array_append_vals (steps, step, 1);
}

static gboolean
read_word (Reading *r, GArray *steps, const char *word, GError **error)
{
  const char *at = word;
  ModelStep first, second;
  if (*at != '(') {
    if (!scan_step (&at, &first) || *at != '\0')
      return refuse (r, word, "F, B, I or W, then chunk.micro-batch, as in F1.3, or (F1.3+B0.1)",
                     error);
    add_step (r, steps, &first);
    return TRUE;
  }
  at++;
  gboolean ok = scan_step (&at, &first) && *at++ == '+' && scan_step (&at, &second)
                && g_str_equal (at, ")") && first.kind == MODEL_STEP_FORWARD
                && second.kind == MODEL_STEP_BACKWARD;
  if (!ok)
    return refuse (r, word, "a forward and a backward in one, as in (F1.3+B0.1)", error);
  first.paired = TRUE;
  add_step (r, steps, &first);
  add_step (r, steps, &second);
  return TRUE;
}

static gboolean
read_placement (Reading *r, const char *word, GError **error)
{
  if (r->placement_given)
    return refuse (r, word, "one line with the placement", error);
  gint placement = base_name_index (word, placement_names);
  if (placement < 0)
    return refuse (r, word, "placement straight, v or bidirectional", error);
  r->placement = (guint)placement;
  r->placement_given = TRUE;
  return TRUE;
}

/* The list behind "r3:". */
static gboolean
read_rank (Reading *r, const char *label, char **words, GError **error)
{
  const char *at = label + 1;
  guint32 rank;
  if (label[0] != 'r' || !scan_number (&at, MAX_RANKS - 1, &rank) || !g_str_equal (at, ":"))
    return refuse (r, label, "a rank, as in 'r0:', 'placement' or a comment", error);
  if (rank >= r->ranks->len)
    g_ptr_array_set_size (r->ranks, (gint)rank + 1);
  if (r->ranks->pdata[rank] != NULL)
    return refuse (r, label, "each rank once", error);
  GArray *steps = g_array_new (FALSE, FALSE, sizeof (ModelStep));
  r->ranks->pdata[rank] = steps;
  for (; *words != NULL; words++)
    if (**words != '\0' && !read_word (r, steps, *words, error))
      return FALSE;
  return TRUE;
}

static gboolean
read_line (Reading *r, char *line, GError **error)
{
  char *comment = strchr (line, '#');
  if (comment != NULL)
    *comment = '\0';
  g_strdelimit (line, "\t\r", ' ');
  g_strstrip (line);
  if (*line == '\0')
    return TRUE;
  g_auto (GStrv) words = g_strsplit (line, " ", -1);
  if (!g_str_equal (words[0], "placement"))
    return read_rank (r, words[0], words + 1, error);
  g_autofree char *rest = g_strstrip (g_strdup (line + strlen ("placement")));
  return read_placement (r, rest, error);
}

static gboolean
read_lines (Reading *r, const char *text, GError **error)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    r->line++;
    if (!read_line (r, *line, error))
      return FALSE;
  }
  for (guint rank = 0; rank < r->ranks->len; rank++)
    if (r->ranks->pdata[rank] == NULL) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                   "%s: rank %u has no line, though rank %u has one", r->name, rank,
                   r->ranks->len - 1);
      return FALSE;
    }
  if (r->microbatches > 0)
    return TRUE;
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "%s: found no step, expected a line per rank, as in 'r0: F0 F1 B0 B1'", r->name);
  return FALSE;
}

static gboolean
check_placement (const Reading *r, GError **error)
{
  if (r->placement == 0 || (r->chunks == 2 && r->ranks->len >= 2))
    return TRUE;
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
               "%s: placement %s has 2 chunks on each of at least 2 ranks, found %u on %u", r->name,
               placement_names[r->placement], r->chunks, r->ranks->len);
  return FALSE;
}

static ModelSchedule *
build (const Reading *r)
{
  ModelScheduleKind kind = placement_kinds[r->placement];
  guint32 directions = model_schedule_is_bidirectional (kind) ? 2 : 1;
  guint32 longest = 0;
  for (guint rank = 0; rank < r->ranks->len; rank++)
    longest = MAX (longest, ((GArray *)r->ranks->pdata[rank])->len);
  ModelSchedule *schedule = model_schedule_alloc (kind, r->ranks->len, r->chunks,
                                                  directions * r->microbatches, longest);
  for (guint rank = 0; rank < r->ranks->len; rank++) {
    const GArray *steps = r->ranks->pdata[rank];
    schedule->n_used[rank] = steps->len;
    if (steps->len > 0)
      memcpy (schedule->steps + (gsize)rank * longest, steps->data,
              steps->len * sizeof (ModelStep));
  }
  return schedule;
}

/* Every rank must have a step per chunk and micro-batch: a large number in a short file is a
 * mistake, not a reason to reserve memory. */
static gboolean
check_size (const Reading *r, GError **error)
{
  guint64 wanted = 2 * (guint64)r->chunks * r->microbatches;
  for (guint rank = 0; rank < r->ranks->len; rank++) {
    const GArray *steps = r->ranks->pdata[rank];
    if (steps->len >= wanted)
      continue;
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "%s: rank %u has %u steps, expected at least %" G_GUINT64_FORMAT
                 ": forward and backward of %u micro-batches on %u chunks",
                 r->name, rank, steps->len, wanted, r->microbatches, r->chunks);
    return FALSE;
  }
  return TRUE;
}

/* g_ptr_array_set_size leaves NULL entries, which are no arrays to free. */
static void
free_steps (gpointer steps)
{
  if (steps != NULL)
    g_array_unref (steps);
}

ModelSchedule *
model_schedule_read_text (const char *text, const char *name, GError **error)
{
  g_autoptr (GPtrArray) ranks = g_ptr_array_new_with_free_func (free_steps);
  Reading r = { .name = name, .ranks = ranks };
  if (!read_lines (&r, text, error) || !check_placement (&r, error) || !check_size (&r, error))
    return NULL;
  g_autoptr (ModelSchedule) schedule = build (&r);
  return model_schedule_check (schedule, name, error) ? g_steal_pointer (&schedule) : NULL;
}

ModelSchedule *
model_schedule_read (const char *path, GError **error)
{
  gsize length;
  g_autofree char *text
      = base_text_read_file (path, MAX_FILE_BYTES, &length, MODEL_ERROR, MODEL_ERROR_PARSE, error);
  if (text == NULL)
    return NULL;
  if (strlen (text) != length || !g_utf8_validate (text, (gssize)length, NULL)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "%s: found a NUL byte or invalid UTF-8, "
                 "expected text",
                 path);
    return NULL;
  }
  return model_schedule_read_text (text + base_text_bom_length (text, length), path, error);
}

static void
append_step (GString *text, const ModelSchedule *schedule, const ModelStep *step)
{
  g_string_append_c (text, "FBIW"[step->kind]);
  if (schedule->vpp > 1)
    g_string_append_printf (text, "%u.", step->chunk);
  g_string_append_printf (text, "%u", step->microbatch);
}

char *
model_schedule_format (const ModelSchedule *schedule)
{
  guint placement = model_schedule_is_folded (schedule->kind)          ? 1
                    : model_schedule_is_bidirectional (schedule->kind) ? 2
                                                                       : 0;
  GString *text = g_string_new (NULL);
  if (placement > 0)
    g_string_append_printf (text, "placement %s\n", placement_names[placement]);
  for (guint32 rank = 0; rank < schedule->pp; rank++) {
    const ModelStep *steps = model_schedule_rank (schedule, rank);
    g_string_append_printf (text, "r%u:", rank);
    for (guint32 i = 0; i < schedule->n_used[rank]; i++) {
      gboolean first = steps[i].paired, second = i > 0 && steps[i - 1].paired;
      g_string_append (text, second ? "+" : first ? " (" : " ");
      append_step (text, schedule, &steps[i]);
      if (second)
        g_string_append_c (text, ')');
    }
    g_string_append_c (text, '\n');
  }
  return g_string_free (text, FALSE);
}
