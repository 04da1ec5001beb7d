/* sim/search.h - the best layouts of one problem, exactly, on any number of threads.
 *
 * Tier 1 prices every legal candidate (closed form, memory, risk); tier 2, the exact recurrence,
 * those whose lower bound beats the K-th best so far. The result is that of brute force: order by
 * step_s, ties by layout key; independent of the number of threads.
 */
#pragma once
#include "sim/space.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  guint keep;          /* K best, >= 1 */
  double max_oom_risk; /* plans above are not listed */
  guint jobs;          /* threads, >= 1 */
  gboolean
      exhaustive; /* no pruning: every legal candidate is costed by tier 1, counted by tier 2 */
  gboolean balance_stages; /* also try stage lists that balance time (reported as explicit lists) */
  guint64 limit;           /* refuse larger raw spaces, 0: none */
  /* Called from any thread, at most 20 times a second. (nullable) */
  void (*progress) (guint64 done, guint64 total, gpointer user_data);
  gboolean (*cancelled) (gpointer user_data); /* (nullable) */
  gpointer user_data;
} SimSearchOptions;

typedef struct {
  ModelLayout layout;        /* (owned) */
  CostPrediction prediction; /* (owned) tier 2 */
} SimPlan;

/* A layout that does not fit, kept when nothing does: the nearest misses. */
typedef struct {
  ModelLayout layout; /* (owned) */
  CostBound bound;
} SimMiss;

typedef struct {
  SimPlan *plans; /* (owned) best first */
  guint n_plans;
  SimMiss *misses; /* (owned) at most 3, least need first; only when n_plans == 0 */
  guint n_misses;
  guint64 legal_count;              /* distinct legal layouts */
  guint64 rejected[MODEL_LEGAL_N];  /* candidates refused, by reason */
  guint64 too_risky_count;          /* legal, above max_oom_risk (exact only when exhaustive) */
  guint64 tier1_count, tier2_count; /* work done; depends on threads, never printed in JSON */
  guint64 templates_count;
  double elapsed_s;
} SimSearchResult;
void sim_search_result_clear (SimSearchResult *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SimSearchResult, sim_search_result_clear)

gboolean sim_search (const CostProblem *problem, const SimSpace *space,
                     const SimSearchOptions *options, SimSearchResult *out, GError **error);
G_END_DECLS
