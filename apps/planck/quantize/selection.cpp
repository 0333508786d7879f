#include "quantize/selection.hpp"

#include <algorithm>

#include "quantize/loading.hpp"
#include "quantize/patterns.hpp"
#include "quantize/segments.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

struct Rules {
  Patterns include;
  Patterns exclude;
};

Choice choose(const TensorInfo& tensor, const ModelFacts& facts, const QuantizeOptions& options, const Rules& rules) {
  Choice choice;
  choice.role = role_of(tensor, facts);
  const std::size_t rank = tensor.shape.size();
  // Weights with more axes than a matrix, experts and convolutions, only where they are asked for.
  const bool weight = tensor.is_float() && tensor.elements > 0 &&
                      (rank == 2 || (rank > 2 && rank <= kMostAxes && rules.include.any_in(tensor.name)));
  if (!weight) {
    choice.reason = reason_of(choice.role, tensor);
  } else if (rules.exclude.any_in(tensor.name)) {
    choice.reason = "excluded";
  } else if (tensor.elements < options.min_size) {
    choice.reason = "small";
  } else {
    const bool by_role = rules.include.empty();
    choice.quantize = (choice.role == Role::Embedding && options.embeddings) ||
                      (by_role ? choice.role == Role::Linear : rules.include.any_in(tensor.name));
    if (!choice.quantize) choice.reason = by_role ? reason_of(choice.role, tensor) : "not included";
  }
  return choice;
}

/// What the format's reader would take for something else.
void check_expressible(const TensorInfo& tensor, const Choice& choice, const ModelFacts& facts,
                       const QuantizeSettings& settings) {
  const auto refuse = [&](std::string_view why) {
    throw Failure(ExitCode::Refused,
                  text("tensor ", in_quotes(tensor.name), ": ", why, "; use --exclude or --format plain"));
  };
  if (tensor.shape.size() != 2) refuse("the format compressed-tensors knows only weights with two dimensions");
  if (choice.role == Role::Other)
    refuse("the format compressed-tensors knows only layers, whose tensors end in \".weight\"");
  if (choice.role == Role::Transposed)
    refuse("the model has it as a Conv1D, which the format's reader takes for no linear layer");
  if (choice.role == Role::Vocabulary)
    refuse("it has a row for each word, but its name does not say whether it is an embedding or a linear layer");
  if (choice.role == Role::Norm || choice.role == Role::Router)
    refuse("the format's reader takes it for no linear layer");
  if (facts.tied && (choice.role == Role::Embedding || choice.role == Role::Head)) {
    refuse("the output head shares its weight with the embedding, which the format cannot express in 8 bits");
  }
  if (choice.role == Role::Embedding && (facts.encoder_decoder || tensor.name.ends_with("shared.weight")))
    refuse("encoder and decoder share embeddings, which the format cannot express in 8 bits");
  if (tensor.dtype.kind == ElementKind::F64) refuse("the format has no scales of F64");
  if (choice.role == Role::Embedding && settings.scope == Scope::Tensor)
    refuse("embeddings need a scale for each row or group");
}

}  // namespace

Selection select_tensors(const Checkpoint& checkpoint, const QuantizeOptions& options,
                         const QuantizeSettings& settings) {
  const bool compressed = options.compressed_tensors();
  const ModelFacts facts = facts_of(checkpoint);
  if (facts.quantized) {
    throw Failure(ExitCode::Refused,
                  text(in_quotes(checkpoint.title), " is quantised already: its config.json says so"));
  }
  const Rules rules{Patterns(options.include, "--include"), Patterns(options.exclude, "--exclude")};
  Selection selection;
  std::vector<Layer> layers;
  for (const Shard& shard : checkpoint.shards) {
    std::vector<Choice>& choices = selection.choices.emplace_back();
    for (const TensorInfo& tensor : shard.header.tensors) {
      choices.push_back(choose(tensor, facts, options, rules));
      const Choice& choice = choices.back();
      if (choice.quantize) {
        if (compressed) check_expressible(tensor, choice, facts, settings);
        segments_of(tensor, settings);
        for (const char* suffix : {"_scale", "_zero_point"}) {
          if (checkpoint.find(tensor.name + suffix) == nullptr) continue;
          throw Failure(ExitCode::Refused, text("tensor ", in_quotes(tensor.name), ": there is a tensor ",
                                                in_quotes(tensor.name + suffix), " already"));
        }
        ++selection.chosen;
        selection.embeddings |= choice.role == Role::Embedding;
      } else if (!std::string_view(tensor.name).ends_with(".weight") || tensor.shape.size() != 2) {
        continue;
      } else if (compressed && !tensor.is_float()) {
        throw Failure(ExitCode::Refused, text("tensor ", in_quotes(tensor.name), " is ", tensor.dtype.name,
                                              ": the checkpoint is quantised already; use --format plain"));
      }
      layers.push_back({std::string(layer_of(tensor.name)), choice.role, choice.quantize});
    }
  }
  for (const std::string& head : facts.tied_heads) layers.push_back({head, Role::Head, false});
  for (const Layer& layer : layers) {
    if (!layer.quantized) selection.ignore.push_back(layer.name);
  }
  std::sort(selection.ignore.begin(), selection.ignore.end());
  if (compressed && selection.chosen > 0) {
    check_loads(layers, facts, settings);
    for (std::string& pattern : ignore_patterns(layers, facts)) selection.ignore.push_back(std::move(pattern));
  }
  return selection;
}

std::string quantization_config(const QuantizeSettings& settings, const Selection& selection) {
  JsonObject weights;
  weights.add("num_bits", 8).add("type", "int").add("symmetric", settings.symmetric);
  weights.add("strategy", settings.scope == Scope::Group    ? "group"
                          : settings.scope == Scope::Tensor ? "tensor"
                                                            : "channel");
  if (settings.scope == Scope::Group) weights.add("group_size", settings.group_size);
  std::vector<std::string> targets{"Linear"};
  if (selection.embeddings) targets.emplace_back("Embedding");
  // Newer readers look at the group's format, older ones at the outer one.
  JsonObject group;
  group.raw("targets", json_array(targets)).add("format", "int-quantized").raw("weights", weights.str());
  JsonObject config;
  config.add("quant_method", "compressed-tensors")
      .add("quantization_status", "compressed")
      .add("format", "int-quantized");
  config.raw("config_groups", JsonObject().raw("group_0", group.str()).str());
  config.raw("ignore", json_array(selection.ignore));
  return config.str();
}

}  // namespace planck::cli
