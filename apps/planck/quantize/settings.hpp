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

  bool codes_are_signed() const noexcept { return info_of(codes).lowest < 0; }
  /// Symmetric codes are as many below zero as above.
  std::int64_t q_min() const noexcept {
    return symmetric && codes_are_signed() ? -q_max() : static_cast<std::int64_t>(info_of(codes).lowest);
  }
  std::int64_t q_max() const noexcept { return static_cast<std::int64_t>(info_of(codes).largest); }
};

/// The settings of the command line; a Failure (Usage) for combinations that make no sense or, for the format
/// compressed-tensors, that it cannot express.
QuantizeSettings settings_of(const QuantizeOptions& options);

/// "channel", "group 128", …, as reports show it.
std::string scope_text(const QuantizeSettings& settings);

}  // namespace planck::cli
