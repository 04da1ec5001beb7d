/* app/validate_machine.c - the hardware and the numbers of a measured row. */
#include "app/validate-private.h"

#include <math.h>

#define BYTES_PER_S_PER_GBIT_PER_S 1.25e8

/* Gives every NIC of the worst-off GPU's share the stated rate, the others in proportion. */
static void
set_network (TopoMachine *machine, double bytes_per_s_per_gpu)
{
  if (machine->n_nics == 0) {
    guint64 all = machine->gpus_per_node >= 64
                      ? G_MAXUINT64
                      : (G_GUINT64_CONSTANT (1) << machine->gpus_per_node) - 1;

    machine->nics = g_new0 (TopoNic, 1);
    machine->n_nics = 1;
    machine->nics[0]
        = (TopoNic){ .bytes_per_s = bytes_per_s_per_gpu * machine->gpus_per_node, .gpus = all };
  } else if (machine->nic_share.bytes_per_s > 0) {
    double scale = bytes_per_s_per_gpu / machine->nic_share.bytes_per_s;

    for (guint i = 0; i < machine->n_nics; i++)
      machine->nics[i].bytes_per_s *= scale;
  }
  machine->nic_share.bytes_per_s = bytes_per_s_per_gpu;
}

/* @gpu: of the row's label, NULL where the catalog does not know it. */
static TopoMachine *
load_machine (const ValidateShelf *shelf, const char *slug, const TopoGpu *gpu,
              guint64 gpus_per_node, GError **error)
{
  TopoMachine *machine = NULL;
  const char *card = gpu != NULL ? gpu->slug : NULL;

  if (*slug == '\0')
    return topo_machine_load_for_gpu (shelf->catalog, card, (guint32)gpus_per_node, error);
  machine = topo_machine_load (shelf->catalog, slug, NULL, error);
  if (machine == NULL || card == NULL || g_str_equal (machine->gpu->slug, card))
    return machine;
  topo_machine_free (machine); /* the same boards with another card */
  return topo_machine_load (shelf->catalog, slug, card, error);
}

static const TopoMachine *
find_machine (ValidateShelf *shelf, const char *slug, const TopoGpu *gpu, guint64 gpus_per_node,
              double inter_gbps, char **out_key, GError **error)
{
  TopoMachine *machine = NULL;

  *out_key = g_strdup_printf ("%s|%s|%" G_GUINT64_FORMAT "|%.17g", slug,
                              gpu != NULL ? gpu->slug : "", gpus_per_node, inter_gbps);
  machine = g_hash_table_lookup (shelf->machines, *out_key);
  if (machine != NULL)
    return machine;
  machine = load_machine (shelf, slug, gpu, gpus_per_node, error);
  if (machine == NULL)
    return NULL;
  if (inter_gbps > 0)
    set_network (machine, inter_gbps * BYTES_PER_S_PER_GBIT_PER_S);
  g_hash_table_insert (shelf->machines, g_strdup (*out_key), machine);
  return machine;
}

static const ModelProfile *
find_profile (ValidateShelf *shelf, const char *framework, const TopoMachine *machine,
              const char *notes, GError **error)
{
  g_autofree char *slug
      = model_profile_for_run (shelf->catalog, framework, machine->gpu->generation, notes);
  ModelProfile *profile = g_hash_table_lookup (shelf->profiles, slug);

  if (profile != NULL)
    return profile;
  profile = model_profile_load (shelf->catalog, slug, error);
  if (profile != NULL)
    g_hash_table_insert (shelf->profiles, g_steal_pointer (&slug), profile);
  return profile;
}

/* Resolved calibration of a machine and profile. */
static const CostNumbers *
find_numbers (ValidateShelf *shelf, const char *machine_key, const TopoMachine *machine,
              const char *profile, GError **error)
{
  g_autofree char *key = g_strconcat (machine_key, "|", profile, NULL);
  CostNumbers *numbers = g_hash_table_lookup (shelf->numbers, key);

  if (numbers != NULL)
    return numbers;
  numbers = g_new0 (CostNumbers, 1);
  if (!cost_numbers_init (numbers, shelf->calibration, machine, profile, error)) {
    g_free (numbers);
    return NULL;
  }
  g_hash_table_insert (shelf->numbers, g_steal_pointer (&key), numbers);
  return numbers;
}

gboolean
validate_resolve_machine (ValidateCase *c, ValidateShelf *shelf, GError **error)
{
  const char *slug = validate_cell (&c->cells, "machine");
  const char *label = validate_cell (&c->cells, "gpu");
  const TopoGpu *gpu = topo_gpu_table_find (shelf->gpus, label, NULL);
  g_autofree char *key = NULL;
  g_autoptr (GError) why = NULL;
  guint64 gpus_per_node = 8;
  double inter_gbps = NAN;
  const TopoMachine *machine = NULL;
  const ModelProfile *profile = NULL;
  const CostNumbers *numbers = NULL;

  if (!validate_cell_count (&c->cells, "gpus_per_node", FALSE, G_MAXUINT32, &gpus_per_node, error)
      || !validate_cell_number (&c->cells, "inter_gbps", &inter_gbps, error))
    return FALSE;
  if (*slug == '\0' && gpu == NULL)
    return *label == '\0' ? validate_skip (c, "no gpu and no machine")
                          : validate_skip (c, "GPU '%s' is not in the catalog", label);
  machine = find_machine (shelf, slug, gpu, gpus_per_node, inter_gbps, &key, &why);
  if (machine == NULL)
    return validate_skip (c, "machine: %s", why->message);
  profile = find_profile (shelf, validate_cell (&c->cells, "framework"), machine,
                          validate_cell (&c->cells, "notes"), error);
  if (profile == NULL)
    return FALSE;
  numbers = find_numbers (shelf, key, machine, profile->calibration, &why);
  if (numbers == NULL)
    return validate_skip (c, "calibration: %s", why->message);
  c->setting.machine = (TopoMachine *)machine;
  c->setting.profile = (ModelProfile *)profile;
  c->setting.numbers = *numbers; /* a view; the shelf owns what it points at */
  if (*slug == '\0')
    validate_assume (c, "machine");
  if (!model_profile_claims (profile, validate_cell (&c->cells, "framework")))
    validate_assume (c, "framework");
  return TRUE;
}
