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
  SIM_ERROR_SPACE,     /* a pinned key leaves nothing to try */
  SIM_ERROR_CANCELLED,
} SimError;

typedef struct {
  GArray *tp, *cp, *pp, *vpp, *ep, *etp, *mbs, *hsdp; /* of guint32, ascending */
  GArray *sp, *zero;                                 /* of guint32 */
  GArray *recompute;                                 /* of ModelRecompute */
  GArray *schedule;                                  /* of guint32 (ModelScheduleKind) */
  GArray *stage_lists;   /* of guint32 *: (owned) explicit lists of the user; empty: auto */
  ModelLayout base;      /* (owned) every key not searched: dtype, attn, cp_comm, tp_sync, overlap */
} SimSpace;

/*
 * @pins: (nullable) layout whose keys named in @pinned (bits of SimPin) are fixed.
 * Values tried: tp divisors of the heads up to the world and twice the NVLink domain (at most);
 * pp every divisor of the world with pp <= layers; vpp every v with pp·v <= layers (at most 16
 * values); ep divisors of the experts; mbs powers of two (and divisors of the batch) up to 64;
 * recompute none, selective (core_attn where the kernel is unfused, and the modules the model
 * has), full uniform:1 and block halves; zero 0..3 as the profile allows.
 */
typedef enum {
  SIM_PIN_TP = 1 << 0, SIM_PIN_CP = 1 << 1, SIM_PIN_PP = 1 << 2, SIM_PIN_VPP = 1 << 3,
  SIM_PIN_EP = 1 << 4, SIM_PIN_ETP = 1 << 5, SIM_PIN_MBS = 1 << 6, SIM_PIN_SP = 1 << 7,
  SIM_PIN_ZERO = 1 << 8, SIM_PIN_HSDP = 1 << 9, SIM_PIN_RECOMPUTE = 1 << 10,
  SIM_PIN_SCHEDULE = 1 << 11, SIM_PIN_STAGES = 1 << 12, SIM_PIN_DP = 1 << 13,
} SimPin;
gboolean sim_space_init (SimSpace *space, const CostProblem *problem, const ModelLayout *pins,
                         guint32 pinned, GError **error);
void sim_space_clear (SimSpace *space);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SimSpace, sim_space_clear)
/* Which pins a layout text names ("tp=8,sp=1" → TP | SP). */
guint32 sim_space_pins_of_text (const char *layout_text);
G_END_DECLS
