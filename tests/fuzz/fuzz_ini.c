/* tests/fuzz/fuzz_ini.c - any bytes as an INI file, then every getter on every key of it. */
#include "base/ini.h"
#include "tests/fuzz/fuzz.h"

static void
read_key (BaseIni *ini, const char *group, const char *key)
{
  static const char *const names[] = { "one", "two", NULL };
  GError *error = NULL;
  double number = 0;
  guint64 whole = 0;
  gboolean flag = FALSE, ok;
  guint choice = 0;

  fuzz_require (base_ini_line (ini, group, key) > 0);
  ok = base_ini_get_string (ini, group, key, &error) != NULL;
  fuzz_require_outcome (ok, &error);
  /* One dimension a key, by its line: fuzz_units tries all of them on every text. */
  BaseDim dim = (BaseDim)(base_ini_line (ini, group, key) % BASE_DIM_N_KINDS);
  ok = base_ini_get_number (ini, group, key, dim, 0, 1e6, &number, &error);
  fuzz_require (!ok || (number >= 0 && number <= 1e6));
  fuzz_require_outcome (ok, &error);
  ok = base_ini_get_count (ini, group, key, 1, 100, &whole, &error);
  fuzz_require_outcome (ok, &error);
  ok = base_ini_get_bytes (ini, group, key, &whole, &error);
  fuzz_require_outcome (ok, &error);
  ok = base_ini_get_bool_optional (ini, group, key, &flag, &error);
  fuzz_require_outcome (ok, &error);
  ok = base_ini_get_enum_optional (ini, group, key, names, &choice, &error);
  fuzz_require_outcome (ok, &error);
  g_auto (GStrv) list = base_ini_get_list (ini, group, key);
  for (char **item = list; *item != NULL; item++)
    fuzz_require (**item != '\0');
}

static void
read_group (BaseIni *ini, const char *group)
{
  GError *error = NULL;
  double unused = 0;
  g_autofree const char **keys = base_ini_keys (ini, group);
  fuzz_require (base_ini_line (ini, group, NULL) > 0);
  gboolean ok
      = base_ini_get_number (ini, group, "no such key", BASE_DIM_BYTES, 0, 1, &unused, &error);
  fuzz_require (!ok);
  fuzz_require_outcome (ok, &error);
  for (guint i = 0; keys[i] != NULL; i++)
    read_key (ini, group, keys[i]);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const char *const known[] = { "layers", "hidden", "bandwidth", NULL };
  GError *error = NULL;
  g_autoptr (BaseIni) ini
      = base_ini_new_from_data ((const char *)data, (gssize)size, "fuzz.ini", &error);
  fuzz_require_outcome (ini != NULL, &error);
  if (ini == NULL)
    return 0;

  gboolean nothing_there = base_ini_n_groups (ini) == 0;
  gboolean ok = base_ini_finish (ini, known, &error);
  fuzz_require (ok == nothing_there);
  fuzz_require_outcome (ok, &error);
  for (guint i = 0; i < base_ini_n_groups (ini); i++)
    read_group (ini, base_ini_group_name (ini, i));
  /* Everything was asked for, so nothing is left to refuse. */
  ok = base_ini_finish (ini, known, &error);
  fuzz_require (ok);
  return 0;
}
