// The command line: options into structs, failures into exit codes. CLI11 is included here alone.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "checkpoint/file.hpp"
#include "commands/commands.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 1 reading or writing failed; 2 wrong usage, or the output exists; 3 a file is broken;\n"
    "4 the result could not be what was asked for; 5 compare: the checkpoints differ; 128 + n stopped by signal n.\n"
    "PLANCK_ISA=scalar|sse4|avx2|avx512|neon picks the instruction set; it changes no bit of any output.";

void add_threads_and_json(CLI::App& command, int& threads, bool& json) {
  command.add_option("--threads", threads, "At most this many (default: one for each processor)")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--json", json, "Print JSON");
}

void add_output_flags(CLI::App& command, bool& force, bool& copy_all) {
  command.add_flag(
      "--force", force,
      "Replace an existing output (never an input, nor a folder with files that this run would not write)");
  command.add_flag("--copy-all", copy_all,
                   "Of a folder also copy other weights (*.bin, *.onnx, *.gguf, …), nested checkpoints and dot files");
}

void add_quantize(CLI::App& app, QuantizeOptions& o) {
  CLI::App& command = *app.add_subcommand("quantize", "Quantise the linear layers of a checkpoint to 8 bits");
  command.add_option("input", o.inputs, "A safetensors file or several, model.safetensors.index.json, or a folder")
      ->required();
  command.add_option("-o,--output", o.output, "Where to: a folder, or for one file a name that ends in .safetensors");
  command.add_option("--scope", o.scope, "What shares a scale")
      ->check(CLI::IsMember({"channel", "group", "tensor", "token"}))
      ->capture_default_str();
  command.add_option("--group-size", o.group_size, "Elements of a group; must divide the cut axis")
      ->capture_default_str();
  command.add_option("--axis", o.axis,
                     "Channels: 0 outputs (the default) or 1 inputs; groups: the axis that is cut (default 1)");
  command.add_option("--mode", o.mode, "Zero points or none")
      ->check(CLI::IsMember({"symmetric", "asymmetric"}))
      ->capture_default_str();
  command.add_option("--dtype", o.dtype, "The codes; uint8 needs asymmetric and plain")
      ->check(CLI::IsMember({"int8", "uint8"}))
      ->capture_default_str();
  command
      .add_option("--include", o.include,
                  "Quantise the float tensors whose name this regular expression (RE2) finds, instead of the linear "
                  "layers: 2-D ones, and with --format plain also experts [experts, out, in] and convolutions (3-D to "
                  "5-D)")
      ->allow_extra_args(false);
  command
      .add_option("--exclude", o.exclude, "Leave tensors whose name this regular expression (RE2) finds as they are")
      ->allow_extra_args(false);
  command.add_option("--min-size", o.min_size, "Leave tensors with fewer elements as they are")->capture_default_str();
  command.add_flag("--embeddings", o.embeddings, "Quantise the embeddings too");
  command.add_option("--format", o.format, "compressed-tensors also writes config.json, as transformers reads it")
      ->check(CLI::IsMember({"compressed-tensors", "plain"}))
      ->capture_default_str();
  command.add_option("--report", o.report, "Write an HTML page about the run");
  command.add_flag("--dry-run", o.dry_run,
                   "Only tell what would be done, with the reason for every tensor that is copied");
  add_output_flags(command, o.force, o.copy_all);
  add_threads_and_json(command, o.threads, o.json);
  command.footer(
      "Linear layers are the 2-D float tensors *.weight that are no embedding (…embed…, wte, wpe, shared), output "
      "head\n"
      "(lm_head, classifier, score, …), norm or router (gate, router), nor have a row for each of config.json's "
      "vocab_size.\n"
      "Examples:\n"
      "  planck quantize model.safetensors -o int8/\n"
      "  planck quantize Llama/ -o Llama-int8/ --scope group --group-size 64 --report Llama.html\n"
      "  planck quantize model.safetensors -o codes.safetensors --format plain --mode asymmetric --dtype uint8\n"
      "  planck quantize Llama/ --dry-run --exclude 'layers\\.0\\.'");
  command.callback([&o] { quantize_command(o); });
}

void add_dequantize(CLI::App& app, DequantizeOptions& o) {
  CLI::App& command =
      *app.add_subcommand("dequantize", "Bring codes back to floats: (code - zero point) * scale, GGUF's blocks");
  command.add_option("input", o.inputs, "A safetensors or GGUF file or several, an index, or a folder")->required();
  command.add_option("-o,--output", o.output, "Where to, as for quantize")->required();
  command
      .add_option("--names", o.names,
                  "Names of a GGUF file's tensors: its own, or hf, those of Hugging Face transformers, with its "
                  "config.json (architectures llama, qwen2, qwen3)")
      ->check(CLI::IsMember({"gguf", "hf"}))
      ->capture_default_str();
  add_output_flags(command, o.force, o.copy_all);
  add_threads_and_json(command, o.threads, o.json);
  command.footer(
      "Every tensor of I8 or U8 that has scales beside it (its name + \"_scale\") gets the scales' type,\n"
      "every tensor of GGUF's blocks becomes F32.\n"
      "Examples:\n"
      "  planck dequantize int8/ -o restored/\n"
      "  planck dequantize SmolLM2.Q4_1.gguf -o SmolLM2/ --names hf");
  command.callback([&o] { dequantize_command(o); });
}

void add_inspect(CLI::App& app, InspectOptions& o) {
  CLI::App& command = *app.add_subcommand("inspect", "List tensors: type, shape, range, size");
  command.add_option("input", o.inputs, "A safetensors or GGUF file or several, an index, or a folder")->required();
  command.add_flag("--header-only", o.header_only, "Read no tensor, so show no ranges");
  add_threads_and_json(command, o.threads, o.json);
  command.footer("Example:\n  planck inspect model.safetensors --header-only");
  command.callback([&o] { inspect_command(o); });
}

void add_compare(CLI::App& app, CompareOptions& o) {
  CLI::App& command = *app.add_subcommand("compare", "Measure how far B is from A, tensor by tensor");
  command.add_option("A", o.a, "A checkpoint: file, index or folder")->required();
  command.add_option("B", o.b, "Another; codes with scales are compared as what they stand for")->required();
  command.add_option("--min-snr", o.min_snr, "Fail (exit code 5) where the signal-to-noise ratio is below this, in dB");
  command.add_option("--max-error", o.max_error, "Fail (exit code 5) where an element is further away than this");
  add_threads_and_json(command, o.threads, o.json);
  command.footer(
      "Exit code 5 also for tensors that one side lacks, for other shapes, and for NaN or infinities that the other\n"
      "side does not have in the same place; those that both have are counted in the table and left out of the "
      "errors.\n"
      "Example:\n  planck compare model.safetensors int8/ --min-snr 35");
  command.callback([&o] { compare_command(o); });
}

void add_bench(CLI::App& app, BenchOptions& o) {
  CLI::App& command = *app.add_subcommand("bench", "Measure this machine's speed for the main kernels beside a copy");
  command.add_option("--size", o.mebibytes, "MiB of f32")->check(CLI::Range(1, 4096))->capture_default_str();
  add_threads_and_json(command, o.threads, o.json);
  command.footer("Example:\n  planck bench --size 16 --threads 1");
  command.callback([&o] { bench_command(o); });
}

void add_info(CLI::App& app, InfoOptions& o) {
  CLI::App& command = *app.add_subcommand("info", "Print the version, instruction sets and chosen kernels");
  command.add_flag("--json", o.json, "Print JSON");
  command.footer("Example:\n  PLANCK_ISA=scalar planck info");
  command.callback([&o] { info_command(o); });
}

struct Options {
  QuantizeOptions quantize;
  DequantizeOptions dequantize;
  InspectOptions inspect;
  CompareOptions compare;
  BenchOptions bench;
  InfoOptions info;
};

int run(int argc, char** argv) {
  CLI::App app("Planck: int8 checkpoints from safetensors, with the same bits on every machine.", "planck");
  app.require_subcommand(1);
  app.set_version_flag("--version", "planck " + version_text());
  app.footer(kExitCodes);
  Options options;
  add_quantize(app, options.quantize);
  add_dequantize(app, options.dequantize);
  add_inspect(app, options.inspect);
  add_compare(app, options.compare);
  add_bench(app, options.bench);
  add_info(app, options.info);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::Usage);
  }
  return 0;
}

}  // namespace
}  // namespace planck::cli

int main(int argc, char** argv) {
  using namespace planck::cli;
  stop_on_signals();
  const auto fail = [](ExitCode code, const char* message) {
    std::fprintf(stderr, "planck: %s\n", message);
    return static_cast<int>(code);
  };
  try {
    const int code = run(argc, argv);
    // What was printed is part of the job: a full disk behind a redirection is no success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      if (stop_signal() != 0) return fail(static_cast<ExitCode>(128 + stop_signal()), "stopped");
      return fail(ExitCode::Io, "cannot write the output");
    }
    return code;
  } catch (const Failure& failure) {
    if (stop_signal() != 0) return fail(static_cast<ExitCode>(128 + stop_signal()), "stopped");
    std::fflush(stdout);
    return fail(failure.code(), failure.what());
  } catch (const fs::filesystem_error& error) {
    return fail(ExitCode::Io, printable(error.what(), 1000).c_str());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::Io, "out of memory");
  } catch (const std::exception& error) {
    return fail(ExitCode::Io, error.what());
  }
}
