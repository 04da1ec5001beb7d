/* model/json_check.c - a strict JSON checker (RFC 8259) that runs before json-glib. */
#include "base/text.h"
#include "model/json-private.h"
#include <string.h>

#define MAX_DEPTH 64
/* 18 digits always fit a gint64. */
#define MAX_INTEGER_DIGITS 18

typedef struct {
  const char *start, *at, *end;
  const char *name;
  GString *out;
  GError **error;
} Checker;

static gboolean check_value (Checker *c, guint depth);

static gboolean
refuse (Checker *c, const char *expected)
{
  guint line = base_text_line_at (c->start, (gsize)(c->at - c->start));
  if (c->at >= c->end) {
    g_set_error (c->error, MODEL_ERROR, MODEL_ERROR_PARSE,
                 "%s:%u: found the end of the text, expected %s", c->name, line, expected);
    return FALSE;
  }
  gsize length = 1;
  while (length < 24 && c->at + length < c->end && g_ascii_isalnum (c->at[length]))
    length++;
  g_autofree char *found = base_text_excerpt (c->at, (gssize)length);
  g_set_error (c->error, MODEL_ERROR, MODEL_ERROR_PARSE, "%s:%u: found '%s', expected %s", c->name,
               line, found, expected);
  return FALSE;
}

static char
peek (const Checker *c)
{
  return c->at < c->end ? *c->at : '\0';
}

static void
skip_blanks (Checker *c)
{
  const char *from = c->at;
  while (c->at < c->end && memchr (" \t\r\n", *c->at, 4) != NULL)
    c->at++;
  g_string_append_len (c->out, from, c->at - from);
}

static gboolean
take (Checker *c, char wanted)
{
  if (peek (c) != wanted)
    return FALSE;
  g_string_append_c (c->out, *c->at++);
  return TRUE;
}

static gboolean
check_escape (Checker *c)
{
  c->at++; /* the backslash */
  if (c->at >= c->end || strchr ("\"\\/bfnrtu", *c->at) == NULL || *c->at == '\0')
    return refuse (c, "an escape of JSON after the backslash");
  if (*c->at++ != 'u')
    return TRUE;
  for (guint i = 0; i < 4; i++, c->at++)
    if (c->at >= c->end || !g_ascii_isxdigit (*c->at))
      return refuse (c, "four hexadecimal digits after \\u");
  return TRUE;
}

static gboolean
check_string (Checker *c)
{
  const char *from = c->at;
  if (peek (c) != '"')
    return refuse (c, "a text in double quotes");
  c->at++;
  while (c->at < c->end && *c->at != '"') {
    if ((guchar)*c->at < 0x20)
      return refuse (c, "a closing quote");
    if (*c->at != '\\')
      c->at++;
    else if (!check_escape (c))
      return FALSE;
  }
  if (c->at >= c->end)
    return refuse (c, "a closing quote");
  c->at++;
  g_string_append_len (c->out, from, c->at - from);
  return TRUE;
}

static gsize
skip_digits (Checker *c)
{
  const char *from = c->at;
  while (c->at < c->end && g_ascii_isdigit (*c->at))
    c->at++;
  return (gsize)(c->at - from);
}

static gboolean
check_number (Checker *c)
{
  const char *from = c->at;
  gboolean whole = TRUE;
  if (peek (c) == '-')
    c->at++;
  gboolean zero = peek (c) == '0';
  gsize digits = skip_digits (c);
  if (digits == 0 || (zero && digits > 1)) {
    c->at = from;
    return refuse (c, "a JSON value");
  }
  if (peek (c) == '.') {
    whole = FALSE;
    c->at++;
    if (skip_digits (c) == 0)
      return refuse (c, "a digit after the point");
  }
  if (peek (c) == 'e' || peek (c) == 'E') {
    whole = FALSE;
    c->at++;
    if (peek (c) == '+' || peek (c) == '-')
      c->at++;
    if (skip_digits (c) == 0)
      return refuse (c, "a digit in the exponent");
  }
  g_string_append_len (c->out, from, c->at - from);
  if (whole && digits > MAX_INTEGER_DIGITS)
    g_string_append (c->out, ".0");
  return TRUE;
}

static gboolean
check_word (Checker *c)
{
  static const char *const words[] = { "true", "false", "null" };
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++) {
    gsize length = strlen (words[i]);
    if ((gsize)(c->end - c->at) < length || memcmp (c->at, words[i], length) != 0)
      continue;
    if (c->at + length < c->end && g_ascii_isalnum (c->at[length]))
      continue;
    g_string_append (c->out, words[i]);
    c->at += length;
    return TRUE;
  }
  return refuse (c, "a JSON value");
}

static gboolean
check_array (Checker *c, guint depth)
{
  take (c, '[');
  skip_blanks (c);
  if (take (c, ']'))
    return TRUE;
  do {
    if (!check_value (c, depth + 1))
      return FALSE;
  } while (take (c, ','));
  return take (c, ']') ? TRUE : refuse (c, "',' or ']'");
}

static gboolean
check_member (Checker *c, GHashTable *seen, guint depth)
{
  skip_blanks (c);
  const char *from = c->at;
  if (!check_string (c))
    return FALSE;
  char *key = g_strndup (from + 1, (gsize)(c->at - from) - 2);
  if (!g_hash_table_add (seen, key)) {
    /* @key is gone by now: the table frees what it already holds. */
    g_autofree char *shown = base_text_excerpt (from + 1, (c->at - from) - 2);
    g_set_error (c->error, MODEL_ERROR, MODEL_ERROR_PARSE, "%s:%u: %s: found twice, expected once",
                 c->name, base_text_line_at (c->start, (gsize)(from - c->start)), shown);
    return FALSE;
  }
  skip_blanks (c);
  if (!take (c, ':'))
    return refuse (c, "':'");
  return check_value (c, depth + 1);
}

static gboolean
check_object (Checker *c, guint depth)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  take (c, '{');
  skip_blanks (c);
  if (take (c, '}'))
    return TRUE;
  do {
    if (!check_member (c, seen, depth))
      return FALSE;
  } while (take (c, ','));
  return take (c, '}') ? TRUE : refuse (c, "',' or '}'");
}

static gboolean
check_value (Checker *c, guint depth)
{
  if (depth > MAX_DEPTH)
    return refuse (c, "at most 64 levels of nesting");
  skip_blanks (c);
  gboolean good;
  switch (peek (c)) {
  case '{':
    good = check_object (c, depth);
    break;
  case '[':
    good = check_array (c, depth);
    break;
  case '"':
    good = check_string (c);
    break;
  default:
    good = g_ascii_isalpha (peek (c)) ? check_word (c) : check_number (c);
  }
  if (good)
    skip_blanks (c);
  return good;
}

char *
model_json_check (const char *text, gsize length, const char *name, GError **error)
{
  gsize start = base_text_bom_length (text, length);
  const char *invalid = NULL;
  g_autoptr (GString) out = g_string_sized_new (length + 16);
  Checker c = { text, text + start, text + length, name, out, error };
  /* Refuses NUL bytes too. */
  if (!g_utf8_validate_len (c.at, length - start, &invalid)) {
    c.at = invalid;
    refuse (&c, "UTF-8 text");
    return NULL;
  }
  if (!check_value (&c, 0))
    return NULL;
  if (c.at != c.end) {
    refuse (&c, "the end of the text");
    return NULL;
  }
  return g_string_free (g_steal_pointer (&out), FALSE);
}
