// The library's math as device code, from the very headers that the CPU and the reference use.
//
// Nothing here is launched: the test is that nvcc takes the headers without a warning, and that the PTX has
// the formulas' operations (div.rn, mul.rn, add.rn, cvt.rni) and no fused multiply-add. The kernels are plain
// grid-stride loops; extern "C" names let check_ptx.cmake speak about one of them.
#include <cstdint>

#include "numerics/canonical_order.hpp"
#include "numerics/storage.hpp"
#include "quantize/scalar.hpp"

namespace planck::scalar {
#include "binary/math.inl"
}  // namespace planck::scalar

namespace {

using planck::bf16;
using planck::f16;
using planck::scalar::CodeRange;
using planck::scalar::Compute;
using planck::scalar::DivideScale;
using planck::scalar::Lerp;
using planck::scalar::narrow;
using planck::scalar::ReciprocalScale;
using planck::scalar::widen;

template <class Body>
__device__ void grid_stride(std::int64_t n, const Body& body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}

template <class T, class Scale>
__device__ void fake_quantize(const T* x, T* y, std::int64_t n, Scale scale, CodeRange<Compute<T>> range) {
  using C = Compute<T>;
  grid_stride(n,
              [&](std::int64_t i) { y[i] = narrow<T>(planck::scalar::fake_quantize(widen<C>(x[i]), scale, range)); });
}

template <class T, class Scale>
__device__ void fake_quantize_backward(const T* x, const T* dy, T* dx, std::int64_t n, Scale scale,
                                       CodeRange<Compute<T>> range) {
  using C = Compute<T>;
  grid_stride(n, [&](std::int64_t i) {
    dx[i] = narrow<T>(planck::scalar::fake_quantize_backward(widen<C>(x[i]), widen<C>(dy[i]), scale, range));
  });
}

template <class Code, class T>
__device__ void dequantize(const Code* q, T* x, std::int64_t n, Compute<T> scale, Compute<T> zero_point) {
  using C = Compute<T>;
  grid_stride(n,
              [&](std::int64_t i) { x[i] = narrow<T>(planck::scalar::dequantize(widen<C>(q[i]), scale, zero_point)); });
}

template <class T>
__device__ void lerp(const T* a, const T* b, const T* w, T* y, std::int64_t n) {
  using C = Compute<T>;
  grid_stride(n,
              [&](std::int64_t i) { y[i] = narrow<T>(Lerp::value(widen<C>(a[i]), widen<C>(b[i]), widen<C>(w[i]))); });
}

template <class C>
__device__ void log_add_exp(const C* a, const C* b, C* y, std::int64_t n) {
  grid_stride(
      n, [&](std::int64_t i) { y[i] = a[i] + planck::scalar::log_normal(1 + planck::scalar::exp_small(b[i] - a[i])); });
}

/// The weight's gradient, one row for each thread: terms in C, summed in the canonical order in f64, rounded once.
template <class T>
__device__ void canonical_row_sums(const T* dy, const T* a, const T* b, T* dw, std::int64_t rows, std::int64_t length) {
  using C = Compute<T>;
  grid_stride(rows, [&](std::int64_t row) {
    dw[row] = narrow<T>(planck::numerics::canonical_sum(length, [&](std::int64_t t) {
      const std::int64_t i = row * length + t;
      return static_cast<double>(Lerp::dw(widen<C>(dy[i]), widen<C>(a[i]), widen<C>(b[i])));
    }));
  });
}

}  // namespace

#define PLANCK_TEST_KERNELS(name, T)                                                                                \
  extern "C" __global__ void fake_quantize_divide_##name(const T* x, T* y, std::int64_t n,                          \
                                                         DivideScale<Compute<T>> scale, CodeRange<Compute<T>> r) {  \
    fake_quantize(x, y, n, scale, r);                                                                               \
  }                                                                                                                 \
  extern "C" __global__ void fake_quantize_reciprocal_##name(                                                       \
      const T* x, T* y, std::int64_t n, ReciprocalScale<Compute<T>> scale, CodeRange<Compute<T>> r) {               \
    fake_quantize(x, y, n, scale, r);                                                                               \
  }                                                                                                                 \
  extern "C" __global__ void fake_quantize_backward_divide_##name(                                                  \
      const T* x, const T* dy, T* dx, std::int64_t n, DivideScale<Compute<T>> scale, CodeRange<Compute<T>> r) {     \
    fake_quantize_backward(x, dy, dx, n, scale, r);                                                                 \
  }                                                                                                                 \
  extern "C" __global__ void fake_quantize_backward_reciprocal_##name(                                              \
      const T* x, const T* dy, T* dx, std::int64_t n, ReciprocalScale<Compute<T>> scale, CodeRange<Compute<T>> r) { \
    fake_quantize_backward(x, dy, dx, n, scale, r);                                                                 \
  }                                                                                                                 \
  extern "C" __global__ void dequantize_s8_##name(const std::int8_t* q, T* x, std::int64_t n, Compute<T> scale,     \
                                                  Compute<T> zero_point) {                                          \
    dequantize(q, x, n, scale, zero_point);                                                                         \
  }                                                                                                                 \
  extern "C" __global__ void lerp_##name(const T* a, const T* b, const T* w, T* y, std::int64_t n) {                \
    lerp(a, b, w, y, n);                                                                                            \
  }                                                                                                                 \
  extern "C" __global__ void canonical_sum_##name(const T* dy, const T* a, const T* b, T* dw, std::int64_t rows,    \
                                                  std::int64_t length) {                                            \
    canonical_row_sums(dy, a, b, dw, rows, length);                                                                 \
  }

PLANCK_TEST_KERNELS(f32, float)
PLANCK_TEST_KERNELS(f64, double)
PLANCK_TEST_KERNELS(f16, f16)
PLANCK_TEST_KERNELS(bf16, bf16)

#define PLANCK_TEST_EXP_LOG1P(name, C)                                                          \
  extern "C" __global__ void log_add_exp_##name(const C* a, const C* b, C* y, std::int64_t n) { \
    log_add_exp(a, b, y, n);                                                                    \
  }
PLANCK_TEST_EXP_LOG1P(f32, float)
PLANCK_TEST_EXP_LOG1P(f64, double)
