// The scans, once: included inside the namespace of each lane kind (scalar, every Highway target, CUDA). A scan is a
// state, how an element becomes one (lift), how two neighbouring ones combine (left before right), and the value that a
// state stands for (project). V is that lane kind with f64 lanes, or a 64-bit integer.

template <class V, int count>
struct ScanState {
  V part[count];
};

template <class V>
struct CumsumScan {
  static constexpr int kInputs = 1;
  static constexpr int kParts = 1;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0]}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) { return {{a.part[0] + b.part[0]}}; }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
};

template <class V>
struct CumprodScan {
  static constexpr int kInputs = 1;
  static constexpr int kParts = 1;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0]}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) { return {{a.part[0] * b.part[0]}}; }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
};

/// The winner so far and, if asked for, its position. NaN wins and stays; equal ones (NaNs too) are told apart by
/// `last` alone.
template <class V, bool largest, bool last, bool positions>
struct ExtremumScan {
  static constexpr int kInputs = 1;
  static constexpr int kParts = positions ? 2 : 1;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V position) {
    State s;
    s.part[0] = x[0];
    if constexpr (positions) s.part[1] = position;
    return s;
  }
  static PLANCK_MATH State combine(const State& a, const State& b) {
    const auto wins = right_wins(a.part[0], b.part[0]);
    State s;
    for (int k = 0; k < kParts; ++k) s.part[k] = select(wins, b.part[k], a.part[k]);
    return s;
  }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
  static PLANCK_MATH V position(const State& s) requires positions { return s.part[1]; }

 private:
  static PLANCK_MATH auto right_wins(V a, V b) {
    if constexpr (last) {
      return is_nan(b) | (largest ? a <= b : b <= a);
    } else {
      return (largest ? a < b : b < a) | (is_nan(b) & (a <= a));
    }
  }
};

/// The maximum m of the elements and the sum of e^(x - m): the value is m + log(sum).
template <class V>
struct LogCumsumExpScan {
  static constexpr int kInputs = 1;
  static constexpr int kParts = 2;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0], V(1)}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) {
    const V am = a.part[0];
    const V bm = b.part[0];
    const auto right = (am < bm) | (is_nan(bm) & (am <= am));
    const V larger = select(right, bm, am);
    const V smaller = select(right, am, bm);
    // Equal infinities differ by 0, and so does whatever follows a NaN.
    const V factor = exp(select(smaller < larger, smaller - larger, V(0)));
    return {{larger, a.part[1] * select(right, factor, V(1)) + b.part[1] * select(right, V(1), factor)}};
  }
  static PLANCK_MATH V project(const State& s) { return s.part[0] + log1p(s.part[1] - V(1)); }
};

/// Inputs a, b and perhaps the state before the first element. The map h -> a*h + b of a run of elements; its value is
/// what the run makes of h = 0.
template <class V, bool initial>
struct LinearRecurrenceScan {
  static constexpr int kInputs = initial ? 3 : 2;
  static constexpr int kParts = 2;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0], x[1]}}; }
  /// The axis' first element, with the initial state folded in.
  static PLANCK_MATH State begin(const V* x) requires initial { return {{x[0], x[0] * x[2] + x[1]}}; }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    return {{r.part[0] * l.part[0], r.part[0] * l.part[1] + r.part[1]}};
  }
  static PLANCK_MATH V project(const State& s) { return s.part[1]; }
};

// ---- states of the backward passes, which run from the axis' end to its start ----

/// Sums of the gradients that one winner gets: a flag, which starts a new sum, and the sum.
template <class V>
struct SegmentedSumScan {
  using State = ScanState<V, 2>;
  static PLANCK_MATH State lift(V flag, V dy) { return {{flag, dy}}; }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    const auto starts = V(0) < r.part[0];
    return {{select(starts, r.part[0], l.part[0]), select(starts, r.part[1], l.part[1] + r.part[1])}};
  }
};

/// a - b, but 0 for equal infinities.
template <class V>
PLANCK_MATH V exponent_between(V a, V b) {
  return select((a <= b) & (b <= a), V(0), a - b);
}

/// LogCumsumExp's gradients: r = y of the run's element that comes first along the axis, and the sum of dy * e^(r - y).
/// Along the axis y does not fall, so no exponent is positive.
template <class V>
struct LogWeightScan {
  using State = ScanState<V, 2>;
  static PLANCK_MATH State lift(V y, V dy) { return {{y, dy}}; }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    return {{r.part[0], r.part[1] + exp(exponent_between(r.part[0], l.part[0])) * l.part[1]}};
  }
  /// dx of the run's first element.
  static PLANCK_MATH V gradient(V x, V y, const State& s) {
    const V lowest(-std::numeric_limits<double>::infinity());
    return select(y <= lowest, V(0), exp(exponent_between(x, y)) * s.part[1]);
  }
};
