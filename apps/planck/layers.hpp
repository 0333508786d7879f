// Which tensors are the weights of linear layers, told by their names, their shapes and config.json.
//
// A weight that is wrongly left in float costs bytes; one that is wrongly quantised breaks a model. So everything that
// might be an embedding, a norm, a router or an output head stays, and all that stays is listed for the loader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint.hpp"

namespace planck::cli {

enum class Role {
  Other,  ///< not a 2-D float `*.weight` with elements
  Linear,
  Embedding,   ///< its rows are looked up
  Head,        ///< scores of words or classes
  Vocabulary,  ///< an embedding or a head, by its shape
  Router,      ///< picks experts
  Norm,
  Transposed,  ///< GPT-2's Conv1D: [in, out], which the loader takes for no linear layer
};

/// What config.json says that matters here.
struct ModelFacts {
  bool transposed_linears = false;
  std::int64_t vocabulary = 0;          ///< 0: unknown
  bool tied = false;                    ///< the output head shares the input embedding
  std::vector<std::string> tied_heads;  ///< linear layers that the model has and the file need not have
  bool quantized = false;               ///< there is a quantization_config already
};

ModelFacts facts_of(const Checkpoint& checkpoint);

Role role_of(const TensorInfo& tensor, const ModelFacts& facts);
/// A word for people: why the tensor is no linear layer.
std::string_view reason_of(Role role, const TensorInfo& tensor) noexcept;

/// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
std::string_view layer_of(std::string_view weight) noexcept;

}  // namespace planck::cli
