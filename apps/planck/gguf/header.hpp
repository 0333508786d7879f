// The GGUF format up to its tensors' bytes: magic, version, metadata, and the table of tensors.
//
// Reading checks everything that is relied on later, as ggml does or more strictly: counts and lengths against the
// bytes that are left, types, extents, alignment, and that every tensor lies in the file right behind the one before
// it. Messages name the file, the key or tensor, and the numbers. Memory is bounded by limits on counts, not by what a
// file claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/blocks.hpp"

namespace planck::cli::gguf {

inline constexpr std::string_view kMagic = "GGUF";
/// The most bytes before the tensors': as many as of a safetensors header. The largest vocabularies take 20 MB.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kMaxPairs = 1 << 16;
inline constexpr std::uint64_t kMaxTensors = 1 << 18;
/// Of a name or key; the format's own limit for keys.
inline constexpr std::uint64_t kMaxNameBytes = 65535;
inline constexpr std::uint32_t kMaxExtents = 4;
inline constexpr std::uint64_t kMaxAlignment = 1 << 20;

/// What a value of the metadata is; the numbers are the file's.
enum class ValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, Text, List, U64, I64, F64 };

struct Value {
  ValueType type = ValueType::U8;
  /// Of a Text its bytes, of a number all digits that it needs, of a List its length and first items, for people.
  std::string text;
  std::optional<std::uint64_t> natural;  ///< of integers that are not negative
};

struct Tensor {
  std::string name;
  const BlockType* type = nullptr;
  std::vector<std::int64_t>
      shape;  ///< the slowest axis first, as everywhere else; the file has them the other way round
  std::int64_t elements = 0;
  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t bytes = 0;
};

struct Header {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<std::pair<std::string, Value>> metadata;
  std::vector<Tensor> tensors;  ///< in the order of their bytes

  const Value* find(std::string_view key) const noexcept;
};

/// Fills `to` with the file's bytes from `offset` on, which lie in the file.
using Fetch = std::function<void(std::span<std::byte> to, std::uint64_t offset)>;

/// Reads and checks all that comes before the tensors' bytes; a Failure (BadFile) that begins with `file`.
Header read_header(const Fetch& fetch, std::uint64_t file_bytes, const std::string& file);

}  // namespace planck::cli::gguf
