// The parser of GGUF headers on bytes that the fuzzer draws: it answers with tensors that lie in the file one behind
// the other, or with a Failure, and reads nothing beyond the file. What it accepts is decoded and mapped to Hugging
// Face's names.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/gguf.hpp"
#include "checkpoint/hugging_face.hpp"
#include "checkpoint/json.hpp"
#include "terminal/failure.hpp"

namespace {

using namespace planck::cli;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Tensors in their order, in the file, aligned, of a size that fits their shape.
void check(const gguf::Header& header, std::uint64_t file_bytes) {
  std::uint64_t end = 0;
  for (const gguf::Tensor& tensor : header.tensors) {
    require(tensor.begin >= end && tensor.begin % header.alignment == 0);
    require(tensor.bytes == 0 || (tensor.begin <= file_bytes && tensor.bytes <= file_bytes - tensor.begin));
    end = tensor.begin + tensor.bytes;
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) {
      require(extent >= 0);
      elements *= extent;
    }
    require(elements == tensor.elements &&
            elements / tensor.type->elements * tensor.type->bytes == static_cast<std::int64_t>(tensor.bytes));
  }
}

void decode(const gguf::Header& header, const std::byte* data) {
  for (const gguf::Tensor& tensor : header.tensors) {
    if (!tensor.type->decodes()) continue;
    std::vector<float> to(static_cast<std::size_t>(tensor.elements));
    tensor.type->decode(data + tensor.begin, tensor.elements / tensor.type->elements, to.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const auto fetch = [&](std::span<std::byte> to, std::uint64_t offset) {
    require(offset <= size && to.size() <= size - offset);
    std::memcpy(to.data(), bytes + offset, to.size());
  };
  gguf::Header header;
  try {
    header = gguf::read_header(fetch, size, "file");
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::BadFile);
    return 0;
  }
  check(header, size);
  require(header_of(header).tensors.size() == header.tensors.size());
  decode(header, bytes);
  try {
    const HuggingFace model = hugging_face_of(header, fetch, "file");
    require(model.tensors.size() == header.tensors.size());
    require(parse_document(model.config, "config").kind == Json::Kind::Object);
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::Refused);
  }
  return 0;
}
