/* cli/collectives_json.h - errors of predicted collectives as JSON and as text. */
#pragma once
#include "app/validate_collectives.h"
#include "cli/cli.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS
/* The members of the contract's collectives object; the caller begins and ends it. */
void cli_json_collectives (JsonBuilder *builder, const AppCollectiveValidation *validation,
                           gboolean with_residuals);
void cli_print_collectives (const AppCollectiveValidation *validation, const CliCommon *common);
/* app_validate_collectives() and its answer. @files: NULL-terminated */
CliExit cli_validate_collectives (const CliCommon *common, const char *calibration,
                                  const char *const *files, gboolean with_residuals);
G_END_DECLS
