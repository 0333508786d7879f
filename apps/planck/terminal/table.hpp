// What people see: aligned tables, numbers in few digits, and a progress bar on a terminal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace planck::cli {

/// Columns as wide as their widest cell; text to the left, numbers to the right.
class Table {
 public:
  enum class Align { Left, Right };
  struct Column {
    std::string title;
    Align align = Align::Left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const noexcept { return rows_.empty(); }
  std::string str() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "90.87 MB", in powers of 1000.
std::string bytes_text(std::uint64_t bytes);
/// "1 tensor", "2 tensors".
std::string counted(std::int64_t count, std::string_view noun);
/// As printf's %.*g; "–" for NaN.
std::string number_text(double value, int digits = 4);
/// One digit behind the point: "43.2", "exact" for infinity.
std::string decibel_text(double value);

/// A bar with rate and time to go on standard error if that is a terminal, otherwise nothing.
class Progress {
 public:
  Progress(std::string title, std::uint64_t total, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  /// From any thread.
  void advance(std::uint64_t bytes);
  double seconds() const;

 private:
  void draw(std::uint64_t done, double seconds);

  std::string title_;
  std::uint64_t total_;
  bool visible_;
  std::chrono::steady_clock::time_point start_;
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;
  double drawn_ = -1;
};

}  // namespace planck::cli
