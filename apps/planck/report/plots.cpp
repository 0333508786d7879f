// Plots as inline SVG: an axis with round ticks, and for each tensor a slot of equal width. Colours are classes of the
// page's style sheet, so that light and dark need one drawing.
//
// The picture is stretched to whatever width there is. So that this distorts nothing, dots are lines without length
// whose round ends have a width in pixels of the screen, and labels are HTML beside the picture.
#include "report/plots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "report/text.hpp"

namespace planck::cli {
namespace {

constexpr double kWidth = 1000;
constexpr double kHeight = 200;
constexpr double kBorder = 8;  ///< above and below the axis, so that dots at its ends are whole
/// Narrower slots leave no room beside a mark: marks then touch, instead of gaps that come and go with the pixels.
constexpr double kNarrowSlot = 8;

/// One decimal is finer than a pixel.
std::string pixels(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f", value);
  return buffer.data();
}

/// Maps values to heights in the picture, and knows the ticks.
class Axis {
 public:
  explicit Axis(const Plot& plot) : log_(plot.axis == PlotAxis::Log) {
    double low = INFINITY;
    double high = -INFINITY;
    const auto stretch = [&](double value) {
      if (!has_place(value)) return;
      low = std::min(low, place(value));
      high = std::max(high, place(value));
    };
    for (const PlotMark& mark : plot.marks) {
      stretch(mark.low);
      stretch(mark.high);
    }
    if (plot.zero) stretch(0);
    if (low > high) low = 0, high = 1;
    // A range that is all but a point would have ticks that differ in no digit.
    const double size = std::max(std::fabs(low), std::fabs(high));
    if (high - low <= 1e-6 * size) {
      const double margin = log_ || size == 0 ? 0.5 : 0.1 * size;
      low -= margin;
      high += margin;
    }
    if (log_) {
      log_ticks(low, high);
    } else {
      linear_ticks(low, high);
    }
  }

  /// Values beyond 1e300 are as good as infinite: their differences may be.
  bool has_place(double value) const { return std::fabs(value) < 1e300 && (!log_ || value > 0); }

  /// The height of a value; one that has no place lies on the border.
  double y(double value) const {
    if (!has_place(value)) return value > 0 ? kBorder : kHeight - kBorder;
    return y_of_place(place(value));
  }

  std::string lines() const {
    std::string svg;
    for (const double at : ticks_) {
      svg += "<path class=\"" + std::string(at == 0 && !log_ ? "zero" : "grid") + "\" d=\"M0 " +
             pixels(y_of_place(at)) + "h" + pixels(kWidth) + "\"/>";
    }
    return svg;
  }

  std::string labels() const {
    std::string html;
    for (const double at : ticks_) {
      html += R"(<span class="tick" style="top:)" + pixels(100 * y_of_place(at) / kHeight) + "%\">" +
              short_number(log_ ? std::pow(10, at) : at) + "</span>";
    }
    return html;
  }

 private:
  double place(double value) const { return log_ ? std::log10(value) : value; }

  double y_of_place(double place) const {
    const double share = (place - ticks_.front()) / (ticks_.back() - ticks_.front());
    return kHeight - kBorder - share * (kHeight - 2 * kBorder);
  }

  /// About five, at multiples of 1, 2 or 5 times a power of ten; the outer ones hold all values.
  void linear_ticks(double low, double high) {
    const double raw = (high - low) / 5;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    double step = power;
    for (const double factor : {2.0, 5.0, 10.0}) {
      if (step < raw) step = factor * power;
    }
    for (double i = std::floor(low / step); i <= std::ceil(high / step); ++i) ticks_.push_back(i * step);
  }

  /// Powers of ten, or of some power of ten if there are many; 1, 2 and 5 times them if there are few.
  void log_ticks(double low, double high) {
    const double step = std::max(1.0, std::ceil((high - low) / 6));
    std::vector<double> places;
    for (double i = std::floor(low / step); i <= std::ceil(high / step); ++i) {
      places.push_back(i * step);
      if (high - low <= 2) places.insert(places.end(), {i + std::log10(2.0), i + std::log10(5.0)});
    }
    std::size_t first = 0;
    std::size_t last = places.size() - 1;
    while (places[first + 1] <= low) ++first;
    while (places[last - 1] >= high) --last;
    ticks_.assign(places.begin() + static_cast<std::ptrdiff_t>(first),
                  places.begin() + static_cast<std::ptrdiff_t>(last + 1));
  }

  bool log_;
  std::vector<double> ticks_;
};

std::string dot(const char* colour, bool hollow, double x, double y) {
  const std::string at = "\" d=\"M" + pixels(x) + " " + pixels(y) + "h.01\"/>";
  return "<path class=\"dot " + std::string(colour) + at + (hollow ? "<path class=\"hole" + at : "");
}

/// A rectangle over the slot, or over a part of it around its middle. Its edges are rounded, not its width, so that
/// neighbours that touch still do.
std::string box(const char* kind, double x, double width, double top, double height) {
  const auto rounded = [](double value) { return std::round(value * 10) / 10; };
  const double left = rounded(x - width / 2);
  return "<rect class=\"" + std::string(kind) + "\" x=\"" + pixels(left) + "\" y=\"" + pixels(top) + "\" width=\"" +
         pixels(rounded(x + width / 2) - left) + "\" height=\"" + pixels(height) + "\"/>";
}

/// One tensor's line and dots, inside a link to its row.
std::string mark_svg(const Plot& plot, const Axis& axis, const PlotMark& mark, double x, double slot) {
  if (std::isnan(mark.low) || std::isnan(mark.high)) return {};
  const double low = axis.y(mark.low);
  const double high = axis.y(mark.high);
  const bool narrow = slot < kNarrowSlot;
  std::string svg = "<a href=\"#t" + std::to_string(mark.row) + "\"><title>" + mark.label + "</title>";
  // A wide invisible stripe makes thin marks easy to point at.
  svg += box("hit", x, slot, 0, kHeight);
  if (plot.drawn == PlotMarks::Bars) {
    // At least 2 high: tensors with a single scale are to be seen, too.
    const double height = std::max(low - high, 2.0);
    svg += box("bar", x, narrow ? slot : std::min(slot * 0.6, 24.0), (low + high - height) / 2, height);
  } else if (mark.low == mark.high) {
    svg += dot("one", !axis.has_place(mark.low), x, low);
  } else {
    svg += narrow ? box("span", x, slot, high, low - high)
                  : R"(<path class="join" d="M)" + pixels(x) + " " + pixels(low) + "V" + pixels(high) + "\"/>";
    svg += dot("one", !axis.has_place(mark.low), x, low) + dot("two", !axis.has_place(mark.high), x, high);
  }
  return svg + "</a>";
}

/// How many neighbours share a mark, so that there are at most as many marks as pixels.
std::size_t tensors_of_mark(const Plot& plot) {
  constexpr std::size_t kMost = 500;
  return std::max<std::size_t>(1, (plot.marks.size() + kMost - 1) / kMost);
}

std::vector<PlotMark> merged(const Plot& plot, std::size_t each) {
  std::vector<PlotMark> result;
  for (std::size_t i = 0; i < plot.marks.size(); ++i) {
    const PlotMark& next = plot.marks[i];
    if (i % each == 0) {
      result.push_back(next);
      continue;
    }
    // fmin and fmax pass over NaN.
    PlotMark& mark = result.back();
    mark.low = plot.drawn == PlotMarks::Worst ? std::fmax(mark.low, next.low) : std::fmin(mark.low, next.low);
    mark.high = std::fmax(mark.high, next.high);
    if (i % each == each - 1 || i + 1 == plot.marks.size()) mark.label += "\n… " + next.label;
  }
  return result;
}

std::string legend_html(const Plot& plot, const Axis& axis, const std::vector<PlotMark>& marks, std::size_t each) {
  std::string html = "<div class=\"legend\">";
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) html += "<span><i class=\"key " + std::string(key) + "\"></i>" + text + "</span>";
  };
  const PlotLegend& legend = each > 1 ? plot.neighbours : plot.each;
  const bool bars = plot.drawn == PlotMarks::Bars;
  add(bars ? "bar" : "one round", legend.one);
  add("two round", legend.two);
  const bool beyond = !bars && std::any_of(marks.begin(), marks.end(), [&](const PlotMark& mark) {
    return (!axis.has_place(mark.low) || !axis.has_place(mark.high)) && !std::isnan(mark.low) && !std::isnan(mark.high);
  });
  if (beyond) add("round beyond", plot.axis == PlotAxis::Log ? "hollow: 0 or ∞" : "hollow: beyond the axis");
  if (each > 1) html += "<span>a mark for every " + tensor_count(each) + "</span>";
  return html + "</div>\n";
}

}  // namespace

std::string plot_html(const Plot& plot) {
  const Axis axis(plot);
  const std::size_t each = tensors_of_mark(plot);
  const std::vector<PlotMark> marks = merged(plot, each);
  const double slot = kWidth / std::max(static_cast<double>(marks.size()), 1.0);
  std::string html = "<figure class=\"" + plot.kind + "\"><figcaption><b>" + plot.title + "</b> " + plot.note +
                     "</figcaption>\n" + legend_html(plot, axis, marks, each);
  html += R"(<div class="plot"><div class="axis">)" + axis.labels() + "</div><svg viewBox=\"0 0 " + pixels(kWidth) +
          ' ' + pixels(kHeight) + R"(" preserveAspectRatio="none" style="--marks:)" + std::to_string(marks.size()) +
          R"(" role="img" aria-label=")" + plot.title + "\">" + axis.lines() + "\n";
  for (std::size_t i = 0; i < marks.size(); ++i) {
    html += mark_svg(plot, axis, marks[i], slot * (static_cast<double>(i) + 0.5), slot) + "\n";
  }
  const std::size_t count = plot.marks.size();
  html += "</svg>\n<div class=\"ends\"><span class=\"tick\">" +
          (count == 1 ? "one tensor</span>"
                      : "first tensor</span><span class=\"tick\">last of " + std::to_string(count) + "</span>");
  return html + "</div></div></figure>\n";
}

}  // namespace planck::cli
