/* base/ini.h - strict INI files: what a user's model, machine, GPU, profile or calibration is.
 *
 * Lines: "[group]", "[group argument]", "key = value", blank, and comments ("#" or ";" first on
 * the line, or " #" after a value). A duplicate group or key, a key outside a group, a line that
 * is none of these, a NUL byte or invalid UTF-8 is an error naming file and line.
 *
 * Reading marks a key as used. base_ini_finish() then refuses whatever nobody asked for, with the
 * nearest known name, so that a typo is never ignored.
 */
#pragma once
#include "base/units.h"
#include <glib.h>
G_BEGIN_DECLS

#define BASE_INI_ERROR (base_ini_error_quark ())
GQuark base_ini_error_quark (void);

typedef enum {
  BASE_INI_ERROR_PARSE,   /* not an INI file */
  BASE_INI_ERROR_MISSING, /* a required group or key is absent */
  BASE_INI_ERROR_VALUE,   /* the value is not what the key needs */
  BASE_INI_ERROR_UNKNOWN, /* a group or key nobody knows */
  BASE_INI_ERROR_READ,    /* the file could not be read */
} BaseIniError;

typedef struct _BaseIni BaseIni;

/* @name: how messages call the file. Returns: (owned) or NULL. */
BaseIni *base_ini_new_from_data (const char *data, gssize length, const char *name, GError **error);
BaseIni *base_ini_new_from_file (const char *path,
                                 GError **error); /* refuses > 16 MiB, non-files */
void base_ini_free (BaseIni *ini);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BaseIni, base_ini_free)

const char *base_ini_name (const BaseIni *ini);

/* Groups in file order. A group "[link nvlink4]" has the full name "link nvlink4". */
guint base_ini_n_groups (const BaseIni *ini);
const char *base_ini_group_name (const BaseIni *ini, guint index); /* (borrowed) */
gboolean base_ini_has_group (const BaseIni *ini, const char *group);
gboolean base_ini_has_key (const BaseIni *ini, const char *group, const char *key);
/* Keys of @group in file order. Returns: (owned) NULL-terminated vector of borrowed names. */
const char **base_ini_keys (const BaseIni *ini, const char *group);
/* Line of @key in @group (of the group header when @key is NULL), 0 if absent. */
guint base_ini_line (const BaseIni *ini, const char *group, const char *key);

/*
 * Typed getters. All mark the key as used. The "required" forms fail with
 * BASE_INI_ERROR_MISSING when the key is absent; the "optional" forms leave *out untouched and
 * return TRUE. Messages read "FILE:LINE: [group] key: found 'x', expected …".
 */
const char *base_ini_get_string (BaseIni *ini, const char *group, const char *key, GError **error);
const char *base_ini_get_string_or (BaseIni *ini, const char *group, const char *key,
                                    const char *fallback);
gboolean base_ini_get_number (BaseIni *ini, const char *group, const char *key, BaseDim dim,
                              double min, double max, double *out, GError **error);
gboolean base_ini_get_number_optional (BaseIni *ini, const char *group, const char *key,
                                       BaseDim dim, double min, double max, double *out,
                                       GError **error);
gboolean base_ini_get_count (BaseIni *ini, const char *group, const char *key, guint64 min,
                             guint64 max, guint64 *out, GError **error);
gboolean base_ini_get_count_optional (BaseIni *ini, const char *group, const char *key, guint64 min,
                                      guint64 max, guint64 *out, GError **error);
gboolean base_ini_get_bytes (BaseIni *ini, const char *group, const char *key, guint64 *out,
                             GError **error);
/* yes/no, true/false, 1/0. */
gboolean base_ini_get_bool_optional (BaseIni *ini, const char *group, const char *key,
                                     gboolean *out, GError **error);
/* One of the NULL-terminated @names; *out is its index. */
gboolean base_ini_get_enum_optional (BaseIni *ini, const char *group, const char *key,
                                     const char *const *names, guint *out, GError **error);
/* Comma-separated list, items trimmed, empty ones dropped. Returns: (owned) strv, empty when absent. */
char **base_ini_get_list (BaseIni *ini, const char *group, const char *key);

/* Builds an error "FILE:LINE: [group] key: MESSAGE" for a check the caller made itself. */
void base_ini_set_error (const BaseIni *ini, const char *group, const char *key, GError **error,
                         const char *format, ...) G_GNUC_PRINTF (5, 6);

/* Marks a key or a whole group (key NULL) as known without reading it. */
void base_ini_mark_used (BaseIni *ini, const char *group, const char *key);

/* Gives @key, which must be there, another value, as if the file had it. */
void base_ini_replace (BaseIni *ini, const char *group, const char *key, const char *value);

/*
 * Refuses the first group or key never asked for.
 * @known_keys: (nullable) NULL-terminated names to suggest from, beside those already asked for.
 */
gboolean base_ini_finish (BaseIni *ini, const char *const *known_keys, GError **error);

G_END_DECLS
