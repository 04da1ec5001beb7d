/* app/stored_inputs.c - a stored plan as inputs again. */
#include "app/record.h"
#include "app/stored.h"

#include "app/error.h"

#include <json-glib/json-glib.h>
#include <string.h>

/* ---- what its run was asked ---- */

static const char *
keep (DbPlan *plan, const char *text)
{
  return text != NULL && *text != '\0' ? g_string_chunk_insert_const (plan->strings, text) : NULL;
}

/* "dir/my-node.ini" is the file of "my-node". */
static gboolean
is_file_of (const char *word, const char *slug)
{
  g_autofree char *base = g_path_get_basename (word);

  if (g_str_has_suffix (base, ".ini"))
    base[strlen (base) - 4] = '\0';
  return g_str_equal (base, slug);
}

/* (owned) NULL where the run says nothing that can be read. */
static JsonNode *
read_asked (const DbPlan *plan, const char *db_path)
{
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_ONLY, NULL, NULL);
  g_autoptr (DbRun) run = db != NULL ? db_load_run (db, plan->plan.run_id, NULL) : NULL;
  g_autoptr (JsonNode) root = run != NULL ? json_from_string (run->run.inputs, NULL) : NULL;

  return root != NULL && JSON_NODE_HOLDS_OBJECT (root) ? g_steal_pointer (&root) : NULL;
}

static const char *
asked_text (JsonObject *asked, const char *key)
{
  JsonNode *node = asked != NULL ? json_object_get_member (asked, key) : NULL;

  return node != NULL && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

/* Of the machines that were asked for, the word of the plan's. */
static const char *
asked_machine (JsonObject *asked, const char *slug)
{
  const char *only = asked_text (asked, "machine");
  JsonNode *node = asked != NULL ? json_object_get_member (asked, "machines") : NULL;
  JsonArray *words
      = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  for (guint i = 0; words != NULL && i < json_array_get_length (words); i++) {
    JsonNode *word = json_array_get_element (words, i);

    if (json_node_get_value_type (word) == G_TYPE_STRING
        && is_file_of (json_node_get_string (word), slug))
      return json_node_get_string (word);
  }
  return only != NULL && is_file_of (only, slug) ? only : NULL;
}

/* ---- the inputs ---- */

static const char *
either (const char *first, const char *second)
{
  return first != NULL ? first : second;
}

static void
fill_machine (AppInputs *inputs, DbPlan *plan, JsonObject *asked, guint64 gpus)
{
  const char *word = asked_machine (asked, plan->machine.name);

  inputs->live_ranks = (guint32)MIN (gpus, G_MAXUINT32);
  if (inputs->machine != NULL) /* the GPU is that machine's own */
    return;
  inputs->machine = either (keep (plan, word), plan->machine.name);
  if (g_str_equal (inputs->machine, "live")) { /* as many devices, and the GPU that there is */
    inputs->live_ranks = MAX (inputs->live_ranks, (guint32)plan->machine.gpus_per_node);
    return;
  }
  if (inputs->what_if == NULL)
    inputs->what_if = keep (plan, asked_text (asked, "what_if"));
  if (inputs->gpu == NULL) /* "": the machine's own */
    inputs->gpu = asked_text (asked, "gpu") != NULL ? keep (plan, asked_text (asked, "gpu"))
                                                    : plan->machine.gpu;
}

void
app_stored_inputs (DbPlan *plan, const char *db_path, guint64 gpus, AppInputs *inputs)
{
  g_autoptr (JsonNode) root = read_asked (plan, db_path);
  JsonObject *asked = root != NULL ? json_node_get_object (root) : NULL;
  const char *profile = asked_text (asked, "profile");

  if (inputs->model == NULL) {
    inputs->model = plan->model.name;
    inputs->model_content = plan->model.content;
  }
  fill_machine (inputs, plan, asked, gpus > 0 ? gpus : (guint64)plan->plan.gpus);
  if (inputs->profile == NULL)
    inputs->profile = either (keep (plan, profile), plan->plan.profile);
  inputs->calibration = either (inputs->calibration, plan->calibration.name);
  if (inputs->dropout < 0)
    inputs->dropout = plan->job.dropout;
}

gboolean
app_stored_plan_is_of_machine (const DbPlan *plan, const TopoMachine *machine, const char *else_do,
                               GError **error)
{
  g_autofree char *now = app_record_machine_whole (machine);

  /* plans of before the last line was stored are known by the others */
  if (g_str_has_prefix (now, plan->machine.content))
    return TRUE;
  g_set_error (
      error, APP_ERROR, APP_ERROR_USAGE,
      "machine '%s' is not what it was when this was planned (its file, the catalog or the "
      "host has changed): plan again%s",
      plan->machine.name, else_do);
  return FALSE;
}
