// A checkpoint as users name it: a safetensors or GGUF file, several, an index of shards, or a folder.
//
// Opening reads and checks every header, the index and config.json; it reads no tensor. Files stay open, so what was
// checked is what is read later.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/safetensors.hpp"
#include "gguf/header.hpp"

namespace planck::cli {

/// One file of the checkpoint: safetensors, or with `gguf` a GGUF file.
struct Shard {
  File file;
  std::string name;     ///< of the file, below the index's folder
  std::string written;  ///< the output's file: the same name, or one of safetensors
  Header header;
  std::optional<gguf::Header> gguf;
};

/// A file of the folder that is copied as it is.
struct OtherFile {
  fs::path source;
  fs::path relative;
  std::uint64_t bytes = 0;
};

/// A file of the folder, or a folder in it, that is not copied.
struct LeftOut {
  fs::path relative;
  bool folder = false;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  const char* reason = "";
};

struct Checkpoint {
  std::string title;    ///< as the user named it
  bool folder = false;  ///< the output is a folder too
  std::vector<Shard> shards;
  fs::path root;                  ///< the folder, if that was named
  std::vector<OtherFile> others;  ///< of the folder, once `with_folder_files` has looked
  std::vector<LeftOut> left_out;  ///< likewise
  std::optional<std::string> config_text;
  Json config;                          ///< parsed; Null without config.json
  bool adapter = false;                 ///< there is an adapter_config.json: weights that are added to another model's
  std::string index_name;               ///< of the shards' index; empty without one
  Metadata index_metadata;              ///< its members as JSON, but for total_size
  std::uint64_t description_bytes = 0;  ///< of config.json and the index
  std::vector<fs::path> inputs;         ///< everything that was opened or will be copied, for the check of outputs

  std::uint64_t file_bytes() const noexcept;
  /// The shard and tensor of a name, or null.
  const TensorInfo* find(const std::string& name) const noexcept;
  std::size_t shard_of(const std::string& name) const noexcept;
  /// The first GGUF file, or null.
  const Shard* gguf_shard() const noexcept;

 private:
  friend Checkpoint open_checkpoint(const std::vector<std::string>& names);
  std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>> places_;
};

Checkpoint open_checkpoint(const std::vector<std::string>& names);

/// The text of an index over shards with these tensors.
std::string index_text(const Metadata& metadata,
                       const std::vector<std::pair<std::string, std::vector<TensorInfo>>>& shards);

}  // namespace planck::cli
