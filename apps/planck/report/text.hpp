// Texts and numbers of the HTML report: escaped names, and numbers that are readable at any size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planck::cli {

/// The text for an element or a quoted attribute: markup becomes entities, control and direction characters become
/// visible escapes, bytes that are no UTF-8 become U+FFFD.
std::string html_text(std::string_view text);

/// A name or a path for people: the line may end between its parts, and what is too long is cut.
struct ShortName {
  std::string html;
  bool cut = false;  ///< so that the whole name has to stand elsewhere, as a title
};

/// Where names are cut.
struct NameLimits {
  std::size_t longest;  ///< characters of the whole
  std::size_t head;     ///< characters that stay in front of the cut; with 0 the end stays, which tells tensors apart
  std::size_t word;     ///< characters without a place where the line may end
};

/// The line may end behind dots and slashes, and in parts longer than a word also behind "_" and "-".
ShortName short_name(std::string_view name, const NameLimits& limits);

/// What people call the checkpoint at this path: the folder's name, or the file's if it says more than "model".
std::string model_name(const std::string& input);

/// Three significant digits; "–" for NaN, "∞" for infinity.
std::string short_number(double value);

/// With as many decimals as given; "–" for NaN, "∞" for infinity.
std::string fixed_number(double value, int decimals);

/// For data attributes and SVG coordinates: as C++ reads it back, or nothing if it is not finite.
std::string exact_number(double value);

/// "23.6 MB", in powers of 1000.
std::string byte_size(double bytes);

/// "from 90.9 MB, 1.55 times smaller", or larger.
std::string size_change(double before, double after);

/// "1 tensor", "2 tensors".
std::string tensor_count(std::size_t count);

/// "384 × 1536"; "scalar" without dimensions.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace planck::cli
