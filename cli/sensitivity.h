/* cli/sensitivity.h - the sensitivity of a plan, for people and as JSON. */
#pragma once
#include "app/sensitivity.h"
#include "cli/cli.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS
void cli_sensitivity_print (const GArray *rows);
/* An array of objects; the caller has set the member's name. */
void cli_sensitivity_json (JsonBuilder *builder, const GArray *rows);
G_END_DECLS
