// The quantise family's formulas, once: included inside the namespace of each lane kind (scalar, every
// Highway target, CUDA). V is that lane kind. The pages' words (docs/ops/quantize.md): rne, clamp, inside, NaN and zero
// rules.

/// x in steps of the scale. Divide is ONNX's form, Reciprocal PyTorch's.
template <class V>
struct DivideScale {
  V scale;
  PLANCK_MATH V steps(V x) const { return x / scale; }
};
template <class V>
struct ReciprocalScale {
  V scale;
  V inverse;
  PLANCK_MATH V steps(V x) const { return x * inverse; }
};

/// q_min - zp and q_max - zp: the codes' range around the zero point. Exact, since all are within 2^21. Of float codes
/// q_min and q_max, infinite where nothing saturates, and backwards the last numbers that round into the range.
template <class V>
struct CodeRange {
  V lo;
  V hi;
};

/// Whether x falls on a code; inclusive at both ends, and false for NaN.
template <class V, class Scale>
PLANCK_MATH auto inside(V x, const Scale& scale, const CodeRange<V>& range) {
  const V r = rne(scale.steps(x));
  return (range.lo <= r) & (r <= range.hi);
}

/// The code, as a number in V. NaN gives the zero point, limited to the range: 0 steps.
template <class V, class Scale>
PLANCK_MATH V quantize(V x, const Scale& scale, const CodeRange<V>& range, V zero_point) {
  return clamp(rne(zero_if_nan(scale.steps(x))), range.lo, range.hi) + zero_point;
}

/// What a float code is rounded from. NaN is the positive one: processors differ in the sign of a computed NaN.
template <class V, class Scale>
PLANCK_MATH V quantize_to_float(V x, const Scale& scale, const CodeRange<V>& range) {
  const V number = clamp_or_nan(scale.steps(x), range.lo, range.hi);
  return select(is_nan(number), V(std::numeric_limits<LaneType<V>>::quiet_NaN()), number);
}

/// The code of kind Q, as a number in V that one conversion is left to.
template <class Q, class V, class Scale>
PLANCK_MATH V quantize_to(V x, const Scale& scale, const CodeRange<V>& range, V zero_point) {
  if constexpr (numerics::FloatCode<Q>) {
    return quantize_to_float(x, scale, range);
  } else {
    return quantize(x, scale, range, zero_point);
  }
}

template <class V, class Scale>
PLANCK_MATH V quantize_backward(V x, V dy, const Scale& scale, const CodeRange<V>& range) {
  return where(inside(x, scale, range), scale.steps(dy));
}

/// Of float codes.
template <class V, class Scale>
PLANCK_MATH V quantize_backward_from_float(V x, V dy, const Scale& scale, const CodeRange<V>& range) {
  const V r = scale.steps(x);
  return where((range.lo <= r) & (r <= range.hi), scale.steps(dy));
}

template <class V, class Scale>
PLANCK_MATH V fake_quantize(V x, const Scale& scale, const CodeRange<V>& range) {
  const V r = clamp_or_nan(rne(scale.steps(x)), range.lo, range.hi);
  return scale.scale * r + V(0);  // + 0 turns -0 into +0 and changes nothing else
}

template <class V, class Scale>
PLANCK_MATH V fake_quantize_backward(V x, V dy, const Scale& scale, const CodeRange<V>& range) {
  return where(inside(x, scale, range), dy);
}

/// What one element adds to d_scale: the rounding error inside the range, the range's end outside; 0 for NaN.
template <class V, class Scale>
PLANCK_MATH V d_scale_term(V x, V dy, const Scale& scale, const CodeRange<V>& range) {
  const V steps = scale.steps(x);
  const V r = rne(steps);
  const V slope = select(r < range.lo, range.lo, select(range.hi < r, range.hi, r - steps));
  return where_not(is_nan(x), dy * slope);
}

/// What one element adds to d_zero_point: 0 inside the range and for NaN.
template <class V, class Scale>
PLANCK_MATH V d_zero_point_term(V x, V dy, const Scale& scale, const CodeRange<V>& range) {
  const V r = rne(scale.steps(x));
  return where((r < range.lo) | (range.hi < r), V(0) - dy * scale.scale);
}

/// q and zero_point as numbers in V: their difference is exact.
template <class V>
PLANCK_MATH V dequantize(V q, V scale, V zero_point) {
  return scale * (q - zero_point);
}

/// Float codes are numbers as they are, NaN and infinities too; -0 stays -0.
template <class Q, class V>
PLANCK_MATH V dequantize_from(V q, V scale, V zero_point) {
  if constexpr (numerics::FloatCode<Q>) {
    return scale * q;
  } else {
    return dequantize(q, scale, zero_point);
  }
}

template <class V>
PLANCK_MATH V dequantize_backward(V dy, V scale) {
  return dy * scale;
}
