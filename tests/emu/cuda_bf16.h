/* tests/emu/cuda_bf16.h - bfloat16 with rounding to nearest even. */
#pragma once
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
struct __nv_bfloat16 {
  uint16_t bits;
};

static inline float
__bfloat162float (__nv_bfloat16 x)
{
  uint32_t bits = (uint32_t)x.bits << 16;
  float value;
  memcpy (&value, &bits, sizeof value);
  return value;
}

static inline __nv_bfloat16
__float2bfloat16 (float x)
{
  uint32_t bits;
  memcpy (&bits, &x, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return { 0x7fff };
  bits += 0x7fff + (bits >> 16 & 1);
  return { (uint16_t)(bits >> 16) };
}
#endif
