/* costmodel/calibration_edit.c - changing numbers of a calibration that is in memory. */
#include "costmodel/calibration-private.h"

#include <string.h>

/* The group called @title ("gpu hopper", "step") and the index of @key in it. */
static CostCalibrationGroup *
find_key (const CostCalibration *calibration, const char *title, const char *key, guint *out_index)
{
  for (guint g = 0; g < calibration->groups->len; g++) {
    CostCalibrationGroup *group = g_ptr_array_index (calibration->groups, g);
    g_autofree char *name = cost_calibration_group_title (group);
    if (strcmp (name, title) != 0)
      continue;
    for (guint i = 0; i < cost_sections[group->section].n_keys; i++)
      if (strcmp (cost_sections[group->section].keys[i].name, key) == 0
          && (group->set & (G_GUINT64_CONSTANT (1) << i)) != 0) {
        *out_index = i;
        return group;
      }
  }
  return NULL;
}

double *
cost_calibration_slot (CostCalibration *calibration, const char *title, const char *key,
                       double *out_min, double *out_max)
{
  guint index = 0;
  CostCalibrationGroup *group = find_key (calibration, title, key, &index);
  if (group == NULL)
    return NULL;
  *out_min = cost_sections[group->section].keys[index].min;
  *out_max = cost_sections[group->section].keys[index].max;
  return &group->value[index];
}

gboolean
cost_calibration_set (CostCalibration *calibration, const char *title, const char *key,
                      double value, double spread)
{
  guint index = 0;
  CostCalibrationGroup *group = find_key (calibration, title, key, &index);
  if (group == NULL)
    return FALSE;
  group->value[index] = value;
  group->spread[index] = spread;
  return TRUE;
}

void
cost_calibration_add_run (CostCalibration *calibration, const char *generation, guint64 gpus)
{
  CostCalibrationGroup *group
      = (CostCalibrationGroup *)cost_calibration_find (calibration, COST_SECTION_GPU, generation);
  if (group != NULL)
    group->largest_run = MAX (group->largest_run, gpus);
}

const char *
cost_calibration_unit (const char *title, const char *key)
{
  CostSection section;
  const char *name;
  if (!cost_calibration_split_title (title, &section, &name))
    return NULL;
  const CostKey *found = cost_calibration_key (section, key);
  return found != NULL ? cost_calibration_unit_of (found->dim) : NULL;
}

gboolean
cost_calibration_put (CostCalibration *calibration, const char *title, const char *key,
                      double value, double spread, const char *source)
{
  CostSection section;
  const char *name;
  if (!cost_calibration_split_title (title, &section, &name))
    return FALSE;
  const CostKey *found = cost_calibration_key (section, key);
  if (found == NULL || !(value >= found->min && value <= found->max))
    return FALSE;
  guint i = (guint)(found - cost_sections[section].keys);
  CostCalibrationGroup *group
      = (CostCalibrationGroup *)cost_calibration_find (calibration, section, name);
  if (group == NULL)
    group = cost_calibration_add_group (calibration, section, name, source);
  group->set |= G_GUINT64_CONSTANT (1) << i;
  group->value[i] = value;
  group->spread[i] = spread;
  group->assumed = FALSE;
  return TRUE;
}

void
cost_calibration_each_uncertain (const CostCalibration *calibration,
                                 void (*visit) (const char *group, const char *key,
                                                gpointer user_data),
                                 gpointer user_data)
{
  for (guint g = 0; g < calibration->groups->len; g++) {
    const CostCalibrationGroup *group = g_ptr_array_index (calibration->groups, g);
    g_autofree char *title = cost_calibration_group_title (group);
    for (guint i = 0; i < cost_sections[group->section].n_keys; i++)
      if ((group->set & (G_GUINT64_CONSTANT (1) << i)) != 0 && group->spread[i] > 0)
        visit (title, cost_sections[group->section].keys[i].name, user_data);
  }
}

gboolean
cost_calibration_note_source (CostCalibration *calibration, const char *title, const char *note)
{
  for (guint g = 0; g < calibration->groups->len; g++) {
    CostCalibrationGroup *group = g_ptr_array_index (calibration->groups, g);
    g_autofree char *name = cost_calibration_group_title (group);
    if (strcmp (name, title) != 0)
      continue;
    g_autofree char *before = group->source;
    group->source = g_strdup_printf ("%s; %s", before, note);
    return TRUE;
  }
  return FALSE;
}

void
cost_calibration_rename (CostCalibration *calibration, const char *name, const char *source)
{
  g_free (calibration->name);
  g_free (calibration->source);
  calibration->name = g_strdup (name);
  calibration->source = g_strdup (source);
}
