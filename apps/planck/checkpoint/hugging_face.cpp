#include "checkpoint/hugging_face.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "checkpoint/json.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

/// Tensors that a layer has all of or none.
enum class Part { Base, QueryBiases, OutputBias, MlpBiases, HeadNorms };
/// Whether an architecture's layers have a part; `Either`: config.json says so for all layers at once.
enum class Rule { Never, Either, Always };

struct Architecture {
  std::string_view name;
  std::string_view model_class;
  bool rotary;  ///< llama.cpp's converter changes the order of the rows of queries and keys
  Rule attention_biases;
  Rule output_bias;
  Rule mlp_biases;
  Rule head_norms;
};

constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", true, Rule::Either, Rule::Either, Rule::Either, Rule::Never},
    {"qwen2", "Qwen2ForCausalLM", false, Rule::Always, Rule::Never, Rule::Never, Rule::Never},
    {"qwen3", "Qwen3ForCausalLM", false, Rule::Either, Rule::Either, Rule::Never, Rule::Always},
};

struct LayerTensor {
  std::string_view gguf;
  std::string_view name;
  Part part = Part::Base;
};

constexpr LayerTensor kLayerTensors[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias", Part::QueryBiases},
    {"attn_k.bias", "self_attn.k_proj.bias", Part::QueryBiases},
    {"attn_v.bias", "self_attn.v_proj.bias", Part::QueryBiases},
    {"attn_output.bias", "self_attn.o_proj.bias", Part::OutputBias},
    {"ffn_gate.bias", "mlp.gate_proj.bias", Part::MlpBiases},
    {"ffn_up.bias", "mlp.up_proj.bias", Part::MlpBiases},
    {"ffn_down.bias", "mlp.down_proj.bias", Part::MlpBiases},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", Part::HeadNorms},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", Part::HeadNorms},
};

/// Keys of the architecture that are read, or whose value below changes nothing.
constexpr std::string_view kKeys[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.key_length",
    "attention.value_length",
    "attention.head_count_kv",
    "rope.dimension_count",
    "rope.freq_base",
    "attention.layer_norm_rms_epsilon",
};
constexpr std::pair<std::string_view, std::string_view> kNeutral[] = {
    {"expert_count", "0"}, {"expert_used_count", "0"}, {"rope.scaling.type", "none"}, {"attention.causal", "true"}};

/// Where one layer has these, all have them.
constexpr const char* kBiasSign = "blk.0.attn_q.bias";
constexpr const char* kMlpBiasSign = "blk.0.ffn_up.bias";

constexpr const char* kTheta = "10000.0";  ///< of the rotary embedding, where nothing is said
constexpr const char* kRotaryFactors = "rope_freqs.weight";
constexpr std::int64_t kMostFactors = 1 << 16;
/// Llama 3's rotary embedding: waves longer than kTrained / kLow are stretched by the factor, those shorter than
/// kTrained / kHigh are not, and in between there is a ramp.
constexpr double kTrained = 8192;
constexpr double kLow = 1;
constexpr double kHigh = 4;

/// A number that readers of JSON do not take for an integer.
std::string as_real(std::string number) {
  return number.find_first_of(".e") == std::string::npos ? std::move(number) + ".0" : std::move(number);
}

class Mapper {
 public:
  Mapper(const gguf::Header& header, const gguf::Fetch& fetch, const std::string& file)
      : header_(header), fetch_(fetch), file_(file) {
    const gguf::Value* name = header.find("general.architecture");
    const std::string given = name == nullptr ? "" : name->text;
    const auto* const found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                           [&](const Architecture& each) { return each.name == given; });
    if (found == std::end(kArchitectures)) {
      refuse(text("the architecture ", in_quotes(given),
                  " has no names in Hugging Face that are known here; llama, qwen2 and qwen3 have"));
    }
    architecture_ = found;
    for (const gguf::Tensor& tensor : header.tensors) names_.insert(tensor.name);
    check_keys();
    read_sizes();
  }

  HuggingFace map() {
    HuggingFace out;
    for (const gguf::Tensor& tensor : header_.tensors) {
      const bool scales = architecture_->rotary && tensor.name == kRotaryFactors;
      if (scales) scaling_ = rope_scaling(tensor);
      out.tensors.push_back({scales ? "" : name_of(tensor.name), 0});
      if (architecture_->rotary) out.tensors.back().rotary_heads = rotary_heads(tensor);
    }
    check_complete();
    out.config = config();
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Failure(ExitCode::Refused, text(file_, ": ", why, " (--names gguf keeps the names)"));
  }

  const gguf::Value* find(std::string_view key) const { return header_.find(text(architecture_->name, ".", key)); }

  void check_keys() const {
    const std::string prefix = text(architecture_->name, ".");
    for (const auto& [full, value] : header_.metadata) {
      if (!full.starts_with(prefix)) continue;
      const std::string_view key = std::string_view(full).substr(prefix.size());
      if (std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys)) continue;
      if (std::find(std::begin(kNeutral), std::end(kNeutral), std::pair(key, std::string_view(value.text))) !=
          std::end(kNeutral)) {
        continue;
      }
      refuse(text("config.json cannot say ", in_quotes(full), " = ", in_quotes(value.text)));
    }
  }

  /// A whole number that is at least 1 and below 2^31, as sizes of models are.
  std::int64_t natural(std::string_view key, std::optional<std::int64_t> otherwise = {}) const {
    const gguf::Value* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    const std::string full = in_quotes(text(architecture_->name, ".", key));
    if (value == nullptr) refuse(text(full, " is missing"));
    if (!value->natural || *value->natural == 0 || *value->natural > INT32_MAX) {
      refuse(text(full, " = ", in_quotes(value->text), " is no number from 1 to 2147483647"));
    }
    return static_cast<std::int64_t>(*value->natural);
  }

  /// A finite number as it stands in JSON.
  std::string real(std::string_view key, std::optional<std::string> otherwise = {}) const {
    const gguf::Value* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr) refuse(text(in_quotes(text(architecture_->name, ".", key)), " is missing"));
    double number = 0;
    const char* const end = value->text.data() + value->text.size();
    const auto read = std::from_chars(value->text.data(), end, number);
    const bool is_float = value->type == gguf::ValueType::F32 || value->type == gguf::ValueType::F64;
    if (!is_float || read.ptr != end || !(number >= 1e-30) || number > 1e30) {
      refuse(text(in_quotes(text(architecture_->name, ".", key)), " = ", in_quotes(value->text),
                  " is no number from 1e-30 to 1e30"));
    }
    return as_real(value->text);
  }

  void read_sizes() {
    layers_ = natural("block_count");
    width_ = natural("embedding_length");
    heads_ = natural("attention.head_count");
    key_heads_ = natural("attention.head_count_kv", heads_);
    if (find("attention.key_length") == nullptr && width_ % heads_ != 0) {
      refuse(text(heads_, " heads do not divide the width ", width_));
    }
    head_ = natural("attention.key_length", width_ / heads_);
    for (const char* key : {"attention.value_length", "rope.dimension_count"}) {
      if (natural(key, head_) != head_) {
        refuse(text(in_quotes(text(architecture_->name, ".", key)), " = ", natural(key), " is not the heads' width, ",
                    head_));
      }
    }
  }

  std::string name_of(const std::string& name) const {
    if (name == "token_embd.weight") return "model.embed_tokens.weight";
    if (name == "output_norm.weight") return "model.norm.weight";
    if (name == "output.weight") return "lm_head.weight";
    constexpr std::string_view kBlock = "blk.";
    if (name.starts_with(kBlock)) {
      std::int64_t layer = 0;
      const char* const end = name.data() + name.size();
      const auto read = std::from_chars(name.data() + kBlock.size(), end, layer);
      const std::string number = std::to_string(layer);
      if (read.ec == std::errc() && layer >= 0 && layer < layers_ &&
          name.compare(kBlock.size(), number.size() + 1, number + ".") == 0) {
        const std::string_view rest(read.ptr + 1, end);
        for (const LayerTensor& each : kLayerTensors) {
          if (each.gguf == rest) return text("model.layers.", number, ".", each.name);
        }
      }
    }
    refuse(text("tensor ", in_quotes(name), " has no place in a model of ", architecture_->name, " with ", layers_,
                " layers"));
  }

  std::int64_t rotary_heads(const gguf::Tensor& tensor) const {
    const bool query = tensor.name.find(".attn_q.") != std::string::npos;
    if (!query && tensor.name.find(".attn_k.") == std::string::npos) return 0;
    const std::int64_t heads = query ? heads_ : key_heads_;
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
    if (rows != heads * head_ || head_ % 2 != 0 || tensor.elements == 0) {
      refuse(text("tensor ", in_quotes(tensor.name), " has ", rows, " rows, where ", heads, " heads of ", head_,
                  " turn pairs"));
    }
    return heads;
  }

  /// llama.cpp keeps what the rotary embedding's frequencies are divided by, config.json the four numbers that they
  /// come from. Llama 3.1, 3.2 and 3.3 differ in the first of them alone, which is the last factor; others are refused.
  std::string rope_scaling(const gguf::Tensor& tensor) const {
    const auto check = [&](bool holds) {
      if (holds) return;
      refuse(text("tensor ", in_quotes(tensor.name), " scales the rotary embedding in another way than Llama 3"));
    };
    check(tensor.type->plain == "F32" && tensor.shape == std::vector<std::int64_t>{head_ / 2});
    check(tensor.elements > 0 && tensor.elements <= kMostFactors);
    std::vector<float> factors(static_cast<std::size_t>(tensor.elements));
    fetch_(std::as_writable_bytes(std::span(factors)), tensor.begin);
    const double factor = factors.back();
    check(factor >= 1 && factor <= 1024);
    const double theta = std::stod(real("rope.freq_base", kTheta));
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const double turn = 2 * static_cast<double>(i) / static_cast<double>(head_);
      const double wave = 2 * std::numbers::pi * std::pow(theta, turn);
      const double smooth = std::clamp((kTrained / wave - kLow) / (kHigh - kLow), 0.0, 1.0);
      const double expected = 1 / ((1 - smooth) / factor + smooth);
      check(std::abs(factors[i] - expected) <= 1e-4 * expected);
    }
    return JsonObject()
        .add("rope_type", "llama3")
        .raw("factor", as_real(json_number(factor)))
        .raw("low_freq_factor", as_real(json_number(kLow)))
        .raw("high_freq_factor", as_real(json_number(kHigh)))
        .add("original_max_position_embeddings", static_cast<std::int64_t>(kTrained))
        .str();
  }

  bool has(const std::string& name) const { return names_.contains(name); }

  bool expected(Part part) const {
    const auto holds = [&](Rule rule, const char* sign) {
      return rule == Rule::Always || (rule == Rule::Either && has(sign));
    };
    switch (part) {
      case Part::QueryBiases:
        return holds(architecture_->attention_biases, kBiasSign);
      case Part::OutputBias:
        return holds(architecture_->output_bias, kBiasSign);
      case Part::MlpBiases:
        return holds(architecture_->mlp_biases, kMlpBiasSign);
      case Part::HeadNorms:
        return holds(architecture_->head_norms, "");
      case Part::Base:
        break;
    }
    return true;
  }

  void check_complete() const {
    const auto check = [&](const std::string& name, bool wanted) {
      if (has(name) == wanted) return;
      refuse(text("tensor ", in_quotes(name), wanted ? " is missing" : " is none that config.json can tell of"));
    };
    check("token_embd.weight", true);
    check("output_norm.weight", true);
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      for (const LayerTensor& each : kLayerTensors) check(text("blk.", layer, ".", each.gguf), expected(each.part));
    }
  }

  std::string config() const {
    const auto embedding = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                        [](const gguf::Tensor& each) { return each.name == "token_embd.weight"; });
    if (embedding->shape.size() != 2) refuse("tensor \"token_embd.weight\" is no matrix");
    JsonObject out;
    out.raw("architectures", json_array(std::vector<std::string>{std::string(architecture_->model_class)}))
        .add("model_type", architecture_->name)
        .add("dtype", "float32")
        .add("hidden_act", "silu")
        .add("hidden_size", width_)
        .add("intermediate_size", natural("feed_forward_length"))
        .add("num_hidden_layers", layers_)
        .add("num_attention_heads", heads_)
        .add("num_key_value_heads", key_heads_)
        .add("head_dim", head_)
        .add("max_position_embeddings", natural("context_length"))
        .raw("rms_norm_eps", real("attention.layer_norm_rms_epsilon"))
        .raw("rope_theta", real("rope.freq_base", kTheta))
        .add("vocab_size", embedding->shape.front())
        .add("tie_word_embeddings", !has("output.weight"));
    if (architecture_->attention_biases == Rule::Either) out.add("attention_bias", has(kBiasSign));
    if (architecture_->mlp_biases == Rule::Either) out.add("mlp_bias", has(kMlpBiasSign));
    if (!scaling_.empty()) out.raw("rope_scaling", scaling_);
    for (const auto& [key, name] :
         {std::pair("bos", "bos_token_id"), {"eos", "eos_token_id"}, {"padding", "pad_token_id"}}) {
      const gguf::Value* id = header_.find(text("tokenizer.ggml.", key, "_token_id"));
      // Files without such a token may say so by a number beyond the vocabulary, which transformers cannot load.
      if (id != nullptr && id->natural && *id->natural < static_cast<std::uint64_t>(embedding->shape.front())) {
        out.raw(name, id->text);
      }
    }
    return out.str() + "\n";
  }

  const gguf::Header& header_;
  const gguf::Fetch& fetch_;
  const std::string& file_;
  const Architecture* architecture_ = nullptr;
  std::set<std::string, std::less<>> names_;
  std::string scaling_;  ///< of the rotary embedding, as JSON; empty: none
  std::int64_t layers_ = 0;
  std::int64_t width_ = 0;
  std::int64_t heads_ = 0;
  std::int64_t key_heads_ = 0;
  std::int64_t head_ = 0;
};

}  // namespace

HuggingFace hugging_face_of(const gguf::Header& header, const gguf::Fetch& fetch, const std::string& file) {
  return Mapper(header, fetch, file).map();
}

}  // namespace planck::cli
