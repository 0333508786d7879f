// The scans, once: included inside the namespace of each lane kind (scalar, every Highway target, CUDA). A scan is a
// state, how an element becomes one (lift), how two neighbouring ones combine (left before right), and the value that a
// state stands for (project). V is that lane kind with f64 lanes, or a 64-bit integer.

template <class V, int count>
struct ScanState {
  V part[count];
};

template <class V>
struct CumsumScan {
  static constexpr int kParts = 1;
  static constexpr bool kPositions = false;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0]}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) { return {{a.part[0] + b.part[0]}}; }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
};

template <class V>
struct CumprodScan {
  static constexpr int kParts = 1;
  static constexpr bool kPositions = false;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0]}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) { return {{a.part[0] * b.part[0]}}; }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
};

/// The winner so far and, if asked for, its position. NaN wins and stays; equal ones (NaNs too) are told apart by
/// `last` alone.
template <class V, bool largest, bool last, bool positions>
struct ExtremumScan {
  static constexpr int kParts = positions ? 2 : 1;
  static constexpr bool kPositions = positions;
  static constexpr bool kProjectsExtremum = true;
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

/// a - b, but 0 for equal infinities.
template <class V>
PLANCK_MATH V exponent_between(V a, V b) {
  return select((a <= b) & (b <= a), V(0), a - b);
}

/// A reference r near the largest element and the sum of e^(x - r): the value is r + log(sum). r moves on only to what
/// is larger by more than kSlack, so that neighbouring prefixes mostly share it, and with it the exponentials between
/// runs. What slack adds up to over all levels of the canonical order stays below the f64 range.
template <class V>
struct LogCumsumExpScan {
  static constexpr int kParts = 2;
  static constexpr bool kPositions = false;
  static constexpr double kSlack = 24;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0], V(1)}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) {
    return combine(a, b, exp(exponent(a.part[0], b.part[0])));
  }
  static PLANCK_MATH V project(const State& s) { return s.part[0] + log1p(s.part[1] - V(1)); }

  // The same in steps, for kernels that take many exponentials at once: no exponent depends on a sum.

  /// Of combining states with references a and b; combine below takes its exponential, e.
  static PLANCK_MATH V exponent(V a, V b) { return select(moves(a, b), V(0) - ahead(a, b), ahead(a, b)); }
  static PLANCK_MATH V exponential(V exponent) { return exp(exponent); }
  static PLANCK_MATH V ahead(V a, V b) { return exponent_between(b, a); }
  /// Whether b becomes the common reference. NaN does not; it reaches the sum through the exponential and stays there.
  static PLANCK_MATH auto moves(V a, V b) { return V(kSlack) < ahead(a, b); }
  static PLANCK_MATH V reference(V a, V b) { return select(moves(a, b), b, a); }
  static PLANCK_MATH State combine(const State& a, const State& b, V e) { return join(bridge(a, b.part[0], e), b); }

  /// What combining a with any b of the same reference shares.
  struct Bridge {
    V reference;
    V left;    ///< a's sum, to the common reference
    V factor;  ///< that takes b's sum there
  };
  static PLANCK_MATH Bridge bridge(const State& a, V b, V e) {
    const auto moved = moves(a.part[0], b);
    return {select(moved, b, a.part[0]), a.part[1] * select(moved, e, V(1)), select(moved, V(1), e)};
  }
  static PLANCK_MATH State join(const Bridge& between, const State& b) {
    return {{between.reference, between.left + b.part[1] * between.factor}};
  }
};

/// Inputs a, b and perhaps the state before the first element. The map h -> a*h + b of a run of elements; its value is
/// what the run makes of h = 0.
template <class V>
struct LinearRecurrenceScan {
  static constexpr int kParts = 2;
  static constexpr bool kPositions = false;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0], x[1]}}; }
  /// The axis' first element, with the initial state folded in.
  static PLANCK_MATH State begin(const V* x) { return {{x[0], x[0] * x[2] + x[1]}}; }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    return {{r.part[0] * l.part[0], r.part[0] * l.part[1] + r.part[1]}};
  }
  static PLANCK_MATH V project(const State& s) { return s.part[1]; }
};

// ---- what backward passes first find from the axis' start on ----

/// The product of everything before an element: the value of a state before it takes the element in.
template <class V>
struct ProductBeforeScan : CumprodScan<V> {
  static PLANCK_MATH V identity() { return V(1); }
};

/// Where the winner stands.
template <class V, bool largest, bool last>
struct WinnerScan : ExtremumScan<V, largest, last, true> {
  static constexpr bool kProjectsExtremum = false;
  using State = typename ExtremumScan<V, largest, last, true>::State;
  static PLANCK_MATH V project(const State& s) { return s.part[1]; }
};

// ---- backward passes, which run from the axis' end to its start ----
//
// lift also gets a value that the step before left, and leaves one for the next. gradients gets the inputs, whether
// all of them are there, the element's position and the state of everything from the axis' end to here; bits of
// kGradientInputs say which inputs it reads.

/// Inputs dy and, last, the winner's position. dx[j] is the sum of dy over the positions that j wins, which are
/// neighbours and begin at j: a flag starts a new sum.
template <class V, int inputs>
struct ExtremumGradient {
  static constexpr int kParts = 2;
  static constexpr bool kPositions = true;
  static constexpr double kLagStart = -1;
  static constexpr unsigned kGradientInputs = 1U << (inputs - 1);
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* in, V* lag) {
    const V winner = in[inputs - 1];
    const State s = {{select(same(winner, *lag), V(0), V(1)), in[0]}};
    *lag = winner;
    return s;
  }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    const auto starts = V(0) < r.part[0];
    return {{select(starts, r.part[0], l.part[0]), select(starts, r.part[1], l.part[1] + r.part[1])}};
  }
  static PLANCK_MATH void gradients(const V* in, bool, V position, const State& s, V* out) {
    out[0] = select(same(in[inputs - 1], position), s.part[1], V(0));
  }

 private:
  static PLANCK_MATH auto same(V a, V b) { return (a <= b) & (b <= a); }
};

/// Inputs dy, x and y: dx[k] = e^(x[k] - y[k]) * S[k]. r = y of the run's element that comes first along the axis, and
/// S = the sum of dy * e^(r - y). Along the axis y does not fall, so no exponent is positive.
template <class V>
struct LogCumsumExpGradient {
  static constexpr int kParts = 2;
  static constexpr bool kPositions = false;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* in, V) { return {{in[2], in[0]}}; }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    return combine(l, r, exp(exponent(l.part[0], r.part[0])));
  }
  static PLANCK_MATH void gradients(const V* in, bool, V, const State& s, V* out) {
    out[0] = gradient(in, exp(gradient_exponent(in)), s);
  }

  // In steps, as above.

  static PLANCK_MATH V exponent(V l, V r) { return exponent_between(r, l); }
  static PLANCK_MATH V exponential(V exponent) { return exp(exponent); }
  static PLANCK_MATH V reference(V, V r) { return r; }
  static PLANCK_MATH State combine(const State& l, const State& r, V e) {
    return {{r.part[0], r.part[1] + e * l.part[1]}};
  }
  static PLANCK_MATH V gradient_exponent(const V* in) { return exponent_between(in[1], in[2]); }
  static PLANCK_MATH V gradient(const V* in, V e, const State& s) {
    const V lowest(-std::numeric_limits<double>::infinity());
    return select(in[2] <= lowest, V(0), e * s.part[1]);
  }
};

/// Inputs dh, a and h[t-1], which nothing stands for where the recurrence starts from 0. g[t] = dh[t] + a[t+1] *
/// g[t+1]; da[t] = g[t] * h[t-1], db = g, and of the initial state a[0] * g[0].
template <class V>
struct LinearRecurrenceGradient : LinearRecurrenceScan<V> {
  using State = ScanState<V, 2>;
  static constexpr double kLagStart = 1;
  static constexpr unsigned kGradientInputs = 0b110;
  static PLANCK_MATH State lift(const V* in, V* lag) {
    const State s = {{*lag, in[0]}};
    *lag = in[1];
    return s;
  }
  static PLANCK_MATH void gradients(const V* in, bool whole, V, const State& s, V* out) {
    out[0] = whole ? s.part[1] * in[2] : V(0);
    out[1] = s.part[1];
    out[2] = in[1] * s.part[1];
  }
};

/// Inputs dy, x and L, the product of the prefix before: dx[j] = L[j] * R[j] with R[j] = dy[j] + x[j+1] * R[j+1].
template <class V>
struct CumprodGradient : LinearRecurrenceGradient<V> {
  static constexpr unsigned kGradientInputs = 0b100;
  static PLANCK_MATH void gradients(const V* in, bool, V, const ScanState<V, 2>& s, V* out) {
    out[0] = in[2] * s.part[1];
  }
};
