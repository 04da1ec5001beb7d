/* base/ini_parse.c - bytes to groups and keys; see base/ini.h for the grammar. */
#include "base/ini-private.h"

#include "base/text.h"

#include <string.h>

#define FILE_MAX_BYTES ((gsize)16 << 20)

/* Where the parser stands. */
typedef struct {
  BaseIni *ini;
  IniGroup *group; /* (nullable) the group lines now belong to */
  guint line;
} Parser;

static void
key_free (gpointer data)
{
  IniKey *key = data;
  g_free (key->name);
  g_free (key->value);
  g_free (key);
}

static void
group_free (gpointer data)
{
  IniGroup *group = data;
  g_hash_table_unref (group->by_name);
  g_ptr_array_unref (group->keys);
  g_free (group->name);
  g_free (group);
}

BaseIni *
base_ini_alloc (const char *name)
{
  BaseIni *ini = g_new0 (BaseIni, 1);
  ini->name = base_text_path_excerpt (name);
  ini->groups = g_ptr_array_new_with_free_func (group_free);
  ini->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  ini->asked = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, base_ini_asked_free);
  return ini;
}

void
base_ini_free (BaseIni *ini)
{
  if (ini == NULL)
    return;
  g_hash_table_unref (ini->asked);
  g_hash_table_unref (ini->by_name);
  g_ptr_array_unref (ini->groups);
  g_free (ini->name);
  g_free (ini);
}

static gboolean
refuse (const Parser *parser, GError **error, const char *found, const char *expected)
{
  g_autofree char *shown = base_text_excerpt (found, -1);
  g_set_error (error, BASE_INI_ERROR, BASE_INI_ERROR_PARSE, "%s:%u: found '%s', expected %s",
               parser->ini->name, parser->line, shown, expected);
  return FALSE;
}

static gboolean
is_comment_or_blank (const char *text)
{
  return *text == '\0' || *text == '#' || *text == ';';
}

/* "link   nvlink4 " becomes "link nvlink4". */
static char *
squeeze_blanks (const char *text, gsize length)
{
  GString *out = g_string_sized_new (length);
  for (gsize i = 0; i < length; i++) {
    gboolean blank = text[i] == ' ' || text[i] == '\t';
    if (!blank)
      g_string_append_c (out, text[i]);
    else if (out->len > 0 && out->str[out->len - 1] != ' ')
      g_string_append_c (out, ' ');
  }
  return g_strchomp (g_string_free (out, FALSE));
}

/* @text: a stripped line that starts with '['. */
static gboolean
parse_group (Parser *parser, const char *text, GError **error)
{
  const char *close = strchr (text, ']');
  if (close == NULL)
    return refuse (parser, error, text, "']' at the end of the group name");

  const char *rest = close + 1;
  while (*rest == ' ' || *rest == '\t')
    rest++;
  if (!is_comment_or_blank (rest))
    return refuse (parser, error, text, "nothing after the ']' of a group");

  g_autofree char *name = squeeze_blanks (text + 1, (gsize)(close - text - 1));
  if (*name == '\0' || strchr (name, '[') != NULL)
    return refuse (parser, error, text, "a group such as [model] or [link nvlink4]");

  IniGroup *earlier = base_ini_find_group (parser->ini, name);
  if (earlier != NULL) {
    g_autofree char *shown = base_text_excerpt (name, -1);
    g_set_error (error, BASE_INI_ERROR, BASE_INI_ERROR_PARSE,
                 "%s:%u: group [%s] is there twice, first on line %u: expected every group once",
                 parser->ini->name, parser->line, shown, earlier->line);
    return FALSE;
  }

  IniGroup *group = g_new0 (IniGroup, 1);
  group->name = g_steal_pointer (&name);
  group->line = parser->line;
  group->keys = g_ptr_array_new_with_free_func (key_free);
  group->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  g_ptr_array_add (parser->ini->groups, group);
  g_hash_table_insert (parser->ini->by_name, group->name, group);
  parser->group = group;
  return TRUE;
}

/* Ends @text, what follows the '=', before a comment: a '#' after a blank. */
static void
cut_comment (char *text)
{
  for (char *p = text; *p != '\0'; p++) {
    if (*p == '#' && p > text && (p[-1] == ' ' || p[-1] == '\t')) {
      *p = '\0';
      return;
    }
  }
}

/* @text: a stripped line that is neither a group nor a comment; modified. */
static gboolean
parse_key (Parser *parser, char *text, GError **error)
{
  char *equals = strchr (text, '=');
  if (equals == NULL)
    return refuse (parser, error, text, "'key = value', '[group]' or '# comment'");
  if (parser->group == NULL)
    return refuse (parser, error, text, "a group such as [model] before the first key");

  g_autofree char *name = g_strstrip (g_strndup (text, (gsize)(equals - text)));
  if (*name == '\0' || strpbrk (name, " \t[]#;\"") != NULL)
    return refuse (parser, error, text, "a key without blanks, brackets or quotes before the '='");

  IniKey *earlier = g_hash_table_lookup (parser->group->by_name, name);
  if (earlier != NULL) {
    g_autofree char *shown_group = base_text_excerpt (parser->group->name, -1);
    g_autofree char *shown = base_text_excerpt (name, -1);
    g_set_error (error, BASE_INI_ERROR, BASE_INI_ERROR_PARSE,
                 "%s:%u: [%s] %s: is there twice, first on line %u: expected every key once",
                 parser->ini->name, parser->line, shown_group, shown, earlier->line);
    return FALSE;
  }

  cut_comment (equals + 1);
  IniKey *key = g_new0 (IniKey, 1);
  key->name = g_steal_pointer (&name);
  key->value = g_strstrip (g_strdup (equals + 1));
  key->line = parser->line;
  g_ptr_array_add (parser->group->keys, key);
  g_hash_table_insert (parser->group->by_name, key->name, key);
  return TRUE;
}

static gboolean
parse_line (Parser *parser, char *line, GError **error)
{
  gsize length = strlen (line);
  if (length > 0 && line[length - 1] == '\r')
    line[length - 1] = '\0';
  for (const guchar *p = (const guchar *)line; *p != '\0'; p++) {
    if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
      return refuse (parser, error, line, "text without control characters");
  }

  g_strstrip (line);
  if (is_comment_or_blank (line))
    return TRUE;
  return *line == '[' ? parse_group (parser, line, error) : parse_key (parser, line, error);
}

/* Refuses what no text file has: NUL bytes and invalid UTF-8. */
static gboolean
check_bytes (const BaseIni *ini, const char *data, gsize length, GError **error)
{
  const char *end = NULL;
  if (g_utf8_validate_len (data, length, &end))
    return TRUE;
  g_set_error (error, BASE_INI_ERROR, BASE_INI_ERROR_PARSE, "%s:%u: found %s, expected UTF-8 text",
               ini->name, base_text_line_at (data, (gsize)(end - data)),
               *end == '\0' ? "a NUL byte" : "bytes that are not UTF-8");
  return FALSE;
}

gboolean
base_ini_parse (BaseIni *ini, const char *data, gsize length, GError **error)
{
  if (!check_bytes (ini, data, length, error))
    return FALSE;

  Parser parser = { .ini = ini };
  const char *p = data + base_text_bom_length (data, length), *end = data + length;
  while (p < end) {
    const char *newline = memchr (p, '\n', (gsize)(end - p));
    const char *line_end = newline != NULL ? newline : end;
    g_autofree char *line = g_strndup (p, (gsize)(line_end - p));
    parser.line++;
    if (!parse_line (&parser, line, error))
      return FALSE;
    p = newline != NULL ? newline + 1 : end;
  }
  return TRUE;
}

BaseIni *
base_ini_new_from_data (const char *data, gssize length, const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL && (data != NULL || length == 0), NULL);

  g_autoptr (BaseIni) ini = base_ini_alloc (name);
  gsize n_bytes = length < 0 ? strlen (data) : (gsize)length;
  if (n_bytes > FILE_MAX_BYTES) {
    g_set_error (error, BASE_INI_ERROR, BASE_INI_ERROR_READ,
                 "%s: is larger than %" G_GSIZE_FORMAT " MiB", ini->name, FILE_MAX_BYTES >> 20);
    return NULL;
  }
  if (n_bytes > 0 && !base_ini_parse (ini, data, n_bytes, error))
    return NULL;
  return g_steal_pointer (&ini);
}

BaseIni *
base_ini_new_from_file (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);

  gsize length = 0;
  g_autofree char *data = base_text_read_file (path, FILE_MAX_BYTES, &length, BASE_INI_ERROR,
                                               BASE_INI_ERROR_READ, error);
  return data != NULL ? base_ini_new_from_data (data, (gssize)length, path, error) : NULL;
}
