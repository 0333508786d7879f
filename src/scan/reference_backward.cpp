// The backward passes of scans as plain loops, to be read beside docs/ops/*.md. Lanes know nothing of each other, so
// where the vector engine lacks memory the CPU backend shares the same loops out among threads.
#include <algorithm>

#include "core/reference_loop.hpp"
#include "numerics/storage.hpp"
#include "scan/scalar.hpp"

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
  double get(int k, std::int64_t s) const { return scalar::widen<double>(core::Cell(at(k, s)).get<T>()); }
  double index(int k, std::int64_t s, ElementKind element) const {
    const core::Cell cell(at(k, s));
    return static_cast<double>(element == ElementKind::S32 ? cell.get<std::int32_t>() : cell.get<std::int64_t>());
  }
  void put(int k, std::int64_t s, double value) const {
    core::Cell(at(k, s)).set(scalar::narrow<T>(static_cast<Compute<T>>(value)));
  }

 private:
  std::byte* at(int k, std::int64_t s) const { return at_[k] + s * step_[k]; }

  std::int64_t length_;
  std::array<std::byte*, core::kMaxLoopOperands> at_{};
  std::array<std::int64_t, core::kMaxLoopOperands> step_{};
};

/// One lane's backward pass. Its steps s go from the axis' end to its start.
template <class T>
class Pass {
 public:
  Pass(const Lane<T>& lane, const BackwardPass& pass, const ScanKey& key, const LaneMemory& memory)
      : lane_(lane), pass_(pass), key_(key), memory_(memory) {}

  /// With a feed, which finds one more input on a walk from the axis' start. The memory holds as much of that walk as
  /// it can; what it cannot is walked again.
  template <class Gradient, class Feed>
  void run_fed() {
    Walk<Gradient> walk;
    for (std::int64_t begin = 0; begin < lane_.length();) {
      const std::int64_t end = std::min(lane_.length(), begin + memory_.count);
      CanonicalFold<typename Feed::State, Feed> feed;
      for (std::int64_t s = lane_.length() - 1; s >= begin; --s) {
        const double x = lane_.get(kX, s);
        double value = 0;
        if constexpr (requires { Feed::identity(); }) {
          value = s == lane_.length() - 1 ? Feed::identity() : Feed::project(feed.total());
          feed.push(Feed::lift(&x, position(s)));
        } else {
          feed.push(Feed::lift(&x, position(s)));
          value = Feed::project(feed.prefix());
        }
        if (s < end) memory_.values[s - begin] = value;
      }
      for (std::int64_t s = begin; s < end; ++s) step(walk, s, memory_.values + (s - begin));
      begin = end;
    }
  }

  template <class Gradient>
  void run() {
    Walk<Gradient> walk;
    for (std::int64_t s = 0; s < lane_.length(); ++s) step(walk, s, nullptr);
  }

 private:
  template <class Gradient>
  struct Walk {
    CanonicalFold<typename Gradient::State, Gradient> fold;
    double lag = 0;
    Walk() {
      if constexpr (requires { Gradient::kLagStart; }) lag = Gradient::kLagStart;
    }
    auto lift(const double* in) {
      if constexpr (requires { Gradient::kLagStart; }) {
        return Gradient::lift(in, &lag);
      } else {
        return Gradient::lift(in, 0.0);
      }
    }
  };

  double position(std::int64_t s) const { return static_cast<double>(pass_.descends ? lane_.length() - 1 - s : s); }

  template <class Gradient>
  void step(Walk<Gradient>& walk, std::int64_t s, const double* fed) {
    double in[kMaxInputs] = {};
    bool whole = true;
    // The recurrence's last step, its first element, has the initial state, if any, for the h before it.
    const bool edge = key_.kind == ScanKind::LinearRecurrence && s == lane_.length() - 1;
    for (int k = 0; k < pass_.inputs; ++k) {
      int from = k;
      if (edge && k == kH) from = pass_.inputs + pass_.outputs;
      if (!lane_.has(from)) {
        whole = false;
      } else if (k == kIndices && key_.indices) {
        in[k] = lane_.index(from, s, *key_.indices);
      } else {
        in[k] = lane_.get(from, from == k ? s : 0);
      }
    }
    if (fed != nullptr) in[pass_.inputs] = *fed;
    walk.fold.push(walk.lift(in));
    double out[kMaxOutputs] = {};
    Gradient::gradients(in, whole, position(s), walk.fold.prefix(), out);
    for (int k = 0; k < pass_.outputs; ++k) {
      const int to = pass_.inputs + k;
      if (!lane_.has(to)) continue;
      if (k != kDInitial) lane_.put(to, s, out[k]);
      if (k == kDInitial && edge) lane_.put(to, 0, out[k]);
    }
  }

  const Lane<T>& lane_;
  const BackwardPass& pass_;
  const ScanKey& key_;
  const LaneMemory& memory_;
};

template <class T>
void run_lane(Pass<T> pass, const ScanKey& key) {
  const auto extremum = [&]<bool largest>() {
    if (key.indices) return pass.template run<scalar::ExtremumGradient<double, 2>>();
    using Gradient = scalar::ExtremumGradient<double, 3>;
    if (key.ties == ScanTies::Last) return pass.template run_fed<Gradient, scalar::WinnerScan<double, largest, true>>();
    pass.template run_fed<Gradient, scalar::WinnerScan<double, largest, false>>();
  };
  switch (key.kind) {
    case ScanKind::Cumsum:
      return;  // the sum from the other end, which needs no loop of its own
    case ScanKind::Cumprod:
      return pass.template run_fed<scalar::CumprodGradient<double>, scalar::ProductBeforeScan<double>>();
    case ScanKind::Cummax:
      return extremum.template operator()<true>();
    case ScanKind::Cummin:
      return extremum.template operator()<false>();
    case ScanKind::LogCumsumExp:
      // y as saved, or found again where 16-bit storage lost it.
      if (sizeof(T) > 2) return pass.template run<scalar::LogCumsumExpGradient<double>>();
      return pass.template run_fed<scalar::LogCumsumExpGradient<double>, scalar::LogCumsumExpScan<double>>();
    case ScanKind::LinearRecurrence:
      return pass.template run<scalar::LinearRecurrenceGradient<double>>();
  }
}

}  // namespace

void backward(const StridedLoop& loop, int axis, const BackwardPass& pass, const ScanKey& key, std::int64_t first,
              std::int64_t last, const LaneMemory& memory) {
  if (loop.extent[axis] == 0) return;
  numerics::with_float(key.element, [&]<class T>(T) {
    for (std::int64_t i = first; i < last; ++i) {
      const Lane<T> lane(loop, axis, i);
      run_lane(Pass<T>(lane, pass, key, memory), key);
    }
  });
}

}  // namespace planck::scan::reference
