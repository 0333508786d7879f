// The plan cache: calls of the same problem on the same stream find the plan of the first one again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planck/plan.hpp"
#include "run.hpp"

namespace planck::python {

/// What of current_stream() plans depend on: on a CUDA device there is no executor, and its number, counted down from
/// -1, instead of threads. Asked anew each time: PyTorch changes its threads without a word.
struct StreamKey {
  const Executor* executor;
  int threads;

  bool operator==(const StreamKey&) const = default;
};
StreamKey stream_key();

/// The plan for a descriptor. A copy: Python code that runs before the plan does may ask for other ones.
template <class Op>
Plan<Op> plan_for(const typename Op::Descriptor& descriptor) {
  struct Entry {
    StreamKey key;
    Plan<Op> plan;
  };
  constexpr std::size_t kKept = 64;
  thread_local std::vector<Entry> kept;
  thread_local std::size_t last = 0;  // found
  thread_local std::size_t next = 0;  // to be replaced

  const StreamKey key = stream_key();
  const auto fits = [&](const Entry& entry) { return entry.key == key && entry.plan.descriptor() == descriptor; };
  if (last < kept.size() && fits(kept[last])) return kept[last].plan;
  if (const auto found = std::find_if(kept.begin(), kept.end(), fits); found != kept.end()) {
    last = static_cast<std::size_t>(found - kept.begin());
    return found->plan;
  }
  const Result<Plan<Op>> plan = Plan<Op>::select(current_stream(), descriptor);
  if (!plan) raise(plan.error());
  last = next;
  next = (next + 1) % kKept;
  if (kept.size() < kKept) {
    kept.push_back({key, *plan});
  } else {
    kept[last] = {key, *plan};
  }
  return *plan;
}

}  // namespace planck::python
