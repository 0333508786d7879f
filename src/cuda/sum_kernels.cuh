// The kernels of canonical sums: each sums one dimension, the last of its loop, for every index of the others (a site).
//
// Positions are counted in blocks of 8, 64, 512, 4096, and a sum of n terms ends inside a tree of them: what lies
// before its last position splits into E3, E2, E1 (whole blocks, largest first) and E0 (the open block of 8). J counts
// the blocks of 8 that lie whole before that end, so its digits to base 8 say which parts there are. Rows: 512 threads
// with a block of 8 each make a tile of 4096, or several short sums. Columns: neighbouring threads take neighbouring
// sites, and eight walkers of 64 terms share 512 of a site. Long sums of few sites are cut into parts at tiles (rows)
// or blocks of 512 (columns): whole parts leave their total, the last one its E parts, and a second, closed, sum over
// the totals goes on where they stop.
#pragma once

#include <cstdint>

#include "core/sums.hpp"
#include "cuda/elementwise.cuh"
#include "numerics/canonical_order.hpp"

namespace planck::cuda {

inline constexpr int kMaxSumOutputs = core::kMaxSums;
inline constexpr int kSumRowThreads = 512;
inline constexpr int kSumColumnThreads = 256;
inline constexpr int kRowLevel = 4;     ///< a row's tile is a block of this level
inline constexpr int kColumnLevel = 3;  ///< a column's round

/// What a kernel sums and where its results go.
struct SumSpec {
  unsigned summed;      ///< bit o: output o is summed, into the loop's operand after the job's own number o
  ElementKind element;  ///< what sums are stored as
  double factor;
  std::int64_t sites;
  std::int64_t length;
  /// Only for partial sums: terms are totals of whole blocks, and the E parts that follow them, largest first, are
  /// those of a sum that ends at `last`. No term is the open block itself.
  bool closed;
  int tail;
  std::int64_t last;
  /// Null: not cut into parts. Else totals go to parts[plane * sum + part_stride * part + site_stride * site].
  double* parts;
  std::int64_t plane;
  std::int64_t part_stride;
  std::int64_t site_stride;
  int threads;  ///< rows: of one sum; columns: walkers of one site

  PLANCK_HOST_DEVICE bool sums(int o) const { return (summed >> o & 1U) != 0; }
  /// The number of output o among those that are summed.
  PLANCK_HOST_DEVICE int index_of(int o) const {
    int index = 0;
    for (int k = 0; k < o; ++k) index += sums(k) ? 1 : 0;
    return index;
  }
  PLANCK_HOST_DEVICE double* part_at(int o, std::int64_t part, std::int64_t site) const {
    return parts + index_of(o) * plane + part * part_stride + site * site_stride;
  }
};

/// The loop has the job's operands and then one for each output's sum, absent where it has none.
template <class Op>
struct SumJob {
  ElementwiseJob<Op> job;
  SumSpec spec;
};

/// Whether output o is summed; known not to be for those that an operation only stores.
template <class Op>
__device__ __forceinline__ bool sums_output(const SumSpec& spec, int o) {
  return o >= Op::kFirstSummed && spec.sums(o);
}

/// Where a piece of `terms` terms ends in its tree: J and what is left of the open block of 8.
struct PieceEnd {
  int whole;      ///< J
  bool has_open;  ///< E0 exists

  /// A piece that others follow is whole. A closed one ends between blocks.
  __device__ __forceinline__ PieceEnd(std::int64_t terms, bool last, bool closed, int all) {
    const int n = static_cast<int>(terms);
    whole = !last ? all : closed ? n / 8 : n > 0 ? (n - 1) / 8 : 0;
    has_open = last && (closed ? n % 8 > 0 : n > 0);
  }
  /// Blocks of 8^level that lie whole in the end's own block of 8^(level + 1), for level >= 1.
  __device__ __forceinline__ int blocks(int level) const { return numerics::digit(whole, level - 1); }
};

/// Parts added largest first; the sum of none is +0.
struct PartSum {
  double sum = 0.0;
  bool any = false;
  __device__ __forceinline__ void add(bool present, double part) {
    if (!present) return;
    sum = any ? sum + part : part;
    any = true;
  }
};

/// Totals of the levels above a piece, in shared memory, `stride` values apart; a piece is a block of level 0 here.
struct PieceTotals {
  double* above;
  int stride;

  __device__ __forceinline__ double& at(int level) const { return above[level * stride]; }
  __device__ __forceinline__ void set(int level, double total) const { at(level) = total; }
  __device__ __forceinline__ void add(int level, double total) const { at(level) += total; }

  /// One more whole piece, with so many before it.
  __device__ __forceinline__ void push(std::int64_t pieces, double total) {
    numerics::push_block(*this, 0, pieces, total);
  }
  /// Adds all that are open after so many.
  __device__ __forceinline__ void add_to(PartSum& sum, std::int64_t pieces) const {
    numerics::for_each_open(0, pieces, [&](int level) { sum.add(true, at(level)); });
  }
};

/// Adds a block of up to 8 terms from `start` on left to right, for every summed output; stores the others.
template <class Op>
__device__ __forceinline__ void fold_block(const SumJob<Op>& job, const Row<Op>& row, std::int64_t start, int valid,
                                           double (&sum)[Op::kOutputs]) {
  using C = typename Op::Compute;
  constexpr int kN = kChunk<C>;
#pragma unroll 1
  for (int begin = 0; begin < valid; begin += kN) {
    run_chunk(job.job, row, start + begin, 0, valid - begin, [&](int i, const C(&term)[Op::kOutputs]) {
      if (begin + i >= valid) return;
#pragma unroll
      for (int o = 0; o < Op::kOutputs; ++o) {
        if (!sums_output<Op>(job.spec, o)) continue;
        sum[o] = begin + i == 0 ? static_cast<double>(term[o]) : sum[o] + static_cast<double>(term[o]);
      }
    });
  }
}

/// Adds the E parts that follow a closed sum, and stores the result.
template <class Op>
__device__ __forceinline__ void finish_sum(const SumJob<Op>& job, std::int64_t site, int o, PartSum sum) {
  const core::StridedLoop& loop = job.job.loop;
  const int to = ElementwiseJob<Op>::kOperands + o;
  std::byte* at = loop.operand[to].base;
  const std::byte* from = loop.operand[o].base;  // of a closed sum: the totals of sum o
  for (int d = loop.rank - 2; d >= 0; --d) {
    const std::int64_t rest = d == 0 ? 0 : site / loop.extent[d];
    const std::int64_t index = site - rest * loop.extent[d];
    site = rest;
    at += index * loop.operand[to].stride[d];
    if (job.spec.closed) from += index * loop.operand[o].stride[d];
  }
  if (job.spec.closed) {
    from += job.spec.length * loop.operand[o].stride[loop.rank - 1];
    for (int level = job.spec.tail - 1; level >= 0; --level) {
      if (level == 0 || numerics::digit(job.spec.last, level) != 0) {
        sum.add(true, *reinterpret_cast<const double*>(from));
      }
      from += loop.operand[o].stride[loop.rank - 1];
    }
  }
  store_one<double>(at, job.spec.element, sum.sum * job.spec.factor);
}

/// Pieces of 8^level terms, the last of them an end of its own, even if nothing is left for it.
PLANCK_HOST_DEVICE inline std::int64_t pieces_of(std::int64_t length, int level, bool closed) {
  return ((closed || length == 0 ? length : length - 1) >> (3 * level)) + 1;
}

/// The sums that a block of threads works on, or a tile of one: the same for all threads, whose registers are few.
struct SumItem {
  std::int64_t first_site;
  std::int64_t tiles;  ///< of a sum
  std::int64_t first_tile;
  std::int64_t end_tile;
  int groups_per_sum;  ///< of 64 terms
  int larger_per_sum;  ///< of 512
  bool any;            ///< false: nothing is left to do

  __device__ __forceinline__ SumItem(const SumSpec& spec, int slots, std::int64_t item)
      : tiles(pieces_of(spec.length, kRowLevel, spec.closed)),
        groups_per_sum(spec.threads / 8),
        larger_per_sum((spec.threads / 8 + 7) / 8) {
    const bool split = spec.parts != nullptr;
    any = item < (split ? spec.sites * tiles : (spec.sites + slots - 1) / slots);
    first_site = split ? item / tiles : item * slots;
    first_tile = split ? item - first_site * tiles : 0;
    end_tile = split ? first_tile + 1 : tiles;
  }
  SumItem() = default;  // in shared memory
};

template <class Op>
__global__ void __launch_bounds__(kSumRowThreads, 1) sum_rows(const SumJob<Op> job) {
  constexpr int kOut = Op::kOutputs;
  constexpr int kGroups = kSumRowThreads / 8;
  __shared__ double groups[kOut][kGroups];   // of 64 terms
  __shared__ double larger[kOut][kGroups];   // of 512
  __shared__ double open[kOut][3][kGroups];  // each sum's E0, E1, E2
  __shared__ double above[kOut][numerics::kMaxLevels - kRowLevel + 1];
  __shared__ SumItem its;
  const SumSpec& spec = job.spec;
  const int thread = static_cast<int>(threadIdx.x);
  const int slots = kSumRowThreads / spec.threads;
  const int slot = thread / spec.threads;
  const int lane = thread - slot * spec.threads;
  const int width = spec.threads < 8 ? spec.threads : 8;
  const int within = lane & (width - 1);
  const int group = lane / 8;
  const bool split = spec.parts != nullptr;
  for (std::int64_t item = blockIdx.x;; item += gridDim.x) {
    if (thread == 0) its = SumItem(spec, slots, item);
    __syncthreads();
    if (!its.any) return;
    const bool live = slot < slots && its.first_site + slot < spec.sites;
    const Row<Op> row(job.job, live ? its.first_site + slot : 0);
    for (std::int64_t tile = its.first_tile; tile < its.end_tile; ++tile) {
      const std::int64_t start = tile * numerics::block_size(kRowLevel);
      const bool last = tile + 1 == its.tiles;
      const std::int64_t terms = last ? spec.length - start : numerics::block_size(kRowLevel);
      const std::int64_t left = terms - 8 * lane;
      double own[kOut] = {};
      if (live && left > 0) fold_block(job, row, start + 8 * lane, left < 8 ? static_cast<int>(left) : 8, own);
      const PieceEnd end(terms, last, spec.closed, kSumRowThreads);

      // Eight neighbouring threads: whole groups of 64 add up, the end's own group gives E1 and E0.
      const int limit = end.whole - 8 * group;
      const int end_lane = (thread & 31) - within + (end.whole & (width - 1));
#pragma unroll
      for (int o = 0; o < kOut; ++o) {
        if (!sums_output<Op>(spec, o)) continue;
        double total = own[o];
#pragma unroll
        for (int k = 1; k < 8; ++k) {
          const double next = __shfl_down_sync(0xFFFFFFFFU, own[o], k);
          if (k < limit) total += next;
        }
        const double open_block = __shfl_sync(0xFFFFFFFFU, own[o], end_lane);
        if (within != 0 || !live) continue;
        if (spec.threads <= 8) {
          PartSum sum;
          sum.add(end.blocks(1) > 0, total);
          sum.add(end.has_open, open_block);
          finish_sum(job, its.first_site + slot, o, sum);
        } else if (limit >= 8) {
          groups[o][thread / 8] = total;
        } else if (limit >= 0) {
          open[o][1][slot] = total;
          open[o][0][slot] = open_block;
        }
      }
      if (spec.threads <= 8) continue;
      __syncthreads();

      const int whole_groups = end.whole / 8;
      if (thread < slots * its.larger_per_sum) {
        const int of = thread / its.larger_per_sum;
        const int begin = 8 * (thread - of * its.larger_per_sum);
        const int count = whole_groups - begin < 8 ? whole_groups - begin : 8;
        if (count > 0) {
#pragma unroll
          for (int o = 0; o < kOut; ++o) {
            if (!sums_output<Op>(spec, o)) continue;
            const double* from = &groups[o][of * its.groups_per_sum + begin];
            double total = from[0];
            for (int k = 1; k < count; ++k) total += from[k];
            (count == 8 ? larger[o][thread] : open[o][2][of]) = total;
          }
        }
      }
      __syncthreads();

      if (thread < slots && its.first_site + thread < spec.sites) {
        const std::int64_t at = its.first_site + thread;
#pragma unroll
        for (int o = 0; o < kOut; ++o) {
          if (!sums_output<Op>(spec, o)) continue;
          double e3 = larger[o][thread * its.larger_per_sum];
          for (int k = 1; k < end.whole / 64; ++k) e3 += larger[o][thread * its.larger_per_sum + k];
          if (!last) {
            if (split) {
              *spec.part_at(o, tile, at) = e3;
            } else {
              PieceTotals{above[o], 1}.push(tile, e3);
            }
          } else if (split) {
            *spec.part_at(o, tile, at) = e3;  // where there is no such part, nobody reads it
            for (int k = 2; k >= 0; --k) *spec.part_at(o, tile + 3 - k, at) = open[o][k][thread];
          } else {
            PartSum sum;
            PieceTotals{above[o], 1}.add_to(sum, tile);
            sum.add(end.whole >= 64, e3);
            sum.add(end.blocks(2) > 0, open[o][2][thread]);
            sum.add(end.blocks(1) > 0, open[o][1][thread]);
            sum.add(end.has_open, open[o][0][thread]);
            finish_sum(job, at, o, sum);
          }
        }
      }
      __syncthreads();
    }
    __syncthreads();  // all have seen that the tiles are done before `its` becomes another
  }
}

/// One block a multiprocessor allows as many registers as there are: with two some spill.
template <class Op>
__global__ void __launch_bounds__(kSumColumnThreads, 1) sum_columns(const SumJob<Op> job) {
  constexpr int kOut = Op::kOutputs;
  constexpr int kWalkers = 8;
  constexpr int kLongColumns = kSumColumnThreads / kWalkers;  // sums of several rounds have all walkers
  __shared__ double blocks[kOut][kSumColumnThreads];          // of 64 terms, by walker and column
  __shared__ double open[kOut][2][kSumColumnThreads];         // each column's E0 and E1
  __shared__ double above[kOut][numerics::kMaxLevels - kColumnLevel + 1][kLongColumns];
  const SumSpec& spec = job.spec;
  const int thread = static_cast<int>(threadIdx.x);
  const int columns = kSumColumnThreads / spec.threads;
  const int walker = thread / columns;
  const int column = thread - walker * columns;
  const bool split = spec.parts != nullptr;
  const std::int64_t rounds = pieces_of(spec.length, kColumnLevel, spec.closed);
  const std::int64_t strips = (spec.sites + columns - 1) / columns;
  const std::int64_t items = split ? strips * rounds : strips;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t first_round = split ? item / strips : 0;
    const std::int64_t end_round = split ? first_round + 1 : rounds;
    const std::int64_t site = (item - first_round * strips) * columns + column;
    const bool live = site < spec.sites;
    const Row<Op> row(job.job, live ? site : 0);
    for (std::int64_t round = first_round; round < end_round; ++round) {
      const std::int64_t start = round * numerics::block_size(kColumnLevel);
      const bool last = round + 1 == rounds;
      const std::int64_t terms = last ? spec.length - start : numerics::block_size(kColumnLevel);
      const PieceEnd end(terms, last, spec.closed, 8 * kWalkers);
      const int end_walker = end.whole / 8;
      if (live && walker <= end_walker) {
        double total[kOut] = {};
        for (int block = 8 * walker; block < 8 * walker + 8; ++block) {
          const std::int64_t left = terms - 8 * block;
          if (left <= 0) break;
          double own[kOut] = {};
          fold_block(job, row, start + 8 * block, left < 8 ? static_cast<int>(left) : 8, own);
#pragma unroll
          for (int o = 0; o < kOut; ++o) {
            if (block >= end.whole) {
              open[o][0][column] = own[o];
            } else {
              total[o] = block == 8 * walker ? own[o] : total[o] + own[o];
            }
          }
        }
#pragma unroll
        for (int o = 0; o < kOut; ++o) (walker < end_walker ? blocks[o][thread] : open[o][1][column]) = total[o];
      }
      __syncthreads();
      if (live && walker == 0) {
#pragma unroll
        for (int o = 0; o < kOut; ++o) {
          if (!sums_output<Op>(spec, o)) continue;
          double e2 = blocks[o][column];
          for (int k = 1; k < end_walker; ++k) e2 += blocks[o][k * columns + column];
          if (split) {
            *spec.part_at(o, round, site) = e2;  // a whole round's total, or its last one's E2 if it has one
            if (last) {
              *spec.part_at(o, round + 1, site) = open[o][1][column];
              *spec.part_at(o, round + 2, site) = open[o][0][column];
            }
          } else if (!last) {
            PieceTotals{&above[o][0][column], kLongColumns}.push(round, e2);
          } else {
            PartSum sum;
            // Only long columns, of which a block has few, have places there.
            if (round > 0) PieceTotals{&above[o][0][column], kLongColumns}.add_to(sum, round);
            sum.add(end_walker > 0, e2);
            sum.add(end.blocks(1) > 0, open[o][1][column]);
            sum.add(end.has_open, open[o][0][column]);
            finish_sum(job, site, o, sum);
          }
        }
      }
      __syncthreads();
    }
  }
}

}  // namespace planck::cuda
