#include "quantize/layers.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "terminal/unicode.hpp"

namespace planck::cli {
namespace {

constexpr std::string_view kWeight = ".weight";

template <std::size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Without a number at its end: "token_type_embeddings_0" is one of several.
std::string_view without_count(std::string_view part) {
  const std::size_t end = part.find_last_not_of("0123456789");
  return end != std::string_view::npos && end + 1 < part.size() && part[end] == '_' ? part.substr(0, end) : part;
}

bool is_embedding(const std::vector<std::string_view>& parts) {
  // Learnt queries, tokens and tables are read, not multiplied by: embeddings, whatever they are called.
  static constexpr std::array<std::string_view, 15> kNames{
      "wte",      "wpe",         "wme",           "shared",           "emb",        "relative_attention_bias",
      "pe_k",     "tok_embd",    "pos_embd",      "queries_features", "query_feat", "reference_points",
      "codebook", "bias_values", "presence_token"};
  // One of a list of embeddings has its number as the last part.
  const bool listed = parts.size() > 1 && is_number(parts.back());
  const std::string_view last = without_count(parts[parts.size() - (listed ? 2 : 1)]);
  if (last == "embed_out") return false;  // GPT-NeoX calls its head so
  return one_of(last, kNames) || last.starts_with("embed_") || last.ends_with("embed") || last.ends_with("_emb") ||
         last.ends_with("embedding") || last.ends_with("embeddings") || last.ends_with("embedder") ||
         last.ends_with("embedding_table") || last.ends_with("embeddings_table") || last.ends_with("embeds_layer") ||
         last.ends_with("embeds_layers") || last.ends_with("_token") || last.ends_with("_tokens");
}

// Anywhere: what lies below a head belongs to it (lm_head.decoder, cls.predictions.transform.dense).
constexpr std::array<std::string_view, 12> kHeadsAnywhere{
    "lm_head",    "embed_out", "vocab_projector", "generator_lm_head", "predictions", "pred_layer",
    "classifier", "score",     "qa_outputs",      "seq_relationship",  "head",        "lm_predictions"};
// Only as a layer of the model itself: inside a block these are ordinary projections.
constexpr std::array<std::string_view, 11> kOutermostHeads{"output",     "proj_out",
                                                           "final_proj", "logits",
                                                           "decoder",    "output_projection",
                                                           "lm_loss",    "ctc_head",
                                                           "codec_head", "unembedding_projection",
                                                           "objective"};

bool is_head(const std::vector<std::string_view>& parts) {
  const bool in_block = std::any_of(parts.begin(), parts.end(), is_number);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return one_of(part, kHeadsAnywhere); }) ||
         (!in_block && one_of(parts.back(), kOutermostHeads));
}

bool is_norm(std::string_view last) {
  return last.find("norm") != std::string_view::npos || last.starts_with("ln_") || last == "ln";
}

bool is_router(const std::vector<std::string_view>& parts) {
  return parts.back() == "gate" || std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
           return part.find("router") != std::string_view::npos;
         });
}

/// GPT-2's layers, where config.json says that the model is of its kind.
bool is_conv1d(std::string_view last) {
  static constexpr std::array<std::string_view, 4> kNames{"c_attn", "c_proj", "c_fc", "q_attn"};
  return one_of(last, kNames);
}

std::string text_of(const Json& object, std::string_view member) {
  const Json* found = object.find(member);
  return found != nullptr && found->kind == Json::Kind::Text ? found->text : std::string();
}

/// Members of the configuration, or of the language model's part of one for several kinds of input.
const Json* find_in_model(const Json& config, std::string_view member) {
  if (const Json* found = config.find(member)) return found;
  const Json* language = config.find("text_config");
  return language != nullptr ? language->find(member) : nullptr;
}

/// Every model_type of the configuration and of the parts it is made of.
void add_model_types(const Json& config, std::vector<std::string>& types) {
  if (config.kind != Json::Kind::Object) return;
  if (std::string type = text_of(config, "model_type"); !type.empty()) types.push_back(std::move(type));
  for (const Json& member : config.items) add_model_types(member, types);
}

/// The layer that gives the scores of words, as transformers names it.
std::string head_name(std::string_view model) {
  static constexpr std::array<std::string_view, 5> kBert{"bert", "mobilebert", "ernie", "megatron-bert", "deberta"};
  static constexpr std::array<std::string_view, 5> kRoberta{"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl",
                                                            "data2vec-text"};
  if (one_of(model, kBert) || model == "deberta-v2") return "cls.predictions.decoder";
  if (one_of(model, kRoberta)) return "lm_head.decoder";
  if (model == "distilbert") return "vocab_projector";
  if (model == "albert") return "predictions.decoder";
  if (model == "electra") return "generator_lm_head";
  if (model == "gpt_neox") return "embed_out";
  if (model == "whisper") return "proj_out";
  return "lm_head";
}

/// Whether the class that was saved has a head for words, tied or not.
bool has_language_head(const Json& config) {
  const Json* architectures = config.find("architectures");
  if (architectures == nullptr) return false;
  static constexpr std::array<std::string_view, 6> kEndings{"ForCausalLM", "ForConditionalGeneration", "LMHeadModel",
                                                            "ForMaskedLM", "ForPreTraining",           "WithLMHead"};
  for (const Json& name : architectures->items) {
    for (const std::string_view ending : kEndings) {
      if (name.text.ends_with(ending)) return true;
    }
  }
  return false;
}

/// A layer of this name, in the model itself or in a part of it.
bool has_layer(const Checkpoint& checkpoint, std::string_view layer) {
  for (const Shard& shard : checkpoint.shards) {
    for (const TensorInfo& tensor : shard.header.tensors) {
      const std::string_view own = layer_of(tensor.name);
      if (own.size() != tensor.name.size() &&
          (own == layer || (own.ends_with(layer) && own[own.size() - layer.size() - 1] == '.')))
        return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::span<const std::string_view> heads_anywhere() noexcept { return kHeadsAnywhere; }
std::span<const std::string_view> outermost_heads() noexcept { return kOutermostHeads; }

std::string_view layer_of(std::string_view weight) noexcept {
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

ModelFacts facts_of(const Checkpoint& checkpoint) {
  static constexpr std::array<std::string_view, 5> kTransposed{"gpt2", "openai-gpt", "imagegpt", "decision_transformer",
                                                               "clvp"};
  ModelFacts facts;
  const Json& config = checkpoint.config;
  if (config.kind != Json::Kind::Object) return facts;
  const std::string model = text_of(config, "model_type");
  add_model_types(config, facts.model_types);
  const Json* swiglu = config.find("use_swiglu_ffn");
  facts.swiglu = swiglu != nullptr && swiglu->is_true();
  const Json* encoder_decoder = config.find("is_encoder_decoder");
  facts.encoder_decoder = encoder_decoder != nullptr && encoder_decoder->is_true();
  facts.quantized = config.find("quantization_config") != nullptr;
  facts.transposed_linears = one_of(model, kTransposed);
  if (const Json* vocabulary = find_in_model(config, "vocab_size"); vocabulary != nullptr && vocabulary->number >= 1) {
    facts.vocabulary = static_cast<std::int64_t>(std::min(vocabulary->number, 1e15));
  }
  const Json* tie = find_in_model(config, "tie_word_embeddings");
  const std::string head = head_name(model);
  const bool in_file = has_layer(checkpoint, head);
  // Where the file has no head and the class has one, it is tied, whether config.json says so or leaves it to the
  // class.
  const bool headless = !in_file && has_language_head(config);
  facts.tied = (tie != nullptr && tie->is_true()) || headless;
  if (!in_file && (headless || (facts.tied && config.find("architectures") == nullptr)))
    facts.tied_heads.push_back(head);
  // A base model says that it would tie a head that it does not have.
  if (!in_file && facts.tied_heads.empty()) facts.tied = false;
  return facts;
}

Role role_of(const TensorInfo& tensor, const ModelFacts& facts) {
  if (!tensor.is_float() || tensor.shape.size() != 2 || tensor.elements == 0) return Role::Other;
  if (tensor.name != "weight" && !std::string_view(tensor.name).ends_with(kWeight)) return Role::Other;
  const std::string lower = lowered(tensor.name);
  const std::vector<std::string_view> parts = parts_of(layer_of(lower));
  if (is_head(parts)) return Role::Head;
  if (is_embedding(parts)) return Role::Embedding;
  if (is_norm(parts.back())) return Role::Norm;
  if (is_router(parts)) return Role::Router;
  if (facts.transposed_linears && is_conv1d(parts.back())) return Role::Transposed;
  // A row for each word, outside of the blocks: an embedding or a head, whatever it is called.
  const bool in_block = std::any_of(parts.begin(), parts.end(), is_number);
  if (!in_block && facts.vocabulary > 1 && tensor.shape[0] == facts.vocabulary) return Role::Vocabulary;
  return Role::Linear;
}

std::string_view reason_of(Role role, const TensorInfo& tensor) noexcept {
  switch (role) {
    case Role::Linear:
      return "linear";
    case Role::Embedding:
      return "embedding";
    case Role::Head:
      return "output head";
    case Role::Vocabulary:
      return "vocabulary";
    case Role::Router:
      return "router";
    case Role::Norm:
      return "norm";
    case Role::Transposed:
      return "Conv1D";
    case Role::Other:
      break;
  }
  if (!tensor.is_float()) return "no float";
  if (tensor.elements == 0) return "empty";
  static constexpr std::array<std::string_view, 6> kRanks{"0-D", "1-D", "", "3-D", "4-D", "5-D"};
  if (tensor.shape.size() != 2) return tensor.shape.size() < kRanks.size() ? kRanks[tensor.shape.size()] : "not 2-D";
  return "no weight";
}

}  // namespace planck::cli
