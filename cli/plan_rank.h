/* cli/plan_rank.h - search points of a sweep in order, for people and as JSON. */
#pragma once
#include "app/plan_rank.h"
#include "cli/cli.h"
#include <json-glib/json-glib.h>
G_BEGIN_DECLS

/* --objective, --pareto, --tokens and --deadline as written. */
typedef struct {
  AppRankRequest request;
  gboolean only_pareto; /* leave out the rest */
  gboolean asked;       /* one of the options was given */
} CliRank;
gboolean cli_rank_parse (const char *objective, gboolean pareto, const char *tokens,
                         const char *deadline, CliRank *out, GError **error);

/* @ranked: of app_plan_rank. Drops what only_pareto leaves out. */
void cli_rank_filter (const CliRank *rank, GArray *ranked);
void cli_rank_print (const CliRank *rank, const GArray *ranked);
/* The member "ranking" of the answer. */
void cli_rank_json (JsonBuilder *builder, const CliRank *rank, const GArray *ranked);
/* Is there a point that meets the deadline, where one was set? */
gboolean cli_rank_is_met (const CliRank *rank, const GArray *ranked);
G_END_DECLS
