/* base/ini-private.h - what an INI file is in memory; for base/ini*.c only. */
#pragma once
#include "base/ini.h"
G_BEGIN_DECLS

typedef struct {
  char *name;
  char *value;
  guint line;
  gboolean used;
} IniKey;

typedef struct {
  char *name;
  guint line;
  gboolean used_whole; /* every key is known: base_ini_mark_used (ini, group, NULL) */
  GPtrArray *keys;     /* of IniKey, file order */
  GHashTable *by_name; /* name (borrowed) -> IniKey (borrowed) */
} IniGroup;

/* Names of keys that someone asked for, in that order. */
typedef struct {
  GPtrArray *names; /* (owned) */
  GHashTable *seen; /* the same names (borrowed), as a set */
} IniAsked;

struct _BaseIni {
  char *name;
  GPtrArray *groups;   /* of IniGroup, file order */
  GHashTable *by_name; /* name (borrowed) -> IniGroup (borrowed) */
  GHashTable *asked;   /* group (owned) -> IniAsked */
};

BaseIni *base_ini_alloc (const char *name);
IniGroup *base_ini_find_group (const BaseIni *ini, const char *group);
IniKey *base_ini_find_key (const BaseIni *ini, const char *group, const char *key);

void base_ini_asked_free (gpointer asked);

/* Remembers that (@group, @key) is a name the program knows; @key may be NULL. */
void base_ini_note_asked (const BaseIni *ini, const char *group, const char *key);

/* Fills @ini from @length bytes at @data. */
gboolean base_ini_parse (BaseIni *ini, const char *data, gsize length, GError **error);

/* "FILE:LINE: [group] key: MESSAGE" with any code. */
void base_ini_set_error_code (const BaseIni *ini, BaseIniError code, const char *group,
                              const char *key, GError **error, const char *format, ...)
    G_GNUC_PRINTF (6, 7);
G_END_DECLS
