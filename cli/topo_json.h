/* cli/topo_json.h - the topology object of the contract. */
#pragma once
#include "topo/reading.h"
G_BEGIN_DECLS
/* Prints vertices, links, assumed, notes and measurements of @reading. */
void cli_topo_json (const TopoReading *reading);
G_END_DECLS
