// The public conversions of the storage types, from the one text in src/numerics.
#include "numerics/storage.hpp"
#include "planck/element.hpp"

namespace planck {

f16::f16(float value) noexcept : f16(scalar::narrow<f16>(value)) {}
f16::f16(double value) noexcept : f16(scalar::narrow<f16>(value)) {}
f16::operator float() const noexcept { return scalar::widen<float>(*this); }
f16::operator double() const noexcept { return scalar::widen<double>(*this); }

bf16::bf16(float value) noexcept : bf16(scalar::narrow<bf16>(value)) {}
bf16::bf16(double value) noexcept : bf16(scalar::narrow<bf16>(value)) {}
bf16::operator float() const noexcept { return scalar::widen<float>(*this); }
bf16::operator double() const noexcept { return scalar::widen<double>(*this); }

f8e4m3::f8e4m3(float value) noexcept : f8e4m3(scalar::narrow<f8e4m3>(value)) {}
f8e4m3::f8e4m3(double value) noexcept : f8e4m3(scalar::narrow<f8e4m3>(value)) {}
f8e4m3::operator float() const noexcept { return scalar::widen<float>(*this); }
f8e4m3::operator double() const noexcept { return scalar::widen<double>(*this); }

f8e5m2::f8e5m2(float value) noexcept : f8e5m2(scalar::narrow<f8e5m2>(value)) {}
f8e5m2::f8e5m2(double value) noexcept : f8e5m2(scalar::narrow<f8e5m2>(value)) {}
f8e5m2::operator float() const noexcept { return scalar::widen<float>(*this); }
f8e5m2::operator double() const noexcept { return scalar::widen<double>(*this); }

}  // namespace planck
