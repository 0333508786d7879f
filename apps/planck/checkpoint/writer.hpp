// Writes a checkpoint in the shape of another: a file for a file, a folder with everything around the tensors for a
// folder. Nothing is visible under the output's name before `finish`.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/copy.hpp"

namespace planck::cli {

class CheckpointWriter {
 public:
  /// The output of one file is a file if its name ends in ".safetensors", and a folder otherwise. `report` is where a
  /// page will be written later: checked now, before the work.
  CheckpointWriter(const Checkpoint& checkpoint, const std::string& output, bool force, const std::string& report);

  /// A new file for the shard that is `written` under this name.
  File create(const std::string& name) const;

  /// Adds config.json, the index and the other files of a folder, and publishes; the bytes of all files.
  std::uint64_t finish(const std::optional<std::string>& config,
                       const std::vector<std::pair<std::string, std::vector<TensorInfo>>>& shards, Workers& workers,
                       const Advance& advance);

 private:
  const Checkpoint& checkpoint_;
  bool folder_;
  std::optional<Output> output_;
};

}  // namespace planck::cli
