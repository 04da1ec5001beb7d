/* tests/fuzz/fuzz.h - what a fuzz target is: one function that must survive any bytes.
 *
 * A target fuzz_NAME.c defines LLVMFuzzerTestOneInput. `dev/fuzz NAME` links it with libFuzzer;
 * every build links it with replay_main.c, which plays tests/fuzz/corpus/NAME as a normal test.
 */
#pragma once
#include <glib.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
G_BEGIN_DECLS

/* Returns 0. Breaks a promise of the code under test: aborts. */
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* Aborts, which libFuzzer records, in every build type. */
static inline void
fuzz_require_at (gboolean holds, const char *condition, const char *file, int line)
{
  if (holds)
    return;
  fprintf (stderr, "%s:%d: broken promise: %s\n", file, line, condition);
  abort ();
}
#define fuzz_require(condition) fuzz_require_at ((condition), #condition, __FILE__, __LINE__)

/* Success sets no error; failure sets one whose message is one line of UTF-8. Clears @error. */
static inline void
fuzz_require_outcome (gboolean ok, GError **error)
{
  fuzz_require (ok == (*error == NULL));
  if (!ok) {
    fuzz_require (g_utf8_validate ((*error)->message, -1, NULL));
    fuzz_require (strchr ((*error)->message, '\n') == NULL);
    fuzz_require (*(*error)->message != '\0');
  }
  g_clear_error (error);
}
G_END_DECLS
