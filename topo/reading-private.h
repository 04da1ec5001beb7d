/* topo/reading-private.h - shared by the readers. */
#pragma once
#include "topo/reading.h"
#include "topo/sketch.h"
G_BEGIN_DECLS

TopoReading *reading_new (TopoFormat format, const char *name);
TopoReading *reading_of_machine_file (BaseIni *ini, const char *slug,
                                      const TopoReadOptions *options, GError **error);
void reading_assume (TopoReading *reading, const char *key, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
void reading_note (TopoReading *reading, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* Each fills @sketch and the notes of @reading. */
gboolean read_smi_topo (const char *data, gsize length, TopoReading *reading, Sketch *sketch,
                        GError **error);
gboolean read_nccl_xml (const char *data, gsize length, TopoReading *reading, Sketch *sketch,
                        GError **error);
gboolean read_hwloc_xml (const char *data, gsize length, TopoReading *reading, Sketch *sketch,
                         GError **error);
/* These fill reading->measurements. */
gboolean read_nvbandwidth_json (const char *data, gsize length, TopoReading *reading,
                                GError **error);
gboolean read_nccl_tests_text (const char *data, gsize length, TopoReading *reading,
                               GError **error);
gboolean read_nccl_tests_json (const char *data, gsize length, TopoReading *reading,
                               GError **error);

/* Appends a [measured …] group for every curve of reading->measurements, with @source. Returns how
 * many. */
guint measured_append (GString *out, const TopoReading *reading, const char *source);
/*
 * What the log says of its GPUs against those of @machine: notes where they may differ, an error
 * where they do in what collectives rest on, the links. @out_source: (owned) the log and its GPUs.
 */
gboolean measured_check_devices (TopoReading *reading, const TopoMachine *machine,
                                 const TopoReadOptions *options, char **out_source, GError **error);
/* options->machine with what was measured, as the machine of @reading. */
gboolean reading_attach (TopoReading *reading, const TopoReadOptions *options, GError **error);

/* Resolves the GPU, writes the machine file and reads it. */
gboolean reading_finish (TopoReading *reading, Sketch *sketch, const TopoReadOptions *options,
                         GError **error);
G_END_DECLS
