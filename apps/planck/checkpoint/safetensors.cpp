#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "checkpoint/json.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

/// The format's types that no element kind is.
constexpr Dtype kOtherDtypes[] = {
    {"I16", 16, {}},    {"U16", 16, {}},    {"U32", 32, {}},    {"U64", 64, {}},        {"BOOL", 8, {}},
    {"F8_E4M3", 8, {}}, {"F8_E5M2", 8, {}}, {"F8_E8M0", 8, {}}, {"F8_E4M3FNUZ", 8, {}}, {"F8_E5M2FNUZ", 8, {}},
    {"C64", 64, {}},    {"F6_E2M3", 6, {}}, {"F6_E3M2", 6, {}}, {"F4", 4, {}},
};

/// Only unknown members can be nested more than a few levels; the reference implementation reads as many.
constexpr int kMaxHeaderDepth = 127;

/// The number of elements, or nothing where the product of the extents that are not 0 leaves 64 bits.
std::optional<std::int64_t> count_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty |= extent == 0;
    if (extent != 0 && __builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return empty ? 0 : product;
}

/// Bytes of a tensor, or nothing where they leave 64 bits or are not whole.
std::optional<std::uint64_t> count_bytes(const Dtype& dtype, std::int64_t elements) {
  std::int64_t bits = 0;
  if (__builtin_mul_overflow(elements, std::int64_t{dtype.bits}, &bits) || bits % 8 != 0) return std::nullopt;
  return static_cast<std::uint64_t>(bits / 8);
}

/// Collects the header's members: {"name": {"dtype": …, "shape": […], "data_offsets": [b, e]}, "__metadata__": {…}}.
class HeaderHandler final : public JsonHandler {
 public:
  HeaderHandler(const std::string& file, std::uint64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  void begin_object() override {
    if (skips()) {
      ++skipped_;
    } else if (list_ != nullptr || ++depth_ > 2) {
      bad("an object where none belongs");
    }
  }
  void end_object() override {
    if (skipped_ > 0) {
      --skipped_;
    } else if (--depth_ == 1 && !in_metadata_) {
      finish_tensor();
    }
  }
  void begin_array() override {
    if (skips()) {
      ++skipped_;
      return;
    }
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || key_ == "dtype") bad("a list where none belongs");
    list_ = key_ == "shape" ? &shape_ : &offsets_;
    if (list_->has_value()) bad(cli::text("two members ", in_quotes(key_)));
    list_->emplace();
  }
  void end_array() override {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      list_ = nullptr;
    }
  }
  void key(std::string& name) override {
    if (skipped_ > 0) return;
    if (depth_ == 1) {
      if (!names_.insert(name).second) {
        name_ = name;
        bad("the name occurs twice");
      }
      in_metadata_ = name == kMetadataKey;
      name_ = std::move(name);
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
    } else {
      key_ = std::move(name);
    }
  }
  void text(std::string& value) override {
    if (skips()) return;
    if (depth_ == 2 && in_metadata_) {
      if (!metadata_names_.insert(key_).second) bad(cli::text("two members ", in_quotes(key_)));
      header.metadata.emplace_back(key_, std::move(value));
      return;
    }
    if (depth_ != 2 || list_ != nullptr || key_ != "dtype" || dtype_) bad("a text where none belongs");
    dtype_ = dtype_of(value);
    if (!dtype_) bad(cli::text("the unknown type ", in_quotes(value)));
  }
  void integer(std::uint64_t magnitude, bool negative) override {
    if (skips()) return;
    if (list_ == nullptr) bad("a number where none belongs");
    if (negative) bad(cli::text("the negative number -", magnitude, " in ", in_quotes(key_)));
    if (magnitude > static_cast<std::uint64_t>(INT64_MAX))
      bad(cli::text("the number ", magnitude, " in ", in_quotes(key_)));
    (*list_)->push_back(static_cast<std::int64_t>(magnitude));
  }
  void real(double, const std::string& spelling) override {
    if (!skips()) bad(cli::text("the number ", printable(spelling, 40)));
  }
  void boolean(bool) override {
    if (!skips()) bad("true or false where none belongs");
  }
  void null() override {
    if (!skips() && !(depth_ == 1 && in_metadata_)) bad("null where none belongs");
  }

  /// Refuses holes and overlaps, and puts the tensors into the order of their bytes.
  void finish() {
    std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
    });
    std::uint64_t end = 0;
    const std::string* before = nullptr;
    for (const TensorInfo& tensor : header.tensors) {
      name_ = tensor.name;
      if (tensor.begin < end) bad(cli::text("its bytes overlap those of ", in_quotes(*before)));
      if (tensor.begin > end) bad(cli::text(tensor.begin - end, " bytes before it belong to no tensor"));
      end = tensor.begin + tensor.bytes;
      before = &tensor.name;
    }
    if (end != data_bytes_) {
      throw Failure(ExitCode::BadFile,
                    cli::text(file_, ": the tensors take ", end, " bytes, the file has ", data_bytes_));
    }
  }

  Header header;

 private:
  /// Whether what comes belongs to a member of an entry that nobody knows, which any reader passes over.
  bool skips() const {
    const bool in_entry = depth_ == 2 && !in_metadata_ && list_ == nullptr;
    return skipped_ > 0 || (in_entry && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets");
  }
  [[noreturn]] void bad(const std::string& what) const {
    throw Failure(ExitCode::BadFile, cli::text(file_, ": tensor ", in_quotes(name_), ": ", what));
  }

  void finish_tensor() {
    if (!dtype_ || !shape_ || !offsets_) bad("it needs dtype, shape and data_offsets");
    if (offsets_->size() != 2) bad("data_offsets must be two numbers");
    TensorInfo tensor;
    tensor.name = name_;
    tensor.dtype = *dtype_;
    tensor.shape = std::move(*shape_);
    const std::string shape = shape_list(tensor.shape);
    const std::optional<std::int64_t> elements = count_elements(tensor.shape);
    if (!elements) bad(cli::text("the shape ", shape, " has too many elements"));
    tensor.elements = *elements;
    const std::optional<std::uint64_t> bytes = count_bytes(tensor.dtype, *elements);
    if (!bytes) bad(cli::text("the shape ", shape, " of ", tensor.dtype.name, " is no whole number of bytes"));
    const auto begin = static_cast<std::uint64_t>((*offsets_)[0]);
    const auto end = static_cast<std::uint64_t>((*offsets_)[1]);
    if (begin > end) bad(cli::text("it ends at ", end, ", before it begins at ", begin));
    if (end > data_bytes_) bad(cli::text("it ends at ", end, ", the data at ", data_bytes_));
    if (end - begin != *bytes) {
      bad(cli::text("its offsets hold ", end - begin, " bytes, the shape ", shape, " of ", tensor.dtype.name, " needs ",
                    *bytes));
    }
    tensor.begin = begin;
    tensor.bytes = *bytes;
    header.tensors.push_back(std::move(tensor));
  }

  const std::string& file_;
  std::uint64_t data_bytes_;
  int depth_ = 0;
  int skipped_ = 0;  ///< open objects and lists of an unknown member
  bool in_metadata_ = false;
  std::string name_;  ///< of the tensor
  std::string key_;   ///< of its member
  std::optional<Dtype> dtype_;
  std::optional<std::vector<std::int64_t>> shape_;
  std::optional<std::vector<std::int64_t>> offsets_;
  std::optional<std::vector<std::int64_t>>* list_ = nullptr;  ///< the list that is open
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_names_;
};

}  // namespace

std::optional<Dtype> dtype_of(std::string_view name) noexcept {
  // 8-bit floats are known by their sizes, as other dtypes are: no tensor of codes with scales is read as such yet.
  for (const ElementInfo& element : kElements) {
    if (element.safetensors_name == name && !is_float_code(element.kind)) return dtype_of(element.kind);
  }
  for (const Dtype& dtype : kOtherDtypes) {
    if (dtype.name == name) return dtype;
  }
  return std::nullopt;
}

Dtype dtype_of(ElementKind kind) noexcept {
  const ElementInfo& element = info_of(kind);
  return {element.safetensors_name, element.bits, kind};
}

Header parse_header(std::string_view json, std::uint64_t data_begin, std::uint64_t file_bytes,
                    const std::string& file) {
  if (const std::size_t first = json.find_first_not_of(" \t\n\r"); first == json.npos || json[first] != '{')
    throw Failure(ExitCode::BadFile, text(file, ": the header is no JSON object"));
  HeaderHandler handler(file, file_bytes - data_begin);
  parse_json(json, file + ": the header", handler, kMaxHeaderDepth);
  handler.finish();
  for (TensorInfo& tensor : handler.header.tensors) tensor.begin += data_begin;
  return std::move(handler.header);
}

Header read_header(const File& file) {
  const std::string name = in_quotes(file.path().native());
  std::array<std::byte, 8> prefix{};
  if (file.size() < prefix.size()) throw Failure(ExitCode::BadFile, text(name, " is too short for a safetensors file"));
  file.read(prefix, 0);
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<std::uint64_t>(prefix[i]);
  if (length > kMaxHeaderBytes || length > file.size() - prefix.size()) {
    throw Failure(ExitCode::BadFile, text(name, ": a header of ", length, " bytes in a file of ", file.size(),
                                          length > kMaxHeaderBytes ? " (at most 100000000 are allowed)" : ""));
  }
  std::string json(length, '\0');
  file.read(std::as_writable_bytes(std::span(json)), prefix.size());
  return parse_header(json, prefix.size() + length, file.size(), name);
}

TensorInfo new_tensor(std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
  TensorInfo tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  const std::optional<std::int64_t> elements = count_elements(tensor.shape);
  const std::optional<std::uint64_t> bytes = elements ? count_bytes(dtype, *elements) : std::nullopt;
  if (!bytes) throw Failure(ExitCode::Refused, text("tensor ", in_quotes(tensor.name), " would be too large"));
  tensor.elements = *elements;
  tensor.bytes = *bytes;
  return tensor;
}

std::string lay_out(std::vector<TensorInfo>& tensors, const Metadata& metadata) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].dtype.bits > tensors[b].dtype.bits; });
  std::string json = "{";
  if (!metadata.empty()) {
    JsonObject members;
    for (const auto& [name, value] : metadata) members.add(name, value);
    json += text(json_string(kMetadataKey), ":", members.str());
  }
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    TensorInfo& tensor = tensors[i];
    tensor.begin = end;
    end += tensor.bytes;
    JsonObject members;
    members.add("dtype", tensor.dtype.name).raw("shape", json_array(tensor.shape));
    members.raw("data_offsets", text("[", tensor.begin, ",", end, "]"));
    json += text(json.size() > 1 ? "," : "", json_string(tensor.name), ":", members.str());
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  bytes += json;
  for (TensorInfo& tensor : tensors) tensor.begin += bytes.size();
  return bytes;
}

std::string shape_list(const std::vector<std::int64_t>& shape) { return json_array(shape); }

}  // namespace planck::cli
