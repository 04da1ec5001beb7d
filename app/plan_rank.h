/* app/plan_rank.h - which search point of a sweep is best for an objective.
 *
 * A point is judged by its best plan: within one machine and GPU count the fastest plan is also
 * the cheapest. Money is the machine's price times GPUs times time.
 */
#pragma once
#include "app/plan.h"
G_BEGIN_DECLS

typedef enum {
  APP_OBJECTIVE_TIME,              /* least time for the tokens */
  APP_OBJECTIVE_COST,              /* least money for the tokens */
  APP_OBJECTIVE_TOKENS_PER_DOLLAR, /* most tokens for the money: the same order as cost */
  APP_OBJECTIVE_GPUS,              /* fewest GPUs, then least time */
  APP_OBJECTIVE_N_KINDS
} AppObjective;
const char *app_objective_name (AppObjective objective); /* "time", "tokens-per-dollar", … */
gboolean app_objective_parse (const char *text, AppObjective *out, GError **error);

typedef struct {
  AppObjective objective;
  double tokens;     /* to train on; 0: per 10^12 tokens, without a total */
  double deadline_s; /* INFINITY: none; needs tokens */
} AppRankRequest;

typedef struct {
  const AppPlanPoint *point; /* (borrowed) with a plan */
  double tokens_per_s;       /* of all GPUs */
  double time_s;             /* for the tokens, or for 10^12 */
  double cost_usd;           /* for the tokens, or for 10^12; NaN: no price known */
  double tokens_per_usd;     /* NaN: no price known */
  gboolean meets_deadline;
  gboolean is_pareto; /* none that meets the deadline is better in one of time, GPUs and cost, and
                         no worse in the others */
} AppRanked;

/* Points with a plan, best first: those that meet the deadline before those that do not; those
 * without a price last where money is asked for. Returns: (owned) GArray of AppRanked. */
GArray *app_plan_rank (const AppPlanResult *result, const AppRankRequest *request);
G_END_DECLS
