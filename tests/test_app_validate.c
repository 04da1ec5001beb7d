/* Rows of measured runs: what they are taken for, what is compared with what, what is refused. */
#include "app/predict.h"
#include "app/validate.h"
#include "tests/testutil.h"
#include <glib/gstdio.h>

#define GIB 1073741824.0

static char *
rows_path (void)
{
  return g_build_filename (g_getenv ("PLAIT_TEST_DIR"), "validate", "rows.csv", NULL);
}

static AppValidation *
validate (const char *phase, const char *const *by, GError **error)
{
  g_autofree char *path = rows_path ();
  const char *files[] = { path, NULL };
  const AppValidateRequest request = { .files = files, .phase = phase, .by = by };
  return app_validate (&request, error);
}

static const char *const by_family[] = { "family", NULL };

static int
setup (void **state)
{
  GError *error = NULL;
  *state = validate (NULL, by_family, &error);
  assert_no_error (error);
  return 0;
}

static int
teardown (void **state)
{
  app_validation_free (*state);
  return 0;
}

static const AppValidateRow *
find (const AppValidation *validation, const char *id)
{
  for (guint i = 0; i < validation->rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (validation->rows, i);
    if (g_str_equal (row->id, id))
      return row;
  }
  print_error ("no row '%s'\n", id);
  fail ();
  return NULL;
}

static gboolean
assumes (const AppValidateRow *row, const char *column)
{
  return g_ptr_array_find_with_equal_func (row->assumed, column, g_str_equal, NULL);
}

static guint
skipped (const AppValidation *validation, const char *reason)
{
  for (guint i = 0; i < validation->skipped->len; i++)
    if (g_str_equal (g_array_index (validation->skipped, AppCount, i).name, reason))
      return g_array_index (validation->skipped, AppCount, i).count;
  return 0;
}

static DbPlan *
predict (const char *model, const char *machine, const char *profile, guint64 gpus, guint64 batch,
         guint64 seq, const char *layout)
{
  GError *error = NULL;
  const AppPredictRequest request
      = { .inputs = { .model = model, .machine = machine, .profile = profile, .dropout = -1 },
          .gpus = gpus,
          .global_batch = batch,
          .seq = seq,
          .layout = layout };
  DbPlan *plan = app_predict (&request, &error);
  assert_no_error (error);
  return plan;
}

static const char gpt_layout[] = "tp=8,pp=8,vpp=3,sp=1,mbs=1,attn=unfused,recompute=selective";

/* The row says by its columns what 'predict' is told by names: the answers are the same. */
static void
test_same_as_predict (void **state)
{
  const AppValidation *validation = *state;
  g_autoptr (DbPlan) gpt
      = predict ("gpt3-175b", "dgx-a100-80g", "megatron", 64, 64, 2048, gpt_layout);
  g_autoptr (DbPlan) llama
      = predict ("llama-3.1-8b", "hgx-h100", "generic", 8, 16, 8192, "tp=2,sp=1");
  const AppValidateRow *row = find (validation, "gpt175");
  assert_string_equal (row->profile, "megatron");
  assert_near (row->predicted_s, gpt->plan.prediction.step_s, 1e-12);
  assert_near (row->predicted_p10_s, gpt->plan.prediction.step_s_p10, 1e-12);
  assert_near (row->oom_risk, gpt->plan.prediction.oom_risk, 1e-9);
  assert_near (row->predicted_bytes, (double)gpt->plan.prediction.peak_bytes, 1e-12);
  row = find (validation, "llama-bare");
  assert_string_equal (row->profile, "generic");
  assert_near (row->predicted_s, llama->plan.prediction.step_s, 1e-12);
  assert_near (row->predicted_bytes, (double)llama->plan.prediction.reserved_bytes, 1e-12);
  assert_int_equal (row->mem_kind, APP_MEM_UNSTATED);
}

/* 64 sequences of 2048 tokens at 32 tokens/s on each of 64 GPUs: 131072 / 2048 = 64 s. */
static void
test_measured (void **state)
{
  const AppValidation *validation = *state;
  assert_near (find (validation, "gpt175")->measured_s, 13.75, 0);
  assert_near (find (validation, "gpt175-first")->measured_s, 64, 1e-15);
  assert_near (find (validation, "gpt175")->measured_bytes, 70 * GIB, 0);
  assert_true (isnan (find (validation, "too-big")->measured_s));
  assert_false (find (validation, "too-big")->ran);
  assert_true (find (validation, "too-big")->oom_risk > 0.99); /* 18 bytes x 8e9 on 80 GB */
}

/* Rank 0 is the first stage, the last rank the last. */
static void
test_scope (void **state)
{
  const AppValidation *validation = *state;
  g_autoptr (DbPlan) plan
      = predict ("gpt3-175b", "dgx-a100-80g", "megatron", 64, 64, 2048, gpt_layout);
  const DbStageMemoryRecord *stages = plan->plan.stage_rows;
  assert_near (find (validation, "gpt175-first")->predicted_bytes,
               (double)stages[0].allocated_bytes, 0);
  assert_near (find (validation, "gpt175-last")->predicted_bytes,
               (double)stages[plan->plan.n_stage_rows - 1].allocated_bytes, 0);
}

static void
test_assumed (void **state)
{
  const AppValidation *validation = *state;
  static const char *const filled[]
      = { "cp", "pp", "vpp", "ep", "dp", "shard", "recompute", "dtype", "attn" };
  const AppValidateRow *row = find (validation, "llama-bare");
  for (guint i = 0; i < G_N_ELEMENTS (filled); i++)
    assert_true (assumes (row, filled[i]));
  assert_false (assumes (row, "inter_gbps")); /* one node */
  assert_false (row->risk_known);
  assert_true (assumes (find (validation, "gpt175"), "inter_gbps"));
  assert_true (find (validation, "gpt175")->risk_known);
  assert_true (assumes (find (validation, "card-only"), "machine"));
  assert_string_equal (find (validation, "card-only")->machine, "l40s-8x-pcie");
}

/* tp = 16 goes over the network: a quarter of its rate takes at least twice as long. */
static void
test_network_of_the_row (void **state)
{
  const AppValidation *validation = *state;
  const AppValidateRow *slow = find (validation, "slow-net");
  const AppValidateRow *fast = find (validation, "fast-net");
  assert_true (slow->breakdown_s[COST_PART_TP] > 2 * fast->breakdown_s[COST_PART_TP]);
}

/* Latent attention is known from the catalog's model of the same shape; modules from the notes. */
static void
test_deepseek (void **state)
{
  const AppValidateRow *row = find (*state, "deepseek");
  assert_string_equal (row->profile, "nemo-bridge");
  assert_non_null (strstr (row->layout_text, "recompute=selective:moe_act+mla_up_proj"));
  assert_non_null (strstr (row->layout_text, "ep=64"));
  assert_non_null (strstr (row->layout_text, "cuda_graph=layer"));
  assert_non_null (strstr (row->layout_text, "overlap_ep=1"));
}

static void
test_skipped (void **state)
{
  const AppValidation *validation = *state;
  static const char *const reasons[] = { "no mbs",
                                         "no layers",
                                         "layout: heads_not_divisible_by_tp",
                                         "layout: stage_without_layer",
                                         "GPU 'H101' is not in the catalog",
                                         "phase 'decode' is not predicted",
                                         "arch 'vit' is not predicted" };
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++) {
    if (skipped (validation, reasons[i]) != 1)
      print_error ("reason '%s': not once\n", reasons[i]);
    assert_int_equal (skipped (validation, reasons[i]), 1);
  }
  assert_int_equal (validation->skipped->len, G_N_ELEMENTS (reasons));
  assert_int_equal (validation->skipped_rows->len, G_N_ELEMENTS (reasons));
  assert_int_equal (validation->n_rows, 16);
  assert_int_equal (validation->rows->len, 9);
}

static const DbAssumedRecord *
assumed_of (const DbPlan *plan, const char *key)
{
  for (gsize i = 0; i < plan->plan.n_assumed; i++)
    if (g_str_equal (plan->plan.assumed[i].key, key))
      return &plan->plan.assumed[i];
  return NULL;
}

static double
width_of (const DbPlan *plan)
{
  return plan->plan.prediction.step_s_p90 / plan->plan.prediction.step_s_p10;
}

/* The largest published run on Hopper has 10,240 GPUs (MLPerf), on Blackwell 512: further out is
 * said, and the interval is wider. */
static void
test_unseen_scale (void **state)
{
  g_autoptr (DbPlan) seen
      = predict ("llama-3.1-70b", "hgx-h100", "megatron", 8192, 8192, 8192, "tp=8,sp=1,pp=4");
  g_autoptr (DbPlan) beyond
      = predict ("llama-3.1-70b", "hgx-h100", "megatron", 16384, 16384, 8192, "tp=8,sp=1,pp=4");
  g_autoptr (DbPlan) small
      = predict ("llama-3.1-70b", "hgx-b300", "megatron", 512, 512, 8192, "tp=8,sp=1,pp=4");
  g_autoptr (DbPlan) large
      = predict ("llama-3.1-70b", "hgx-b300", "megatron", 1024, 1024, 8192, "tp=8,sp=1,pp=4");
  assert_null (assumed_of (seen, "scale"));
  assert_null (assumed_of (small, "scale"));
  assert_string_equal (assumed_of (beyond, "scale")->value, "16384 GPUs");
  assert_non_null (strstr (assumed_of (beyond, "scale")->why, "hopper had 10240"));
  assert_non_null (strstr (assumed_of (large, "scale")->why, "blackwell had 512"));
  assert_true (width_of (beyond) > width_of (seen));
  assert_true (width_of (large) > width_of (small));
  assert_true (width_of (small) > width_of (seen)); /* B300 has its generation's numbers */
}

static AppValidation *
validate_text (const char *text, const char *scope)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("plait-rows-XXXXXX.csv", &path, &error);
  assert_no_error (error);
  g_close (fd, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
  const char *files[] = { path, NULL };
  static const char *const none[] = { NULL };
  const AppValidateRequest request = { .files = files, .by = none, .mem_scope = scope };
  AppValidation *validation = app_validate (&request, &error);
  g_remove (path);
  assert_no_error (error);
  return validation;
}

/* As somebody writes a table: a framework that no profile claims, an empty phase, a column misspelt
 * and one in capitals; 'lr', which is not read, is near nothing. */
static void
test_by_hand (void **state)
{
  const char text[]
      = "id,phase,arch,gpu,framework,lr,gpus,layers,hidden,heads,ffn,gated,vocab,seq,tp,pp,GBS,gbs,"
        "mbz\n"
        "mine,train,dense,H100,Our own,3e-4,8,32,4096,32,14336,1,128256,8192,1,1,16,16,1\n"
        ",,dense,H100,Our own,,8,32,4096,32,14336,1,128256,8192,1,1,16,16,1\n";
  g_autoptr (AppValidation) validation = validate_text (text, NULL);
  assert_int_equal (validation->hints->len, 1); /* 'GBS' is no matter where there is 'gbs' */
  assert_non_null (strstr (g_ptr_array_index (validation->hints, 0), "'mbz'"));
  assert_non_null (strstr (g_ptr_array_index (validation->hints, 0), "'mbs'"));
  assert_int_equal (validation->skipped_rows->len, 2);
  const AppSkipped *first = &g_array_index (validation->skipped_rows, AppSkipped, 0);
  const AppSkipped *second = &g_array_index (validation->skipped_rows, AppSkipped, 1);
  assert_string_equal (first->id, "mine");
  assert_string_equal (first->reason, "no mbs");
  assert_int_equal (first->line, 2);
  assert_string_equal (second->id, "");
  assert_string_equal (second->reason, "no phase");
  assert_int_equal (second->line, 3);
}

/* torchtitan's words: what runs beside GEMMs, and whether blocks are compiled. One GPU per tensor
 * has nothing to overlap. */
static void
test_words_of_torchtitan (void **state)
{
  static const char text[]
      = "id,phase,framework,arch,layers,hidden,heads,ffn,gated,vocab,tied,seq,gpu,gpus,tp,sp,cp,pp,"
        "vpp,ep,dp,shard,gbs,mbs,recompute,dtype,attn,notes\n"
        "async,train,torchtitan,dense,4,4096,32,14336,1,51200,0,4096,H100-80G-SXM,8,8,1,1,1,1,1,1,"
        "fsdp,8,1,none,bf16,flash,async TP; torch.compile\n"
        "blocking,train,torchtitan,dense,4,4096,32,14336,1,51200,0,4096,H100-80G-SXM,8,8,1,1,1,1,1,"
        "1,"
        "fsdp,8,1,none,bf16,flash,vanilla TP; torch.compile\n"
        "eager,train,torchtitan,dense,4,4096,32,14336,1,51200,0,4096,H100-80G-SXM,8,1,0,1,1,1,1,8,"
        "fsdp,8,1,none,bf16,flash,async TP\n";
  g_autoptr (AppValidation) validation = validate_text (text, NULL);
  const AppValidateRow *async = find (validation, "async");
  const AppValidateRow *blocking = find (validation, "blocking");
  assert_non_null (strstr (async->layout_text, "overlap_tp=1"));
  assert_null (strstr (blocking->layout_text, "overlap_tp=1"));
  assert_true (async->breakdown_s[COST_PART_TP] < blocking->breakdown_s[COST_PART_TP]);
  assert_null (strstr (find (validation, "eager")->layout_text, "overlap_tp=1"));
  assert_string_equal (async->profile, "torchtitan-2024");
  assert_string_equal (find (validation, "eager")->profile, "torchtitan-2024-eager");
}

/* A test of Megatron-LM whose notes quote its flags: latent attention with its own ranks, experts
 * not split, no GPU count but all degrees. */
static void
test_flags_in_notes (void **state)
{
  static const char text[]
      = "id,phase,framework,arch,layers,hidden,heads,ffn,gated,vocab,tied,seq,experts,topk,moe_ffn,"
        "gpu,tp,sp,cp,pp,vpp,ep,dp,shard,gbs,mbs,recompute,dtype,attn,notes\n"
        "mla,train,Megatron-LM,moe,4,2048,16,4096,1,51200,0,1024,8,2,4096,H100-80G-SXM,2,1,1,1,1,4,"
        "4,"
        "dist-opt,8,1,none,bf16,fused,\"flags: multi-latent-attention=True, q-lora-rank=256, "
        "kv-lora-rank=128, expert-tensor-parallel-size=1\"\n"
        "gqa,train,Megatron-LM,moe,4,2048,16,4096,1,51200,0,1024,8,2,4096,H100-80G-SXM,2,1,1,1,1,4,"
        "4,"
        "dist-opt,8,1,none,bf16,fused,\n"
        "bare,train,NeMo,moe,4,2048,16,4096,1,51200,0,1024,8,2,4096,H100-80G-SXM,2,1,1,1,1,4,4,"
        "dist-opt,8,1,none,bf16,fused,multi-latent-attention=True\n";
  g_autoptr (AppValidation) validation = validate_text (text, NULL);
  assert_int_equal (validation->rows->len, 2);
  /* sizes that the notes leave out are the framework's, where its profile says them */
  const AppCount *skipped = &g_array_index (validation->skipped, AppCount, 0);
  assert_string_equal (skipped->name, "latent attention without kv-lora-rank");
  const AppValidateRow *mla = find (validation, "mla"), *gqa = find (validation, "gqa");
  assert_non_null (strstr (gqa->layout_text, "etp=2"));
  assert_null (strstr (mla->layout_text, "etp=2"));
  /* Weights of latent attention with these ranks, of a layer: q 2048·256 + 256·16·192, kv
   * 2048·(128 + 64) + 128·16·256, out 16·128·2048, all / tp but the two down projections; of plain
   * attention 4·2048² / tp. Experts on a rank: 2 of 8 in whole with etp = 1, in half with 2. */
  double expert = 4 * 2 * 3 * 2048.0 * 4096, ends = 2 * 51200 * 2048.0 / 2;
  double split = 256 * 16 * 192 + 128 * 16 * 256 + 16 * 128 * 2048;
  double whole = 2048 * 256 + 2048 * 192;
  assert_near ((double)mla->memory.bytes[COST_MEMORY_WEIGHTS],
               2 * (expert + ends + 4 * (split / 2 + whole)), 0.001);
  assert_near ((double)gqa->memory.bytes[COST_MEMORY_WEIGHTS],
               2 * (expert / 2 + ends + 4 * 4 * 2048.0 * 2048 / 2), 0.001);
}

/* One row per note, dense, 4 layers of h = 1024, f = 4096, on 2 stages of one micro-batch each. */
static AppValidation *
validate_notes (const char *const *notes, const char *scope)
{
  g_autoptr (GString) text = g_string_new (
      "id,phase,framework,arch,layers,hidden,heads,ffn,gated,vocab,tied,seq,gpu,gpus,tp,sp,cp,pp,"
      "vpp,ep,dp,shard,gbs,mbs,recompute,dtype,attn,notes\n");
  for (guint i = 0; notes[i] != NULL; i++)
    g_string_append_printf (text,
                            "%u,train,Megatron-LM,dense,4,1024,8,4096,1,51200,0,512,H100-80G-SXM,2,"
                            "1,0,1,2,1,1,1,none,8,1,none,bf16,flash,\"flags: %s\"\n",
                            i, notes[i]);
  return validate_text (text->str, scope);
}

static void
test_stages_in_notes (void **state)
{
  static const char *const notes[] = { "a=1",
                                       "pipeline-model-parallel-layout=Ettt|tL, a=1",
                                       "pipeline-model-parallel-layout=Et|(t|)*2tL",
                                       "pipeline-model-parallel-layout=Et*2|(t|)*2L",
                                       "mtp-num-layers=1, pipeline-model-parallel-layout=Et*2|ttmL",
                                       "pipeline-model-parallel-layout=Ettt|tt|L",
                                       "pipeline-model-parallel-layout=Ettt|tx",
                                       "pipeline-model-parallel-layout=E(tt|t*2L",
                                       "pipeline-model-parallel-layout=E(t)*9|L",
                                       NULL };
  g_autoptr (AppValidation) validation = validate_notes (notes, "last-rank");
  assert_int_equal (validation->rows->len, 5);
  static const char *const want[]
      = { "pp=2,dp=1", "stages=3+1", "vpp=2", "stages=2+1+1+0", "stages=2+3" };
  for (guint i = 0; i < 5; i++) {
    g_autofree char *id = g_strdup_printf ("%u", i);
    assert_non_null (strstr (find (validation, id)->layout_text, want[i]));
  }
  /* A layer: 4·1024² + 3·1024·4096 and two norms; a matrix of the vocabulary 51,200·1024, the final
   * norm. Predicting one token further takes a layer, the embedding, and logits of 4 B each. */
  const AppValidateRow *plain = find (validation, "0"), *further = find (validation, "4");
  double layer = 4 * 1024.0 * 1024 + 3 * 1024.0 * 4096 + 2 * 1024, matrix = 51200 * 1024.0;
  assert_near ((double)plain->memory.bytes[COST_MEMORY_WEIGHTS], 2 * (2 * layer + matrix + 1024),
               1e-9);
  assert_near ((double)further->memory.bytes[COST_MEMORY_WEIGHTS],
               2 * (3 * layer + 2 * matrix + 1024), 1e-9);
  assert_near ((double)(further->memory.bytes[COST_MEMORY_LOGITS]
                        - plain->memory.bytes[COST_MEMORY_LOGITS]),
               4 * 51200.0 * 512, 1e-9);
}

/* Rank 0 has two micro-batches of two layers and their token ids, 8 B each, in flight. */
static void
test_offloaded_activations (void **state)
{
  static const char *const notes[] = { "a=1", "fine-grained-activation-offloading=True", NULL };
  g_autoptr (AppValidation) validation = validate_notes (notes, "rank0");
  const double ids = 2 * 8 * 512;
  double kept = (double)find (validation, "0")->memory.bytes[COST_MEMORY_ACTIVATIONS] - ids;
  double left = (double)find (validation, "1")->memory.bytes[COST_MEMORY_ACTIVATIONS] - ids;
  assert_near (left, kept * 3 / 4, 1e-9); /* at work, coming back, going out */
}

/* Scored times: gpt175, gpt175-first; llama-bare, slow-net, fast-net, card-only, deepseek. */
static void
test_groups (void **state)
{
  const AppValidation *validation = *state;
  const GArray *groups = g_ptr_array_index (validation->groups, 0);
  const AppErrorGroup *lab = &g_array_index (groups, AppErrorGroup, 0);
  const AppErrorGroup *sc = &g_array_index (groups, AppErrorGroup, 1);
  assert_int_equal (groups->len, 2);
  assert_string_equal (lab->name, "lab");
  assert_int_equal (lab->step_time.n, 5);
  assert_int_equal (lab->memory.n, 0); /* its only figure is of no stated kind */
  assert_int_equal (sc->step_time.n, 2);
  assert_int_equal (sc->memory.n, 2);
  assert_int_equal (validation->step_time.n, 7);
  assert_int_equal (validation->step_time_all.n, 8);
  assert_int_equal (validation->memory.n, 2);
  assert_int_equal (validation->memory_by_kind[APP_MEM_UNSTATED].n, 1);
  assert_int_equal (validation->oom.n_oom, 1);
  assert_int_equal (validation->oom.oom_below_half, 0);
  assert_int_equal (validation->oom.n_unknown,
                    2); /* recompute assumed; a framework of no profile */
}

static void
test_phase (void **state)
{
  GError *error = NULL;
  g_autoptr (AppValidation) train = validate ("train", by_family, &error);
  assert_no_error (error);
  assert_int_equal (train->n_rows, 15);
  assert_int_equal (skipped (train, "phase 'decode' is not predicted"), 0);
}

/* A cell of the first row replaced. */
static const struct {
  const char *name, *from, *to, *message;
} bad_cells[] = {
  { "word", ",64,8,,8,1,1,8,3,1,1,none", ",64,8,,eight,1,1,8,3,1,1,none", "column 'tp'" },
  { "negative", ",64,8,,8,1,1,8,3,1,1,none", ",-64,8,,8,1,1,8,3,1,1,none", "column 'gpus'" },
  { "zero", ",64,8,,8,1,1,8,3,1,1,none", ",64,8,,8,1,1,0,3,1,1,none", "column 'pp'" },
  { "half", ",64,8,,8,1,1,8,3,1,1,none", ",64,8,,8,1,1,8.5,3,1,1,none", "column 'pp'" },
  { "nan", ",13.75,,70,", ",nan,,70,", "column 'step_s'" },
  { "huge", ",12288,96,96,", ",1e30,96,96,", "column 'hidden'" },
  { "header", "id,family", "name,family", "id" },
};

static void
test_bad_cell (void **state)
{
  gsize i = (gsize)(gintptr)*state; /* the index itself */
  g_autofree char *path = rows_path ();
  g_autofree char *text = NULL;
  g_autofree char *bad = NULL;
  g_autoptr (GError) error = NULL;
  assert_true (g_file_get_contents (path, &text, NULL, NULL));
  char *at = strstr (text, bad_cells[i].from);
  assert_non_null (at);
  int fd = g_file_open_tmp ("plait-rows-XXXXXX.csv", &bad, NULL);
  assert_true (fd >= 0);
  g_close (fd, NULL);
  g_autofree char *changed = g_strdup_printf ("%.*s%s%s", (int)(at - text), text, bad_cells[i].to,
                                              at + strlen (bad_cells[i].from));
  assert_true (g_file_set_contents (bad, changed, -1, NULL));
  const char *files[] = { bad, NULL };
  const AppValidateRequest request = { .files = files, .by = by_family };
  assert_null (app_validate (&request, &error));
  g_unlink (bad);
  assert_non_null (error);
  assert_non_null (strstr (error->message, bad_cells[i].message));
  assert_null (strchr (error->message, '\n'));
}

static void
test_bad_request (void **state)
{
  static const char *const by_nothing[] = { "colour", NULL };
  g_autoptr (GError) error = NULL;
  const char *missing[] = { "/nonexistent/rows.csv", NULL };
  AppValidateRequest request = { .files = missing, .by = by_family };
  assert_null (validate (NULL, by_nothing, &error));
  assert_non_null (strstr (error->message, "colour"));
  g_clear_error (&error);
  assert_null (app_validate (&request, &error));
  assert_non_null (strstr (error->message, "/nonexistent/rows.csv"));
}

/* Nine in ten of the training rows of language models on known GPUs are predicted. */
static void
test_most_published_rows (void **state)
{
  g_autofree char *path = test_data_path ("measured/runs.csv");
  g_autoptr (GError) error = NULL;
  if (path == NULL || !g_file_test (path, G_FILE_TEST_EXISTS))
    return;
  const char *files[] = { path, NULL };
  const AppValidateRequest request = { .files = files, .phase = "train", .by = by_family };
  g_autoptr (AppValidation) validation = app_validate (&request, &error);
  assert_no_error (error);
  guint in_scope = validation->n_rows;
  for (guint i = 0; i < validation->skipped->len; i++) {
    const AppCount *count = &g_array_index (validation->skipped, AppCount, i);
    if (g_str_has_prefix (count->name, "arch '") || g_str_has_prefix (count->name, "GPU '"))
      in_scope -= count->count;
  }
  print_message ("%u of %u rows in scope predicted\n", validation->rows->len, in_scope);
  assert_true (validation->rows->len >= 0.9 * in_scope);
}

int
main (void)
{
#define TEST(name) cmocka_unit_test (name)
  struct CMUnitTest tests[] = {
    TEST (test_same_as_predict),
    TEST (test_measured),
    TEST (test_scope),
    TEST (test_assumed),
    TEST (test_by_hand),
    TEST (test_unseen_scale),
    TEST (test_network_of_the_row),
    TEST (test_deepseek),
    TEST (test_flags_in_notes),
    TEST (test_words_of_torchtitan),
    TEST (test_stages_in_notes),
    TEST (test_offloaded_activations),
    TEST (test_skipped),
    TEST (test_groups),
  };
  const struct CMUnitTest alone[]
      = { TEST (test_phase), TEST (test_bad_request), TEST (test_most_published_rows) };
  struct CMUnitTest bad[G_N_ELEMENTS (bad_cells)];
  for (gsize i = 0; i < G_N_ELEMENTS (bad_cells); i++)
    bad[i] = (struct CMUnitTest){ .name = bad_cells[i].name,
                                  .test_func = test_bad_cell,
                                  .initial_state = (void *)(gintptr)i };
  int failed = cmocka_run_group_tests (tests, setup, teardown);
  failed += cmocka_run_group_tests (alone, NULL, NULL);
  failed += cmocka_run_group_tests (bad, NULL, NULL);
  return failed;
}
