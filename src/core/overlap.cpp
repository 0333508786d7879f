// Two views share a byte when their element addresses come closer than an element. The difference of two
// addresses is a constant plus a sum of stride * index over the dimensions of both views, so the question is
// whether such a sum can fall into a small window: a search over the indices, largest stride first, cut off
// where the rest cannot reach the window or misses it by the rest's greatest common divisor.
#include "core/overlap.hpp"

#include <algorithm>
#include <numeric>

namespace planck::core {
namespace {

constexpr int kBudget = 4096;  // nodes of the search; about 20 µs

struct Term {
  std::int64_t stride;
  std::int64_t last;  // the largest index
};

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q - static_cast<std::int64_t>((a % b != 0) && (a < 0));
}

class WindowSearch {
 public:
  /// Dimensions run upwards after this: a negative stride moves the view's first element instead.
  std::int64_t add(const ByteView& view) {
    std::int64_t lowest = view.first;
    for (int d = 0; d < view.rank; ++d) {
      const std::int64_t stride = view.stride[d];
      const std::int64_t last = view.extent[d] - 1;
      if (last == 0 || stride == 0) continue;
      if (stride < 0) lowest += stride * last;
      add_term(std::abs(stride), last);
    }
    return lowest;
  }

  void prepare() {
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    for (int k = count_ - 1; k >= 0; --k) {
      reach_[k] = reach_[k + 1] + terms_[k].stride * terms_[k].last;
      gcd_[k] = std::gcd(gcd_[k + 1], terms_[k].stride);
    }
  }

  /// Whether terms k, k+1, … may sum to a value in [lo, hi]; true when the budget runs out.
  bool may_hit(int k, std::int64_t lo, std::int64_t hi) {
    lo = std::max<std::int64_t>(lo, 0);
    hi = std::min(hi, reach_[k]);
    if (lo > hi || ++visited_ > kBudget) return lo <= hi;
    if (k == count_) return true;
    if (floor_div(hi, gcd_[k]) * gcd_[k] < lo) return false;
    const std::int64_t stride = terms_[k].stride;
    const std::int64_t last = std::min(terms_[k].last, floor_div(hi, stride));
    for (std::int64_t i = std::max<std::int64_t>(0, floor_div(lo - reach_[k + 1] - 1, stride) + 1); i <= last; ++i) {
      if (may_hit(k + 1, lo - i * stride, hi - i * stride)) return true;
    }
    return false;
  }

 private:
  // Dimensions of equal stride count as one: their indices only ever appear as a sum.
  void add_term(std::int64_t stride, std::int64_t last) {
    for (int k = 0; k < count_; ++k) {
      if (terms_[k].stride == stride) {
        terms_[k].last += last;
        return;
      }
    }
    terms_[count_++] = {stride, last};
  }

  std::array<Term, 2 * kMaxRank> terms_{};
  std::array<std::int64_t, 2 * kMaxRank + 1> reach_{};
  std::array<std::int64_t, 2 * kMaxRank + 1> gcd_{};
  int count_ = 0;
  int visited_ = 0;
};

ByteView mirrored(ByteView view) {
  for (int d = 0; d < view.rank; ++d) view.stride[d] = -view.stride[d];
  view.first = -view.first;
  return view;
}

}  // namespace

bool provably_disjoint(const ByteView& a, const ByteView& b) noexcept {
  WindowSearch search;
  // address(a) - address(b) = lowest + sum; shared bytes mean it lies in (-a's size, b's size).
  const std::int64_t lowest = search.add(a) + search.add(mirrored(b));
  search.prepare();
  return !search.may_hit(0, -(a.element_bytes - 1) - lowest, b.element_bytes - 1 - lowest);
}

}  // namespace planck::core
