/* sim/tape.h - what a rank does in one pass of a stage, op after op, ready to be played.
 *
 * A tape is a range of the Program (model/program.h) with what playing needs: seconds alone, what
 * of a collective compute waits for, bytes alive, load on the links. Stages that hold the same
 * share their tapes, so a pipeline has a handful.
 */
#pragma once
#include "costmodel/pieces.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  SIM_STREAM_COMPUTE,
  SIM_STREAM_TP,
  SIM_STREAM_CP,
  SIM_STREAM_EP,
  SIM_STREAM_PP_NEXT, /* messages to the next rank of the pipeline */
  SIM_STREAM_PP_BACK, /* and to the one before */
  SIM_STREAM_DP,
  SIM_STREAM_N_KINDS
} SimStream;
const char *sim_stream_name (SimStream stream); /* "compute", "tp", …, "pp next", "pp back" */

/* How a group's members load links: neighbours, all pairs, neighbours without the way over NICs
 * for members whose neighbour is near. */
typedef enum {
  SIM_PATTERN_RING,
  SIM_PATTERN_ALLTOALL,
  SIM_PATTERN_NEIGHBOUR,
  SIM_PATTERN_N_KINDS
} SimPattern;

/* Kinds of traffic: the groups of the rank map, and what is between pipeline ranks. */
#define SIM_TRAFFIC_NEXT    MODEL_GROUP_N_KINDS       /* message to the next pipeline rank */
#define SIM_TRAFFIC_BACK    (MODEL_GROUP_N_KINDS + 1) /* to the one before */
#define SIM_TRAFFIC_MIRROR  (MODEL_GROUP_N_KINDS + 2) /* between the two ranks of one stage */
#define SIM_TRAFFIC_N_KINDS (MODEL_GROUP_N_KINDS + 3)

typedef struct {
  double duration_s;          /* alone */
  double exposed_s;           /* communication: compute waits for so much of it, from its start */
  double gap_s;               /* before the op: compute stands still (the host) */
  double link_bytes_per_s;    /* communication alone: rate of a hop inside the domain, */
  double network_bytes_per_s; /* and of one GPU to the network */
  guint64 work_bytes;         /* alive during the op, beside what is kept */
  gint64 kept_before_bytes;   /* change of what is kept, before and after the op */
  gint64 kept_after_bytes;
  const char *name; /* static */
  guint8 stream;    /* SimStream */
  guint8 part;      /* CostPart that its time counts for */
  guint8 phase;     /* ModelOpPhase */
  guint8 traffic;   /* communication: ModelGroupKind or SIM_TRAFFIC_… */
  guint8 pattern;   /* SimPattern */
} SimOp;

typedef struct {
  SimOp *ops; /* (owned) */
  guint n_ops;
  double pass_s;                     /* alone, undisturbed */
  double parts_s[COST_PART_N_KINDS]; /* of it; OTHER: gaps */
} SimTape;

typedef struct {
  guint32 n_contents;
  SimTape (*tapes)[4]; /* (owned) by content of the stage map and ModelStepKind */
} SimTapes;

/* Everything a play rests on, worked out once; see sim_case_init. */
typedef struct {
  const CostProblem *problem; /* (borrowed) */
  ModelLayout layout;         /* (owned) */
  CostBlockKinds kinds;
  CostTemplate *tmpl; /* (owned) */
  CostStageMap map;   /* (owned) */
  CostPlacement placement;
  CostMessages messages;
  guint64 microbatches;
} SimCase;

/* @layout: resolved. As cost_predict: the same errors. */
gboolean sim_case_init (SimCase *out, const CostProblem *problem, const ModelLayout *layout,
                        GError **error);
void sim_case_clear (SimCase *c);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SimCase, sim_case_clear)

/*
 * @interference_ratio: compute beside a collective takes so much longer. The fitted exposure of a
 * collective already contains that of its hidden part, so less of it is waited for at its start;
 * what hides whole slows compute down.
 */
gboolean sim_tapes_init (SimTapes *tapes, const SimCase *c, double interference_ratio,
                         GError **error);
void sim_tapes_clear (SimTapes *tapes);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SimTapes, sim_tapes_clear)

/* The group of @traffic and where it lies; of shards and copies the group they are cut from. */
const CostGroup *sim_case_group (const SimCase *c, ModelGroupKind traffic,
                                 const TopoGroupShape **out_shape);

/* The loads of a collective of @time_s over the group of @traffic. */
void sim_op_set_load (SimOp *op, const CostGroup *group, const TopoGroupShape *shape,
                      ModelCollectiveKind collective, double bytes, double time_s);
G_END_DECLS
