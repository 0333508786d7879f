#include "checkpoint/copy.hpp"

#include <algorithm>

namespace planck::cli {

void copy_bytes(Workers& workers, const Advance& advance, const File& from, std::uint64_t from_offset,
                std::uint64_t bytes, const File& to, std::uint64_t to_offset) {
  constexpr auto kPiece = static_cast<std::uint64_t>(kPieceBytes);
  workers.for_each(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), [&](int worker, std::int64_t p) {
    const std::uint64_t begin = static_cast<std::uint64_t>(p) * kPiece;
    const std::uint64_t count = std::min(kPiece, bytes - begin);
    std::byte* memory = workers.scratch(worker).slot(0, count);
    from.will_read(from_offset + begin + kReadAhead, count);
    from.read({memory, count}, from_offset + begin);
    to.write({memory, count}, to_offset + begin);
    advance(count);
  });
  to.start_writing(to_offset, bytes);
}

}  // namespace planck::cli
