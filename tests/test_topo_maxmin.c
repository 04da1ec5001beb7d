/* Tests of topo/maxmin.c: hand-worked sharings, the laws of max-min fairness, bad input. */
#include "base/philox.h"
#include "tests/maxmin_util.h"
#include "tests/topo_util.h"

#define HAND_MAX 8
typedef struct {
  const char *name;
  guint32 n_links, n_classes;
  double capacities[HAND_MAX];
  guint32 first[HAND_MAX + 1];
  guint32 links[4 * HAND_MAX];
  double weights[4 * HAND_MAX]; /* weights[0] 0: all 1 */
  guint32 counts[HAND_MAX];     /* counts[0] 0: all 1 */
  double caps[HAND_MAX];        /* caps[0] 0: none */
  double rates[HAND_MAX];
  guint32 bottlenecks[HAND_MAX];
} HandCase;

static const HandCase hand[] = {
  { "alone", 1, 1, { 10 }, { 0, 1 }, { 0 }, { 0 }, { 0 }, { 0 }, { 10 }, { 0 } },
  /* 10 / 4 */
  { "four_alike", 1, 1, { 10 }, { 0, 1 }, { 0 }, { 0 }, { 4 }, { 0 }, { 2.5 }, { 0 } },
  /* flow 0 crosses both links, of 1 and 2; flow 1 the first, flow 2 the second: at 0.5 the first is
   * full; the second has 1.5 left */
  { "textbook_line",
    2,
    3,
    { 1, 2 },
    { 0, 2, 3, 4 },
    { 0, 1, 0, 1 },
    { 0 },
    { 0 },
    { 0 },
    { 0.5, 0.5, 1.5 },
    { 0, 0, 1 } },
  /* link 0: 3 / 3 flows; link 1 has 10 - 1 left */
  { "count_on_one_link",
    2,
    3,
    { 3, 10 },
    { 0, 1, 3, 4 },
    { 0, 0, 1, 1 },
    { 0 },
    { 2, 1, 1 },
    { 0 },
    { 1, 1, 9 },
    { 0, 0, 1 } },
  /* the capped one takes 1, the others (10 - 1) / 2 */
  { "cap",
    1,
    2,
    { 10 },
    { 0, 1, 2 },
    { 0, 0 },
    { 0 },
    { 1, 2 },
    { 1, INFINITY },
    { 1, 4.5 },
    { TOPO_MAXMIN_BY_CAP, 0 } },
  { "cap_without_links",
    1,
    2,
    { 10 },
    { 0, 0, 1 },
    { 0 },
    { 0 },
    { 0 },
    { 7, INFINITY },
    { 7, 10 },
    { TOPO_MAXMIN_BY_CAP, 0 } },
  /* link 0 would be full at 12 / (2 + 1) = 4, link 1 is at 6 / 2 = 3; flow 1 has 12 - 2 x 3 left */
  { "weights",
    2,
    2,
    { 12, 6 },
    { 0, 2, 3 },
    { 0, 1, 0 },
    { 2, 2, 1 },
    { 0 },
    { 0 },
    { 3, 6 },
    { 1, 0 } },
  /* a link named twice counts twice */
  { "twice", 1, 1, { 10 }, { 0, 2 }, { 0, 0 }, { 0 }, { 0 }, { 0 }, { 5 }, { 0 } },
  { "dead_link",
    2,
    2,
    { 0, 4 },
    { 0, 2, 3 },
    { 0, 1, 1 },
    { 0 },
    { 0 },
    { 0 },
    { 0, 4 },
    { 0, 1 } },
  { "endless_link", 2, 1, { INFINITY, 4 }, { 0, 2 }, { 0, 1 }, { 0 }, { 0 }, { 0 }, { 4 }, { 1 } },
  /* Eight two-node rings at once, one GPU each, NICs of 50: own NIC each, or two on each of 4 */
  { "eight_nics",
    8,
    8,
    { 50, 50, 50, 50, 50, 50, 50, 50 },
    { 0, 1, 2, 3, 4, 5, 6, 7, 8 },
    { 0, 1, 2, 3, 4, 5, 6, 7 },
    { 0 },
    { 0 },
    { 0 },
    { 50, 50, 50, 50, 50, 50, 50, 50 },
    { 0, 1, 2, 3, 4, 5, 6, 7 } },
  { "four_nics",
    4,
    8,
    { 50, 50, 50, 50 },
    { 0, 1, 2, 3, 4, 5, 6, 7, 8 },
    { 0, 0, 1, 1, 2, 2, 3, 3 },
    { 0 },
    { 0 },
    { 0 },
    { 25, 25, 25, 25, 25, 25, 25, 25 },
    { 0, 0, 1, 1, 2, 2, 3, 3 } },
  { "nothing", 1, 0, { 1 }, { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, { 0 } },
};

static void
test_hand (void **state)
{
  const HandCase *c = *state;
  GError *error = NULL;
  double rates[HAND_MAX] = { 0 }, scratch[3 * HAND_MAX];
  guint32 bottlenecks[HAND_MAX] = { 0 };
  TopoMaxmin problem = { .n_links = c->n_links,
                         .n_classes = c->n_classes,
                         .capacities = c->capacities,
                         .first = c->first,
                         .links = c->links,
                         .weights = c->weights[0] > 0 ? c->weights : NULL,
                         .counts = c->counts[0] > 0 ? c->counts : NULL,
                         .caps = c->caps[0] > 0 ? c->caps : NULL };
  assert_true (topo_maxmin_scratch_count (&problem) <= G_N_ELEMENTS (scratch));
  assert_true (topo_maxmin_solve (&problem, rates, bottlenecks, scratch, &error));
  for (guint32 i = 0; i < c->n_classes; i++) {
    assert_near (rates[i], c->rates[i], 1e-14);
    assert_int_equal (bottlenecks[i], c->bottlenecks[i]);
  }
}

static void
solve (const MaxminCase *c, double *rates, guint32 *bottlenecks)
{
  GError *error = NULL;
  double scratch[2 * MAXMIN_MAX_LINKS + MAXMIN_MAX_CLASSES];
  TopoMaxmin problem = maxmin_problem (c);
  assert_true (topo_maxmin_solve (&problem, rates, bottlenecks, scratch, &error));
  assert_no_error (error);
}

/* What every flow loads a link with. */
static double
load_of (const MaxminCase *c, guint32 link, const double *rates, double *out_fastest)
{
  double load = 0;
  *out_fastest = 0;
  for (guint32 f = 0; f < c->n_classes; f++)
    for (guint32 e = c->first[f]; e < c->first[f + 1]; e++)
      if (c->links[e] == link) {
        load += c->counts[f] * c->weights[e] * rates[f];
        *out_fastest = fmax (*out_fastest, rates[f]);
      }
  return load;
}

/* No link is over its capacity, and every flow is at its cap or has a full link on which none is
 * faster: together this is max-min fairness (Bertsekas and Gallager, section 6.5.2). */
static void
test_certificate (void **state)
{
  for (guint64 i = 0; i < 5000; i++) {
    MaxminCase c;
    double rates[MAXMIN_MAX_CLASSES], fastest;
    guint32 by[MAXMIN_MAX_CLASSES];
    maxmin_random (&c, 11, i, TRUE);
    solve (&c, rates, by);
    for (guint32 l = 0; l < c.n_links; l++)
      assert_true (load_of (&c, l, rates, &fastest) <= c.capacities[l] * (1 + 1e-12));
    for (guint32 f = 0; f < c.n_classes; f++) {
      if (by[f] == TOPO_MAXMIN_BY_CAP) {
        assert_near (rates[f], c.caps[f], 0);
        continue;
      }
      assert_true (rates[f] <= c.caps[f]);
      assert_near (load_of (&c, by[f], rates, &fastest), c.capacities[by[f]], 1e-12);
      assert_true (rates[f] >= fastest * (1 - 1e-12));
    }
  }
}

/* Classes and links named in the opposite order; capacities and caps in another unit. */
static void
test_names_and_units (void **state)
{
  for (guint64 i = 0; i < 1000; i++) {
    MaxminCase c, d = { 0 };
    double rates[MAXMIN_MAX_CLASSES], other[MAXMIN_MAX_CLASSES];
    maxmin_random (&c, 12, i, TRUE);
    d.n_links = c.n_links;
    d.n_classes = c.n_classes;
    for (guint32 l = 0; l < c.n_links; l++)
      d.capacities[c.n_links - 1 - l] = c.capacities[l] * 1e3;
    for (guint32 f = 0; f < c.n_classes; f++) {
      guint32 from = c.n_classes - 1 - f;
      d.first[f + 1] = d.first[f];
      d.counts[f] = c.counts[from];
      d.caps[f] = c.caps[from] * 1e3;
      for (guint32 e = c.first[from]; e < c.first[from + 1]; e++) {
        d.weights[d.first[f + 1]] = c.weights[e];
        d.links[d.first[f + 1]++] = c.n_links - 1 - c.links[e];
      }
    }
    solve (&c, rates, NULL);
    solve (&d, other, NULL);
    for (guint32 f = 0; f < c.n_classes; f++)
      assert_near (other[c.n_classes - 1 - f], rates[f] * 1e3, 1e-12);
  }
}

/* A class of n flows is n classes of one; a cap is a link of one's own. */
static void
test_same_said_otherwise (void **state)
{
  for (guint64 i = 0; i < 1000; i++) {
    MaxminCase c, d = { 0 };
    double rates[MAXMIN_MAX_CLASSES], other[MAXMIN_MAX_CLASSES];
    guint32 of[MAXMIN_MAX_CLASSES];
    maxmin_random (&c, 13, i, TRUE);
    solve (&c, rates, NULL);
    d.n_links = c.n_links;
    memcpy (d.capacities, c.capacities, sizeof c.capacities);
    for (guint32 f = 0; f < c.n_classes; f++)
      for (guint32 copy = 0; copy < c.counts[f]; copy++)
        maxmin_split (&c, f, &d, of);
    solve (&d, other, NULL);
    for (guint32 f = 0; f < d.n_classes; f++)
      assert_near (other[f], rates[of[f]], 1e-12);
  }
}

/* More capacity never makes the slowest flow slower. (A single flow may lose: what it shared with
 * is no longer held back elsewhere.) */
static void
test_monotonic (void **state)
{
  for (guint64 i = 0; i < 1000; i++) {
    MaxminCase c;
    double rates[MAXMIN_MAX_CLASSES], before = INFINITY, after = INFINITY;
    maxmin_random (&c, 14, i, TRUE);
    solve (&c, rates, NULL);
    for (guint32 f = 0; f < c.n_classes; f++)
      before = fmin (before, rates[f]);
    c.capacities[base_philox_below (14, 99, i, c.n_links)] *= 1.7;
    solve (&c, rates, NULL);
    for (guint32 f = 0; f < c.n_classes; f++)
      after = fmin (after, rates[f]);
    assert_true (after >= before * (1 - 1e-12));
  }
}

typedef struct {
  const char *name;
  double capacity, weight, cap;
  guint32 link, count, last;
  const char *message;
} BadCase;

static const BadCase bad[] = {
  { "bad/negative_capacity", -1, 1, 1, 0, 1, 1, "link 0: found capacity -1" },
  { "bad/nan_capacity", NAN, 1, 1, 0, 1, 1, "link 0: found capacity nan" },
  { "bad/zero_weight", 1, 0, 1, 0, 1, 1, "flow class 0 on link 0: found weight 0" },
  { "bad/nan_weight", 1, NAN, 1, 0, 1, 1, "found weight nan" },
  { "bad/endless_weight", 1, INFINITY, 1, 0, 1, 1, "found weight inf" },
  { "bad/negative_cap", 1, 1, -2, 0, 1, 1, "capped at -2" },
  { "bad/nan_cap", 1, 1, NAN, 0, 1, 1, "capped at nan" },
  { "bad/no_flows", 1, 1, 1, 0, 0, 1, "found 0 flows" },
  { "bad/no_such_link", 1, 1, 1, 1, 1, 1, "found link 1, expected one of 1 links" },
  { "bad/nothing_bounds", 1, 1, INFINITY, 0, 1, 0, "no link and no cap" },
  { "bad/only_endless", INFINITY, 1, INFINITY, 0, 1, 1, "no link and no cap" },
};

static void
test_bad (void **state)
{
  const BadCase *c = *state;
  g_autoptr (GError) error = NULL;
  guint32 first[] = { 0, c->last }, bottleneck = 77;
  double rate = 42, scratch[3];
  TopoMaxmin problem = { .n_links = 1,
                         .n_classes = 1,
                         .capacities = &c->capacity,
                         .first = first,
                         .links = &c->link,
                         .weights = &c->weight,
                         .counts = &c->count,
                         .caps = &c->cap };
  assert_false (topo_maxmin_solve (&problem, &rate, &bottleneck, scratch, &error));
  assert_true (g_error_matches (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE));
  assert_message (error, c->message);
  assert_true (rate == 42 && bottleneck == 77);
}

/* Sizes that overflow sums end, with rates that are numbers. */
static void
test_extremes (void **state)
{
  double sizes[] = { 5e-324, 1e-300, 1, 1e300, 1.7e308 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (sizes); j++) {
      GError *error = NULL;
      guint32 first[] = { 0, 1, 2 }, links[] = { 0, 0 }, counts[] = { G_MAXUINT32, 1 };
      double rates[2], weights[] = { sizes[j], 1 }, scratch[4];
      TopoMaxmin problem = { .n_links = 1,
                             .n_classes = 2,
                             .capacities = &sizes[i],
                             .first = first,
                             .links = links,
                             .weights = weights,
                             .counts = counts };
      assert_true (topo_maxmin_solve (&problem, rates, NULL, scratch, &error));
      assert_true (rates[0] >= 0 && rates[1] >= 0);
    }
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_certificate),
    cmocka_unit_test (test_names_and_units),
    cmocka_unit_test (test_same_said_otherwise),
    cmocka_unit_test (test_monotonic),
    cmocka_unit_test (test_extremes),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (hand) + G_N_ELEMENTS (bad)] = { 0 };
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  for (guint i = 0; i < G_N_ELEMENTS (hand); i++)
    tests[n++] = (struct CMUnitTest){ .name = hand[i].name,
                                      .test_func = test_hand,
                                      .initial_state = (void *)&hand[i] };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    tests[n++] = (struct CMUnitTest){ .name = bad[i].name,
                                      .test_func = test_bad,
                                      .initial_state = (void *)&bad[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
