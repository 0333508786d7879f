// The safetensors format: eight bytes of header length, a JSON header, the tensors' bytes.
//
// Reading checks everything the format promises before anybody relies on it: lengths, types, shapes, that offsets lie
// in the file, and that the tensors cover it without holes or overlaps. Messages name the file and the tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/file.hpp"
#include "gguf/blocks.hpp"
#include "planck/element.hpp"

namespace planck::cli {

/// A type of elements, by the format's name ("F32", "BF16", "I8").
struct Dtype {
  std::string_view name;
  int bits = 0;
  std::optional<ElementKind> kind;  ///< what Planck computes with; absent for the others

  bool operator==(const Dtype& other) const noexcept { return name == other.name; }
  bool is_float() const noexcept { return kind && planck::is_float(*kind); }
};

/// The type of this name, or nothing.
std::optional<Dtype> dtype_of(std::string_view name) noexcept;
Dtype dtype_of(ElementKind kind) noexcept;

struct TensorInfo {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;  ///< extents are not negative, and their product fits 64 bits
  std::int64_t elements = 0;
  std::uint64_t begin = 0;  ///< in the file, header included
  std::uint64_t bytes = 0;
  const gguf::BlockType* blocks = nullptr;  ///< of a GGUF file: how the elements are coded; null: as they are

  bool is_float() const noexcept { return dtype.is_float(); }
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// The name in a header that is no tensor's.
inline constexpr const char* kMetadataKey = "__metadata__";

struct Header {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
  Metadata metadata;
};

/// The longest header that is read, as in the reference implementation.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Checks and reads a whole header; `data_begin` is where the data begins in a file of `file_bytes`.
Header parse_header(std::string_view json, std::uint64_t data_begin, std::uint64_t file_bytes, const std::string& file);
Header read_header(const File& file);

/// A new tensor of a file to be written; its place is settled by `lay_out`.
TensorInfo new_tensor(std::string name, Dtype dtype, std::vector<std::int64_t> shape);

/// Gives the tensors their places, those of larger elements first, so that every one is aligned, and returns the bytes
/// of the header. The order of `tensors` stays.
std::string lay_out(std::vector<TensorInfo>& tensors, const Metadata& metadata);

/// "[2, 3]".
std::string shape_list(const std::vector<std::int64_t>& shape);

}  // namespace planck::cli
