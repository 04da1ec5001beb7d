/* exec/arena.h - one block of memory, handed out first fit.
 *
 * Knows offsets only: the runner adds the address of its block, the prediction of peak memory has
 * none. The same calls give the same offsets, hence the same peak.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
#define EXEC_ARENA_ALIGN 256 /* bytes: what cudaMalloc aligns to, and a multiple of a cache line */
#define EXEC_ARENA_NONE  G_MAXUINT64

typedef struct {
  GArray *spans; /* (owned) of what is free and used, in order of offsets */
  guint64 limit_bytes;
  guint64 peak_bytes; /* highest end of anything handed out */
} ExecArena;

/* @limit_bytes: G_MAXUINT64 for none */
void exec_arena_init (ExecArena *arena, guint64 limit_bytes);
void exec_arena_clear (ExecArena *arena);
/* Offset of @bytes rounded up to the alignment, or EXEC_ARENA_NONE where the limit is in the way. */
guint64 exec_arena_take (ExecArena *arena, guint64 bytes);
void exec_arena_give (ExecArena *arena, guint64 offset);
static inline guint64
exec_arena_round (guint64 bytes)
{
  return (MAX (bytes, 1) + EXEC_ARENA_ALIGN - 1) / EXEC_ARENA_ALIGN * EXEC_ARENA_ALIGN;
}
G_END_DECLS
