#include "quantize/quantizer.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

// The slots of a worker's memory.
enum Slot : std::size_t { kInput, kCodes, kScales, kZeroPoints, kRestored, kWorkspace, kWide, kWideRestored };

template <class T>
T must(const Result<T>& result) {
  if (!result) throw Failure(ExitCode::Refused, result.error().c_str());
  if constexpr (!std::is_void_v<T>) return *result;
}

/// Runs a plan with a workspace of at most a piece.
template <class Plan>
void run_plan(const typename Plan::Descriptor& descriptor, const typename Plan::Args& args, Scratch& scratch) {
  const Stream stream = Stream::cpu(1);
  PlanPreference preference;
  preference.max_workspace_bytes = static_cast<std::size_t>(kPieceBytes);
  const Plan plan = must(Plan::select(stream, descriptor, preference));
  const std::size_t bytes = plan.workspace_size();
  must(plan.run(stream, {bytes > 0 ? scratch.slot(kWorkspace, bytes) : nullptr, bytes}, args));
}

}  // namespace

/// Elements [count, length, inner] in memory, with their codes and the scales of [count, inner].
struct Quantizer::Piece {
  Shape shape;
  Shape scale_shape;
  Granularity scope;
  ElementKind element = ElementKind::F32;
  std::int64_t elements = 0;
  std::int64_t first_element = 0;  ///< in the tensor
  std::int64_t first_segment = 0;
  std::int64_t segments = 0;
  std::byte* input = nullptr;
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;
  std::int32_t* zero_points = nullptr;
  bool writes_scales = true;
};

QuantizedSums Quantizer::measure(const Piece& piece, Scratch& scratch) const {
  const ElementKind element = piece.element;
  const auto bytes = static_cast<std::size_t>(piece.elements * size_of(element));
  std::byte* restored = scratch.slot(kRestored, bytes);
  DequantizeDescriptor back;
  back.shape = piece.shape;
  back.input_element = settings_.codes;
  back.output_element = element;
  back.scope = piece.scope;
  back.scale_element = element;
  back.trust_qparams = true;
  DequantizeArgs args;
  args.input = AnyTensorRef::contiguous(piece.codes, settings_.codes, piece.shape);
  args.scale = ScaleArg(AnyTensorRef::contiguous(piece.scales, element, piece.scale_shape));
  if (!settings_.symmetric)
    args.zero_point = ZeroPointArg(AnyTensorRef::contiguous(piece.zero_points, ElementKind::S32, piece.scale_shape));
  args.output = AnyTensorMut::contiguous(restored, element, piece.shape);
  run_plan<DequantizePlan<>>(back, args, scratch);

  QuantizedSums sums;
  const auto count = static_cast<std::size_t>(piece.elements);
  const auto add = [&]<class C>(C) {
    const auto wide = [&](const std::byte* from, Slot slot) {
      if (element == element_of<C>) return std::span(reinterpret_cast<const C*>(from), count);
      const std::span<C> to(reinterpret_cast<C*>(scratch.slot(slot, count * sizeof(C))), count);
      widen(element, from, to);
      return std::span<const C>(to);
    };
    const std::span<const C> x = wide(piece.input, kWide);
    sums.range = range_of(x);
    sums.errors = errors_of(x, wide(restored, kWideRestored));
  };
  widens_to_f32(element) ? add(float{}) : add(double{});
  if (piece.writes_scales) {
    std::vector<double> scales(static_cast<std::size_t>(piece.segments));
    widen(element, piece.scales, std::span(scales));
    sums.scales = range_of(std::span<const double>(scales));
  }
  return sums;
}

void Quantizer::write(const QuantizeJob& job, const Piece& piece) const {
  const auto put = [&](const void* data, std::int64_t bytes, std::uint64_t at) {
    job.output->write(std::span(static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)), at);
  };
  const auto element = static_cast<std::int64_t>(size_of(piece.element));
  put(piece.codes, piece.elements, job.codes_at + static_cast<std::uint64_t>(piece.first_element));
  if (!piece.writes_scales) return;
  put(piece.scales, piece.segments * element, job.scale_at + static_cast<std::uint64_t>(piece.first_segment * element));
  if (settings_.symmetric) return;
  // A zero point fits the codes' type, because every range holds 0.
  std::vector<std::uint8_t> narrow(static_cast<std::size_t>(piece.segments));
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<std::uint8_t>(piece.zero_points[i]);
  put(narrow.data(), piece.segments, job.zero_point_at + static_cast<std::uint64_t>(piece.first_segment));
}

QuantizedSums Quantizer::whole_segments(const QuantizeJob& job, const Segments& segments, std::int64_t first,
                                        std::int64_t count, Scratch& scratch) const {
  Piece piece;
  piece.element = *job.tensor->dtype.kind;
  const std::int64_t unit = segments.length * segments.inner;
  piece.elements = count * unit;
  piece.first_element = first * unit;
  piece.segments = count * segments.inner;
  piece.first_segment = first * segments.inner;
  if (segments.inner == 1) {
    piece.shape = {count, segments.length};
    piece.scale_shape = {count};
    piece.scope = PerToken{};
  } else {
    piece.shape = {count, segments.length, segments.inner};
    piece.scale_shape = {count, 1, segments.inner};
    piece.scope = PerGroup{1, segments.length};
  }
  const std::int64_t element = size_of(piece.element);
  const auto bytes = static_cast<std::size_t>(piece.elements * element);
  piece.input = scratch.slot(kInput, bytes);
  piece.codes = scratch.slot(kCodes, static_cast<std::size_t>(piece.elements));
  piece.scales = scratch.slot(kScales, static_cast<std::size_t>(piece.segments * element));
  piece.zero_points =
      reinterpret_cast<std::int32_t*>(scratch.slot(kZeroPoints, static_cast<std::size_t>(piece.segments) * 4));
  const std::uint64_t at = job.tensor->begin + static_cast<std::uint64_t>(piece.first_element * element);
  job.input->will_read(at + kReadAhead, bytes);
  job.input->read({piece.input, bytes}, at);

  DynamicRangeQuantizeDescriptor what;
  what.shape = piece.shape;
  what.q_min = settings_.q_min();
  what.q_max = settings_.q_max();
  what.mode = settings_.symmetric ? DynamicRangeMode::Symmetric : DynamicRangeMode::Asymmetric;
  what.scope = piece.scope;
  what.input_element = piece.element;
  what.output_element = settings_.codes;
  what.scale_element = piece.element;
  DynamicRangeQuantizeArgs args;
  args.input = AnyTensorRef::contiguous(piece.input, piece.element, piece.shape);
  args.scale_out = AnyTensorMut::contiguous(piece.scales, piece.element, piece.scale_shape);
  args.output = AnyTensorMut::contiguous(piece.codes, settings_.codes, piece.shape);
  if (!settings_.symmetric)
    args.zero_point_out = AnyTensorMut::contiguous(piece.zero_points, ElementKind::S32, piece.scale_shape);
  run_plan<DynamicRangeQuantizePlan<>>(what, args, scratch);
  write(job, piece);
  advance_(bytes);
  return measure(piece, scratch);
}

/// The ranges of `inner` segments that do not fit a piece, then their codes. Ranges are kept as elements of the tensor,
/// row 0 the smallest and row 1 the largest, so that the plan that turns ranges into scales sees numbers of the tensor.
QuantizedSums Quantizer::long_segment(const QuantizeJob& job, const Segments& segments, std::int64_t index) {
  const ElementKind element = *job.tensor->dtype.kind;
  const std::int64_t size = size_of(element);
  const std::int64_t inner = segments.inner;
  const std::int64_t rows = inner == 1 ? kPieceBytes / size : std::max<std::int64_t>(1, kPieceBytes / (inner * size));
  const std::int64_t pieces = (segments.length + rows - 1) / rows;
  const auto start = [&](std::int64_t piece) { return (index * segments.length + piece * rows) * inner; };
  const auto rows_of = [&](std::int64_t piece) { return std::min(rows, segments.length - piece * rows); };
  const auto read = [&](std::int64_t piece, Scratch& scratch) {
    const auto bytes = static_cast<std::size_t>(rows_of(piece) * inner * size);
    std::byte* memory = scratch.slot(kInput, bytes);
    const std::uint64_t at = job.tensor->begin + static_cast<std::uint64_t>(start(piece) * size);
    job.input->will_read(at + kReadAhead, bytes);
    job.input->read({memory, bytes}, at);
    advance_(bytes / 2);  // it is read twice
    return memory;
  };

  std::vector<RangeSums> ranges(static_cast<std::size_t>(inner));
  std::mutex mutex;
  workers_.for_each(pieces, [&](int worker, std::int64_t p) {
    Scratch& scratch = workers_.scratch(worker);
    const std::byte* memory = read(p, scratch);
    const auto count = static_cast<std::size_t>(rows_of(p) * inner);
    const std::span<double> wide(reinterpret_cast<double*>(scratch.slot(kWide, count * sizeof(double))), count);
    widen(element, memory, wide);
    std::vector<RangeSums> own(static_cast<std::size_t>(inner));
    if (inner == 1) {
      own[0] = range_of(std::span<const double>(wide));
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        RangeSums& range = own[i % own.size()];
        if (!std::isfinite(wide[i])) ++range.nans;
        range.min = std::min(range.min, std::isfinite(wide[i]) ? wide[i] : range.min);
        range.max = std::max(range.max, std::isfinite(wide[i]) ? wide[i] : range.max);
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < own.size(); ++i) ranges[i].merge(own[i]);
  });

  std::vector<std::byte> bounds(static_cast<std::size_t>(2 * inner * size));
  for (std::int64_t i = 0; i < 2 * inner; ++i) {
    const RangeSums& range = ranges[static_cast<std::size_t>(i % inner)];
    const double bound = !range.any() ? 0 : i < inner ? range.min : range.max;
    const auto store = [&](auto value) { std::memcpy(bounds.data() + i * size, &value, sizeof value); };
    switch (element) {
      case ElementKind::F16:
        store(f16(bound));
        break;
      case ElementKind::Bf16:
        store(bf16(bound));
        break;
      case ElementKind::F32:
        store(static_cast<float>(bound));
        break;
      default:
        store(bound);
    }
  }
  std::vector<std::byte> scales(static_cast<std::size_t>(inner * size));
  std::vector<std::int32_t> zero_points(static_cast<std::size_t>(inner));
  DynamicRangeQuantizeDescriptor range;
  range.shape = {2, inner};
  range.q_min = settings_.q_min();
  range.q_max = settings_.q_max();
  range.mode = settings_.symmetric ? DynamicRangeMode::Symmetric : DynamicRangeMode::Asymmetric;
  range.scope = PerChannel{1};
  range.input_element = element;
  range.output_element = settings_.codes;
  range.scale_element = element;
  range.qparams_only = true;
  DynamicRangeQuantizeArgs range_args;
  range_args.input = AnyTensorRef::of(bounds.data(), element, {2, inner});
  range_args.scale = AnyTensorMut::of(scales.data(), element, {inner});
  if (!settings_.symmetric) range_args.zero_point = AnyTensorMut::of(zero_points.data(), ElementKind::S32, {inner});
  run_plan<DynamicRangeQuantizePlan<>>(range, range_args, workers_.scratch(0));

  std::vector<QuantizedSums> sums(static_cast<std::size_t>(pieces));
  workers_.for_each(pieces, [&](int worker, std::int64_t p) {
    Scratch& scratch = workers_.scratch(worker);
    Piece piece;
    piece.element = element;
    piece.elements = rows_of(p) * inner;
    piece.first_element = start(p);
    piece.segments = inner;
    piece.first_segment = index * inner;
    piece.shape = {rows_of(p), inner};
    piece.scale_shape = {inner};
    piece.scope = PerChannel{1};
    if (inner == 1) {
      piece.shape = {rows_of(p)};
      piece.scale_shape = Shape();
      piece.scope = PerTensor{};
    }
    piece.input = read(p, scratch);
    piece.codes = scratch.slot(kCodes, static_cast<std::size_t>(piece.elements));
    piece.scales = scales.data();
    piece.zero_points = zero_points.data();
    piece.writes_scales = p == 0;
    QuantizeDescriptor what;
    what.shape = piece.shape;
    what.q_min = settings_.q_min();
    what.q_max = settings_.q_max();
    what.input_element = element;
    what.output_element = settings_.codes;
    what.scope = piece.scope;
    what.scale_element = element;
    QuantizeArgs args;
    args.input = AnyTensorRef::contiguous(piece.input, element, piece.shape);
    args.scale = ScaleArg(AnyTensorRef::contiguous(piece.scales, element, piece.scale_shape));
    if (!settings_.symmetric)
      args.zero_point = ZeroPointArg(AnyTensorRef::contiguous(piece.zero_points, ElementKind::S32, piece.scale_shape));
    args.output = AnyTensorMut::contiguous(piece.codes, settings_.codes, piece.shape);
    run_plan<QuantizePlan<>>(what, args, scratch);
    write(job, piece);
    sums[static_cast<std::size_t>(p)] = measure(piece, scratch);
  });
  QuantizedSums total;
  for (const QuantizedSums& each : sums) total.merge(each);
  return total;
}

QuantizedSums Quantizer::run(const QuantizeJob& job) {
  const Segments segments = segments_of(*job.tensor, settings_);
  const std::int64_t unit_bytes = segments.length * segments.inner * (job.tensor->dtype.bits / 8);
  QuantizedSums total;
  if (unit_bytes <= kPieceBytes) {
    const std::int64_t units = kPieceBytes / unit_bytes;
    const std::int64_t pieces = (segments.outer + units - 1) / units;
    std::vector<QuantizedSums> sums(static_cast<std::size_t>(pieces));
    workers_.for_each(pieces, [&](int worker, std::int64_t p) {
      const std::int64_t count = std::min(units, segments.outer - p * units);
      sums[static_cast<std::size_t>(p)] = whole_segments(job, segments, p * units, count, workers_.scratch(worker));
    });
    for (const QuantizedSums& each : sums) total.merge(each);
  } else {
    for (std::int64_t i = 0; i < segments.outer; ++i) total.merge(long_segment(job, segments, i));
  }
  if (total.range.nans + total.range.infinities > 0) {
    throw Failure(
        ExitCode::Refused,
        text("tensor ", in_quotes(job.tensor->name), " holds ", total.range.nans, " NaN and ", total.range.infinities,
             " infinite elements, which no code can stand for; leave it out with --exclude"));
  }
  job.output->start_writing(job.codes_at, static_cast<std::uint64_t>(job.tensor->elements));
  return total;
}

}  // namespace planck::cli
