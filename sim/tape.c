/* sim/tape.c - lowers the stages of a case to tapes.
 *
 * Order of ops as in model/program.c: forward piece by piece; backward from the last piece, each
 * checkpoint rebuilt before its blocks run backward. A split pass has the ops of its phases.
 *
 * Memory, as costmodel/memory.h counts it: a piece keeps its tensors from the start of its forward
 * to the end of its backward; split passes hold what was rebuilt until the weight gradient. While
 * a piece runs backward, its rebuilt tensors are part of its ops' work.
 */
#include "sim/tape.h"

#include <math.h>
#include <string.h>

/* An embedding, a block or a head, lowered and priced. */
typedef struct {
  ModelSegment *segment;
  CostOpTime *times;
  guint64 *work_bytes, *logits_bytes; /* by op */
  const CostBlock *block;
  guint64 plain_kept_bytes; /* what it keeps where nothing is recomputed */
  CostUnitTraffic traffic;  /* with FSDP */
  double fsdp_forward_s, fsdp_backward_s;
} Piece;

typedef struct {
  const SimCase *c;
  double share; /* of a hidden second of communication, that compute loses */
  Piece embedding, head, blocks[COST_MAX_RUN_KINDS], plain[COST_MAX_RUN_KINDS];
} Builder;

static void
piece_clear (Piece *piece)
{
  model_segment_free (piece->segment);
  g_free (piece->times);
  g_free (piece->work_bytes);
  g_free (piece->logits_bytes);
}

static gboolean
piece_init (Piece *piece, const Builder *b, ModelPart part, guint run, ModelRecomputeKind recompute,
            const CostBlock *block, const CostBlock *plain, GError **error)
{
  const SimCase *c = b->c;
  const CostProblem *problem = c->problem;

  piece->segment = model_segment_new (problem->arch, problem->job, &c->layout, problem->profile,
                                      part, run, recompute, error);
  if (piece->segment == NULL)
    return FALSE;
  guint n = piece->segment->n_ops;
  piece->times = g_new0 (CostOpTime, MAX (n, 1));
  piece->work_bytes = g_new0 (guint64, MAX (n, 1));
  piece->logits_bytes = g_new0 (guint64, MAX (n, 1));
  piece->block = block;
  piece->plain_kept_bytes = plain->memory.kept_bytes;
  cost_op_times (&c->tmpl->context, &c->layout, piece->segment, block, piece->times);
  model_segment_alive (piece->segment, piece->work_bytes, piece->logits_bytes);
  if (model_zero_moves_per_microbatch (&c->layout, 3))
    cost_unit_traffic (&piece->traffic, &c->placement, problem->profile, c->tmpl->element_bytes,
                       block);
  return TRUE;
}

static void
builder_clear (Builder *b)
{
  piece_clear (&b->embedding);
  piece_clear (&b->head);
  for (guint kind = 0; kind < COST_MAX_RUN_KINDS; kind++) {
    piece_clear (&b->blocks[kind]);
    piece_clear (&b->plain[kind]);
  }
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Builder, builder_clear)

static gboolean
init_blocks (Builder *b, GError **error)
{
  const SimCase *c = b->c;
  const CostTemplate *tmpl = c->tmpl;
  ModelRecomputeKind recompute = (ModelRecomputeKind)c->layout.recompute.kind;

  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    guint run = c->kinds.representative[kind];
    gboolean is_full = recompute == MODEL_RECOMPUTE_FULL;
    const CostBlock *plain = is_full ? &tmpl->plain_blocks[kind] : &tmpl->blocks[kind];
    if (!piece_init (&b->blocks[kind], b, MODEL_PART_BLOCK, run, recompute, &tmpl->blocks[kind],
                     plain, error)
        || !piece_init (&b->plain[kind], b, MODEL_PART_BLOCK, run,
                        is_full ? MODEL_RECOMPUTE_NONE : recompute, plain, plain, error))
      return FALSE;
    b->blocks[kind].fsdp_forward_s = c->placement.fsdp_forward_s[kind];
    b->blocks[kind].fsdp_backward_s = c->placement.fsdp_backward_s[kind];
    b->plain[kind].fsdp_forward_s = c->placement.fsdp_plain_forward_s[kind];
    b->plain[kind].fsdp_backward_s = c->placement.fsdp_plain_backward_s[kind];
  }
  return TRUE;
}

static gboolean
builder_init (Builder *b, const SimCase *c, double interference_ratio, GError **error)
{
  const CostTemplate *tmpl = c->tmpl;

  *b = (Builder){ .c = c, .share = interference_ratio / (1 + interference_ratio) };
  if (!init_blocks (b, error)
      || !piece_init (&b->embedding, b, MODEL_PART_EMBEDDING, 0, MODEL_RECOMPUTE_NONE,
                      &tmpl->embedding, &tmpl->embedding, error)
      || !piece_init (&b->head, b, MODEL_PART_HEAD, 0, MODEL_RECOMPUTE_NONE, &tmpl->head,
                      &tmpl->head, error))
    return FALSE;
  b->embedding.fsdp_forward_s = c->placement.fsdp_embedding_forward_s;
  b->embedding.fsdp_backward_s = c->placement.fsdp_embedding_backward_s;
  b->head.fsdp_forward_s = c->placement.fsdp_head_forward_s;
  b->head.fsdp_backward_s = c->placement.fsdp_head_backward_s;
  return TRUE;
}

/* ---- ops ---- */

static const struct {
  guint8 stream, part;
} streams[MODEL_STREAM_N_KINDS] = {
  [MODEL_STREAM_COMPUTE] = { SIM_STREAM_COMPUTE, COST_PART_COMPUTE },
  [MODEL_STREAM_TP] = { SIM_STREAM_TP, COST_PART_TP },
  [MODEL_STREAM_CP] = { SIM_STREAM_CP, COST_PART_CP },
  [MODEL_STREAM_EP] = { SIM_STREAM_EP, COST_PART_EP },
  [MODEL_STREAM_PP] = { SIM_STREAM_PP_NEXT, COST_PART_P2P },
  [MODEL_STREAM_DP] = { SIM_STREAM_DP, COST_PART_DP },
};

/* Less is waited for at the start where the hidden part costs compute its share. */
static double
less_interference (double time_s, double exposed_s, double share)
{
  return fmax (0, (exposed_s - time_s * share) / (1 - share));
}

void
sim_op_set_load (SimOp *op, const CostGroup *group, const TopoGroupShape *shape,
                 ModelCollectiveKind collective, double bytes, double time_s)
{
  double n = shape->ranks, k = shape->domains, g = shape->ranks_per_domain;
  double all = cost_collective_bus_factor (collective, shape->ranks) * bytes;
  if (!(time_s > 0) || shape->ranks < 2)
    return;
  double link = all, network = all / g;
  op->pattern = SIM_PATTERN_RING;
  if (collective == MODEL_COLLECTIVE_ALL_TO_ALL) {
    op->pattern = SIM_PATTERN_ALLTOALL;
    link = (g - 1) / n * bytes;
    network = (n - g) / n * bytes;
  } else if (collective == MODEL_COLLECTIVE_SEND_RECV) {
    op->pattern = SIM_PATTERN_NEIGHBOUR;
    link = network = bytes;
  } else {
    /* the switch adds: every byte goes up and comes down once */
    const CostWay *way = cost_collective_way (group, collective, bytes, NULL, NULL);
    if (way != NULL && g_str_equal (way->algorithm, "nvls"))
      link = bytes;
  }
  op->link_bytes_per_s = g > 1 ? link / time_s : 0;
  op->network_bytes_per_s = k > 1 ? network / time_s : 0;
}

static void
set_collective (SimOp *op, const Builder *b, const ModelOp *from, const CostOpTime *time,
                gboolean apart)
{
  const CostContext *context = &b->c->tmpl->context;
  double exposed_s = apart ? time->apart_exposed_s : time->exposed_s;
  op->exposed_s = less_interference (time->time_s, exposed_s, b->share);
  op->traffic = from->group;
  sim_op_set_load (op, &context->groups[from->group], &context->shapes[from->group],
                   (ModelCollectiveKind)from->collective, (double)from->message_bytes,
                   time->time_s);
}

/* A tape while it grows. */
typedef struct {
  const Builder *b;
  GArray *ops;         /* SimOp */
  gint64 change_bytes; /* of what is kept, before the next op */
} Reel;

static SimOp *
push (Reel *reel, SimOp op)
{
  op.kept_before_bytes = reel->change_bytes;
  reel->change_bytes = 0;
  g_array_append_val (reel->ops, op);
  return &g_array_index (reel->ops, SimOp, reel->ops->len - 1);
}

/* What is freed or kept at this point: right after the op before. */
static void
change_after (Reel *reel, gint64 bytes)
{
  if (reel->ops->len == 0)
    reel->change_bytes += bytes;
  else
    g_array_index (reel->ops, SimOp, reel->ops->len - 1).kept_after_bytes += bytes;
}

static void
push_op (Reel *reel, const Piece *piece, guint at, gboolean apart)
{
  const ModelOp *from = &piece->segment->ops[at];
  const CostOpTime *time = &piece->times[at];
  SimOp op = { .duration_s = time->time_s,
               .gap_s = time->gap_s,
               .work_bytes = piece->work_bytes[at] + piece->logits_bytes[at],
               .name = from->name,
               .stream = streams[from->stream].stream,
               .part = streams[from->stream].part,
               .phase = from->phase };
  if (op.stream != SIM_STREAM_COMPUTE)
    set_collective (&op, reel->b, from, time, apart);
  push (reel, op);
}

/* One FSDP transfer of a unit; @added_s is what all @all_s of the pass add to it. */
static void
push_transfer (Reel *reel, const CostTransfer *transfer, ModelOpPhase phase, const char *name,
               double added_s, double all_s)
{
  const SimCase *c = reel->b->c;
  if (!(transfer->time_s > 0))
    return;
  const TopoGroupShape *shape;
  const CostGroup *group = sim_case_group (c, transfer->group, &shape);
  SimOp op = { .duration_s = transfer->time_s,
               .exposed_s = less_interference (transfer->time_s, added_s * transfer->time_s / all_s,
                                               reel->b->share),
               .name = name,
               .stream = SIM_STREAM_DP,
               .part = COST_PART_DP,
               .phase = (guint8)phase,
               .traffic = (guint8)transfer->group };
  sim_op_set_load (&op, group, shape, transfer->collective, transfer->bytes, transfer->time_s);
  push (reel, op);
}

static void
push_gathers (Reel *reel, const Piece *piece, ModelOpPhase phase, double added_s, double all_s)
{
  for (guint i = 0; i < 2; i++)
    push_transfer (reel, &piece->traffic.gathers[i], phase, "gather_parameters", added_s, all_s);
}

/* ---- passes ---- */

typedef struct {
  Reel *reel;
  const Piece **pieces; /* of the stage, in forward order */
  guint n_pieces, first_block, n_blocks, per_checkpoint;
  gboolean runs_input, runs_weight;
} Pass;

static gboolean
is_block (const Pass *pass, guint at)
{
  return at >= pass->first_block && at < pass->first_block + pass->n_blocks;
}

/* Kept from forward to backward: with several blocks to a checkpoint, by the first of them. */
static gint64
kept_bytes (const Pass *pass, guint at)
{
  const Piece *piece = pass->pieces[at];
  if (!is_block (pass, at) || pass->per_checkpoint == 1)
    return (gint64)piece->block->memory.kept_bytes;
  gboolean is_first = (at - pass->first_block) % pass->per_checkpoint == 0;
  return is_first ? (gint64)piece->block->memory.input_bytes : 0;
}

static void
push_forward (const Pass *pass)
{
  Reel *reel = pass->reel;
  for (guint at = 0; at < pass->n_pieces; at++) {
    const Piece *piece = pass->pieces[at];
    reel->change_bytes += kept_bytes (pass, at);
    push_gathers (reel, piece, MODEL_PHASE_FORWARD, piece->fsdp_forward_s, piece->traffic.gather_s);
    for (guint i = 0; i < piece->segment->n_forward; i++)
      push_op (reel, piece, i, FALSE);
    change_after (reel, (gint64)piece->block->memory.logits_kept_bytes);
  }
}

static gboolean
runs (const Pass *pass, const ModelOp *op)
{
  return op->phase == MODEL_PHASE_BACKWARD_WEIGHT ? pass->runs_weight : pass->runs_input;
}

/* What a piece holds beside what it keeps, from its recompute to its weight gradient. */
static gint64
rebuilt_bytes (const Pass *pass, guint at)
{
  return MAX ((gint64)pass->pieces[at]->plain_kept_bytes - kept_bytes (pass, at), 0);
}

static void
push_rebuild (const Pass *pass, guint first, guint end)
{
  Reel *reel = pass->reel;
  for (guint at = first; at < end; at++) {
    const Piece *piece = pass->pieces[at];
    const ModelSegment *segment = piece->segment;
    /* what the last one rebuilds counts as its work, it is next */
    if (pass->runs_input && at + 1 < end)
      reel->change_bytes += rebuilt_bytes (pass, at);
    for (guint i = 0; pass->runs_input && i < segment->n_recompute; i++)
      push_op (reel, piece, segment->n_forward + i, !pass->runs_weight);
  }
}

static void
push_backward_piece (const Pass *pass, guint at, gboolean is_first_of_checkpoint)
{
  Reel *reel = pass->reel;
  const Piece *piece = pass->pieces[at];
  const ModelSegment *segment = piece->segment;
  const ModelProfile *profile = reel->b->c->problem->profile;
  gint64 logits = (gint64)piece->block->memory.logits_kept_bytes;
  double again_s = profile->reshard_after_forward ? piece->traffic.gather_s : 0;
  double all_s = again_s + piece->traffic.reduce_s;

  if (pass->runs_input && again_s > 0)
    push_gathers (reel, piece, MODEL_PHASE_BACKWARD_INPUT, piece->fsdp_backward_s, all_s);
  reel->change_bytes -= logits;
  if (!pass->runs_input)
    reel->change_bytes -= rebuilt_bytes (pass, at);
  for (guint i = segment->n_forward + segment->n_recompute; i < segment->n_ops; i++)
    if (runs (pass, &segment->ops[i]))
      push_op (reel, piece, i, !pass->runs_weight);
  for (guint i = 0; pass->runs_input && i < 2; i++)
    push_transfer (reel, &piece->traffic.reduces[i], MODEL_PHASE_BACKWARD_INPUT, "reduce_gradients",
                   piece->fsdp_backward_s, all_s);
  if (pass->runs_input && !is_first_of_checkpoint) /* the block before it is next */
    change_after (reel, -rebuilt_bytes (pass, at - 1));
  if (pass->runs_weight)
    change_after (reel, -kept_bytes (pass, at));
  else
    change_after (reel, logits + rebuilt_bytes (pass, at));
}

static guint
checkpoint_start (const Pass *pass, guint last)
{
  if (!is_block (pass, last))
    return last;
  return pass->first_block
         + (last - pass->first_block) / pass->per_checkpoint * pass->per_checkpoint;
}

static void
push_backward (const Pass *pass)
{
  for (guint end = pass->n_pieces; end > 0;) {
    guint first = checkpoint_start (pass, end - 1);
    push_rebuild (pass, first, end);
    for (guint at = end; at-- > first;)
      push_backward_piece (pass, at, at == first);
    end = first;
  }
}

/* ---- stages ---- */

/* Pieces of virtual stage @stage in forward order. Returns: (owned) */
static const Piece **
pieces_of (const Builder *b, guint32 stage, Pass *pass)
{
  const SimCase *c = b->c;
  guint32 n_stages = (guint32)model_layout_n_stages (&c->layout), first_layer = 0;
  guint32 n_layers = c->map.stage_layers[stage];
  guint32 recomputed = cost_stage_map_recompute_layers (&c->layout);
  const Piece **pieces = g_new (const Piece *, n_layers + 2);
  guint n = 0;

  for (guint32 s = 0; s < stage; s++)
    first_layer += c->map.stage_layers[s];
  if (stage == 0)
    pieces[n++] = &b->embedding;
  pass->first_block = n;
  pass->n_blocks = n_layers;
  for (guint32 i = 0; i < n_layers; i++) {
    const ModelBlockRun *run = model_arch_run_of (c->problem->arch, first_layer + i);
    guint kind = c->kinds.kind_of_run[run - c->problem->arch->runs];
    pieces[n++] = i < recomputed ? &b->blocks[kind] : &b->plain[kind];
  }
  if (stage == n_stages - 1)
    pieces[n++] = &b->head;
  pass->n_pieces = n;
  return pieces;
}

static void
finish_tape (SimTape *tape, Reel *reel)
{
  if (reel->change_bytes != 0)
    change_after (reel, reel->change_bytes);
  tape->n_ops = reel->ops->len;
  tape->ops = (SimOp *)(gpointer)g_array_free (reel->ops, FALSE);
  for (guint i = 0; i < tape->n_ops; i++) {
    const SimOp *op = &tape->ops[i];
    double seen_s = op->stream == SIM_STREAM_COMPUTE ? op->duration_s : op->exposed_s;
    tape->parts_s[op->part] += seen_s;
    tape->parts_s[COST_PART_OTHER] += op->gap_s;
    tape->pass_s += seen_s + op->gap_s;
  }
}

static guint32
uniform_layers (const ModelLayout *layout)
{
  gboolean is_uniform = layout->recompute.kind == MODEL_RECOMPUTE_FULL
                        && layout->recompute.method == MODEL_RECOMPUTE_UNIFORM;
  return is_uniform ? MAX (layout->recompute.n, 1) : 1;
}

static void
build_stage (const Builder *b, guint32 stage, SimTape tapes[4])
{
  Pass pass = { .per_checkpoint = uniform_layers (&b->c->layout) };
  g_autofree const Piece **pieces = pieces_of (b, stage, &pass);

  pass.pieces = pieces;
  for (guint kind = 0; kind < 4; kind++) {
    Reel reel = { .b = b, .ops = g_array_new (FALSE, FALSE, sizeof (SimOp)) };
    pass.reel = &reel;
    pass.runs_input = kind == MODEL_STEP_BACKWARD || kind == MODEL_STEP_BACKWARD_INPUT;
    pass.runs_weight = kind == MODEL_STEP_BACKWARD || kind == MODEL_STEP_BACKWARD_WEIGHT;
    if (kind == MODEL_STEP_FORWARD)
      push_forward (&pass);
    else
      push_backward (&pass);
    finish_tape (&tapes[kind], &reel);
  }
}

gboolean
sim_tapes_init (SimTapes *tapes, const SimCase *c, double interference_ratio, GError **error)
{
  g_auto (Builder) b = { 0 };
  guint32 n_stages = (guint32)model_layout_n_stages (&c->layout);

  if (!builder_init (&b, c, interference_ratio, error))
    return FALSE;
  *tapes = (SimTapes){ .n_contents = c->map.n_contents };
  tapes->tapes = g_malloc0_n (tapes->n_contents, sizeof *tapes->tapes);
  for (guint32 stage = 0; stage < n_stages; stage++) {
    SimTape *of = tapes->tapes[c->map.content_of_stage[stage]];
    if (of[0].ops == NULL)
      build_stage (&b, stage, of);
  }
  return TRUE;
}

void
sim_tapes_clear (SimTapes *tapes)
{
  if (tapes == NULL)
    return;
  for (guint32 i = 0; i < tapes->n_contents; i++)
    for (guint kind = 0; kind < 4; kind++)
      g_free (tapes->tapes[i][kind].ops);
  g_clear_pointer (&tapes->tapes, g_free);
  tapes->n_contents = 0;
}

const char *
sim_stream_name (SimStream stream)
{
  static const char *const names[SIM_STREAM_N_KINDS] = {
    [SIM_STREAM_COMPUTE] = "compute", [SIM_STREAM_TP] = "tp",
    [SIM_STREAM_CP] = "cp",           [SIM_STREAM_EP] = "ep",
    [SIM_STREAM_PP_NEXT] = "pp next", [SIM_STREAM_PP_BACK] = "pp back",
    [SIM_STREAM_DP] = "dp",
  };
  return (guint)stream < SIM_STREAM_N_KINDS ? names[stream] : "?";
}
