/* sim/players.c - who plays: one rank for all that behave alike, or every rank; and their groups. */
#include "sim/setup-private.h"

#include "model/error.h"

#include <string.h>

/* Pipelines (data-parallel index) with stragglers in them are played for themselves. */
typedef struct {
  guint32 index; /* data-parallel */
  guint32 stands_for;
} Lane;

static guint32
ranks_per_stage (const ModelLayout *layout)
{
  return layout->tp * layout->cp * layout->dp;
}

static gboolean
check_stragglers (const SimPlayOptions *options, guint32 world, GError **error)
{
  for (guint i = 0; i < options->n_stragglers; i++) {
    const SimStraggler *straggler = &options->stragglers[i];
    if (straggler->rank >= world) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                   "straggler rank=%u: found a rank that is not there, expected 0 to %u",
                   straggler->rank, world - 1);
      return FALSE;
    }
    if (!(straggler->slow > 0) || !(straggler->slow <= 1000)) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                   "straggler rank=%u: found slow=%g, expected a factor above 0 and up to 1000",
                   straggler->rank, straggler->slow);
      return FALSE;
    }
    for (guint k = 0; k < i; k++)
      if (options->stragglers[k].rank == straggler->rank) {
        g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE, "straggler rank=%u: named twice",
                     straggler->rank);
        return FALSE;
      }
  }
  return TRUE;
}

/* Distinct pipelines of the stragglers, and one for all others if there are any. */
static GArray *
find_lanes (const SimPlay *play)
{
  const ModelLayout *layout = &play->c->layout;
  GArray *lanes = g_array_new (FALSE, FALSE, sizeof (Lane));
  guint32 together = layout->tp * layout->cp, other = 0;

  for (guint i = 0; i < play->options.n_stragglers; i++) {
    guint32 index = play->options.stragglers[i].rank % ranks_per_stage (layout) / together;
    guint k = 0;
    while (k < lanes->len && g_array_index (lanes, Lane, k).index != index)
      k++;
    Lane lane = { index, together };
    if (k == lanes->len)
      g_array_append_val (lanes, lane);
  }
  if (lanes->len == layout->dp)
    return lanes;
  for (guint k = 0; k < lanes->len; k++)
    if (g_array_index (lanes, Lane, k).index == other) {
      other++;
      k = G_MAXUINT; /* from the start */
    }
  Lane rest = { other, together * (layout->dp - lanes->len) };
  g_array_append_val (lanes, rest);
  return lanes;
}

static double
slow_of (const SimPlay *play, guint32 first, guint32 count)
{
  /* ranks that wait for each other all the time go at the pace of the slowest */
  double slow = 0;
  guint32 named = 0;
  for (guint i = 0; i < play->options.n_stragglers; i++) {
    const SimStraggler *straggler = &play->options.stragglers[i];
    if (straggler->rank < first || straggler->rank >= first + count)
      continue;
    slow = MAX (slow, straggler->slow);
    named++;
  }
  return named < count ? MAX (slow, 1) : slow;
}

static void
init_player (SimPlay *play, Player *player, guint32 pp_rank, guint32 lane, guint32 rank)
{
  *player = (Player){ .pp_rank = pp_rank, .lane = lane, .rank = rank, .slow = 1 };
  player->tail = &play->tails[pp_rank];
  for (guint t = 0; t < SIM_TRAFFIC_N_KINDS; t++)
    player->owner_of[t] = pp_rank;
  guint32 least = MIN (pp_rank, play->pp - 1 - pp_rank);
  player->owner_of[MODEL_GROUP_EMBEDDING] = player->owner_of[SIM_TRAFFIC_MIRROR] = least;
  if (play->c != NULL)
    sim_rank_memory (play->c, pp_rank, &player->static_bytes, &player->step_bytes,
                     &player->closed_bytes);
}

static void
set_owners (SimPlay *play, Player *player, const ModelRankMap *map)
{
  guint32 per_stage = map->world / map->pp, pp = map->pp;
  guint32 mirror = (pp - 1 - player->pp_rank) * per_stage + player->rank % per_stage;

  for (guint t = 0; t < MODEL_GROUP_N_KINDS; t++)
    player->owner_of[t] = model_rankmap_group_base (map, (ModelGroupKind)t, player->rank);
  player->owner_of[MODEL_GROUP_EMBEDDING] = MIN (player->rank, mirror);
  player->owner_of[SIM_TRAFFIC_NEXT] = player->owner_of[SIM_TRAFFIC_BACK] = player->rank;
  player->owner_of[SIM_TRAFFIC_MIRROR] = MIN (player->rank, mirror);
}

/* ---- groups ---- */

/* Makes the groups of @kind from the owner of each player; those of one player wait for nobody. */
static void
make_syncs (SimPlay *play, guint kind, const guint32 *key, guint32 n_keys)
{
  guint32 n = play->n_players;
  g_autofree guint32 *size = g_new0 (guint32, n_keys);
  guint32 most = 0;

  for (guint32 i = 0; i < n; i++)
    if (key[i] != NOBODY) {
      size[key[i]]++;
      most = MAX (most, size[key[i]]);
    }
  if (most < 2)
    return;
  play->n_syncs[kind] = n_keys;
  play->syncs[kind] = g_new0 (Sync, n_keys);
  play->members[kind] = g_new (guint32, n);
  play->sync_of[kind] = g_memdup2 (key, n * sizeof *key);
  for (guint32 k = 0, first = 0; k < n_keys; k++) {
    play->syncs[kind][k].first = first;
    first += size[k];
  }
  for (guint32 i = 0; i < n; i++)
    if (key[i] != NOBODY) {
      Sync *sync = &play->syncs[kind][key[i]];
      play->members[kind][sync->first + sync->size++] = i;
    }
}

static gboolean
is_over_data (guint kind)
{
  return kind == MODEL_GROUP_DP || kind == MODEL_GROUP_DPCP || kind == MODEL_GROUP_EDP
         || kind == MODEL_GROUP_EDP_SHARD || kind == MODEL_GROUP_EDP_REPLICATE
         || kind == MODEL_GROUP_HSDP_SHARD || kind == MODEL_GROUP_HSDP_REPLICATE;
}

/* Which group of @kind a player is in: a number below n_players, or NOBODY. */
static guint32
key_of (const SimPlay *play, guint32 id, guint kind)
{
  const Player *player = &play->players[id];
  guint32 opposite = play->pp - 1 - player->pp_rank;
  gboolean is_end = player->pp_rank == 0 || opposite == 0;

  if (kind == SYNC_ALL)
    return 0;
  if (kind == MODEL_GROUP_EMBEDDING || kind == SIM_TRAFFIC_MIRROR)
    return play->pp > 1 && (is_end || kind == SIM_TRAFFIC_MIRROR)
               ? player->lane * play->pp + MIN (player->pp_rank, opposite)
               : NOBODY;
  if (play->options.full)
    return kind < MODEL_GROUP_N_KINDS && kind != MODEL_GROUP_PP ? player->owner_of[kind] : NOBODY;
  return is_over_data (kind) ? player->pp_rank : NOBODY;
}

static void
make_all_syncs (SimPlay *play)
{
  g_autofree guint32 *key = g_new (guint32, play->n_players);

  for (guint kind = 0; kind < N_SYNC_KINDS; kind++) {
    for (guint32 i = 0; i < play->n_players; i++)
      key[i] = key_of (play, i, kind);
    make_syncs (play, kind, key, play->n_players);
  }
  if (play->syncs[SYNC_ALL] == NULL) { /* one player meets himself */
    play->syncs[SYNC_ALL] = g_new0 (Sync, 1);
    play->syncs[SYNC_ALL]->size = 1;
  }
}

/* ---- all of them ---- */

static void
fill_alike (SimPlay *play, const GArray *lanes)
{
  const ModelLayout *layout = &play->c->layout;
  guint32 together = layout->tp * layout->cp;

  for (guint32 lane = 0; lane < lanes->len; lane++) {
    const Lane *at = &g_array_index (lanes, Lane, lane);
    for (guint32 r = 0; r < play->pp; r++) {
      Player *player = &play->players[lane * play->pp + r];
      guint32 rank = r * ranks_per_stage (layout) + at->index * together;
      init_player (play, player, r, lane, rank);
      player->slow = slow_of (play, rank, together);
      player->stands_for = at->stands_for;
    }
  }
}

static void
fill_every (SimPlay *play)
{
  guint32 per_stage = ranks_per_stage (&play->c->layout);
  ModelRankMap map;

  model_rankmap_init (&map, &play->c->layout);
  for (guint32 lane = 0; lane < per_stage; lane++)
    for (guint32 r = 0; r < play->pp; r++) {
      Player *player = &play->players[lane * play->pp + r];
      init_player (play, player, r, lane, r * per_stage + lane);
      set_owners (play, player, &map);
      player->slow = slow_of (play, player->rank, 1);
      player->stands_for = 1;
    }
}

gboolean
sim_players_init (SimPlay *play, GError **error)
{
  g_autoptr (GArray) lanes = NULL;

  play->n_lanes = 1;
  if (play->c == NULL) {
    play->n_players = play->pp;
    play->players = g_new0 (Player, play->n_players);
    for (guint32 r = 0; r < play->pp; r++) {
      init_player (play, &play->players[r], r, 0, r);
      play->players[r].stands_for = 1;
    }
    make_all_syncs (play);
    return TRUE;
  }
  guint32 world = ranks_per_stage (&play->c->layout) * play->pp;
  if (!check_stragglers (&play->options, world, error))
    return FALSE;
  if (play->options.full)
    play->n_lanes = ranks_per_stage (&play->c->layout);
  else {
    lanes = find_lanes (play);
    play->n_lanes = lanes->len;
  }
  play->n_players = play->n_lanes * play->pp;
  play->players = g_new0 (Player, play->n_players);
  if (play->options.full)
    fill_every (play);
  else
    fill_alike (play, lanes);
  make_all_syncs (play);
  return TRUE;
}
