// The backward passes of scans as plain loops, to be read beside SPEC section 4. Lanes know nothing of each other, so
// the CPU backend shares the same loops out among threads.
#include <algorithm>

#include "core/reference_loop.hpp"
#include "numerics/storage.hpp"
#include "scan/scan_scalar.hpp"

namespace planck::scan::reference {
namespace {

using core::StridedLoop;
using numerics::CanonicalFold;
using scalar::Compute;

/// One lane of every operand. Elements are read as f64 and written rounded to C, then to T.
template <class T>
class Lane {
 public:
  Lane(const StridedLoop& loop, int axis, std::int64_t lane) : length_(loop.extent[axis]) {
    for (int k = 0; k < loop.operands; ++k) {
      at_[k] = loop.operand[k].base;
      step_[k] = loop.operand[k].stride[axis];
    }
    for (int d = loop.rank - 1; d >= 0; --d) {
      if (d == axis) continue;
      const std::int64_t index = lane % loop.extent[d];
      lane /= loop.extent[d];
      for (int k = 0; k < loop.operands; ++k) {
        if (at_[k] != nullptr) at_[k] += index * loop.operand[k].stride[d];
      }
    }
  }

  std::int64_t length() const { return length_; }
  bool has(int k) const { return at_[k] != nullptr; }
  double get(int k, std::int64_t t) const { return scalar::widen<double>(core::Cell(at(k, t)).get<T>()); }
  std::int64_t index(int k, std::int64_t t, ElementKind element) const {
    const core::Cell cell(at(k, t));
    return element == ElementKind::S32 ? cell.get<std::int32_t>() : cell.get<std::int64_t>();
  }
  void put(int k, std::int64_t t, double value) const {
    core::Cell(at(k, t)).set(scalar::narrow<T>(static_cast<Compute<T>>(value)));
  }

 private:
  std::byte* at(int k, std::int64_t t) const { return at_[k] + t * step_[k]; }

  std::int64_t length_;
  std::array<std::byte*, core::kMaxLoopOperands> at_{};
  std::array<std::int64_t, core::kMaxLoopOperands> step_{};
};

/// Calls body(t, value) from the lane's end to its start, where value is what forward(fold, t) found at t on a walk
/// from the start. The memory holds as much of that walk as it can; what it cannot is walked again.
template <class Fold, class Forward, class Body>
void walk_back(std::int64_t length, const LaneMemory& memory, const Forward& forward, const Body& body) {
  for (std::int64_t end = length; end > 0;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - memory.count);
    Fold fold;
    for (std::int64_t t = 0; t < end; ++t) {
      const double value = forward(fold, t);
      if (t >= begin) memory.values[t - begin] = value;
    }
    for (std::int64_t t = end - 1; t >= begin; --t) body(t, memory.values[t - begin]);
    end = begin;
  }
}

/// dx[j] = L[j] * R[j]: the product of what stands before j, and R[j] = dy[j] + x[j+1] * R[j+1].
template <class T>
void cumprod(const Lane<T>& lane, const LaneMemory& memory) {
  using Products = scalar::CumprodScan<double>;
  using Rest = scalar::LinearRecurrenceScan<double, false>;
  CanonicalFold<Rest::State, Rest> rest;
  // Gradients may overwrite what they are made of: the next step's inputs are read before this one's output is written.
  double x_after = 1.0;
  double dy = lane.get(kDy, lane.length() - 1);
  walk_back<CanonicalFold<Products::State, Products>>(
      lane.length(), memory,
      [&](auto& products, std::int64_t t) {
        const double before = t == 0 ? 1.0 : Products::project(products.prefix());
        const double x = lane.get(kX, t);
        products.push(Products::lift(&x, 0.0));
        return before;
      },
      [&](std::int64_t t, double before) {
        const double inputs[] = {x_after, dy};
        rest.push(Rest::lift(inputs, 0.0));
        x_after = lane.get(kX, t);
        if (t > 0) dy = lane.get(kDy, t - 1);
        lane.put(kDx, t, before * Rest::project(rest.prefix()));
      });
}

/// dx[j] = the sum of dy over the positions that j wins, which are neighbours and begin at j.
template <class T, class Winners>
void extremum(const Lane<T>& lane, bool reverse, const ScanKey& key, const LaneMemory& memory) {
  using Sums = scalar::SegmentedSumScan<double>;
  CanonicalFold<Sums::State, Sums> sums;
  double winner_after = -1.0;
  double dy = lane.get(kDy, lane.length() - 1);
  walk_back<CanonicalFold<typename Winners::State, Winners>>(
      lane.length(), memory,
      [&](auto& winners, std::int64_t t) {
        if (key.indices) return static_cast<double>(lane.index(kIndices, t, *key.indices));
        const double x = lane.get(kX, t);
        winners.push(Winners::lift(&x, static_cast<double>(reverse ? lane.length() - 1 - t : t)));
        return Winners::position(winners.prefix());
      },
      [&](std::int64_t t, double position) {
        const auto here = static_cast<double>(reverse ? lane.length() - 1 - t : t);
        sums.push(Sums::lift(position == winner_after ? 0.0 : 1.0, dy));
        winner_after = position;
        if (t > 0) dy = lane.get(kDy, t - 1);
        lane.put(kDx, t, position == here ? sums.prefix().part[1] : 0.0);
      });
}

/// dx[k] = e^(x[k] - y[k]) * S[k]; y as saved, or found again where 16-bit storage lost it.
template <class T>
void log_cumsum_exp(const Lane<T>& lane, const LaneMemory& memory) {
  using Sums = scalar::LogCumsumExpScan<double>;
  using Weights = scalar::LogWeightScan<double>;
  CanonicalFold<Weights::State, Weights> weights;
  const bool saved = lane.has(kY);
  double dy = lane.get(kDy, lane.length() - 1);
  double y_saved = saved ? lane.get(kY, lane.length() - 1) : 0.0;
  const auto step = [&](std::int64_t t, double y) {
    weights.push(Weights::lift(y, dy));
    if (t > 0) dy = lane.get(kDy, t - 1);
    if (t > 0 && saved) y_saved = lane.get(kY, t - 1);
    lane.put(kDx, t, Weights::gradient(lane.get(kX, t), y, weights.prefix()));
  };
  if (saved) {
    for (std::int64_t t = lane.length() - 1; t >= 0; --t) step(t, y_saved);
    return;
  }
  walk_back<CanonicalFold<Sums::State, Sums>>(
      lane.length(), memory,
      [&](auto& sums, std::int64_t t) {
        const double x = lane.get(kX, t);
        sums.push(Sums::lift(&x, 0.0));
        return Sums::project(sums.prefix());
      },
      step);
}

/// g[t] = dh[t] + a[t+1] * g[t+1]; db = g, da[t] = g[t] * h[t-1], d_initial = a[0] * g[0].
template <class T>
void linear_recurrence(const Lane<T>& lane) {
  using Rest = scalar::LinearRecurrenceScan<double, false>;
  CanonicalFold<Rest::State, Rest> rest;
  double a_after = 1.0;
  for (std::int64_t t = lane.length() - 1; t >= 0; --t) {
    const double inputs[] = {a_after, lane.get(kDh, t)};
    rest.push(Rest::lift(inputs, 0.0));
    const double g = Rest::project(rest.prefix());
    a_after = lane.get(kA, t);
    if (lane.has(kDa)) {
      double da = 0.0;  // of a[0] without an initial state: nothing depends on it
      if (t > 0) da = g * lane.get(kH, t - 1);
      if (t == 0 && lane.has(kInitial)) da = g * lane.get(kInitial, 0);
      lane.put(kDa, t, da);
    }
    if (lane.has(kDb)) lane.put(kDb, t, g);
    if (t == 0 && lane.has(kDInitial)) lane.put(kDInitial, 0, a_after * g);
  }
}

template <class T>
void backward_lane(const Lane<T>& lane, bool reverse, const ScanKey& key, const LaneMemory& memory) {
  const auto winners = [&]<bool largest>() {
    if (key.ties == ScanTies::Last) {
      extremum<T, scalar::ExtremumScan<double, largest, true, true>>(lane, reverse, key, memory);
    } else {
      extremum<T, scalar::ExtremumScan<double, largest, false, true>>(lane, reverse, key, memory);
    }
  };
  switch (key.kind) {
    case ScanKind::Cumsum:
      return;  // the sum from the other end, which needs no loop of its own
    case ScanKind::Cumprod:
      return cumprod(lane, memory);
    case ScanKind::Cummax:
      return winners.template operator()<true>();
    case ScanKind::Cummin:
      return winners.template operator()<false>();
    case ScanKind::LogCumsumExp:
      return log_cumsum_exp(lane, memory);
    case ScanKind::LinearRecurrence:
      return linear_recurrence(lane);
  }
}

}  // namespace

void backward(const StridedLoop& loop, int axis, bool reverse, const ScanKey& key, std::int64_t first,
              std::int64_t last, const LaneMemory& memory) {
  if (loop.extent[axis] == 0) return;
  numerics::with_float(key.element, [&]<class T>(T) {
    for (std::int64_t lane = first; lane < last; ++lane) {
      backward_lane(Lane<T>(loop, axis, lane), reverse, key, memory);
    }
  });
}

}  // namespace planck::scan::reference
