/* base/catalog.h - where facts are found: a folder of the user's first, the embedded one last.
 *
 * A catalog is a tree KIND/SLUG.ini (kinds: models machines gpus links profiles
 * calibrations). Look-up order: the folder given with --catalog, $PLAIT_CATALOG, the GResource
 * /plait/catalog that every program links. An entry found earlier hides the same slug later.
 */
#pragma once
#include "base/ini.h"
#include <glib.h>
G_BEGIN_DECLS

#define BASE_CATALOG_ERROR (base_catalog_error_quark ())
GQuark base_catalog_error_quark (void);
typedef enum {
  BASE_CATALOG_ERROR_NOT_FOUND, /* no such slug; the message suggests the nearest */
  BASE_CATALOG_ERROR_READ,      /* found but unreadable, or the folder is none */
} BaseCatalogError;

typedef struct _BaseCatalog BaseCatalog;

/* @dir: (nullable) folder of --catalog. Fails if @dir or $PLAIT_CATALOG is set but no folder. */
BaseCatalog *base_catalog_new (const char *dir, GError **error);
void base_catalog_free (BaseCatalog *catalog);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BaseCatalog, base_catalog_free)

/*
 * What @make makes of the catalog's files, made once and kept with it. A failure is not kept.
 * @key: static, one per @make. @make must not call this itself. Safe in several threads.
 * Returns: (borrowed) or NULL.
 */
typedef gpointer (*BaseCatalogMake) (const BaseCatalog *catalog, GError **error);
gconstpointer base_catalog_once (const BaseCatalog *catalog, const char *key, BaseCatalogMake make,
                                 GDestroyNotify destroy, GError **error);

/* Slugs of @kind, sorted, each once. Returns: (owned) strv. */
char **base_catalog_list (const BaseCatalog *catalog, const char *kind);

/* Opens KIND/SLUG.ini. Returns: (owned) or NULL. */
BaseIni *base_catalog_open (const BaseCatalog *catalog, const char *kind, const char *slug,
                            GError **error);

/*
 * @name is a slug, or the path of a file (it contains '/' or ends in ".ini", or such a file
 * exists and no slug of that name does). *out_is_file (out, nullable) says which.
 */
BaseIni *base_catalog_open_any (const BaseCatalog *catalog, const char *kind, const char *name,
                                gboolean *out_is_file, GError **error);
G_END_DECLS
