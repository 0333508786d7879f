#include "gguf/header.hpp"

#include <charconv>
#include <string>
#include <unordered_set>

#include "gguf/reader.hpp"
#include "terminal/failure.hpp"
#include "terminal/unicode.hpp"

namespace planck::cli::gguf {
namespace {

/// Items of a list that are kept, for people; the rest is only checked.
constexpr std::uint64_t kItemsShown = 4;
constexpr const char* kAlignmentKey = "general.alignment";

/// The least bytes of a key and its value, and of a tensor in the table.
constexpr std::uint64_t kLeastPair = 8 + 4 + 1;
constexpr std::uint64_t kLeastTensor = 8 + 4 + 4 + 8;

bool is_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

/// The shortest digits that give the number back.
template <class T>
std::string digits(T value) {
  std::array<char, 32> out{};
  return {out.data(), std::to_chars(out.data(), out.data() + out.size(), value).ptr};
}

template <class T>
Value read_number(Reader& in, ValueType type) {
  const T number = in.number<T>();
  Value value{type, digits(number), {}};
  if constexpr (std::is_integral_v<T>) {
    if (number >= 0) value.natural = static_cast<std::uint64_t>(number);
  }
  return value;
}

/// A value that is no list.
Value read_scalar(Reader& in, ValueType type) {
  switch (type) {
    case ValueType::U8:
      return read_number<std::uint8_t>(in, type);
    case ValueType::I8:
      return read_number<std::int8_t>(in, type);
    case ValueType::U16:
      return read_number<std::uint16_t>(in, type);
    case ValueType::I16:
      return read_number<std::int16_t>(in, type);
    case ValueType::U32:
      return read_number<std::uint32_t>(in, type);
    case ValueType::I32:
      return read_number<std::int32_t>(in, type);
    case ValueType::F32:
      return read_number<float>(in, type);
    case ValueType::U64:
      return read_number<std::uint64_t>(in, type);
    case ValueType::I64:
      return read_number<std::int64_t>(in, type);
    case ValueType::F64:
      return read_number<double>(in, type);
    case ValueType::Text:
      return {type, in.text(kMaxHeaderBytes), {}};
    case ValueType::Bool: {
      const auto byte = in.number<std::uint8_t>();
      if (byte > 1) in.bad(text("the byte ", int{byte}, " where true (1) or false (0) belongs"));
      return {type, byte == 1 ? "true" : "false", {}};
    }
    case ValueType::List:
      break;
  }
  in.bad("a list where none belongs");
}

/// Bytes of a value, or of the length in front of a text.
std::uint64_t least_bytes(ValueType type) noexcept {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool:
      return 1;
    case ValueType::U16:
    case ValueType::I16:
      return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32:
      return 4;
    default:
      return 8;
  }
}

ValueType read_type(Reader& in) {
  const auto number = in.number<std::uint32_t>();
  if (number > static_cast<std::uint32_t>(ValueType::F64)) in.bad(text("the unknown type ", number));
  return static_cast<ValueType>(number);
}

/// "3 items: 1, 2, 3": the first few are kept, the others checked as far as they can be wrong.
Value read_list(Reader& in) {
  const ValueType type = read_type(in);
  if (type == ValueType::List) in.bad("a list of lists");
  const auto count = in.number<std::uint64_t>();
  in.need_all(count, least_bytes(type), "items");
  std::string shown = text(count, count == 1 ? " item" : " items");
  for (std::uint64_t i = 0; i < std::min(count, kItemsShown); ++i) {
    shown += text(i == 0 ? ": " : ", ", read_scalar(in, type).text);
  }
  if (count > kItemsShown) shown += ", …";
  for (std::uint64_t i = kItemsShown; i < count; ++i) {
    if (type == ValueType::Text) {
      in.skip_text();
    } else if (type == ValueType::Bool) {
      read_scalar(in, type);
    } else {
      in.skip((count - i) * least_bytes(type));
      break;
    }
  }
  return {ValueType::List, std::move(shown), {}};
}

std::string read_name(Reader& in) {
  std::string name = in.text(kMaxNameBytes);
  if (!is_utf8(name)) in.bad(text(in_quotes(name), " is no UTF-8"));
  return name;
}

void read_metadata(Reader& in, std::uint64_t count, Header& header) {
  std::unordered_set<std::string> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    in.now(text("key ", i + 1, " of ", count));
    std::string key = read_name(in);
    in.now(text("the value of ", in_quotes(key)));
    if (!keys.insert(key).second) in.bad("the key occurs twice");
    const ValueType type = read_type(in);
    Value value = type == ValueType::List ? read_list(in) : read_scalar(in, type);
    if (key == kAlignmentKey) {
      const std::uint64_t alignment = value.natural.value_or(0);
      if (type != ValueType::U32) in.bad("it has another type than U32");
      if (alignment == 0 || (alignment & (alignment - 1)) != 0) in.bad(text(alignment, " is no power of two"));
      if (alignment > kMaxAlignment) in.bad(text(alignment, " is more than ", kMaxAlignment));
      header.alignment = alignment;
    }
    header.metadata.emplace_back(std::move(key), std::move(value));
  }
}

/// The extents, last one first, and what follows from them.
void read_shape(Reader& in, Tensor& tensor) {
  const auto axes = in.number<std::uint32_t>();
  if (axes > kMaxExtents) in.bad(text(axes, " axes, where at most ", kMaxExtents, " are allowed"));
  std::int64_t product = 1;
  bool empty = false;
  for (std::uint32_t axis = 0; axis < axes; ++axis) {
    const auto extent = in.number<std::uint64_t>();
    if (extent > static_cast<std::uint64_t>(INT64_MAX)) in.bad(text("the extent ", extent));
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
    empty = empty || extent == 0;
    if (extent != 0 && __builtin_mul_overflow(product, static_cast<std::int64_t>(extent), &product)) {
      in.bad(text("too many elements: the product of its extents up to ", extent, " leaves 63 bits"));
    }
  }
  tensor.elements = empty ? 0 : product;
}

void read_size(Reader& in, Tensor& tensor) {
  const auto number = in.number<std::uint32_t>();
  tensor.type = block_type(number);
  if (tensor.type == nullptr) in.bad(text("the unknown type ", number));
  const BlockType& type = *tensor.type;
  if (type.elements == 0) in.bad(text("the type ", type.name, ", which ggml has given up"));
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type.elements != 0) {
    in.bad(text("rows of ", row, " elements are no whole number of ", type.name, "'s blocks of ", type.elements));
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements / type.elements, type.bytes, &bytes)) {
    in.bad(text(tensor.elements, " elements of ", type.name, " are more bytes than 63 bits can count"));
  }
  tensor.bytes = static_cast<std::uint64_t>(bytes);
}

/// Tensors as the table has them; `begin` counts from the first one's bytes.
void read_table(Reader& in, std::uint64_t count, Header& header) {
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    in.now(text("tensor ", i + 1, " of ", count));
    Tensor& tensor = header.tensors.emplace_back();
    tensor.name = read_name(in);
    in.now(text("tensor ", in_quotes(tensor.name)));
    if (!names.insert(tensor.name).second) in.bad("the name occurs twice");
    read_shape(in, tensor);
    read_size(in, tensor);
    tensor.begin = in.number<std::uint64_t>();
  }
}

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) noexcept {
  return (offset + alignment - 1) & ~(alignment - 1);
}

/// Each tensor must lie right behind the one before it, as ggml writes and demands, and in the file.
void place_tensors(Reader& in, Header& header) {
  const std::uint64_t data_begin = aligned(in.position(), header.alignment);
  std::uint64_t end = 0;  // where the next tensor begins; below 2^64, since what lies before is in the file
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    Tensor& tensor = header.tensors[i];
    in.now(text("tensor ", in_quotes(tensor.name)));
    const std::uint64_t offset = tensor.begin;
    if (offset % header.alignment != 0) {
      in.bad(text("its offset ", offset, " is no multiple of the alignment ", header.alignment));
    }
    if (offset < end) {
      in.bad(text("its bytes from ", offset, " on overlap those of ", in_quotes(header.tensors[i - 1].name),
                  " before it, which end at ", end));
    }
    const std::uint64_t room = in.file_bytes() > data_begin ? in.file_bytes() - data_begin : 0;
    if (tensor.bytes > 0 && (offset > room || tensor.bytes > room - offset)) {
      in.bad(text("its ", tensor.bytes, " bytes from ", offset, " on leave the file, which has ", room,
                  " bytes of tensors"));
    }
    if (offset != end) in.bad(text("it begins at ", offset, "; the bytes from ", end, " on belong to no tensor"));
    tensor.begin = data_begin + offset;
    end = aligned(offset + tensor.bytes, header.alignment);
  }
}

void check_version(Reader& in, std::uint32_t version) {
  if ((version & 0xFFFF) == 0) in.bad("a big-endian file; only little-endian ones are read");
  if (version != 2 && version != 3) in.bad(text("version ", version, " of GGUF; 2 and 3 are read"));
}

}  // namespace

const Value* Header::find(std::string_view key) const noexcept {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

Header read_header(const Fetch& fetch, std::uint64_t file_bytes, const std::string& file) {
  Reader in(fetch, file_bytes, file);
  std::string magic;
  for (std::size_t i = 0; i < kMagic.size() && in.left() > 0; ++i)
    magic += static_cast<char>(in.number<std::uint8_t>());
  if (magic != kMagic) in.bad(text("no GGUF file: it begins with ", in_quotes(magic), ", not ", in_quotes(kMagic)));
  in.now("the header");
  Header header;
  header.version = in.number<std::uint32_t>();
  check_version(in, header.version);
  const auto tensors = in.number<std::uint64_t>();
  const auto pairs = in.number<std::uint64_t>();
  if (tensors > kMaxTensors) in.bad(text(tensors, " tensors, where at most ", kMaxTensors, " are allowed"));
  if (pairs > kMaxPairs) in.bad(text(pairs, " keys, where at most ", kMaxPairs, " are allowed"));
  in.need_all(pairs, kLeastPair, "keys");
  in.need_all(tensors, kLeastTensor, "tensors");
  read_metadata(in, pairs, header);
  in.now("the table of tensors");
  in.need_all(tensors, kLeastTensor, "tensors");
  read_table(in, tensors, header);
  place_tensors(in, header);
  return header;
}

}  // namespace planck::cli::gguf
