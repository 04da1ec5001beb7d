/* base/suggest.h - "did you mean": the nearest of some names by edit distance. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* Damerau-Levenshtein distance (adjacent swaps count 1), bytes, capped at 255. */
guint base_edit_distance (const char *a, const char *b);
/* Nearest of the NULL-terminated @names within max(2, length/3) edits, or NULL. (borrowed) */
const char *base_suggest (const char *word, const char *const *names);
/* The end of a message about @word: "; did you mean 'tp'?", or "" if nothing is near. (owned) */
char *base_suggest_clause (const char *word, const char *const *names);
/* What was expected instead of @word: "one of a, b, c" and the clause above. (owned) */
char *base_suggest_one_of (const char *word, const char *const *names);
/* Place of @name in the NULL-terminated @names, or -1. */
gint base_name_index (const char *name, const char *const *names);
G_END_DECLS
