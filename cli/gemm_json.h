/* cli/gemm_json.h - errors of predicted kernels as JSON and as text. */
#pragma once
#include "app/validate_gemm.h"
#include "cli/cli.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS
/* The members of the object; the caller begins and ends it. */
void cli_json_gemm (JsonBuilder *builder, const AppGemmValidation *validation,
                    gboolean with_residuals);
void cli_print_gemm (const AppGemmValidation *validation, const CliCommon *common);
/* app_validate_gemm() and its answer. @paths: NULL-terminated */
CliExit cli_validate_gemm (const CliCommon *common, const char *calibration,
                           const char *const *paths, gboolean with_residuals);
G_END_DECLS
