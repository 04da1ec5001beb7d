/* Unit tests of base/csv.h, after the seven rules of RFC 4180 section 2. */
#include "base/csv.h"
#include "tests/testutil.h"
#include <glib/gstdio.h>

#define DATA(text) (text), sizeof (text) - 1

typedef struct {
  const char *name;
  const char *data;
  gsize length;
  const char *want; /* fields joined by '|', rows by '/'; NULL: refused with @message */
  const char *message;
} TableCase;

static const TableCase table_cases[] = {
  { "table/plain", DATA ("a,b\n1,2\n3,4\n"), "a|b/1|2/3|4", NULL },
  { "table/no_last_newline", DATA ("a,b\n1,2"), "a|b/1|2", NULL },
  { "table/crlf", DATA ("a,b\r\n1,2\r\n"), "a|b/1|2", NULL },
  { "table/header_only", DATA ("a,b\n"), "a|b", NULL },
  { "table/byte_order_mark",
    DATA ("\xef\xbb\xbf"
          "a\n1\n"),
    "a/1", NULL },
  { "table/empty_fields", DATA ("a,b,c\n,,\n"), "a|b|c/||", NULL },
  { "table/empty_at_end_of_file", DATA ("a,b\n1,"), "a|b/1|", NULL },
  { "table/blanks_kept", DATA ("a, b\n 1 ,2\n"), "a| b/ 1 |2", NULL },
  { "table/quoted", DATA ("a,b\n\"1\",\"2\"\n"), "a|b/1|2", NULL },
  { "table/quoted_comma", DATA ("a,b\n\"1,5\",2\n"), "a|b/1,5|2", NULL },
  { "table/quoted_newline", DATA ("a,b\n\"1\n5\",2\n"), "a|b/1\n5|2", NULL },
  { "table/quoted_quote", DATA ("a,b\n\"say \"\"x\"\"\",2\n"), "a|b/say \"x\"|2", NULL },
  { "table/quoted_empty", DATA ("a,b\n\"\",\"\"\"\"\n"), "a|b/|\"", NULL },
  { "table/quoted_then_crlf", DATA ("a\r\n\"1\"\r\n"), "a/1", NULL },
  { "table/one_column_blank_line", DATA ("a\n\n1\n"), "a//1", NULL },
  { "table/lone_carriage_return_kept", DATA ("a,b\n1\r1,2\n"), "a|b/1\r1|2", NULL },
  { "table/nothing", DATA (""), NULL,
    "f.csv:1: found nothing, expected a header with the column names" },
  { "table/mark_only", DATA ("\xef\xbb\xbf"), NULL,
    "f.csv:1: found nothing, expected a header with the column names" },
  { "table/too_narrow", DATA ("a,b\n1,2\n3\n"), NULL,
    "f.csv:3: found 1 fields, expected 2 as in the header" },
  { "table/too_wide", DATA ("a,b\n1,2,3\n"), NULL,
    "f.csv:2: found 3 fields, expected 2 as in the header" },
  { "table/blank_line", DATA ("a,b\n\n1,2\n"), NULL,
    "f.csv:2: found an empty line, expected none between the rows" },
  /* the row after a field of two lines starts on line 4 */
  { "table/line_counts_quoted", DATA ("a,b\n\"1\n\",2\n3\n"), NULL,
    "f.csv:4: found 1 fields, expected 2 as in the header" },
  { "table/open_quote", DATA ("a,b\n1,\"2\n3,4\n"), NULL,
    "f.csv:2: found a quote that never ends, expected '\"' at the end of the field" },
  { "table/open_quote_at_end", DATA ("a\n\""), NULL,
    "f.csv:2: found a quote that never ends, expected '\"' at the end of the field" },
  { "table/text_after_quote", DATA ("a,b\n\"1\"x,2\n"), NULL,
    "f.csv:2: found text after a closing quote, expected a comma or the end of the line" },
  { "table/quote_inside", DATA ("a,b\n1\"2,3\n"), NULL,
    "f.csv:2: found a quote inside a field, expected the whole field in quotes and the quote "
    "doubled" },
  { "table/nul", DATA ("a,b\n1,\0\n"), NULL, "f.csv:2: found a NUL byte, expected UTF-8 text" },
  { "table/not_utf8", DATA ("a,b\n1,\xc3\n"), NULL,
    "f.csv:2: found bytes that are not UTF-8, expected UTF-8 text" },
  { "table/duplicate_column", DATA ("a,b,a\n"), NULL,
    "f.csv:1: column 'a' is there twice, expected every column once" },
};

static char *
join_table (const BaseCsv *csv)
{
  GString *text = g_string_new (NULL);
  for (guint column = 0; column < base_csv_n_columns (csv); column++)
    g_string_append_printf (text, "%s%s", column > 0 ? "|" : "",
                            base_csv_column_name (csv, column));
  for (guint row = 0; row < base_csv_n_rows (csv); row++) {
    for (guint column = 0; column < base_csv_n_columns (csv); column++)
      g_string_append_printf (text, "%s%s", column > 0 ? "|" : "/",
                              base_csv_cell (csv, row, column));
  }
  return g_string_free (text, FALSE);
}

static void
test_table (void **state)
{
  const TableCase *c = *state;
  g_autoptr (GError) error = NULL;
  /* A copy of the exact length, so that reading past the end is caught. */
  g_autofree char *data = g_memdup2 (c->data, c->length);
  g_autoptr (BaseCsv) csv = base_csv_new_from_data (data, (gssize)c->length, "f.csv", &error);
  if (c->want == NULL) {
    assert_null (csv);
    assert_true (g_error_matches (error, BASE_CSV_ERROR, BASE_CSV_ERROR_PARSE));
    assert_string_equal (error->message, c->message);
    return;
  }
  assert_no_error (error);
  g_autofree char *got = join_table (csv);
  assert_string_equal (got, c->want);
}

static void
test_by_name (void **state)
{
  static const char data[] = "id,time_s\nx,\"1\n\"\ny,2.5\nz,\n";
  g_autoptr (BaseCsv) csv = base_csv_new_from_data (data, -1, "f.csv", NULL);
  assert_int_equal (base_csv_n_rows (csv), 3);
  assert_int_equal (base_csv_column (csv, "time_s"), 1);
  assert_int_equal (base_csv_column (csv, "no"), -1);
  assert_string_equal (base_csv_get (csv, 1, "id"), "y");
  assert_string_equal (base_csv_get (csv, 1, "no"), "");
  assert_int_equal (base_csv_line (csv, 0), 2);
  assert_int_equal (base_csv_line (csv, 1), 4);
  assert_true (base_csv_number (csv, 1, "time_s") == 2.5);
  assert_true (isnan (base_csv_number (csv, 2, "time_s")));
  assert_true (isnan (base_csv_number (csv, 2, "no")));
}

static void
test_required_columns (void **state)
{
  static const char *const good[] = { "id", "time_s", NULL }, *const bad[] = { "tims_s", NULL };
  g_autoptr (BaseCsv) csv = base_csv_new_from_data ("id,time_s\n", -1, "f.csv", NULL);
  g_autoptr (GError) error = NULL;
  assert_true (base_csv_require_columns (csv, good, NULL));
  assert_false (base_csv_require_columns (csv, bad, &error));
  assert_true (g_error_matches (error, BASE_CSV_ERROR, BASE_CSV_ERROR_COLUMN));
  assert_string_equal (error->message, "f.csv: no column 'tims_s'; was 'time_s' meant?");
}

static void
test_number (void **state)
{
  static const struct {
    const char *text;
    double want; /* NAN: refused */
  } cases[] = {
    { "0", 0 },       { "-1.5", -1.5 }, { "+2", 2 },     { " 3 ", 3 },
    { "1e-3", 1e-3 }, { "", NAN },      { "x", NAN },    { "1x", NAN },
    { "nan", NAN },   { "inf", NAN },   { "-inf", NAN }, { "0x10", NAN },
    { "1 2", NAN },   { "1e400", NAN }, { "--1", NAN },  { "-", NAN },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *data = g_strdup_printf ("v,w\n%s,\n", cases[i].text);
    g_autoptr (BaseCsv) csv = base_csv_new_from_data (data, -1, "f.csv", NULL);
    double got = base_csv_number (csv, 0, "v");
    assert_true (isnan (cases[i].want) ? isnan (got) : got == cases[i].want);
  }
}

/* Whatever is written comes back. */
static void
test_round_trip (void **state)
{
  static const char *const fields[] = { "plain", "a,b", "say \"x\"", "two\nlines", "cr\r\nlf", "" };
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream (&text, &length);
  fputs ("v,w\n", out);
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++) {
    base_csv_write_field (out, fields[i]);
    fputs (",1\n", out);
  }
  fclose (out);

  g_autoptr (BaseCsv) csv = base_csv_new_from_data (text, (gssize)length, "f.csv", NULL);
  assert_int_equal (base_csv_n_rows (csv), G_N_ELEMENTS (fields));
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    assert_string_equal (base_csv_get (csv, i, "v"), fields[i]);
  free (text);
}

static void
test_files (void **state)
{
  g_autoptr (GError) none = NULL, folder = NULL;
  assert_null (base_csv_new_from_file ("/nonexistent/a.csv", &none));
  assert_true (g_error_matches (none, BASE_CSV_ERROR, BASE_CSV_ERROR_READ));
  assert_null (base_csv_new_from_file ("/", &folder));
  assert_true (g_error_matches (folder, BASE_CSV_ERROR, BASE_CSV_ERROR_READ));
}

/* A folder stands for its tables in name order, a file for itself; subfolders are left alone. */
static void
test_paths (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *dir = g_dir_make_tmp ("plait-csv-XXXXXX", NULL);
  static const char *const names[] = { "b.csv", "a.csv", "notes.txt" };
  g_autofree char *inner = g_build_filename (dir, "inner", NULL);
  const char *empty[] = { inner, NULL }, *both[] = { "/nonexistent/x.csv", dir, NULL };
  assert_int_equal (g_mkdir (inner, 0700), 0);
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree char *path = g_build_filename (dir, names[i], NULL);
    assert_true (g_file_set_contents (path, "v\n", -1, NULL));
  }
  g_auto (GStrv) paths = base_csv_paths (both, &error);
  assert_no_error (error);
  assert_int_equal (g_strv_length (paths), 3);
  assert_string_equal (paths[0], "/nonexistent/x.csv");
  assert_true (g_str_has_suffix (paths[1], "/a.csv") && g_str_has_suffix (paths[2], "/b.csv"));
  assert_null (base_csv_paths (empty, &error));
  assert_true (g_error_matches (error, BASE_CSV_ERROR, BASE_CSV_ERROR_READ));
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree char *path = g_build_filename (dir, names[i], NULL);
    assert_int_equal (g_unlink (path), 0);
  }
  assert_int_equal (g_rmdir (inner) + g_rmdir (dir), 0);
}

int
main (void)
{
  static const struct CMUnitTest single[] = {
    cmocka_unit_test (test_by_name), cmocka_unit_test (test_required_columns),
    cmocka_unit_test (test_number),  cmocka_unit_test (test_round_trip),
    cmocka_unit_test (test_files),   cmocka_unit_test (test_paths),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (table_cases) + G_N_ELEMENTS (single)];
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (table_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = table_cases[i].name,
                                      .test_func = test_table,
                                      .initial_state = (void *)&table_cases[i] };
  for (gsize i = 0; i < G_N_ELEMENTS (single); i++)
    tests[n++] = single[i];
  return cmocka_run_group_tests (tests, NULL, NULL);
}
