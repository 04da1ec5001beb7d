/* sim/event_queue.c - a binary heap by time; of equal times the first made goes first. */
#include "sim/play-private.h"

static gboolean
is_before (const Event *a, const Event *b)
{
  if (a->time_s != b->time_s)
    return a->time_s < b->time_s;
  return a->sequence < b->sequence;
}

void
event_queue_push (EventQueue *queue, double time_s, EventKind kind, guint32 id, guint32 version)
{
  const Event event = { time_s, queue->sequence++, id, version, (guint8)kind };
  guint32 at = queue->n++;

  if (queue->n > queue->capacity) {
    queue->capacity = MAX (64, 2 * queue->capacity);
    queue->events = g_renew (Event, queue->events, queue->capacity);
  }
  for (; at > 0 && is_before (&event, &queue->events[(at - 1) / 2]); at = (at - 1) / 2)
    queue->events[at] = queue->events[(at - 1) / 2];
  queue->events[at] = event;
}

gboolean
event_queue_pop (EventQueue *queue, Event *out)
{
  if (queue->n == 0)
    return FALSE;
  *out = queue->events[0];
  const Event last = queue->events[--queue->n];
  guint32 at = 0;
  for (;;) {
    guint32 child = 2 * at + 1;
    if (child >= queue->n)
      break;
    if (child + 1 < queue->n && is_before (&queue->events[child + 1], &queue->events[child]))
      child++;
    if (!is_before (&queue->events[child], &last))
      break;
    queue->events[at] = queue->events[child];
    at = child;
  }
  queue->events[at] = last;
  return TRUE;
}
