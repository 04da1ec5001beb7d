/* cli/cmd_machines.c - plait machines, plait gpus: hardware of the catalog. */
#include "app/catalog.h"
#include "cli/catalog_list.h"

#include "base/units.h"

#include <math.h>

/* ---- gpus ---- */

static void
add_gpu (JsonBuilder *builder, gconstpointer entry)
{
  const TopoGpu *gpu = entry;

  json_builder_begin_object (builder);
  cli_json_text (builder, "name", gpu->slug);
  cli_json_text (builder, "product", gpu->product);
  json_builder_set_member_name (builder, "aliases");
  json_builder_begin_array (builder);
  for (char **alias = gpu->aliases; alias != NULL && *alias != NULL; alias++)
    json_builder_add_string_value (builder, *alias);
  json_builder_end_array (builder);
  cli_json_text (builder, "generation", gpu->generation);
  cli_json_text (builder, "compute_capability", gpu->compute_capability);
  cli_json_count (builder, "sm_count", gpu->sm_count);
  json_builder_set_member_name (builder, "peak_flop_per_s");
  json_builder_begin_object (builder);
  for (guint i = 0; i < TOPO_DTYPE_N_KINDS; i++)
    if (gpu->peak_flop_per_s[i] > 0)
      cli_json_number (builder, topo_dtype_name ((TopoDtype)i), gpu->peak_flop_per_s[i]);
  json_builder_end_object (builder);
  cli_json_number (builder, "clock_hertz", gpu->clock_hertz);
  cli_json_text (builder, "memory_kind", gpu->memory_kind);
  cli_json_number (builder, "hbm_bytes_per_s", gpu->hbm_bytes_per_s);
  if (gpu->l2_bytes > 0)
    cli_json_count (builder, "l2_bytes", (gint64)gpu->l2_bytes);
  cli_json_count (builder, "usable_bytes", (gint64)gpu->usable_bytes);
  cli_json_number (builder, "direct_bytes_per_s", topo_gpu_direct_bytes_per_s (gpu));
  cli_json_number (builder, "tdp_w", gpu->tdp_w);
  cli_json_text (builder, "source", gpu->source);
  json_builder_end_object (builder);
}

static void
print_gpus (const GPtrArray *gpus, gboolean csv)
{
  static const char *const headers[]
      = { "name",        "generation", "SMs",        "16-bit TFLOP/s",
          "fp8 TFLOP/s", "HBM GB/s",   "usable GiB", "GPU links GB/s one way",
          "product" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i < 2 || i == 8 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < gpus->len; i++) {
    const TopoGpu *gpu = g_ptr_array_index (gpus, i);
    double wide = fmax (topo_gpu_peak (gpu, TOPO_DTYPE_BF16), topo_gpu_peak (gpu, TOPO_DTYPE_FP16));
    double fp8 = topo_gpu_peak (gpu, TOPO_DTYPE_FP8);

    cli_table_row (table);
    cli_table_cell (table, "%s", gpu->slug);
    cli_table_cell (table, "%s", gpu->generation);
    cli_table_cell (table, "%u", gpu->sm_count);
    cli_table_cell (table, "%.0f", wide / 1e12);
    cli_table_cell_owned (table, fp8 > 0 ? g_strdup_printf ("%.0f", fp8 / 1e12) : g_strdup (""));
    cli_table_cell (table, "%.0f", gpu->hbm_bytes_per_s / 1e9);
    cli_table_cell (table, "%.2f", (double)gpu->usable_bytes / 1073741824.0);
    cli_table_cell (table, "%.0f", topo_gpu_direct_bytes_per_s (gpu) / 1e9);
    cli_table_cell (table, "%s", gpu->product);
  }
  cli_table_print (table, stdout, csv);
}

/* ---- machines ---- */

static void
add_machine (JsonBuilder *builder, gconstpointer entry)
{
  const TopoMachine *machine = entry;

  json_builder_begin_object (builder);
  cli_json_text (builder, "name", machine->slug);
  cli_json_text (builder, "product", machine->name);
  cli_json_text (builder, "gpu", machine->gpu->slug);
  cli_json_count (builder, "gpus_per_node", machine->gpus_per_node);
  cli_json_count (builder, "domain_size", machine->domain_size);
  cli_json_text (builder, "node_link", topo_link_class_name (machine->node_link_class));
  cli_json_number (builder, "node_link_bytes_per_s", machine->node_link_bytes_per_s);
  cli_json_bool (builder, "nvls", machine->nvls);
  cli_json_text (builder, "fabric", topo_fabric_name (machine->fabric));
  cli_json_number (builder, "nic_bytes_per_s_per_gpu", machine->nic_share.bytes_per_s);
  cli_json_count (builder, "nics", machine->n_nics);
  if (machine->rails > 0)
    cli_json_count (builder, "rails", machine->rails);
  cli_json_number (builder, "price_usd_per_gpu_hour", machine->price_usd_per_gpu_hour);
  cli_json_text (builder, "price_as_of", machine->price_as_of);
  cli_json_text (builder, "price_source", machine->price_source);
  cli_json_text (builder, "source", machine->source);
  json_builder_set_member_name (builder, "assumed");
  json_builder_begin_array (builder);
  for (char **note = machine->assumed; note != NULL && *note != NULL; note++)
    json_builder_add_string_value (builder, *note);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

static void
print_machines (const GPtrArray *machines, gboolean csv)
{
  static const char *const headers[]
      = { "name",         "gpu",    "GPUs/node",    "domain",       "link",
          "GB/s one way", "fabric", "Gb/s per GPU", "USD/GPU-hour", "as of" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i],
                      i < 2 || i == 4 || i == 6 || i == 9 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < machines->len; i++) {
    const TopoMachine *machine = g_ptr_array_index (machines, i);
    double price = machine->price_usd_per_gpu_hour;

    cli_table_row (table);
    cli_table_cell (table, "%s", machine->slug);
    cli_table_cell (table, "%s", machine->gpu->slug);
    cli_table_cell (table, "%u", machine->gpus_per_node);
    cli_table_cell (table, "%u", machine->domain_size);
    cli_table_cell (table, "%s", topo_link_class_name (machine->node_link_class));
    cli_table_cell (table, "%.1f", machine->node_link_bytes_per_s / 1e9);
    cli_table_cell (table, "%s", topo_fabric_name (machine->fabric));
    cli_table_cell (table, "%.0f", machine->nic_share.bytes_per_s * 8 / 1e9);
    cli_table_cell_owned (table,
                          isfinite (price) ? g_strdup_printf ("%.2f", price) : g_strdup (""));
    cli_table_cell (table, "%s", machine->price_as_of != NULL ? machine->price_as_of : "");
  }
  cli_table_print (table, stdout, csv);
}

/* ---- both ---- */

static CliExit
run_machines (const CliVerb *verb, int argc, char **argv)
{
  static const CliCatalogKind kind
      = { "machine", "One in full: slug or file", app_catalog_machines, add_machine, print_machines,
          NULL };

  return cli_catalog_list (verb, argc, argv, &kind);
}

static CliExit
run_gpus (const CliVerb *verb, int argc, char **argv)
{
  static const CliCatalogKind kind
      = { "gpu", "One in full: slug or file", app_catalog_gpus, add_gpu, print_gpus, NULL };

  return cli_catalog_list (verb, argc, argv, &kind);
}

const CliVerb cli_machines = {
  .name = "machines",
  .arguments = "[--machine MACHINE]",
  .summary = "Machines of the catalog, or one in full",
  .description = "Link rates are per GPU and one way.",
  .run = run_machines,
};

const CliVerb cli_gpus = {
  .name = "gpus",
  .arguments = "[--gpu GPU]",
  .summary = "GPUs of the catalog, or one in full",
  .description = "Peaks are dense; usable memory is what a program can allocate, not the label.",
  .run = run_gpus,
};
