// Bytes from one file to another, piece by piece on all workers.
#pragma once

#include <cstdint>
#include <functional>

#include "checkpoint/file.hpp"
#include "checkpoint/workers.hpp"

namespace planck::cli {

/// Told how many bytes of the input are done; called from any worker.
using Advance = std::function<void(std::uint64_t bytes)>;

/// How far ahead of a piece the system is told to read.
inline constexpr std::uint64_t kReadAhead = 8 << 20;

void copy_bytes(Workers& workers, const Advance& advance, const File& from, std::uint64_t from_offset,
                std::uint64_t bytes, const File& to, std::uint64_t to_offset);

}  // namespace planck::cli
