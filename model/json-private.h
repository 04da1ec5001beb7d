/* model/json-private.h - JSON as RFC 8259 has it, and typed reads of one object of a config.json.
 *
 * json-glib accepts more than JSON (comments, octal numbers, "var x =", duplicate keys, nesting
 * without end) and lets integers wrap at 2^63; a checker runs before it.
 */
#pragma once
#include "model/arch.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS

/*
 * Checks that @text is one JSON value, in UTF-8, nested at most 64 deep, without duplicate keys.
 *
 * Returns: (owned) NUL-terminated text for json-glib, in which integers of more than 18 digits are
 * written as fractions ("1e30" and 2^64 then read as what they are); NULL with
 * MODEL_ERROR_PARSE, "NAME:LINE: found …, expected …".
 */
char *model_json_check (const char *text, gsize length, const char *name, GError **error);

/*
 * One object of a config.json being read into an architecture. The first failure sticks in @error;
 * getters then return zero without looking, so a reader asks once at its end.
 */
typedef struct {
  JsonObject *object; /* (borrowed) */
  const char *name;   /* of the file, in messages */
  const char *prefix; /* "" or "text_config." */
  ModelArch *arch;    /* (borrowed) takes the notes about absent keys */
  GError *error;      /* (owned) */
} HfReader;

/* Names under which one value may stand, the current one first. */
#define HF_KEYS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Present and not null under one of @keys. Two names with different values are an error. */
gboolean hf_has (HfReader *reader, const char *const *keys);
/* Present and null. */
gboolean hf_is_null (const HfReader *reader, const char *key);

/* Whole number in [min, max]; the first form requires it, the second notes @fallback as assumed
 * because of @why, the third says nothing (absence has one meaning). */
guint64 hf_count (HfReader *reader, const char *const *keys, guint64 min, guint64 max);
guint64 hf_count_or (HfReader *reader, const char *const *keys, guint64 min, guint64 max,
                     guint64 fallback, const char *why);
guint64 hf_count_quiet (HfReader *reader, const char *const *keys, guint64 min, guint64 max,
                        guint64 fallback);

gboolean hf_bool (HfReader *reader, const char *key, gboolean fallback);
gboolean hf_bool_or (HfReader *reader, const char *key, gboolean fallback, const char *why);
/* Number in [0, 1]. */
double hf_ratio (HfReader *reader, const char *key, double fallback);
double hf_ratio_or (HfReader *reader, const char *key, double fallback, const char *why);
/* (borrowed) text, NULL when absent or null. */
const char *hf_string (HfReader *reader, const char *key);
/* (borrowed) NULL when absent or null. */
JsonArray *hf_array (HfReader *reader, const char *key);
JsonObject *hf_object (HfReader *reader, const char *key);

/* Sets the sticky error "NAME: KEY: MESSAGE". */
void hf_fail (HfReader *reader, ModelError code, const char *key, const char *format, ...)
    G_GNUC_PRINTF (4, 5);

G_END_DECLS
