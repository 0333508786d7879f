// The plots of the HTML report: one mark for each quantised tensor, as inline SVG that takes its colours from the page.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace planck::cli {

enum class PlotAxis { Linear, Log };

/// What is drawn for one tensor: a line from low to high, with dots at its ends if the plot has them. Numbers that are
/// not finite, or have no logarithm, are drawn hollow at the border they lie beyond; NaN is not drawn.
struct PlotMark {
  std::size_t row = 0;  ///< of the table, which the mark links to
  double low = 0;
  double high = 0;
  std::string label;  ///< already escaped
};

struct Plot {
  std::string title;
  std::string note;  ///< what the marks mean, as HTML
  PlotAxis axis = PlotAxis::Linear;
  bool dots = false;
  bool zero = false;  ///< the axis holds 0
  std::vector<PlotMark> marks;
};

/// The plot as a <figure>. Where there are more tensors than pixels, neighbours share a mark that holds them all.
std::string plot_html(const Plot& plot);

}  // namespace planck::cli
