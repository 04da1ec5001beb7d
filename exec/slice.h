/* exec/slice.h - one rank of a plan alone on its device, for plans that need more devices than are
 * there.
 *
 * Everything the rank computes is computed; the others are not there: a sum stays the rank's own
 * part, a gather holds its part at every place, messages that are received are a constant. What it
 * computes is therefore no training, but takes as long as one. What talking takes is priced, not
 * measured.
 */
#pragma once
#include "exec/backend.h"
G_BEGIN_DECLS
/* @backend as rank @rank has it without the others; one per process. (borrowed, for good) */
const ExecBackend *exec_slice_of (const ExecBackend *backend, guint32 rank);
G_END_DECLS
