/* topo/pci.c - PCI classes and link rates. */
#include "topo/pci.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

PciKind
pci_kind_of_class (const char *class_code)
{
  guint64 value = 0;
  const char *digits = g_str_has_prefix (class_code, "0x") ? class_code + 2 : class_code;
  gsize length = strlen (digits);
  if (length < 4 || length > 6
      || !g_ascii_string_to_unsigned (digits, 16, 0, 0xffffff, &value, NULL))
    return PCI_OTHER;
  value >>= (length - 4) * 4;
  if (value == 0x0604)
    return PCI_BRIDGE;
  if (value == 0x0680)
    return PCI_NVSWITCH;
  if (value == 0x1200 || value >> 8 == 0x03)
    return PCI_GPU;
  return value >> 8 == 0x02 ? PCI_NIC : PCI_OTHER;
}

/* Of a link of @gt_per_s per lane: 1 … 6; 0 for another rate. */
static guint
pci_generation_of_rate (double gt_per_s)
{
  static const double rates[] = { 2.5, 5, 8, 16, 32, 64 };
  for (guint g = 0; g < G_N_ELEMENTS (rates); g++)
    if (fabs (gt_per_s - rates[g]) < 0.01 * rates[g])
      return g + 1;
  return 0;
}

guint
pci_generation_of_text (const char *text)
{
  double rate = 0;
  const char *rest;
  while (g_ascii_isspace (*text))
    text++;
  rest = base_text_scan_decimal (text, &rate);
  if (rest == NULL)
    return 0;
  while (g_ascii_isspace (*rest))
    rest++;
  return *rest == '\0' || g_ascii_strncasecmp (rest, "GT", 2) == 0 ? pci_generation_of_rate (rate)
                                                                   : 0;
}

/* 8 GT/s and up carry 128 bits in 130; x16 first, as that is what GPUs and NICs have. */
gboolean
pci_link_of_rate (double gb_per_s, guint *out_generation, guint *out_lanes)
{
  static const guint lanes[] = { 16, 8, 4 };
  for (guint l = 0; l < G_N_ELEMENTS (lanes); l++)
    for (guint generation = 3; generation <= 6; generation++) {
      double rate = 8.0 * (1 << (generation - 3)) * lanes[l] / 8 * 128 / 130;
      if (fabs (gb_per_s - rate) > 0.03 * rate)
        continue;
      *out_generation = generation;
      *out_lanes = lanes[l];
      return TRUE;
    }
  return FALSE;
}
