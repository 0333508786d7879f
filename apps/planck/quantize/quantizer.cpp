#include "quantize/quantizer.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

// The slots of a worker's memory.
enum Slot : std::size_t { kInput, kCodes, kScales, kZeroPoints, kRestored, kWorkspace, kWide, kWideRestored };

void must(const Result<void>& result) {
  if (!result) throw Failure(ExitCode::Refused, result.error().c_str());
}

/// A number as an element of a float kind.
void store(ElementKind element, double number, std::byte* to) {
  with_type(TypesOf<ElementClass::Float>(), element, [&]<class T>(T value) {
    value = static_cast<T>(number);
    std::memcpy(to, &value, sizeof value);
  });
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

  AnyTensorRef input_view() const { return AnyTensorRef::contiguous(input, element, shape); }
  AnyTensorMut codes_view(ElementKind kind) const { return AnyTensorMut::contiguous(codes, kind, shape); }
  AnyTensorMut scales_view() const { return AnyTensorMut::contiguous(scales, element, scale_shape); }
  AnyTensorMut zero_points_view() const { return AnyTensorMut::contiguous(zero_points, ElementKind::S32, scale_shape); }
};

/// The `inner` segments of one index of the outer axis, where they do not fit a piece: pieces are a few of their rows.
struct Quantizer::LongSegment {
  const QuantizeJob& job;
  ElementKind element;
  std::int64_t index;
  std::int64_t length;
  std::int64_t inner;
  std::int64_t rows;  ///< of a piece

  std::int64_t pieces() const noexcept { return (length + rows - 1) / rows; }
  std::int64_t rows_of(std::int64_t piece) const noexcept { return std::min(rows, length - piece * rows); }
  std::int64_t start(std::int64_t piece) const noexcept { return (index * length + piece * rows) * inner; }
};

/// Of `inner` segments.
struct Quantizer::QParams {
  std::vector<std::byte> scales;
  std::vector<std::int32_t> zero_points;
};

std::byte* Quantizer::read(const QuantizeJob& job, ElementKind element, std::int64_t first, std::int64_t count,
                           Scratch& scratch) const {
  const auto bytes = static_cast<std::size_t>(count * size_of(element));
  std::byte* memory = scratch.slot(kInput, bytes);
  const std::uint64_t at = job.tensor->begin + static_cast<std::uint64_t>(first * size_of(element));
  job.input->will_read(at + kReadAhead, bytes);
  job.input->read({memory, bytes}, at);
  return memory;
}

DynamicRangeQuantizeDescriptor Quantizer::range_descriptor(const Shape& shape, const Granularity& scope,
                                                           ElementKind element) const {
  DynamicRangeQuantizeDescriptor what;
  what.shape = shape;
  what.q_min = settings_.q_min();
  what.q_max = settings_.q_max();
  what.mode = settings_.symmetric ? DynamicRangeMode::Symmetric : DynamicRangeMode::Asymmetric;
  what.scope = scope;
  what.input_element = element;
  what.output_element = settings_.codes;
  what.scale_element = element;
  return what;
}

QuantizedSums Quantizer::measure(const Piece& piece, Scratch& scratch) {
  const ElementKind element = piece.element;
  std::byte* restored = scratch.slot(kRestored, static_cast<std::size_t>(piece.elements * size_of(element)));
  DequantizeDescriptor back;
  back.shape = piece.shape;
  back.input_element = settings_.codes;
  back.output_element = element;
  back.scope = piece.scope;
  back.scale_element = element;
  back.trust_qparams = true;
  DequantizeArgs args;
  args.input = piece.codes_view(settings_.codes);
  args.scale = ScaleArg(piece.scales_view());
  if (!settings_.symmetric) args.zero_point = ZeroPointArg(piece.zero_points_view());
  args.output = AnyTensorMut::contiguous(restored, element, piece.shape);
  must(dequantize_plans_.run(back, args, scratch, kWorkspace));

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
                                        std::int64_t count, Scratch& scratch) {
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
  const auto scales = static_cast<std::size_t>(piece.segments);
  piece.codes = scratch.slot(kCodes, static_cast<std::size_t>(piece.elements));
  piece.scales = scratch.slot(kScales, scales * static_cast<std::size_t>(element));
  piece.zero_points = reinterpret_cast<std::int32_t*>(scratch.slot(kZeroPoints, scales * sizeof(std::int32_t)));
  piece.input = read(job, piece.element, piece.first_element, piece.elements, scratch);

  DynamicRangeQuantizeArgs args;
  args.input = piece.input_view();
  args.scale_out = piece.scales_view();
  args.output = piece.codes_view(settings_.codes);
  if (!settings_.symmetric) args.zero_point_out = piece.zero_points_view();
  must(range_plans_.run(range_descriptor(piece.shape, piece.scope, piece.element), args, scratch, kWorkspace));
  write(job, piece);
  advance_(static_cast<std::uint64_t>(piece.elements * element));
  return measure(piece, scratch);
}

std::vector<RangeSums> Quantizer::ranges_of(const LongSegment& segment) {
  std::vector<RangeSums> ranges(static_cast<std::size_t>(segment.inner));
  std::mutex mutex;
  workers_.for_each(segment.pieces(), [&](int worker, std::int64_t p) {
    Scratch& scratch = workers_.scratch(worker);
    const std::int64_t elements = segment.rows_of(p) * segment.inner;
    const std::byte* memory = read(segment.job, segment.element, segment.start(p), elements, scratch);
    const auto count = static_cast<std::size_t>(elements);
    advance_(count * static_cast<std::size_t>(size_of(segment.element)) / 2);  // it is read twice
    const std::span<double> wide(reinterpret_cast<double*>(scratch.slot(kWide, count * sizeof(double))), count);
    widen(segment.element, memory, wide);
    std::vector<RangeSums> own(ranges.size());
    if (own.size() == 1) {
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
  return ranges;
}

/// The ranges become elements of the tensor, row 0 the smallest and row 1 the largest, so that the plan that turns
/// ranges into scales sees numbers of the tensor.
Quantizer::QParams Quantizer::qparams_of(ElementKind element, const std::vector<RangeSums>& ranges) {
  const auto inner = static_cast<std::int64_t>(ranges.size());
  const auto size = static_cast<std::size_t>(size_of(element));
  std::vector<std::byte> bounds(2 * ranges.size() * size);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    store(element, ranges[i].any() ? ranges[i].min : 0, bounds.data() + i * size);
    store(element, ranges[i].any() ? ranges[i].max : 0, bounds.data() + (ranges.size() + i) * size);
  }
  QParams found{std::vector<std::byte>(ranges.size() * size), std::vector<std::int32_t>(ranges.size())};
  DynamicRangeQuantizeDescriptor what = range_descriptor({2, inner}, PerChannel{1}, element);
  what.qparams_only = true;
  DynamicRangeQuantizeArgs args;
  args.input = AnyTensorRef::contiguous(bounds.data(), element, {2, inner});
  args.scale_out = AnyTensorMut::contiguous(found.scales.data(), element, {inner});
  if (!settings_.symmetric)
    args.zero_point_out = AnyTensorMut::contiguous(found.zero_points.data(), ElementKind::S32, {inner});
  must(range_plans_.run(what, args, workers_.scratch(0), kWorkspace));
  return found;
}

QuantizedSums Quantizer::code_rows(const LongSegment& segment, QParams& qparams, std::int64_t index, Scratch& scratch) {
  Piece piece;
  piece.element = segment.element;
  piece.elements = segment.rows_of(index) * segment.inner;
  piece.first_element = segment.start(index);
  piece.segments = segment.inner;
  piece.first_segment = segment.index * segment.inner;
  piece.shape = {segment.rows_of(index), segment.inner};
  piece.scale_shape = {segment.inner};
  piece.scope = PerChannel{1};
  if (segment.inner == 1) {
    piece.shape = {segment.rows_of(index)};
    piece.scale_shape = Shape();
    piece.scope = PerTensor{};
  }
  piece.input = read(segment.job, piece.element, piece.first_element, piece.elements, scratch);
  advance_(static_cast<std::uint64_t>(piece.elements * size_of(piece.element)) / 2);
  piece.codes = scratch.slot(kCodes, static_cast<std::size_t>(piece.elements));
  piece.scales = qparams.scales.data();
  piece.zero_points = qparams.zero_points.data();
  piece.writes_scales = index == 0;

  QuantizeDescriptor what;
  what.shape = piece.shape;
  what.q_min = settings_.q_min();
  what.q_max = settings_.q_max();
  what.input_element = piece.element;
  what.output_element = settings_.codes;
  what.scope = piece.scope;
  what.scale_element = piece.element;
  QuantizeArgs args;
  args.input = piece.input_view();
  args.scale = ScaleArg(piece.scales_view());
  if (!settings_.symmetric) args.zero_point = ZeroPointArg(piece.zero_points_view());
  args.output = piece.codes_view(settings_.codes);
  must(quantize_plans_.run(what, args, scratch, kWorkspace));
  write(segment.job, piece);
  return measure(piece, scratch);
}

/// The ranges of `inner` segments that do not fit a piece, then their codes.
QuantizedSums Quantizer::long_segment(const QuantizeJob& job, const Segments& segments, std::int64_t index) {
  const ElementKind element = *job.tensor->dtype.kind;
  const std::int64_t rows = std::max<std::int64_t>(1, kPieceBytes / (segments.inner * size_of(element)));
  const LongSegment segment{job, element, index, segments.length, segments.inner, rows};
  QParams qparams = qparams_of(element, ranges_of(segment));
  std::vector<QuantizedSums> sums(static_cast<std::size_t>(segment.pieces()));
  workers_.for_each(segment.pieces(), [&](int worker, std::int64_t p) {
    sums[static_cast<std::size_t>(p)] = code_rows(segment, qparams, p, workers_.scratch(worker));
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
