/* tests/testutil.h - what every unit test shares. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka 1.1 compares floats, not doubles: this is the comparison to use. */
static inline void
assert_near_at (double got, double want, double rel_tol, const char *file, int line)
{
  double scale = fmax (fabs (want), 1e-300);
  if (got == want)
    return;
  if (!(fabs (got - want) <= rel_tol * scale)) {
    print_error ("%s:%d: got %.15g, want %.15g (relative tolerance %g, off by %g)\n", file, line,
                 got, want, rel_tol, (got - want) / scale);
    _fail (file, line);
  }
}
#define assert_near(got, want, rel_tol)                                                            \
  assert_near_at ((got), (want), (rel_tol), __FILE__, __LINE__)

#define assert_no_error(err)                                                                       \
  do {                                                                                             \
    if ((err) != NULL) {                                                                           \
      print_error ("%s:%d: unexpected error: %s\n", __FILE__, __LINE__, (err)->message);           \
      _fail (__FILE__, __LINE__);                                                                  \
    }                                                                                              \
  } while (0)

/* Path of a file of the published measurements, or NULL when this checkout has none. (owned) */
static inline char *
test_data_path (const char *relative)
{
  const char *dir = g_getenv ("PLAIT_TEST_DATA");
  if (dir == NULL || *dir == '\0')
    return NULL;
  return g_build_filename (dir, relative, NULL);
}

/* Each row of @rows, which has a name, as a test of its own: in main, behind the @n-th of @tests. */
#define ADD_ROWS(rows, function)                                                                   \
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)                                                  \
    tests[n++] = (struct CMUnitTest)                                                               \
    {                                                                                              \
      .name = rows[i].name, .test_func = function, .initial_state = (void *)&rows[i]               \
    }

#define TEST_SKIPPED 77
