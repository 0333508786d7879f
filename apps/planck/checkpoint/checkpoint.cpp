#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <set>

#include "checkpoint/gguf.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 4 << 20;
constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kFileName = "model.safetensors";
constexpr const char* kConfigName = "config.json";
constexpr const char* kAdapterConfigName = "adapter_config.json";

bool ends_with(std::string_view text, std::string_view end) { return text.ends_with(end); }

/// Also for a link that leads nowhere: opening it then says so.
bool present(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

/// {"metadata": {…}, "weight_map": {"tensor": "file", …}}; other members are not kept.
class IndexHandler final : public JsonHandler {
 public:
  explicit IndexHandler(const std::string& file) : file_(file) {}

  void begin_object() override {
    if (++depth_ == 3 && in_map()) bad("an object in weight_map");
    has_map |= depth_ == 2 && in_map();
  }
  void end_object() override { --depth_; }
  void begin_array() override {
    if (depth_ < 1 || section_ == "weight_map") bad(depth_ == 1 ? "weight_map is a list" : "a list where none belongs");
    ++depth_;
  }
  void end_array() override { --depth_; }
  void key(std::string& name) override { (depth_ == 1 ? section_ : key_) = std::move(name); }
  void text(std::string& value) override {
    if (in_map()) {
      check_file(value);
      if (!map.emplace(key_, value).second) bad(cli::text("tensor ", in_quotes(key_), " occurs twice in weight_map"));
    } else {
      keep(json_string(value));
    }
  }
  void integer(std::uint64_t magnitude, bool negative) override { keep(cli::text(negative ? "-" : "", magnitude)); }
  void real(double value, const std::string&) override { keep(json_number(value)); }
  void boolean(bool value) override { keep(value ? "true" : "false"); }
  void null() override { keep("null"); }

  std::map<std::string, std::string> map;
  bool has_map = false;
  Metadata metadata;

 private:
  [[noreturn]] void bad(const std::string& what) const {
    throw Failure(ExitCode::BadFile, cli::text(file_, ": ", what));
  }
  bool in_map() const { return depth_ >= 2 && section_ == "weight_map"; }
  void keep(const std::string& json) {
    if (in_map()) bad(cli::text("weight_map: tensor ", in_quotes(key_), " needs the name of a file"));
    if (depth_ == 2 && section_ == "metadata" && key_ != "total_size") metadata.emplace_back(key_, json);
  }
  /// Only files beside the index or in folders below it: no other path may be read, or written under the output.
  void check_file(const std::string& name) const {
    const auto refuse = [&](const char* why) {
      bad(cli::text("tensor ", in_quotes(key_), " lies in ", in_quotes(name), ", which ", why));
    };
    if (!ends_with(name, ".safetensors") || name.find('\0') != std::string::npos) refuse("is no safetensors file");
    const fs::path path = name;
    if (path.is_absolute() || *path.begin() == "..") refuse("is outside the index's folder");
    if (path.lexically_normal() != path) refuse("is no plain path below the index's folder");
    for (const fs::path& part : path) {
      if (part.native().starts_with('.')) refuse("has a hidden file or folder in its path");
    }
  }

  const std::string& file_;
  int depth_ = 0;
  std::string section_;
  std::string key_;
};

void add_shard(Checkpoint& checkpoint, const fs::path& path, std::string name) {
  Shard shard;
  shard.file = File::open(path);
  shard.name = std::move(name);
  shard.written = shard.name;
  if (is_gguf(shard.file)) {
    shard.gguf = read_gguf(shard.file);
    shard.header = header_of(*shard.gguf);
    shard.written = fs::path(shard.name).replace_extension(".safetensors").native();
  } else {
    shard.header = read_header(shard.file);
  }
  checkpoint.inputs.push_back(path);
  checkpoint.shards.push_back(std::move(shard));
}

void add_config(Checkpoint& checkpoint, const fs::path& folder) {
  checkpoint.adapter = present(folder / kAdapterConfigName);
  const fs::path path = folder / kConfigName;
  if (!present(path)) return;
  const File file = File::open(path);
  const std::string name = in_quotes(path.native());
  checkpoint.inputs.push_back(path);
  checkpoint.description_bytes += file.size();
  checkpoint.config_text = read_text(file, kMaxConfigBytes);
  checkpoint.config = parse_document(*checkpoint.config_text, name);
  if (checkpoint.config.kind != Json::Kind::Object) throw Failure(ExitCode::BadFile, text(name, " is no JSON object"));
}

void add_index(Checkpoint& checkpoint, const fs::path& path) {
  const std::string name = in_quotes(path.native());
  IndexHandler handler(name);
  {
    const File file = File::open(path);
    const std::string source = read_text(file, kMaxIndexBytes);
    checkpoint.inputs.push_back(path);
    checkpoint.description_bytes += file.size();
    parse_json(source, name, handler);
  }
  checkpoint.index_name = path.filename().native();
  checkpoint.index_metadata = std::move(handler.metadata);
  std::set<std::string> files;
  for (const auto& [tensor, file] : handler.map) {
    if (!files.insert(file).second) continue;
    if (!fs::exists(path.parent_path() / file)) {
      throw Failure(ExitCode::BadFile,
                    text(name, ": tensor ", in_quotes(tensor), " lies in ", in_quotes(file), ", which does not exist"));
    }
  }
  if (files.empty()) {
    throw Failure(ExitCode::BadFile, text(name, handler.has_map ? ": weight_map is empty: it names no tensor"
                                                                : ": there is no object weight_map"));
  }
  for (const std::string& file : files) add_shard(checkpoint, path.parent_path() / file, file);
  for (const Shard& shard : checkpoint.shards) {
    for (const TensorInfo& tensor : shard.header.tensors) {
      const auto found = handler.map.find(tensor.name);
      if (found != handler.map.end() && found->second == shard.name) handler.map.erase(found);
    }
  }
  if (!handler.map.empty()) {
    const auto& [tensor, file] = *handler.map.begin();
    throw Failure(ExitCode::BadFile, text(name, ": tensor ", in_quotes(tensor), " is not in ", in_quotes(file)));
  }
}

/// The index that lists a folder's shards: transformers', or the only one there is (diffusers calls its own
/// "diffusion_pytorch_model.safetensors.index.json"). None where one file is the model.
std::optional<fs::path> index_of(const fs::path& folder) {
  if (present(folder / kIndexName)) return folder / kIndexName;
  if (present(folder / kFileName)) return std::nullopt;
  std::optional<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().native();
    if (!ends_with(name, ".safetensors.index.json") || name.starts_with('.')) continue;
    if (found) {
      throw Failure(ExitCode::BadFile,
                    text(in_quotes(folder.native()), " holds several indices, ", in_quotes(found->filename().native()),
                         " and ", in_quotes(name), ": give the one that is meant as the input"));
    }
    found = entry.path();
  }
  return found;
}

/// The files of a folder without an index that are its checkpoint: those that transformers would load, and otherwise
/// all but Mistral's second copy of the same weights.
std::vector<fs::path> shards_without_index(const fs::path& folder) {
  if (present(folder / kFileName)) return {folder / kFileName};
  std::vector<fs::path> files;
  std::vector<fs::path> consolidated;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().native();
    if (!ends_with(name, ".safetensors") || name.starts_with('.')) continue;
    (name.starts_with("consolidated") ? consolidated : files).push_back(entry.path());
  }
  if (files.empty()) files = consolidated;
  if (files.empty()) throw Failure(ExitCode::BadFile, text(in_quotes(folder.native()), " holds no safetensors file"));
  std::sort(files.begin(), files.end());
  return files;
}

void add_folder(Checkpoint& checkpoint, const fs::path& folder) {
  checkpoint.root = folder;
  add_config(checkpoint, folder);
  if (const std::optional<fs::path> index = index_of(folder)) {
    add_index(checkpoint, *index);
    const bool listed = std::any_of(checkpoint.shards.begin(), checkpoint.shards.end(),
                                    [](const Shard& shard) { return shard.name == kFileName; });
    if (!listed && present(folder / kFileName)) {
      throw Failure(ExitCode::BadFile, text(in_quotes(folder.native()), " holds ", kFileName, " and ", kIndexName,
                                            ", which does not list it: some loaders take the one for the model and ",
                                            "some the other; remove the one that is not"));
    }
  } else {
    for (const fs::path& file : shards_without_index(folder)) add_shard(checkpoint, file, file.filename().native());
  }
  checkpoint.inputs.push_back(folder);
}

}  // namespace

std::uint64_t Checkpoint::file_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Shard& shard : shards) bytes += shard.file.size();
  return bytes;
}

const TensorInfo* Checkpoint::find(const std::string& name) const noexcept {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &shards[found->second.first].header.tensors[found->second.second];
}

const Shard* Checkpoint::gguf_shard() const noexcept {
  const auto found = std::find_if(shards.begin(), shards.end(), [](const Shard& shard) { return shard.gguf; });
  return found == shards.end() ? nullptr : &*found;
}

std::size_t Checkpoint::shard_of(const std::string& name) const noexcept {
  const auto found = places_.find(name);
  return found == places_.end() ? 0 : found->second.first;
}

Checkpoint open_checkpoint(const std::vector<std::string>& names) {
  Checkpoint checkpoint;
  checkpoint.title = names.front() + (names.size() > 1 ? text(" and ", names.size() - 1, " more") : "");
  checkpoint.folder = names.size() > 1;
  if (names.size() == 1 && fs::is_directory(names.front())) {
    checkpoint.folder = true;
    fs::path folder = names.front();
    if (folder.filename().empty()) folder = folder.parent_path();
    add_folder(checkpoint, folder);
  } else if (names.size() == 1 && ends_with(names.front(), ".index.json")) {
    checkpoint.folder = true;
    const fs::path index = names.front();
    add_config(checkpoint, index.parent_path());
    add_index(checkpoint, index);
  } else {
    for (const std::string& name : names) {
      if (names.size() > 1 && fs::is_directory(name)) {
        throw Failure(ExitCode::Usage, text(in_quotes(name), " is a folder: several inputs must be safetensors files"));
      }
      add_shard(checkpoint, name, fs::path(name).filename().native());
    }
    // What lies beside a GGUF file describes another one: its own metadata says what a config.json would.
    const bool described = checkpoint.gguf_shard() != nullptr;
    if (!described) add_config(checkpoint, fs::path(names.front()).parent_path());
    if (described && names.size() == 1) checkpoint.shards.front().written = kFileName;
  }
  std::set<std::string> files;
  for (std::size_t s = 0; s < checkpoint.shards.size(); ++s) {
    const Shard& shard = checkpoint.shards[s];
    if (!files.insert(shard.written).second) {
      throw Failure(ExitCode::Usage, text("two inputs are called ", in_quotes(shard.written)));
    }
    for (std::size_t t = 0; t < shard.header.tensors.size(); ++t) {
      const std::string& name = shard.header.tensors[t].name;
      const auto [other, is_new] = checkpoint.places_.emplace(name, std::pair(s, t));
      if (is_new) continue;
      throw Failure(ExitCode::BadFile, text("tensor ", in_quotes(name), " is in ", in_quotes(shard.name), " and in ",
                                            in_quotes(checkpoint.shards[other->second.first].name)));
    }
  }
  return checkpoint;
}

std::string index_text(const Metadata& metadata,
                       const std::vector<std::pair<std::string, std::vector<TensorInfo>>>& shards) {
  std::uint64_t total = 0;
  std::map<std::string, const std::string*> places;
  for (const auto& [file, tensors] : shards) {
    for (const TensorInfo& tensor : tensors) {
      total += tensor.bytes;
      places.emplace(tensor.name, &file);
    }
  }
  std::string out = "{\n  \"metadata\": {";
  for (const auto& [name, value] : metadata) out += text("\n    ", json_string(name), ": ", value, ",");
  out += text("\n    \"total_size\": ", total, "\n  },\n  \"weight_map\": {");
  const char* comma = "";
  for (const auto& [name, file] : places) {
    out += text(comma, "\n    ", json_string(name), ": ", json_string(*file));
    comma = ",";
  }
  return out + "\n  }\n}\n";
}

}  // namespace planck::cli
