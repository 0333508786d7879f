// planck dequantize: codes and scales back to floats, everything else as it is.
#include <cstdio>

#include "checkpoint/folder.hpp"
#include "checkpoint/writer.hpp"
#include "commands/commands.hpp"
#include "quantize/stored.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

/// config.json without what describes codes that are gone.
std::optional<std::string> plain_config(const Checkpoint& checkpoint) {
  if (!checkpoint.config_text) return std::nullopt;
  const Json* config = checkpoint.config.find("quantization_config");
  if (config == nullptr) return checkpoint.config_text;
  const Json* method = config->find("quant_method");
  if (method == nullptr || method->text != "compressed-tensors") {
    throw Failure(ExitCode::Refused, "config.json says that another method than compressed-tensors was used");
  }
  std::string out = *checkpoint.config_text;
  const MemberRange member = find_member(out, "quantization_config");
  return out.erase(member.begin, member.end - member.begin);
}

/// The output: its files, each with its tensors in their order, and what they come to.
struct Restored {
  std::vector<std::pair<std::string, std::vector<TensorInfo>>> files;
  std::int64_t coded = 0;  ///< tensors that were codes
  std::uint64_t bytes = 0;
};

Restored restored_of(const Checkpoint& checkpoint, const std::vector<StoredTensor>& tensors) {
  Restored restored;
  for (const Shard& shard : checkpoint.shards) restored.files.emplace_back(shard.name, std::vector<TensorInfo>());
  for (const StoredTensor& each : tensors) {
    restored.coded += each.coded() ? 1 : 0;
    restored.files[each.shard].second.push_back(new_tensor(each.tensor->name, each.dtype(), each.tensor->shape));
  }
  if (restored.coded == 0) {
    throw Failure(ExitCode::Refused, text("nothing to dequantise in ", in_quotes(checkpoint.title),
                                          ": no tensor of I8 or U8 has scales beside it (name + \"_scale\")"));
  }
  return restored;
}

/// New files with their headers; where each tensor goes is settled then.
std::vector<File> create_files(const Checkpoint& checkpoint, const CheckpointWriter& writer, Restored& restored) {
  std::vector<File> outputs;
  for (std::size_t s = 0; s < restored.files.size(); ++s) {
    auto& [name, tensors] = restored.files[s];
    const std::string header = lay_out(tensors, checkpoint.shards[s].header.metadata);
    outputs.push_back(writer.create(name));
    outputs.back().write(std::as_bytes(std::span(header)), 0);
    restored.bytes += header.size();
    for (const TensorInfo& tensor : tensors) restored.bytes += tensor.bytes;
  }
  return outputs;
}

void write_elements(const StoredTensor& stored, const TensorInfo& out, const File& output, Workers& workers,
                    RestorePlans& plans, const Advance& advance) {
  const std::int64_t size = stored.dtype().bits / 8;
  // Whole rows where they fit, so that a piece is one run.
  const std::int64_t piece =
      std::max<std::int64_t>(1, kStoredPiece / std::max<std::int64_t>(stored.columns, 1)) * stored.columns;
  const std::int64_t step = piece > kStoredPiece || piece == 0 ? kStoredPiece : piece;
  workers.for_each((out.elements + step - 1) / step, [&](int worker, std::int64_t p) {
    const std::int64_t first = p * step;
    const std::int64_t count = std::min(step, out.elements - first);
    const std::byte* elements = stored.read(first, count, plans, workers.scratch(worker), 0);
    output.write({elements, static_cast<std::size_t>(count * size)},
                 out.begin + static_cast<std::uint64_t>(first * size));
    advance(static_cast<std::uint64_t>(count * size));
  });
  output.start_writing(out.begin, out.bytes);
}

void print(const DequantizeOptions& options, const Checkpoint& checkpoint, const Restored& restored,
           std::uint64_t folder_bytes, double seconds) {
  if (options.json) {
    JsonObject out;
    out.add("command", "dequantize")
        .add("version", version_text())
        .add("input", checkpoint.title)
        .add("output", options.output);
    out.add("tensors", restored.coded).add("bytes_before", checkpoint.file_bytes()).add("bytes_after", restored.bytes);
    add_folder_members(out, checkpoint, folder_bytes);
    out.add("seconds", seconds).add("peak_memory_bytes", peak_memory());
    std::printf("%s\n", out.str().c_str());
    return;
  }
  std::printf("%sdequantised %s, %s -> %s, in %.2f s\nwritten: %s\n", folder_lines(checkpoint, folder_bytes).c_str(),
              counted(restored.coded, "tensor").c_str(), bytes_text(checkpoint.file_bytes()).c_str(),
              bytes_text(restored.bytes).c_str(), seconds, printable(options.output).c_str());
}

}  // namespace

void dequantize_command(const DequantizeOptions& options) {
  const Checkpoint checkpoint = with_folder_files(open_checkpoint(options.inputs), options.copy_all);
  const std::vector<StoredTensor> tensors = stored_tensors(checkpoint);
  const std::optional<std::string> config = plain_config(checkpoint);
  Restored restored = restored_of(checkpoint, tensors);
  CheckpointWriter writer(checkpoint, options.output, options.force, "");
  Workers workers(options.threads);
  const std::vector<File> outputs = create_files(checkpoint, writer, restored);
  Progress progress("dequantising", restored.bytes, options.json);
  const Advance advance = [&](std::uint64_t bytes) { progress.advance(bytes); };
  RestorePlans plans;
  std::vector<std::size_t> next(outputs.size(), 0);
  for (const StoredTensor& each : tensors) {
    const TensorInfo& out = restored.files[each.shard].second[next[each.shard]++];
    const File& output = outputs[each.shard];
    if (each.coded()) {
      write_elements(each, out, output, workers, plans, advance);
    } else {
      copy_bytes(workers, advance, *each.file, each.tensor->begin, each.tensor->bytes, output, out.begin);
    }
  }
  for (const File& output : outputs) output.sync();
  const std::uint64_t folder_bytes = writer.finish(config, restored.files, workers, advance);
  print(options, checkpoint, restored, folder_bytes, progress.seconds());
}

}  // namespace planck::cli
