/* costmodel/stagemap.c - finds the distinct virtual stages and ranks of a pipeline. */
#include "costmodel/stagemap.h"
#include <string.h>

static gboolean
same_moe (const ModelMoe *a, const ModelMoe *b)
{
  return a->experts == b->experts && a->topk == b->topk && a->expert_ffn == b->expert_ffn
         && a->shared_ffn == b->shared_ffn && !a->shared_gate == !b->shared_gate
         && !a->router_bias == !b->router_bias;
}

static gboolean
same_block (const ModelBlockRun *a, const ModelBlockRun *b)
{
  return a->kind == b->kind && a->window == b->window && a->ffn == b->ffn
         && same_moe (&a->moe, &b->moe);
}

gboolean
cost_block_kinds_init (CostBlockKinds *kinds, const ModelArch *arch, GError **error)
{
  memset (kinds, 0, sizeof *kinds);
  if (arch->n_runs > G_N_ELEMENTS (kinds->kind_of_run)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                 "model '%s' changes its kind of block %u times, at most %u are modelled",
                 arch->name, arch->n_runs, (guint)G_N_ELEMENTS (kinds->kind_of_run));
    return FALSE;
  }
  for (guint run = 0; run < arch->n_runs; run++) {
    guint kind = 0;
    while (kind < kinds->n_kinds
           && !same_block (&arch->runs[run], &arch->runs[kinds->representative[kind]]))
      kind++;
    if (kind == COST_MAX_RUN_KINDS) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                   "model '%s' has more than %u kinds of blocks", arch->name, COST_MAX_RUN_KINDS);
      return FALSE;
    }
    if (kind == kinds->n_kinds)
      kinds->representative[kinds->n_kinds++] = run;
    kinds->kind_of_run[run] = (guint8)kind;
  }
  return TRUE;
}

/* Goes through the arch's layers from the first to the last. */
typedef struct {
  const ModelArch *arch;
  const CostBlockKinds *kinds;
  guint run;
  guint32 left; /* blocks of @run not yet taken */
} Cursor;

static CostStageContent
take_layers (Cursor *cursor, guint32 n_layers, guint32 recompute_layers)
{
  CostStageContent content = { .layers = (guint16)n_layers };
  for (guint32 taken = 0; taken < n_layers;) {
    while (cursor->left == 0 && cursor->run + 1 < cursor->arch->n_runs)
      cursor->left = cursor->arch->runs[++cursor->run].count;
    guint32 n = MIN (cursor->left, n_layers - taken);
    g_return_val_if_fail (n > 0, content);
    guint kind = cursor->kinds->kind_of_run[cursor->run];
    content.blocks[kind] += n;
    content.recomputed[kind] += taken < recompute_layers ? MIN (n, recompute_layers - taken) : 0;
    cursor->left -= n;
    taken += n;
  }
  return content;
}

static void
find_contents (CostStageMap *map, Cursor *cursor, guint32 recompute_layers)
{
  guint32 n_stages = (guint32)model_schedule_n_stages (map->schedule, map->pp, map->vpp);
  for (guint32 stage = 0; stage < n_stages; stage++) {
    CostStageContent content = take_layers (cursor, map->stage_layers[stage], recompute_layers);
    content.has_embedding = stage == 0;
    content.has_head = stage == n_stages - 1;
    guint32 i = 0;
    while (i < map->n_contents && memcmp (&map->contents[i], &content, sizeof content) != 0)
      i++;
    if (i == map->n_contents)
      map->contents[map->n_contents++] = content;
    map->content_of_stage[stage] = (guint16)i;
  }
}

static guint16
content_of (const CostStageMap *map, guint32 rank, guint32 chunk)
{
  return map->content_of_stage[model_schedule_stage (map->schedule, map->pp, rank, chunk)];
}

static gboolean
same_rank (const CostStageMap *map, guint32 a, guint32 b)
{
  for (guint32 chunk = 0; chunk < map->vpp; chunk++)
    if (content_of (map, a, chunk) != content_of (map, b, chunk))
      return FALSE;
  return TRUE;
}

static void
add_class (CostStageMap *map, guint32 rank)
{
  CostStageClass *class = &map->classes[map->n_classes++];
  class->first_rank = rank;
  class->n_chunks = map->vpp;
  for (guint32 chunk = 0; chunk < map->vpp; chunk++) {
    const CostStageContent *content = &map->contents[content_of (map, rank, chunk)];
    for (guint kind = 0; kind < COST_MAX_RUN_KINDS; kind++) {
      class->content.blocks[kind] += content->blocks[kind];
      class->content.recomputed[kind] += content->recomputed[kind];
      if (content->blocks[kind] > 0)
        class->chunk_kinds |= G_GUINT64_CONSTANT (1) << kind;
    }
    class->content.layers += content->layers;
    class->content.has_embedding |= content->has_embedding;
    class->content.has_head |= content->has_head;
    class->max_chunk_layers = MAX (class->max_chunk_layers, content->layers);
  }
}

static void
find_classes (CostStageMap *map)
{
  for (guint32 rank = 0; rank < map->pp; rank++) {
    guint32 i = 0;
    while (i < map->n_classes && !same_rank (map, map->classes[i].first_rank, rank))
      i++;
    if (i == map->n_classes)
      add_class (map, rank);
    map->classes[i].n_ranks++;
    map->class_of_rank[rank] = (guint16)i;
    if (rank > 0 && map->class_of_rank[rank - 1] == i) {
      map->runs[map->n_runs - 1].n_ranks++;
      continue;
    }
    map->runs[map->n_runs++]
        = (CostStageRun){ .n_ranks = 1,
                          .class_index = (guint16)i,
                          .first_content = content_of (map, rank, 0),
                          .last_content = content_of (map, rank, map->vpp - 1) };
  }
}

void
cost_stage_map_init_recompute (CostStageMap *map, const ModelArch *arch,
                               const CostBlockKinds *kinds, guint32 pp, guint32 vpp,
                               ModelScheduleKind schedule, const guint32 *stage_layers,
                               guint32 recompute_layers)
{
  gsize n_stages = (gsize)model_schedule_n_stages (schedule, pp, vpp);
  *map = (CostStageMap){ .pp = pp, .vpp = vpp, .schedule = schedule };
  map->classes = g_new0 (CostStageClass, pp);
  map->runs = g_new0 (CostStageRun, pp);
  map->class_of_rank = g_new0 (guint16, pp);
  map->contents = g_new0 (CostStageContent, n_stages);
  map->content_of_stage = g_new0 (guint16, n_stages);
  map->stage_layers = g_memdup2 (stage_layers, n_stages * sizeof *stage_layers);
  Cursor cursor
      = { .arch = arch, .kinds = kinds, .left = arch->n_runs > 0 ? arch->runs[0].count : 0 };
  find_contents (map, &cursor, recompute_layers);
  find_classes (map);
}

void
cost_stage_map_init (CostStageMap *map, const ModelArch *arch, const CostBlockKinds *kinds,
                     guint32 pp, guint32 vpp, ModelScheduleKind schedule,
                     const guint32 *stage_layers)
{
  cost_stage_map_init_recompute (map, arch, kinds, pp, vpp, schedule, stage_layers, G_MAXUINT32);
}

guint32
cost_stage_map_recompute_layers (const ModelLayout *layout)
{
  gboolean is_block = layout->recompute.kind == MODEL_RECOMPUTE_FULL
                      && layout->recompute.method == MODEL_RECOMPUTE_BLOCK;
  return is_block ? layout->recompute.n : G_MAXUINT32;
}

void
cost_stage_map_clear (CostStageMap *map)
{
  if (map == NULL)
    return;
  g_free (map->classes);
  g_free (map->runs);
  g_free (map->class_of_rank);
  g_free (map->contents);
  g_free (map->content_of_stage);
  g_free (map->stage_layers);
  memset (map, 0, sizeof *map);
}
