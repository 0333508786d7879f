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

/// How much one call does, and how many calls make a turn: several, where all but the first shall find their operands
/// in the caches.
struct Work {
  std::int64_t bytes;
  std::int64_t elements;
  int calls = 1;
};

/// Runs `operation` as the benchmark, with as many copies of as many bytes after every turn. Counters, each of one
/// call: the medians' ratio, the copy's time in ms, the operation's GB/s and ns for each element.
template <class Operation>
void run_interleaved(benchmark::State& state, const Stream& stream, const Work& work, const Operation& operation) {
  Copy copy(work.bytes);
  const auto turn = [&](const auto& call) {
    return seconds([&] {
             for (int i = 0; i < work.calls; ++i) call();
           }) /
           work.calls;
  };
  std::vector<double> own;
  std::vector<double> copies;
  operation();
  copy.run(stream);
  for (auto _ : state) {
    own.push_back(turn(operation));
    copies.push_back(turn([&] { copy.run(stream); }));
    state.SetIterationTime(own.back());
  }
  state.counters["x_copy"] = median(own) / median(copies);
  state.counters["copy_ms"] = median(copies) * 1e3;
  state.counters["GB_per_s"] = static_cast<double>(work.bytes) / median(own) * 1e-9;
  state.counters["ns_per_element"] = median(own) / static_cast<double>(work.elements) * 1e9;
}

}  // namespace planck::bench
