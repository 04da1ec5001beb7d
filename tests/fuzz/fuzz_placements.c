/* tests/fuzz/fuzz_placements.c - any text as placements on a 2 × 3 mesh of a 3-dimensional tensor. */
#include "model/shard.h"
#include "tests/fuzz/fuzz.h"

static const guint64 shape[] = { 7, 30, 11 };
static const guint32 mesh[] = { 2, 3 };

/* Shards lie inside the tensor, and a way to R exists from everything but the unsupported. */
static void
check (const ModelPlacement *placements)
{
  const ModelPlacement replicate[2]
      = { { .kind = MODEL_PLACEMENT_REPLICATE }, { .kind = MODEL_PLACEMENT_REPLICATE } };
  GError *error = NULL;
  for (guint32 rank = 0; rank < 6; rank++) {
    guint64 local[3], offset[3];
    gboolean ok
        = model_shard_local (shape, 3, mesh, 2, placements, rank, local, offset, NULL, &error);
    fuzz_require_outcome (ok, &error);
    for (guint i = 0; ok && i < 3; i++)
      fuzz_require (local[i] <= shape[i] && offset[i] <= shape[i] - local[i]);
  }
  g_autoptr (GArray) steps
      = model_redistribute_plan (shape, 3, 2, mesh, 2, placements, replicate, &error);
  fuzz_require (steps != NULL && steps->len <= 2);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  ModelPlacement placements[4];
  GError *error = NULL;
  guint n = 0;
  gboolean ok = model_placements_parse (text, 3, placements, 4, &n, &error);
  fuzz_require (ok ? n >= 1 && n <= 4 : n == 0);
  fuzz_require_outcome (ok, &error);
  for (guint i = 0; i < n; i++) {
    ModelPlacement again;
    guint one = 0;
    g_autofree char *written = model_placement_format (&placements[i]);
    fuzz_require (model_placements_parse (written, 3, &again, 1, &one, NULL) && one == 1);
    fuzz_require (again.kind == placements[i].kind && again.dim == placements[i].dim);
  }
  if (n == 2)
    check (placements);
  return 0;
}
