/* topo/smi_unwrap.h - lines of a matrix that a terminal broke at its width, whole again. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/*
 * @data with the pieces of a row or header joined. Line breaks that were taken out follow the joined
 * line, so that all other lines keep their numbers.
 *
 * A line continues a row where it has no device of its own and holds but cells and affinities, a
 * header where it names but devices and titles. A word cut in two is put together where the whole is
 * a word of a matrix.
 *
 * @out_joined: (out) how many line breaks were taken out
 * Returns: (owned)
 */
GString *smi_unwrap (const char *data, gsize length, guint *out_joined);
G_END_DECLS
