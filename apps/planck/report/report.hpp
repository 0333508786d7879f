// The HTML report of `planck quantize --report`: one self-contained page with totals, plots and a table of all tensors.
//
// The program fills these structs and writes what report_html returns. Texts may hold anything, also markup, control
// characters and broken UTF-8: they are shown, never interpreted. A number that does not apply is NaN; infinite ones
// (the signal-to-noise ratio of an exact copy) are shown as such.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace planck::cli {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// One tensor of the input, in the order of the files.
struct ReportTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype;       ///< in the input, as safetensors spells it: "F32"
  bool quantized = false;  ///< otherwise copied byte for byte, and what follows the sizes does not apply
  std::string scope;       ///< "channel", "group 128"; of a copied tensor why it was: "embedding", "excluded"
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;  ///< codes, scales and zero points
  double min = kNoNumber;         ///< of the input's elements
  double max = kNoNumber;
  double scale_min = kNoNumber;
  double scale_max = kNoNumber;
  double max_error = kNoNumber;   ///< the largest |restored - x|
  double mean_error = kNoNumber;  ///< the mean of |restored - x|
  double snr_db = kNoNumber;      ///< 10 log10(sum x² / sum (restored - x)²)
  double cosine = kNoNumber;      ///< of the tensor and what is restored, as vectors
};

/// What holds for the whole run.
struct ReportTotals {
  std::uint64_t file_bytes_before = 0;  ///< all files, headers included
  std::uint64_t file_bytes_after = 0;
  double seconds = kNoNumber;
  double snr_db = kNoNumber;  ///< of all quantised tensors together
  double max_error = kNoNumber;
  double mean_error = kNoNumber;
};

struct Report {
  std::string name;   ///< of the model, the page's title; the input if empty
  std::string input;  ///< the checkpoint, as the user named it
  std::string output;
  std::string version;  ///< of Planck
  /// What else describes the run, in this order: {"scope", "channel"}, {"threads", "2"}, {"instruction set", "AVX2"}.
  std::vector<std::pair<std::string, std::string>> settings;
  ReportTotals totals;
  std::vector<ReportTensor> tensors;
};

/// The whole page, in UTF-8. It needs no network and takes light or dark from the reader's system.
std::string report_html(const Report& report);

}  // namespace planck::cli
