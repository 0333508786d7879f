// The plots of the HTML report: one mark for each quantised tensor, as inline SVG that takes its colours from the page.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace planck::cli {

enum class PlotAxis { Linear, Log };

/// How a mark is drawn, and what a mark that stands for several tensors holds.
enum class PlotMarks {
  Dots,   ///< a dot at low and one at high if that is another; of several tensors the lowest low and the highest high
  Worst,  ///< the same dots; of several tensors the highest low and the highest high
  Bars,   ///< from low to high; of several tensors from the lowest to the highest
};

/// What is drawn for one tensor. Numbers that are not finite, or have no logarithm, are drawn hollow at the border they
/// lie beyond; NaN is not drawn.
struct PlotMark {
  std::size_t row = 0;  ///< of the table, which the mark links to
  double low = 0;
  double high = 0;
  std::string label;  ///< already escaped
};

/// What the two colours of a plot say; the second one is empty if it has one colour.
struct PlotLegend {
  std::string one;
  std::string two;
};

struct Plot {
  std::string kind;  ///< the figure's class, which gives the colours
  std::string title;
  std::string note;
  PlotAxis axis = PlotAxis::Linear;
  PlotMarks drawn = PlotMarks::Dots;
  bool zero = false;      ///< the axis holds 0
  PlotLegend each;        ///< where every mark is one tensor
  PlotLegend neighbours;  ///< where marks stand for several
  std::vector<PlotMark> marks = {};
};

/// The plot as a <figure>. Where there are more tensors than pixels, neighbours share a mark that holds them all, and
/// the legend says so.
std::string plot_html(const Plot& plot);

}  // namespace planck::cli
