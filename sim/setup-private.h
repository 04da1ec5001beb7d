/* sim/setup-private.h - the parts a play is made of, before it starts. */
#pragma once
#include "sim/play-private.h"
G_BEGIN_DECLS
void sim_tail_init (Tail *tail, const SimCase *c, guint32 pp_rank);
/* Bytes of @pp_rank: alive all the time; during the optimizer step; the closed form's peak. */
void sim_rank_memory (const SimCase *c, guint32 pp_rank, guint64 *out_static, guint64 *out_step,
                      guint64 *out_closed);
/* Players and who waits for whom (sim/players.c). */
gboolean sim_players_init (SimPlay *play, GError **error);
/* The accounts of a play that is over. */
void sim_fill_result (const SimPlay *play, SimResult *out);
G_END_DECLS
