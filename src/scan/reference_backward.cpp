// The backward passes of scans as plain loops, to be read beside docs/ops/*.md.
#include "scan/reference_backward.hpp"

#include <algorithm>
#include <optional>

#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"
#include "scan/carry.hpp"
#include "scan/scalar.hpp"

namespace planck::reference {
namespace {

/// What a row keeps of its feed; more is found again.
constexpr std::int64_t kFedValues = 4096;

using core::StridedLoop;
using numerics::CanonicalFold;
using scalar::Compute;

/// One row of every operand along the axis. Elements are read as f64 and written rounded to C, then to T.
template <class T>
class RowOfOperands {
 public:
  RowOfOperands(const StridedLoop& loop, int axis, const core::LoopIndex& index) : length_(loop.extent[axis]) {
    for (int k = 0; k < loop.operands; ++k) {
      at_[k] = core::cell_at(loop, index, k).address();
      step_[k] = loop.operand[k].stride[axis];
    }
  }

  std::int64_t length() const { return length_; }
  bool has(int k) const { return at_[k] != nullptr; }
  double get(int k, std::int64_t s) const { return scalar::widen<double>(core::Cell(at(k, s)).get<T>()); }
  double index(int k, std::int64_t s, ElementKind element) const {
    double position = 0;
    numerics::with_integer(element, [&]<class I>(I) { position = static_cast<double>(core::Cell(at(k, s)).get<I>()); });
    return position;
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

/// One row's backward pass. Its steps s go from the axis' end to its start.
template <class T>
class ReferenceBackward {
 public:
  ReferenceBackward(const RowOfOperands<T>& row, const scan::ScanJob& job) : row_(row), job_(job) {}

  template <class Gradient, class Feed>
  void run() {
    GradientFold<Gradient> fold;
    if constexpr (std::is_same_v<Feed, scan::NoFeed>) {
      for (std::int64_t s = 0; s < row_.length(); ++s) step(fold, s, nullptr);
    } else {
      run_fed<Gradient, Feed>(fold);
    }
    write();
  }

 private:
  template <class Gradient>
  struct GradientFold {
    CanonicalFold<typename Gradient::State, Gradient> fold;
    double lag = 0;
    GradientFold() {
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

  /// With a feed, which finds one more input on a walk from the axis' start. As much of that walk is kept as there is
  /// room for; the rest is walked again.
  template <class Gradient, class Feed>
  void run_fed(GradientFold<Gradient>& fold) {
    double values[kFedValues];
    for (std::int64_t begin = 0; begin < row_.length();) {
      const std::int64_t end = std::min(row_.length(), begin + kFedValues);
      CanonicalFold<typename Feed::State, Feed> feed;
      for (std::int64_t s = row_.length() - 1; s >= begin; --s) {
        const double x = row_.get(scan::kX, s);
        double value = 0;
        if constexpr (requires { Feed::identity(); }) {
          value = s == row_.length() - 1 ? Feed::identity() : Feed::project(feed.total());
          feed.push(Feed::lift(&x, position(s)));
        } else {
          feed.push(Feed::lift(&x, position(s)));
          value = Feed::project(feed.prefix());
          if constexpr (requires { Feed::kFirstIsElement; }) {
            if (s == row_.length() - 1) value = x;
          }
        }
        if (s < end) values[s - begin] = value;
      }
      for (std::int64_t s = begin; s < end; ++s) step(fold, s, values + (s - begin));
      begin = end;
    }
  }

  double position(std::int64_t s) const { return static_cast<double>(job_.reverse ? s : row_.length() - 1 - s); }

  template <class Gradient>
  void step(GradientFold<Gradient>& fold, std::int64_t s, const double* fed) {
    double in[scan::kMaxScanInputs] = {};
    bool whole = true;
    // The recurrence's last step, its first element, has the initial state, if any, for the h before it.
    const bool edge = job_.key.kind == ScanKind::LinearRecurrence && s == row_.length() - 1;
    for (int k = 0; k < job_.inputs; ++k) {
      int from = k;
      if (edge && k == scan::kH) from = job_.initial_operand();
      if (!row_.has(from)) {
        whole = false;
      } else if (k == scan::kIndices && job_.key.indices) {
        in[k] = row_.index(from, s, *job_.key.indices);
      } else {
        in[k] = row_.get(from, from == k ? s : 0);
      }
    }
    if (fed != nullptr) in[job_.inputs] = *fed;
    write();
    fold.fold.push(fold.lift(in));
    Gradient::gradients(in, whole, position(s), fold.fold.prefix(), out_);
    written_ = s;
  }

  /// The gradients of the step before. An exclusive scan's step reads dy and y one place further on, where in place its
  /// neighbour's dx goes: so that is written after the reading.
  void write() {
    if (!written_) return;
    for (int k = 0; k < job_.outputs; ++k) {
      const int to = job_.inputs + k;
      if (!row_.has(to)) continue;
      if (k != scan::kDInitial) row_.put(to, *written_, out_[k]);
      if (k == scan::kDInitial && *written_ == row_.length() - 1) row_.put(to, 0, out_[k]);
    }
  }

  const RowOfOperands<T>& row_;
  const scan::ScanJob& job_;
  double out_[scan::kMaxScanOutputs] = {};
  std::optional<std::int64_t> written_;  ///< the step whose gradients they are
};

template <class T>
void run_typed(const scan::ScanJob& job) {
  StridedLoop loop = *job.loop;
  const int axis = job.axis;
  const auto moves = [&](int k) { loop.operand[k].base += loop.operand[k].stride[axis]; };
  if (job.key.exclusive) {
    // y[t + 1] is made of x[0] … x[t]: the inclusive pass with dy and y one place further on. Nothing uses the last x.
    --loop.extent[axis];
    moves(0);
    if (job.key.reads_y()) moves(job.inputs - 1);
  }
  if (loop.extent[axis] > 0) {
    loop.flip_dim(axis);
    if (job.key.kind == ScanKind::LinearRecurrence && loop.operand[scan::kH].base != nullptr) {
      moves(scan::kH);  // each step reads the h before its own
    }
    scan::with_gradient(job.key, [&]<class Gradient, class Feed>(Gradient, Feed) {
      scan::for_each_row(loop, axis, [&](const core::LoopIndex& index) {
        const RowOfOperands<T> row(loop, axis, index);
        ReferenceBackward<T>(row, job).template run<Gradient, Feed>();
      });
    });
  }
  if (!job.key.exclusive) return;
  scan::for_each_row(*job.loop, axis, [&](core::LoopIndex index) {
    index[axis] = job.loop->extent[axis] - 1;
    core::cell_at(*job.loop, index, job.inputs).set(T{});
  });
}

}  // namespace

void run_scan_backward(const scan::ScanJob& job) {
  numerics::with_float(job.key.element, [&]<class T>(T) { run_typed<T>(job); });
}

}  // namespace planck::reference
