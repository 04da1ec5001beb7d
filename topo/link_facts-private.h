/* topo/link_facts-private.h - one file of catalog/links by itself. */
#pragma once
#include "topo/link_facts.h"
G_BEGIN_DECLS
/*
 * Fills what file @slug ("pcie", "nvlink", "inter-socket") says of @facts.
 *
 * Returns: FALSE, with @facts undefined, as topo_link_facts_init() does; or no such file is known.
 */
gboolean link_facts_read (TopoLinkFacts *facts, const char *slug, BaseIni *ini, GError **error);
G_END_DECLS
