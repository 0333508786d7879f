// The scans, once: included inside the namespace of each lane kind (scalar, every Highway target, CUDA). A scan is a
// state, how an element becomes one (lift), how two neighbouring ones combine (left before right), and the value that a
// state stands for (project). V is that lane kind with f64 lanes, or with 64-bit integers.

template <class V, int count>
struct ScanState {
  V part[count];
};

// Where a scan has kNeutral, a state of it before another changes no bit of that.

template <class V>
struct CumsumScan {
  static constexpr double kNeutral = -0.0;
  static constexpr int kParts = 1;
  static constexpr bool kPositions = false;
  using State = ScanState<V, kParts>;
  static PLANCK_MATH State lift(const V* x, V) { return {{x[0]}}; }
  static PLANCK_MATH State combine(const State& a, const State& b) { return {{a.part[0] + b.part[0]}}; }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
};

template <class V>
struct CumprodScan {
  static constexpr double kNeutral = 1;
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
    State s;
    if constexpr (std::is_integral_v<LaneType<V>>) {
      // By < alone, which registers have for integers: of the last rule, who stays.
      const auto less = largest == last ? b.part[0] < a.part[0] : a.part[0] < b.part[0];
      const State& then = last ? a : b;
      const State& otherwise = last ? b : a;
      for (int k = 0; k < kParts; ++k) s.part[k] = select(less, then.part[k], otherwise.part[k]);
    } else {
      const auto wins = right_wins(a.part[0], b.part[0]);
      for (int k = 0; k < kParts; ++k) s.part[k] = select(wins, b.part[k], a.part[k]);
    }
    return s;
  }
  static PLANCK_MATH V project(const State& s) { return s.part[0]; }
  static PLANCK_MATH V position(const State& s) requires positions { return s.part[1]; }
  template <class U>
  static PLANCK_MATH auto right_wins(U a, U b) {
    if constexpr (last) {
      return is_nan(b) | (largest ? a <= b : b <= a);
    } else {
      return but_not(a <= a, largest ? b <= a : a <= b);  // also where b is NaN, and a is not
    }
  }
};

/// Limits of an exponent e, which counts in units: those of an element that is no number, and of nothing at all, are
/// beyond all others. C is what exponentials and logarithms are taken in.
template <class C>
struct ScaledLimits;
template <>
struct ScaledLimits<float> {
  static constexpr double kUnit = 1;
  static constexpr double kInfinity = 0x1p200;
  static constexpr double kNan = 0x1p201;
};
/// Quarters: in ones the largest x's exponent would overflow.
template <>
struct ScaledLimits<double> {
  static constexpr double kUnit = 0.25;
  static constexpr double kInfinity = 0x1p1023;
  static constexpr double kNan = 0x1.8p1023;
};

/// m 2^e: e in part 0, a whole number of units, and m in part 1, of 53 bits and one place before the point.
template <class V, class C>
struct Scaled {
  using Limits = ScaledLimits<C>;
  using State = ScanState<V, 2>;

  /// e^x; that of -Inf is nothing.
  static PLANCK_MATH State exp(V x) {
    const Power power = reduced<false>(x);
    const auto low = power.p < V(1);
    const V infinity(std::numeric_limits<double>::infinity());
    const V beyond = select(is_nan(x), V(Limits::kNan), select(x < V(0), V(-Limits::kInfinity), V(Limits::kInfinity)));
    const auto finite = abs(x) < infinity;
    return {{select(finite, power.e - select(low, V(Limits::kUnit), V(0)), beyond),
             select(finite, select(low, power.p + power.p, power.p), V(1))}};
  }

  /// The sum's state, whatever its place before the point, for a sum at e that is 0, normal or no number.
  static PLANCK_MATH State normalised(V sum, V e) {
    using K = ExpLog<double>;
    using U = decltype(bits(sum));
    const U place = bits(abs(sum)) & U(K::kSignAndExponent);
    const V k = from_bits(shift_right<K::kFraction>(place) | bits(V(K::kWhole))) - V(K::kWhole + K::kBias);
    const V m = from_bits((bits(sum) & U(~K::kSignAndExponent)) | bits(V(1)));
    const V signed_m = select(sum < V(0), V(0) - m, m);
    const auto zero = abs(sum) <= V(0);
    const auto finite = abs(sum) < V(std::numeric_limits<double>::infinity());
    const V moved = select(finite, e + k * V(Limits::kUnit), e);
    return {{select(zero, V(-Limits::kInfinity), moved), select(zero, sum, select(finite, signed_m, sum))}};
  }

  /// 2^(low - high), but no less than 2^-100: beside a sum at `high`, less is nothing.
  static PLANCK_MATH V ratio(V low, V high) {
    const V places = (low - high) * V(1 / Limits::kUnit);
    return power_of_two(select(places < V(-100), V(-100), places));
  }

  /// e^x = p 2^e, p as it comes: 1 for infinite x, whose e is infinite. Not for NaN. `wide`: x has more bits than C.
  struct Power {
    V p;
    V e;
  };
  template <bool wide>
  static PLANCK_MATH Power reduced(V x) {
    if constexpr (sizeof(C) == 8) {
      // Rounded to whole units by what they are lost beside; in ones the largest would overflow.
      const V shift(1.5 * ExpLog<double>::kWhole * Limits::kUnit);
      const V e = (x * V(ExpLog<double>::kLog2E * Limits::kUnit) + shift) - shift;
      return {exp_fraction(rest_of(x, e * V(1 / Limits::kUnit))), e};
    } else {
      const V n = rne(x * V(ExpLog<double>::kLog2E));
      const V rest = rest_of(x, n);
      if constexpr (wide) {
        return {to_f64(exp_fraction(to_f32(rest))), n};
      } else {
        // As far as f32 does, in f32.
        using F = decltype(to_f32(x));
        const auto near = abs(x) <= V(kExpNear);
        const F near_n = rne(to_f32(x) * F(ExpLog<float>::kLog2E));
        const V near_rest = to_f64(exp_rest(to_f32(x), near_n));
        return {to_f64(exp_fraction(to_f32(select(near, near_rest, rest)))), select(near, to_f64(near_n), n)};
      }
    }
  }

 private:
  /// From here on x is so large that x - n ln 2 is lost in its last bits, and is taken for 0.
  static constexpr double kLost = sizeof(C) == 4 ? 0x1p28 : 0x1p50;

  static PLANCK_MATH V rest_of(V x, V n) { return select(abs(x) < V(kLost), exp_rest(x, n), V(0)); }
};

/// The sum of e^x, scaled by powers of two alone: whoever adds plain f64 numbers that stay normal has the same bits.
/// The value at the axis' first element is the element itself.
template <class V, class C>
struct LogCumsumExpScan {
  static constexpr int kParts = 2;
  static constexpr bool kPositions = false;
  static constexpr bool kFirstIsElement = true;
  using Compute = C;
  using Number = Scaled<V, C>;
  using Limits = ScaledLimits<C>;
  using State = typename Number::State;
  static PLANCK_MATH State lift(const V* x, V) { return Number::exp(x[0]); }
  static PLANCK_MATH State combine(const State& a, const State& b) {
    const auto ahead = a.part[0] < b.part[0];
    const V high = select(ahead, b.part[0], a.part[0]);
    const V low = select(ahead, a.part[0], b.part[0]);
    const V sum = select(ahead, b.part[1], a.part[1]) + select(ahead, a.part[1], b.part[1]) * Number::ratio(low, high);
    const auto carries = V(2) <= sum;
    return {{select(carries, high + V(Limits::kUnit), high), select(carries, sum * V(0.5), sum)}};
  }
  static PLANCK_MATH V project(const State& s) {
    const Log log = log_of(s);
    const V near = in_compute(
        log.a, [](auto a, auto minus_k) { return log_power(a, minus_k); }, log.minus_k());
    return special(s, select(abs(log.e) <= V(1024 * Limits::kUnit), near, far(log)));
  }

 protected:
  /// a 2^e with 3/4 <= a < 3/2, a of C's bits.
  struct Log {
    V a;
    V e;
    PLANCK_MATH V minus_k() const { return e * V(-1 / Limits::kUnit); }
  };
  static PLANCK_MATH Log log_of(const State& s) {
    const V a = in_compute(s.part[1], [](auto m) { return m; });
    const auto large = V(1.5) <= a;
    return {select(large, a * V(0.5), a), select(large, s.part[0] + V(Limits::kUnit), s.part[0])};
  }
  /// Whatever e is; in f64.
  static PLANCK_MATH V far(const Log& log) {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    const V fraction = in_compute(log.a, [](auto a) {
      const auto f = a - decltype(a)(1);
      return f - log_rest(f);
    });
    const V largest(std::numeric_limits<double>::max());
    return clamp(log.e * V(kLn2 / Limits::kUnit) + fraction, V(0) - largest, largest);
  }
  static PLANCK_MATH V special(const State& s, V y) {
    const V infinity(std::numeric_limits<double>::infinity());
    const V nan(std::numeric_limits<double>::quiet_NaN());
    const V high = select(s.part[0] < V(Limits::kNan), infinity, nan);
    const V finite = select(s.part[0] < V(Limits::kInfinity), y, high);
    return select(s.part[0] <= V(-Limits::kInfinity), V(0) - infinity, finite);
  }
  /// What a function of f64 lanes gives in C.
  template <class Function, class... Rest>
  static PLANCK_MATH V in_compute(V x, const Function& function, Rest... rest) {
    if constexpr (sizeof(C) == 8) {
      return function(x, rest...);
    } else {
      return to_f64(function(to_f32(x), to_f32(rest)...));
    }
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

// ---- what backward passes first find from the axis' start on: feeds ----

/// The product of everything before an element: the value of a state before it takes the element in.
template <class V>
struct ProductBeforeScan : CumprodScan<V> {
  static constexpr bool kFeeds = true;
  static PLANCK_MATH V identity() { return V(1); }
};

/// The value in f64, for a gradient: 16 bits hold it too badly to be taken from.
template <class V>
struct WideLogScan : LogCumsumExpScan<V, float> {
  static constexpr bool kFeeds = true;
  using Base = LogCumsumExpScan<V, float>;
  static PLANCK_MATH V project(const typename Base::State& s) { return Base::special(s, Base::far(Base::log_of(s))); }
};

/// Where the winner stands.
template <class V, bool largest, bool last>
struct WinnerScan : ExtremumScan<V, largest, last, true> {
  static constexpr bool kFeeds = true;
  static constexpr bool kProjectsExtremum = false;
  static constexpr bool kRecords = true;
  using State = typename ExtremumScan<V, largest, last, true>::State;
  static PLANCK_MATH V project(const State& s) { return s.part[1]; }
};

// ---- backward passes, which run from the axis' end to its start ----
//
// lift also gets a value that the step before left, and leaves one for the next: its input kLagInput. gradients gets
// the inputs, whether all of them are there, the element's position and the state of everything from the axis' end to
// here; bits of kGradientInputs say which inputs it reads. The last input of those with kFed is what a feed found.

/// Inputs dy and, last, the winner's position. dx[j] is the sum of dy over the positions that j wins, which are
/// neighbours and begin at j: a flag starts a new sum.
template <class V, int inputs>
struct ExtremumGradient {
  static constexpr int kParts = 2;
  static constexpr bool kPositions = true;
  static constexpr double kLagStart = -1;
  static constexpr int kLagInput = inputs - 1;
  static constexpr bool kFed = inputs == 3;
  static constexpr unsigned kGradientInputs = 1U << (inputs - 1);
  static constexpr bool kRecords = inputs == 3;
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

/// Inputs dy, x and y: dx[k] = e^x[k] * G[k] with G[k] the sum of dy e^-y from k on, a scaled number with a sign. Where
/// y is +Inf it stays so to the axis' end; there the state is the sum of dy alone, with the exponent of nothing, and
/// belongs to the x that are +Inf. `fed`: y has f64's bits.
template <class V, class C, bool fed>
struct LogCumsumExpGradient {
  static constexpr bool kFed = fed;
  static constexpr int kParts = 2;
  static constexpr bool kPositions = false;
  static constexpr unsigned kGradientInputs = 0b110;
  using Compute = C;
  using Number = Scaled<V, C>;
  using Limits = ScaledLimits<C>;
  using State = typename Number::State;
  static PLANCK_MATH State lift(const V* in, V) {
    const V dy = in[0];
    const V y = in[2];
    const auto weight = Number::template reduced<fed>(V(0) - y);
    const V infinity(std::numeric_limits<double>::infinity());
    V term = dy * weight.p;
    V place = select(is_nan(y), V(0), weight.e);
    if constexpr (sizeof(C) == 8) {
      // A subnormal number has no exponent to be read.
      const auto small = abs(dy) < V(0x1p-900);
      term = select(small, (dy * V(0x1p200)) * weight.p, term);
      place = select(small, place - V(200 * Limits::kUnit), place);
    }
    const State s = Number::normalised(select(is_nan(y), y, term), place);
    const auto nothing = infinity <= abs(y);
    return {
        {select(nothing, V(-Limits::kInfinity), s.part[0]), select(nothing, select(y < V(0), V(0), dy), s.part[1])}};
  }
  static PLANCK_MATH State combine(const State& l, const State& r) {
    const auto ahead = l.part[0] < r.part[0];
    const V high = select(ahead, r.part[0], l.part[0]);
    const V low = select(ahead, l.part[0], r.part[0]);
    const V small = select(ahead, l.part[1], r.part[1]);
    // Beside something, what belongs to +Inf is nothing.
    const V joins = select(nothing(low), select(nothing(high), small, V(0)), small * Number::ratio(low, high));
    const V sum = select(ahead, r.part[1], l.part[1]) + joins;
    const State s = Number::normalised(sum, high);
    return {{select(nothing(high), high, s.part[0]), select(nothing(high), sum, s.part[1])}};
  }
  static PLANCK_MATH void gradients(const V* in, bool, V, const State& s, V* out) {
    const V x = in[1];
    const auto power = Number::template reduced<false>(x);
    const V infinity(std::numeric_limits<double>::infinity());
    const V product = s.part[1] * select(is_nan(x), x, power.p);
    const V places = select(is_nan(x), V(0), (s.part[0] + power.e) * V(1 / Limits::kUnit));
    // In two steps, of which only the second rounds; beyond these bounds C has 0 and infinity.
    const V k = clamp(places, V(-1080), V(1030));
    const V half = rne(k * V(0.5));
    const V value = (product * power_of_two(half)) * power_of_two(k - half);
    const V zero = select(abs(s.part[1]) <= V(0), s.part[1], V(0));
    const V alone = select(infinity <= x, s.part[1], zero);
    out[0] = select(in[2] <= V(0) - infinity, V(0), select(nothing(s.part[0]), alone, value));
  }

 private:
  static PLANCK_MATH auto nothing(V e) { return e <= V(-Limits::kInfinity); }
};

/// Inputs dh, a and h[t-1], which nothing stands for where the recurrence starts from 0. g[t] = dh[t] + a[t+1] *
/// g[t+1]; da[t] = g[t] * h[t-1], db = g, and of the initial state a[0] * g[0].
template <class V>
struct LinearRecurrenceGradient : LinearRecurrenceScan<V> {
  using State = ScanState<V, 2>;
  static constexpr double kLagStart = 1;
  static constexpr int kLagInput = 1;
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
  static constexpr bool kFed = true;
  static constexpr unsigned kGradientInputs = 0b100;
  static PLANCK_MATH void gradients(const V* in, bool, V, const ScanState<V, 2>& s, V* out) {
    out[0] = in[2] * s.part[1];
  }
};
