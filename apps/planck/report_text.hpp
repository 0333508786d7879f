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

/// Three significant digits; "–" for NaN, "∞" for infinity.
std::string short_number(double value);

/// With as many decimals as given; "–" for NaN, "∞" for infinity.
std::string fixed_number(double value, int decimals);

/// For data attributes and SVG coordinates: as C++ reads it back, or nothing if it is not finite.
std::string exact_number(double value);

/// "23.6 MB", in powers of 1000.
std::string byte_size(double bytes);

/// "384 × 1536"; "scalar" without dimensions.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace planck::cli
