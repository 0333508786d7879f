// The sum of codes: integers, whose order does not matter. Re-included once per target.

#if defined(PLANCK_CPU_SUM_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_CPU_SUM_CODES_INL_H_
#undef PLANCK_CPU_SUM_CODES_INL_H_
#else
#define PLANCK_CPU_SUM_CODES_INL_H_
#endif

#include <type_traits>

#include "cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

template <class Code>
std::int64_t sum_codes(const Code* codes, std::int64_t n) {
  std::int64_t sum = 0;
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // Eight codes to a 64-bit lane; signed ones 128 too high.
  const Tag<std::uint8_t> d;
  const Tag<std::uint64_t> wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto raise = hn::Set(d, std::is_signed_v<Code> ? std::uint8_t{128} : std::uint8_t{0});
  auto sums = hn::Zero(wide);
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(codes) + i);
    sums = hn::Add(sums, hn::SumsOf8(hn::Xor(x, raise)));
  }
  std::uint64_t parts[HWY_MAX_BYTES / sizeof(std::uint64_t)];
  hn::StoreU(sums, wide, parts);
  for (std::size_t k = 0; k < hn::Lanes(wide); ++k) sum += static_cast<std::int64_t>(parts[k]);
  if (std::is_signed_v<Code>) sum -= 128 * i;
#endif
  for (; i < n; ++i) sum += codes[i];
  return sum;
}

/// sums[i] += the codes of column i in `rows` rows, at most 128, that lie `stride` bytes apart.
template <class Code>
void add_code_columns(const Code* codes, std::int64_t stride, std::int64_t rows, std::int64_t n, std::int32_t* sums) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const Tag<std::int16_t> d16;
  const Tag<std::int32_t> d32;
  const hn::Half<Tag<std::int16_t>> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d16));
  const auto add = [&](auto part, std::int32_t* to) {
    hn::StoreU(hn::Add(hn::LoadU(d32, to), hn::PromoteTo(d32, part)), d32, to);
  };
  // Registers side by side, as of rows a power of two apart the first-level cache holds few lines at a time.
  const auto columns = [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
    for (; i + kRegisters * lanes <= n; i += kRegisters * lanes) {
      decltype(hn::Zero(d16)) sum[kRegisters];
      for (auto& each : sum) each = hn::Zero(d16);
      for (std::int64_t r = 0; r < rows; ++r) {
        const Code* const row = codes + r * stride + i;
        for (int k = 0; k < kRegisters; ++k) {
          sum[k] =
              hn::Add(sum[k], hn::PromoteTo(d16, hn::LoadU(hn::Rebind<Code, Tag<std::int16_t>>(), row + k * lanes)));
        }
      }
      for (int k = 0; k < kRegisters; ++k) {
        add(hn::LowerHalf(half, sum[k]), sums + i + k * lanes);
        add(hn::UpperHalf(half, sum[k]), sums + i + k * lanes + lanes / 2);
      }
    }
  };
  columns(std::integral_constant<int, 4>());
  columns(std::integral_constant<int, 1>());
#endif
  for (; i < n; ++i) {
    for (std::int64_t r = 0; r < rows; ++r) sums[i] += codes[r * stride + i];
  }
}

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
