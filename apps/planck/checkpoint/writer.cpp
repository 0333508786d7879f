#include "checkpoint/writer.hpp"

#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

constexpr const char* kConfigName = "config.json";

/// Everything that the output's folder will hold.
std::set<fs::path> files_of(const Checkpoint& checkpoint) {
  std::set<fs::path> files;
  for (const Shard& shard : checkpoint.shards) files.insert(shard.written);
  if (checkpoint.config_text) files.insert(kConfigName);
  if (!checkpoint.index_name.empty()) files.insert(checkpoint.index_name);
  for (const OtherFile& other : checkpoint.others) files.insert(other.relative);
  return files;
}

/// The page must not replace an input, an old file without --force, or the output itself.
void check_report(const fs::path& path, const fs::path& place, bool inside, bool force,
                  const std::vector<fs::path>& inputs) {
  if (path == place) throw Failure(ExitCode::Usage, "--report and --output name the same file");
  if (!inside) const Output probe(path, Output::Kind::File, force, inputs);
}

}  // namespace

CheckpointWriter::CheckpointWriter(const Checkpoint& checkpoint, const std::string& output, bool force,
                                   const std::string& report)
    : checkpoint_(checkpoint), folder_(checkpoint.folder || !output.ends_with(".safetensors")) {
  const fs::path page = report.empty() ? fs::path() : resolved(report);
  const bool page_inside = folder_ && !page.empty() && page.parent_path() == resolved(output);
  std::set<fs::path> writes = files_of(checkpoint);
  if (page_inside && !writes.insert(page.filename()).second) {
    throw Failure(ExitCode::Usage, text("--report ", in_quotes(report), " would replace a file of the output"));
  }
  output_.emplace(output, folder_ ? Output::Kind::Folder : Output::Kind::File, force, checkpoint.inputs,
                  std::move(writes));
  if (!page.empty()) check_report(page, output_->place(), page_inside, force, checkpoint.inputs);
}

File CheckpointWriter::create(const std::string& name) const {
  if (!folder_) return File::create(output_->temporary());
  const fs::path path = output_->temporary() / name;
  fs::create_directories(path.parent_path());
  return File::create(path);
}

std::uint64_t CheckpointWriter::finish(const std::optional<std::string>& config,
                                       const std::vector<std::pair<std::string, std::vector<TensorInfo>>>& shards,
                                       Workers& workers, const Advance& advance) {
  std::uint64_t bytes = 0;
  if (folder_) {
    if (config) write_text(output_->temporary() / kConfigName, *config);
    if (!checkpoint_.index_name.empty()) {
      write_text(output_->temporary() / checkpoint_.index_name, index_text(checkpoint_.index_metadata, shards));
    }
    for (const OtherFile& other : checkpoint_.others) {
      const fs::path place = output_->temporary() / other.relative;
      fs::create_directories(place.parent_path());
      const File from = File::open(other.source);
      const File to = File::create(place);
      copy_bytes(workers, advance, from, 0, from.size(), to, 0);
      to.sync();
    }
    for (const auto& entry : fs::recursive_directory_iterator(output_->temporary())) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
  } else {
    bytes = fs::file_size(output_->temporary());
  }
  output_->publish();
  return bytes;
}

}  // namespace planck::cli
