/* exec/cuda/pointwise.cu - element by element: fills, sums, casts, activations, Adam. */
#include "exec/cuda/launch.h"

#define SQRT_HALF     0.70710678118654752f
#define INV_SQRT_2_PI 0.39894228040143268f

template <typename T>
KERNEL
fill_kernel (T *to, float value, uint64_t count, bool wide)
{
  for_elements<T> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    Pack<T, n> out;
    for (unsigned i = 0; i < n; i++)
      out.v[i] = from_float<T> (value);
    store<n> (to + at, out);
  });
}

template <typename T>
KERNEL
scale_kernel (T *x, float factor, uint64_t count, bool wide)
{
  for_elements<T> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    Pack<T, n> out = load<n> (x + at);
    for (unsigned i = 0; i < n; i++)
      out.v[i] = from_float<T> (to_float (out.v[i]) * factor);
    store<n> (x + at, out);
  });
}

template <typename T>
KERNEL
add_kernel (T *out, const T *a, const T *b, uint64_t count, bool wide)
{
  for_elements<T> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    const Pack<T, n> x = load<n> (a + at), y = load<n> (b + at);
    Pack<T, n> sum;
    for (unsigned i = 0; i < n; i++)
      sum.v[i] = from_float<T> (to_float (x.v[i]) + to_float (y.v[i]));
    store<n> (out + at, sum);
  });
}

/* Either way between fp32 and the element type; packs are those of the narrower one. */
template <typename To, typename From>
KERNEL
cast_kernel (To *to, const From *from, uint64_t count, bool wide)
{
  for_elements<Bf16> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    const Pack<From, n> x = load<n> (from + at);
    Pack<To, n> out;
    for (unsigned i = 0; i < n; i++)
      out.v[i] = from_float<To> (to_float (x.v[i]));
    store<n> (to + at, out);
  });
}

DEVICE float
value_of (int kind, float x)
{
  if (kind == EXEC_ACTIVATION_RELU)
    return x > 0 ? x : 0;
  if (kind == EXEC_ACTIVATION_SILU)
    return x / (1 + expf (-x));
  return 0.5f * x * (1 + erff (x * SQRT_HALF));
}

DEVICE float
slope_of (int kind, float x)
{
  if (kind == EXEC_ACTIVATION_RELU)
    return x > 0 ? 1 : 0;
  if (kind == EXEC_ACTIVATION_SILU) {
    const float s = 1 / (1 + expf (-x));
    return s * (1 + x * (1 - s));
  }
  return 0.5f * (1 + erff (x * SQRT_HALF)) + x * INV_SQRT_2_PI * expf (-0.5f * x * x);
}

template <typename T>
KERNEL
activate_kernel (int kind, T *out, const T *gate, const T *up, uint64_t count, bool wide)
{
  for_elements<T> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    const Pack<T, n> g = load<n> (gate + at);
    Pack<T, n> y, u = g;
    if (up != nullptr)
      u = load<n> (up + at);
    for (unsigned i = 0; i < n; i++) {
      const float value = value_of (kind, to_float (g.v[i]));
      y.v[i] = from_float<T> (up != nullptr ? value * to_float (u.v[i]) : value);
    }
    store<n> (out + at, y);
  });
}

template <typename T>
KERNEL
activate_grad_kernel (int kind, T *d_gate, T *d_up, const T *d_out, const T *gate, const T *up,
                      uint64_t count, bool wide)
{
  for_elements<T> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    const Pack<T, n> d = load<n> (d_out + at), g = load<n> (gate + at);
    Pack<T, n> to_gate, to_up, u = g;
    if (up != nullptr)
      u = load<n> (up + at);
    for (unsigned i = 0; i < n; i++) {
      const float x = to_float (g.v[i]), y = to_float (d.v[i]) * slope_of (kind, x);
      to_gate.v[i] = from_float<T> (up != nullptr ? y * to_float (u.v[i]) : y);
      to_up.v[i] = from_float<T> (to_float (d.v[i]) * value_of (kind, x));
    }
    store<n> (d_gate + at, to_gate);
    if (up != nullptr)
      store<n> (d_up + at, to_up);
  });
}

struct AdamNumbers {
  float rate, beta1, beta2, epsilon, correct1, correct2;
};

/* Kingma and Ba 2015, algorithm 1. */
KERNEL
adam_kernel (float *weight, float *moment1, float *moment2, const float *grad, uint64_t count,
             AdamNumbers a, bool wide)
{
  for_elements<float> (count, wide, [=] (uint64_t at, auto width) {
    constexpr unsigned n = decltype (width)::n;
    const Pack<float, n> g = load<n> (grad + at);
    Pack<float, n> w = load<n> (weight + at), m1 = load<n> (moment1 + at),
                   m2 = load<n> (moment2 + at);
    for (unsigned i = 0; i < n; i++) {
      m1.v[i] = a.beta1 * m1.v[i] + (1 - a.beta1) * g.v[i];
      m2.v[i] = a.beta2 * m2.v[i] + (1 - a.beta2) * g.v[i] * g.v[i];
      w.v[i] -= a.rate * m1.v[i] * a.correct1 / (sqrtf (m2.v[i] * a.correct2) + a.epsilon);
    }
    store<n> (weight + at, w);
    store<n> (moment1 + at, m1);
    store<n> (moment2 + at, m2);
  });
}

extern "C" void
cuda_adam (float *weight, float *moment1, float *moment2, const float *grad, guint64 count,
           guint32 step, const float hyper[4])
{
  const AdamNumbers a = { hyper[0],
                          hyper[1],
                          hyper[2],
                          hyper[3],
                          1 / (1 - powf (hyper[1], (float)step)),
                          1 / (1 - powf (hyper[2], (float)step)) };
  LAUNCH (adam_kernel, blocks_for (count / 4 + 4), cuda_kernels.stream, weight, moment1, moment2,
          grad, count, a, is_wide (weight, moment1, moment2, grad));
}

template <typename T>
static unsigned
blocks_of (uint64_t count)
{
  return blocks_for (count / wide_count<T> + wide_count<T>);
}

#define EXPORT(T, P)                                                                               \
  extern "C" void P##_fill (void *to, float value, guint64 count)                                  \
  {                                                                                                \
    LAUNCH (fill_kernel<T>, blocks_of<T> (count), cuda_kernels.stream, (T *)to, value, count,      \
            is_wide (to));                                                                         \
  }                                                                                                \
  extern "C" void P##_scale (void *x, float factor, guint64 count)                                 \
  {                                                                                                \
    LAUNCH (scale_kernel<T>, blocks_of<T> (count), cuda_kernels.stream, (T *)x, factor, count,     \
            is_wide (x));                                                                          \
  }                                                                                                \
  extern "C" void P##_add (void *out, const void *a, const void *b, guint64 count)                 \
  {                                                                                                \
    LAUNCH (add_kernel<T>, blocks_of<T> (count), cuda_kernels.stream, (T *)out, (const T *)a,      \
            (const T *)b, count, is_wide (out, a, b));                                             \
  }                                                                                                \
  extern "C" void P##_cast (void *to, const float *from, guint64 count)                            \
  {                                                                                                \
    LAUNCH ((cast_kernel<T, float>), blocks_of<T> (count), cuda_kernels.stream, (T *)to, from,     \
            count, is_wide (to, from));                                                            \
  }                                                                                                \
  extern "C" void P##_widen (float *to, const void *from, guint64 count)                           \
  {                                                                                                \
    LAUNCH ((cast_kernel<float, T>), blocks_of<T> (count), cuda_kernels.stream, to,                \
            (const T *)from, count, is_wide (to, from));                                           \
  }                                                                                                \
  extern "C" void P##_activate (ExecActivation kind, void *out, const void *gate, const void *up,  \
                                guint64 count)                                                     \
  {                                                                                                \
    LAUNCH (activate_kernel<T>, blocks_of<T> (count), cuda_kernels.stream, (int)kind, (T *)out,    \
            (const T *)gate, (const T *)up, count, is_wide (out, gate, up));                       \
  }                                                                                                \
  extern "C" void P##_activate_grad (ExecActivation kind, void *d_gate, void *d_up,                \
                                     const void *d_out, const void *gate, const void *up,          \
                                     guint64 count)                                                \
  {                                                                                                \
    LAUNCH (activate_grad_kernel<T>, blocks_of<T> (count), cuda_kernels.stream, (int)kind,         \
            (T *)d_gate, (T *)d_up, (const T *)d_out, (const T *)gate, (const T *)up, count,       \
            is_wide (d_gate, d_up, d_out, gate, up));                                              \
  }
EXPORT (float, f32)
EXPORT (Bf16, bf16)
