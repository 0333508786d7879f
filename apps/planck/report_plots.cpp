// Plots as inline SVG: an axis with round ticks, and for each tensor a slot of equal width. Colours are classes of the
// page's style sheet, so that light and dark need one drawing.
#include "report_plots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "report_text.hpp"

namespace planck::cli {
namespace {

constexpr double kWidth = 600;
constexpr double kHeight = 230;
constexpr double kLeft = 58;
constexpr double kRight = 8;
constexpr double kTop = 12;
constexpr double kBottom = 24;

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
    if (!has_place(value)) return value > 0 ? kTop : kHeight - kBottom;
    return y_of_place(place(value));
  }

  std::string ticks() const {
    std::string svg;
    for (const double at : ticks_) {
      const std::string y = pixels(y_of_place(at));
      svg += "<line class=\"" + std::string(at == 0 && !log_ ? "zero" : "grid") + "\" x1=\"" + pixels(kLeft) +
             "\" x2=\"" + pixels(kWidth - kRight);
      svg.append("\" y1=\"").append(y).append("\" y2=\"").append(y).append("\"/>");
      svg += R"(<text class="tick" text-anchor="end" dy=".35em" x=")" + pixels(kLeft - 7) + "\" y=\"" + y + "\">" +
             (log_ ? short_number(std::pow(10, at)) : short_number(at)) + "</text>";
    }
    return svg;
  }

 private:
  double place(double value) const { return log_ ? std::log10(value) : value; }

  double y_of_place(double place) const {
    const double share = (place - ticks_.front()) / (ticks_.back() - ticks_.front());
    return kHeight - kBottom - share * (kHeight - kBottom - kTop);
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

std::string dot(const char* kind, bool hollow, double x, double y, double radius) {
  return "<circle class=\"" + std::string(kind) + (hollow ? " hollow" : "") + "\" cx=\"" + pixels(x) + "\" cy=\"" +
         pixels(y) + "\" r=\"" + pixels(radius) + "\"/>";
}

/// One tensor's line and dots, inside a link to its row.
std::string mark_svg(const Plot& plot, const Axis& axis, const PlotMark& mark, double x, double slot) {
  if (std::isnan(mark.low) || std::isnan(mark.high)) return {};
  const double low = axis.y(mark.low);
  const double high = axis.y(mark.high);
  const double radius = std::clamp(slot * 0.35, 1.0, 4.0);
  const std::string center = pixels(x);
  std::string svg = "<a href=\"#t" + std::to_string(mark.row) + "\"><title>" + mark.label + "</title>";
  // A wide invisible stripe makes thin marks easy to point at.
  svg += R"(<rect class="hit" x=")" + pixels(x - slot / 2) + "\" y=\"" + pixels(kTop) + "\" width=\"" + pixels(slot) +
         "\" height=\"" + pixels(kHeight - kTop - kBottom) + "\"/>";
  if (plot.dots) {
    const bool two = mark.low != mark.high;
    if (two) {
      svg += R"(<line class="join" x1=")" + center + "\" x2=\"" + center + "\" y1=\"" + pixels(low) + "\" y2=\"" +
             pixels(high) + "\"/>" + dot("low", !axis.has_place(mark.low), x, low, radius);
    }
    svg += dot(two ? "high" : "low", !axis.has_place(mark.high), x, high, radius);
  } else {
    const double width = std::clamp(slot * 0.6, 0.8, 10.0);
    // At least 2 high: tensors with a single scale are to be seen, too.
    const double height = std::max(low - high, 2.0);
    svg += R"(<rect class="bar" rx=")" + pixels(std::min(width, height) / 4) + "\" x=\"" + pixels(x - width / 2) +
           "\" y=\"" + pixels((low + high - height) / 2) + "\" width=\"" + pixels(width) + "\" height=\"" +
           pixels(height) + "\"/>";
  }
  return svg + "</a>";
}

/// Neighbours merged until there are at most as many marks as pixels.
std::vector<PlotMark> merged(const std::vector<PlotMark>& marks) {
  constexpr std::size_t kMost = 500;
  const std::size_t each = (marks.size() + kMost - 1) / kMost;
  if (each <= 1) return marks;
  std::vector<PlotMark> result;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (i % each == 0) {
      result.push_back(marks[i]);
      continue;
    }
    // fmin and fmax pass over NaN.
    PlotMark& mark = result.back();
    mark.low = std::fmin(mark.low, marks[i].low);
    mark.high = std::fmax(mark.high, marks[i].high);
    if (i % each == each - 1 || i + 1 == marks.size()) mark.label += "\n… " + marks[i].label;
  }
  return result;
}

}  // namespace

std::string plot_html(const Plot& plot) {
  const Axis axis(plot);
  const std::vector<PlotMark> marks = merged(plot.marks);
  const auto count = static_cast<double>(marks.size());
  const double slot = (kWidth - kLeft - kRight) / std::max(count, 1.0);
  std::string html = "<figure><figcaption><b>" + plot.title + "</b> " + plot.note + "</figcaption>\n";
  html += "<svg viewBox=\"0 0 " + pixels(kWidth) + ' ' + pixels(kHeight) + R"(" role="img" aria-label=")" + plot.title +
          "\">" + axis.ticks() + "\n";
  for (std::size_t i = 0; i < marks.size(); ++i) {
    html += mark_svg(plot, axis, marks[i], kLeft + slot * (static_cast<double>(i) + 0.5), slot) + "\n";
  }
  const std::string bottom = pixels(kHeight - 5);
  html += R"(<text class="tick" x=")" + pixels(kLeft) + "\" y=\"" + bottom + "\">first tensor</text>";
  html += R"(<text class="tick" text-anchor="end" x=")" + pixels(kWidth - kRight) + "\" y=\"" + bottom + "\">last of " +
          std::to_string(plot.marks.size()) + "</text></svg></figure>\n";
  return html;
}

}  // namespace planck::cli
