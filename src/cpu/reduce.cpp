// The threads of a reduction: each makes panels of terms and adds them up while they are in the cache.
#include "cpu/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/workspace.hpp"
#include "cpu/canonical_sums.hpp"
#include "cpu/parallel.hpp"
#include "cpu/reduce_schedule.hpp"
#include "cpu/streaming.hpp"
#include "cpu/strided/rectangle.hpp"
#include "cpu/strided/span_runner.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"

namespace planck::cpu {
namespace {

using core::LoopPointers;
using core::StridedLoop;

/// One thread's machinery: a runner that makes panels of terms, and sums for each reduced dimension.
class ReductionWorker {
 public:
  explicit ReductionWorker(const ReductionSchedule& p) noexcept
      : p_(p),
        kernels_(sum_kernels(p.reduction->arch)),
        panel_(place_panels()),
        runner_(p.reduction->kernel, p.reduction->params, with_panels(), p.reduction->inputs, p.outputs(),
                p.column_dim(), p.row_dim(), streamed_outputs()) {}

  /// Aims at one task's block of sums.
  void start_task(std::int64_t task) noexcept {
    const std::int64_t block = task / p_.row_tasks;
    std::int64_t rest = task % p_.row_tasks;
    for (int k = 0; k < p_.loop.operands; ++k) at_[k] = p_.loop.operand[k].base;
    const bool side_by_side = p_.side_by_side();
    const int row_dims = side_by_side ? p_.kept - 1 : p_.kept;
    width_ = side_by_side ? std::min(p_.width, p_.loop.extent[row_dims] - block * p_.width) : 1;
    if (side_by_side) {
      at_ = offset(at_, row_dims, block * p_.width);
      first_sum_ = block * p_.width * p_.row_tasks + rest * width_;
    } else {
      first_sum_ = rest;
    }
    for (int d = row_dims - 1; d >= 0; --d) {
      at_ = offset(at_, d, rest % p_.loop.extent[d]);
      rest /= p_.loop.extent[d];
    }
    if (storage_width_ == width_) return;
    storage_width_ = width_;
    auto* storage = reinterpret_cast<double*>(arena_);
    for (int g = 0; g < p_.gradients(); ++g) {
      for (int d = p_.kept; d < p_.loop.rank; ++d) {
        sums_[g][d] = CanonicalSums(kernels_, storage, width_);
        storage += CanonicalSums::storage_for(p_.loop.extent[d], width_);
        totals_[g][d] = storage;
        storage += width_;
      }
    }
  }

  /// Sums everything and writes the gradient.
  void sum_and_store() noexcept {
    if (p_.short_rows) {
      make_panel(at_, width_, p_.pitch());
      for_terms([&](int g, const auto* terms) {
        CanonicalSums::totals_of_rows(kernels_, terms, width_, p_.pitch(), totals_[g][p_.kept]);
        store(g);
      });
      return;
    }
    sum(p_.kept, 0, p_.loop.extent[p_.kept], at_);
    for (int g = 0; g < p_.gradients(); ++g) {
      sums_[g][p_.kept].total(totals_[g][p_.kept]);
      store(g);
    }
  }

  /// Sums one part and leaves it in the workspace.
  void sum_part(std::int64_t outer_index, std::int64_t part, double* workspace) noexcept {
    LoopPointers at = at_;
    std::int64_t rest = outer_index;
    for (int d = p_.split_dim - 1; d >= p_.kept; --d) {
      at = offset(at, d, rest % p_.loop.extent[d]);
      rest /= p_.loop.extent[d];
    }
    sum(p_.split_dim, p_.part_begin(part), p_.part_end(part), at);
    for (int g = 0; g < p_.gradients(); ++g) {
      CanonicalSums& sums = sums_[g][p_.split_dim];
      if (p_.parts == 1) {
        sums.total(slot(workspace, g, outer_index, 0));
      } else if (part + 1 < p_.parts) {
        std::copy_n(sums.block_total(p_.split_level), width_, slot(workspace, g, outer_index, part));
      } else {
        for (int level = 0; level < p_.split_level; ++level) {
          if (const double* open = sums.open(level)) {
            std::copy_n(open, width_, slot(workspace, g, outer_index, part + level));
          }
        }
      }
    }
  }

  /// Combines what sum_part left, in the canonical order, and writes the gradient.
  void combine_and_store(double* workspace) noexcept {
    for (int g = 0; g < p_.gradients(); ++g) {
      combine(g, p_.kept, 0, workspace);
      store(g);
    }
  }

 private:
  LoopPointers offset(const LoopPointers& at, int dim, std::int64_t index) const noexcept {
    LoopPointers moved;
    for (int k = 0; k < p_.loop.operands; ++k) moved[k] = at[k] + index * p_.loop.operand[k].stride[dim];
    return moved;
  }

  /// Leaves in sums_[g][dim] the sums over [begin, end) of `dim` and all of the dimensions inside it.
  void sum(int dim, std::int64_t begin, std::int64_t end, const LoopPointers& at) noexcept {
    for (int g = 0; g < p_.gradients(); ++g) sums_[g][dim].reset();
    const bool innermost = dim == p_.loop.rank - 1;
    if (innermost) {
      const std::int64_t step = p_.columns ? kPanelRows : CanonicalSums::kSpan;
      for (std::int64_t i = begin; i < end; i += step) {
        const std::int64_t n = std::min(step, end - i);
        if (p_.columns) {
          make_panel(offset(at, dim, i), n, width_);
          for_terms([&](int g, const auto* terms) { sums_[g][dim].push_rows(terms, p_.pitch(), n); });
        } else {
          make_panel(offset(at, dim, i), 1, n);
          for_terms([&](int g, const auto* terms) { sums_[g][dim].push_span(terms, n, i + n == end); });
        }
      }
      return;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      sum(dim + 1, 0, p_.loop.extent[dim + 1], offset(at, dim, i));
      for (int g = 0; g < p_.gradients(); ++g) {
        sums_[g][dim + 1].total(totals_[g][dim + 1]);
        sums_[g][dim].push(totals_[g][dim + 1]);
      }
    }
  }

  /// Leaves in totals_[g][dim] the sum over `dim`, for the outer combinations that start with `outer_index`.
  void combine(int g, int dim, std::int64_t outer_index, double* workspace) noexcept {
    if (dim == p_.split_dim && p_.parts == 1) {
      std::copy_n(slot(workspace, g, outer_index, 0), width_, totals_[g][dim]);
      return;
    }
    CanonicalSums& sums = sums_[g][dim];
    sums.reset();
    if (dim == p_.split_dim) {
      const std::int64_t last = p_.parts - 1;
      for (std::int64_t part = 0; part < last; ++part) {
        sums.push_block(p_.split_level, slot(workspace, g, outer_index, part));
      }
      sums.adopt(p_.split_level, p_.part_end(last) - p_.part_begin(last),
                 [&](int level) { return slot(workspace, g, outer_index, last + level); });
    } else {
      for (std::int64_t i = 0; i < p_.loop.extent[dim]; ++i) {
        combine(g, dim + 1, outer_index * p_.loop.extent[dim] + i, workspace);
        sums.push(totals_[g][dim + 1]);
      }
    }
    sums.total(totals_[g][dim]);
  }

  double* slot(double* workspace, int g, std::int64_t outer_index, std::int64_t index) const noexcept {
    return workspace + ((g * p_.outer + outer_index) * p_.slots() + index) * p_.sums + first_sum_;
  }

  unsigned streamed_outputs() const noexcept {
    unsigned mask = 0;
    for (int o = 0; o < p_.outputs(); ++o) {
      if (p_.streamed && !p_.has_panel(o)) mask |= 1U << o;
    }
    return mask;
  }

  /// Panels lie behind the open sums.
  std::array<std::byte*, kMaxPanels> place_panels() noexcept {
    std::array<std::byte*, kMaxPanels> panels{};
    std::byte* next = arena_ + p_.levels * p_.width * std::int64_t{sizeof(double)};
    for (int o = 0; o < p_.outputs(); ++o) {
      if (!p_.has_panel(o)) continue;
      panels[o] = next;
      next += p_.panel_terms() * p_.compute_bytes() + kPanelGap;
    }
    return panels;
  }

  /// The loop with panels as outputs.
  StridedLoop with_panels() const noexcept {
    StridedLoop loop = p_.loop;
    for (int o = 0; o < p_.outputs(); ++o) {
      if (panel_[o] == nullptr) continue;
      core::LoopOperand& to = loop.operand[p_.reduction->inputs + o];
      to.base = panel_[o];
      to.element_bytes = p_.compute_bytes();
      to.stride[p_.column_dim()] = p_.compute_bytes();
      if (p_.row_dim() >= 0) to.stride[p_.row_dim()] = p_.pitch() * p_.compute_bytes();
    }
    return loop;
  }

  /// Fills the panels with the terms of rows × columns elements, and writes the outputs that are not summed.
  void make_panel(const LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept {
    LoopPointers to = at;
    for (int o = 0; o < p_.outputs(); ++o) {
      if (panel_[o] != nullptr) to[p_.reduction->inputs + o] = panel_[o];
    }
    runner_.run(to, rows, columns);
    for (int o = 0; o < p_.outputs(); ++o) {
      if (p_.narrowed(o)) narrow(o, at[p_.reduction->inputs + o], rows, columns);
    }
  }

  /// Rounds a panel of f32 to the kernel's element.
  void narrow(int o, std::byte* to, std::int64_t rows, std::int64_t columns) noexcept {
    const core::LoopOperand& op = p_.output(o);
    const int row_dim = p_.row_dim();  // once: g++ 12 takes two for an index of -1
    const std::int64_t row_stride = row_dim < 0 ? 0 : op.stride[row_dim];
    const std::int64_t column_stride = op.stride[p_.column_dim()];
    const bool contiguous = column_stride == op.element_bytes;
    if (contiguous && columns == p_.pitch() && row_stride == columns * op.element_bytes) {
      columns *= rows;
      rows = 1;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* terms = panel_[o] + r * p_.pitch() * p_.compute_bytes();
      std::byte* row = to + r * row_stride;
      std::byte* rounded = contiguous ? row : terms;
      const auto* from = reinterpret_cast<const float*>(terms);
      kernels_.narrow(p_.reduction->kernel.element)(from, columns, rounded, p_.streamed && contiguous);
      if (!contiguous) copy_rectangle(op.element_bytes, terms, 0, op.element_bytes, row, 0, column_stride, 1, columns);
    }
  }

  /// Calls body(g, terms) with the panel of each gradient.
  template <class Body>
  void for_terms(const Body& body) noexcept {
    for (int g = 0; g < p_.gradients(); ++g) {
      const std::byte* terms = panel_[p_.reduction->sums.term[g]];
      if (p_.reduction->compute == ElementKind::F64) {
        body(g, reinterpret_cast<const double*>(terms));
      } else {
        body(g, reinterpret_cast<const float*>(terms));
      }
    }
  }

  /// Writes totals_[g] of all kept dimensions.
  void store(int g) const noexcept {
    const double* values = totals_[g][p_.kept];
    const int operand = p_.gradient(g);
    const std::int64_t stride = p_.kept > 0 ? p_.loop.operand[operand].stride[p_.kept - 1] : 0;
    for (std::int64_t i = 0; i < width_; ++i)
      store_rounded(p_.reduction->sums.element, values[i] * p_.reduction->sums.factor, at_[operand] + i * stride);
  }

 public:
  static void store_rounded(ElementKind element, double value, std::byte* to) noexcept {
    numerics::with_float(element, [&]<class T>(T) {
      const T rounded = scalar::narrow<T>(value);
      std::memcpy(to, &rounded, sizeof rounded);
    });
  }

 private:
  const ReductionSchedule& p_;
  const SumKernels& kernels_;
  std::array<std::byte*, kMaxPanels> panel_;  ///< for each of the kernel's outputs, or null
  SpanRunner runner_;
  LoopPointers at_{};
  std::int64_t width_ = 1;
  std::int64_t storage_width_ = 0;  ///< what sums_ and totals_ are laid out for
  std::int64_t first_sum_ = 0;      ///< the task's sums lie together in the workspace, in an order of their own
  std::array<std::array<CanonicalSums, core::kMaxLoopRank>, core::kMaxSums> sums_;
  std::array<std::array<double*, core::kMaxLoopRank>, core::kMaxSums> totals_{};
  alignas(64) std::byte arena_[kPanelArena];
};

/// The sum over nothing, for every element of a gradient.
void store_zeros(const ReductionSchedule& p, const core::LoopOperand& gradient) {
  for (std::int64_t i = 0; i < p.sums; ++i) {
    std::byte* to = gradient.base;
    std::int64_t rest = i;
    for (int d = p.kept - 1; d >= 0; --d) {
      to += rest % p.loop.extent[d] * gradient.stride[d];
      rest /= p.loop.extent[d];
    }
    ReductionWorker::store_rounded(p.reduction->sums.element, 0.0 * p.reduction->sums.factor, to);
  }
}

}  // namespace

std::size_t reduce_workspace(std::int64_t terms, std::int64_t term_bytes) noexcept {
  if (terms < kInlineBytes / term_bytes) return 0;
  return terms < 1 << 20 ? std::size_t{256} << 10 : std::size_t{1} << 20;
}

void run_reduction(const Stream& stream, const Reduction& reduction, Workspace workspace) noexcept {
  ReductionSchedule p = schedule_reduction(stream, reduction);
  const std::int64_t terms = p.loop.count();
  if (terms == 0) {
    for (int g = 0; g < p.gradients(); ++g) store_zeros(p, p.loop.operand[p.gradient(g)]);
    return;
  }
  std::int64_t term_bytes = 0;
  for (int k = 0; k < reduction.inputs; ++k) term_bytes += p.loop.operand[k].element_bytes;
  const std::int64_t bytes = terms * term_bytes;

  const std::span<double> values = core::values_in<double>(workspace);
  double* memory = values.data();
  const std::int64_t room = std::ssize(values) / p.sums / p.gradients();
  split_reduction(p, bytes < kInlineBytes ? 1 : stream.threads(), room);

  if (!p.split()) {
    for_each_range(stream, p.tasks, bytes / p.tasks, [&](std::int64_t begin, std::int64_t end) noexcept {
      ReductionWorker worker(p);
      for (std::int64_t task = begin; task < end; ++task) {
        worker.start_task(task);
        worker.sum_and_store();
      }
      if (p.streamed) stream_fence();
    });
    return;
  }
  const std::int64_t parts = p.outer * p.parts;
  for_each_range(stream, p.tasks * parts, bytes / (p.tasks * parts),
                 [&](std::int64_t begin, std::int64_t end) noexcept {
                   ReductionWorker worker(p);
                   for (std::int64_t unit = begin; unit < end; ++unit) {
                     worker.start_task(unit / parts);
                     worker.sum_part(unit % parts / p.parts, unit % parts % p.parts, memory);
                   }
                   if (p.streamed) stream_fence();
                 });
  ReductionWorker worker(p);
  for (std::int64_t task = 0; task < p.tasks; ++task) {
    worker.start_task(task);
    worker.combine_and_store(memory);
  }
}

}  // namespace planck::cpu
