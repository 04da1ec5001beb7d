/* cli/simulate_output.h - a played step for people, or as JSON. */
#pragma once
#include "app/simulate.h"
#include "cli/cli.h"
G_BEGIN_DECLS
void cli_simulate_json (const AppSimulateResult *result, const AppSimulateRequest *request);
void cli_simulate_csv (const AppSimulateResult *result); /* the ranks */
void cli_simulate_text (const AppSimulateResult *result, const AppSimulateRequest *request,
                        const CliCommon *common);
/* Kinds of traffic that met on a link: "tp and dp". Returns: (owned) */
char *cli_traffic_names (guint32 traffic);
const char *cli_step_name (guint kind); /* "F", "B", "I", "W"; "tail" */
G_END_DECLS
