/* cli/plan_text.h - plans for people: one in full, or many as a table. */
#pragma once
#include "app/record.h"
#include "cli/cli.h"
G_BEGIN_DECLS
/* Everything about one plan: headline, where the time goes, memory by stage, groups, assumptions. */
void cli_print_plan (const DbPlan *plan, const CliCommon *common);
/* One plan as the common options ask: JSON, a line of CSV, or the above.
 * @fixes: (nullable) of AppFix, ranked */
void cli_output_plan (const DbPlan *plan, const GPtrArray *fixes, const CliCommon *common);
/* A table of plans; add rows with cli_plan_table_add. */
CliTable *cli_plan_table_new (gboolean csv, gboolean with_price);
void cli_plan_table_add (CliTable *table, const DbPlan *plan, gboolean csv, gboolean with_price);
/* "<0.1 %", "4.9 %", ">99.9 %". Returns: (owned) */
char *cli_format_risk (double risk);
/* "2,371,793". Returns: (owned) */
char *cli_format_usd (double usd);
/* "fits" up to the risk that plan lists (10 %), "may not fit" up to one half, "does not fit". */
const char *cli_risk_word (double risk);
G_END_DECLS
