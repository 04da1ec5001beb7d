/* sim/sharing.c - the paces of flows that share links.
 *
 * A link whose flows would together not fill it at full pace concerns nobody. Where a flow comes or
 * goes on a link that is, or was, overfull, the flows that overfull links join are shared anew,
 * max-min fairly by bytes per second (topo/maxmin.h), each capped by its rate alone.
 */
#include "sim/play-private.h"

#include "topo/maxmin.h"

#include <math.h>
#include <string.h>

static Shared *
link_of (SimPlay *play, const Flow *flow, guint i)
{
  return &play->shared[flow->link_base + flow->loads[i].link];
}

/* Bytes per second that @flow puts on its @i-th link at full pace: never more than it has. */
static double
asked_of (SimPlay *play, const Flow *flow, guint i)
{
  const SimLoad *load = &flow->loads[i];
  double asked = load->link_weight * flow->op->link_bytes_per_s
                 + load->network_weight * flow->op->network_bytes_per_s;
  return fmin (asked, link_of (play, flow, i)->capacity_bytes_per_s);
}

static gboolean
is_overfull (const Shared *link)
{
  return link->asked_bytes_per_s > link->capacity_bytes_per_s * (1 + 1e-9);
}

void
sharing_init (SimPlay *play, guint32 n_links)
{
  Solver *solver = &play->solver;

  play->n_shared = n_links;
  play->shared = g_new0 (Shared, MAX (n_links, 1));
  solver->flows = g_array_new (FALSE, FALSE, sizeof (guint32));
  solver->links = g_array_new (FALSE, FALSE, sizeof (guint32));
  solver->capacities = g_array_new (FALSE, FALSE, sizeof (double));
  solver->caps = g_array_new (FALSE, FALSE, sizeof (double));
  solver->weights = g_array_new (FALSE, FALSE, sizeof (double));
  solver->rates = g_array_new (FALSE, FALSE, sizeof (double));
  solver->work = g_array_new (FALSE, FALSE, sizeof (double));
  solver->first = g_array_new (FALSE, FALSE, sizeof (guint32));
  solver->members = g_array_new (FALSE, FALSE, sizeof (guint32));
  solver->bottlenecks = g_array_new (FALSE, FALSE, sizeof (guint32));
}

void
sharing_clear (SimPlay *play)
{
  Solver *solver = &play->solver;
  GArray **arrays[] = { &solver->flows,   &solver->links,      &solver->capacities, &solver->caps,
                        &solver->weights, &solver->rates,      &solver->work,       &solver->first,
                        &solver->members, &solver->bottlenecks };

  for (gsize i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (arrays[i], g_array_unref);
  for (guint32 i = 0; i < play->n_shared; i++)
    g_free (play->shared[i].flows);
  g_clear_pointer (&play->shared, g_free);
}

/* ---- the flows that overfull links join ---- */

static void
visit_link (SimPlay *play, guint32 number)
{
  Solver *solver = &play->solver;
  Shared *link = &play->shared[number];

  if (link->mark == solver->mark)
    return;
  link->mark = solver->mark;
  g_array_append_val (solver->links, number);
}

/* The flows of @link that are not in the list yet, and their overfull links. */
static void
spread (SimPlay *play, Shared *link)
{
  Solver *solver = &play->solver;

  for (guint32 i = 0; i < link->n_flows; i++) {
    guint32 number = link->flows[i];
    const Flow *flow = &play->flows[number];
    gboolean known = FALSE;
    link->traffic |= 1u << flow->op->traffic;
    for (guint k = 0; k < solver->flows->len && !known; k++)
      known = g_array_index (solver->flows, guint32, k) == number;
    if (known)
      continue;
    g_array_append_val (solver->flows, number);
    for (guint k = 0; k < flow->n_loads; k++)
      if (is_overfull (link_of (play, flow, k)))
        visit_link (play, flow->link_base + flow->loads[k].link);
  }
}

static void
begin_component (SimPlay *play)
{
  play->solver.mark++;
  g_array_set_size (play->solver.flows, 0);
  g_array_set_size (play->solver.links, 0);
}

static void
spread_all (SimPlay *play)
{
  for (guint i = 0; i < play->solver.links->len; i++)
    spread (play, &play->shared[g_array_index (play->solver.links, guint32, i)]);
}

/* ---- max-min ---- */

static double
unit_of (const Flow *flow)
{
  return MAX (flow->op->network_bytes_per_s > 0 ? flow->op->network_bytes_per_s
                                                : flow->op->link_bytes_per_s,
              1e-9);
}

/* Only overfull links bind; numbers of links within the component are their places in the list. */
static void
state_problem (SimPlay *play)
{
  Solver *solver = &play->solver;
  guint32 zero = 0;

  g_array_set_size (solver->capacities, 0);
  g_array_set_size (solver->caps, 0);
  g_array_set_size (solver->weights, 0);
  g_array_set_size (solver->members, 0);
  g_array_set_size (solver->first, 0);
  g_array_append_val (solver->first, zero);
  for (guint i = 0; i < solver->links->len; i++) {
    Shared *link = &play->shared[g_array_index (solver->links, guint32, i)];
    g_array_append_val (solver->capacities, link->capacity_bytes_per_s);
  }
  for (guint i = 0; i < solver->flows->len; i++) {
    const Flow *flow = &play->flows[g_array_index (solver->flows, guint32, i)];
    double unit = unit_of (flow);
    for (guint k = 0; k < flow->n_loads; k++) {
      guint32 number = flow->link_base + flow->loads[k].link;
      double weight = asked_of (play, flow, k) / unit;
      if (play->shared[number].mark != solver->mark || !(weight > 0))
        continue;
      guint32 at = 0;
      while (g_array_index (solver->links, guint32, at) != number)
        at++;
      g_array_append_val (solver->members, at);
      g_array_append_val (solver->weights, weight);
    }
    g_array_append_val (solver->first, solver->members->len);
    g_array_append_val (solver->caps, unit);
  }
}

static void
solve_component (SimPlay *play)
{
  Solver *solver = &play->solver;
  guint n = solver->flows->len;

  if (n == 0)
    return;
  state_problem (play);
  TopoMaxmin problem = { .n_links = solver->links->len,
                         .n_classes = n,
                         .capacities = (const double *)(gpointer)solver->capacities->data,
                         .first = (const guint32 *)(gpointer)solver->first->data,
                         .links = (const guint32 *)(gpointer)solver->members->data,
                         .weights = (const double *)(gpointer)solver->weights->data,
                         .caps = (const double *)(gpointer)solver->caps->data };
  g_array_set_size (solver->rates, n);
  g_array_set_size (solver->bottlenecks, n);
  g_array_set_size (solver->work, (guint)topo_maxmin_scratch_count (&problem));
  gboolean solved = topo_maxmin_solve (&problem, (double *)(gpointer)solver->rates->data,
                                       (guint32 *)(gpointer)solver->bottlenecks->data,
                                       (double *)(gpointer)solver->work->data, NULL);
  g_return_if_fail (solved);
  for (guint i = 0; i < n; i++) {
    guint32 number = g_array_index (solver->flows, guint32, i);
    guint32 by = g_array_index (solver->bottlenecks, guint32, i);
    double pace = g_array_index (solver->rates, double, i) / unit_of (&play->flows[number]);
    flow_set_pace (play, number, fmin (pace, 1),
                   by == TOPO_MAXMIN_BY_CAP ? NOBODY : g_array_index (solver->links, guint32, by));
  }
}

/* ---- coming and going ---- */

static void
list_flow (Shared *link, guint32 flow)
{
  if (link->n_flows == link->capacity) {
    link->capacity = MAX (4, 2 * link->capacity);
    link->flows = g_renew (guint32, link->flows, link->capacity);
  }
  link->flows[link->n_flows++] = flow;
}

static void
unlist_flow (Shared *link, guint32 flow)
{
  guint32 at = 0;
  while (link->flows[at] != flow)
    at++;
  link->flows[at] = link->flows[--link->n_flows];
}

void
sharing_add (SimPlay *play, guint32 number)
{
  Flow *flow = &play->flows[number];

  begin_component (play);
  for (guint i = 0; i < flow->n_loads; i++) {
    Shared *link = link_of (play, flow, i);
    link->asked_bytes_per_s += asked_of (play, flow, i);
    list_flow (link, number);
    if (is_overfull (link))
      visit_link (play, flow->link_base + flow->loads[i].link);
  }
  if (play->solver.links->len == 0) {
    flow_set_pace (play, number, 1, NOBODY);
    return;
  }
  spread_all (play);
  solve_component (play);
}

void
sharing_remove (SimPlay *play, guint32 number)
{
  const Flow *flow = &play->flows[number];

  begin_component (play);
  for (guint i = 0; i < flow->n_loads; i++) {
    Shared *link = link_of (play, flow, i);
    if (is_overfull (link))
      visit_link (play, flow->link_base + flow->loads[i].link);
    unlist_flow (link, number);
    link->asked_bytes_per_s
        = link->n_flows == 0 ? 0 : link->asked_bytes_per_s - asked_of (play, flow, i);
  }
  spread_all (play);
  solve_component (play);
}
