/* sim/space.h - which layouts a search tries: one list of values per layout key.
 *
 * The lists are made from the problem (divisors, powers of two) and narrowed by what the user
 * pinned. A candidate is one value of each; legality decides which exist (model_layout_check).
 */
#pragma once
#include "costmodel/evaluate.h"
#include <glib.h>
G_BEGIN_DECLS
#define SIM_ERROR (sim_error_quark ())
GQuark sim_error_quark (void);
typedef enum {
  SIM_ERROR_SPACE, /* a pinned key leaves nothing to try */
  SIM_ERROR_CANCELLED,
} SimError;

/* Layout keys that a user may pin. */
typedef enum {
  SIM_PIN_TP = 1 << 0,
  SIM_PIN_CP = 1 << 1,
  SIM_PIN_PP = 1 << 2,
  SIM_PIN_VPP = 1 << 3,
  SIM_PIN_EP = 1 << 4,
  SIM_PIN_ETP = 1 << 5,
  SIM_PIN_MBS = 1 << 6,
  SIM_PIN_SP = 1 << 7,
  SIM_PIN_ZERO = 1 << 8,
  SIM_PIN_HSDP = 1 << 9,
  SIM_PIN_RECOMPUTE = 1 << 10,
  SIM_PIN_SCHEDULE = 1 << 11,
  SIM_PIN_STAGES = 1 << 12,
  SIM_PIN_DP = 1 << 13,
} SimPin;

/* What a family of templates shares: all that decides the price of a block but recompute. */
typedef struct {
  guint32 tp, cp, ep, etp, mbs;
  gboolean sp;
} SimFamily;

/* A recompute setting of whole stages; full also stands for full:block:N, every N (SimPipeline). */
typedef struct {
  ModelRecomputeKind kind;
  guint16 modules;
} SimRecompute;
#define SIM_MAX_RECOMPUTES 16

/* One pipeline shape: pp, vpp, schedule and the layers of its stages. */
typedef struct {
  guint32 pp, vpp;
  ModelScheduleKind schedule;
  guint32 *stage_layers;    /* (owned) pp·vpp entries */
  gboolean explicit_stages; /* not what "auto" would give: printed as a list */
  CostStageMap map;         /* (owned) */
  /* maps of recompute=full:block:N: N = first_partial, first_partial + 1, … */
  guint32 n_partial, first_partial;
  CostStageMap *partial; /* (owned) (nullable) */
} SimPipeline;

/* Fills in the map of a pipeline whose other members are set. */
void sim_pipeline_map (SimPipeline *pipeline, const ModelArch *arch, const CostBlockKinds *kinds);
/* Those of full:block:@layers, or, with 0, of every N below its longest chunk. Done once. */
void sim_pipeline_map_partial (SimPipeline *pipeline, const ModelArch *arch,
                               const CostBlockKinds *kinds, guint32 layers);
void sim_pipeline_clear (SimPipeline *pipeline);

typedef struct {
  ModelLayout base; /* (owned) every key that is not searched */
  guint32 pinned;   /* SimPin bits */
  CostBlockKinds kinds;
  GArray *families;       /* (owned) SimFamily */
  GArray *recomputes;     /* (owned) SimRecompute, at most SIM_MAX_RECOMPUTES; none comes first */
  GArray *pipelines;      /* (owned) SimPipeline, legal stage splits only */
  GArray *zero;           /* (owned) guint32 */
  guint64 refused_stages; /* pipelines that would have a stage without a layer */
} SimSpace;

/*
 * @pins: layout whose keys named in @pinned are fixed; its other keys give dtype, attn, cp_comm,
 * tp_sync and overlap.
 *
 * Tried, where not pinned: tp and pp every divisor of the GPU count (tp at most twice the NVLink
 * domain, pp at most the layers); cp every power of two that leaves 1,024 tokens per rank; sp both;
 * vpp up to 16 where layers, or layers with embedding and head, divide by pp·vpp; ep every divisor
 * of the experts up to the GPU count, etp 1 and tp; mbs every divisor of the batch up to 64; recompute none,
 * selective (modules_tried in space.c), full, and full on the first N layers of each chunk for
 * every N, of which the least that fits is taken; ZeRO 0 to 3; sharding over all ranks, or inside
 * the NVLink domain (hsdp), for ZeRO 1 to 3 alike.
 */
gboolean sim_space_init (SimSpace *space, const CostProblem *problem, const ModelLayout *pins,
                         guint32 pinned, GError **error);
void sim_space_clear (SimSpace *space);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SimSpace, sim_space_clear)
/* Raw candidates, legal or not; G_MAXUINT64 where that is too small. */
guint64 sim_space_size (const SimSpace *space);
/* Does the space try every N of full:block:N? */
gboolean sim_space_tries_partial (const SimSpace *space);
/* N, where full:block:N is pinned, else 0. */
guint32 sim_space_pinned_partial (const SimSpace *space);
/* Which pins a layout text names ("tp=8,sp=1" → TP | SP). */
guint32 sim_space_pins_of_text (const char *layout_text);
G_END_DECLS
