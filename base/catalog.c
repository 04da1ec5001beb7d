/* base/catalog.c - see base/catalog.h. */
#include "base/catalog.h"

#include "base/suggest.h"
#include "base/text.h"
#include "catalog/catalog-resources.h" /* made by meson from catalog/ */

#include <gio/gio.h>
#include <string.h>

#define RESOURCE_PREFIX "/plait/catalog"
#define SUFFIX          ".ini"

G_DEFINE_QUARK (base_catalog_error_quark, base_catalog_error)

/* What base_catalog_once() has made. */
typedef struct {
  GMutex lock;
  GHashTable *by_key; /* static key -> Kept; under lock */
} Shelf;

typedef struct {
  gpointer value;
  GDestroyNotify destroy;
} Kept;

struct _BaseCatalog {
  GPtrArray *dirs; /* of char *, looked up in this order before the embedded files */
  Shelf *shelf;    /* (owned) */
};

static void
kept_free (gpointer data)
{
  Kept *kept = data;
  kept->destroy (kept->value);
  g_free (kept);
}

static gboolean
add_dir (BaseCatalog *catalog, const char *dir, const char *origin, GError **error)
{
  if (dir == NULL)
    return TRUE;
  if (!g_file_test (dir, G_FILE_TEST_IS_DIR)) {
    g_set_error (error, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_READ,
                 "%s: found '%s', expected a folder", origin, dir);
    return FALSE;
  }
  g_ptr_array_add (catalog->dirs, g_strdup (dir));
  return TRUE;
}

BaseCatalog *
base_catalog_new (const char *dir, GError **error)
{
  g_autoptr (BaseCatalog) catalog = g_new0 (BaseCatalog, 1);
  catalog->dirs = g_ptr_array_new_with_free_func (g_free);
  catalog->shelf = g_new (Shelf, 1);
  catalog->shelf->by_key = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, kept_free);
  g_mutex_init (&catalog->shelf->lock);

  const char *from_environment = g_getenv ("PLAIT_CATALOG");
  if (from_environment != NULL && *from_environment == '\0')
    from_environment = NULL;
  if (!add_dir (catalog, dir, "--catalog", error)
      || !add_dir (catalog, from_environment, "$PLAIT_CATALOG", error))
    return NULL;
  return g_steal_pointer (&catalog);
}

void
base_catalog_free (BaseCatalog *catalog)
{
  if (catalog == NULL)
    return;
  g_ptr_array_unref (catalog->dirs);
  g_hash_table_unref (catalog->shelf->by_key);
  g_mutex_clear (&catalog->shelf->lock);
  g_free (catalog->shelf);
  g_free (catalog);
}

gconstpointer
base_catalog_once (const BaseCatalog *catalog, const char *key, BaseCatalogMake make,
                   GDestroyNotify destroy, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&catalog->shelf->lock);
  const Kept *found = g_hash_table_lookup (catalog->shelf->by_key, key);
  if (found != NULL)
    return found->value;
  gpointer value = make (catalog, error);
  if (value == NULL)
    return NULL;
  Kept *kept = g_new (Kept, 1);
  *kept = (Kept){ value, destroy };
  g_hash_table_insert (catalog->shelf->by_key, (gpointer)key, kept);
  return value;
}

/* Adds the slug of file @name to the set @slugs, if it is an entry. */
static void
add_slug (GHashTable *slugs, const char *name)
{
  if (g_str_has_suffix (name, SUFFIX) && strlen (name) > strlen (SUFFIX))
    g_hash_table_add (slugs, g_strndup (name, strlen (name) - strlen (SUFFIX)));
}

static void
add_slugs_of_dir (GHashTable *slugs, const char *dir, const char *kind)
{
  g_autofree char *path = g_build_filename (dir, kind, NULL);
  /* A folder of the user may hold some kinds only. */
  g_autoptr (GDir) open_dir = g_dir_open (path, 0, NULL);
  const char *name;
  while (open_dir != NULL && (name = g_dir_read_name (open_dir)) != NULL)
    add_slug (slugs, name);
}

static int
compare_strings (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

char **
base_catalog_list (const BaseCatalog *catalog, const char *kind)
{
  g_autoptr (GHashTable) slugs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < catalog->dirs->len; i++)
    add_slugs_of_dir (slugs, g_ptr_array_index (catalog->dirs, i), kind);

  g_autofree char *prefix = g_strconcat (RESOURCE_PREFIX "/", kind, NULL);
  g_auto (GStrv) embedded
      = g_resource_enumerate_children (plait_catalog_get_resource (), prefix, 0, NULL);
  for (char **name = embedded; name != NULL && *name != NULL; name++)
    add_slug (slugs, *name);

  guint n = 0;
  char **list = (char **)g_hash_table_get_keys_as_array (slugs, &n);
  g_hash_table_steal_all (slugs);
  qsort (list, n, sizeof *list, compare_strings);
  return list;
}

/* Slugs name files: nothing that could leave the folder of the kind. */
static gboolean
is_slug (const char *name)
{
  return *name != '\0' && *name != '.' && strpbrk (name, "/\\") == NULL
         && g_utf8_validate (name, -1, NULL);
}

/* Path of the user's own KIND/SLUG.ini, or NULL. Returns: (owned). */
static char *
find_file (const BaseCatalog *catalog, const char *kind, const char *slug)
{
  g_autofree char *base = g_strconcat (slug, SUFFIX, NULL);
  for (guint i = 0; i < catalog->dirs->len; i++) {
    g_autofree char *path
        = g_build_filename (g_ptr_array_index (catalog->dirs, i), kind, base, NULL);
    if (g_file_test (path, G_FILE_TEST_EXISTS))
      return g_steal_pointer (&path);
  }
  return NULL;
}

static char *
resource_path (const char *kind, const char *slug)
{
  return g_strconcat (RESOURCE_PREFIX "/", kind, "/", slug, SUFFIX, NULL);
}

static gboolean
has_slug (const BaseCatalog *catalog, const char *kind, const char *slug)
{
  if (!is_slug (slug))
    return FALSE;
  g_autofree char *file = find_file (catalog, kind, slug);
  g_autofree char *resource = resource_path (kind, slug);
  return file != NULL
         || g_resource_get_info (plait_catalog_get_resource (), resource, 0, NULL, NULL, NULL);
}

static void
set_not_found (const BaseCatalog *catalog, const char *kind, const char *slug, GError **error)
{
  g_auto (GStrv) known = base_catalog_list (catalog, kind);
  g_autofree char *shown = base_text_excerpt (slug, -1);
  const char *near = base_suggest (slug, (const char *const *)known);
  g_autofree char *all = g_strjoinv (", ", known);
  g_autofree char *hint = near != NULL ? g_strdup_printf ("did you mean '%s'?", near)
                                       : g_strdup_printf ("it has %s; a file is named by its path",
                                                          *all != '\0' ? all : "none");
  g_set_error (error, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_NOT_FOUND,
               "no '%s' among the %s of the catalog: %s", shown, kind, hint);
}

BaseIni *
base_catalog_open (const BaseCatalog *catalog, const char *kind, const char *slug, GError **error)
{
  g_return_val_if_fail (catalog != NULL && kind != NULL && slug != NULL, NULL);

  if (!is_slug (slug)) {
    set_not_found (catalog, kind, slug, error);
    return NULL;
  }
  g_autofree char *file = find_file (catalog, kind, slug);
  if (file != NULL)
    return base_ini_new_from_file (file, error);

  g_autofree char *resource = resource_path (kind, slug);
  g_autoptr (GBytes) bytes
      = g_resource_lookup_data (plait_catalog_get_resource (), resource, 0, NULL);
  if (bytes == NULL) {
    set_not_found (catalog, kind, slug, error);
    return NULL;
  }
  gsize length = 0;
  const char *data = g_bytes_get_data (bytes, &length);
  g_autofree char *name = g_strconcat ("catalog/", kind, "/", slug, SUFFIX, NULL);
  return base_ini_new_from_data (data, (gssize)length, name, error);
}

BaseIni *
base_catalog_open_any (const BaseCatalog *catalog, const char *kind, const char *name,
                       gboolean *out_is_file, GError **error)
{
  g_return_val_if_fail (catalog != NULL && kind != NULL && name != NULL, NULL);

  gboolean is_file
      = strchr (name, '/') != NULL || g_str_has_suffix (name, SUFFIX)
        || (!has_slug (catalog, kind, name) && g_file_test (name, G_FILE_TEST_IS_REGULAR));
  if (out_is_file != NULL)
    *out_is_file = is_file;
  return is_file ? base_ini_new_from_file (name, error)
                 : base_catalog_open (catalog, kind, name, error);
}
