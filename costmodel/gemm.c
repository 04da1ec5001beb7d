/* costmodel/gemm.c - see gemm.h. */
#include "costmodel/gemm.h"

#include <math.h>

/* FLOPs are worth 10 us of the peak before heat and power begin to cost (findings §2). */
#define LONG_RUN_S 10e-6
/* The long-run loss is never more than half (findings §2). */
#define LONG_RUN_FLOOR 0.5
/* A partial sum is 4 bytes, written once and read once, half of it from L2: 2 bytes (findings §2). */
#define PARTIAL_SUM_BYTES 2.0
/* What adding into fp32 moves: 4 read + 4 written, against 2 written in 16 bits. */
#define ACCUMULATE_EXTRA_BYTES 6.0
#define ACCUMULATE_BASE_BYTES  2.0

typedef struct {
  guint rows, columns;
} Tile;

static const Tile tiles[] = { { 128, 256 }, { 128, 128 }, { 64, 64 } };
#define MAX_SPLIT 16

/* Times of one tile without the factor of the waves, and what is common to all candidates. */
typedef struct {
  double m, n, k, batch;
  double sm_count, wave_ratio, power, k0, split_s;
  double tensor_flop_per_s; /* reached by one SM */
  double feed_bytes_per_s;
  double in_bytes;
  double dram_s;
  double partial_s; /* DRAM time of one partial sum of C */
} Shape;

static double
output_bytes (const CostGemmContext *context)
{
  if (!context->accumulate)
    return context->out_bytes;
  return ACCUMULATE_BASE_BYTES + ACCUMULATE_EXTRA_BYTES * context->numbers->accumulate_ratio;
}

static void
shape_init (Shape *shape, const CostGemmContext *context, double m, double n, double k,
            double batch)
{
  const CostGemm *numbers = context->numbers;
  double flop = 2 * m * n * k * batch;
  double doublings = fmax (0, log2 (flop / context->peak_flop_per_s / LONG_RUN_S));
  double ceiling = numbers->ceiling_ratio[context->precision]
                   * fmax (LONG_RUN_FLOOR, 1 - numbers->long_loss * doublings);
  double dram_bytes_per_s = numbers->memory_ratio * context->hbm_bytes_per_s;
  double rate = numbers->step_ratio / context->slowdown;
  double bytes = batch * (context->in_bytes * (m * k + n * k) + output_bytes (context) * m * n);
  *shape = (Shape){
    .m = m,
    .n = n,
    .k = k,
    .batch = batch,
    .sm_count = context->sm_count,
    .wave_ratio = numbers->wave_ratio,
    .power = numbers->power,
    .k0 = ldexp (numbers->k0, (int)context->precision),
    .split_s = numbers->split_s,
    .tensor_flop_per_s = context->peak_flop_per_s * ceiling * rate / context->sm_count,
    .feed_bytes_per_s = context->feed_bytes_per_s * rate,
    .in_bytes = context->in_bytes,
    .dram_s = bytes / dram_bytes_per_s,
    .partial_s = PARTIAL_SUM_BYTES * batch * m * n / dram_bytes_per_s,
  };
}

/* (a^p + b^p + c^p)^(1/p) with @high the largest of the three. */
static double
soft_maximum (double a, double b, double c, double high, double power)
{
  double sum = 0;
  const double parts[] = { a, b, c };
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    sum += parts[i] == high ? 1 : pow (parts[i] / high, power);
  return sum == 1 ? high : high * pow (sum, 1 / power);
}

/* The least of @best_s and the time with @tile and K cut in @split. */
static double
try_candidate (const Shape *shape, const Tile *tile, double n_tiles, guint split, double best_s)
{
  double waves = n_tiles * split / shape->sm_count;
  double paid = shape->wave_ratio * ceil (waves) + (1 - shape->wave_ratio) * fmax (1, waves);
  double depth = shape->k / split;
  double tensor_s
      = paid * 2 * tile->rows * tile->columns * (depth + shape->k0) / shape->tensor_flop_per_s;
  double feed_s = paid * shape->in_bytes
                  * (fmin (tile->rows, shape->m) + fmin (tile->columns, shape->n)) * depth
                  / shape->feed_bytes_per_s;
  double dram_s = shape->dram_s + (split > 1 ? shape->partial_s * (split + 1) : 0);
  double extra_s = split > 1 ? shape->split_s : 0;
  double high = fmax (tensor_s, fmax (feed_s, dram_s));
  if (high + extra_s >= best_s)
    return best_s;
  double time_s = soft_maximum (tensor_s, feed_s, dram_s, high, shape->power) + extra_s;
  return fmin (time_s, best_s);
}

double
cost_gemm_s (const CostGemmContext *context, guint64 m, guint64 n, guint64 k, guint32 batch)
{
  if (m == 0 || n == 0 || k == 0 || batch == 0)
    return 0;
  if (!(context->peak_flop_per_s > 0))
    return INFINITY;
  Shape shape;
  shape_init (&shape, context, (double)m, (double)n, (double)k, batch);
  double best_s = INFINITY;
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++) {
    double n_tiles
        = ceil (shape.m / tiles[i].rows) * ceil (shape.n / tiles[i].columns) * shape.batch;
    for (guint split = 1; split <= MAX_SPLIT; split *= 2)
      best_s = try_candidate (&shape, &tiles[i], n_tiles, split, best_s);
  }
  return context->numbers->launch_s + best_s;
}
