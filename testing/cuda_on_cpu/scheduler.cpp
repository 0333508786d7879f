#include "testing/cuda_on_cpu/scheduler.hpp"

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "testing/cuda_on_cpu/fiber.hpp"
#include "testing/cuda_on_cpu/sanitizers.hpp"
#include "testing/cuda_on_cpu/shared_memory.hpp"

namespace cuda_on_cpu {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxWarps = kMaxThreads / kWarp;

struct Random {
  std::uint64_t state;
  std::uint32_t next() {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state >> 33);
  }
  std::uint64_t below(std::uint64_t n) { return ((std::uint64_t{next()} << 31) + next()) % n; }
};

enum class State { Ready, AtBarrier, InOperation, Returned };

struct Thread {
  Fiber fiber;
  unsigned number = 0;
  Index3 index{};
  State state = State::Returned;
  // What it waits for.
  Place where;
  WarpOperation operation{};
  unsigned mask = 0;
  std::uint64_t value = 0;
  std::uint64_t result = 0;
  unsigned lane = 0;
  int width = 0;
};

/// Lanes as bits; those of none of the three wait at the barrier.
struct Warp {
  unsigned ready = 0;
  unsigned in_operation = 0;
  unsigned returned = 0;
  std::array<std::array<char, 2>, kWarp> sync_tag{};  // of a mask's lowest lane, in turns
  std::array<unsigned, kWarp> syncs{};
};

struct Block {
  Index3 grid{};
  Index3 extent{};
  Index3 index{};
  unsigned count = 0;
  Kernel kernel = nullptr;
  const void* arguments = nullptr;
  std::array<Warp, kMaxWarps> warps;
  unsigned barriers = 0;
  std::array<char, 2> barrier_tag{};
  char begin_tag = 0;
  char end_tag = 0;
  bool interrupts = false;
  bool interrupted = false;
  std::string report;
};

std::uint64_t environment_seed() {
  const char* const text = std::getenv("CUDA_ON_CPU_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

std::mutex launching;
Random random_numbers{environment_seed()};
Block block;
std::vector<std::unique_ptr<Thread>> threads;  // grows to the largest block so far
Thread* running = nullptr;
std::string kept_report;

const char* name_of(WarpOperation operation) {
  constexpr const char* kNames[] = {"__syncwarp",       "__shfl_sync",     "__shfl_up_sync",
                                    "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync"};
  return kNames[static_cast<int>(operation)];
}

template <class... Parts>
std::string text_of(const char* format, Parts... parts) {
  char text[1024];
  std::snprintf(text, sizeof text, format, parts...);
  return text;
}

std::string place_of(const Thread& thread) {
  const char* file = thread.where.file_name();
  if (const char* const slash = std::strrchr(file, '/')) file = slash + 1;
  return text_of("%s:%u", file, thread.where.line());
}

std::string describe(const Thread& thread) {
  std::string what = text_of("thread (%u, %u, %u)", thread.index.x, thread.index.y, thread.index.z);
  switch (thread.state) {
    case State::AtBarrier:
      return what + " waits at __syncthreads in " + place_of(thread);
    case State::InOperation:
      return what + text_of(" waits in %s(%#x) in ", name_of(thread.operation), thread.mask) + place_of(thread);
    case State::Returned:
      return what + " has returned";
    case State::Ready:
      break;
  }
  return what + " runs";
}

bool same_place(const Thread& a, const Thread& b) {
  return a.where.line() == b.where.line() && a.where.column() == b.where.column() &&
         std::strcmp(a.where.file_name(), b.where.file_name()) == 0;
}

void fail(const std::string& what) {
  if (!block.report.empty()) return;
  block.report = text_of("block (%u, %u, %u): ", block.index.x, block.index.y, block.index.z) + what;
}

Warp& warp_of(const Thread& thread) { return block.warps[thread.number / kWarp]; }
unsigned bit_of(const Thread& thread) { return 1U << (thread.number % kWarp); }

/// The thread leaves the CPU in its new state, for ever if the launch has failed.
void wait(Thread& self, State state) {
  Warp& warp = warp_of(self);
  self.state = state;
  warp.ready &= ~bit_of(self);
  if (state == State::InOperation) warp.in_operation |= bit_of(self);
  if (state == State::Returned) warp.returned |= bit_of(self);
  self.fiber.suspend();
}

[[noreturn]] void stop(const std::string& what) {
  fail(what);
  running->fiber.suspend();
  std::abort();
}

void thread_body(void* argument) {
  auto& self = *static_cast<Thread*>(argument);
  acquire(&block.begin_tag);
  block.kernel(block.arguments);
  release(&block.end_tag);
  wait(self, State::Returned);
}

/// Whether all lanes of the mask are in the same operation as `self`.
bool complete(const Thread& self, const Warp& warp) {
  if (((warp.in_operation | bit_of(self)) & self.mask) != self.mask) return false;
  const unsigned first = self.number / kWarp * kWarp;
  for (unsigned lanes = self.mask; lanes != 0; lanes &= lanes - 1) {
    const Thread& other = *threads[first + std::countr_zero(lanes)];
    if (other.operation != self.operation || other.mask != self.mask || !same_place(other, self)) return false;
  }
  return true;
}

/// The lane whose value a shuffle gives to `self`, as PTX defines it.
unsigned source_of(const Thread& self) {
  const unsigned own = self.number % kWarp;
  const unsigned width = static_cast<unsigned>(self.width);
  const unsigned first = own & ~(width - 1);
  unsigned from = own;
  switch (self.operation) {
    case WarpOperation::Shuffle:
      return first + (self.lane & (width - 1));
    case WarpOperation::ShuffleUp:
      return own - first >= self.lane ? own - self.lane : own;
    case WarpOperation::ShuffleDown:
      return own - first + self.lane < width ? own + self.lane : own;
    case WarpOperation::ShuffleXor:
      from = own ^ self.lane;
      return from < first + width ? from : own;
    default:
      return own;
  }
}

/// Gives every lane its result and lets all go on.
void resolve(Thread& self, Warp& warp) {
  const unsigned first = self.number / kWarp * kWarp;
  const auto lane_at = [&](unsigned lanes) -> Thread& { return *threads[first + std::countr_zero(lanes)]; };
  std::uint64_t ballot = 0;
  for (unsigned lanes = self.mask; lanes != 0; lanes &= lanes - 1) {
    if (lane_at(lanes).value != 0) ballot |= lanes & -lanes;
  }
  for (unsigned lanes = self.mask; lanes != 0; lanes &= lanes - 1) {
    Thread& lane = lane_at(lanes);
    lane.result = ballot;
    if (self.operation == WarpOperation::Ballot || self.operation == WarpOperation::Sync) continue;
    const unsigned source = source_of(lane);
    if ((self.mask >> source & 1) == 0) {
      stop(describe(lane) + text_of(" for the value of lane %u, which its mask does not name", source));
    }
    lane.result = threads[first + source]->value;
  }
  for (unsigned lanes = self.mask; lanes != 0; lanes &= lanes - 1) lane_at(lanes).state = State::Ready;
  warp.in_operation &= ~self.mask;
  warp.ready |= self.mask;
}

void report_stuck_warp(unsigned number) {
  const Warp& warp = block.warps[number];
  const Thread& waiting = *threads[number * kWarp + std::countr_zero(warp.in_operation)];
  std::string text = describe(waiting);
  for (unsigned lanes = waiting.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned other = number * kWarp + std::countr_zero(lanes);
    if (other >= block.count) {
      text += text_of(", but the block has no lane %u", other % kWarp);
      break;
    }
    const Thread& lane = *threads[other];
    if (lane.state == State::InOperation && lane.operation == waiting.operation && lane.mask == waiting.mask &&
        same_place(lane, waiting)) {
      continue;
    }
    text += text_of(", but lane %u is elsewhere: ", other % kWarp) + describe(lane);
    break;
  }
  fail(text);
}

/// Every thread waits at a barrier or has returned, and some wait: opens the barrier if it is the same for all.
void open_barrier() {
  const Thread* waiting = nullptr;
  const Thread* other = nullptr;
  for (unsigned t = 0; t < block.count; ++t) {
    const Thread& thread = *threads[t];
    if (thread.state == State::AtBarrier && waiting == nullptr) waiting = &thread;
  }
  for (unsigned t = 0; t < block.count && other == nullptr; ++t) {
    const Thread& thread = *threads[t];
    if (thread.state != State::AtBarrier || !same_place(thread, *waiting)) other = &thread;
  }
  if (other != nullptr) {
    fail("the barrier is not reached by all threads: " + describe(*waiting) + ", but " + describe(*other));
    return;
  }
  ++block.barriers;
  for (unsigned t = 0; t < block.count; ++t) {
    threads[t]->state = State::Ready;
    warp_of(*threads[t]).ready |= bit_of(*threads[t]);
  }
}

/// Runs a warp's lanes, in random order, until none can go on or it is interrupted.
void run_warp(unsigned number) {
  Warp& warp = block.warps[number];
  block.interrupted = false;
  while (warp.ready != 0 && !block.interrupted) {
    const unsigned turn = random_numbers.next() % kWarp;
    const unsigned lane = (std::countr_zero(std::rotr(warp.ready, static_cast<int>(turn))) + turn) % kWarp;
    running = threads[number * kWarp + lane].get();
    running->fiber.resume();
    if (!block.report.empty()) return;
  }
  if (warp.ready == 0 && warp.in_operation != 0) report_stuck_warp(number);
}

void run_block(Index3 index) {
  block.index = index;
  block.interrupts = random_numbers.next() % 2 == 0;
  spoil_shared_memory(random_numbers.next());
  release(&block.begin_tag);
  block.warps = {};
  for (unsigned t = 0; t < block.count; ++t) {
    Thread& thread = *threads[t];
    thread.number = t;
    thread.index = {t % block.extent.x, t / block.extent.x % block.extent.y, t / block.extent.x / block.extent.y};
    thread.state = State::Ready;
    thread.fiber.start(thread_body, &thread);
    warp_of(thread).ready |= bit_of(thread);
  }
  const unsigned warps = (block.count + kWarp - 1) / kWarp;
  unsigned able[kMaxWarps];
  while (block.report.empty()) {
    unsigned count = 0;
    for (unsigned w = 0; w < warps; ++w) {
      if (block.warps[w].ready != 0) able[count++] = w;
    }
    if (count != 0) {
      run_warp(able[random_numbers.next() % count]);
      continue;
    }
    unsigned returned = 0;
    for (unsigned w = 0; w < warps; ++w) returned += std::popcount(block.warps[w].returned);
    if (returned == block.count) break;
    open_barrier();
  }
  // Arrays are reused by the next block.
  acquire(&block.end_tag);
}

bool in_limits(Index3 grid, Index3 extent) {
  constexpr unsigned kMaxGrid = 65535;
  const std::uint64_t count = std::uint64_t{extent.x} * extent.y * extent.z;
  return grid.x != 0 && grid.y != 0 && grid.z != 0 && grid.x <= 0x7fffffffU && grid.y <= kMaxGrid &&
         grid.z <= kMaxGrid && extent.x <= kMaxThreads && extent.y <= kMaxThreads && extent.z <= 64 && count != 0 &&
         count <= kMaxThreads;
}

}  // namespace

int launch(Index3 grid, Index3 extent, Kernel kernel, const void* arguments) {
  const std::lock_guard lock(launching);
  if (!in_limits(grid, extent)) return kInvalidConfiguration;
  block.grid = grid;
  block.extent = extent;
  block.count = extent.x * extent.y * extent.z;
  block.kernel = kernel;
  block.arguments = arguments;
  block.report.clear();
  while (threads.size() < block.count) threads.push_back(std::make_unique<Thread>());
  // Every block once: steps of a number that has no factor in common with the count.
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  std::uint64_t step = 1 + random_numbers.below(blocks);
  while (std::gcd(step, blocks) != 1) ++step;
  std::uint64_t at = random_numbers.below(blocks);
  for (std::uint64_t b = 0; b < blocks && block.report.empty(); ++b, at = (at + step) % blocks) {
    run_block({static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
               static_cast<unsigned>(at / grid.x / grid.y)});
  }
  running = nullptr;
  if (block.report.empty()) return kSuccess;
  kept_report = block.report;
  std::fprintf(stderr, "cuda_on_cpu: %s\n", kept_report.c_str());
  return kLaunchFailure;
}

std::string last_report() {
  const std::lock_guard lock(launching);
  return kept_report;
}

void set_seed(std::uint64_t seed) {
  const std::lock_guard lock(launching);
  random_numbers.state = seed;
}

Index3 thread_index() { return running->index; }
Index3 block_index() { return block.index; }
Index3 block_extent() { return block.extent; }
Index3 grid_extent() { return block.grid; }

void block_barrier(const Place& where) {
  Thread& self = *running;
  self.where = where;
  // Two tags in turns: a thread that is late to leave this barrier must not see what others do before the next one.
  char* const tag = &block.barrier_tag[block.barriers % 2];
  release(tag);
  wait(self, State::AtBarrier);
  acquire(tag);
}

std::uint64_t warp_operation(WarpOperation operation, unsigned mask, std::uint64_t value, unsigned lane, int width,
                             const Place& where) {
  Thread& self = *running;
  Warp& warp = warp_of(self);
  self.where = where;
  self.operation = operation;
  self.mask = mask;
  self.value = value;
  self.lane = lane;
  self.width = width;
  if ((mask & bit_of(self)) == 0 || width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))) {
    self.state = State::InOperation;
    stop(describe(self) + (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))
                               ? text_of(" with a width of %d", width)
                               : text_of(", but is lane %u itself", self.number % kWarp)));
  }
  // Shuffles and votes order no memory; __syncwarp does, among the lanes of its mask.
  const bool orders = operation == WarpOperation::Sync;
  const auto lowest = static_cast<unsigned>(std::countr_zero(mask));
  char* const tag = &warp.sync_tag[lowest][warp.syncs[lowest] % 2];
  if (orders) release(tag);
  if (complete(self, warp)) {
    if (orders) ++warp.syncs[lowest];
    resolve(self, warp);
    may_interrupt();
  } else {
    wait(self, State::InOperation);
  }
  if (orders) acquire(tag);
  return self.result;
}

void may_interrupt() {
  if (!block.interrupts || random_numbers.next() % 8 != 0) return;
  block.interrupted = true;
  running->fiber.suspend();
}

}  // namespace cuda_on_cpu
