// What Hugging Face transformers does to a checkpoint when it loads it, as far as it decides what may be written.
//
// Its reader of compressed-tensors takes every linear layer for codes but those that quantization_config.ignore lists,
// and compares that list with the layers of the model in memory. Those may have other names than in the file: prefixes
// come and go, GPT-NeoX's "embed_out" becomes "lm_head". A layer that is missed has no scale, and computes nonsense
// without a word. So the list holds patterns beside the names, none of which may fit a layer that has codes. Some
// models are rearranged so far on loading that nothing would help; these are refused.
#pragma once

#include <string>
#include <vector>

#include "quantize/layers.hpp"
#include "quantize/settings.hpp"

namespace planck::cli {

/// A layer with a matrix as its weight, that the file has or, tied, only the model.
struct Layer {
  std::string name;
  Role role = Role::Other;
  bool quantized = false;
};

/// The entries of quantization_config.ignore beside the names themselves: "re:…", in the syntax of Python. A Failure
/// (Refused) where a layer in float cannot be told from one with codes, or might get another name.
std::vector<std::string> ignore_patterns(const std::vector<Layer>& layers, const ModelFacts& facts);

/// A Failure (Refused) for models whose weights transformers joins, splits, renames or shares in a way that its reader
/// of compressed-tensors cannot follow.
void check_loads(const std::vector<Layer>& layers, const ModelFacts& facts, const QuantizeSettings& settings);

}  // namespace planck::cli
