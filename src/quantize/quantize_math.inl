// The quantise family's formulas, once: included inside the namespace of each lane kind (scalar, every
// Highway target, CUDA). V is that lane kind. SPEC's words: rne, clamp, inside, NaN and zero rules.

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

/// q_min - zp and q_max - zp: the codes' range around the zero point. Exact, since all are within 2^21.
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

template <class V, class Scale>
PLANCK_MATH V fake_quantize(V x, const Scale& scale, const CodeRange<V>& range) {
  const V r = clamp(rne(scale.steps(x)), range.lo, range.hi);
  return select(is_nan(x), x, scale.scale * r + V(0));  // + 0 turns -0 into +0 and changes nothing else
}

template <class V, class Scale>
PLANCK_MATH V fake_quantize_backward(V x, V dy, const Scale& scale, const CodeRange<V>& range) {
  return select(inside(x, scale, range), dy, V(0));
}

/// q and zero_point as numbers in V: their difference is exact.
template <class V>
PLANCK_MATH V dequantize(V q, V scale, V zero_point) {
  return scale * (q - zero_point);
}

template <class V>
PLANCK_MATH V dequantize_backward(V dy, V scale) {
  return dy * scale;
}
