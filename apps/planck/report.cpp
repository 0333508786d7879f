// The page of the report: head, totals, sizes, plots, table. Every text from outside goes through html_text.
#include "report.hpp"

#include <algorithm>
#include <cmath>

#include "report_assets.hpp"
#include "report_plots.hpp"
#include "report_text.hpp"

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

std::string card(const std::string& number, const std::string& text) {
  return "<div class=\"card\"><b>" + number + "</b><span>" + text + "</span></div>\n";
}

std::string cards(const Report& report, const Sums& sums) {
  const ReportTotals& totals = report.totals;
  const auto before = static_cast<double>(totals.file_bytes_before);
  const auto after = static_cast<double>(totals.file_bytes_after);
  std::string html = "<div class=\"cards\">\n";
  html +=
      card(byte_size(after), "from " + byte_size(before) + ", " + fixed_number(before / after, 2) + " times smaller");
  html += card(std::to_string(sums.quantized),
               "of " + std::to_string(report.tensors.size()) + " tensors quantised, the others copied byte for byte");
  html += card(fixed_number(totals.snr_db, 1) + " dB", "signal to noise of all quantised tensors; mean error " +
                                                           short_number(totals.mean_error) + ", largest " +
                                                           short_number(totals.max_error));
  if (sums.worst != nullptr) {
    html += card(fixed_number(sums.worst->snr_db, 1) + " dB", "the worst tensor: " + html_text(sums.worst->name));
  }
  html += card(fixed_number(totals.seconds, 2) + " s", byte_size(before / totals.seconds) + "/s read");
  return html + "</div>\n";
}

/// Where the bytes are, before and after, on one scale.
std::string size_bars(const Sums& sums) {
  const double whole = std::max({sums.quantized_before + sums.copied, sums.quantized_after + sums.copied, 1.0});
  const auto part = [&](const char* kind, double bytes) {
    return "<i class=\"" + std::string(kind) + "\" style=\"width:" + exact_number(100 * bytes / whole) +
           "%\" title=\"" + byte_size(bytes) + "\"></i>";
  };
  const auto track = [&](const char* name, double quantized) {
    return "<span>" + std::string(name) + "</span><div class=\"track\">" + part("quantized", quantized) +
           part("copied", sums.copied) + "</div>\n";
  };
  return "<div class=\"sizes\">" + track("before", sums.quantized_before) + track("after", sums.quantized_after) +
         R"(<span class="legend"><i class="key quantized"></i>quantised: )" + byte_size(sums.quantized_before) + " → " +
         byte_size(sums.quantized_after) + "<i class=\"key copied\"></i>copied: " + byte_size(sums.copied) +
         "</span></div>\n";
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
  Plot noise{"Signal to noise",
             "of each quantised tensor, in dB. Higher is better; 6 dB are one bit.",
             PlotAxis::Linear,
             true,
             false,
             {}};
  Plot errors{
      "Errors",      "<span class=\"key one\"></span>mean and <span class=\"key two\"></span>largest |restored − x|.",
      PlotAxis::Log, true,
      false,         {}};
  Plot ranges{"Range of the weights",
              "from the smallest to the largest element. Outliers make the steps coarse.",
              PlotAxis::Linear,
              false,
              true,
              {}};
  Plot scales{"Scales",      "from the smallest to the largest scale of each tensor: the step between two codes.",
              PlotAxis::Log, false,
              false,         {}};
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

/// The name, which may be broken behind its dots.
std::string name_text(const std::string& name) {
  std::string text;
  for (const char c : html_text(name)) {
    text += c;
    if (c == '.') text += "<wbr>";
  }
  return text;
}

std::string table_row(const ReportTensor& t, std::size_t row) {
  double elements = 1;
  for (const std::int64_t size : t.shape) elements *= static_cast<double>(size);
  std::string html = "<tr id=\"t" + std::to_string(row) + "\"" + (t.quantized ? "" : " class=\"c\"") +
                     (row < kRowsAtOnce ? "" : " hidden") + "><td>" + name_text(t.name) + "</td>";
  html += cell(shape_text(t.shape), elements) + "<td class=\"text\">" + html_text(t.dtype) + "</td><td class=\"text\">";
  html += (t.quantized ? "" : "copied") + std::string(t.quantized || t.scope.empty() ? "" : ": ") + html_text(t.scope);
  html += "</td>" + cell(byte_size(static_cast<double>(t.bytes_before)), static_cast<double>(t.bytes_before)) +
          cell(byte_size(static_cast<double>(t.bytes_after)), static_cast<double>(t.bytes_after));
  html += span_cell(t.min, t.max, std::max(std::fabs(t.min), std::fabs(t.max)));
  html += span_cell(t.scale_min, t.scale_max, t.scale_max);
  html += cell(short_number(t.max_error), t.max_error) + cell(short_number(t.mean_error), t.mean_error);
  return html + cell(fixed_number(t.snr_db, 1), t.snr_db) + cell(fixed_number(t.cosine, 6), t.cosine) + "</tr>\n";
}

std::string table(const Report& report) {
  std::string html =
      "<h2>Tensors</h2>\n<div class=\"tools\"><input type=\"search\" placeholder=\"Part of a name\" "
      "aria-label=\"Part of a name\"><label><input type=\"checkbox\"> only quantised ones</label>"
      "<output class=\"muted\"></output><button hidden>show all</button></div>\n<div "
      "class=\"scroll\"><table><thead><tr>";
  for (const char* head : {"Tensor", "Dtype", "Scope"}) {
    html += "<th class=\"text\"><button>" + std::string(head) + "</button></th>";
    if (head[0] == 'T') html += "<th><button>Shape</button></th>";
  }
  for (const char* head : {"Before", "After", "Range", "Scales", "Max error", "Mean error", "SNR, dB", "Cosine"}) {
    html += "<th><button>" + std::string(head) + "</button></th>";
  }
  html += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < report.tensors.size(); ++row) html += table_row(report.tensors[row], row);
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
  html += "'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
          html_text(report.input) + " quantised</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>";
  html += kReportStyle;
  html += "</style>\n</head>\n<body>\n<main>\n<p class=\"brand\">Planck quantisation report</p>\n<h1>" +
          html_text(report.input) + "</h1>\n";
  if (!report.output.empty()) html += "<p class=\"path\">→ " + html_text(report.output) + "</p>\n";
  html += cards(report, sums) + size_bars(sums) + settings(report) + plots(report) + table(report);
  html += "</main>\n<script>";
  html += kReportScript;
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace planck::cli
