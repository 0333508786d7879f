// Writes a made-up checkpoint with the names and shapes of a Llama model, for trying `planck quantize` without one:
//   synthetic_checkpoint FOLDER [MEGABYTES]
// The weights are f32, nearly normal, with a few outliers, and the same for every run. The format is safetensors: 8
// bytes with the header's length, the header as JSON, then the tensors one after the other.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Tensor {
  std::string name;
  std::int64_t rows;
  std::int64_t columns;  ///< 0 for a vector
  std::int64_t count() const { return columns == 0 ? rows : rows * columns; }
};

struct Model {
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t layers;
  std::int64_t words;
  std::vector<Tensor> tensors;
};

/// As many layers as come closest to the size.
Model model_of(std::int64_t bytes) {
  Model model = bytes < 400'000'000 ? Model{512, 1408, 0, 4096, {}} : Model{2048, 5632, 0, 8192, {}};
  const std::int64_t layer = 4 * (4 * model.hidden * model.hidden + 3 * model.hidden * model.inner + 2 * model.hidden);
  const std::int64_t rest = 4 * (2 * model.words * model.hidden + model.hidden);
  model.layers = std::max<std::int64_t>(1, (bytes - rest + layer / 2) / layer);
  model.tensors.push_back({"model.embed_tokens.weight", model.words, model.hidden});
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + '.';
    for (const char* part : {"q", "k", "v", "o"}) {
      model.tensors.push_back({at + "self_attn." + part + "_proj.weight", model.hidden, model.hidden});
    }
    model.tensors.push_back({at + "mlp.gate_proj.weight", model.inner, model.hidden});
    model.tensors.push_back({at + "mlp.up_proj.weight", model.inner, model.hidden});
    model.tensors.push_back({at + "mlp.down_proj.weight", model.hidden, model.inner});
    model.tensors.push_back({at + "input_layernorm.weight", model.hidden, 0});
    model.tensors.push_back({at + "post_attention_layernorm.weight", model.hidden, 0});
  }
  model.tensors.push_back({"model.norm.weight", model.hidden, 0});
  model.tensors.push_back({"lm_head.weight", model.words, model.hidden});
  return model;
}

std::string header_of(const Model& model) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t offset = 0;
  for (const Tensor& tensor : model.tensors) {
    const std::string shape =
        std::to_string(tensor.rows) + (tensor.columns ? ',' + std::to_string(tensor.columns) : "");
    json += ",\"" + tensor.name + R"(":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)";
    const std::int64_t end = offset + 4 * tensor.count();
    json += std::to_string(offset) + ',' + std::to_string(end) + "]}";
    offset = end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

std::string config_of(const Model& model) {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "hidden_size": )" +
         std::to_string(model.hidden) + R"(, "intermediate_size": )" + std::to_string(model.inner) +
         R"(, "num_hidden_layers": )" + std::to_string(model.layers) + R"(, "num_attention_heads": )" +
         std::to_string(model.hidden / 64) + R"(, "num_key_value_heads": )" + std::to_string(model.hidden / 64) +
         R"(, "vocab_size": )" + std::to_string(model.words) + R"(, "tie_word_embeddings": false})" + "\n";
}

/// The sum of four uniform numbers, which looks normal, from one hash (splitmix64) of the element's number.
float element(std::uint64_t number) {
  std::uint64_t hash = (number + 1) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ hash >> 30U) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ hash >> 27U) * 0x94D049BB133111EBU;
  hash ^= hash >> 31U;
  const auto sum =
      static_cast<std::int32_t>((hash & 0xFFFFU) + (hash >> 16U & 0xFFFFU) + (hash >> 32U & 0xFFFFU) + (hash >> 48U));
  const float x = static_cast<float>(sum - 2 * 0xFFFF) * (0.02F / 37837);
  return number % 4999 == 0 ? 4 * x : x;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return std::fputs("usage: synthetic_checkpoint FOLDER [MEGABYTES]\n", stderr), 2;
  const std::filesystem::path folder = argv[1];
  const Model model = model_of((argc == 3 ? std::atoll(argv[2]) : 100) * 1'000'000);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config_of(model);
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  const std::string header = header_of(model);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header;
  std::uint64_t number = 0;
  std::vector<float> piece;
  for (const Tensor& tensor : model.tensors) {
    for (std::int64_t left = tensor.count(); left > 0; left -= static_cast<std::int64_t>(piece.size())) {
      piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(left, 1 << 20)));
      // Layer norms multiply by about 1.
      for (float& x : piece) x = element(number++) + (tensor.columns == 0 ? 1.0F : 0.0F);
      file.write(reinterpret_cast<const char*>(piece.data()),
                 static_cast<std::streamsize>(piece.size() * sizeof(float)));
    }
  }
  if (!file.flush()) return std::perror("synthetic_checkpoint"), 1;
  std::printf("%s: %" PRId64 " layers, %.1f MB\n", (folder / "model.safetensors").c_str(), model.layers,
              static_cast<double>(8 + header.size() + 4 * number) * 1e-6);
  return 0;
}
