/* topo/reading.c - which reader a file needs, and the life of what it read. */
#include "base/text.h"
#include "topo/gpu-private.h"
#include "topo/reading-private.h"
#include <string.h>

static const char *const format_names[TOPO_FORMAT_N_KINDS] = {
  [TOPO_FORMAT_UNKNOWN] = "unknown",
  [TOPO_FORMAT_MACHINE] = "machine file",
  [TOPO_FORMAT_SMI_TOPO] = "nvidia-smi topo",
  [TOPO_FORMAT_NCCL_XML] = "NCCL XML",
  [TOPO_FORMAT_HWLOC_XML] = "hwloc XML",
  [TOPO_FORMAT_NVBANDWIDTH_JSON] = "nvbandwidth JSON",
  [TOPO_FORMAT_NCCL_TESTS_TEXT] = "nccl-tests text",
  [TOPO_FORMAT_NCCL_TESTS_JSON] = "nccl-tests JSON",
  [TOPO_FORMAT_LIVE] = "live",
};

const char *
topo_format_name (TopoFormat format)
{
  g_return_val_if_fail ((guint)format < TOPO_FORMAT_N_KINDS, "?");
  return format_names[format];
}

static gboolean
contains (const char *data, gsize length, const char *word)
{
  return data != NULL && memmem (data, length, word, strlen (word)) != NULL;
}

/* Skips blanks, comments, declarations and doctypes in front of the root element. */
static TopoFormat
detect_xml (const char *data, gsize length)
{
  const char *at = data, *end = data + length;
  while (at < end && (at = memchr (at, '<', (gsize)(end - at))) != NULL) {
    gsize left = (gsize)(end - at);
    if (left >= 4 && memcmp (at, "<!--", 4) == 0) {
      const char *close = memmem (at + 4, left - 4, "-->", 3);
      if (close == NULL)
        return TOPO_FORMAT_UNKNOWN;
      at = close + 3;
    } else if (left >= 2 && (at[1] == '?' || at[1] == '!')) {
      at += 2;
    } else if (left >= 7 && memcmp (at, "<system", 7) == 0) {
      return TOPO_FORMAT_NCCL_XML;
    } else if (left >= 9 && memcmp (at, "<topology", 9) == 0) {
      return TOPO_FORMAT_HWLOC_XML;
    } else {
      return TOPO_FORMAT_UNKNOWN;
    }
  }
  return TOPO_FORMAT_UNKNOWN;
}

/* A line that is "[machine]" and nothing else. */
static gboolean
has_machine_group (const char *data, gsize length)
{
  const char *at = data, *end = data + length;
  while ((at = memmem (at, (gsize)(end - at), "[machine]", 9)) != NULL) {
    const char *before = at, *after = at + 9;
    while (before > data && (before[-1] == ' ' || before[-1] == '\t'))
      before--;
    while (after < end && (*after == ' ' || *after == '\t' || *after == '\r'))
      after++;
    if ((before == data || before[-1] == '\n' || (guchar)before[-1] == 0xBF)
        && (after == end || *after == '\n'))
      return TRUE;
    at += 9;
  }
  return FALSE;
}

/* GPU followed by a digit, as in headers and rows of a matrix. */
static gboolean
names_a_gpu (const char *data, gsize length)
{
  const char *at = data, *end = data + length;
  while ((at = memmem (at, (gsize)(end - at), "GPU", 3)) != NULL) {
    if (at + 3 < end && g_ascii_isdigit (at[3]))
      return TRUE;
    at += 3;
  }
  return FALSE;
}

TopoFormat
topo_format_detect (const char *data, gsize length)
{
  gsize start = base_text_bom_length (data, length);
  while (start < length && g_ascii_isspace (data[start]))
    start++;
  if (start == length)
    return TOPO_FORMAT_UNKNOWN;
  if (data[start] == '<' && detect_xml (data + start, length - start) != TOPO_FORMAT_UNKNOWN)
    return detect_xml (data + start, length - start);
  if (data[start] == '{' && contains (data, length, "\"nvbandwidth\""))
    return TOPO_FORMAT_NVBANDWIDTH_JSON;
  if (data[start] == '{' && contains (data, length, "\"results\""))
    return TOPO_FORMAT_NCCL_TESTS_JSON;
  if (has_machine_group (data, length))
    return TOPO_FORMAT_MACHINE;
  if (contains (data, length, "algbw") && contains (data, length, "busbw"))
    return TOPO_FORMAT_NCCL_TESTS_TEXT;
  return names_a_gpu (data, length) ? TOPO_FORMAT_SMI_TOPO : TOPO_FORMAT_UNKNOWN;
}

static void
free_assumption (gpointer data)
{
  TopoAssumption *assumption = data;
  g_free (assumption->key);
  g_free (assumption->text);
  g_free (assumption);
}

TopoReading *
reading_new (TopoFormat format, const char *name)
{
  TopoReading *reading = g_new0 (TopoReading, 1);
  reading->format = format;
  reading->name = g_strdup (name);
  reading->assumed = g_ptr_array_new_with_free_func (free_assumption);
  reading->notes = g_ptr_array_new_with_free_func (g_free);
  reading->measurements = g_array_new (FALSE, TRUE, sizeof (TopoMeasurement));
  reading->devices = g_ptr_array_new_with_free_func (g_free);
  return reading;
}

void
topo_reading_free (TopoReading *reading)
{
  if (reading == NULL)
    return;
  g_free (reading->name);
  topo_machine_free (reading->machine);
  g_free (reading->ini);
  g_ptr_array_unref (reading->assumed);
  g_ptr_array_unref (reading->notes);
  g_array_unref (reading->measurements);
  g_ptr_array_unref (reading->devices);
  for (guint i = 0; i < reading->n_cells * reading->n_cells; i++)
    g_free (reading->cells[i]);
  g_free (reading->cells);
  g_free (reading);
}

void
reading_assume (TopoReading *reading, const char *key, const char *format, ...)
{
  TopoAssumption *assumption = g_new0 (TopoAssumption, 1);
  va_list arguments;
  va_start (arguments, format);
  assumption->key = g_strdup (key);
  assumption->text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_ptr_array_add (reading->assumed, assumption);
}

void
reading_note (TopoReading *reading, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_ptr_array_add (reading->notes, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

typedef gboolean (*GraphReader) (const char *data, gsize length, TopoReading *reading,
                                 Sketch *sketch, GError **error);
typedef gboolean (*MeasurementReader) (const char *data, gsize length, TopoReading *reading,
                                       GError **error);

static const GraphReader graph_readers[TOPO_FORMAT_N_KINDS] = {
  [TOPO_FORMAT_SMI_TOPO] = read_smi_topo,
  [TOPO_FORMAT_NCCL_XML] = read_nccl_xml,
  [TOPO_FORMAT_HWLOC_XML] = read_hwloc_xml,
};

static const MeasurementReader measurement_readers[TOPO_FORMAT_N_KINDS] = {
  [TOPO_FORMAT_NVBANDWIDTH_JSON] = read_nvbandwidth_json,
  [TOPO_FORMAT_NCCL_TESTS_TEXT] = read_nccl_tests_text,
  [TOPO_FORMAT_NCCL_TESTS_JSON] = read_nccl_tests_json,
};

static gboolean
fill (TopoReading *reading, const char *data, gsize length, const TopoReadOptions *options,
      GError **error)
{
  if (graph_readers[reading->format] != NULL) {
    g_autoptr (Sketch) sketch = sketch_new (options->catalog, error);
    return sketch != NULL && graph_readers[reading->format](data, length, reading, sketch, error)
           && reading_finish (reading, sketch, options, error);
  }
  if (measurement_readers[reading->format] != NULL)
    return measurement_readers[reading->format](data, length, reading, error)
           && (options->machine == NULL || reading_attach (reading, options, error));
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
               length == 0 ? "empty, expected a topology"
               : contains (data, length, "nvbandwidth Version")
                   ? "nvbandwidth's table is not read: give the JSON that nvbandwidth -j prints"
               : contains (data, length, "<graphs")
                   ? "the rings and trees that NCCL chose (NCCL_GRAPH_DUMP_FILE) do not tell how "
                     "GPUs are joined: give the XML of NCCL_TOPO_DUMP_FILE"
                   : "not a topology: found neither an nvidia-smi topo matrix, NCCL or "
                     "hwloc XML, a machine file, nor nccl-tests or nvbandwidth output");
  return FALSE;
}

/* UTF-16 with its byte order mark, as redirecting writes it on Windows. */
static gboolean
is_utf16 (const char *data, gsize length)
{
  return length >= 2 && (memcmp (data, "\xff\xfe", 2) == 0 || memcmp (data, "\xfe\xff", 2) == 0);
}

static TopoReading *
read_utf16 (const char *data, gsize length, const char *name, const TopoReadOptions *options,
            GError **error)
{
  gsize n = 0;
  g_autofree char *text = g_convert (data, (gssize)length, "UTF-8", "UTF-16", NULL, &n, NULL);
  if (text != NULL && !is_utf16 (text, n))
    return topo_reading_new_from_data (text, n, name, options, error);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE, "%s: begins as UTF-16 but is cut or broken",
               name);
  return NULL;
}

TopoReading *
topo_reading_new_from_data (const char *data, gsize length, const char *name,
                            const TopoReadOptions *options, GError **error)
{
  if (is_utf16 (data, length))
    return read_utf16 (data, length, name, options, error);
  TopoFormat format = topo_format_detect (data, length);
  g_autofree char *slug = topo_slug_of_file (name);
  g_autoptr (TopoReading) reading = reading_new (format, slug);
  gboolean ok = FALSE;
  if (format == TOPO_FORMAT_MACHINE) {
    g_autoptr (BaseIni) ini = base_ini_new_from_data (data, (gssize)length, name, error);
    return ini == NULL ? NULL : reading_of_machine_file (ini, slug, options, error);
  }
  ok = fill (reading, data, length, options, error);
  if (ok)
    return g_steal_pointer (&reading);
  g_prefix_error (error, "%s: ", name);
  return NULL;
}

TopoReading *
topo_reading_new_from_file (const char *path, const TopoReadOptions *options, GError **error)
{
  gsize length = 0;
  g_autofree char *data = base_text_read_file (path, TOPO_READING_MAX_BYTES, &length, TOPO_ERROR,
                                               TOPO_ERROR_PARSE, error);
  if (data == NULL)
    return NULL;
  return topo_reading_new_from_data (data, length, path, options, error);
}

TopoMachine *
topo_reading_steal_machine (TopoReading *reading, GError **error)
{
  if (reading->machine == NULL) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_NOT_FOUND,
                 "'%s' (%s) holds measurements, expected a machine", reading->name,
                 topo_format_name (reading->format));
    return NULL;
  }
  if (topo_gpu_is_unknown (reading->machine->gpu)) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_NOT_FOUND,
                 "'%s' does not tell the model of its GPUs: give --gpu", reading->name);
    return NULL;
  }
  return g_steal_pointer (&reading->machine);
}
