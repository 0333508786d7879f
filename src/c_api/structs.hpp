// From C structs to the C++ ones of the same name.
#pragma once

#include <optional>
#include <string_view>

#include "core/error_texts.hpp"
#include "planck/planck.h"
#include "planck/planck.hpp"

namespace planck::c_api {

using core::Text;

/// Follows C pointers into C++ values; remembers the first null pointer or impossible rank it meets.
class Translator {
 public:
  explicit Translator(std::string_view plan) noexcept : plan_(plan) {}

  Shape shape(std::string_view name, const planck_shape& s) noexcept { return shape(name, s.rank, s.extents); }
  std::optional<Shape> optional_shape(std::string_view name, const planck_shape* s) noexcept {
    if (s == nullptr) return std::nullopt;
    return shape(name, *s);
  }

  AnyTensorMut tensor(std::string_view name, const planck_tensor* t) noexcept {
    AnyTensorMut view;
    if (t == nullptr) {
      note(core::make_error(Text::NullStruct, {plan_, name}));
      return view;
    }
    view = AnyTensorMut::strided(t->data, static_cast<ElementKind>(t->element), shape(name, t->rank, t->shape),
                                 t->strides);
    view.capacity = t->capacity;
    view.offset = t->offset;
    return view;
  }
  std::optional<AnyTensorMut> optional_tensor(std::string_view name, const planck_tensor* t) noexcept {
    if (t == nullptr) return std::nullopt;
    return tensor(name, t);
  }

  Granularity granularity(const planck_granularity& g) noexcept {
    switch (g.kind) {
      case PLANCK_PER_TENSOR:
        return PerTensor{};
      case PLANCK_PER_CHANNEL:
        return PerChannel{g.axis};
      case PLANCK_PER_TOKEN:
        return PerToken{};
      case PLANCK_PER_GROUP:
        return PerGroup{g.axis, g.group_size};
      default:
        note(core::make_error(Text::GranularityUnknown, {plan_, g.kind}));
        return PerTensor{};
    }
  }
  ScaleArg scale(double number, const planck_tensor* t) noexcept {
    return t == nullptr ? ScaleArg(number) : ScaleArg(tensor("scale", t));
  }
  ZeroPointArg zero_point(std::int64_t number, const planck_tensor* t) noexcept {
    return t == nullptr ? ZeroPointArg(number) : ZeroPointArg(tensor("zero_point", t));
  }

  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  Shape shape(std::string_view name, int rank, const std::int64_t* extents) noexcept {
    if (rank < 0 || rank > kMaxRank) {
      note(core::make_error(Text::RankUnsupported, {plan_, name, rank}));
    } else if (rank > 0 && extents == nullptr) {
      note(core::make_error(Text::NullStruct, {plan_, name}));
    } else {
      return Shape(std::span<const std::int64_t>(extents, static_cast<std::size_t>(rank)));
    }
    return {};
  }

  void note(const Error& error) noexcept {
    if (!error_) error_ = error;
  }

  std::string_view plan_;
  std::optional<Error> error_;
};

inline QuantizeDescriptor translate(Translator& t, const planck_quantize_descriptor& d) noexcept {
  return {t.shape("shape", d.shape),
          d.q_min,
          d.q_max,
          static_cast<ElementKind>(d.input_element),
          static_cast<ElementKind>(d.output_element),
          t.granularity(d.scope),
          static_cast<ScaleForm>(d.scale_form),
          std::nullopt,
          d.trust_qparams != 0,
          d.unsaturated == 0};
}

inline DequantizeDescriptor translate(Translator& t, const planck_dequantize_descriptor& d) noexcept {
  return {t.shape("shape", d.shape),
          static_cast<ElementKind>(d.input_element),
          static_cast<ElementKind>(d.output_element),
          t.granularity(d.scope),
          std::nullopt,
          d.trust_qparams != 0};
}

inline FakeQuantizeDescriptor translate(Translator& t, const planck_fake_quantize_descriptor& d) noexcept {
  return {t.shape("shape", d.shape),
          d.q_min,
          d.q_max,
          static_cast<ElementKind>(d.input_element),
          t.granularity(d.scope),
          static_cast<ScaleForm>(d.scale_form),
          std::nullopt,
          d.trust_qparams != 0,
          d.learnable != 0};
}

/// The scale, zero point and tensors of a forward operation: quantise, dequantise and fake-quantise name them alike.
template <class Args, class CArgs>
Args translate_forward(Translator& t, const CArgs& a) noexcept {
  return {t.tensor("input", a.input), t.scale(a.scale, a.scale_tensor), t.zero_point(a.zero_point, a.zero_point_tensor),
          t.tensor("output", a.output)};
}
inline QuantizeArgs translate(Translator& t, const planck_quantize_args& a) noexcept {
  return translate_forward<QuantizeArgs>(t, a);
}
inline DequantizeArgs translate(Translator& t, const planck_dequantize_args& a) noexcept {
  return translate_forward<DequantizeArgs>(t, a);
}
inline FakeQuantizeArgs translate(Translator& t, const planck_fake_quantize_args& a) noexcept {
  return translate_forward<FakeQuantizeArgs>(t, a);
}

inline QuantizeBackwardArgs translate(Translator& t, const planck_quantize_backward_args& a) noexcept {
  return {t.tensor("input", a.input), t.scale(a.scale, a.scale_tensor), t.zero_point(a.zero_point, a.zero_point_tensor),
          t.tensor("d_output", a.d_output), t.tensor("d_input", a.d_input)};
}

inline DequantizeBackwardArgs translate(Translator& t, const planck_dequantize_backward_args& a) noexcept {
  return {t.scale(a.scale, a.scale_tensor), t.tensor("d_output", a.d_output), t.tensor("d_input", a.d_input)};
}

inline FakeQuantizeBackwardArgs translate(Translator& t, const planck_fake_quantize_backward_args& a) noexcept {
  return {t.tensor("input", a.input),
          t.scale(a.scale, a.scale_tensor),
          t.zero_point(a.zero_point, a.zero_point_tensor),
          t.tensor("d_output", a.d_output),
          t.optional_tensor("d_input", a.d_input),
          t.optional_tensor("d_scale", a.d_scale),
          t.optional_tensor("d_zero_point", a.d_zero_point),
          a.grad_factor};
}

inline DynamicRangeQuantizeDescriptor translate(Translator& t,
                                                const planck_dynamic_range_quantize_descriptor& d) noexcept {
  return {t.shape("shape", d.shape),
          d.q_min,
          d.q_max,
          static_cast<DynamicRangeMode>(d.mode),
          t.granularity(d.scope),
          static_cast<ElementKind>(d.input_element),
          static_cast<ElementKind>(d.output_element),
          std::nullopt,
          d.zero_in_range != 0,
          static_cast<NonFinite>(d.nonfinite),
          d.qparams_only != 0};
}

inline DynamicRangeQuantizeArgs translate(Translator& t, const planck_dynamic_range_quantize_args& a) noexcept {
  return {t.tensor("input", a.input), t.tensor("scale_out", a.scale_out), t.optional_tensor("output", a.output),
          t.optional_tensor("zero_point_out", a.zero_point_out), t.optional_tensor("row_sum", a.row_sum)};
}

inline ScanDescriptor translate(Translator& t, const planck_scan_descriptor& d) noexcept {
  return {static_cast<ScanKind>(d.kind),
          t.shape("input_shape", d.input_shape),
          d.scan_axis,
          d.reverse != 0,
          static_cast<ElementKind>(d.element),
          d.exclusive != 0,
          static_cast<ScanTies>(d.ties),
          std::nullopt,
          std::nullopt,
          d.segments};
}

inline ScanArgs translate(Translator& t, const planck_scan_args& a) noexcept {
  return {t.tensor("x", a.x),
          t.tensor("y", a.y),
          t.optional_tensor("indices", a.indices),
          t.optional_tensor("carry_in", a.carry_in),
          t.optional_tensor("carry_out", a.carry_out),
          t.optional_tensor("offsets", a.offsets)};
}

inline ScanBackwardArgs translate(Translator& t, const planck_scan_backward_args& a) noexcept {
  return {t.tensor("dy", a.dy),
          t.tensor("dx", a.dx),
          t.optional_tensor("x", a.x),
          t.optional_tensor("y", a.y),
          t.optional_tensor("indices", a.indices),
          t.optional_tensor("offsets", a.offsets)};
}

inline LinearRecurrenceDescriptor translate(Translator& t, const planck_linear_recurrence_descriptor& d) noexcept {
  return {t.shape("input_shape", d.input_shape),
          d.scan_axis,
          d.reverse != 0,
          static_cast<ElementKind>(d.element),
          false,
          std::nullopt,
          d.segments};
}

inline LinearRecurrenceArgs translate(Translator& t, const planck_linear_recurrence_args& a) noexcept {
  return {t.tensor("a", a.a),
          t.tensor("b", a.b),
          t.optional_tensor("initial", a.initial),
          t.tensor("h", a.h),
          t.optional_tensor("carry_in", a.carry_in),
          t.optional_tensor("carry_out", a.carry_out),
          t.optional_tensor("offsets", a.offsets)};
}

inline LinearRecurrenceBackwardArgs translate(Translator& t, const planck_linear_recurrence_backward_args& a) noexcept {
  return {t.tensor("dh", a.dh),
          t.tensor("a", a.a),
          t.optional_tensor("h", a.h),
          t.optional_tensor("initial", a.initial),
          t.optional_tensor("da", a.da),
          t.optional_tensor("db", a.db),
          t.optional_tensor("d_initial", a.d_initial),
          t.optional_tensor("offsets", a.offsets)};
}

inline BinaryParamDescriptor translate(Translator& t, const planck_binary_param_descriptor& d) noexcept {
  return {static_cast<BinaryKind>(d.kind),
          t.shape("shape", d.shape),
          static_cast<ElementKind>(d.element),
          d.param,
          t.optional_shape("weight_shape", d.weight_shape),
          t.optional_shape("a_shape", d.a_shape),
          t.optional_shape("b_shape", d.b_shape)};
}

inline BinaryParamArgs translate(Translator& t, const planck_binary_param_args& a) noexcept {
  return {t.tensor("a", a.a), t.tensor("b", a.b), t.optional_tensor("weight", a.weight), t.tensor("y", a.y)};
}

inline BinaryParamBackwardArgs translate(Translator& t, const planck_binary_param_backward_args& a) noexcept {
  return {t.tensor("dy", a.dy),
          t.optional_tensor("a", a.a),
          t.optional_tensor("b", a.b),
          t.optional_tensor("weight", a.weight),
          t.optional_tensor("da", a.da),
          t.optional_tensor("db", a.db),
          t.optional_tensor("d_weight", a.d_weight)};
}

/// The kind of the scales.
template <class Args>
std::optional<ElementKind> scale_element_of(const Args& args) noexcept {
  if constexpr (requires { args.scale_out.element; }) {
    return args.scale_out.element;
  } else {
    if (args.scale.tensor() != nullptr) return args.scale.tensor()->element;
    if constexpr (requires { args.d_scale; }) {
      if (args.d_scale) return args.d_scale->element;
      if (args.d_zero_point) return args.d_zero_point->element;
    }
    return std::nullopt;
  }
}

/// What a C++ descriptor says about optional tensors: C sees descriptor and tensors together, so the tensors say it.
template <class Descriptor, class Args>
void complete(Descriptor& descriptor, const Args& args) noexcept {
  if constexpr (requires { descriptor.scale_element; }) descriptor.scale_element = scale_element_of(args);
  if constexpr (requires { descriptor.index_element; }) {
    if (args.indices) descriptor.index_element = args.indices->element;
  }
  if constexpr (requires { descriptor.initial; }) descriptor.initial = args.initial.has_value();
  // An initial state has a gradient also where its own value is not needed.
  if constexpr (requires { args.d_initial; }) descriptor.initial = args.initial || args.d_initial;
  if constexpr (requires { descriptor.offset_element; }) {
    if (args.offsets) descriptor.offset_element = args.offsets->element;
  }
}

/// The same without tensors, for the workspace: what needs most of it. Running maxima keep indices beside the values.
template <class Descriptor>
void complete(Descriptor& descriptor) noexcept {
  if constexpr (requires { descriptor.index_element; }) {
    const bool extremum = descriptor.kind == ScanKind::Cummax || descriptor.kind == ScanKind::Cummin;
    if (extremum) descriptor.index_element = ElementKind::S64;
  }
}

/// Segments without offsets are told what they lack, or are asked about for their workspace.
template <class Descriptor>
void complete_segments(Descriptor& descriptor) noexcept {
  if constexpr (requires { descriptor.offset_element; }) {
    if (descriptor.segments != 0 && !descriptor.offset_element) descriptor.offset_element = ElementKind::S64;
  }
}

}  // namespace planck::c_api
