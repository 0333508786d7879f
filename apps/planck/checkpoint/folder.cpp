#include "checkpoint/folder.hpp"

#include <algorithm>
#include <set>

#include "terminal/failure.hpp"
#include "terminal/table.hpp"
#include "terminal/unicode.hpp"

namespace planck::cli {
namespace {

constexpr const char* kModulesName = "modules.json";
constexpr std::uint64_t kMaxModulesBytes = 1 << 20;

constexpr const char* kOtherWeights = "other weights";
constexpr const char* kNested = "a checkpoint of its own";

/// Extensions of weights and training states, for whichever program; `.model` and `.pkl` are tokenizers and
/// classifiers, `.npy` and `.npz` voices and other small tables.
constexpr std::string_view kWeights[] = {".safetensors", ".bin",   ".pt",        ".pth",      ".ckpt", ".h5",
                                         ".hdf5",        ".keras", ".msgpack",   ".ot",       ".onnx", ".onnx_data",
                                         ".gguf",        ".ggml",  ".llamafile", ".nemo",     ".pb",   ".tflite",
                                         ".mlmodel",     ".pte",   ".pdparams",  ".mlpackage"};

/// Files with such an extension that models are loaded with, beside their weights: Qwen2.5-Omni's voices, and MMS'
/// adapters, one for each language.
bool is_companion(std::string_view name) { return name == "spk_dict.pt" || name.starts_with("adapter."); }

/// By its name alone: "model.onnx", "model.onnx_data_1", "model.onnx.data", "bert_model.ckpt.index".
bool is_weights(const fs::path& path) {
  const std::string name = lowered(path.filename().native());
  if (is_companion(name)) return false;
  return std::any_of(std::begin(kWeights), std::end(kWeights), [&](auto end) { return name.ends_with(end); }) ||
         name.find(".onnx_data") != name.npos || name.find(".onnx.") != name.npos || name.find(".ckpt.") != name.npos;
}

/// "pytorch_model.bin.index.json", "model.safetensors.index.fp16.json": it would name files that are not there.
bool is_index(const fs::path& path) {
  const std::string name = path.filename().native();
  return name.ends_with(".json") && name.find(".index.") != name.npos;
}

/// "config.json", or weights called "model…", "pytorch_model…", "consolidated…", "tf_model…" or by a format of their
/// own.
bool names_a_model(const fs::path& path) {
  const std::string name = path.filename().native();
  if (name == "config.json" || name == "params.json") return true;
  const fs::path end = path.extension();
  return is_weights(path) && (name.find("model") != name.npos || name.starts_with("consolidated") || end == ".onnx" ||
                              end == ".gguf" || end == ".safetensors");
}

bool is_dot(const fs::path& path) { return path.filename().native().starts_with('.'); }

/// Every entry, in the order of their names.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries{fs::directory_iterator(folder), fs::directory_iterator()};
  std::sort(entries.begin(), entries.end());
  return entries;
}

class Sorter {
 public:
  Sorter(Checkpoint& checkpoint, bool copy_all)
      : checkpoint_(checkpoint), own_(checkpoint.inputs.begin(), checkpoint.inputs.end()), copy_all_(copy_all) {
    add_modules();
  }

  void sort(const fs::path& folder, bool module) {
    for (const fs::directory_entry& entry : entries_of(folder)) sort_entry(entry, module);
  }

 private:
  /// sentence-transformers' models have parts in folders of their own, which modules.json names.
  void add_modules() {
    const fs::path path = checkpoint_.root / kModulesName;
    if (!fs::is_regular_file(path)) return;
    const Json modules = parse_document(read_text(File::open(path), kMaxModulesBytes), in_quotes(path.native()));
    for (const Json& module : modules.items) {
      const Json* place = module.find("path");
      if (place == nullptr || place->text.empty()) continue;
      const fs::path folder = (checkpoint_.root / place->text).lexically_normal();
      modules_.insert(folder.has_filename() ? folder : folder.parent_path());  // "2_Dense/" is "2_Dense"
    }
  }

  void sort_entry(const fs::directory_entry& entry, bool module) {
    const fs::path& path = entry.path();
    std::error_code error;
    const fs::file_status status = entry.status(error);  // of what a link leads to
    if (!fs::exists(status)) return leave(path, "a link that leads nowhere");
    if (fs::is_directory(status)) return sort_folder(entry, module);
    if (own_.contains(path)) return;
    if (!fs::is_regular_file(status)) return leave(path, "no regular file");
    if (!copy_all_) {
      if (is_dot(path)) return leave(path, "dot file");
      if (!module && is_weights(path)) return leave(path, kOtherWeights);
      if (!module && is_index(path)) return leave(path, "index of other weights");
    }
    checkpoint_.others.push_back({path, path.lexically_relative(checkpoint_.root), entry.file_size()});
    checkpoint_.inputs.push_back(path);
  }

  void sort_folder(const fs::directory_entry& entry, bool module) {
    const fs::path& path = entry.path();
    if (path.filename() == ".git" || path.filename() == ".cache") {
      return leave(path, "of git or a download tool, about the original files");
    }
    if (entry.is_symlink()) return leave(path, "a link to a folder");
    const bool inner_module = module || modules_.contains(path.lexically_normal());
    if (!copy_all_) {
      if (is_dot(path)) return leave(path, "dot folder");
      if (!inner_module && (is_weights(path) || holds_other_weights(path))) return leave(path, kNested);
    }
    sort(path, inner_module);
  }

  /// A model of its own has a description, or weights under a name that loaders look for; what else lies in folders
  /// (processors, assets) is sorted file by file. Not where shards of the checkpoint itself lie.
  bool holds_other_weights(const fs::path& folder) const {
    const std::vector<fs::directory_entry> entries = entries_of(folder);
    return std::none_of(entries.begin(), entries.end(), [&](const auto& each) { return own_.contains(each.path()); }) &&
           std::any_of(entries.begin(), entries.end(), [](const auto& each) { return is_weights(each.path()); }) &&
           std::any_of(entries.begin(), entries.end(), [](const auto& each) { return names_a_model(each.path()); });
  }

  void leave(const fs::path& path, const char* reason) {
    LeftOut out{path.lexically_relative(checkpoint_.root), false, 0, 0, reason};
    const auto add = [&](const fs::directory_entry& entry) {
      std::error_code error;
      if (!entry.is_regular_file(error)) return;
      const std::uintmax_t bytes = entry.file_size(error);
      ++out.files;
      if (!error) out.bytes += bytes;
    };
    const fs::directory_entry entry(path);
    std::error_code error;
    out.folder = !entry.is_symlink(error) && entry.is_directory(error);
    if (out.folder) {
      constexpr auto kSkip = fs::directory_options::skip_permission_denied;
      for (const auto& inner : fs::recursive_directory_iterator(path, kSkip)) add(inner);
    } else {
      add(entry);
    }
    checkpoint_.left_out.push_back(std::move(out));
  }

  Checkpoint& checkpoint_;
  std::set<fs::path> own_;
  std::set<fs::path> modules_;
  bool copy_all_;
};

std::uint64_t copied_bytes(const Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (const OtherFile& other : checkpoint.others) bytes += other.bytes;
  return bytes;
}

std::uint64_t bytes_before(const Checkpoint& checkpoint) {
  std::uint64_t bytes = checkpoint.file_bytes() + checkpoint.description_bytes + copied_bytes(checkpoint);
  for (const LeftOut& out : checkpoint.left_out) bytes += out.bytes;
  return bytes;
}

}  // namespace

Checkpoint with_folder_files(Checkpoint checkpoint, bool copy_all) {
  if (!checkpoint.root.empty()) Sorter(checkpoint, copy_all).sort(checkpoint.root, false);
  return checkpoint;
}

std::string folder_lines(const Checkpoint& checkpoint, std::optional<std::uint64_t> bytes_after) {
  if (checkpoint.root.empty()) return {};
  std::string lines;
  if (!checkpoint.others.empty()) {
    lines += text("copied: ", counted(static_cast<std::int64_t>(checkpoint.others.size()), "other file"), ", ",
                  bytes_text(copied_bytes(checkpoint)), "\n");
  }
  for (const LeftOut& out : checkpoint.left_out) {
    lines += text("left out: ", printable(out.relative.native()), out.folder ? "/, " : ", ");
    if (out.folder) lines += counted(static_cast<std::int64_t>(out.files), "file") + ", ";
    lines += text(bytes_text(out.bytes), " (", out.reason, ")\n");
  }
  lines += text("folder: ", bytes_text(bytes_before(checkpoint)));
  if (bytes_after) lines += text(" -> ", bytes_text(*bytes_after));
  return lines + "\n";
}

void add_folder_members(JsonObject& object, const Checkpoint& checkpoint, std::optional<std::uint64_t> bytes_after) {
  JsonArray copied;
  for (const OtherFile& other : checkpoint.others) {
    copied.raw(JsonObject().add("path", other.relative.native()).add("bytes", other.bytes).str());
  }
  JsonArray left_out;
  for (const LeftOut& out : checkpoint.left_out) {
    JsonObject each;
    each.add("path", out.relative.native()).add("files", out.files).add("bytes", out.bytes).add("reason", out.reason);
    left_out.raw(each.str());
  }
  const auto number = [&](std::optional<std::uint64_t> bytes) {
    return checkpoint.root.empty() || !bytes ? std::string("null") : std::to_string(*bytes);
  };
  object.raw("folder_bytes_before", number(bytes_before(checkpoint))).raw("folder_bytes_after", number(bytes_after));
  object.raw("copied_files", copied.str()).raw("left_out", left_out.str());
}

}  // namespace planck::cli
