/* app/catalog.h - use case: what the catalog holds. */
#pragma once
#include "app/error.h"
#include "base/catalog.h"
#include "model/arch.h"
#include "model/params.h"
#include "model/profile.h"
#include "topo/cluster.h"
#include <glib.h>
G_BEGIN_DECLS
/* @name NULL: every entry in slug order; else that one (slug or file). (owned) arrays that own
 * their entries; NULL on error. */
GPtrArray *app_catalog_models (const char *catalog_dir, const char *name,
                               GError **error); /* ModelArch */
GPtrArray *app_catalog_machines (const char *catalog_dir, const char *name,
                                 GError **error); /* TopoMachine */
GPtrArray *app_catalog_gpus (const char *catalog_dir, const char *name,
                             GError **error); /* TopoGpu */
GPtrArray *app_catalog_profiles (const char *catalog_dir, const char *name,
                                 GError **error); /* ModelProfile */
G_END_DECLS
