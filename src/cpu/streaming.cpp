#include "cpu/streaming.hpp"

namespace planck::cpu {

namespace {

/// What an operand has in memory: nothing is counted again that is broadcast along a dimension.
std::int64_t bytes_of(const core::StridedLoop& loop, int k) noexcept {
  const core::LoopOperand& op = loop.operand[k];
  std::int64_t bytes = op.base == nullptr ? 0 : op.element_bytes;
  for (int d = 0; d < loop.rank; ++d) bytes *= op.stride[d] == 0 ? 1 : loop.extent[d];
  return bytes;
}

}  // namespace

bool worth_streaming(const Stream& stream, const core::StridedLoop& loop, int inputs, int outputs) noexcept {
  std::int64_t read = 0;
  std::int64_t written = 0;
  for (int k = 0; k < inputs; ++k) read += bytes_of(loop, k);
  for (int k = inputs; k < inputs + outputs; ++k) {
    const auto& output = loop.operand[k];
    if (output.base == nullptr) continue;
    written += bytes_of(loop, k);
    // In place the line has just been read: an ordinary store costs nothing more.
    for (int i = 0; i < inputs; ++i) {
      if (loop.operand[i].base == output.base) return false;
    }
  }
  const std::int64_t cache = stream.executor().cache_bytes();
  return written >= cache || (written > 0 && (read + written) / 2 >= cache);
}

}  // namespace planck::cpu
