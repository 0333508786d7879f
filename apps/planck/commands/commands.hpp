// The commands of the program: their options as plain structs, and the functions that do them.
//
// A command prints its result to standard output, a table or with `json` one object, and throws a Failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quantize/settings.hpp"

namespace planck::cli {

void quantize_command(const QuantizeOptions& options);

struct DequantizeOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string names = "gguf";  ///< of a GGUF file's tensors: its own, or "hf"
  int threads = 0;
  bool force = false;
  bool copy_all = false;
  bool json = false;
};
void dequantize_command(const DequantizeOptions& options);

struct InspectOptions {
  std::vector<std::string> inputs;
  bool header_only = false;
  int threads = 0;
  bool json = false;
};
void inspect_command(const InspectOptions& options);

struct CompareOptions {
  std::string a;
  std::string b;
  std::optional<double> min_snr;
  std::optional<double> max_error;
  int threads = 0;
  bool json = false;
};
void compare_command(const CompareOptions& options);

struct BenchOptions {
  std::int64_t mebibytes = 64;
  int threads = 0;
  bool json = false;
};
void bench_command(const BenchOptions& options);

struct InfoOptions {
  bool json = false;
};
void info_command(const InfoOptions& options);

/// "0.1.0".
std::string version_text();

/// The largest part of the program's memory so far that was in use at once.
std::uint64_t peak_memory() noexcept;

}  // namespace planck::cli
