// Which tensors are the weights of linear layers, told by their names, their shapes and config.json.
//
// A weight that is wrongly left in float costs bytes; one that is wrongly quantised breaks a model. So everything that
// might be an embedding, a norm, a router or an output head stays, and all that stays is listed for the loader.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"

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
  std::int64_t vocabulary = 0;           ///< 0: unknown
  bool tied = false;                     ///< the output head shares the input embedding
  std::vector<std::string> tied_heads;   ///< linear layers that the model has and the file need not have
  bool quantized = false;                ///< there is a quantization_config already
  std::vector<std::string> model_types;  ///< the model's, then those of its parts
  bool swiglu = false;                   ///< DINOv2: the kind of its feed-forward layers
  bool encoder_decoder = false;          ///< two stacks, which may share an embedding
};

ModelFacts facts_of(const Checkpoint& checkpoint);

Role role_of(const TensorInfo& tensor, const ModelFacts& facts);
/// A word for people: why the tensor is no linear layer.
std::string_view reason_of(Role role, const TensorInfo& tensor) noexcept;

/// The parts of a path between its dots.
std::vector<std::string_view> parts_of(std::string_view path);
/// Whether a part counts the blocks of a model: digits alone.
bool is_number(std::string_view part);

/// Parts of a name, in lower case, that make a layer an output head: wherever they stand, and those that do only at
/// the end of a name without a number.
std::span<const std::string_view> heads_anywhere() noexcept;
std::span<const std::string_view> outermost_heads() noexcept;

/// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
std::string_view layer_of(std::string_view weight) noexcept;

}  // namespace planck::cli
