/* topo/change-private.h - the two places where changes are made. */
#pragma once
#include "topo/change.h"
G_BEGIN_DECLS

/* Before the machine's file is read: its keys, and the GPU it will have. @catalog: labels. */
gboolean topo_change_gpu (TopoGpu *gpu, const TopoChanges *changes, const BaseCatalog *catalog,
                          GError **error);
gboolean topo_change_file (BaseIni *ini, const TopoChanges *changes, GError **error);
/* After it: what was changed, in words. */
void topo_change_note (TopoMachine *machine, const TopoChanges *changes);
G_END_DECLS
