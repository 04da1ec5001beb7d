/* topo/smi_tokens.h - one line of pasted text as words. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  char *text;        /* (owned) */
  guint tabs_before; /* tabs between this word and the one before */
} SmiToken;

/* Escape sequences, carriage returns, table bars and no-break spaces are blanks.
 * Glued cells ("NV12NV12", "GPU0X") are words of their own. Returns: (owned) GArray of SmiToken. */
GArray *smi_tokens_new (const char *line, gsize length);

/* A cell of the matrix; FALSE when @word is none. */
gboolean smi_parse_cell (const char *word, guint16 *out);
/* A word of the capability matrix: OK, CNS, GNS, TNS, NS, DR, U. */
gboolean smi_is_p2p_word (const char *word);
/* The device at the end of @word ("<stdout>:GPU0" -> "GPU0"), or NULL. (borrowed) */
const char *smi_device_of (const char *word);
/* Appends the names glued in @word ("GPU0GPU1mlx5_0CPU") to @names. FALSE when one is no device;
 * *out_affinity is set when the affinity columns began. */
gboolean smi_split_names (const char *word, GPtrArray *names, gboolean *out_affinity);
G_END_DECLS
