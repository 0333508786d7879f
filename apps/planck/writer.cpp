#include "writer.hpp"

#include "failure.hpp"
#include "planck/version.hpp"

namespace planck::cli {
namespace {

/// The page must not replace an input, an old file without --force, or the output itself.
void check_report(const std::string& report, const fs::path& place, bool folder, bool force,
                  const std::vector<fs::path>& inputs) {
  const fs::path path = fs::weakly_canonical(fs::absolute(report));
  if (path == place) throw Failure(ExitCode::Usage, "--report and --output name the same file");
  const bool inside = folder && path.parent_path() == place;
  if (!inside) const Output probe(path, Output::Kind::File, force, inputs);
}

}  // namespace

CheckpointWriter::CheckpointWriter(const Checkpoint& checkpoint, const std::string& output, bool force,
                                   const std::string& report)
    : checkpoint_(checkpoint), folder_(checkpoint.folder || !output.ends_with(".safetensors")) {
  output_.emplace(output, folder_ ? Output::Kind::Folder : Output::Kind::File, force, checkpoint.inputs);
  if (!report.empty()) check_report(report, output_->place(), folder_, force, checkpoint.inputs);
}

File CheckpointWriter::create(const std::string& shard_name) const {
  return File::create(folder_ ? output_->temporary() / shard_name : output_->temporary());
}

void CheckpointWriter::finish(const std::optional<std::string>& config,
                              const std::vector<std::pair<std::string, std::vector<TensorInfo>>>& shards,
                              Quantizer& copier) {
  if (folder_) {
    if (config) write_text(output_->temporary() / "config.json", *config);
    if (!checkpoint_.index_name.empty()) {
      write_text(output_->temporary() / checkpoint_.index_name, index_text(checkpoint_.index_metadata, shards));
    }
    for (const OtherFile& other : checkpoint_.others) {
      const fs::path place = output_->temporary() / other.relative;
      fs::create_directories(place.parent_path());
      const File from = File::open(other.source);
      const File to = File::create(place);
      copier.copy(from, 0, from.size(), to, 0);
      to.sync();
    }
  }
  output_->publish();
}

std::string version_text() { return text(PLANCK_VERSION_MAJOR, ".", PLANCK_VERSION_MINOR, ".", PLANCK_VERSION_PATCH); }

}  // namespace planck::cli
