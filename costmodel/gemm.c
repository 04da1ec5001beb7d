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

/* Large ones first: with a good time at hand most of the others are not worked out. */
static const Tile tiles[] = { { 256, 128 }, { 128, 256 }, { 128, 128 }, { 256, 256 },
                              { 512, 256 }, { 64, 64 },   { 128, 64 },  { 64, 128 } };
#define MAX_SPLIT 16

/* What is common to all candidates. */
typedef struct {
  double m, n, k, batch;
  double sm_count, wave_ratio, padding_ratio, power, k0, split_s;
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

/* What is not in L2 already, of a product that is timed over and over. */
static double
cold_bytes (double bytes, double warm_bytes)
{
  double ratio = warm_bytes / bytes;
  return bytes / (1 + ratio * ratio * ratio * ratio);
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
    .padding_ratio = numbers->padding_ratio,
    .power = numbers->power,
    .k0 = ldexp (numbers->k0, (int)context->precision),
    .split_s = numbers->split_s,
    .tensor_flop_per_s = context->peak_flop_per_s * ceiling * rate / context->sm_count,
    .feed_bytes_per_s = context->feed_bytes_per_s * rate,
    .in_bytes = context->in_bytes,
    .dram_s = cold_bytes (bytes, context->warm_bytes) / dram_bytes_per_s,
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

/* Tiles of @size along @length: what the last one pads costs only its share. */
static double
tiles_along (double length, double size, double padding_ratio)
{
  double exact = length / size;
  return exact + padding_ratio * (ceil (exact) - exact);
}

/* The least of @best_s and the times with @tile, whole and with K split. */
static double
try_tile (const Shape *shape, const Tile *tile, double best_s)
{
  double n_tiles = tiles_along (shape->m, tile->rows, shape->padding_ratio)
                   * tiles_along (shape->n, tile->columns, shape->padding_ratio) * shape->batch;
  /* per unit of K and wave */
  double tensor_s = 2.0 * tile->rows * tile->columns / shape->tensor_flop_per_s;
  double feed_s = shape->in_bytes * (fmin (tile->rows, shape->m) + fmin (tile->columns, shape->n))
                  / shape->feed_bytes_per_s;
  /* Whatever the split: no wave is cheaper than its share, and bytes only grow. */
  if (fmax (tensor_s, feed_s) * shape->k * n_tiles >= best_s * shape->sm_count)
    return best_s;
  for (guint split = 1; split <= MAX_SPLIT; split *= 2) {
    double waves = n_tiles * split / shape->sm_count;
    double paid = shape->wave_ratio * ceil (waves) + (1 - shape->wave_ratio) * fmax (1, waves);
    double depth = shape->k / split;
    double tile_tensor_s = paid * tensor_s * (depth + shape->k0);
    double tile_feed_s = paid * feed_s * depth;
    double dram_s = shape->dram_s + (split > 1 ? shape->partial_s * (split + 1) : 0);
    double extra_s = split > 1 ? shape->split_s : 0;
    if (dram_s + extra_s >= best_s)
      break;
    double high = fmax (tile_tensor_s, fmax (tile_feed_s, dram_s));
    if (high + extra_s < best_s)
      best_s
          = fmin (best_s,
                  extra_s + soft_maximum (tile_tensor_s, tile_feed_s, dram_s, high, shape->power));
  }
  return best_s;
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
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    best_s = try_tile (&shape, &tiles[i], best_s);
  return context->numbers->launch_s + best_s;
}
