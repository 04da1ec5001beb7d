/* sim/play-private.h - the state of a play: players, flows, events. */
#pragma once
#include "sim/links.h"
#include "sim/play.h"
G_BEGIN_DECLS

#define NOBODY       G_MAXUINT32
#define NOT_YET      (-1.0)
#define MAX_TAIL     4 /* collectives after the gradients: embedding, mirror, replicated, gather */
#define N_SYNC_KINDS (SIM_TRAFFIC_N_KINDS + 1) /* groups that wait for each other; the last: all */
#define SYNC_ALL     SIM_TRAFFIC_N_KINDS

/* ---- time ---- */

typedef enum {
  EVENT_PLAYER, /* a player goes on */
  EVENT_HOOK,   /* a player's gradients may begin to be reduced */
  EVENT_SEND,   /* the first message of a queue may start */
  EVENT_FLOW,   /* a flow has been waited for, or ends */
} EventKind;

typedef struct {
  double time_s;
  guint32 sequence; /* of equals the first made goes first */
  guint32 id;       /* player, player · 2 + direction, flow */
  guint32 version;  /* of the flow */
  guint8 kind;
} Event;

typedef struct {
  Event *events; /* (owned) a binary heap */
  guint32 n, capacity, sequence;
} EventQueue;
void event_queue_push (EventQueue *queue, double time_s, EventKind kind, guint32 id,
                       guint32 version);
gboolean event_queue_pop (EventQueue *queue, Event *out);

/* ---- flows: transfers whose pace depends on others ---- */

typedef enum { FLOW_COLLECTIVE, FLOW_GRADIENTS, FLOW_MESSAGE } FlowKind;

typedef struct {
  const SimOp *op;
  const SimLoad *loads;
  guint n_loads;
  guint32 link_base;       /* added to the links of the loads: pipelines have their own */
  guint8 kind;             /* FlowKind */
  guint8 direction;        /* messages: 0 next, 1 back */
  guint32 player;          /* whose it is, where no group is */
  guint32 sync_kind, sync; /* the group, NOBODY: one player */
  double remaining_s, exposed_left_s; /* at full pace; exposed < 0: nobody waits */
  double pace, updated_s, started_s;
  guint32 version, bottleneck;
  guint32 next_free;
  guint32 message; /* index */
} Flow;

typedef struct {
  double asked_bytes_per_s; /* if all its flows ran at full pace */
  double capacity_bytes_per_s;
  double lost_s;
  guint32 traffic; /* bits that met here */
  guint32 *flows;  /* (owned) */
  guint32 n_flows, capacity;
  guint32 mark;
} Shared;

/* Scratch of the max-min problem. */
typedef struct {
  GArray *flows, *links;                              /* guint32 */
  GArray *capacities, *caps, *weights, *rates, *work; /* double */
  GArray *first, *members, *bottlenecks;              /* guint32 */
  guint32 mark;
} Solver;

/* ---- players ---- */

typedef enum {
  WAIT_NOTHING,
  WAIT_MESSAGE,
  WAIT_STREAM, /* a flow on a stream of its own has to end */
  WAIT_FLOW,   /* the exposed part of a flow */
  WAIT_GROUP,  /* the other members */
  WAIT_GRADIENTS,
} Wait;

typedef enum {
  AT_STEP,
  AT_RECEIVE,
  AT_PASS,
  AT_DELIVERY,
  AT_GRADIENTS,
  AT_TAIL,
  AT_BARRIER,
  AT_END
} Position;

/* Ops after the last backward that depend on the stage. */
typedef struct {
  SimOp gradients; /* duration 0: none */
  double hidden_s; /* of it, under the last backward */
  gboolean is_per_microbatch;
  gboolean is_before_send;   /* the last message to the stage before waits for the gradients */
  SimOp each;                /* then: after every micro-batch but the last */
  SimOp transfers[MAX_TAIL]; /* before the optimizer */
  guint n_transfers;
  SimOp optimizer, gather;
} Tail;

typedef struct {
  guint32 next; /* in a queue or free list */
  guint32 lane, place, microbatch;
  guint8 is_forward;
  double ready_s;
} Message;

typedef struct {
  guint32 pp_rank, lane, rank, stands_for;
  guint32 link_base;
  guint32 owner_of[SIM_TRAFFIC_N_KINDS]; /* of links; see links.h */
  double slow;                           /* stragglers */
  const Tail *tail;
  guint64 static_bytes; /* weights, gradients, optimizer, gathers, fixed */
  guint64 step_bytes;   /* alive in the optimizer step instead of activations */
  guint64 closed_bytes;
  /* where it is */
  guint8 position, wait, wait_stream;
  guint32 step, tail_at;
  guint32 n_tapes, op[2];
  const SimTape *tape[2];
  double factor; /* of compute in this pass */
  double clock_s;
  double waited_from_s;
  double stream_free_s[SIM_STREAM_N_KINDS];
  guint32 stream_flow[SIM_STREAM_N_KINDS]; /* NOBODY: none */
  double beside_until_s;                   /* some communication runs until then */
  guint32 queue_first[2], queue_last[2];   /* messages to send */
  double group_exposed_s;                  /* of the op it waits to begin with its group */
  double gradients_end_s;                  /* NOT_YET */
  double gradients_s;                      /* left of them when they may begin; 0: none */
  /* memory */
  gint64 kept_bytes;
  guint64 peak_bytes, peak_kept_bytes;
  const char *peak_op;
  guint32 peak_step;
  guint8 peak_phase;
  /* accounts */
  double parts_s[COST_PART_N_KINDS];
  double passes_end_s, end_s;
  double queued_s, slowed_s;
  double *step_start_s, *step_end_s; /* (owned by the play) */
  /* for the log: what is still on each stream */
  SimEvent open[SIM_STREAM_N_KINDS];
  gboolean is_open[SIM_STREAM_N_KINDS];
  guint64 message; /* that the pass about to begin waited for */
} Player;

/* Players that act together. */
typedef struct {
  guint32 first, size; /* in the kind's list of members */
  guint32 arrived;
  double start_s; /* latest arrival so far */
} Sync;

struct _SimPlay {
  const SimCase *c; /* (borrowed) (nullable) */
  SimPlayOptions options;
  ModelSchedule *schedule; /* (owned) */
  SimTapes tapes;
  guint16 *content_of_stage; /* (owned) */
  CostMessages messages;
  SimOp next_op, back_op; /* messages */
  Tail *tails;            /* (owned) by pipeline rank */
  SimLinks *links;        /* (owned) (nullable) */
  guint32 pp, vpp, n_lanes, n_places;
  gsize passes;
  double interference_ratio;
  guint32 *place_rank; /* (owned) pipeline rank of a place */
  guint32 n_players;
  Player *players;                  /* (owned) lane by lane */
  double *steps;                    /* (owned) starts and ends */
  double *forward_at, *gradient_at; /* (owned) arrival by lane, place, micro-batch */
  guint32 n_syncs[N_SYNC_KINDS];
  Sync *syncs[N_SYNC_KINDS];      /* (owned) (nullable) */
  guint32 *members[N_SYNC_KINDS]; /* (owned) (nullable) players, group by group */
  guint32 *sync_of[N_SYNC_KINDS]; /* (owned) (nullable) by player; NULL: nobody waits */
  EventQueue queue;
  double now_s;
  Flow *flows; /* (owned) */
  guint32 n_flows, flows_capacity, free_flow;
  Message *messages_out; /* (owned) */
  guint32 n_messages, messages_capacity, free_message;
  Shared *shared; /* (owned) */
  guint32 n_shared;
  Solver solver;
  guint64 run, op_count;
};

/* sim/sharing.c: @flow has its loads; it starts or ends now. */
void sharing_add (SimPlay *play, guint32 flow);
void sharing_remove (SimPlay *play, guint32 flow);
void sharing_init (SimPlay *play, guint32 n_links);
void sharing_clear (SimPlay *play);
/* Brings the flow to now and gives it a new pace. */
void flow_set_pace (SimPlay *play, guint32 flow, double pace, guint32 bottleneck);

/* sim/flow.c */
typedef enum {
  COMM_GOES_ON, /* begun; compute goes on at the player's clock */
  COMM_WAITS,   /* begun; the player is woken */
  COMM_RETRY,   /* not begun; the player is woken and has to ask again */
} Comm;
/* A communication op of @player at its clock, of which compute waits for @exposed_s. */
Comm play_communicate (SimPlay *play, Player *player, const SimOp *op, double exposed_s);
void flow_event (SimPlay *play, guint32 flow, guint32 version);
/* @player's gradients may begin to be reduced now. */
void play_hook (SimPlay *play, Player *player);

/* sim/message.c */
void play_send (SimPlay *play, Player *player, guint32 place, guint32 microbatch,
                gboolean is_forward);
void play_send_first (SimPlay *play, Player *player, guint direction);
void play_message_end (SimPlay *play, Flow *flow);
void play_arrive (SimPlay *play, guint32 lane, guint32 place, guint32 microbatch,
                  gboolean is_forward, double time_s);

/* sim/flow.c, for messages too */
guint play_loads (const SimPlay *play, const Player *player, const SimOp *op,
                  const SimLoad **out_loads);
guint32 flow_new (SimPlay *play, FlowKind kind, const SimOp *op, const Player *player,
                  double duration_s, double exposed_s);

/* sim/engine.c */
void play_advance (SimPlay *play, guint32 player);
void play_wake (SimPlay *play, Player *player, double time_s);
static inline guint32
player_id (const SimPlay *play, const Player *player)
{
  return (guint32)(player - play->players);
}

/* sim/log.c: a stretch of a stream, and all that is still open at the end. */
void log_op (SimPlay *play, Player *player, const SimOp *op, double start_s, double end_s);
void log_message (SimPlay *play, Player *player, const SimOp *op, const Message *message,
                  double start_s, double end_s);
/* The pass about to begin waited for this message. */
void log_wait (SimPlay *play, Player *player, const ModelStep *step);
void log_flush (SimPlay *play);

/* sim/critical.c */
void play_find_critical (const SimPlay *play, SimResult *out);
G_END_DECLS
