// planck inspect: the tensors of a checkpoint, their ranges, and totals.
#include <cstdio>
#include <map>

#include "checkpoint/checkpoint.hpp"
#include "commands/commands.hpp"
#include "quantize/ranges.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

/// A tensor, and its range if that was asked for and it has one.
struct Inspected {
  const Shard& shard;
  const TensorInfo& tensor;
  std::optional<TensorRange> range;
};

std::vector<Inspected> inspect_all(const Checkpoint& checkpoint, const InspectOptions& options) {
  Workers workers(options.threads);
  Progress progress("reading", checkpoint.file_bytes(), options.json || options.header_only);
  std::vector<Inspected> all;
  for (const Shard& shard : checkpoint.shards) {
    for (const TensorInfo& tensor : shard.header.tensors) {
      Inspected& each = all.emplace_back(Inspected{shard, tensor, {}});
      if (!options.header_only && has_range(tensor) && tensor.elements > 0) {
        each.range = range_in_file(shard.file, tensor, workers);
      }
      progress.advance(tensor.bytes);
    }
  }
  return all;
}

std::int64_t elements_of(const std::vector<Inspected>& all) {
  std::int64_t elements = 0;
  for (const Inspected& each : all) elements += each.tensor.elements;
  return elements;
}

void print_json(const Checkpoint& checkpoint, const std::vector<Inspected>& all) {
  JsonArray tensors;
  for (const auto& [shard, tensor, range] : all) {
    JsonObject each;
    each.add("name", tensor.name)
        .add("dtype", tensor.dtype.name)
        .raw("shape", json_array(tensor.shape))
        .add("bytes", tensor.bytes);
    each.add("file", shard.name);
    if (range) {
      each.raw("min", range->min_json).raw("max", range->max_json);
      each.add("nan", range->nans).add("inf", range->infinities);
    }
    tensors.raw(each.str());
  }
  JsonObject metadata;
  for (const Shard& shard : checkpoint.shards) {
    JsonObject own;
    for (const auto& [name, value] : shard.header.metadata) own.add(name, value);
    metadata.raw(shard.name, own.str());
  }
  JsonObject out;
  out.add("command", "inspect")
      .add("input", checkpoint.title)
      .add("bytes", checkpoint.file_bytes())
      .add("elements", elements_of(all));
  out.raw("metadata", metadata.str()).raw("tensors", tensors.str());
  std::printf("%s\n", out.str().c_str());
}

void print_table(const std::vector<Inspected>& all) {
  using Align = Table::Align;
  Table table({{"tensor"},
               {"dtype"},
               {"shape"},
               {"min", Align::Right},
               {"max", Align::Right},
               {"NaN", Align::Right},
               {"Inf", Align::Right},
               {"size", Align::Right}});
  for (const Inspected& each : all) {
    const TensorRange shown = each.range.value_or(TensorRange());
    const auto some = [&](std::int64_t number) { return each.range ? std::to_string(number) : std::string("–"); };
    table.add({printable(each.tensor.name, 80), std::string(each.tensor.dtype.name), shape_list(each.tensor.shape),
               shown.min, shown.max, some(shown.nans), some(shown.infinities), bytes_text(each.tensor.bytes)});
  }
  std::printf("%s\n", table.str().c_str());
}

void print_totals(const Checkpoint& checkpoint, const std::vector<Inspected>& all) {
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> by_dtype;
  for (const Inspected& each : all) {
    auto& [count, bytes] = by_dtype[std::string(each.tensor.dtype.name)];
    ++count;
    bytes += each.tensor.bytes;
  }
  for (const auto& [dtype, sum] : by_dtype) {
    std::printf("%-11s %6lld %-7s  %s\n", dtype.c_str(), static_cast<long long>(sum.first),
                sum.first == 1 ? "tensor" : "tensors", bytes_text(sum.second).c_str());
  }
  for (const Shard& shard : checkpoint.shards) {
    if (shard.gguf) {
      std::printf("format of %s: GGUF, version %u, alignment %llu\n", printable(shard.name).c_str(),
                  shard.gguf->version, static_cast<unsigned long long>(shard.gguf->alignment));
    }
    for (const auto& [name, value] : shard.header.metadata) {
      std::printf("metadata of %s: %s = %s\n", printable(shard.name).c_str(), printable(name).c_str(),
                  printable(value).c_str());
    }
  }
  std::printf("total: %s, %s in %s\n", counted(elements_of(all), "element").c_str(),
              bytes_text(checkpoint.file_bytes()).c_str(),
              counted(static_cast<std::int64_t>(checkpoint.shards.size()), "file").c_str());
}

}  // namespace

void inspect_command(const InspectOptions& options) {
  const Checkpoint checkpoint = open_checkpoint(options.inputs);
  const std::vector<Inspected> all = inspect_all(checkpoint, options);
  if (options.json) return print_json(checkpoint, all);
  print_table(all);
  print_totals(checkpoint, all);
}

}  // namespace planck::cli
