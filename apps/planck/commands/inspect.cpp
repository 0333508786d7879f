// planck inspect: the tensors of a checkpoint, their ranges, and totals.
#include <cstdio>
#include <map>

#include "checkpoint/checkpoint.hpp"
#include "commands/commands.hpp"
#include "quantize/ranges.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
void inspect_command(const InspectOptions& options) {
  const Checkpoint checkpoint = open_checkpoint(options.inputs);
  using Align = Table::Align;
  Table table({{"tensor"},
               {"dtype"},
               {"shape"},
               {"min", Align::Right},
               {"max", Align::Right},
               {"NaN", Align::Right},
               {"Inf", Align::Right},
               {"size", Align::Right}});
  Workers workers(options.threads);
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> by_dtype;
  std::int64_t elements = 0;
  JsonArray tensors;
  Progress progress("reading", checkpoint.file_bytes(), options.json || options.header_only);
  for (const Shard& shard : checkpoint.shards) {
    for (const TensorInfo& tensor : shard.header.tensors) {
      const bool measured = !options.header_only && has_range(tensor.dtype) && tensor.elements > 0;
      const TensorRange range = measured ? range_in_file(shard.file, tensor, workers) : TensorRange();
      progress.advance(tensor.bytes);
      auto& [count, bytes] = by_dtype[std::string(tensor.dtype.name)];
      ++count;
      bytes += tensor.bytes;
      elements += tensor.elements;
      if (options.json) {
        JsonObject each;
        each.add("name", tensor.name)
            .add("dtype", tensor.dtype.name)
            .raw("shape", json_array(tensor.shape))
            .add("bytes", tensor.bytes);
        each.add("file", shard.name);
        if (measured) {
          each.raw("min", range.min_json).raw("max", range.max_json);
          each.add("nan", range.nans).add("inf", range.infinities);
        }
        tensors.raw(each.str());
      } else {
        const auto some = [&](std::int64_t number) {
          return number > 0 ? std::to_string(number) : std::string(measured ? "0" : "–");
        };
        table.add({printable(tensor.name, 80), std::string(tensor.dtype.name), shape_list(tensor.shape), range.min,
                   range.max, some(range.nans), some(range.infinities), bytes_text(tensor.bytes)});
      }
    }
  }
  if (options.json) {
    JsonObject out;
    JsonObject metadata;
    for (const Shard& shard : checkpoint.shards) {
      JsonObject own;
      for (const auto& [name, value] : shard.header.metadata) own.add(name, value);
      metadata.raw(shard.name, own.str());
    }
    out.add("command", "inspect")
        .add("input", checkpoint.title)
        .add("bytes", checkpoint.file_bytes())
        .add("elements", elements);
    out.raw("metadata", metadata.str()).raw("tensors", tensors.str());
    std::printf("%s\n", out.str().c_str());
    return;
  }
  std::printf("%s\n", table.str().c_str());
  for (const auto& [dtype, sum] : by_dtype) {
    std::printf("%-11s %6lld %-7s  %s\n", dtype.c_str(), static_cast<long long>(sum.first),
                sum.first == 1 ? "tensor" : "tensors", bytes_text(sum.second).c_str());
  }
  for (const Shard& shard : checkpoint.shards) {
    for (const auto& [name, value] : shard.header.metadata) {
      std::printf("metadata of %s: %s = %s\n", printable(shard.name).c_str(), printable(name).c_str(),
                  printable(value).c_str());
    }
  }
  std::printf("total: %s, %s in %s\n", counted(elements, "element").c_str(),
              bytes_text(checkpoint.file_bytes()).c_str(),
              counted(static_cast<std::int64_t>(checkpoint.shards.size()), "file").c_str());
}

}  // namespace planck::cli
