// A GGUF file as a shard of a checkpoint: its tensors beside those of safetensors files, coded or as they are.
#pragma once

#include "checkpoint/safetensors.hpp"
#include "gguf/header.hpp"

namespace planck::cli {

/// By its first bytes, or by its name, so that a broken one is told of as what it should be.
bool is_gguf(const File& file);
gguf::Header read_gguf(const File& file);

/// The same tensors, with the metadata as texts. Blocks are a type of their own, which no computation takes: whoever
/// wants elements decodes them.
Header header_of(const gguf::Header& header);

}  // namespace planck::cli
