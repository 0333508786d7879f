#include "cpu/streaming.hpp"

namespace planck::cpu {

std::int64_t stream_bytes = kStreamBytes;

bool worth_streaming(const core::StridedLoop& loop, int inputs, int outputs) noexcept {
  std::int64_t bytes = 0;
  for (int k = inputs; k < inputs + outputs; ++k) {
    const auto& output = loop.operand[k];
    if (output.base == nullptr) continue;
    bytes += loop.count() * output.element_bytes;
    // In place the line has just been read: an ordinary store costs nothing more.
    for (int i = 0; i < inputs; ++i) {
      if (loop.operand[i].base == output.base) return false;
    }
  }
  return bytes >= stream_bytes;
}

}  // namespace planck::cpu
