/* base/hash.h - stable hashes: names of configurations (SHA-256) and hash-table keys (64 bits). */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* First 16 hexadecimal digits of the SHA-256 of @text. Returns: (owned). */
char *base_hash_text (const char *text);
guint64 base_hash_bytes (const void *data, gsize length, guint64 seed);
G_END_DECLS
