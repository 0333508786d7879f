// The parser of safetensors headers on bytes that the fuzzer draws: it answers with tensors that lie in the file, side
// by side and without holes, or with a Failure. What it accepts is written again and read back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/safetensors.hpp"
#include "terminal/failure.hpp"

namespace {

using namespace planck::cli;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Header& header, std::uint64_t data_begin, std::uint64_t file_bytes) {
  std::uint64_t end = data_begin;
  for (const TensorInfo& tensor : header.tensors) {
    require(tensor.begin == end && tensor.bytes <= file_bytes - end);
    end += tensor.bytes;
    require(tensor.elements >= 0);
    for (const std::int64_t extent : tensor.shape) require(extent >= 0);
  }
  require(end == file_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // Two bytes say how much data follows the header; more would only be longer numbers.
  const std::uint64_t data_bytes = data[0] | static_cast<std::uint64_t>(data[1]) << 8;
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  Header header;
  try {
    header = parse_header(json, 8 + json.size(), 8 + json.size() + data_bytes, "file");
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::BadFile);
    return 0;
  }
  check(header, 8 + json.size(), 8 + json.size() + data_bytes);
  std::vector<TensorInfo> tensors = header.tensors;
  const std::string again = lay_out(tensors, header.metadata);
  const Header back = parse_header(std::string_view(again).substr(8), again.size(), again.size() + data_bytes, "again");
  check(back, again.size(), again.size() + data_bytes);
  require(back.tensors.size() == header.tensors.size() && back.metadata == header.metadata);
  return 0;
}
