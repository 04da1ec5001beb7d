/* cli/cmd_models.c - plait models: the models of the catalog, or one in full. */
#include "app/catalog.h"
#include "cli/catalog_list.h"

#include "base/units.h"

#include <string.h>

static const char *const norm_names[] = { "rms", "layer" };
static const char *const position_names[] = { "rotary", "learned", "alibi", "none" };
static const char *const activation_names[] = { "silu", "gelu", "relu" };

static void
add_assumed (JsonBuilder *builder, const GPtrArray *assumed)
{
  json_builder_set_member_name (builder, "assumed");
  json_builder_begin_object (builder);
  for (guint i = 0; assumed != NULL && i < assumed->len; i++) {
    const char *note = g_ptr_array_index (assumed, i);
    const char *equals = strchr (note, '=');
    g_autofree char *key = equals != NULL ? g_strndup (note, (gsize)(equals - note))
                                          : g_strdup_printf ("note.%u", i + 1);

    cli_json_text (builder, key, equals != NULL ? equals + 1 : note);
  }
  json_builder_end_object (builder);
}

static void
add_run (JsonBuilder *builder, const ModelBlockRun *run)
{
  json_builder_begin_object (builder);
  cli_json_text (builder, "kind", run->kind == MODEL_BLOCK_MOE ? "moe" : "dense");
  cli_json_count (builder, "count", run->count);
  cli_json_count (builder, "window", run->window);
  if (run->kind == MODEL_BLOCK_MOE) {
    cli_json_count (builder, "experts", run->moe.experts);
    cli_json_count (builder, "topk", run->moe.topk);
    cli_json_count (builder, "expert_ffn", run->moe.expert_ffn);
    cli_json_count (builder, "shared_ffn", run->moe.shared_ffn);
  } else
    cli_json_count (builder, "ffn", run->ffn);
  json_builder_end_object (builder);
}

static void
add_attention (JsonBuilder *builder, const ModelAttention *attention)
{
  cli_json_text (builder, "attention", attention->kind == MODEL_ATTENTION_MLA ? "mla" : "gqa");
  cli_json_count (builder, "heads", attention->heads);
  cli_json_count (builder, "kv_heads", attention->kv_heads);
  cli_json_count (builder, "head_dim", attention->head_dim);
  cli_json_count (builder, "v_head_dim", attention->v_head_dim);
  if (attention->kind == MODEL_ATTENTION_MLA) {
    cli_json_count (builder, "q_lora_rank", attention->q_lora_rank);
    cli_json_count (builder, "kv_lora_rank", attention->kv_lora_rank);
    cli_json_count (builder, "qk_nope_dim", attention->qk_nope_dim);
    cli_json_count (builder, "qk_rope_dim", attention->qk_rope_dim);
  }
}

static void
add_model (JsonBuilder *builder, gconstpointer entry)
{
  const ModelArch *arch = entry;
  json_builder_begin_object (builder);
  cli_json_text (builder, "name", arch->name);
  cli_json_text (builder, "family", arch->family);
  cli_json_count (builder, "layers", arch->layers);
  cli_json_count (builder, "hidden", (gint64)arch->hidden);
  add_attention (builder, &arch->attention);
  cli_json_count (builder, "vocab", (gint64)arch->vocab);
  cli_json_bool (builder, "gated", arch->gated);
  cli_json_text (builder, "activation", activation_names[arch->activation]);
  cli_json_text (builder, "norm", norm_names[arch->norm]);
  cli_json_text (builder, "position", position_names[arch->position]);
  cli_json_bool (builder, "tied", arch->tied);
  cli_json_number (builder, "dropout", arch->dropout);
  cli_json_count (builder, "seq", (gint64)arch->seq);
  cli_json_count (builder, "global_batch", (gint64)arch->global_batch);
  cli_json_count (builder, "parameters", (gint64)model_params_total (arch));
  cli_json_count (builder, "parameters_active", (gint64)model_params_active (arch));
  json_builder_set_member_name (builder, "blocks");
  json_builder_begin_array (builder);
  for (guint i = 0; i < arch->n_runs; i++)
    add_run (builder, &arch->runs[i]);
  json_builder_end_array (builder);
  add_assumed (builder, arch->assumed);
  json_builder_end_object (builder);
}

static void
print_table (const GPtrArray *models, gboolean csv)
{
  static const char *const headers[]
      = { "name",     "family", "layers", "hidden",     "heads", "kv heads",
          "head dim", "vocab",  "seq",    "parameters", "active" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i < 2 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < models->len; i++) {
    const ModelArch *arch = g_ptr_array_index (models, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", arch->name);
    cli_table_cell (table, "%s", arch->family);
    cli_table_cell (table, "%u", arch->layers);
    cli_table_cell (table, "%" G_GUINT64_FORMAT, arch->hidden);
    cli_table_cell (table, "%u", arch->attention.heads);
    cli_table_cell (table, "%u", arch->attention.kv_heads);
    cli_table_cell (table, "%u", arch->attention.head_dim);
    cli_table_cell (table, "%" G_GUINT64_FORMAT, arch->vocab);
    if (arch->seq > 0)
      cli_table_cell (table, "%" G_GUINT64_FORMAT, arch->seq);
    else
      cli_table_cell (table, "%s", "");
    if (csv) {
      cli_table_cell (table, "%" G_GUINT64_FORMAT, model_params_total (arch));
      cli_table_cell (table, "%" G_GUINT64_FORMAT, model_params_active (arch));
    } else {
      cli_table_cell_owned (table, base_units_format_count (model_params_total (arch)));
      cli_table_cell_owned (table, base_units_format_count (model_params_active (arch)));
    }
  }
  cli_table_print (table, stdout, csv);
}

static void
print_one (gconstpointer entry)
{
  const ModelArch *arch = entry;
  g_autofree char *text = model_arch_to_ini (arch);
  g_autofree char *total = base_units_format_count (model_params_total (arch));
  g_autofree char *active = base_units_format_count (model_params_active (arch));

  printf ("# %s: %s parameters, %s active per token\n%s", arch->name, total, active, text);
  for (guint i = 0; arch->assumed != NULL && i < arch->assumed->len; i++)
    printf ("# assumed: %s\n", (const char *)g_ptr_array_index (arch->assumed, i));
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  static const CliCatalogKind kind = { "model",
                                       "One model in full: slug, INI file or config.json",
                                       app_catalog_models,
                                       add_model,
                                       print_table,
                                       print_one };

  return cli_catalog_list (verb, argc, argv, &kind);
}

const CliVerb cli_models = {
  .name = "models",
  .arguments = "[--model MODEL]",
  .summary = "Models of the catalog, or one in full",
  .description = "With --model, prints the model as an INI file that can be edited and used.",
  .run = run,
};
