#include "quantize/stored.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <type_traits>

#include "checkpoint/copy.hpp"
#include "planck/planck.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

[[noreturn]] void bad(const TensorInfo& tensor, const std::string& what) {
  throw Failure(ExitCode::BadFile, text("tensor ", in_quotes(tensor.name), ": ", what));
}

/// Whether blocks of neighbours in [first, last) share a scale: axes with a scale for each index, then at most one that
/// is cut, then axes that share.
bool in_blocks(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& scales, std::size_t first,
               std::size_t last) {
  bool shared = false;
  for (std::size_t i = first; i < last; ++i) {
    if (shape[i] % scales[i] != 0 || (shared && scales[i] != 1)) return false;
    shared = shared || scales[i] != shape[i];
  }
  return true;
}

/// Scales with as many axes as a tensor of three or more, as a matrix of blocks: the tensor's axes are split in two
/// where that is possible.
bool fit_axes(StoredTensor& stored) {
  const std::vector<std::int64_t>& shape = stored.tensor->shape;
  const std::vector<std::int64_t>& scales = stored.scale->shape;
  const auto product = [](const std::vector<std::int64_t>& extents, std::size_t first, std::size_t last) {
    return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(first),
                           extents.begin() + static_cast<std::ptrdiff_t>(last), std::int64_t{1}, std::multiplies<>());
  };
  for (std::size_t split = shape.size() - 1; split > 0; --split) {
    if (!in_blocks(shape, scales, 0, split) || !in_blocks(shape, scales, split, shape.size())) continue;
    stored.rows = product(shape, 0, split);
    stored.columns = product(shape, split, shape.size());
    stored.scale_rows = product(scales, 0, split);
    stored.scale_columns = product(scales, split, shape.size());
    return true;
  }
  return false;
}

/// Settles which elements share a scale; every extent that is divided by is at least 1.
void fit_scales(StoredTensor& stored) {
  const TensorInfo& tensor = *stored.tensor;
  const TensorInfo& scale = *stored.scale;
  if (stored.zero_point != nullptr && stored.zero_point->shape != scale.shape) {
    bad(tensor, text("zero points of shape ", shape_list(stored.zero_point->shape), " beside scales of ",
                     shape_list(scale.shape)));
  }
  if (tensor.elements == 0) return;
  stored.columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  stored.rows = tensor.elements / stored.columns;
  if (scale.elements == 1) return;
  const std::vector<std::int64_t>& shape = scale.shape;
  if (scale.elements > 0 && shape.size() > 2 && shape.size() == tensor.shape.size() && fit_axes(stored)) return;
  if (shape.size() == 1) {
    stored.scale_rows = shape[0];
  } else if (shape.size() == 2) {
    stored.scale_rows = shape[0];
    stored.scale_columns = shape[1];
  }
  if (scale.elements == 0 || shape.size() > 2 || stored.rows % stored.scale_rows != 0 ||
      stored.columns % stored.scale_columns != 0) {
    bad(tensor, text("scales of shape ", shape_list(shape), " do not fit codes of ", shape_list(tensor.shape)));
  }
}

/// "Q4_0, Q4_1, …".
std::string decoded_types() {
  std::string names;
  for (const gguf::BlockType& type : gguf::block_types()) {
    if (type.decodes()) names += text(names.empty() ? "" : ", ", type.name);
  }
  return names;
}

}  // namespace

void check_decodes(const TensorInfo& tensor) {
  if (tensor.blocks == nullptr || tensor.blocks->decodes()) return;
  throw Failure(ExitCode::Refused, text("tensor ", in_quotes(tensor.name), ": blocks of ", tensor.blocks->name,
                                        " are not decoded; ", decoded_types(), " are"));
}

std::vector<StoredTensor> stored_tensors(const Checkpoint& checkpoint) {
  std::vector<StoredTensor> all;
  std::set<const TensorInfo*> parts;
  for (std::size_t s = 0; s < checkpoint.shards.size(); ++s) {
    for (const TensorInfo& tensor : checkpoint.shards[s].header.tensors) {
      StoredTensor stored;
      stored.tensor = &tensor;
      stored.file = &checkpoint.shards[s].file;
      stored.shard = s;
      const auto part = [&](const char* suffix, const TensorInfo*& info, const File*& file) {
        const std::string name = tensor.name + suffix;
        info = checkpoint.find(name);
        if (info != nullptr) file = &checkpoint.shards[checkpoint.shard_of(name)].file;
      };
      if (tensor.dtype.kind && is_quantized(*tensor.dtype.kind) && !checkpoint.shards[s].gguf) {
        part("_scale", stored.scale, stored.scale_file);
        if (stored.scale != nullptr && !stored.scale->is_float()) stored.scale = nullptr;
      }
      if (stored.coded()) {
        part("_zero_point", stored.zero_point, stored.zero_point_file);
        if (stored.zero_point != nullptr && stored.zero_point->dtype != tensor.dtype) {
          bad(tensor, text("zero points of ", stored.zero_point->dtype.name, " beside codes of ", tensor.dtype.name));
        }
        fit_scales(stored);
        parts.insert({stored.scale, stored.zero_point});
      }
      all.push_back(stored);
    }
  }
  std::erase_if(all, [&](const StoredTensor& each) { return parts.contains(each.tensor); });
  return all;
}

const Dtype& StoredTensor::dtype() const noexcept {
  static const Dtype decoded = dtype_of(ElementKind::F32);
  if (tensor->blocks != nullptr) return decoded;
  return coded() ? scale->dtype : tensor->dtype;
}

/// Elements that are no codes, in the file's order.
void StoredTensor::load(std::int64_t first, std::int64_t count, std::byte* to, Scratch& scratch,
                        std::size_t slot) const {
  const auto place = [&](std::int64_t index, std::int64_t bytes) {
    return tensor->begin + static_cast<std::uint64_t>(index * bytes);
  };
  if (tensor->blocks == nullptr) {
    const std::int64_t size = tensor->dtype.bits / 8;
    const auto bytes = static_cast<std::size_t>(count * size);
    file->will_read(place(first, size) + kReadAhead, bytes);
    file->read({to, bytes}, place(first, size));
    return;
  }
  check_decodes(*tensor);
  const gguf::BlockType& type = *tensor->blocks;
  const std::int64_t first_block = first / type.elements;
  const std::int64_t blocks = (first + count + type.elements - 1) / type.elements - first_block;
  const auto bytes = static_cast<std::size_t>(blocks * type.bytes);
  std::byte* coded_blocks = scratch.slot(slot, bytes);
  file->will_read(place(first_block, type.bytes) + kReadAhead, bytes);
  file->read({coded_blocks, bytes}, place(first_block, type.bytes));
  if (blocks * type.elements == count) {
    type.decode(coded_blocks, blocks, reinterpret_cast<float*>(to));
    return;
  }
  std::byte* whole = scratch.slot(slot + 1, static_cast<std::size_t>(blocks * type.elements) * sizeof(float));
  type.decode(coded_blocks, blocks, reinterpret_cast<float*>(whole));
  std::memcpy(to, whole + static_cast<std::size_t>(first - first_block * type.elements) * sizeof(float),
              static_cast<std::size_t>(count) * sizeof(float));
}

void StoredTensor::load_rotary(std::int64_t first, std::int64_t count, std::byte* to, Scratch& scratch,
                               std::size_t slot) const {
  const std::int64_t size = dtype().bits / 8;
  const std::int64_t width = tensor->elements / tensor->shape.front();
  const std::int64_t head = tensor->shape.front() / rotary_heads;  // rows of one
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t row = at / width;
    const std::int64_t column = at % width;
    const std::int64_t run = std::min(width - column, first + count - at);
    const std::int64_t in_head = row % head;
    const std::int64_t from = row - in_head + in_head % (head / 2) * 2 + in_head / (head / 2);
    load(from * width + column, run, to + (at - first) * size, scratch, slot);
    at += run;
  }
}

const std::byte* StoredTensor::read(std::int64_t first, std::int64_t count, RestorePlans& plans, Scratch& scratch,
                                    std::size_t slot) const {
  const std::int64_t size = dtype().bits / 8;
  std::byte* to = scratch.slot(slot, static_cast<std::size_t>(count * size));
  if (!coded()) {
    rotary_heads > 0 ? load_rotary(first, count, to, scratch, slot + 1) : load(first, count, to, scratch, slot + 1);
    return to;
  }
  const std::int64_t band = rows / scale_rows;         // rows that share their scales
  const std::int64_t width = columns / scale_columns;  // columns that do
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t row = at / columns;
    const std::int64_t column = at % columns;
    const std::int64_t left = first + count - at;
    std::int64_t rows_now = 1;
    std::int64_t columns_now = 0;
    if (column == 0 && left >= columns) {
      rows_now = left / columns;
      if (band > 1) rows_now = std::min(rows_now, band - row % band);
      columns_now = columns;
    } else {
      // Whole groups where possible, otherwise what is left of one.
      const std::int64_t in_row = std::min(left, columns - column);
      const std::int64_t in_group = width - column % width;
      columns_now = in_group == width && in_row >= width ? in_row / width * width : std::min(in_row, in_group);
    }
    restore(at, rows_now, columns_now, to + (at - first) * size, plans, scratch, slot + 1);
    at += rows_now * columns_now;
  }
  return to;
}

void StoredTensor::restore(std::int64_t first, std::int64_t rows_now, std::int64_t columns_now, std::byte* to,
                           RestorePlans& plans, Scratch& scratch, std::size_t slot) const {
  const std::int64_t width = std::min(columns / scale_columns, columns_now);
  const std::int64_t band = rows / scale_rows;
  const std::int64_t scales_across = columns_now / width;
  const std::int64_t scales_down = band == 1 ? rows_now : 1;
  const std::int64_t count = scales_down * scales_across;
  const std::int64_t first_scale = first / columns / band * scale_columns + first % columns / (columns / scale_columns);
  const ElementKind kind = *scale->dtype.kind;
  const auto load = [](const File& from, std::uint64_t at, std::byte* memory, std::int64_t bytes) {
    from.read({memory, static_cast<std::size_t>(bytes)}, at);
  };
  std::byte* codes = scratch.slot(slot, static_cast<std::size_t>(rows_now * columns_now));
  load(*file, tensor->begin + static_cast<std::uint64_t>(first), codes, rows_now * columns_now);
  std::byte* scales = scratch.slot(slot + 1, static_cast<std::size_t>(count * size_of(kind)));
  load(*scale_file, scale->begin + static_cast<std::uint64_t>(first_scale * size_of(kind)), scales,
       count * size_of(kind));
  // The zero points' bytes, then the same numbers as s32.
  std::byte* zeros = scratch.slot(slot + 2, static_cast<std::size_t>(count * 5));
  auto* wide = reinterpret_cast<std::int32_t*>(zeros);
  if (zero_point != nullptr) {
    std::byte* narrow = zeros + count * 4;
    load(*zero_point_file, zero_point->begin + static_cast<std::uint64_t>(first_scale), narrow, count);
    with_type(TypesOf<ElementClass::Codes>(), *tensor->dtype.kind, [&]<class Q>(Q) {
      if constexpr (std::is_integral_v<Q>) {  // float codes have no zero points
        const auto widened = [](std::byte code) -> std::int32_t { return static_cast<Q>(code); };
        std::transform(narrow, narrow + count, wide, widened);
      }
    });
  }

  DequantizeDescriptor what;
  what.shape = {rows_now, columns_now};
  what.input_element = *tensor->dtype.kind;
  what.output_element = kind;
  what.scope = PerGroup{1, width};
  what.scale_element = kind;
  // Rows that share their scales see them through a stride of 0.
  const auto shared = [&](const void* data, ElementKind element) {
    AnyTensorRef view;
    view.data = data;
    view.capacity = count;
    view.element = element;
    view.shape = {rows_now, scales_across};
    view.stride = {scales_down == 1 ? 0 : scales_across, 1};
    return view;
  };
  DequantizeArgs args;
  args.input = {codes, rows_now * columns_now, 0, what.input_element, what.shape, {columns_now, 1}};
  args.scale = ScaleArg(shared(scales, kind));
  if (zero_point != nullptr) args.zero_point = ZeroPointArg(shared(wide, ElementKind::S32));
  args.output = {to, rows_now * columns_now, 0, kind, what.shape, {columns_now, 1}};
  const Result<void> ran = plans.run(what, args);
  if (!ran) bad(*tensor, ran.error().c_str());
}

}  // namespace planck::cli
