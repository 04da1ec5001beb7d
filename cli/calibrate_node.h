/* cli/calibrate_node.h - the forms of plait calibrate that measure this node or look back. */
#pragma once
#include "app/calibrate_node.h"
#include "cli/cli.h"
G_BEGIN_DECLS
/* Measures (or refits) and prints. */
CliExit cli_calibrate_node (const AppCalibrateNodeRequest *request, const CliCommon *common);
/* @name: (nullable) the latest */
CliExit cli_calibrate_show (const char *name, const CliCommon *common);
CliExit cli_calibrate_compare (const char *a, const char *b, const CliCommon *common);
/* Words after "calibration" of a line: "'NAME' from 412 measurements". */
void cli_print_node_calibration (const AppNodeCalibration *c, const CliCommon *common);
G_END_DECLS
