#include "checkpoint.hpp"

#include <algorithm>
#include <set>

#include "failure.hpp"

namespace planck::cli {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 4 << 20;
constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kConfigName = "config.json";

bool ends_with(std::string_view text, std::string_view end) { return text.ends_with(end); }

/// {"metadata": {…}, "weight_map": {"tensor": "file", …}}; other members are not kept.
class IndexHandler final : public JsonHandler {
 public:
  explicit IndexHandler(const std::string& file) : file_(file) {}

  void begin_object() override {
    if (++depth_ == 3 && in_map()) bad("an object in weight_map");
  }
  void end_object() override { --depth_; }
  void begin_array() override {
    if (depth_ < 1 || in_map()) bad("a list where none belongs");
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
  /// Only files next to the index: no other path may be read, or written under the output.
  void check_file(const std::string& name) const {
    if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
        !ends_with(name, ".safetensors")) {
      bad(cli::text("tensor ", in_quotes(key_), " lies in ", in_quotes(name),
                    ", which is no safetensors file next to the index"));
    }
  }

  const std::string& file_;
  int depth_ = 0;
  std::string section_;
  std::string key_;
};

void add_shard(Checkpoint& checkpoint, const fs::path& path) {
  Shard shard;
  shard.file = File::open(path);
  shard.name = path.filename().native();
  shard.header = read_header(shard.file);
  checkpoint.inputs.push_back(path);
  checkpoint.shards.push_back(std::move(shard));
}

void add_config(Checkpoint& checkpoint, const fs::path& path) {
  if (!fs::exists(path)) return;
  const File file = File::open(path);
  const std::string name = in_quotes(path.native());
  checkpoint.inputs.push_back(path);
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
  if (files.empty()) throw Failure(ExitCode::BadFile, text(name, ": no weight_map"));
  for (const std::string& file : files) add_shard(checkpoint, path.parent_path() / file);
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

/// Everything in the folder but the checkpoint itself; what belongs to git or a download tool stays behind.
void add_others(Checkpoint& checkpoint, const fs::path& folder) {
  std::set<fs::path> own;
  for (const fs::path& input : checkpoint.inputs) own.insert(input);
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    if (entry->is_directory()) {
      const std::string name = path.filename().native();
      if (name == ".git" || name == ".cache" || entry->is_symlink()) entry.disable_recursion_pending();
      continue;
    }
    if (own.contains(path)) continue;
    if (!entry->is_regular_file()) throw Failure(ExitCode::Io, text(in_quotes(path.native()), " is no regular file"));
    checkpoint.others.push_back({path, fs::relative(path, folder)});
  }
  std::sort(checkpoint.others.begin(), checkpoint.others.end(),
            [](const OtherFile& a, const OtherFile& b) { return a.relative < b.relative; });
  for (const OtherFile& other : checkpoint.others) checkpoint.inputs.push_back(other.source);
}

void add_folder(Checkpoint& checkpoint, const fs::path& folder) {
  add_config(checkpoint, folder / kConfigName);
  if (fs::exists(folder / kIndexName)) {
    add_index(checkpoint, folder / kIndexName);
  } else {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    if (files.empty()) throw Failure(ExitCode::BadFile, text(in_quotes(folder.native()), " holds no safetensors file"));
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) add_shard(checkpoint, file);
  }
  add_others(checkpoint, folder);
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
    add_config(checkpoint, index.parent_path() / kConfigName);
    add_index(checkpoint, index);
  } else {
    for (const std::string& name : names) {
      if (names.size() > 1 && fs::is_directory(name)) {
        throw Failure(ExitCode::Usage, text(in_quotes(name), " is a folder: several inputs must be safetensors files"));
      }
      add_shard(checkpoint, name);
    }
    add_config(checkpoint, fs::path(names.front()).parent_path() / kConfigName);
  }
  std::set<std::string> files;
  for (std::size_t s = 0; s < checkpoint.shards.size(); ++s) {
    const Shard& shard = checkpoint.shards[s];
    if (!files.insert(shard.name).second) {
      throw Failure(ExitCode::Usage, text("two inputs are called ", in_quotes(shard.name)));
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
