#include "checkpoint/gguf.hpp"

#include <array>

#include "terminal/failure.hpp"
#include "terminal/unicode.hpp"

namespace planck::cli {

bool is_gguf(const File& file) {
  if (lowered(file.path().extension().native()) == ".gguf") return true;
  std::array<char, gguf::kMagic.size()> first{};
  if (file.size() < first.size()) return false;
  file.read(std::as_writable_bytes(std::span(first)), 0);
  return std::string_view(first.data(), first.size()) == gguf::kMagic;
}

gguf::Header read_gguf(const File& file) {
  return gguf::read_header([&](std::span<std::byte> to, std::uint64_t offset) { file.read(to, offset); }, file.size(),
                           in_quotes(file.path().native()));
}

Header header_of(const gguf::Header& header) {
  Header out;
  for (const auto& [key, value] : header.metadata) out.metadata.emplace_back(key, value.text);
  for (const gguf::Tensor& each : header.tensors) {
    const gguf::BlockType& type = *each.type;
    TensorInfo& tensor = out.tensors.emplace_back();
    tensor.name = each.name;
    tensor.dtype = type.plain.empty() ? Dtype{type.name, 0, {}} : dtype_of(type.plain).value();
    tensor.blocks = type.plain.empty() ? &type : nullptr;
    tensor.shape = each.shape;
    tensor.elements = each.elements;
    tensor.begin = each.begin;
    tensor.bytes = each.bytes;
  }
  return out;
}

}  // namespace planck::cli
