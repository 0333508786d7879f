// The additions of the canonical order, vectorised: whole blocks of eight along a row, and columns side by side. Beside
// them the rounding of terms that are no sums, and sums of codes, which are integers and know no order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "planck/plan.hpp"

namespace planck::cpu {

/// totals[b] = terms[8b] + … + terms[8b + 7], in f64, left to right.
template <class Term>
using SumBlocks = void (*)(const Term* terms, std::int64_t blocks, double* totals);
/// The same two levels up, block of 64 by block of 64: the sum of its first seven blocks of eight, and the eighth. The
/// last one of a row stays open in two levels, all others are the two added.
template <class Term>
using SumBlocksOf64 = void (*)(const Term* terms, std::int64_t blocks, double* sevens, double* eighths);
/// sums[i] = terms[i] + terms[pitch + i] + … over `rows` rows of n, in f64, from the first row to the last; `on`: the
/// sum goes on from sums[i].
template <class Term>
using SumRows = void (*)(const Term* terms, std::int64_t pitch, std::int64_t rows, std::int64_t n, double* sums,
                         bool on);
/// sums[i] += from[i].
using AddSums = void (*)(const double* from, std::int64_t n, double* sums);
/// Rounds terms to the element; `to` may be where the terms are. Streamed stores are fenced by the caller.
using NarrowTerms = void (*)(const float* terms, std::int64_t n, std::byte* to, bool streamed);

template <class Code>
using SumCodes = std::int64_t (*)(const Code* codes, std::int64_t n);

/// sums[i] += the codes of column i in `rows` rows, at most 128, that lie `stride` bytes apart.
template <class Code>
using AddCodeColumns = void (*)(const Code* codes, std::int64_t stride, std::int64_t rows, std::int64_t n,
                                std::int32_t* sums);

struct SumKernels {
  SumBlocks<float> sum_blocks_f32;
  SumBlocks<double> sum_blocks_f64;
  SumBlocksOf64<float> sum_blocks_of_64_f32;
  SumBlocksOf64<double> sum_blocks_of_64_f64;
  SumRows<float> sum_rows_f32;
  SumRows<double> sum_rows_f64;
  AddSums add_sums;
  std::array<NarrowTerms, kElements.size()>
      narrow_terms;  ///< by the element's number; null for others than narrow floats
  SumCodes<std::int8_t> sum_codes_s8;
  SumCodes<std::uint8_t> sum_codes_u8;
  AddCodeColumns<std::int8_t> add_code_columns_s8;
  AddCodeColumns<std::uint8_t> add_code_columns_u8;

  NarrowTerms narrow(ElementKind element) const { return narrow_terms[static_cast<std::size_t>(element)]; }
  void sum_blocks(const float* terms, std::int64_t blocks, double* totals) const {
    sum_blocks_f32(terms, blocks, totals);
  }
  void sum_blocks(const double* terms, std::int64_t blocks, double* totals) const {
    sum_blocks_f64(terms, blocks, totals);
  }
  void sum_blocks_of_64(const float* terms, std::int64_t blocks, double* sevens, double* eighths) const {
    sum_blocks_of_64_f32(terms, blocks, sevens, eighths);
  }
  void sum_blocks_of_64(const double* terms, std::int64_t blocks, double* sevens, double* eighths) const {
    sum_blocks_of_64_f64(terms, blocks, sevens, eighths);
  }
  std::int64_t sum_codes(const std::int8_t* codes, std::int64_t n) const { return sum_codes_s8(codes, n); }
  std::int64_t sum_codes(const std::uint8_t* codes, std::int64_t n) const { return sum_codes_u8(codes, n); }
  void sum_rows(const float* terms, std::int64_t pitch, std::int64_t rows, std::int64_t n, double* sums,
                bool on) const {
    sum_rows_f32(terms, pitch, rows, n, sums, on);
  }
  void sum_rows(const double* terms, std::int64_t pitch, std::int64_t rows, std::int64_t n, double* sums,
                bool on) const {
    sum_rows_f64(terms, pitch, rows, n, sums, on);
  }
  void add_code_columns(const std::int8_t* codes, std::int64_t stride, std::int64_t rows, std::int64_t n,
                        std::int32_t* sums) const {
    add_code_columns_s8(codes, stride, rows, n, sums);
  }
  void add_code_columns(const std::uint8_t* codes, std::int64_t stride, std::int64_t rows, std::int64_t n,
                        std::int32_t* sums) const {
    add_code_columns_u8(codes, stride, rows, n, sums);
  }
};

/// For an instruction set that this machine has.
const SumKernels& sum_kernels(ArchSku arch) noexcept;

}  // namespace planck::cpu
