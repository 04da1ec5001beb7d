/* cli/cmd_profiles.c - plait profiles: what frameworks do with a layout. */
#include "app/catalog.h"
#include "cli/catalog_list.h"

#include <string.h>

/* NULL-terminated @words, or none, as the member @key. */
static void
add_words (JsonBuilder *builder, const char *key, char *const *words)
{
  json_builder_set_member_name (builder, key);
  json_builder_begin_array (builder);
  for (; words != NULL && *words != NULL; words++)
    json_builder_add_string_value (builder, *words);
  json_builder_end_array (builder);
}

static void
add_dtypes (JsonBuilder *builder, const ModelProfile *p)
{
  json_builder_set_member_name (builder, "dtypes");
  json_builder_begin_array (builder);
  for (guint i = 0; model_dtype_names[i] != NULL; i++)
    if (p->dtypes & (1u << i))
      json_builder_add_string_value (builder, model_dtype_names[i]);
  json_builder_end_array (builder);
}

/* @states: (nullable) where that dtype has none of its own. */
static void
add_states (JsonBuilder *builder, const char *key, const ModelStates *states)
{
  json_builder_set_member_name (builder, key);
  if (states == NULL) {
    json_builder_add_null_value (builder);
    return;
  }
  json_builder_begin_object (builder);
  cli_json_number (builder, "param_bytes", states->param_bytes);
  cli_json_number (builder, "grad_bytes", states->grad_bytes);
  cli_json_number (builder, "main_grad_bytes", states->main_grad_bytes);
  cli_json_number (builder, "master_bytes", states->master_bytes);
  cli_json_number (builder, "moment_bytes", states->moment_bytes);
  cli_json_number (builder, "step_copy_bytes", states->step_copy_bytes);
  json_builder_end_object (builder);
}

/* In name order: hash tables have none. */
static void
add_row_defaults (JsonBuilder *builder, GHashTable *defaults)
{
  g_autoptr (GList) names = g_list_sort (g_hash_table_get_keys (defaults), (GCompareFunc)strcmp);

  json_builder_set_member_name (builder, "row_defaults");
  json_builder_begin_object (builder);
  for (GList *at = names; at != NULL; at = at->next)
    cli_json_text (builder, at->data, g_hash_table_lookup (defaults, at->data));
  json_builder_end_object (builder);
}

static void
add_profile (JsonBuilder *builder, gconstpointer entry)
{
  const ModelProfile *p = entry;
  const struct {
    const char *key;
    gboolean value;
  } switches[] = {
    { "fused_norm", p->fused_norm },
    { "fused_activation", p->fused_activation },
    { "fused_residual", p->fused_residual },
    { "fused_cross_entropy", p->fused_cross_entropy },
    { "compiled", p->compiled },
    { "keeps_everything", p->keeps_everything },
    { "selective_by_op", p->selective_by_op },
    { "recompute_stops_early", p->recompute_stops_early },
    { "checkpoints_on_host", p->checkpoints_on_host },
    { "offloads_optimizer", p->offloads_optimizer },
    { "keeps_stage_output", p->keeps_stage_output },
    { "shards_main_grad_zero1", p->shards_main_grad_zero1 },
    { "overlap_tp", p->overlap_tp },
    { "overlap_dp", p->overlap_dp },
    { "overlap_p2p", p->overlap_p2p },
    { "overlap_param_gather", p->overlap_param_gather },
    { "all_reduces_zero1", p->all_reduces_zero1 },
    { "reduces_before_sends", p->reduces_before_sends },
    { "balances_by_cost", p->balances_by_cost },
    { "moe_needs_sp", p->moe_needs_sp },
    { "reshard_after_forward", p->reshard_after_forward },
    { "grouped_gemm", p->grouped_gemm },
    { "dummy_wgrad", p->dummy_wgrad },
    { "fused_bias_grad", p->fused_bias_grad },
    { "joins_grads", p->joins_grads },
    { "expandable_segments", p->expandable_segments },
  };
  const struct {
    const char *key;
    double value;
  } numbers[] = {
    { "param_bytes", p->param_bytes },
    { "grad_bytes", p->grad_bytes },
    { "main_grad_bytes", p->main_grad_bytes },
    { "master_bytes", p->master_bytes },
    { "moment_bytes", p->moment_bytes },
    { "step_copy_bytes", p->step_copy_bytes },
    { "reduce_bytes", p->reduce_bytes },
    { "logits_peak_bytes", p->logits_peak_bytes },
    { "logits_tp_peak_bytes", p->logits_tp_peak_bytes },
    { "logits_kept_bytes", p->logits_kept_bytes },
    { "context_bytes", p->context_bytes },
  };

  json_builder_begin_object (builder);
  cli_json_text (builder, "name", p->name);
  cli_json_text (builder, "calibration", p->calibration);
  add_words (builder, "frameworks", p->frameworks);
  add_words (builder, "generations", p->generations);
  add_words (builder, "notes", p->notes);
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++)
    cli_json_bool (builder, switches[i].key, switches[i].value);
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    cli_json_number (builder, numbers[i].key, numbers[i].value);
  cli_json_count (builder, "bucket_elements", (gint64)p->bucket_elements);
  cli_json_count (builder, "live_elements", (gint64)p->live_elements);
  cli_json_count (builder, "fsdp_units_in_flight", p->fsdp_units_in_flight);
  cli_json_count (builder, "max_zero", p->max_zero);
  cli_json_count (builder, "max_zero_with_pp", p->max_zero_with_pp);
  cli_json_count (builder, "qkv_copies", p->qkv_copies);
  cli_json_count (builder, "kv_copies", p->kv_copies);
  cli_json_count (builder, "core_copies", p->core_copies);
  cli_json_count (builder, "loss_chunks", p->loss_chunks);
  cli_json_count (builder, "vocab_multiple", p->vocab_multiple);
  add_dtypes (builder, p);
  add_states (builder, "states_bf16", p->states_bf16);
  add_states (builder, "states_fp16", p->states_fp16);
  add_row_defaults (builder, p->row_defaults);
  cli_json_text (builder, "source", p->source);
  json_builder_end_object (builder);
}

static void
print_table (const GPtrArray *profiles, gboolean csv)
{
  static const char *const headers[]
      = { "name",         "bytes per parameter", "overlap dp", "overlap tp", "fused activation",
          "ZeRO with pp", "frameworks" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i == 1 || i == 5 ? CLI_RIGHT : CLI_LEFT);
  for (guint i = 0; i < profiles->len; i++) {
    const ModelProfile *p = g_ptr_array_index (profiles, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", p->name);
    cli_table_cell (table, "%g",
                    p->param_bytes + p->grad_bytes + p->main_grad_bytes + p->master_bytes
                        + p->moment_bytes);
    cli_table_cell (table, "%s", p->overlap_dp ? "yes" : "no");
    cli_table_cell (table, "%s", p->overlap_tp ? "yes" : "no");
    cli_table_cell (table, "%s", p->fused_activation ? "yes" : "no");
    cli_table_cell (table, "%u", p->max_zero_with_pp);
    cli_table_cell_owned (table,
                          p->frameworks != NULL ? g_strjoinv (" ", p->frameworks) : g_strdup (""));
  }
  cli_table_print (table, stdout, csv);
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  static const CliCatalogKind kind = {
    "profile", "One profile in full: slug or file", app_catalog_profiles, add_profile, print_table,
    NULL
  };

  return cli_catalog_list (verb, argc, argv, &kind);
}

const CliVerb cli_profiles = {
  .name = "profiles",
  .arguments = "[--profile PROFILE]",
  .summary = "Framework profiles of the catalog, or one in full",
  .description = "A profile is switches, no seconds: what a framework does with the same layout.\n"
                 "Every key of such a file, and how to write your own: docs/profiles.md.",
  .run = run,
};
