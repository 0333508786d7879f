#include "testing/test_tensor.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/storage.hpp"

namespace planck::test {
namespace {

constexpr std::byte kGuard{0xA5};

/// splitmix64: a stored generator, the same everywhere.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

template <class Body>
void with_element(ElementKind element, const Body& body) {
  with_type(ElementTypes(), element, body);
}

/// body(the element's size as a constant): copies of that many bytes become one instruction.
template <class Body>
void with_size(ElementKind element, const Body& body) {
  switch (size_of(element)) {
    case 1:
      return body(std::integral_constant<std::size_t, 1>{});
    case 2:
      return body(std::integral_constant<std::size_t, 2>{});
    case 4:
      return body(std::integral_constant<std::size_t, 4>{});
    default:
      return body(std::integral_constant<std::size_t, 8>{});
  }
}

}  // namespace

std::string to_string(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "offset", "strided", "reversed", "transposed", "padded"};
  return kNames[static_cast<int>(layout)];
}

double test_value(std::uint64_t seed, std::int64_t index, double unit) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::uint64_t r = mix(seed * 0x100000001B3ULL + static_cast<std::uint64_t>(index));
  const double uniform = static_cast<double>(mix(r) >> 11) * 0x1p-53;
  const double sign = (r & 1) != 0 ? -1.0 : 1.0;
  switch ((r >> 8) % 32) {
    case 0: {
      static const double kSpecial[] = {0.0,     -0.0,    kInf,     -kInf,  std::nan(""), 65504.0,
                                        65520.0, 1e30,    1e-40,    -1e-40, 0x1p-149,     0x1p-24,
                                        0x1p-25, 0x1p-14, -65519.0, 3e38,   1.0,          0.5};
      return kSpecial[(r >> 16) % (sizeof kSpecial / sizeof *kSpecial)];
    }
    case 1:
    case 2:
    case 3:
      return sign * (std::floor(uniform * 160) + 0.5) * unit;  // half-steps, inside and outside the code range
    case 4:
      return sign * std::exp2(std::floor(uniform * 280) - 150);
    case 5:
      return sign * uniform;  // weights between -1 and 1
    default:
      return sign * uniform * 200 * unit;
  }
}

TestTensor::TestTensor(ElementKind element, const Shape& shape, Layout layout) {
  view_.element = element;
  view_.shape = shape;
  const int rank = shape.rank();
  std::int64_t step = layout == Layout::Strided ? 3 : 1;
  for (int i = 0; i < rank; ++i) {
    const int d = layout == Layout::Transposed ? i : rank - 1 - i;
    view_.stride[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
    if (layout == Layout::Padded) step += 2;
    numel_ *= shape[d];
  }
  std::int64_t capacity = step + 2;
  view_.offset = layout == Layout::Offset ? 1 : 0;
  if (layout == Layout::Reversed) {
    for (int d = 0; d < rank; ++d) {
      view_.offset += view_.stride[d] * std::max<std::int64_t>(shape[d] - 1, 0);
      view_.stride[d] = -view_.stride[d];
    }
  }
  capacity = numel_ == 0 ? 0 : capacity;
  view_.capacity = capacity;
  buffer_.assign(static_cast<std::size_t>(capacity * size_of(element)), kGuard);
}

template <class Body>
void TestTensor::for_each(const Body& body) const {
  const int last = view_.shape.rank() - 1;
  const std::int64_t size = size_of(view_.element);
  const std::int64_t row = last < 0 ? 1 : view_.shape[last];
  const std::int64_t step = last < 0 ? 0 : view_.stride[last] * size;
  std::array<std::int64_t, kMaxRank> index{};
  auto* const bytes = const_cast<std::byte*>(buffer_.data());
  std::int64_t at = view_.offset * size;
  for (std::int64_t i = 0; i < numel_; i += row) {
    for (std::int64_t k = 0; k < row; ++k) body(i + k, bytes + at + k * step);
    for (int d = last - 1; d >= 0; --d) {
      at += view_.stride[d] * size;
      if (++index[d] < view_.shape[d]) break;
      at -= view_.stride[d] * view_.shape[d] * size;
      index[d] = 0;
    }
  }
}

template <class Value>
void TestTensor::fill_with(std::uint64_t seed, const Value& value) {
  with_element(view_.element, [&]<class T>(T element) {
    for_each([&](std::int64_t i, std::byte* at) {
      if constexpr (std::is_integral_v<T>) {
        element = static_cast<T>(mix(seed ^ static_cast<std::uint64_t>(i)));
      } else if constexpr (numerics::FloatCode<T>) {
        element.bits = static_cast<std::uint8_t>(mix(seed ^ static_cast<std::uint64_t>(i)));  // NaN and infinities too
      } else {
        element = scalar::narrow<T>(value(i));
      }
      std::memcpy(at, &element, sizeof element);
    });
  });
}

void TestTensor::fill(std::uint64_t seed, double unit) {
  fill_with(seed, [&](std::int64_t i) { return test_value(seed, i, unit); });
}

void TestTensor::fill_ordinary(std::uint64_t seed, double unit) {
  fill_with(seed, [&](std::int64_t i) {
    const std::uint64_t r = mix(seed * 0x100000001B3ULL + static_cast<std::uint64_t>(i));
    return (static_cast<double>(r >> 11) * 0x1p-52 - 1.0) * 200 * unit;
  });
}

void TestTensor::fill_scales(std::uint64_t seed, double unit) {
  fill_with(seed, [&](std::int64_t i) {
    const std::uint64_t r = mix(seed * 0x100000001B3ULL + static_cast<std::uint64_t>(i));
    const double uniform = static_cast<double>(r >> 11) * 0x1p-53;
    switch (r % 16) {
      case 0:
        return unit * 0x1p-9;
      case 1:
        return unit * 1024;
      case 2:
        return 0x1p-24;  // the smallest f16
      default:
        return unit * (0.5 + uniform);
    }
  });
}

void TestTensor::fill_factors(std::uint64_t seed, bool levels) {
  // What follows a NaN is NaN: a long row has less than one, so that most of it says something.
  std::int64_t often = 4096;
  for (const std::int64_t extent : view_.shape) often = std::max(often, 4 * extent);
  fill_with(seed, [&](std::int64_t i) {
    const std::uint64_t r = mix(seed * 0x100000001B3ULL + static_cast<std::uint64_t>(i));
    switch (r % static_cast<std::uint64_t>(often)) {
      case 0:
        return 0.0;
      case 1:
        return std::numeric_limits<double>::infinity();
      case 2:
        return std::numeric_limits<double>::quiet_NaN();
      default:
        break;
    }
    // As often above 1 as below, by operations that have the same bits everywhere; those of exp2 differ between
    // machines.
    const double above = 1.0 + static_cast<double>(r >> 11) * 0x1p-53 * 0.62;
    const double size = (r >> 6) % 2 == 0 ? above : 1.0 / above;
    const double value = levels ? std::round(size * 16) / 16 : size;
    return (r >> 5) % 2 == 0 ? value : -value;
  });
}

void TestTensor::fill_exponents(std::uint64_t seed) {
  fill_with(seed, [&](std::int64_t i) {
    constexpr std::int64_t kStretch = 4096;
    const auto r = mix(seed * 0x100000001B3ULL + static_cast<std::uint64_t>(i));
    // Small tensors are one stretch: their size decides what it holds.
    const auto hash = mix(static_cast<std::uint64_t>(numel_ * 7919 + i / kStretch));
    const double uniform = static_cast<double>(r >> 11) * 0x1p-52 - 1.0;
    switch (hash % 8) {
      case 0:
        return test_value(seed, i, 1);
      case 1:
        return r % 16 == 0 ? -std::numeric_limits<double>::infinity() : uniform * 20;
      case 2:
        return uniform * 900;
      case 3:
        return static_cast<double>(i % 5000) - 2500 + uniform;
      default:
        return hash % 3 == 0 && r % 1000 == 0 ? test_value(seed, i, 1) : uniform * 20;
    }
  });
}

void TestTensor::fill_numbers(const std::vector<std::int64_t>& numbers) {
  for_each([&](std::int64_t i, std::byte* at) {
    const std::int64_t number = numbers[static_cast<std::size_t>(i) % numbers.size()];
    std::memcpy(at, &number, static_cast<std::size_t>(size_of(view_.element)));  // little-endian
  });
}

void TestTensor::fill_winners(std::uint64_t seed, int axis, bool reverse, const std::vector<std::int64_t>& offsets) {
  std::int64_t inner = 1;
  for (int d = axis + 1; d < view_.shape.rank(); ++d) inner *= view_.shape[d];
  const std::int64_t axis_length = view_.shape[axis];
  const std::int64_t run = 1 + static_cast<std::int64_t>(seed % 7);
  for_each([&](std::int64_t i, std::byte* at) {
    std::int64_t place = i / inner % axis_length;
    std::int64_t length = axis_length;
    if (!offsets.empty()) {
      const auto end = std::upper_bound(offsets.begin(), offsets.end(), place);
      length = *end - *(end - 1);
      place -= *(end - 1);
    }
    const std::int64_t t = reverse ? length - 1 - place : place;
    const std::int64_t start = t - t % run;
    const std::int64_t winner = reverse ? length - 1 - start : start;
    std::memcpy(at, &winner, static_cast<std::size_t>(size_of(view_.element)));  // little-endian
  });
}

void TestTensor::fill_zero_points(std::uint64_t seed) {
  for_each([&](std::int64_t i, std::byte* at) {
    const std::uint64_t r = mix(seed * 0x100000001B3ULL + static_cast<std::uint64_t>(i));
    constexpr std::int32_t kFar[] = {0, -128, 127, 255, 300, -300, 1 << 20, -(1 << 20)};
    const auto near = static_cast<std::int32_t>((r >> 8) % 41) - 20;
    const std::int32_t zero_point = r % 8 == 0 ? kFar[(r >> 16) % 8] : near;
    std::memcpy(at, &zero_point, sizeof zero_point);
  });
}

std::vector<std::byte> TestTensor::packed() const {
  std::vector<std::byte> out(static_cast<std::size_t>(numel_ * size_of(view_.element)));
  with_size(view_.element, [&](auto size) {
    for_each([&](std::int64_t i, const std::byte* at) { std::memcpy(out.data() + i * size, at, size); });
  });
  return out;
}

void TestTensor::assign(const std::vector<std::byte>& packed) {
  with_size(view_.element, [&](auto size) {
    for_each([&](std::int64_t i, std::byte* at) { std::memcpy(at, packed.data() + i * size, size); });
  });
}

bool TestTensor::guards_intact() const {
  TestTensor copy = *this;
  const auto size = static_cast<std::size_t>(size_of(view_.element));
  copy.for_each([&](std::int64_t, std::byte* at) { std::memset(at, static_cast<int>(kGuard), size); });
  for (const std::byte b : copy.buffer_) {
    if (b != kGuard) return false;
  }
  return true;
}

std::int64_t first_difference(ElementKind element, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  if (a.size() != b.size()) return 0;
  const std::int64_t size = size_of(element);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(a.size()) / size; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, static_cast<std::size_t>(size)) == 0) continue;
    if (std::isnan(element_as_double(element, a, i)) && std::isnan(element_as_double(element, b, i))) continue;
    return i;
  }
  return -1;
}

double element_as_double(ElementKind element, const std::vector<std::byte>& packed, std::int64_t index) {
  double out = 0;
  with_element(element, [&]<class T>(T value) {
    std::memcpy(&value, packed.data() + index * static_cast<std::int64_t>(sizeof value), sizeof value);
    out = scalar::widen<double>(value);
  });
  return out;
}

}  // namespace planck::test
