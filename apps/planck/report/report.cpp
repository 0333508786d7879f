// The page of the report: head, totals, sizes, plots, table. Every text from outside goes through html_text.
#include "report/report.hpp"

#include <algorithm>
#include <cmath>

#include "report/assets.hpp"
#include "report/plots.hpp"
#include "report/text.hpp"

namespace planck::cli {
namespace {

/// More rows than this wait for the script, which shows as many: a table of 30 000 takes browsers half a minute.
constexpr std::size_t kRowsAtOnce = 1000;

/// Sums over the rows.
struct Sums {
  std::uint64_t quantized = 0;
  double quantized_before = 0;
  double quantized_after = 0;
  double copied = 0;
  const ReportTensor* worst = nullptr;  ///< the lowest signal-to-noise ratio
};

Sums sums_of(const Report& report) {
  Sums sums;
  for (const ReportTensor& tensor : report.tensors) {
    if (!tensor.quantized) {
      sums.copied += static_cast<double>(tensor.bytes_after);
      continue;
    }
    ++sums.quantized;
    sums.quantized_before += static_cast<double>(tensor.bytes_before);
    sums.quantized_after += static_cast<double>(tensor.bytes_after);
    const bool worse = sums.worst == nullptr || tensor.snr_db < sums.worst->snr_db;
    if (worse && !std::isnan(tensor.snr_db)) sums.worst = &tensor;
  }
  return sums;
}

constexpr NameLimits kTitle{72, 48, 20};
constexpr NameLimits kPath{240, 0, 40};
constexpr NameLimits kCardName{70, 0, 22};
constexpr NameLimits kTableName{96, 0, 28};

/// The rest of a start tag and the text behind it: a name, with the whole of it as the title if it was cut.
std::string whole_name(const std::string& name, const NameLimits& limits) {
  const ShortName shown = short_name(name, limits);
  return (shown.cut ? " title=\"" + html_text(name) + "\">" : ">") + shown.html;
}

std::string card(const std::string& number, const std::string& text) {
  return "<div class=\"card\"><b>" + number + "</b><span>" + text + "</span></div>\n";
}

std::string cards(const Report& report, const Sums& sums) {
  const ReportTotals& totals = report.totals;
  const auto before = static_cast<double>(totals.file_bytes_before);
  const auto after = static_cast<double>(totals.file_bytes_after);
  std::string html = "<div class=\"cards\">\n";
  html += card(byte_size(after), size_change(before, after));
  const std::size_t others = report.tensors.size() - sums.quantized;
  html += card(std::to_string(sums.quantized), "of " + tensor_count(report.tensors.size()) + " quantised" +
                                                   (others == 0   ? ""
                                                    : others == 1 ? ", the other copied byte for byte"
                                                                  : ", the others copied byte for byte"));
  html += card(fixed_number(totals.snr_db, 1) + " dB", "signal to noise of all quantised tensors; mean error " +
                                                           short_number(totals.mean_error) + ", largest " +
                                                           short_number(totals.max_error));
  html += card(fixed_number(totals.seconds, 2) + " s", byte_size(before / totals.seconds) + "/s read");
  if (sums.worst != nullptr) {
    const auto row = static_cast<std::size_t>(sums.worst - report.tensors.data());
    html +=
        card(fixed_number(sums.worst->snr_db, 1) + " dB", "the worst tensor: <a href=\"#t" + std::to_string(row) +
                                                              "\"" + whole_name(sums.worst->name, kCardName) + "</a>");
  }
  return html + "</div>\n";
}

/// Where the bytes are, before and after, on one scale.
std::string size_bars(const Sums& sums) {
  const double whole = std::max({sums.quantized_before + sums.copied, sums.quantized_after + sums.copied, 1.0});
  const auto part = [&](const char* kind, double bytes) {
    if (bytes == 0) return std::string();
    return "<i class=\"" + std::string(kind) + "\" style=\"width:" + exact_number(100 * bytes / whole) +
           "%\" title=\"" + byte_size(bytes) + "\"></i>";
  };
  const auto track = [&](const char* name, double quantized) {
    return "<span>" + std::string(name) + "</span><div class=\"track\">" + part("quantized", quantized) +
           part("copied", sums.copied) + "</div>\n";
  };
  std::string html =
      "<div class=\"sizes\">" + track("before", sums.quantized_before) + track("after", sums.quantized_after) +
      R"(<div class="legend"><span><i class="key quantized"></i>)" + "quantised: " + byte_size(sums.quantized_before) +
      " → " + byte_size(sums.quantized_after) + "</span>";
  if (sums.copied > 0) html += "<span><i class=\"key copied\"></i>copied: " + byte_size(sums.copied) + "</span>";
  return html + "</div></div>\n";
}

std::string settings(const Report& report) {
  std::string html = "<dl>\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    html += "<div><dt>" + html_text(name) + "</dt><dd>" + html_text(value) + "</dd></div>\n";
  };
  for (const auto& [name, value] : report.settings) add(name, value);
  add("Planck", report.version);
  return html + "</dl>\n";
}

std::string plots(const Report& report) {
  Plot noise{.kind = "noise",
             .title = "Signal to noise",
             .note = "in dB. Higher is better; 6 dB are one bit.",
             .each = {"each quantised tensor", ""},
             .neighbours = {"lowest", "highest"}};
  Plot errors{.kind = "errors",
              .title = "Errors",
              .note = "|restored − x| of the elements of each tensor.",
              .axis = PlotAxis::Log,
              .drawn = PlotMarks::Worst,
              .each = {"mean", "largest"},
              .neighbours = {"largest mean", "largest"}};
  Plot ranges{.kind = "range",
              .title = "Range of the weights",
              .note = "Outliers make the steps coarse.",
              .drawn = PlotMarks::Bars,
              .zero = true,
              .each = {"smallest to largest element", ""},
              .neighbours = {"smallest to largest element", ""}};
  Plot scales{.kind = "scales",
              .title = "Scales",
              .note = "A scale is the step between two codes.",
              .axis = PlotAxis::Log,
              .drawn = PlotMarks::Bars,
              .each = {"smallest to largest scale", ""},
              .neighbours = {"smallest to largest scale", ""}};
  for (std::size_t row = 0; row < report.tensors.size(); ++row) {
    const ReportTensor& t = report.tensors[row];
    if (!t.quantized) continue;
    const std::string name = html_text(t.name) + "\n";
    noise.marks.push_back({row, t.snr_db, t.snr_db, name + fixed_number(t.snr_db, 1) + " dB"});
    errors.marks.push_back({row, t.mean_error, t.max_error,
                            name + "mean " + short_number(t.mean_error) + ", largest " + short_number(t.max_error)});
    ranges.marks.push_back({row, t.min, t.max, name + short_number(t.min) + " … " + short_number(t.max)});
    scales.marks.push_back(
        {row, t.scale_min, t.scale_max, name + short_number(t.scale_min) + " … " + short_number(t.scale_max)});
  }
  if (noise.marks.empty()) return {};
  return "<h2>Accuracy</h2>\n<div class=\"plots\">\n" + plot_html(noise) + plot_html(errors) + plot_html(ranges) +
         plot_html(scales) + "</div>\n";
}

/// A cell that sorts by a number: infinite ones come before or after all others, NaN last.
std::string cell(const std::string& text, double value) {
  const std::string sort = std::isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : exact_number(value);
  return (sort.empty() ? "<td>" : "<td data-v=\"" + sort + "\">") + text + "</td>";
}

/// "low … high", or one number if they are the same.
std::string span_cell(double low, double high, double value) {
  const std::string from = short_number(low);
  const std::string to = short_number(high);
  return cell(from == to ? from : from + " … " + to, value);
}

/// The row's first cell sorts and is searched by the whole name.
std::string name_cell(const std::string& name) {
  const ShortName shown = short_name(name, kTableName);
  if (!shown.cut) return "<td>" + shown.html + "</td>";
  const std::string whole = html_text(name);
  return "<td title=\"" + whole + "\" data-v=\"" + whole + "\">" + shown.html + "</td>";
}

std::string table_row(const ReportTensor& t, std::size_t row, bool hidden) {
  double elements = 1;
  for (const std::int64_t size : t.shape) elements *= static_cast<double>(size);
  std::string html = "<tr id=\"t" + std::to_string(row) + "\"" + (t.quantized ? "" : " class=\"c\"") +
                     (hidden ? " hidden>" : ">") + name_cell(t.name);
  html += cell(shape_text(t.shape), elements) + "<td class=\"text\">" + html_text(t.dtype) + "</td><td class=\"text\">";
  html += (t.quantized ? "" : "copied") + std::string(t.quantized || t.scope.empty() ? "" : ": ") + html_text(t.scope);
  html += "</td>" + cell(byte_size(static_cast<double>(t.bytes_before)), static_cast<double>(t.bytes_before)) +
          cell(byte_size(static_cast<double>(t.bytes_after)), static_cast<double>(t.bytes_after));
  html += span_cell(t.min, t.max, std::max(std::fabs(t.min), std::fabs(t.max)));
  html += span_cell(t.scale_min, t.scale_max, t.scale_max);
  html += cell(short_number(t.max_error), t.max_error) + cell(short_number(t.mean_error), t.mean_error);
  return html + cell(fixed_number(t.snr_db, 1), t.snr_db) + cell(fixed_number(t.cosine, 6), t.cosine) + "</tr>\n";
}

struct Column {
  const char* head;
  bool text = false;
};
constexpr Column kColumns[] = {{"Tensor", true}, {"Shape"},  {"Dtype", true}, {"Scope", true}, {"Before"},  {"After"},
                               {"Range"},        {"Scales"}, {"Max error"},   {"Mean error"},  {"SNR, dB"}, {"Cosine"}};

/// Where the table is too wide, each row is a block, and its cells have their heads beside them.
std::string narrow_heads() {
  std::string css = "@media (max-width: 700px) {\n";
  for (std::size_t i = 1; i < std::size(kColumns); ++i) {
    css += "td:nth-child(" + std::to_string(i + 1) + ")::before { content: \"" + kColumns[i].head + "\"; }\n";
  }
  return css + "}\n";
}

/// Quantised tensors first, then the copied ones, which wait until they are asked for.
std::string table(const Report& report, const Sums& sums) {
  const bool only_quantized = sums.quantized > 0;
  std::string html =
      "<h2>Tensors</h2>\n<div class=\"tools\"><input type=\"search\" placeholder=\"Part of a name\" "
      "aria-label=\"Part of a name\"><label><input type=\"checkbox\"" +
      std::string(only_quantized ? " checked" : "") +
      "> only quantised</label><output class=\"muted\"></output><button hidden>show all</button></div>\n"
      "<div class=\"scroll\"><table><thead><tr>";
  for (const Column& column : kColumns) {
    html += std::string(column.text ? "<th class=\"text\">" : "<th>") + "<button>" + column.head + "</button></th>";
  }
  html += "</tr></thead><tbody>\n";
  std::size_t placed = 0;
  for (const bool quantized : {true, false}) {
    for (std::size_t row = 0; row < report.tensors.size(); ++row) {
      const ReportTensor& tensor = report.tensors[row];
      if (tensor.quantized != quantized) continue;
      html += table_row(tensor, row, placed++ >= kRowsAtOnce || (only_quantized && !quantized));
    }
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  const Sums sums = sums_of(report);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src '";
  html += kReportScriptHash;
  const std::string& name = report.name.empty() ? report.input : report.name;
  html += "'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + html_text(name) +
          " quantised</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>";
  html += kReportStyle;
  html += narrow_heads() + "</style>\n";
  // Without a script nothing can be asked for, so everything is there.
  html +=
      "<noscript><style>tr[hidden] { display: table-row !important; } .tools { display: none; }</style></noscript>\n";
  html += "</head>\n<body>\n<main>\n<p class=\"brand\">Planck quantisation report</p>\n<h1" + whole_name(name, kTitle) +
          "</h1>\n<p class=\"path\"><span" + whole_name(report.input, kPath) + "</span>";
  if (!report.output.empty()) html += " → <span" + whole_name(report.output, kPath) + "</span>";
  html += "</p>\n" + cards(report, sums) + size_bars(sums) + settings(report) + plots(report) + table(report, sums);
  html += "</main>\n<script>";
  html += kReportScript;
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace planck::cli
