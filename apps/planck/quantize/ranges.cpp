#include "quantize/ranges.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint/json.hpp"
#include "quantize/statistics.hpp"
#include "quantize/stored.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

/// Which codes of an 8-bit float stand for no finite number.
enum class Specials {
  Ieee,      ///< all ones in the exponent: infinities and NaN
  OneNan,    ///< all ones but the sign: NaN
  NoZero,    ///< the code of -0: NaN
  Exponent,  ///< no sign and no mantissa; all ones: NaN
};

struct ByteFloat {
  std::string_view name;
  int mantissa;
  int bias;
  Specials specials;
};

constexpr ByteFloat kByteFloats[] = {
    {"F8_E4M3", 3, 7, Specials::OneNan},     {"F8_E5M2", 2, 15, Specials::Ieee},
    {"F8_E4M3FNUZ", 3, 8, Specials::NoZero}, {"F8_E5M2FNUZ", 2, 16, Specials::NoZero},
    {"F8_E8M0", 0, 127, Specials::Exponent},
};

const ByteFloat* byte_float_of(const Dtype& dtype) noexcept {
  const auto* const found = std::find_if(std::begin(kByteFloats), std::end(kByteFloats),
                                         [&](const ByteFloat& each) { return each.name == dtype.name; });
  return found == std::end(kByteFloats) ? nullptr : found;
}

float decode(const ByteFloat& format, int code) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (format.specials == Specials::Exponent) return code == 0xFF ? kNan : std::ldexp(1.0F, code - format.bias);
  const int magnitude = code & 0x7F;
  const int one = 1 << format.mantissa;
  const int exponent = magnitude / one;
  const int fraction = magnitude % one;
  float value = exponent == 0
                    ? std::ldexp(static_cast<float>(fraction), 1 - format.bias - format.mantissa)
                    : std::ldexp(static_cast<float>(one + fraction), exponent - format.bias - format.mantissa);
  if (format.specials == Specials::OneNan && magnitude == 0x7F) value = kNan;
  if (format.specials == Specials::NoZero && code == 0x80) value = kNan;
  if (format.specials == Specials::Ieee && magnitude / one == 0x7F / one) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity() : kNan;
  }
  return code > 0x7F ? -value : value;
}

template <class T>
struct IntegerSums {
  T min = std::numeric_limits<T>::max();
  T max = std::numeric_limits<T>::lowest();

  void merge(const IntegerSums& other) noexcept {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  }
};

/// measure(bytes, count, scratch) of every piece, merged in their order.
template <class Sums, class Measure>
Sums over_pieces(const File& file, const TensorInfo& tensor, Workers& workers, const Measure& measure) {
  // Of one element, or of one block.
  const std::int64_t unit = tensor.blocks != nullptr ? tensor.blocks->elements : 1;
  const std::int64_t size = tensor.blocks != nullptr ? tensor.blocks->bytes : tensor.dtype.bits / 8;
  const std::int64_t pieces = (tensor.elements + kStoredPiece - 1) / kStoredPiece;
  std::vector<Sums> sums(static_cast<std::size_t>(pieces));
  workers.for_each(pieces, [&](int worker, std::int64_t p) {
    Scratch& own = workers.scratch(worker);
    const std::int64_t first = p * kStoredPiece;
    const auto count = static_cast<std::size_t>(std::min(kStoredPiece, tensor.elements - first));
    const std::size_t bytes = count / static_cast<std::size_t>(unit) * static_cast<std::size_t>(size);
    std::byte* memory = own.slot(0, bytes);
    file.read({memory, bytes}, tensor.begin + static_cast<std::uint64_t>(first / unit * size));
    sums[static_cast<std::size_t>(p)] = measure(memory, count, own);
  });
  Sums total;
  for (const Sums& each : sums) total.merge(each);
  return total;
}

TensorRange of_floats(const RangeSums& sums) {
  TensorRange range;
  range.nans = sums.nans;
  range.infinities = sums.infinities;
  if (!sums.any()) return range;
  range.min = number_text(sums.min);
  range.max = number_text(sums.max);
  range.min_json = json_number(sums.min);
  range.max_json = json_number(sums.max);
  return range;
}

/// Calls with a value of the type of integers, if it is one.
template <class Call>
bool with_integer(std::string_view dtype, const Call& call) {
  if (dtype == "I8") return call(std::int8_t{}), true;
  if (dtype == "I16") return call(std::int16_t{}), true;
  if (dtype == "I32") return call(std::int32_t{}), true;
  if (dtype == "I64") return call(std::int64_t{}), true;
  if (dtype == "U8" || dtype == "BOOL") return call(std::uint8_t{}), true;
  if (dtype == "U16") return call(std::uint16_t{}), true;
  if (dtype == "U32") return call(std::uint32_t{}), true;
  if (dtype == "U64") return call(std::uint64_t{}), true;
  return false;
}

}  // namespace

bool has_range(const TensorInfo& tensor) noexcept {
  const Dtype& dtype = tensor.dtype;
  if (tensor.blocks != nullptr) return tensor.blocks->decodes();
  return dtype.is_float() || byte_float_of(dtype) != nullptr || with_integer(dtype.name, [](auto) {});
}

TensorRange range_in_file(const File& file, const TensorInfo& tensor, Workers& workers) {
  TensorRange range;
  const bool integers = with_integer(tensor.dtype.name, [&]<class T>(T) {
    const auto sums =
        over_pieces<IntegerSums<T>>(file, tensor, workers, [](const std::byte* memory, std::size_t count, Scratch&) {
          IntegerSums<T> piece;
          for (std::size_t i = 0; i < count; ++i) {
            T value;
            std::memcpy(&value, memory + i * sizeof value, sizeof value);
            piece.merge({value, value});
          }
          return piece;
        });
    if (tensor.elements == 0) return;
    range.min = range.min_json = std::to_string(sums.min);
    range.max = range.max_json = std::to_string(sums.max);
  });
  if (integers) return range;
  const auto over_floats = [&](const auto& measure) {
    return of_floats(over_pieces<RangeSums>(file, tensor, workers, measure));
  };
  if (tensor.blocks != nullptr) {
    return over_floats([&](const std::byte* memory, std::size_t count, Scratch& own) {
      const std::span<float> wide(reinterpret_cast<float*>(own.slot(1, count * sizeof(float))), count);
      tensor.blocks->decode(memory, static_cast<std::int64_t>(count) / tensor.blocks->elements, wide.data());
      return range_of(std::span<const float>(wide));
    });
  }
  if (const ByteFloat* format = byte_float_of(tensor.dtype)) {
    std::array<float, 256> values{};
    for (int code = 0; code < 256; ++code) values[static_cast<std::size_t>(code)] = decode(*format, code);
    return over_floats([&](const std::byte* memory, std::size_t count, Scratch& own) {
      const std::span<float> wide(reinterpret_cast<float*>(own.slot(1, count * sizeof(float))), count);
      for (std::size_t i = 0; i < count; ++i) wide[i] = values[static_cast<std::size_t>(memory[i])];
      return range_of(std::span<const float>(wide));
    });
  }
  return over_floats([&](const std::byte* memory, std::size_t count, Scratch& own) {
    const ElementKind kind = *tensor.dtype.kind;
    const auto measure = [&]<class C>(C) {
      const std::span<C> wide(reinterpret_cast<C*>(own.slot(1, count * sizeof(C))), count);
      widen(kind, memory, wide);
      return range_of(std::span<const C>(wide));
    };
    return widens_to_f32(kind) ? measure(float{}) : measure(double{});
  });
}

}  // namespace planck::cli
