/* sim/play.h - plays one step of a plan event by event.
 *
 * Per rank a compute stream and communication streams (tp, cp, ep, to the next and to the previous
 * pipeline rank, dp); the order of work is the schedule's (model/schedule.h), what a pass does its
 * tape's (sim/tape.h). A stream runs one thing at a time. Ranks that behave alike are played once:
 * one pipeline stands for all, and a pipeline of its own for each that has a straggler in it;
 * @full plays every rank, and members of a group then wait for each other.
 *
 * Without contention a play is the recurrence of costmodel/pipeline.h over single ops: collectives
 * take their time alone, what hides of them hides whole. With contention
 *   - flows share links max-min fairly (sim/links.h, topo/maxmin.h), each capped by its pace alone;
 *   - a stream finishes one collective before the next, hidden part included;
 *   - compute beside communication is slower by the calibration's interference.
 *
 * Where a play differs from the recurrence and the closed-form tail, the difference is added to
 * the calibrated step: simulated_s = step_s + (played_s − schedule_s − tail_s)·(1 + straggler).
 */
#pragma once
#include "costmodel/evaluate.h"
#include "model/schedule.h"
#include "sim/tape.h"
#include <glib.h>
G_BEGIN_DECLS

/* Something that ran from start_s to end_s on one stream of one rank. */
typedef struct {
  guint32 rank;              /* global: the first of those it stands for */
  guint8 stream;             /* SimStream */
  guint8 part;               /* CostPart */
  guint8 phase;              /* ModelOpPhase */
  guint8 is_send;            /* a message: ends where @message begins to be used */
  const char *name;          /* static */
  guint32 chunk, microbatch; /* G_MAXUINT32: of the step as a whole */
  double start_s, end_s;
  guint64 message;     /* != 0: sent (is_send) or waited for by this op */
  guint64 alive_bytes; /* compute: allocated while it runs; else 0 */
} SimEvent;

typedef struct {
  guint32 rank; /* global */
  double slow;  /* its compute takes so many times as long, > 0 */
} SimStraggler;

typedef struct {
  gboolean full;       /* every rank, instead of one for all that behave alike */
  gboolean contention; /* links are shared, streams queue, compute beside communication slows */
  double jitter_ratio; /* relative standard deviation of the compute time of a pass; 0: none */
  guint64 seed;
  const SimStraggler *stragglers; /* (borrowed) */
  guint n_stragglers;
  /* times of a part multiplied by this: "what if it were faster"; NULL: 1. By CostPart; OTHER:
   * launch gaps. (borrowed) */
  const double *scale;
  void (*event) (const SimEvent *event, gpointer user_data); /* (nullable), in no fixed order */
  gpointer user_data;
} SimPlayOptions;

typedef struct {
  guint32 rank, pp_rank;             /* global rank, pipeline rank */
  guint32 stands_for;                /* ranks */
  double parts_s[COST_PART_N_KINDS]; /* sum to played_s; PP_BUBBLE: waiting for work, P2P: for
                                        messages on their way, OTHER: launch gaps and waiting for
                                        ranks that are late at the end */
  double end_s;                      /* of its last backward */
  guint64 peak_bytes;                /* allocated */
  guint64 kept_bytes;                /* of them: activations kept for backward */
  guint64 closed_bytes;              /* what costmodel/memory.h says */
  const char *peak_op;               /* static */
  guint32 peak_chunk, peak_microbatch;
  guint8 peak_phase; /* ModelOpPhase */
} SimRank;

/* A link that traffic of more than one kind filled. */
typedef struct {
  const char *name; /* (borrowed) from the play */
  double lost_s;    /* by which its flows came later, summed */
  guint32 traffic;  /* bits of SIM_TRAFFIC_… */
} SimLinkUse;

/* One stretch of the longest chain of work and messages, last first. */
typedef struct {
  guint32 rank, chunk, microbatch;
  guint8 kind;        /* ModelStepKind; 255: the tail */
  guint8 was_message; /* what held it up before: a message, else its own rank */
  double start_s, end_s;
} SimCriticalStep;

typedef struct {
  double played_s;    /* the step as played */
  double pipeline_s;  /* end of the last backward */
  double utilisation; /* compute time of a rank over played_s, mean */
  guint64 op_count;   /* ops, messages and collectives that ran */
  guint32 n_ranks;
  SimRank *ranks; /* (owned) */
  guint n_links;
  SimLinkUse *links; /* (owned) most lost first */
  double queued_s;   /* compute waiting for a stream still busy with a hidden part, all ranks */
  double slowed_s;   /* compute lost to communication beside it, all ranks */
  guint n_critical;
  SimCriticalStep *critical;            /* (owned) */
  double critical_s[COST_PART_N_KINDS]; /* of the critical chain; sums to played_s */
} SimResult;
void sim_result_clear (SimResult *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SimResult, sim_result_clear)

typedef struct _SimPlay SimPlay;

/*
 * @c, @options: (borrowed) until the play is freed. FALSE with MODEL_ERROR_ILLEGAL for orders that
 * never end, stragglers that are not among the ranks or not slower than 0, and more ranks than can
 * be played in full.
 */
SimPlay *sim_play_new (const SimCase *c, const SimPlayOptions *options, GError **error);
/* A schedule alone: every pass one op. @times: as for the recurrence; kept: one byte by chunk. */
SimPlay *sim_play_new_schedule (const CostPipeline *times, const ModelSchedule *schedule,
                                const SimPlayOptions *options, GError **error);
void sim_play_free (SimPlay *play);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SimPlay, sim_play_free)

/* Run number @run of the seed; any number of times. */
gboolean sim_play_run (SimPlay *play, guint64 run, SimResult *out, GError **error);

/* The calibrated step of a play: see above. */
double sim_simulated_s (const CostPlacement *placement, const CostPrediction *prediction,
                        double played_s);
G_END_DECLS
