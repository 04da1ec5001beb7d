/* cli/topo_json.h - the topology object of the contract. */
#pragma once
#include "app/topo.h"
G_BEGIN_DECLS
/* Prints vertices, links, assumed, notes and measurements of @reading. */
void cli_topo_json (const TopoReading *reading);
/* Prints {"expected": …, "differences": […]}. */
void cli_topo_differences_json (const char *expected, const GPtrArray *differences);
G_END_DECLS
