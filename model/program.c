/* model/program.c - the program of one pipeline rank.
 *
 * All chunks' forward ops come first, chunk by chunk, then their backward ops, last chunk first;
 * then the tail. The schedule says in which order and how often the ranges run.
 */
#include "model/program-private.h"

/* A chunk while it is built. */
typedef struct {
  ModelChunk *chunk;
  ProgramPiece *pieces; /* (owned) embedding?, blocks, head? */
  guint n_pieces;
  guint first_block;
  gboolean receives, sends;     /* hidden states from and to another rank */
  guint32 from_chunk, to_chunk; /* neighbour stage on this very rank, or MODEL_TENSOR_NONE */
} Build;

static void
build_clear (Build *build)
{
  for (guint i = 0; i < build->n_pieces; i++)
    g_free (build->pieces[i].ids);
  g_free (build->pieces);
}

/* Two neighbour stages share the last rank of a folded pipeline. */
static guint32
chunk_of_stage (const ModelProgram *program, ModelScheduleKind kind, gint64 stage)
{
  for (guint32 i = 0; model_schedule_is_folded (kind) && i < program->n_chunks; i++)
    if (program->chunks[i].stage == stage)
      return i;
  return MODEL_TENSOR_NONE;
}

static gboolean
plan_chunks (const Assembly *a, ModelProgram *program, Build *builds, GError **error)
{
  const ModelLayout *layout = a->layout;
  guint32 n_stages = (guint32)model_layout_n_stages (layout);
  g_autofree guint32 *layers = g_new0 (guint32, n_stages);
  if (!model_stages_layers (a->arch, layout, a->profile, layers)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "%u layers cannot be laid on %u stages as asked: every stage needs a layer, and "
                 "a list must sum to the layers",
                 a->arch->layers, n_stages);
    return FALSE;
  }
  for (guint32 i = 0; i < program->n_chunks; i++) {
    ModelChunk *chunk = &program->chunks[i];
    chunk->stage = model_schedule_stage (layout->schedule, layout->pp, program->pp_rank, i);
    for (guint32 s = 0; s < chunk->stage; s++)
      chunk->first_layer += layers[s];
    chunk->n_layers = layers[chunk->stage];
    chunk->has_embedding = chunk->stage == 0;
    chunk->has_head = chunk->stage == n_stages - 1;
    builds[i].chunk = chunk;
  }
  for (guint32 i = 0; i < program->n_chunks; i++) {
    gint64 stage = program->chunks[i].stage;
    builds[i].from_chunk = chunk_of_stage (program, layout->schedule, stage - 1);
    builds[i].to_chunk = chunk_of_stage (program, layout->schedule, stage + 1);
    builds[i].receives = stage > 0 && builds[i].from_chunk == MODEL_TENSOR_NONE;
    builds[i].sends = !program->chunks[i].has_head && builds[i].to_chunk == MODEL_TENSOR_NONE;
  }
  return TRUE;
}

/* Recompute of the @at-th block of a chunk. */
static ModelRecomputeKind
block_recompute (const ModelLayout *layout, guint32 at)
{
  const ModelRecompute *recompute = &layout->recompute;
  if (recompute->kind == MODEL_RECOMPUTE_FULL && recompute->method == MODEL_RECOMPUTE_BLOCK)
    return at < recompute->n ? MODEL_RECOMPUTE_FULL : MODEL_RECOMPUTE_NONE;
  return (ModelRecomputeKind)recompute->kind;
}

/* Blocks that share one checkpoint and are rebuilt together. */
static guint32
blocks_per_checkpoint (const ModelLayout *layout)
{
  const ModelRecompute *recompute = &layout->recompute;
  gboolean uniform
      = recompute->kind == MODEL_RECOMPUTE_FULL && recompute->method == MODEL_RECOMPUTE_UNIFORM;
  return uniform ? MAX (recompute->n, 1) : 1;
}

static guint32
add_piece (Assembly *a, Build *build, const ModelSegment *segment, guint32 input)
{
  ProgramPiece *piece = &build->pieces[build->n_pieces++];
  program_piece_init (a, piece, segment, input);
  program_gather_weights (a, piece, MODEL_PHASE_FORWARD);
  program_append (a, piece, 0, segment->n_forward);
  return piece->ids[segment->output];
}

static const ModelSegment *
block_template (Assembly *a, const ModelChunk *chunk, guint32 at, GError **error)
{
  const ModelBlockRun *run = model_arch_run_of (a->arch, chunk->first_layer + at);
  return program_template (a, MODEL_PART_BLOCK, (guint)(run - a->arch->runs),
                           block_recompute (a->layout, at), error);
}

static gboolean
build_forward (Assembly *a, Build *builds, guint32 at, GError **error)
{
  Build *build = &builds[at];
  ModelChunk *chunk = build->chunk;
  guint32 x = MODEL_TENSOR_NONE;
  chunk->forward.first = a->ops->len;
  build->pieces = g_new0 (ProgramPiece, chunk->n_layers + 2);
  if (build->receives) {
    x = program_receive (a, "receive_forward", MODEL_PHASE_FORWARD, MODEL_ROLE_ACTIVATION);
  } else if (build->from_chunk != MODEL_TENSOR_NONE) {
    const Build *from = &builds[build->from_chunk];
    const ProgramPiece *last = &from->pieces[from->n_pieces - 1];
    x = last->ids[last->segment->output];
  }
  if (chunk->has_embedding) {
    const ModelSegment *segment = program_template (a, MODEL_PART_EMBEDDING, 0, 0, error);
    if (segment == NULL)
      return FALSE;
    x = add_piece (a, build, segment, MODEL_TENSOR_NONE);
  }
  build->first_block = build->n_pieces;
  for (guint32 i = 0; i < chunk->n_layers; i++) {
    const ModelSegment *segment = block_template (a, chunk, i, error);
    if (segment == NULL)
      return FALSE;
    x = add_piece (a, build, segment, x);
  }
  if (chunk->has_head) {
    const ModelSegment *segment = program_template (a, MODEL_PART_HEAD, 0, 0, error);
    if (segment == NULL)
      return FALSE;
    x = add_piece (a, build, segment, x);
  }
  if (build->sends)
    program_send (a, "send_forward", MODEL_PHASE_FORWARD, x);
  chunk->forward.count = a->ops->len - chunk->forward.first;
  return TRUE;
}

/* Rebuilds the checkpointed blocks of pieces [first, end) one after the other: each reads what the
 * one before rebuilt. */
static void
rebuild_pieces (Assembly *a, Build *build, guint first, guint end, gboolean gathers)
{
  for (guint i = first; i < end; i++) {
    ProgramPiece *piece = &build->pieces[i];
    const ModelSegment *segment = piece->segment;
    if (i > first) {
      const ProgramPiece *before = &build->pieces[i - 1];
      if (before->segment->rebuilt_output != MODEL_TENSOR_NONE)
        piece->rebuilt_input = before->ids[before->segment->rebuilt_output];
    }
    if (gathers)
      program_gather_weights (a, piece, MODEL_PHASE_BACKWARD_INPUT);
    program_append (a, piece, segment->n_forward, segment->n_recompute);
  }
}

static guint32
backward_piece (Assembly *a, ProgramPiece *piece, guint32 grad)
{
  const ModelSegment *segment = piece->segment;
  guint done = segment->n_forward + segment->n_recompute;
  if (segment->output_grad != MODEL_TENSOR_NONE)
    piece->ids[segment->output_grad] = grad;
  program_append (a, piece, done, segment->n_ops - done);
  program_reduce_weights (a, piece);
  return segment->input_grad == MODEL_TENSOR_NONE ? MODEL_TENSOR_NONE
                                                  : piece->ids[segment->input_grad];
}

/* First piece of the checkpoint that piece @last ends. */
static guint
checkpoint_start (const Build *build, guint last, guint32 per_checkpoint)
{
  guint n_blocks = build->chunk->n_layers, first_block = build->first_block;
  if (last < first_block || last >= first_block + n_blocks)
    return last;
  return first_block + (last - first_block) / per_checkpoint * per_checkpoint;
}

static void
build_backward (Assembly *a, Build *builds, guint32 at, guint32 *input_grads)
{
  Build *build = &builds[at];
  ModelChunk *chunk = build->chunk;
  guint32 grad = MODEL_TENSOR_NONE, per_checkpoint = blocks_per_checkpoint (a->layout);
  chunk->backward.first = a->ops->len;
  if (build->sends)
    grad = program_receive (a, "receive_backward", MODEL_PHASE_BACKWARD_INPUT,
                            MODEL_ROLE_ACTIVATION_GRAD);
  else if (build->to_chunk != MODEL_TENSOR_NONE)
    grad = input_grads[build->to_chunk];
  for (guint end = build->n_pieces; end > 0;) {
    guint first = checkpoint_start (build, end - 1, per_checkpoint);
    /* The last unit of the model is needed right away and stays gathered. */
    gboolean stays = chunk->has_head && end == build->n_pieces;
    rebuild_pieces (a, build, first, end, a->profile->reshard_after_forward && !stays);
    for (guint i = end; i-- > first;)
      grad = backward_piece (a, &build->pieces[i], grad);
    end = first;
  }
  if (build->receives)
    program_send (a, "send_backward", MODEL_PHASE_BACKWARD_INPUT, grad);
  input_grads[at] = grad;
  chunk->backward.count = a->ops->len - chunk->backward.first;
}

static void
build_tail (Assembly *a, ModelProgram *program, const Build *builds)
{
  guint64 replicated = 0;
  gboolean has_embedding = FALSE, has_head = FALSE;
  for (guint32 i = 0; i < program->n_chunks; i++) {
    for (guint j = 0; j < builds[i].n_pieces; j++) {
      const ModelSegment *segment = builds[i].pieces[j].segment;
      program->weight_count += segment->weight_count;
      program->expert_weight_count += segment->expert_weight_count;
      replicated += segment->replicated_weight_count;
    }
    has_embedding |= program->chunks[i].has_embedding;
    has_head |= program->chunks[i].has_head;
  }
  /* A tied head away from the embedding holds a copy of its matrix. */
  if (a->arch->tied && has_head && !has_embedding)
    program->weight_count
        += model_params_word_embedding_count (a->arch, a->layout->tp, a->profile->vocab_multiple);
  program->tail.first = a->ops->len;
  if (a->job->phase == MODEL_PHASE_TRAIN)
    model_lower_tail (a->arch, a->layout, a->profile, program->weight_count,
                      program->expert_weight_count, replicated,
                      a->arch->tied && has_embedding != has_head, a->ops);
  program->tail.count = a->ops->len - program->tail.first;
}

/* Which part of the model each piece is, for whoever fills its weights. */
static void
note_pieces (ModelProgram *program, const Build *builds)
{
  for (guint32 i = 0; i < program->n_chunks; i++)
    program->n_pieces += builds[i].n_pieces;
  program->pieces = g_new0 (ModelProgramPiece, program->n_pieces);
  ModelProgramPiece *out = program->pieces;
  for (guint32 i = 0; i < program->n_chunks; i++)
    for (guint j = 0; j < builds[i].n_pieces; j++, out++) {
      const ProgramPiece *piece = &builds[i].pieces[j];
      const ModelSegment *segment = piece->segment;
      *out = (ModelProgramPiece){
        .part = segment->part, .run = segment->run, .chunk = i, .first_tensor = piece->first_tensor
      };
      if (segment->part == MODEL_PART_BLOCK)
        out->layer = program->chunks[i].first_layer + (j - builds[i].first_block);
      while (out->n_weights < segment->n_tensors
             && segment->tensors[out->n_weights].role == MODEL_ROLE_WEIGHT)
        out->n_weights++;
      out->n_tensors = segment->n_tensors - (segment->input != MODEL_TENSOR_NONE)
                       - (segment->output_grad != MODEL_TENSOR_NONE);
    }
}

static gboolean
build_all (Assembly *a, ModelProgram *program, Build *builds, GError **error)
{
  g_autofree guint32 *input_grads = g_new (guint32, program->n_chunks);
  if (!plan_chunks (a, program, builds, error))
    return FALSE;
  for (guint32 i = 0; i < program->n_chunks; i++)
    if (!build_forward (a, builds, i, error))
      return FALSE;
  for (guint32 i = program->n_chunks; a->job->phase == MODEL_PHASE_TRAIN && i-- > 0;)
    build_backward (a, builds, i, input_grads);
  build_tail (a, program, builds);
  note_pieces (program, builds);
  return TRUE;
}

ModelProgram *
model_program_new (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                   const ModelProfile *profile, guint32 pp_rank, GError **error)
{
  g_return_val_if_fail (pp_rank < layout->pp, NULL);
  g_autoptr (ModelProgram) program = g_new0 (ModelProgram, 1);
  program->pp_rank = pp_rank;
  program->microbatches = model_layout_microbatches (layout, job);
  program->schedule = model_schedule_for_layout (layout, program->microbatches, error);
  if (program->schedule == NULL)
    return NULL;
  program->n_chunks = layout->vpp;
  program->chunks = g_new0 (ModelChunk, program->n_chunks);
  Assembly assembly;
  program_assembly_init (&assembly, arch, job, layout, profile);
  g_autofree Build *builds = g_new0 (Build, program->n_chunks);
  gboolean built = build_all (&assembly, program, builds, error);
  for (guint32 i = 0; i < program->n_chunks; i++)
    build_clear (&builds[i]);
  program->n_ops = assembly.ops->len;
  program->n_tensors = assembly.tensors->len;
  program->ops = (ModelOp *)g_array_steal (assembly.ops, NULL);
  program->tensors = (ModelTensor *)g_array_steal (assembly.tensors, NULL);
  program_assembly_clear (&assembly);
  return built ? g_steal_pointer (&program) : NULL;
}

void
model_program_free (ModelProgram *program)
{
  if (program == NULL)
    return;
  g_free (program->ops);
  g_free (program->tensors);
  g_free (program->chunks);
  g_free (program->pieces);
  model_schedule_free (program->schedule);
  g_free (program);
}
