// The scans as plain loops, to be read beside docs/numerics.md#scans.
#include "backend/reference.hpp"

#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"
#include "scan/carry.hpp"
#include "scan/reference_backward.hpp"
#include "scan/scalar.hpp"

namespace planck::reference {
namespace {

using core::Cell;
using core::LoopIndex;
using core::StridedLoop;
using scalar::Compute;

template <class V, class T>
T stored(V value) {
  if constexpr (std::is_same_v<V, double>) {
    return scalar::narrow<T>(static_cast<Compute<T>>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Every row along the axis: element by element, in the canonical order.
template <class Scan, class T, class V>
void scan_rows(const scan::ScanJob& job) {
  const StridedLoop& loop = *job.loop;
  const scan::ScanKey& key = job.key;
  const std::int64_t n = loop.extent[job.axis];
  scan::for_each_row(loop, job.axis, [&](LoopIndex index) {
    scan::CarryWords carry = scan::carry_before(job.carries, job.axis, index, key);
    const std::int64_t before = carry[scan::kCarryBefore];
    T exclusive = scan::from_word<T>(carry[scan::kCarryValue]);
    auto fold = scan::fold_of<Scan>(carry);
    const Cell initial = core::cell_at(loop, index, job.initial_operand());
    for (std::int64_t t = 0; t < n; ++t) {
      index[job.axis] = t;
      V x[scan::kMaxScanInputs] = {};
      for (int k = 0; k < job.inputs; ++k) x[k] = scalar::widen<V>(core::cell_at(loop, index, k).template get<T>());
      auto state = Scan::lift(x, static_cast<V>(before + (job.reverse ? n - 1 - t : t)));
      if constexpr (requires { Scan::begin(x); }) {
        if (t == 0 && initial.present()) {
          x[2] = scalar::widen<V>(initial.template get<T>());
          state = Scan::begin(x);
        }
      }
      fold.push(state);
      const auto prefix = fold.prefix();
      T inclusive = stored<V, T>(Scan::project(prefix));
      if constexpr (requires { Scan::kFirstIsElement; }) {
        if (before + t == 0) inclusive = core::cell_at(loop, index, 0).template get<T>();
      }
      core::cell_at(loop, index, job.inputs).set(key.exclusive ? exclusive : inclusive);
      exclusive = inclusive;
      if constexpr (requires { Scan::position(prefix); }) {
        const Cell to = core::cell_at(loop, index, job.inputs + 1);
        const auto position = static_cast<std::int64_t>(Scan::position(prefix));
        if (key.indices) {
          numerics::with_integer(*key.indices, [&]<class I>(I) { to.set(static_cast<I>(position)); });
        }
      }
    }
    if (scan::has_carry(job.carries, scan::kCarryOut)) {
      scan::save_fold<Scan>(fold, n, carry);
      if (key.exclusive) carry[scan::kCarryValue] = scan::to_word(exclusive);
      scan::store_carry(*job.carries, job.axis, index, carry);
    }
  });
}

void run_one(const scan::ScanJob& job) {
  if (job.loop->count() == 0) {
    scan::run_empty(job);
  } else if (job.backward) {
    run_scan_backward(job);
  } else {
    scan::with_element(job.key.element, [&]<class T>(T) {
      scan::with_scan<T>(job.key, [&]<class V, class Scan>(V, Scan) { scan_rows<Scan, T, V>(job); });
    });
  }
}

}  // namespace

Status run_scan(const Run&, const scan::ScanJob& job) noexcept {
  if (!job.segments) {
    run_one(job);
    return {};
  }
  for (std::int64_t i = 0; i < job.segments->count; ++i) {
    StridedLoop loop = *job.loop;
    run_one(scan::job_of_segment(job, i, &loop));
  }
  return {};
}

}  // namespace planck::reference
