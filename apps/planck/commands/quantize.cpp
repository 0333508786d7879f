// planck quantize: what goes where is settled first, then every tensor is quantised or copied, and all of it appears
// at once under the output's name.
#include <cstdio>
#include <map>

#include "checkpoint/folder.hpp"
#include "checkpoint/writer.hpp"
#include "commands/commands.hpp"
#include "quantize/quantizer.hpp"
#include "quantize/selection.hpp"
#include "report/report.hpp"
#include "report/text.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

/// A tensor of the input and what becomes of it.
struct Row {
  const TensorInfo* tensor = nullptr;
  const Choice* choice = nullptr;
  std::uint64_t bytes_after = 0;
  QuantizedSums sums;
};

/// An output file: its tensors, and where in that list each input tensor's begin.
struct ShardPlan {
  std::vector<TensorInfo> tensors;
  std::vector<std::size_t> first;
  std::string header;
};

ShardPlan plan_shard(const Shard& shard, const std::vector<Choice>& choices, const QuantizeSettings& settings,
                     std::vector<Row>& rows) {
  ShardPlan plan;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const TensorInfo& tensor = shard.header.tensors[i];
    plan.first.push_back(plan.tensors.size());
    if (choices[i].quantize) {
      const Segments segments = segments_of(tensor, settings);
      const Dtype codes = dtype_of(settings.codes);
      plan.tensors.push_back(new_tensor(tensor.name, codes, tensor.shape));
      plan.tensors.push_back(new_tensor(tensor.name + "_scale", tensor.dtype, segments.scale_shape));
      if (!settings.symmetric)
        plan.tensors.push_back(new_tensor(tensor.name + "_zero_point", codes, segments.scale_shape));
    } else {
      plan.tensors.push_back(new_tensor(tensor.name, tensor.dtype, tensor.shape));
    }
    std::uint64_t bytes = 0;
    for (std::size_t t = plan.first.back(); t < plan.tensors.size(); ++t) bytes += plan.tensors[t].bytes;
    rows.push_back({&tensor, &choices[i], bytes, {}});
  }
  plan.header = lay_out(plan.tensors, shard.header.metadata);
  return plan;
}

void write_shard(const Shard& shard, const std::vector<Choice>& choices, const ShardPlan& plan, const File& output,
                 Workers& workers, Quantizer& quantizer, const Advance& advance, Row* rows) {
  output.write(std::as_bytes(std::span(plan.header)), 0);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const TensorInfo& tensor = shard.header.tensors[i];
    const TensorInfo* out = &plan.tensors[plan.first[i]];
    if (choices[i].quantize) {
      const bool zero_points =
          i + 1 < choices.size() ? plan.first[i + 1] - plan.first[i] == 3 : plan.tensors.size() - plan.first[i] == 3;
      rows[i].sums =
          quantizer.run({&shard.file, &tensor, &output, out[0].begin, out[1].begin, zero_points ? out[2].begin : 0});
    } else {
      copy_bytes(workers, advance, shard.file, tensor.begin, tensor.bytes, output, out->begin);
    }
  }
}

/// Everything the run was told and found, for the table, the page and --json.
struct Summary {
  const QuantizeOptions& options;
  const QuantizeSettings& settings;
  const Checkpoint& checkpoint;
  const Selection& selection;
  std::vector<Row> rows;
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
  double seconds = kNoNumber;
  int threads = 1;
  std::optional<std::uint64_t> folder_bytes_after;
  ErrorSums total() const {
    ErrorSums sums;
    for (const Row& row : rows) sums.merge(row.sums.errors);
    return sums;
  }
};

std::string instruction_set() {
  const auto plan = DynamicRangeQuantizePlan<>::select(Stream::cpu(1), {.shape = {1, 1}});
  return plan ? std::string(to_string(plan->sku().arch)) : "none";
}

Report report_of(const Summary& run) {
  Report report;
  report.name = model_name(run.options.inputs.front());
  report.input = run.checkpoint.title;
  report.output = run.options.output;
  report.version = version_text();
  report.settings = {
      {"format", run.options.format}, {"scope", scope_text(run.settings)},      {"mode", run.options.mode},
      {"codes", run.options.dtype},   {"threads", std::to_string(run.threads)}, {"instruction set", instruction_set()}};
  const ErrorSums total = run.total();
  report.totals = {run.bytes_before, run.bytes_after, run.seconds, total.snr_db(), total.max_error, total.mean_error()};
  for (const Row& row : run.rows) {
    ReportTensor tensor;
    tensor.name = row.tensor->name;
    tensor.shape = row.tensor->shape;
    tensor.dtype = row.tensor->dtype.name;
    tensor.quantized = row.choice->quantize;
    tensor.scope = row.choice->quantize ? scope_text(run.settings) : row.choice->reason;
    tensor.bytes_before = row.tensor->bytes;
    tensor.bytes_after = row.bytes_after;
    if (row.choice->quantize && !run.options.dry_run) {
      tensor.min = row.sums.range.min;
      tensor.max = row.sums.range.max;
      tensor.scale_min = row.sums.scales.min;
      tensor.scale_max = row.sums.scales.max;
      tensor.max_error = row.sums.errors.max_error;
      tensor.mean_error = row.sums.errors.mean_error();
      tensor.snr_db = row.sums.errors.snr_db();
      tensor.cosine = row.sums.errors.cosine();
    }
    report.tensors.push_back(std::move(tensor));
  }
  return report;
}

void print_json(const Summary& run, const Report& report) {
  JsonArray tensors;
  for (const ReportTensor& each : report.tensors) {
    JsonObject tensor;
    tensor.add("name", each.name)
        .add("dtype", each.dtype)
        .raw("shape", json_array(each.shape))
        .add("quantized", each.quantized);
    tensor.add(each.quantized ? "scope" : "reason", each.scope)
        .add("bytes_before", each.bytes_before)
        .add("bytes_after", each.bytes_after);
    if (each.quantized) {
      tensor.add("min", each.min)
          .add("max", each.max)
          .add("scale_min", each.scale_min)
          .add("scale_max", each.scale_max);
      tensor.add("max_error", each.max_error)
          .add("mean_error", each.mean_error)
          .add("snr_db", each.snr_db)
          .add("cosine", each.cosine);
    }
    tensors.raw(tensor.str());
  }
  JsonObject out;
  out.add("command", "quantize").add("version", report.version).add("input", report.input).add("output", report.output);
  out.add("dry_run", run.options.dry_run);
  for (const auto& [name, value] : report.settings)
    out.add(name == "instruction set" ? "instruction_set" : name, value);
  out.add("bytes_before", run.bytes_before).add("bytes_after", run.bytes_after).add("seconds", run.seconds);
  add_folder_members(out, run.checkpoint, run.folder_bytes_after);
  out.add("snr_db", report.totals.snr_db)
      .add("max_error", report.totals.max_error)
      .add("mean_error", report.totals.mean_error);
  out.add("peak_memory_bytes", peak_memory())
      .raw("ignore", json_array(run.selection.ignore))
      .raw("tensors", tensors.str());
  std::printf("%s\n", out.str().c_str());
}

void print_table(const Summary& run, const Report& report) {
  using Align = Table::Align;
  Table table({{"tensor"},
               {"dtype"},
               {"shape"},
               {"becomes"},
               {"before", Align::Right},
               {"after", Align::Right},
               {"SNR dB", Align::Right},
               {"max error", Align::Right}});
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> copied;
  std::int64_t quantized = 0;
  for (const ReportTensor& each : report.tensors) {
    if (!each.quantized) {
      auto& [count, bytes] = copied[each.scope];
      ++count;
      bytes += each.bytes_before;
      if (!run.options.dry_run) continue;
    }
    quantized += each.quantized ? 1 : 0;
    table.add({printable(each.name, 80), each.dtype, shape_list(each.shape),
               text(each.quantized ? run.options.dtype : "copied", ", ", each.scope), bytes_text(each.bytes_before),
               bytes_text(each.bytes_after), decibel_text(each.snr_db), number_text(each.max_error)});
  }
  std::printf("%s\n", table.str().c_str());
  for (const auto& [reason, sum] : copied) {
    std::printf("copied: %s, %s (%s)\n", counted(sum.first, "tensor").c_str(), bytes_text(sum.second).c_str(),
                reason.c_str());
  }
  std::printf("%s%s %s, %s -> %s (%.1f %%)", folder_lines(run.checkpoint, run.folder_bytes_after).c_str(),
              run.options.dry_run ? "would quantise" : "quantised", counted(quantized, "tensor").c_str(),
              bytes_text(run.bytes_before).c_str(), bytes_text(run.bytes_after).c_str(),
              100 * static_cast<double>(run.bytes_after) / static_cast<double>(run.bytes_before));
  if (!run.options.dry_run) {
    std::printf(", SNR %s dB, in %.2f s (%s/s)\nwritten: %s", decibel_text(report.totals.snr_db).c_str(), run.seconds,
                bytes_text(static_cast<std::uint64_t>(static_cast<double>(run.bytes_before) / run.seconds)).c_str(),
                printable(run.options.output).c_str());
  } else if (quantized == 0) {
    std::printf("; without --dry-run this would be refused (exit code 4)");
  }
  std::printf("\n");
}

void check_format(const Checkpoint& checkpoint) {
  if (const Shard* shard = checkpoint.gguf_shard()) {
    throw Failure(ExitCode::Refused, text(in_quotes(shard->name),
                                          " is a GGUF file: planck dequantize makes the safetensors checkpoint of it ",
                                          "that can be quantised"));
  }
}

/// What would be wrong of the whole checkpoint, whichever tensors are chosen.
void check_checkpoint(const Checkpoint& checkpoint, const Selection& selection, const QuantizeOptions& options) {
  if (checkpoint.adapter && options.compressed_tensors()) {
    throw Failure(ExitCode::Refused, text(in_quotes(checkpoint.title),
                                          " is an adapter (there is an adapter_config.json): its loader adds ",
                                          "these weights to another model's and knows no codes; use --format plain"));
  }
  if (selection.chosen == 0 && !options.dry_run) {
    throw Failure(ExitCode::Refused, text("nothing to quantise in ", in_quotes(checkpoint.title),
                                          ": no tensor was chosen (--dry-run says why, --include chooses)"));
  }
}

/// Codes that nothing beside them describes look like weights to a loader.
void warn_of_silence(const Checkpoint& checkpoint, const QuantizeOptions& options) {
  if (!options.compressed_tensors()) return;
  const bool one_file = !checkpoint.folder && options.output.ends_with(".safetensors");
  std::string why;
  if (!checkpoint.config_text || one_file) {
    why = text(one_file && checkpoint.config_text ? "one file has no config.json beside it" : "there is no config.json",
               ", so no quantization_config says that the weights are codes");
  } else if (checkpoint.config.find("model_type") == nullptr) {
    why =
        "config.json has no model_type, so it is none of transformers', and may be read without its "
        "quantization_config";
  } else {
    return;
  }
  std::fprintf(stderr,
               "planck: warning: %s, and a loader would take them for weights; planck dequantize restores them, "
               "--format plain says that this is meant\n",
               why.c_str());
}

}  // namespace

void quantize_command(const QuantizeOptions& options) {
  const QuantizeSettings settings = settings_of(options);
  if (options.output.empty() && !options.dry_run) throw Failure(ExitCode::Usage, "--output is missing (or --dry-run)");
  const Checkpoint checkpoint = with_folder_files(open_checkpoint(options.inputs), options.copy_all);
  check_format(checkpoint);
  const Selection selection = select_tensors(checkpoint, options, settings);
  check_checkpoint(checkpoint, selection, options);
  Summary run{options, settings, checkpoint, selection, {}, checkpoint.file_bytes(), 0, kNoNumber, 1, {}};
  std::vector<ShardPlan> plans;
  for (std::size_t s = 0; s < checkpoint.shards.size(); ++s) {
    plans.push_back(plan_shard(checkpoint.shards[s], selection.choices[s], settings, run.rows));
    run.bytes_after += plans.back().header.size();
    for (const TensorInfo& tensor : plans.back().tensors) run.bytes_after += tensor.bytes;
  }
  if (!options.dry_run) {
    std::optional<std::string> config = checkpoint.config_text;
    if (config && options.compressed_tensors())
      config = with_member(*config, "quantization_config", quantization_config(settings, selection));
    CheckpointWriter writer(checkpoint, options.output, options.force, options.report);
    Workers workers(options.threads);
    run.threads = workers.threads();
    Progress progress("quantising", run.bytes_before, options.json);
    const Advance advance = [&](std::uint64_t bytes) { progress.advance(bytes); };
    Quantizer quantizer(workers, settings, advance);
    std::vector<std::pair<std::string, std::vector<TensorInfo>>> written;
    std::size_t first_row = 0;
    for (std::size_t s = 0; s < plans.size(); ++s) {
      const Shard& shard = checkpoint.shards[s];
      const File output = writer.create(shard.written);
      write_shard(shard, selection.choices[s], plans[s], output, workers, quantizer, advance,
                  run.rows.data() + first_row);
      output.sync();
      first_row += selection.choices[s].size();
      written.emplace_back(shard.written, std::move(plans[s].tensors));
    }
    run.folder_bytes_after = writer.finish(config, written, workers, advance);
    run.seconds = progress.seconds();
  }
  const Report report = report_of(run);
  if (!options.report.empty() && !options.dry_run)
    publish_text(options.report, options.force, checkpoint.inputs, report_html(report));
  options.json ? print_json(run, report) : print_table(run, report);
  if (selection.chosen > 0) warn_of_silence(checkpoint, options);
}

}  // namespace planck::cli
