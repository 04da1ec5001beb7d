/* app/advice-private.h - what to tell beside the table. */
#pragma once
#include "app/plan.h"
G_BEGIN_DECLS
/*
 * Fills point->advice: why plain data parallelism is the answer where one GPU suffices; what would
 * make the nearest misses fit where nothing fits.
 */
gboolean app_advise (AppPlanPoint *point, const AppProblem *problem,
                     const SimSearchOptions *options, const ModelLayout *pins, guint32 pinned,
                     GError **error);
G_END_DECLS
