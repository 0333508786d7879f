// A GGUF file of a known architecture as Hugging Face transformers has the model: the tensors' names, the order of
// their rows, and config.json.
//
// Whatever is not known is refused by name, a key of the metadata as much as a tensor: a model that loads and computes
// something else would be worse than none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/header.hpp"

namespace planck::cli {

struct HuggingFace {
  struct Tensor {
    std::string name;               ///< empty: it is a part of config.json
    std::int64_t rotary_heads = 0;  ///< not 0: of rows whose order llama.cpp has changed
  };
  std::vector<Tensor> tensors;  ///< one for each of the header's
  std::string config;           ///< config.json
};

/// A Failure (Refused) that begins with `file` for other architectures, and for what config.json cannot say. Of the
/// tensors only the factors of the rotary embedding are read.
HuggingFace hugging_face_of(const gguf::Header& header, const gguf::Fetch& fetch, const std::string& file);

}  // namespace planck::cli
