// How `planck quantize` was asked to quantise: its options as the command line has them, and what they come to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planck/element.hpp"

namespace planck::cli {

struct QuantizeOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string scope = "channel";
  std::int64_t group_size = 128;
  std::optional<int> axis;
  std::string mode = "symmetric";
  std::string dtype = "int8";
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::int64_t min_size = 0;
  bool embeddings = false;
  std::string format = "compressed-tensors";
  std::string report;
  int threads = 0;
  bool dry_run = false;
  bool force = false;
  bool copy_all = false;
  bool json = false;

  bool compressed_tensors() const { return format == "compressed-tensors"; }
};

enum class Scope { Channel, Group, Tensor, Token };

struct QuantizeSettings {
  Scope scope = Scope::Channel;
  std::int64_t group_size = 128;
  int axis = 0;  ///< channels: 0 or 1; groups: the axis that is cut
  bool symmetric = true;
  ElementKind codes = ElementKind::S8;

  std::int64_t q_min() const noexcept { return codes == ElementKind::U8 ? 0 : symmetric ? -127 : -128; }
  std::int64_t q_max() const noexcept { return codes == ElementKind::U8 ? 255 : 127; }
};

/// The settings of the command line; a Failure (Usage) for combinations that make no sense or, for the format
/// compressed-tensors, that it cannot express.
QuantizeSettings settings_of(const QuantizeOptions& options);

/// "channel", "group 128", …, as reports show it.
std::string scope_text(const QuantizeSettings& settings);

}  // namespace planck::cli
