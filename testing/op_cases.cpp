#include "testing/op_cases.hpp"

#include <algorithm>
#include <memory>

#include "cpu/isa.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/cpu/kernel_row.hpp"
#include "quantize/descriptor_checks.hpp"
#include "scan/scalar.hpp"

namespace planck::test {
namespace {

constexpr double kScale = 0.05;
constexpr std::int64_t kZeroPoint = 3;
constexpr double kWeight = 0.7;

/// Selects Plan<Op> and binds args(tensors) to its run, with a workspace of its own.
template <class Op, class MakeArgs>
Result<std::function<Result<void>(const Tensors&)>> bind(const Stream& stream, const PlanPreference& preference,
                                                         const typename Op::Descriptor& descriptor,
                                                         const MakeArgs& make_args) {
  auto plan = Plan<Op>::select(stream, descriptor, preference);
  if (!plan) return tl::unexpected(plan.error());
  auto workspace = std::make_shared<TestWorkspace>(plan->workspace_size());
  return [plan = *plan, stream, workspace, make_args](const Tensors& tensors) {
    Result<void> result = plan.run(stream, workspace->get(), make_args(tensors));
    memory_source.wait(stream);
    return result;
  };
}

/// Of a row of the quantise family.
bool is_dynamic_range(const cpu::KernelRow& row) {
  return row.op >= static_cast<std::int32_t>(quantize::Formula::Range);
}

Shape broadcast_shape(const Shape& shape, Broadcast broadcast) {
  Shape small = shape;
  const int rank = shape.rank();
  for (int d = 0; d < rank; ++d) {
    const bool reduced = broadcast == Broadcast::Scalar || (broadcast == Broadcast::Rows && d == rank - 1) ||
                         (broadcast == Broadcast::Columns && d == 0) ||
                         (broadcast == Broadcast::Middle && d != rank / 2);
    if (reduced) small[d] = 1;
  }
  return small;
}

Granularity granularity_for(const Shape& shape, Broadcast broadcast) {
  switch (broadcast) {
    case Broadcast::None:
    case Broadcast::Rows:
      return PerToken{};
    case Broadcast::Columns:
      return PerChannel{-1};
    case Broadcast::Middle:
      return PerChannel{shape.rank() / 2};
    case Broadcast::FirstChannel:
      return PerChannel{0};
    case Broadcast::Groups:
      return PerGroup{-1, shape[shape.rank() - 1] < 128 ? 7 : 128};
    case Broadcast::OuterGroups:
      return PerGroup{0, 2};
    default:
      break;
  }
  return PerTensor{};
}

/// The quantise family: one case for all formulas, parameters as numbers or as tensors.
OpCase quantize_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast) {
  using quantize::Formula;
  using quantize::QParamsFrom;
  const auto formula = static_cast<Formula>(row.op);
  const ScaleForm form = quantize::form_of(row.variant);
  const QParamsFrom from = quantize::qparams_from(row.variant);
  const bool numbers = from == QParamsFrom::Run;
  const ElementKind codes = row.aux_element.value_or(ElementKind::S8);
  const auto [q_min, q_max] = quantize::limits_of(codes);
  const Granularity granularity = numbers ? PerTensor{} : granularity_for(shape, broadcast);
  const ElementKind scale_element = from == QParamsFrom::NarrowOperands ? row.element : compute_of(row.element);
  const Shape segments = qparams_shape(shape, granularity);
  const bool has_zero_point = formula != Formula::DequantizeBackward;

  OpCase c;
  // Values from far below to a little beyond the codes.
  c.unit = is_float_code(codes) ? kScale * static_cast<double>(q_max) / 150 : kScale;
  const auto add = [&](const char* name, ElementKind element, bool output) {
    c.tensors.push_back({name, element, shape, output});
    return c.tensors.size() - 1;
  };
  const auto add_segments = [&](const char* name, ElementKind element, bool output, Values values) {
    c.tensors.push_back({name, element, segments, output, values, output});
    return c.tensors.size() - 1;
  };
  const std::size_t x = add("input", formula == Formula::Dequantize ? codes : row.element, false);
  const bool reads_dy = formula == Formula::QuantizeBackward || formula == Formula::FakeQuantizeBackward;
  const std::size_t dy = reads_dy ? add("d_output", row.element, false) : x;
  const std::size_t s = numbers ? 0 : add_segments("scale", scale_element, false, Values::Scales);
  const bool zero_point_number = numbers || is_float_code(codes);
  const std::size_t z = zero_point_number || !has_zero_point
                            ? 0
                            : add_segments("zero_point", ElementKind::S32, false, Values::ZeroPoints);
  const std::size_t ds = row.terms ? add_segments("d_scale", scale_element, true, Values::Ordinary) : 0;
  const std::size_t dz = row.terms ? add_segments("d_zero_point", scale_element, true, Values::Ordinary) : 0;
  const std::size_t y = add("output", formula == Formula::Quantize ? codes : row.element, true);
  const auto scale = [=](const Tensors& t) { return numbers ? ScaleArg(kScale) : ScaleArg(t[s]); };
  const std::int64_t number = is_float_code(codes) ? 0 : kZeroPoint;
  const auto zero_point = [=](const Tensors& t) {
    return zero_point_number ? ZeroPointArg(number) : ZeroPointArg(t[z]);
  };
  const auto forward = [=]<class Op>(Op, const typename Op::Descriptor& d) {
    return [=](const Stream& stream, const PlanPreference& preference) {
      return bind<Op>(stream, preference, d, [=](const Tensors& t) {
        return typename Op::Args{t[x], scale(t), zero_point(t), t[y]};
      });
    };
  };

  QuantizeDescriptor q{shape, q_min, q_max, row.element, codes, granularity, form, scale_element, false, true};
  // One granularity overflows.
  if (is_float_code(codes)) q.saturate = broadcast != Broadcast::Groups && broadcast != Broadcast::Columns;
  const DequantizeDescriptor d{shape, codes, row.element, granularity, scale_element, false};
  const FakeQuantizeDescriptor f{shape, q_min, q_max, row.element, granularity, form, scale_element, false, row.terms};
  switch (formula) {
    case Formula::Quantize:
      c.select = forward(QuantizeOp{}, q);
      break;
    case Formula::Dequantize:
      c.select = forward(DequantizeOp{}, d);
      break;
    case Formula::FakeQuantize:
      c.select = forward(FakeQuantizeOp{}, f);
      break;
    case Formula::QuantizeBackward:
      c.select = [=](const Stream& stream, const PlanPreference& preference) {
        return bind<QuantizeBackwardOp>(stream, preference, q, [=](const Tensors& t) {
          return QuantizeBackwardArgs{t[x], scale(t), zero_point(t), t[dy], t[y]};
        });
      };
      break;
    case Formula::DequantizeBackward:
      c.select = [=](const Stream& stream, const PlanPreference& preference) {
        return bind<DequantizeBackwardOp>(stream, preference, d, [=](const Tensors& t) {
          return DequantizeBackwardArgs{scale(t), t[x], t[y]};
        });
      };
      break;
    case Formula::FakeQuantizeBackward:
      c.select = [=, terms = row.terms](const Stream& stream, const PlanPreference& preference) {
        return bind<FakeQuantizeBackwardOp>(stream, preference, f, [=](const Tensors& t) {
          const auto wanted = [&](std::size_t i) { return terms ? std::optional<AnyTensorMut>(t[i]) : std::nullopt; };
          return FakeQuantizeBackwardArgs{t[x], scale(t), zero_point(t), t[dy], t[y], wanted(ds), wanted(dz), 0.5};
        });
      };
      break;
    case Formula::Range:
    case Formula::ColumnRanges:
    case Formula::DynamicRows:
      break;
  }
  return c;
}

/// Dynamic range: mode, integer codes and the scale's kind change with the scope, so that all meet all instruction
/// sets.
OpCase dynamic_range_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast) {
  const int which = static_cast<int>(broadcast);
  const bool integers = !row.aux_element;
  const bool asymmetric = integers && which % 2 == 1;
  DynamicRangeQuantizeDescriptor d;
  d.shape = shape;
  d.mode = asymmetric ? DynamicRangeMode::Asymmetric : DynamicRangeMode::Symmetric;
  d.scope = granularity_for(shape, broadcast);
  d.input_element = row.element;
  d.output_element = row.aux_element.value_or(which % 3 == 0 ? ElementKind::U8 : ElementKind::S8);
  const auto [lowest, highest] = quantize::limits_of(d.output_element);
  d.q_min = lowest;
  d.q_max = highest;
  d.zero_in_range = which != 7;
  d.scale_element = which >= 4 ? row.element : compute_of(row.element);
  const Shape segments = qparams_shape(shape, d.scope);
  // Codes that nobody sums are stored non-temporally by another way: those of the first axis' channels.
  const bool sums = integers && d.scope != Granularity(PerTensor{}) && broadcast != Broadcast::FirstChannel &&
                    shape[shape.rank() - 1] < 1 << 20;
  OpCase c;
  c.unit = kScale;
  c.tensors = {{"input", row.element, shape, false},
               {"scale", *d.scale_element, segments, true, Values::Ordinary, true},
               {"output", d.output_element, shape, true, Values::Ordinary, true},
               {"zero_point", ElementKind::S32, segments, true, Values::Ordinary, true}};
  if (sums) c.tensors.push_back({"row_sum", ElementKind::S32, segments, true, Values::Ordinary, true});
  c.select = [d, sums](const Stream& stream, const PlanPreference& preference) {
    return bind<DynamicRangeQuantizeOp>(stream, preference, d, [sums](const Tensors& t) {
      return DynamicRangeQuantizeArgs{t[0], t[1], t[2], t[3], sums ? std::optional<AnyTensorMut>(t[4]) : std::nullopt};
    });
  };
  return c;
}

OpCase binary_param_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast) {
  const bool tensor_weight = row.variant == 1;
  const Shape small = broadcast_shape(shape, broadcast);
  BinaryParamDescriptor d;
  d.kind = static_cast<BinaryKind>(row.op);
  d.shape = shape;
  d.element = row.element;
  d.param = kWeight;
  d.b_shape = small;
  if (tensor_weight) d.weight_shape = small;
  const auto optional = [](const Tensors& t, bool present, int i) {
    return present ? std::optional<AnyTensorMut>(t[static_cast<std::size_t>(i)]) : std::nullopt;
  };

  OpCase c;
  c.unit = 0.01;
  if (!row.backward) {
    c.tensors = {{"a", row.element, shape, false}, {"b", row.element, small, false}};
    if (tensor_weight) c.tensors.push_back({"weight", row.element, small, false});
    c.tensors.push_back({"y", row.element, shape, true});
    c.select = [=](const Stream& s, const PlanPreference& p) {
      return bind<BinaryParamOp>(s, p, d, [=](const Tensors& t) {
        return BinaryParamArgs{t[0], t[1], optional(t, tensor_weight, 2), t.back()};
      });
    };
    return c;
  }
  c.tensors = {{"dy", row.element, shape, false}};
  if (tensor_weight) {
    c.tensors.push_back({"a", row.element, shape, false});
    c.tensors.push_back({"b", row.element, small, false});
    c.tensors.push_back({"weight", row.element, small, false});
  }
  c.tensors.push_back({"da", row.element, shape, true});
  c.tensors.push_back({"db", row.element, small, true});
  if (tensor_weight) c.tensors.push_back({"d_weight", row.element, small, true});
  c.select = [=](const Stream& s, const PlanPreference& p) {
    return bind<BinaryParamBackwardOp>(s, p, d, [=](const Tensors& t) {
      const int first = tensor_weight ? 4 : 1;
      return BinaryParamBackwardArgs{t[0],
                                     optional(t, tensor_weight, 1),
                                     optional(t, tensor_weight, 2),
                                     optional(t, tensor_weight, 3),
                                     optional(t, true, first),
                                     optional(t, true, first + 1),
                                     optional(t, tensor_weight, first + 2)};
    });
  };
  return c;
}

/// How a case scans, and in which segments.
struct ScanWay {
  int axis;
  bool reverse;
  bool exclusive;
  std::optional<ElementKind> offset_element;
  std::vector<std::int64_t> offsets;

  ScanWay(const Shape& shape, Broadcast broadcast, const std::vector<std::int64_t>& given) {
    const Broadcast plain = of_one_segment(broadcast).value_or(broadcast);
    const bool first_axis = plain == Broadcast::Columns || plain == Broadcast::FirstChannel;
    axis = first_axis ? 0 : plain == Broadcast::Middle ? shape.rank() / 2 : shape.rank() - 1;
    reverse = plain == Broadcast::Rows || plain == Broadcast::Scalar || plain == Broadcast::FirstChannel;
    exclusive = plain == Broadcast::Scalar || plain == Broadcast::Columns;
    if (plain == broadcast) return;
    offset_element = plain == Broadcast::Scalar ? ElementKind::S32 : ElementKind::S64;
    offsets = given.empty() ? ragged_offsets(shape[axis]) : given;
  }

  std::int64_t segments() const { return offset_element ? std::ssize(offsets) - 1 : 0; }
  /// Of initial states.
  Shape start_shape(Shape shape) const {
    shape[axis] = offset_element ? segments() : 1;
    return shape;
  }
  /// The offsets as the last tensor of a case, if there are any.
  void add_offsets(OpCase& c) const {
    if (!offset_element) return;
    TensorSpec spec{"offsets", *offset_element, {std::ssize(offsets)}, false, Values::Offsets};
    spec.offsets = offsets;
    c.tensors.push_back(spec);
  }
};

/// The offsets among a case's tensors.
template <class Descriptor>
std::optional<AnyTensorRef> offsets_in(const Descriptor& d, const Tensors& tensors) {
  return d.offset_element ? std::optional<AnyTensorRef>(tensors.back()) : std::nullopt;
}

LinearRecurrenceDescriptor recurrence_of(const cpu::KernelRow& row, const Shape& shape, const ScanWay& way) {
  return {shape, way.axis, way.reverse, row.element, row.variant == 1, way.offset_element, way.segments()};
}

OpCase linear_recurrence_case(const cpu::KernelRow& row, const Shape& shape, const ScanWay& way) {
  const LinearRecurrenceDescriptor d = recurrence_of(row, shape, way);
  OpCase c;
  c.unit = 1;
  c.tensors = {{"a", row.element, shape, false, Values::Factors}, {"b", row.element, shape, false, Values::Factors}};
  if (d.initial) c.tensors.push_back({"initial", row.element, way.start_shape(shape), false, Values::Factors});
  c.tensors.push_back({"h", row.element, shape, true});
  way.add_offsets(c);
  c.select = [d](const Stream& stream, const PlanPreference& preference) {
    return bind<LinearRecurrenceOp>(stream, preference, d, [d](const Tensors& t) {
      const auto start = d.initial ? std::optional<AnyTensorRef>(t[2]) : std::nullopt;
      LinearRecurrenceArgs args{t[0], t[1], start, t[d.initial ? 3 : 2]};
      args.offsets = offsets_in(d, t);
      return args;
    });
  };
  return c;
}

OpCase linear_recurrence_backward_case(const cpu::KernelRow& row, const Shape& shape, const ScanWay& way) {
  const LinearRecurrenceDescriptor d = recurrence_of(row, shape, way);
  OpCase c;
  c.unit = 1;
  for (const char* name : {"dh", "a", "h"}) c.tensors.push_back({name, row.element, shape, false, Values::Factors});
  c.tensors.push_back({"da", row.element, shape, true});
  c.tensors.push_back({"db", row.element, shape, true});
  if (d.initial) {
    const Shape start = way.start_shape(shape);
    c.tensors.push_back({"initial", row.element, start, false, Values::Factors});
    c.tensors.push_back({"d_initial", row.element, start, true, Values::Ordinary, true});
  }
  way.add_offsets(c);
  c.select = [d](const Stream& stream, const PlanPreference& preference) {
    return bind<LinearRecurrenceBackwardOp>(stream, preference, d, [d](const Tensors& t) {
      LinearRecurrenceBackwardArgs args{t[0], t[1], t[2], {}, t[3], t[4], {}};
      if (d.initial) {
        args.initial = t[5];
        args.d_initial = t[6];
      }
      args.offsets = offsets_in(d, t);
      return args;
    });
  };
  return c;
}

Values scanned_values(ScanKind kind) {
  if (kind == ScanKind::LogCumsumExp) return Values::Exponents;
  return scan::is_extremum(kind) ? Values::Levels : Values::Factors;
}

OpCase scan_backward_case(const cpu::KernelRow& row, const ScanDescriptor& d, const ScanWay& way) {
  OpCase c;
  c.unit = 1;
  const bool exponential = d.kind == ScanKind::LogCumsumExp;
  c.tensors = {{"dy", row.element, d.input_shape, false, exponential ? Values::Exponents : Values::Factors},
               {"x", row.element, d.input_shape, false, scanned_values(d.kind)},
               {"y", row.element, d.input_shape, false, exponential ? Values::Exponents : Values::Factors},
               {"dx", row.element, d.input_shape, true}};
  if (d.index_element) {
    c.tensors.push_back({"indices", *d.index_element, d.input_shape, false, Values::Winners, false, d.scan_axis,
                         d.reverse, way.offsets});
  }
  way.add_offsets(c);
  c.select = [d](const Stream& stream, const PlanPreference& preference) {
    return bind<ScanBackwardOp>(stream, preference, d, [d](const Tensors& t) {
      const auto indices = d.index_element ? std::optional<AnyTensorRef>(t[4]) : std::nullopt;
      return ScanBackwardArgs{t[0], t[3], t[1], t[2], indices, offsets_in(d, t)};
    });
  };
  return c;
}

OpCase scan_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast,
                 const std::vector<std::int64_t>& offsets) {
  const auto kind = static_cast<ScanKind>(row.op);
  const ScanWay way(shape, broadcast, offsets);
  if (kind == ScanKind::LinearRecurrence) {
    return row.backward ? linear_recurrence_backward_case(row, shape, way) : linear_recurrence_case(row, shape, way);
  }
  ScanDescriptor d{.kind = kind, .input_shape = shape, .scan_axis = way.axis, .reverse = way.reverse};
  d.element = row.element;
  d.exclusive = way.exclusive && !scan::is_extremum(kind);
  d.ties = static_cast<ScanTies>(row.variant);
  d.index_element = row.aux_element;
  d.offset_element = way.offset_element;
  d.segments = way.segments();
  if (row.backward) return scan_backward_case(row, d, way);
  OpCase c;
  c.unit = 1;
  c.tensors = {{"x", row.element, shape, false, scanned_values(kind)}, {"y", row.element, shape, true}};
  if (d.index_element) c.tensors.push_back({"indices", *d.index_element, shape, true, Values::Ordinary, true});
  way.add_offsets(c);
  c.select = [d](const Stream& stream, const PlanPreference& preference) {
    return bind<ScanOp>(stream, preference, d, [d](const Tensors& t) {
      ScanArgs args{t[0], t[1], d.index_element ? std::optional<AnyTensorMut>(t[2]) : std::nullopt};
      args.offsets = offsets_in(d, t);
      return args;
    });
  };
  return c;
}

}  // namespace

std::vector<std::int64_t> ragged_offsets(std::int64_t length) {
  std::vector<std::int64_t> offsets{0, 0};  // an empty one comes first,
  for (const std::int64_t n : {1, 9, 7, 8, 0, 2, 65, 63, 64, 0, 513, 511, 512, 4095, 4097, 4096}) {
    if (offsets.back() + n <= length / 2 + 1 && offsets.back() + n <= length) offsets.push_back(offsets.back() + n);
  }
  offsets.insert(offsets.end(), {length, length});  // and last
  return offsets;
}

std::optional<Broadcast> of_one_segment(Broadcast broadcast) {
  switch (broadcast) {
    case Broadcast::Ragged:
      return Broadcast::None;
    case Broadcast::RaggedScalar:
      return Broadcast::Scalar;
    case Broadcast::RaggedFirstChannel:
      return Broadcast::FirstChannel;
    default:
      return std::nullopt;
  }
}

std::vector<ArchSku> archs_here() {
  std::vector<ArchSku> archs;
  for (const ArchSku arch : cpu::known_archs()) {
    if (cpu::supported(arch)) archs.push_back(arch);
  }
  return archs;
}

ArchSku plainest_arch() { return archs_here().back(); }

std::vector<cpu::KernelRow> kernel_list() {
  const ArchSku arch = plainest_arch();
  std::vector<cpu::KernelRow> list;
  const auto add = [&](std::span<const cpu::KernelRow> rows) {
    for (const cpu::KernelRow& row : rows) {
      // Dynamic-range quantisation runs all of its steps: one row stands for it with integer codes, and one for each
      // kind of float codes.
      const bool step = row.category == OpCategory::Quantization && is_dynamic_range(row) &&
                        row.op != static_cast<std::int32_t>(quantize::Formula::Range) &&
                        !(row.aux_element && is_float_code(*row.aux_element));
      if (!step) list.push_back(row);
    }
  };
  for (const ElementInfo& element : kElements) {
    numerics::with_float(element.kind, [&]<class T>(T) {
      add(cpu::quantize_kernels<T>(arch));
      add(cpu::dynamic_range_kernels<T>(arch));
    });
  }
  add(cpu::binary_param_kernels(arch));
  for (const ElementInfo& element : kElements) {
    scan::with_element(element.kind, [&]<class T>(T) { add(cpu::scan_kernels<T>(arch)); });
  }
  return list;
}

std::string name_of_scan(const cpu::KernelRow& row) {
  const auto kind = static_cast<ScanKind>(row.op);
  std::string name(to_string(kind));
  if (row.backward) name += "Backward";
  name += '_';
  name += to_string(row.element);
  if (row.variant == 1) name += scan::is_extremum(kind) ? "_last" : "_initial";
  if (row.aux_element) name.append("_").append(to_string(*row.aux_element));
  return name;
}

std::string name_of(const cpu::KernelRow& row) {
  if (row.category == OpCategory::Scan) return name_of_scan(row);
  const bool quantization = row.category == OpCategory::Quantization;
  constexpr const char* kFormulas[] = {"Quantize",     "QuantizeBackward",     "Dequantize",  "DequantizeBackward",
                                       "FakeQuantize", "FakeQuantizeBackward", "DynamicRange"};
  const auto formula = std::min(row.op, static_cast<std::int32_t>(quantize::Formula::Range));
  std::string name(quantization ? kFormulas[formula] : to_string(static_cast<BinaryKind>(row.op)));
  if (!quantization && row.backward) name += "Backward";
  name += '_';
  name += to_string(row.element);
  if (row.aux_element) name.append("_").append(to_string(*row.aux_element));
  if (quantization) {
    if (quantize::form_of(row.variant) == ScaleForm::Reciprocal) name += "_reciprocal";
    const auto from = quantize::qparams_from(row.variant);
    if (from == quantize::QParamsFrom::Operands) name += "_segments";
    if (from == quantize::QParamsFrom::NarrowOperands) name += "_segments16";
  } else {
    name += row.variant == 1 ? "_tensor_weight" : "_scalar_weight";
  }
  if (row.terms) name += "_summed";
  return name;
}

OpCase make_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast,
                 const std::vector<std::int64_t>& offsets) {
  if (row.category == OpCategory::BinaryElementwise) return binary_param_case(row, shape, broadcast);
  if (row.category == OpCategory::Scan) return scan_case(row, shape, broadcast, offsets);
  if (is_dynamic_range(row)) return dynamic_range_case(row, shape, broadcast);
  return quantize_case(row, shape, broadcast);
}

void fill(TestTensor& tensor, const TensorSpec& spec, std::uint64_t seed, double unit, bool ordinary) {
  switch (spec.values) {
    case Values::Scales:
      return tensor.fill_scales(seed, unit);
    case Values::ZeroPoints:
      return tensor.fill_zero_points(seed);
    case Values::Factors:
      return tensor.fill_factors(seed, false);
    case Values::Levels:
      return tensor.fill_factors(seed, true);
    case Values::Exponents:
      return ordinary ? tensor.fill_ordinary(seed, unit / 10) : tensor.fill_exponents(seed);
    case Values::Winners:
      return tensor.fill_winners(seed, spec.axis, spec.reverse, spec.offsets);
    case Values::Offsets:
      return tensor.fill_numbers(spec.offsets);
    case Values::Ordinary:
      return ordinary ? tensor.fill_ordinary(seed, unit) : tensor.fill(seed, unit);
  }
}

std::vector<Broadcast> quantize_segments(const cpu::KernelRow& row, const Shape& shape) {
  const auto from = quantize::qparams_from(row.variant);
  const bool dynamic = is_dynamic_range(row);
  if (from == quantize::QParamsFrom::Run && !dynamic) return {Broadcast::None};
  std::vector<Broadcast> all;
  if (dynamic) all.push_back(Broadcast::Scalar);
  // Per tensor only the sums of a number's gradients go through these kernels.
  if (row.terms) all.push_back(Broadcast::Scalar);
  if (shape.rank() == 0) return all;
  all.insert(all.end(), {Broadcast::Rows, Broadcast::Columns, Broadcast::Groups, Broadcast::OuterGroups});
  if (shape.rank() > 1) all.push_back(Broadcast::FirstChannel);
  if (shape.rank() > 2) all.push_back(Broadcast::Middle);
  return all;
}

std::vector<Broadcast> scan_axes(const Shape& shape) {
  if (shape.rank() == 0) return {};
  std::vector<Broadcast> all{Broadcast::None, Broadcast::Rows, Broadcast::Scalar};
  if (shape.rank() > 1) all.insert(all.end(), {Broadcast::Columns, Broadcast::FirstChannel});
  if (shape.rank() > 2) all.push_back(Broadcast::Middle);
  all.insert(all.end(),
             {shape.rank() > 1 ? Broadcast::RaggedFirstChannel : Broadcast::Ragged, Broadcast::RaggedScalar});
  return all;
}

std::vector<Broadcast> broadcasts_for(const cpu::KernelRow& row, const Shape& shape) {
  if (row.category == OpCategory::Quantization) return quantize_segments(row, shape);
  if (row.category == OpCategory::Scan) return scan_axes(shape);
  if (row.backward && !row.terms) return {Broadcast::None};
  std::vector<Broadcast> all{Broadcast::Scalar};
  if (shape.rank() > 1) all.insert(all.end(), {Broadcast::Rows, Broadcast::Columns});
  if (shape.rank() > 2) all.push_back(Broadcast::Middle);
  if (!row.terms) all.push_back(Broadcast::None);
  return all;
}

}  // namespace planck::test
