// The scans as plain loops, to be read beside docs/numerics.md#scans.
#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"
#include "scan/carry.hpp"
#include "scan/ops.hpp"
#include "scan/scalar.hpp"

namespace planck::scan::reference {
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

template <class Scan, class T, class V>
void scan_lanes(const StridedLoop& loop, int axis, bool reverse, const ScanKey& key, const StridedLoop* carries) {
  const std::int64_t n = loop.extent[axis];
  const int inputs = key.kind == ScanKind::LinearRecurrence ? 2 : 1;
  for_each_lane(loop, axis, [&](LoopIndex index) {
    CarryWords carry = carry_before(carries, axis, index, key);
    const std::int64_t before = carry[kCarryBefore];
    auto fold = fold_of<Scan>(carry);
    const Cell initial = core::cell_at(loop, index, loop.operands - 1);
    for (std::int64_t t = 0; t < n; ++t) {
      index[axis] = t;
      V x[3] = {};
      for (int k = 0; k < inputs; ++k) x[k] = scalar::widen<V>(core::cell_at(loop, index, k).template get<T>());
      auto state = Scan::lift(x, static_cast<V>(before + (reverse ? n - 1 - t : t)));
      if constexpr (requires { Scan::begin(x); }) {
        if (t == 0 && initial.present()) {
          x[2] = scalar::widen<V>(initial.template get<T>());
          state = Scan::begin(x);
        }
      }
      fold.push(state);
      const auto prefix = fold.prefix();
      core::cell_at(loop, index, inputs).set(stored<V, T>(Scan::project(prefix)));
      if constexpr (requires { Scan::position(prefix); }) {
        const Cell to = core::cell_at(loop, index, inputs + 1);
        const auto position = static_cast<std::int64_t>(Scan::position(prefix));
        if (key.indices == ElementKind::S64) to.set(position);
        if (key.indices == ElementKind::S32) to.set(static_cast<std::int32_t>(position));
      }
    }
    if (has_carry(carries, kCarryOut)) {
      save_fold<Scan>(fold, n, carry);
      store_carry(*carries, axis, index, carry);
    }
  });
}

}  // namespace

void run(const StridedLoop& loop, int axis, bool reverse, const ScanKey& key, const StridedLoop* carries) {
  with_element(key.element, [&]<class T>(T) {
    with_scan<T>(key, [&]<class V, class Scan>(V, Scan) { scan_lanes<Scan, T, V>(loop, axis, reverse, key, carries); });
  });
}

}  // namespace planck::scan::reference
