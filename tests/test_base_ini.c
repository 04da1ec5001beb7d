/* Unit tests of base/ini.h: what is read, and what each mistake is told. */
#include "base/ini.h"
#include "tests/testutil.h"

#include <glib/gstdio.h>

#define PARSE   BASE_INI_ERROR_PARSE
#define MISSING BASE_INI_ERROR_MISSING
#define VALUE   BASE_INI_ERROR_VALUE
#define UNKNOWN BASE_INI_ERROR_UNKNOWN

/* Literals may hold NUL bytes: the length is taken from the array. */
#define DATA(text) (text), sizeof (text) - 1

typedef struct {
  const char *name;
  const char *data;
  gsize length;
  const char *want; /* NULL: accepted */
} ParseCase;

static const ParseCase parse_cases[] = {
  { "parse/empty", DATA (""), NULL },
  { "parse/comments", DATA ("# a\n; b\n\n   # c\n"), NULL },
  { "parse/no_last_newline", DATA ("[a]\nx = 1"), NULL },
  { "parse/key_outside_group", DATA ("x = 1\n"),
    "f.ini:1: found 'x = 1', expected a group such as [model] before the first key" },
  { "parse/no_equals", DATA ("[a]\n\nhello\n"),
    "f.ini:3: found 'hello', expected 'key = value', '[group]' or '# comment'" },
  { "parse/open_group", DATA ("[a\n"),
    "f.ini:1: found '[a', expected ']' at the end of the group name" },
  { "parse/text_after_group", DATA ("[a] b\n"),
    "f.ini:1: found '[a] b', expected nothing after the ']' of a group" },
  { "parse/empty_group", DATA ("[ ]\n"),
    "f.ini:1: found '[ ]', expected a group such as [model] or [link nvlink4]" },
  { "parse/duplicate_group", DATA ("[a]\nx=1\n[a]\n"),
    "f.ini:3: group [a] is there twice, first on line 1: expected every group once" },
  { "parse/duplicate_group_blanks", DATA ("[link a]\n[link   a]\n"),
    "f.ini:2: group [link a] is there twice, first on line 1: expected every group once" },
  { "parse/duplicate_key", DATA ("[a]\nx=1\ny=2\nx=3\n"),
    "f.ini:4: [a] x: is there twice, first on line 2: expected every key once" },
  { "parse/no_key", DATA ("[a]\n = 1\n"),
    "f.ini:2: found '= 1', expected a key without blanks, brackets or quotes before the '='" },
  { "parse/blank_in_key", DATA ("[a]\nx y = 1\n"),
    "f.ini:2: found 'x y = 1', expected a key without blanks, brackets or quotes before the '='" },
  { "parse/nul", DATA ("[a]\nx = 1\0002\n"), "f.ini:2: found a NUL byte, expected UTF-8 text" },
  { "parse/not_utf8", DATA ("[a]\nx = \xff\n"),
    "f.ini:2: found bytes that are not UTF-8, expected UTF-8 text" },
  { "parse/cut_utf8", DATA ("[a]\nx = \xe2\x82"),
    "f.ini:2: found bytes that are not UTF-8, expected UTF-8 text" },
  { "parse/utf16", DATA ("\xff\xfe[\0a\0]\0"),
    "f.ini:1: found bytes that are not UTF-8, expected UTF-8 text" },
  { "parse/lone_carriage_return", DATA ("[a]\nx = 1\ry = 2\n"),
    "f.ini:2: found 'x = 1?y = 2', expected text without control characters" },
};

static void
test_parse (void **state)
{
  const ParseCase *c = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (c->data, (gssize)c->length, "f.ini", &error);
  if (c->want == NULL) {
    assert_no_error (error);
    assert_non_null (ini);
    return;
  }
  assert_null (ini);
  assert_true (g_error_matches (error, BASE_INI_ERROR, PARSE));
  assert_string_equal (error->message, c->want);
}

typedef struct {
  const char *name;
  const char *line;
  const char *want;
} ValueCase;

static const ValueCase value_cases[] = {
  { "value/plain", "k = v", "v" },
  { "value/no_blanks", "k=v", "v" },
  { "value/inner_blanks", "  k\t=  a  b \t", "a  b" },
  { "value/comment", "k = v # c", "v" },
  { "value/comment_after_tab", "k = v\t# c", "v" },
  { "value/hash_inside", "k = a#b", "a#b" },
  { "value/hash_first", "k =#b", "#b" },
  { "value/semicolon_kept", "k = a ; b", "a ; b" },
  { "value/equals_inside", "k = tp=8,pp=2", "tp=8,pp=2" },
  { "value/quotes_kept", "k = \"a\"", "\"a\"" },
  { "value/crlf", "k = v\r", "v" },
  { "value/utf8", "k = \xc3\xa9", "\xc3\xa9" },
  { "value/brackets", "k = [x]", "[x]" },
};

static void
test_value (void **state)
{
  const ValueCase *c = *state;
  g_autofree char *data = g_strdup_printf ("\xef\xbb\xbf[g]\n%s\n", c->line);
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (data, -1, "f.ini", &error);
  assert_no_error (error);
  assert_string_equal (base_ini_get_string (ini, "g", "k", &error), c->want);
  assert_true (base_ini_finish (ini, NULL, &error));
}

static const char sample[] = "[model]\n"          /* 1 */
                             "layers = 80\n"      /* 2 */
                             "hiden = 8192\n"     /* 3 */
                             "size = 80GiB\n"     /* 4 */
                             "tied = yes\n"       /* 5 */
                             "norm = rmsnrom\n"   /* 6 */
                             "empty =\n"          /* 7 */
                             "tags = a, b,,c ,\n" /* 8 */
                             "\n"                 /* 9 */
                             "[link nvlink4]\n"   /* 10 */
                             "rate = 25GB/s\n"    /* 11 */
                             "share = 150%\n"     /* 12 */
                             "nan = nan\n"        /* 13 */
                             "bare = 25\n";       /* 14 */

static BaseIni *
open_sample (void)
{
  return base_ini_new_from_data (sample, -1, "f.ini", NULL);
}

static void
test_getters (void **state)
{
  g_autoptr (BaseIni) ini = open_sample ();
  guint64 count = 0, bytes = 0;
  double rate = 0;
  gboolean tied = FALSE;

  assert_true (base_ini_get_count (ini, "model", "layers", 1, 1000, &count, NULL));
  assert_true (count == 80);
  assert_true (base_ini_get_bytes (ini, "model", "size", &bytes, NULL));
  assert_true (bytes == G_GUINT64_CONSTANT (85899345920)); /* 80 * 2^30 */
  assert_true (base_ini_get_bool_optional (ini, "model", "tied", &tied, NULL));
  assert_true (tied);
  assert_true (base_ini_get_number (ini, "link nvlink4", "rate", BASE_DIM_BYTES_PER_SECOND, 0,
                                    INFINITY, &rate, NULL));
  assert_true (rate == 25e9);
  assert_string_equal (base_ini_get_string_or (ini, "model", "none", "x"), "x");

  g_auto (GStrv) tags = base_ini_get_list (ini, "model", "tags");
  g_autofree char *joined = g_strjoinv ("|", tags);
  assert_string_equal (joined, "a|b|c");
  g_auto (GStrv) none = base_ini_get_list (ini, "model", "none");
  assert_int_equal (g_strv_length (none), 0);
}

static void
test_absent_leaves_out_untouched (void **state)
{
  g_autoptr (BaseIni) ini = open_sample ();
  const char *const names[] = { "a", NULL };
  guint64 count = 7;
  double number = 7;
  gboolean flag = 7;
  guint choice = 7;
  assert_true (base_ini_get_count_optional (ini, "model", "no", 1, 2, &count, NULL));
  assert_true (base_ini_get_number_optional (ini, "no", "no", BASE_DIM_COUNT, 1, 2, &number, NULL));
  assert_true (base_ini_get_bool_optional (ini, "model", "no", &flag, NULL));
  assert_true (base_ini_get_enum_optional (ini, "model", "no", names, &choice, NULL));
  assert_true (count == 7 && number == 7 && flag == 7 && choice == 7);
}

static void
test_structure (void **state)
{
  g_autoptr (BaseIni) ini = open_sample ();
  assert_string_equal (base_ini_name (ini), "f.ini");
  assert_int_equal (base_ini_n_groups (ini), 2);
  assert_string_equal (base_ini_group_name (ini, 1), "link nvlink4");
  assert_true (base_ini_has_group (ini, "model"));
  assert_false (base_ini_has_group (ini, "link"));
  assert_true (base_ini_has_key (ini, "model", "layers"));
  assert_false (base_ini_has_key (ini, "model", "rate"));
  assert_int_equal (base_ini_line (ini, "link nvlink4", "rate"), 11);
  assert_int_equal (base_ini_line (ini, "link nvlink4", NULL), 10);
  assert_int_equal (base_ini_line (ini, "model", "no"), 0);

  g_autofree const char **keys = base_ini_keys (ini, "link nvlink4");
  g_autofree char *joined = g_strjoinv ("|", (char **)keys);
  assert_string_equal (joined, "rate|share|nan|bare");
  g_autofree const char **none = base_ini_keys (ini, "no");
  assert_null (none[0]);
}

/* What one getter says about one key of the sample. */
typedef enum {
  GET_STRING,
  GET_COUNT, /* 1 to 10 */
  GET_BYTES,
  GET_BOOL,
  GET_ENUM,
  GET_RATIO, /* 0 to 1 */
  GET_RATE,  /* at least 30e9 bytes/s */
} Getter;

typedef struct {
  const char *name;
  Getter getter;
  const char *group, *key;
  gint code;
  const char *want;
} MistakeCase;

static const MistakeCase mistake_cases[] = {
  { "mistake/missing_group", GET_STRING, "job", "seq", MISSING,
    "f.ini: [job]: group is missing, expected it with key 'seq'" },
  { "mistake/missing_key", GET_STRING, "model", "vocabulary", MISSING,
    "f.ini:1: [model] vocabulary: key is missing, expected text" },
  { "mistake/misspelt_key", GET_COUNT, "model", "hidden", MISSING,
    "f.ini:1: [model] hidden: key is missing, expected a whole number; was 'hiden' on line 3 "
    "meant?" },
  { "mistake/missing_bytes", GET_BYTES, "link nvlink4", "buffer", MISSING,
    "f.ini:10: [link nvlink4] buffer: key is missing, expected bytes, for example 80GiB or "
    "85.1GB" },
  { "mistake/empty", GET_STRING, "model", "empty", VALUE,
    "f.ini:7: [model] empty: found '', expected text after the '='" },
  { "mistake/count_range", GET_COUNT, "model", "layers", VALUE,
    "f.ini:2: [model] layers: found '80', expected a whole number from 1 to 10" },
  { "mistake/not_bytes", GET_BYTES, "model", "layers", VALUE,
    "f.ini:2: [model] layers: '80' has no unit: expected bytes, for example 80GiB or 85.1GB" },
  { "mistake/not_bool", GET_BOOL, "model", "layers", VALUE,
    "f.ini:2: [model] layers: found '80', expected yes or no" },
  { "mistake/enum", GET_ENUM, "model", "norm", VALUE,
    "f.ini:6: [model] norm: found 'rmsnrom', expected one of layernorm, rmsnorm; did you mean "
    "'rmsnorm'?" },
  { "mistake/ratio_range", GET_RATIO, "link nvlink4", "share", VALUE,
    "f.ini:12: [link nvlink4] share: found '150%', expected a ratio from 0 to 1" },
  { "mistake/nan", GET_RATIO, "link nvlink4", "nan", VALUE,
    "f.ini:13: [link nvlink4] nan: 'nan' is not finite: expected a ratio, for example 0.85 or "
    "85%" },
  { "mistake/rate_range", GET_RATE, "link nvlink4", "rate", VALUE,
    "f.ini:11: [link nvlink4] rate: found '25GB/s', expected bytes or bits per second of at least "
    "3e+10 bytes/s" },
  { "mistake/rate_bare", GET_RATE, "link nvlink4", "bare", VALUE,
    "f.ini:14: [link nvlink4] bare: '25' has no unit: expected bytes or bits per second, for "
    "example 25GB/s or 400Gb/s" },
};

static gboolean
get_one (BaseIni *ini, const MistakeCase *c, GError **error)
{
  static const char *const norms[] = { "layernorm", "rmsnorm", NULL };
  guint64 whole = 42;
  double number = 42;
  gboolean flag = 42, ok = TRUE;
  guint choice = 42;

  switch (c->getter) {
  case GET_STRING:
    return base_ini_get_string (ini, c->group, c->key, error) != NULL;
  case GET_COUNT:
    ok = base_ini_get_count (ini, c->group, c->key, 1, 10, &whole, error);
    break;
  case GET_BYTES:
    ok = base_ini_get_bytes (ini, c->group, c->key, &whole, error);
    break;
  case GET_BOOL:
    ok = base_ini_get_bool_optional (ini, c->group, c->key, &flag, error);
    break;
  case GET_ENUM:
    ok = base_ini_get_enum_optional (ini, c->group, c->key, norms, &choice, error);
    break;
  case GET_RATIO:
    ok = base_ini_get_number (ini, c->group, c->key, BASE_DIM_RATIO, 0, 1, &number, error);
    break;
  case GET_RATE:
    ok = base_ini_get_number_optional (ini, c->group, c->key, BASE_DIM_BYTES_PER_SECOND, 3e10,
                                       INFINITY, &number, error);
    break;
  }
  assert_true (whole == 42 && number == 42 && flag == 42 && choice == 42);
  return ok;
}

static void
test_mistake (void **state)
{
  const MistakeCase *c = *state;
  g_autoptr (BaseIni) ini = open_sample ();
  g_autoptr (GError) error = NULL;
  assert_false (get_one (ini, c, &error));
  assert_true (g_error_matches (error, BASE_INI_ERROR, c->code));
  assert_string_equal (error->message, c->want);
}

static void
assert_finish_refuses (BaseIni *ini, const char *const *known, const char *want)
{
  g_autoptr (GError) error = NULL;
  assert_false (base_ini_finish (ini, known, &error));
  assert_true (g_error_matches (error, BASE_INI_ERROR, UNKNOWN));
  assert_string_equal (error->message, want);
}

static void
test_finish (void **state)
{
  const char *const known[] = { "tags", "empti", NULL };
  g_autoptr (BaseIni) ini = open_sample ();
  assert_finish_refuses (ini, NULL, "f.ini:1: [model]: unknown group");
  base_ini_has_group (ini, "modell");
  assert_finish_refuses (ini, NULL, "f.ini:1: [model]: unknown group, did you mean [modell]?");

  base_ini_mark_used (ini, "model", "layers");
  base_ini_get_string_or (ini, "model", "hidden", NULL);
  assert_finish_refuses (ini, NULL, "f.ini:3: [model] hiden: unknown key, did you mean 'hidden'?");
  base_ini_mark_used (ini, "model", "hiden");
  base_ini_mark_used (ini, "model", "size");
  base_ini_mark_used (ini, "model", "tied");
  base_ini_mark_used (ini, "model", "norm");
  assert_finish_refuses (ini, known, "f.ini:7: [model] empty: unknown key, did you mean 'empti'?");

  /* the very name, of two other groups' keys */
  base_ini_mark_used (ini, "states", "empty");
  base_ini_mark_used (ini, "kernels", "empty");
  assert_finish_refuses (
      ini, known, "f.ini:7: [model] empty: unknown key in this group, it belongs into [kernels]");

  base_ini_mark_used (ini, "model", NULL);
  assert_finish_refuses (ini, NULL, "f.ini:10: [link nvlink4]: unknown group");
  base_ini_mark_used (ini, "link nvlink4", NULL);
  assert_true (base_ini_finish (ini, NULL, NULL));
}

static void
test_set_error (void **state)
{
  g_autoptr (BaseIni) ini = open_sample ();
  g_autoptr (GError) key = NULL, group = NULL, file = NULL;
  base_ini_set_error (ini, "model", "layers", &key, "found %d, expected %s", 80, "even");
  assert_string_equal (key->message, "f.ini:2: [model] layers: found 80, expected even");
  base_ini_set_error (ini, "link nvlink4", NULL, &group, "too slow");
  assert_string_equal (group->message, "f.ini:10: [link nvlink4]: too slow");
  base_ini_set_error (ini, NULL, NULL, &file, "too old");
  assert_string_equal (file->message, "f.ini: too old");
}

static void
test_files (void **state)
{
  g_autofree char *dir = g_dir_make_tmp ("plait-ini-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (dir, "a.ini", NULL);
  g_autoptr (GError) none = NULL, folder = NULL;

  assert_null (base_ini_new_from_file (path, &none));
  assert_true (g_error_matches (none, BASE_INI_ERROR, BASE_INI_ERROR_READ));
  assert_null (base_ini_new_from_file (dir, &folder));
  assert_true (g_error_matches (folder, BASE_INI_ERROR, BASE_INI_ERROR_READ));
  assert_non_null (strstr (folder->message, "is a folder, expected a regular file"));
  assert_null (base_ini_new_from_file ("/dev/zero", NULL));

  assert_true (g_file_set_contents (path, "[a]\nx = 1\n", -1, NULL));
  g_autoptr (BaseIni) ini = base_ini_new_from_file (path, NULL);
  assert_string_equal (base_ini_name (ini), path);
  assert_string_equal (base_ini_get_string (ini, "a", "x", NULL), "1");
  g_remove (path);
  g_rmdir (dir);
}

static void
test_too_large (void **state)
{
  gsize length = ((gsize)16 << 20) + 1;
  g_autofree char *data = g_strnfill (length, '\n');
  g_autoptr (GError) error = NULL;
  assert_null (base_ini_new_from_data (data, (gssize)length, "f.ini", &error));
  assert_string_equal (error->message, "f.ini: is larger than 16 MiB");
}

#define ADD_CASES(cases, function)                                                                 \
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)                                                 \
    tests[n++] = (struct CMUnitTest)                                                               \
    {                                                                                              \
      .name = cases[i].name, .test_func = function, .initial_state = (void *)&cases[i]             \
    }

int
main (void)
{
  static const struct CMUnitTest single[] = {
    cmocka_unit_test (test_getters),   cmocka_unit_test (test_absent_leaves_out_untouched),
    cmocka_unit_test (test_structure), cmocka_unit_test (test_finish),
    cmocka_unit_test (test_set_error), cmocka_unit_test (test_files),
    cmocka_unit_test (test_too_large),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (parse_cases) + G_N_ELEMENTS (value_cases)
                          + G_N_ELEMENTS (mistake_cases) + G_N_ELEMENTS (single)];
  gsize n = 0;
  ADD_CASES (parse_cases, test_parse);
  ADD_CASES (value_cases, test_value);
  ADD_CASES (mistake_cases, test_mistake);
  for (gsize i = 0; i < G_N_ELEMENTS (single); i++)
    tests[n++] = single[i];
  return cmocka_run_group_tests (tests, NULL, NULL);
}
