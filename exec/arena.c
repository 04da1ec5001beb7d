/* exec/arena.c - first fit over an ordered list of used spans. */
#include "exec/arena.h"

typedef struct {
  guint64 offset, bytes;
} Span; /* used */

void
exec_arena_init (ExecArena *arena, guint64 limit_bytes)
{
  *arena = (ExecArena){ .limit_bytes = limit_bytes };
  arena->spans = g_array_sized_new (FALSE, FALSE, sizeof (Span), 1024);
}

void
exec_arena_clear (ExecArena *arena)
{
  g_clear_pointer (&arena->spans, g_array_unref);
}

guint64
exec_arena_take (ExecArena *arena, guint64 bytes)
{
  Span span = { 0, exec_arena_round (bytes) };
  guint at = 0;
  for (; at < arena->spans->len; at++) {
    const Span *used = &g_array_index (arena->spans, Span, at);
    if (used->offset - span.offset >= span.bytes)
      break;
    span.offset = used->offset + used->bytes;
  }
  if (span.bytes > arena->limit_bytes || span.offset > arena->limit_bytes - span.bytes)
    return EXEC_ARENA_NONE;
  g_array_insert_val (arena->spans, at, span);
  arena->peak_bytes = MAX (arena->peak_bytes, span.offset + span.bytes);
  return span.offset;
}

void
exec_arena_give (ExecArena *arena, guint64 offset)
{
  guint low = 0, high = arena->spans->len;
  while (low < high) {
    guint middle = (low + high) / 2;
    if (g_array_index (arena->spans, Span, middle).offset < offset)
      low = middle + 1;
    else
      high = middle;
  }
  g_return_if_fail (low < arena->spans->len
                    && g_array_index (arena->spans, Span, low).offset == offset);
  g_array_remove_index (arena->spans, low);
}
