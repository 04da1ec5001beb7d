/* cli/plan_run_json.h - what a search found, as JSON. */
#pragma once
#include "app/plan.h"
#include "cli/plan_rank.h"
G_BEGIN_DECLS
/*
 * Prints {"run", "plans", "rejected", "misses", "notes"} and, where there are any, "ranking" and
 * "sensitivity". misses: what came nearest at search points where nothing fits; notes: as under the
 * tables. run.interrupted: not all of run.points_count search points were searched.
 *
 * @ranked: (nullable) of app_plan_rank. @sensitivity: (nullable) of each point, its AppSensitivity
 */
void cli_plan_run_json (const AppPlanResult *result, const AppPlanRequest *request,
                        const CliRank *rank, const GArray *ranked, const GPtrArray *sensitivity);
G_END_DECLS
