// Plans that were chosen, for the next piece of the same shape: a checkpoint has few shapes and many pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "checkpoint/scratch.hpp"
#include "planck/plan.hpp"

namespace planck::cli {

/// Plans of one kind for one thread, by descriptor; from any worker.
template <class Plan>
class KeptPlans {
 public:
  /// Plans whose workspace has at most so many bytes.
  explicit KeptPlans(std::size_t max_workspace_bytes = 0) { preference_.max_workspace_bytes = max_workspace_bytes; }

  /// Runs the plan of a descriptor, which is selected the first time, with its workspace in a slot of `scratch`.
  Result<void> run(const typename Plan::Descriptor& what, const typename Plan::Args& args, Scratch& scratch,
                   std::size_t slot) {
    const Result<Plan> plan = get(what);
    if (!plan) return tl::unexpected(plan.error());
    const std::size_t bytes = plan->workspace_size();
    return plan->run(stream_, {bytes > 0 ? scratch.slot(slot, bytes) : nullptr, bytes}, args);
  }

  /// The same for plans without a workspace.
  Result<void> run(const typename Plan::Descriptor& what, const typename Plan::Args& args) {
    const Result<Plan> plan = get(what);
    if (!plan) return tl::unexpected(plan.error());
    return plan->run(stream_, args);
  }

 private:
  /// Ends of tensors may each have a shape of their own: the oldest plan goes when there are so many.
  static constexpr std::size_t kMost = 32;

  Result<Plan> get(const typename Plan::Descriptor& what) {
    const std::lock_guard lock(mutex_);
    const auto kept = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& p) { return p.descriptor() == what; });
    if (kept != plans_.end()) return *kept;
    Result<Plan> plan = Plan::select(stream_, what, preference_);
    if (!plan) return plan;
    if (plans_.size() == kMost) plans_.erase(plans_.begin());
    plans_.push_back(*plan);
    return plan;
  }

  Stream stream_ = Stream::cpu(1);
  PlanPreference preference_;
  std::mutex mutex_;
  std::vector<Plan> plans_;
};

}  // namespace planck::cli
