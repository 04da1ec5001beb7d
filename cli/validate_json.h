/* cli/validate_json.h - a validation as JSON and as text. */
#pragma once
#include "app/validate.h"
#include "cli/cli.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS
/* The members of the validation object; the caller begins and ends it. */
void cli_json_validation (JsonBuilder *builder, const AppValidation *validation,
                          gboolean with_residuals);
/* Errors as the member @key, or as members of the object that is open. */
void cli_json_stats (JsonBuilder *builder, const char *key, const AppErrorStats *stats);
void cli_json_stats_members (JsonBuilder *builder, const AppErrorStats *stats);
/* AppCounts as the member @key: a number by name. */
void cli_json_counts (JsonBuilder *builder, const char *key, const GArray *counts);
/* @n_worst rows with their breakdown; --csv prints one line per row instead. */
void cli_print_validation (const AppValidation *validation, guint n_worst, const CliCommon *common);
/* Columns that look misspelt, as notes on stderr. */
void cli_print_hints (const AppValidation *validation);
G_END_DECLS
