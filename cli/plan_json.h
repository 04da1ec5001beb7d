/* cli/plan_json.h - the plan object of the contract. */
#pragma once
#include "app/fixes.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS
/* Adds one plan object as the builder's next value. NaN becomes null. */
void cli_json_plan (JsonBuilder *builder, const DbPlan *plan);
/* The same with "fixes": what lowers the risk, cheapest first. @fixes: (nullable) of AppFix */
void cli_json_plan_with_fixes (JsonBuilder *builder, const DbPlan *plan, const GPtrArray *fixes);
void cli_json_text (JsonBuilder *builder, const char *key, const char *value);
void cli_json_count (JsonBuilder *builder, const char *key, gint64 value);
void cli_json_number (JsonBuilder *builder, const char *key, double value);
void cli_json_bool (JsonBuilder *builder, const char *key, gboolean value);
/* Prints the builder's root, pretty, to stdout. */
void cli_json_print (JsonBuilder *builder);
G_END_DECLS
