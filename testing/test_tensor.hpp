// Tensors for tests: the same logical values in any memory layout, with guard bytes in every gap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "planck/tensor.hpp"
#include "testing/memory.hpp"

namespace planck::test {

enum class Layout {
  Contiguous,
  Offset,      ///< contiguous, starting one element into the buffer
  Strided,     ///< every third element
  Reversed,    ///< every dimension backwards
  Transposed,  ///< the first dimension is the contiguous one
  Padded,      ///< rows with two elements of gap, columns contiguous
};
inline constexpr Layout kLayouts[] = {Layout::Contiguous, Layout::Offset,     Layout::Strided,
                                      Layout::Reversed,   Layout::Transposed, Layout::Padded};
std::string to_string(Layout layout);

/// Values that find mistakes: special values, half-steps and ordinary numbers around `unit`.
double test_value(std::uint64_t seed, std::int64_t index, double unit);

class TestTensor {
 public:
  TestTensor(ElementKind element, const Shape& shape, Layout layout);

  /// Element i (in logical row-major order) becomes test_value(seed, i, unit), or a random code.
  void fill(std::uint64_t seed, double unit);
  /// The same with ordinary values only, between -200 and 200 units: what benchmarks measure.
  void fill_ordinary(std::uint64_t seed, double unit);
  /// Scales: positive normal numbers around `unit`, some of them far from it.
  void fill_scales(std::uint64_t seed, double unit);
  /// Factors of either sign between 0.6 and 1.7, seldom 0, infinite or NaN; with `levels` multiples of 1/16.
  void fill_factors(std::uint64_t seed, bool levels);
  /// Stretches of 4096: mostly near 0, some with -Inf among them, some far from 0 or rising, some of every kind of
  /// value.
  void fill_exponents(std::uint64_t seed);
  /// Indices (s32 or s64) of a running maximum along the axis that changes every few elements. Segments, if there are
  /// offsets, have one each.
  void fill_winners(std::uint64_t seed, int axis, bool reverse, const std::vector<std::int64_t>& offsets = {});
  /// These numbers, s32 or s64.
  void fill_numbers(const std::vector<std::int64_t>& numbers);
  /// Zero points (s32) inside and outside the codes' range, up to ±2^20.
  void fill_zero_points(std::uint64_t seed);
  /// The logical elements, row-major and packed.
  std::vector<std::byte> packed() const;
  void assign(const std::vector<std::byte>& packed);
  /// Takes over all bytes, gaps included, of a tensor of the same kind, shape and layout; compares them.
  void copy_bytes(const TestTensor& other) { std::copy(other.buffer_.begin(), other.buffer_.end(), buffer_.begin()); }
  bool same_bytes(const TestTensor& other) const {
    return buffer_.empty() || std::memcmp(buffer_.data(), other.buffer_.data(), buffer_.size()) == 0;
  }
  /// Whether every byte outside the view still holds the guard pattern.
  bool guards_intact() const;

  AnyTensorMut view() const {
    AnyTensorMut v = view_;
    v.data = const_cast<std::byte*>(buffer_.data());
    return v;
  }
  operator AnyTensorMut() const { return view(); }
  operator AnyTensorRef() const { return view(); }
  std::int64_t numel() const { return numel_; }

 private:
  template <class Value>
  void fill_with(std::uint64_t seed, const Value& value);
  /// body(i, address) for every logical index, row-major.
  template <class Body>
  void for_each(const Body& body) const;

  Bytes buffer_;
  AnyTensorMut view_;  // its data pointer is filled in by view(), so that copies stay right
  std::int64_t numel_ = 1;
};

/// The first logical index at which two packed tensors of a kind differ, or -1. NaN equals NaN.
std::int64_t first_difference(ElementKind element, const std::vector<std::byte>& a, const std::vector<std::byte>& b);

/// One element of a packed tensor, for messages.
double element_as_double(ElementKind element, const std::vector<std::byte>& packed, std::int64_t index);

}  // namespace planck::test
