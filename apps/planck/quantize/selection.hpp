// What `planck quantize` does with each tensor, settled from headers alone and before anything is written.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "quantize/layers.hpp"
#include "quantize/settings.hpp"

namespace planck::cli {

struct Choice {
  bool quantize = false;
  Role role = Role::Other;
  std::string reason;  ///< why it is copied
};

struct Selection {
  std::vector<std::vector<Choice>> choices;  ///< of each shard's tensors
  /// Every layer in float that a loader might take for a quantised one; for the format compressed-tensors followed by
  /// patterns of the names that they may have in memory.
  std::vector<std::string> ignore;
  std::int64_t chosen = 0;  ///< tensors to quantise
  bool embeddings = false;  ///< some of them are quantised
};

/// A Failure (Refused) where a tensor cannot be quantised as asked, or the checkpoint already is.
Selection select_tensors(const Checkpoint& checkpoint, const QuantizeOptions& options,
                         const QuantizeSettings& settings);

/// The member quantization_config of config.json, as Hugging Face transformers reads it.
std::string quantization_config(const QuantizeSettings& settings, const Selection& selection);

}  // namespace planck::cli
