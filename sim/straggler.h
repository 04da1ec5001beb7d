/* sim/straggler.h - "rank=7,slow=1.3;rank=9,slow=2": ranks whose compute takes longer. */
#pragma once
#include "sim/play.h"
#include <glib.h>
G_BEGIN_DECLS
/* Returns: (owned) GArray of SimStraggler; NULL with MODEL_ERROR_PARSE, naming pair and key. */
GArray *sim_stragglers_parse (const char *text, GError **error);
G_END_DECLS
