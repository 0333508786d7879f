// planck dequantize: codes and scales, and GGUF's blocks, back to floats, everything else as it is.
#include <algorithm>
#include <cstdio>

#include "checkpoint/folder.hpp"
#include "checkpoint/hugging_face.hpp"
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
  std::int64_t coded = 0;  ///< tensors that were codes or blocks
  std::uint64_t bytes = 0;
};

/// What a GGUF file must have beyond being whole: blocks that are decoded, and names that safetensors can hold.
void check_gguf(const Checkpoint& checkpoint) {
  for (const Shard& shard : checkpoint.shards) {
    if (!shard.gguf) continue;
    const gguf::Value* parts = shard.gguf->find("split.count");
    if (parts != nullptr && parts->text != std::to_string(checkpoint.shards.size()) && parts->text != "0") {
      throw Failure(ExitCode::Refused, text(in_quotes(shard.name), " is one of ", printable(parts->text),
                                            " parts of a model (split.count): give all of them"));
    }
    for (const TensorInfo& tensor : shard.header.tensors) {
      check_decodes(tensor);
      if (tensor.name == kMetadataKey) {
        throw Failure(ExitCode::Refused,
                      text("tensor ", in_quotes(tensor.name), ": safetensors keeps this name for what is no tensor"));
      }
      const bool codes = tensor.dtype.kind && is_quantized(*tensor.dtype.kind);
      if (codes && checkpoint.find(tensor.name + "_scale") != nullptr) {
        throw Failure(ExitCode::Refused, text("tensor ", in_quotes(tensor.name), ": beside ",
                                              in_quotes(tensor.name + "_scale"), " it would be read as codes"));
      }
    }
  }
}

/// With --names hf: new names, rows in their order, and a config.json.
void take_hugging_face_names(Checkpoint& checkpoint, const std::string& output, std::vector<StoredTensor>& tensors,
                             std::vector<std::string>& names) {
  if (checkpoint.shards.size() != 1 || !checkpoint.shards.front().gguf) {
    throw Failure(ExitCode::Usage, "--names hf needs one GGUF file, and nothing else, as its input");
  }
  if (output.ends_with(".safetensors")) {
    throw Failure(ExitCode::Usage, "--names hf writes a config.json too, so its output must be a folder");
  }
  const Shard& shard = checkpoint.shards.front();
  const gguf::Fetch fetch = [&](std::span<std::byte> to, std::uint64_t offset) { shard.file.read(to, offset); };
  HuggingFace model = hugging_face_of(*shard.gguf, fetch, in_quotes(shard.name));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    names[i] = std::move(model.tensors[i].name);
    tensors[i].rotary_heads = model.tensors[i].rotary_heads;
  }
  // What has become a part of config.json is no tensor any more.
  if (const auto first = std::find(names.begin(), names.end(), ""); first != names.end()) {
    tensors.erase(tensors.begin() + (first - names.begin()));
    names.erase(first);
  }
  checkpoint.config_text = std::move(model.config);
}

Restored restored_of(const Checkpoint& checkpoint, const std::vector<StoredTensor>& tensors,
                     const std::vector<std::string>& names) {
  Restored restored;
  for (const Shard& shard : checkpoint.shards) restored.files.emplace_back(shard.written, std::vector<TensorInfo>());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& each = tensors[i];
    restored.coded += each.coded() || each.tensor->blocks != nullptr ? 1 : 0;
    restored.files[each.shard].second.push_back(new_tensor(names[i], each.dtype(), each.tensor->shape));
  }
  // A GGUF file of plain elements alone becomes safetensors, which is worth something too.
  if (tensors.empty() || (restored.coded == 0 && checkpoint.gguf_shard() == nullptr)) {
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
    const Shard& shard = checkpoint.shards[s];
    const std::string header = lay_out(tensors, shard.gguf ? Metadata{{"format", "pt"}} : shard.header.metadata);
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
  Checkpoint checkpoint = with_folder_files(open_checkpoint(options.inputs), options.copy_all);
  check_gguf(checkpoint);
  std::vector<StoredTensor> tensors = stored_tensors(checkpoint);
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const StoredTensor& each : tensors) names.push_back(each.tensor->name);
  if (options.names == "hf") take_hugging_face_names(checkpoint, options.output, tensors, names);
  const std::optional<std::string> config = plain_config(checkpoint);
  Restored restored = restored_of(checkpoint, tensors, names);
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
    if (each.copied()) {
      copy_bytes(workers, advance, *each.file, each.tensor->begin, each.tensor->bytes, output, out.begin);
    } else {
      write_elements(each, out, output, workers, plans, advance);
    }
  }
  for (const File& output : outputs) output.sync();
  const std::uint64_t folder_bytes = writer.finish(config, restored.files, workers, advance);
  print(options, checkpoint, restored, folder_bytes, progress.seconds());
}

}  // namespace planck::cli
