// planck inspect: the tensors of a checkpoint, their ranges, and totals.
#include <cstdio>
#include <map>

#include "commands.hpp"
#include "failure.hpp"
#include "stored.hpp"
#include "table.hpp"

namespace planck::cli {
namespace {

RangeSums range_in_file(const File& file, const TensorInfo& tensor, Workers& workers, std::vector<Scratch>& scratch) {
  const ElementKind kind = *tensor.dtype.kind;
  const std::int64_t size = size_of(kind);
  const std::int64_t pieces = (tensor.elements + kStoredPiece - 1) / kStoredPiece;
  std::vector<RangeSums> sums(static_cast<std::size_t>(pieces));
  workers.for_each(pieces, [&](int worker, std::int64_t p) {
    Scratch& own = scratch[static_cast<std::size_t>(worker)];
    const std::int64_t first = p * kStoredPiece;
    const auto count = static_cast<std::size_t>(std::min(kStoredPiece, tensor.elements - first));
    std::byte* memory = own.slot(0, count * static_cast<std::size_t>(size));
    file.read({memory, count * static_cast<std::size_t>(size)},
              tensor.begin + static_cast<std::uint64_t>(first * size));
    const auto measure = [&]<class C>(C) {
      const std::span<C> wide(reinterpret_cast<C*>(own.slot(1, count * sizeof(C))), count);
      widen(kind, memory, wide);
      return range_of(std::span<const C>(wide));
    };
    sums[static_cast<std::size_t>(p)] = widens_to_f32(kind) ? measure(float{}) : measure(double{});
  });
  RangeSums total;
  for (const RangeSums& each : sums) total.merge(each);
  return total;
}

}  // namespace

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
  std::vector<Scratch> scratch(static_cast<std::size_t>(workers.threads()));
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> by_dtype;
  std::int64_t elements = 0;
  JsonArray tensors;
  Progress progress("reading", checkpoint.file_bytes(), options.json || options.header_only);
  for (const Shard& shard : checkpoint.shards) {
    for (const TensorInfo& tensor : shard.header.tensors) {
      const bool measured = !options.header_only && tensor.dtype.kind && tensor.elements > 0;
      const RangeSums range = measured ? range_in_file(shard.file, tensor, workers, scratch) : RangeSums();
      progress.advance(tensor.bytes);
      const double min = range.any() ? range.min : std::nan("");
      const double max = range.any() ? range.max : std::nan("");
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
        if (measured) each.add("min", min).add("max", max).add("nan", range.nans).add("inf", range.infinities);
        tensors.raw(each.str());
      } else {
        const auto some = [&](std::int64_t number) {
          return number > 0 ? std::to_string(number) : std::string(measured ? "0" : "–");
        };
        table.add({printable(tensor.name, 80), std::string(tensor.dtype.name), shape_list(tensor.shape),
                   number_text(min), number_text(max), some(range.nans), some(range.infinities),
                   bytes_text(tensor.bytes)});
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
    std::printf("%-8s %6lld tensors  %s\n", dtype.c_str(), static_cast<long long>(sum.first),
                bytes_text(sum.second).c_str());
  }
  for (const Shard& shard : checkpoint.shards) {
    for (const auto& [name, value] : shard.header.metadata) {
      std::printf("metadata of %s: %s = %s\n", printable(shard.name).c_str(), printable(name).c_str(),
                  printable(value).c_str());
    }
  }
  std::printf("total    %lld elements, %s in %zu file%s\n", static_cast<long long>(elements),
              bytes_text(checkpoint.file_bytes()).c_str(), checkpoint.shards.size(),
              checkpoint.shards.size() == 1 ? "" : "s");
}

}  // namespace planck::cli
