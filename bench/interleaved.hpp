// Timing an operation against a plain copy of as many bytes, turn by turn, so that both meet the same noise.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "copy.hpp"

namespace planck::bench {

/// A copy of bytes / 2 to another bytes / 2: as much traffic as an operation that reads and writes `bytes` in all.
class Copy {
 public:
  explicit Copy(std::int64_t bytes)
      : half_(std::max<std::int64_t>(bytes / 2, 1)), from_(new std::byte[half_]), to_(new std::byte[half_]) {
    std::memset(from_.get(), 1, static_cast<std::size_t>(half_));
    std::memset(to_.get(), 2, static_cast<std::size_t>(half_));
  }

  void run(const Stream& stream) { copy(stream, to_.get(), from_.get(), half_); }

 private:
  std::int64_t half_;
  std::unique_ptr<std::byte[]> from_;
  std::unique_ptr<std::byte[]> to_;
};

inline double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

template <class Body>
double seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs `operation` as the benchmark, with a copy of `bytes` after every turn. Counters: the medians' ratio,
/// the copy's time in ms, and the operation's GB/s.
template <class Operation>
void run_interleaved(benchmark::State& state, const Stream& stream, std::int64_t bytes, const Operation& operation) {
  Copy copy(bytes);
  std::vector<double> own;
  std::vector<double> copies;
  operation();
  copy.run(stream);
  for (auto _ : state) {
    own.push_back(seconds(operation));
    copies.push_back(seconds([&] { copy.run(stream); }));
    state.SetIterationTime(own.back());
  }
  state.counters["x_copy"] = median(own) / median(copies);
  state.counters["copy_ms"] = median(copies) * 1e3;
  state.counters["GB_per_s"] = static_cast<double>(bytes) / median(own) * 1e-9;
}

}  // namespace planck::bench
