#include "checkpoint/scratch.hpp"

namespace planck::cli {

std::byte* Scratch::slot(std::size_t slot, std::size_t bytes) {
  if (slot >= buffers_.size()) buffers_.resize(slot + 1);
  Buffer& buffer = buffers_[slot];
  if (buffer.bytes < bytes) {
    buffer.memory.reset();
    buffer.memory.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
    buffer.bytes = bytes;
  }
  return buffer.memory.get();
}

}  // namespace planck::cli
