// The parameterised binary formulas, once: included inside the namespace of each lane kind. An operation is
// a struct with the value and its three gradients; dw is the term that gets summed.

struct Lerp {
  /// Two forms, so that w = 0 gives a, w = 1 gives b, and the result is monotone in w.
  template <class V>
  static PLANCK_MATH V value(V a, V b, V w) {
    return select(abs(w) < V(0.5F), a + w * (b - a), b - (b - a) * (V(1) - w));
  }
  template <class V>
  static PLANCK_MATH V da(V dy, V w) {
    return (V(1) - w) * dy;
  }
  template <class V>
  static PLANCK_MATH V db(V dy, V w) {
    return w * dy;
  }
  template <class V>
  static PLANCK_MATH V dw(V dy, V a, V b) {
    return dy * (b - a);
  }
};

struct AddScaled {
  template <class V>
  static PLANCK_MATH V value(V a, V b, V w) {
    return a + w * b;
  }
  template <class V>
  static PLANCK_MATH V da(V dy, V /*w*/) {
    return dy;
  }
  template <class V>
  static PLANCK_MATH V db(V dy, V w) {
    return w * dy;
  }
  template <class V>
  static PLANCK_MATH V dw(V dy, V /*a*/, V b) {
    return dy * b;
  }
};
