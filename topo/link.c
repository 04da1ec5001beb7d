/* topo/link.c - names and families of links. */
#include "topo/link.h"
#include "base/suggest.h"

static const char *const kind_names[TOPO_LINK_N_KINDS + 1] = {
  [TOPO_LINK_NVLINK1] = "nvlink1", [TOPO_LINK_NVLINK2] = "nvlink2",
  [TOPO_LINK_NVLINK3] = "nvlink3", [TOPO_LINK_NVLINK4] = "nvlink4",
  [TOPO_LINK_NVLINK5] = "nvlink5", [TOPO_LINK_XGMI] = "xgmi",
  [TOPO_LINK_ICI] = "ici",         [TOPO_LINK_C2C] = "c2c",
  [TOPO_LINK_PCIE3] = "pcie3",     [TOPO_LINK_PCIE4] = "pcie4",
  [TOPO_LINK_PCIE5] = "pcie5",     [TOPO_LINK_PCIE6] = "pcie6",
  [TOPO_LINK_SHM] = "shm",         [TOPO_LINK_INTER_SOCKET] = "inter-socket",
  [TOPO_LINK_NIC] = "nic",         [TOPO_LINK_NVLINK] = "nvlink",
  [TOPO_LINK_PCIE] = "pcie",
};

const char *const topo_link_class_names[] = {
  [TOPO_LINK_CLASS_NONE] = "none",
  [TOPO_LINK_CLASS_NVLINK1] = "nvlink1",
  [TOPO_LINK_CLASS_NVLINK2] = "nvlink2",
  [TOPO_LINK_CLASS_NVLINK3] = "nvlink3",
  [TOPO_LINK_CLASS_NVLINK4] = "nvlink4",
  [TOPO_LINK_CLASS_NVLINK5] = "nvlink5",
  [TOPO_LINK_CLASS_XGMI] = "xgmi",
  [TOPO_LINK_CLASS_ICI] = "ici",
  [TOPO_LINK_CLASS_PCIE3] = "pcie3",
  [TOPO_LINK_CLASS_PCIE4] = "pcie4",
  [TOPO_LINK_CLASS_PCIE5] = "pcie5",
  [TOPO_LINK_CLASS_PCIE6] = "pcie6",
  [TOPO_LINK_CLASS_PCIE3_SYS] = "pcie3-sys",
  [TOPO_LINK_CLASS_PCIE4_SYS] = "pcie4-sys",
  [TOPO_LINK_CLASS_PCIE5_SYS] = "pcie5-sys",
  [TOPO_LINK_CLASS_PCIE6_SYS] = "pcie6-sys",
  [TOPO_LINK_CLASS_SHM] = "shm",
  [TOPO_LINK_CLASS_N_KINDS] = NULL,
};

const char *const topo_fabric_names[] = { "none",    "ib",  "roce",     "efa",  "tcpx", "tcpxo",
                                          "gcprdma", "opa", "ethernet", "efa1", "ici",  NULL };
G_STATIC_ASSERT (G_N_ELEMENTS (topo_fabric_names) == TOPO_FABRIC_N_KINDS + 1);

const char *
topo_link_kind_name (TopoLinkKind kind)
{
  g_return_val_if_fail ((guint)kind < TOPO_LINK_N_KINDS, "?");
  return kind_names[kind];
}

const char *
topo_link_class_name (TopoLinkClass link_class)
{
  g_return_val_if_fail ((guint)link_class < TOPO_LINK_CLASS_N_KINDS, "?");
  return topo_link_class_names[link_class];
}

const char *
topo_fabric_name (TopoFabric fabric)
{
  g_return_val_if_fail ((guint)fabric < TOPO_FABRIC_N_KINDS, "?");
  return topo_fabric_names[fabric];
}

gboolean
topo_fabric_from_name (const char *name, TopoFabric *out)
{
  gint index = base_name_index (name, topo_fabric_names);
  if (index < 0)
    return FALSE;
  *out = (TopoFabric)index;
  return TRUE;
}

gboolean
topo_link_class_from_name (const char *name, TopoLinkClass *out)
{
  gint index = base_name_index (name, topo_link_class_names);
  if (index < 0)
    return FALSE;
  *out = (TopoLinkClass)index;
  return TRUE;
}

gboolean
topo_link_kind_from_name (const char *name, TopoLinkKind *out)
{
  gint index = base_name_index (name, kind_names);
  if (index < 0)
    return FALSE;
  *out = (TopoLinkKind)index;
  return TRUE;
}

gboolean
topo_link_kind_is_direct (TopoLinkKind kind)
{
  return kind <= TOPO_LINK_ICI || kind == TOPO_LINK_NVLINK;
}

gboolean
topo_link_kind_is_pcie (TopoLinkKind kind)
{
  return (kind >= TOPO_LINK_PCIE3 && kind <= TOPO_LINK_PCIE6) || kind == TOPO_LINK_PCIE;
}

gboolean
topo_link_class_is_pcie (TopoLinkClass link_class)
{
  return link_class >= TOPO_LINK_CLASS_PCIE3 && link_class <= TOPO_LINK_CLASS_PCIE6_SYS;
}

TopoLinkClass
topo_link_class_of (TopoLinkKind kind, gboolean sys)
{
  if (kind == TOPO_LINK_NVLINK || kind == TOPO_LINK_PCIE)
    return TOPO_LINK_CLASS_NONE;
  if (topo_link_kind_is_direct (kind))
    return (TopoLinkClass)(TOPO_LINK_CLASS_NVLINK1 + (kind - TOPO_LINK_NVLINK1));
  if (topo_link_kind_is_pcie (kind))
    return (TopoLinkClass)((sys ? TOPO_LINK_CLASS_PCIE3_SYS : TOPO_LINK_CLASS_PCIE3)
                           + (kind - TOPO_LINK_PCIE3));
  return kind == TOPO_LINK_SHM ? TOPO_LINK_CLASS_SHM : TOPO_LINK_CLASS_NONE;
}

TopoLinkKind
topo_link_kind_of_pcie (guint generation)
{
  if (generation < 3 || generation > 6)
    return TOPO_LINK_PCIE;
  return (TopoLinkKind)(TOPO_LINK_PCIE3 + (generation - 3));
}
