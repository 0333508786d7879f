#include "terminal/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace planck::cli {
namespace {

/// Characters, for texts in UTF-8 without wide ones.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string format(const char* pattern, int digits, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, digits, value);
  return buffer;
}

}  // namespace

std::string Table::str() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width_of(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  const auto add_row = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string blanks(widths[i] - width_of(cell), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::Right ? blanks + cell : cell + blanks;
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_row([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) add_row([&](std::size_t i) -> const std::string& { return row[i]; });
  return out;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB", "PB", "EB"}) {
    if (value < 999.995) break;
    value /= 1000;
    unit = larger;
  }
  return format("%.*f ", 2, value) + unit;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

std::string number_text(double value, int digits) { return std::isnan(value) ? "–" : format("%.*g", digits, value); }

std::string decibel_text(double value) {
  if (std::isinf(value) && value > 0) return "exact";
  return std::isnan(value) ? "–" : format("%.*f", 1, value);
}

Progress::Progress(std::string title, std::uint64_t total, bool quiet)
    : title_(std::move(title)),
      total_(total),
      visible_(!quiet && isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (visible_ && drawn_ >= 0) std::fputs("\r\x1b[K", stderr);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::advance(std::uint64_t bytes) {
  const std::uint64_t done = done_ += bytes;
  if (!visible_) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const double now = seconds();
  if (now - drawn_ < 0.1) return;
  drawn_ = now;
  draw(done, now);
}

void Progress::draw(std::uint64_t done, double now) {
  constexpr int kWidth = 30;
  const double part = total_ == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const double rate = static_cast<double>(done) / std::max(now, 1e-9);
  const double left = static_cast<double>(total_ - std::min(done, total_)) / std::max(rate, 1.0);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < static_cast<int>(part * kWidth) ? "█" : "░";
  std::fprintf(stderr, "\r\x1b[K%s %s %3.0f %%  %s/s  %.0f s to go", title_.c_str(), bar.c_str(), part * 100,
               bytes_text(static_cast<std::uint64_t>(rate)).c_str(), left);
  std::fflush(stderr);
}

}  // namespace planck::cli
