#include "quantize/loading.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <set>
#include <span>
#include <unordered_map>

#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

// Model types of transformers' conversion_mapping.py (5.23) whose weights are split, joined or transposed on loading,
// or whose output heads get names that no rule foresees; and those whose layers share a weight that the file has once
// (Zamba): the scale beside it is not shared, and stays unset. Experts that are files' layers of their own need no
// list: their names tell.
constexpr auto kRearranged = std::to_array<std::string_view>({
    "bailing_hybrid",
    "d_fine",
    "deformable_detr",
    "deimv2",
    "diffusion_gemma",
    "dots3_note",
    "ernie4_5_vl_moe",
    "glm5_next",
    "glm5_next_text",
    "gradium_phonon_tts",
    "grounding-dino",
    "gte",
    "hrm_text",
    "ibert",
    "inkling2",
    "inkling2_text",
    "inkling_mm_model",
    "jina_embeddings_v3",
    "kimi_k25",
    "kimi_linear",
    "llama4",
    "llama4_text",
    "minimax_m3_vl",
    "mistral_large4",
    "mistral_large4_text",
    "mm-grounding-dino",
    "molmo2",
    "molmo2_text",
    "nemo_speechlm",
    "nemotron_h_omni",
    "olmo_hybrid",
    "pe_audio_video",
    "pi0",
    "pp_doclayout_v3",
    "qianfan_ocr",
    "qwen3_vl_moe",
    "qwen4_exp_text",
    "radio",
    "rf_detr",
    "rt_detr",
    "rt_detr_v2",
    "sapiens2",
    "step3p5_vision",
    "step3p7",
    "tipsv2",
    "tipsv2_dpt",
    "tipsv2_text_model",
    "tipsv2_vision_model",
    "ultravbert",
    "unlimited_ocr",
    "unlimited_ocr_vision_encoder",
    "zamba",
    "zamba2",
});

// Model types whose layers inside the blocks get other names on loading (ViT's "attention.query" becomes "q_proj").
// Output heads stay what they are, so these load as long as all linear layers have codes.
constexpr auto kRenamed = std::to_array<std::string_view>({
    "altclip",
    "audio-spectrogram-transformer",
    "axk2",
    "beit",
    "cohere_asr",
    "conditional_detr",
    "cosmos3_edge",
    "cosmos3_omni",
    "deepseek_ocr2",
    "deepseek_v4",
    "deit",
    "detr",
    "dinov2",
    "dinov2_with_registers",
    "dinov3_convnext",
    "dinov3_vit",
    "dots3_note_audio_encoder",
    "dots3_note_vision_encoder",
    "gemma4_unified",
    "hunyuan_vl",
    "hy_v3",
    "hy_v4",
    "hyperclovax_vision_v2",
    "ijepa",
    "laguna",
    "lfm3",
    "lfm3_vl_vision",
    "lw_detr",
    "maskformer",
    "nomic_bert",
    "paddleocr_vl",
    "pixio",
    "pp_doclayout_v2",
    "pp_doclayout_v4",
    "sam3_tracker",
    "sam3_tracker_video",
    "segformer",
    "swin",
    "t5gemma2_encoder",
    "timesfm2_5",
    "ultrabert",
    "unlimited_ocr_sam_vision_model",
    "videomae",
    "vit",
    "vit_mae",
    "vit_msn",
    "vivit",
});

static_assert(std::is_sorted(kRearranged.begin(), kRearranged.end()));
static_assert(std::is_sorted(kRenamed.begin(), kRenamed.end()));

/// The first of the model's types that is in the list, or nothing.
std::string_view found_in(const std::vector<std::string>& types, std::span<const std::string_view> list) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const std::string& type) {
    return std::binary_search(list.begin(), list.end(), std::string_view(type));
  });
  return found == types.end() ? std::string_view() : std::string_view(*found);
}

/// Endings longer than this say no more; it bounds the work for names of a million dots.
constexpr std::size_t kMostParts = 16;

/// Parts that loading takes away or puts elsewhere, and that tell no layer from another: "model" in
/// "language_model.model.layers.0", "vision_model" in "vision_tower.vision_model.encoder".
constexpr std::array<std::string_view, 3> kWrappers{"model", "vision_model", "text_model"};

/// How many of kWrappers a name may lose. A name that begins with "vision_model" or "text_model" is that of one of two
/// models side by side, as CLIP has them, and keeps these words.
std::size_t wrappers_of(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('.'));
  return std::find(kWrappers.begin() + 1, kWrappers.end(), first) == kWrappers.end() ? kWrappers.size() : 1;
}

/// A layer's name without the first `wrappers` of kWrappers, its last parts only.
struct Path {
  Path(std::string_view name, std::size_t wrappers) : words(std::span(kWrappers).first(wrappers)) {
    const std::vector<std::string_view> all = parts_of(name);
    for (std::size_t i = all.size(); i-- > 0;) {
      if (i + 1 < all.size() && std::find(words.begin(), words.end(), all[i]) != words.end()) {
        wrapped.back() = true;
      } else if (parts.size() < kMostParts) {
        parts.push_back(all[i]);
        wrapped.push_back(false);
      } else {
        whole = false;
        break;
      }
    }
  }
  /// The last `count` parts, with dots.
  std::string ending(std::size_t count) const {
    std::string out;
    for (std::size_t i = count; i-- > 0;) out += text(parts[i], i > 0 ? "." : "");
    return out;
  }
  std::span<const std::string_view> words;
  std::vector<std::string_view> parts;  ///< the last one first
  std::vector<bool> wrapped;            ///< whether wrappers stood before each
  bool whole = true;
};

std::string escaped(std::string_view part) {
  std::string out;
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_') out += '\\';
    out += c;
  }
  return out;
}

constexpr const char* kAnyPrefix = "(.*\\.)?";
constexpr const char* kPrefixWithoutNumbers = "([^.0-9][^.]*\\.)*";

std::string alternatives(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out += text(out.empty() ? "(" : "|", escaped(word));
  return out + ")";
}

std::string pattern_of(const char* prefix, const Path& path, std::size_t count) {
  std::string out = text("re:", prefix);
  for (std::size_t i = count; i-- > 0;) {
    if (path.wrapped[i] && i + 1 < count) out += text("(", alternatives(path.words), "\\.)*");
    out += text(escaped(path.parts[i]), i > 0 ? "\\." : "$");
  }
  return out;
}

/// The endings of all names of layers with codes, and of each a layer that has no number before it.
///
/// A name is kept without any wrapper and with "model" alone taken away. Whatever pattern fits it, then, has parts that
/// are one of its endings: a pattern lets come and go either all wrappers, none of which is among its parts, or "model"
/// alone. Endings are kept as hashes, a few bytes for the longest name; two that collide make a pattern longer than it
/// need be, and nothing worse.
class Endings {
 public:
  explicit Endings(const std::vector<Layer>& layers) {
    for (const Layer& layer : layers) {
      if (!layer.quantized) continue;
      add(layer, Path(layer.name, kWrappers.size()));
      add(layer, Path(layer.name, 1));
    }
  }
  bool has(const std::string& ending) const { return endings_.contains(std::hash<std::string>()(ending)); }
  const Layer* outside_blocks(const std::string& ending) const { return endings_.at(std::hash<std::string>()(ending)); }

 private:
  void add(const Layer& layer, const Path& path) {
    std::size_t numbers = path.whole ? 0 : 1;
    for (std::size_t i = path.parts.size(); i-- > 0;) {
      const Layer*& found = endings_.try_emplace(std::hash<std::string>()(path.ending(i + 1)), nullptr).first->second;
      if (numbers == 0) found = &layer;
      const std::string_view part = path.parts[i];
      numbers += !part.empty() && std::isdigit(static_cast<unsigned char>(part.front())) != 0 ? 1 : 0;
    }
  }
  std::unordered_map<std::size_t, const Layer*> endings_;
};

/// The shortest ending that no layer with codes has, as a pattern.
std::string pattern_for(const Layer& layer, const Endings& taken) {
  const Path path(layer.name, wrappers_of(layer.name));
  std::string ending;
  for (std::size_t count = 1; count <= path.parts.size(); ++count) {
    ending = path.ending(count);
    if (!taken.has(ending)) return pattern_of(kAnyPrefix, path, count);
  }
  const Layer* other = path.whole ? taken.outside_blocks(ending) : &layer;
  if (other == nullptr) return pattern_of(kPrefixWithoutNumbers, path, path.parts.size());
  throw Failure(
      ExitCode::Refused,
      text("layer ", in_quotes(layer.name), " stays in float, but its name is the end of that of ",
           in_quotes(other->name), ", which is quantised: transformers puts prefixes before names when it ",
           "loads, and could not tell them apart; treat both alike (--include, --exclude), or use ", "--format plain"));
}

bool is_expert_of_many(std::string_view name) {
  const std::vector<std::string_view> parts = parts_of(name);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (is_number(parts[i]) && parts[i - 1].find("expert") != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> ignore_patterns(const std::vector<Layer>& layers, const ModelFacts& facts) {
  const auto any = [&](auto condition) { return std::any_of(layers.begin(), layers.end(), condition); };
  std::set<std::string> patterns;
  // What the roles of layers follow from, said again for the names in memory: heads that got another name, that the
  // file does not have, or that a class adds to a base model.
  const bool heads = !any([](const Layer& layer) { return layer.quantized && layer.role == Role::Head; });
  if (heads) {
    patterns.insert(text("re:(?i)", kAnyPrefix, alternatives(heads_anywhere()), "(\\..*)?$"));
    patterns.insert(text("re:(?i)", kPrefixWithoutNumbers, alternatives(outermost_heads()), "$"));
  }
  const bool routers = any([](const Layer& layer) { return layer.role == Role::Router; });
  if (routers) patterns.insert(text("re:(?i)", kAnyPrefix, "(gate|[^.]*router[^.]*(\\..*)?)$"));
  const Endings taken(layers);
  const std::string_view renamed = found_in(facts.model_types, kRenamed);
  for (const Layer& layer : layers) {
    if (layer.quantized || (layer.role == Role::Head && heads) || layer.role == Role::Router) continue;
    if (layer.role == Role::Linear && !renamed.empty()) {
      throw Failure(ExitCode::Refused,
                    text("layer ", in_quotes(layer.name), " would stay in float, but transformers gives the layers of ",
                         "model type ", in_quotes(renamed), " other names when it loads them, so its reader of ",
                         "compressed-tensors would take it for a quantised one; quantise all linear layers, or use ",
                         "--format plain"));
    }
    patterns.insert(pattern_for(layer, taken));
  }
  return {patterns.begin(), patterns.end()};
}

void check_loads(const std::vector<Layer>& layers, const ModelFacts& facts, const QuantizeSettings& settings) {
  if (facts.model_types.empty()) return;
  const auto refuse = [&](const std::string& what) {
    throw Failure(ExitCode::Refused,
                  text(what, ", which its reader of compressed-tensors cannot do with codes, wherever they are; use ",
                       "--format plain"));
  };
  const auto expert =
      std::find_if(layers.begin(), layers.end(), [](const Layer& layer) { return is_expert_of_many(layer.name); });
  if (expert != layers.end()) {
    refuse(text("model type ", in_quotes(facts.model_types.front()), " has experts (", in_quotes(expert->name),
                "): transformers joins them into one weight when it loads them"));
  }
  std::string_view type = found_in(facts.model_types, kRearranged);
  // These are split by rows, scales and all: DINOv2 only in the feed-forward layers of its largest model, whose reader
  // stumbles in all others.
  static constexpr std::array<std::string_view, 2> kDinov2{"dinov2", "dinov2_with_registers"};
  static constexpr std::array<std::string_view, 3> kSplit{"dinov2", "dinov2_with_registers", "nomic_bert"};
  if (type.empty() && !facts.swiglu) type = found_in(facts.model_types, kDinov2);
  if (type.empty() && settings.scope == Scope::Tensor) {
    if (const std::string_view split = found_in(facts.model_types, kSplit); !split.empty()) {
      throw Failure(
          ExitCode::Refused,
          text("transformers splits weights of model type ", in_quotes(split),
               " when it loads them, and cannot split the one scale of --scope tensor; use another scope, or ",
               "--format plain"));
    }
  }
  if (!type.empty()) {
    refuse(text("transformers splits, joins, renames or shares weights of model type ", in_quotes(type),
                " when it loads them"));
  }
}

}  // namespace planck::cli
