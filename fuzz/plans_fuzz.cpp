// Every plan of the kernel list on views that the fuzzer draws: all of them lie in one arena, where they overlap,
// walk backwards, repeat, reach out of their buffers and lie about 64-bit numbers.
//
// What must hold: a run ends in success or in an error that leaves the arena alone. The reference, on a copy of
// the arena, gives the same verdict, word for word, and the same outputs; no other byte changes. And after a
// success the aliasing rule holds, checked here byte by byte and not with the library's own test.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "testing/op_cases.hpp"
#include "testing/test_tensor.hpp"
#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

__extension__ using Wide = __int128;  // holds every sum of products of a view's numbers

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kExtremes[] = {kMin,      kMin + 1,  kMin / 2,  kMin / 32, -(1LL << 32), -1,       0,
                                      1LL << 31, 1LL << 47, kMax / 32, kMax / 8,  kMax / 2,     kMax - 1, kMax};

/// Bytes of the arena: enough for eight f64 tensors of as many elements as a shape may have. Most are small, for
/// speed; only tensors that fill the largest one are worth a second thread.
constexpr std::int64_t kSmall = 16 << 10;
constexpr std::int64_t kMedium = 64 << 10;
constexpr std::int64_t kLarge = 512 << 10;
constexpr std::int64_t kArenas[] = {kSmall, kSmall, kSmall, kSmall,  kSmall,  kSmall,  kSmall,  kSmall,
                                    kSmall, kSmall, kSmall, kMedium, kMedium, kMedium, kMedium, kLarge};

std::int64_t numel(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t low_bits(Wide value) { return static_cast<std::int64_t>(value); }

/// The lowest and the highest element that a non-empty view touches.
std::pair<Wide, Wide> reach_of(const AnyTensorMut& view) {
  Wide lowest = view.offset;
  Wide highest = view.offset;
  for (int d = 0; d < view.shape.rank(); ++d) {
    const Wide reach = Wide{view.stride[d]} * (view.shape[d] - 1);
    (reach < 0 ? lowest : highest) += reach;
  }
  return {lowest, highest};
}

struct Arena {
  explicit Arena(std::int64_t size) : bytes(size), start(new std::byte[static_cast<std::size_t>(size)]) {}
  Arena(const Arena& other) : Arena(other.bytes) { std::memcpy(start.get(), other.start.get(), size()); }
  std::size_t size() const { return static_cast<std::size_t>(bytes); }
  bool operator==(const Arena& other) const { return std::memcmp(start.get(), other.start.get(), size()) == 0; }

  std::int64_t bytes;
  std::unique_ptr<std::byte[]> start;
};

/// Draws a view for each tensor of a case, one after the other.
class ViewDrawer {
 public:
  ViewDrawer(FuzzedDataProvider& bytes, const Arena& arena) : bytes_(bytes), arena_(arena) {}

  void draw(const TensorSpec& spec) {
    AnyTensorMut view{arena_.start.get(), arena_.bytes / size_of(spec.element), 0, spec.element, spec.shape, {}};
    enum Placement { Behind, Nested, Anywhere, Loose, Same, Shifted };
    const Placement placement = bytes_.PickValueInArray(
        {Behind, Behind, Behind, Behind, Nested, Nested, Nested, Same, Same, Shifted, Shifted, Loose, Anywhere});
    const AnyTensorMut* const twin = twin_of(spec);
    if (placement == Loose) {
      for (int d = 0; d < spec.shape.rank(); ++d) view.stride[d] = pick(-4, 4);
      view.offset = pick(0, view.capacity - 1);
    } else if ((placement == Same || placement == Shifted) && twin != nullptr) {
      view = *twin;
      if (placement == Shifted) view.offset = low_bits(Wide{view.offset} + pick(-3, 3));
    } else {
      lay_out(view, placement == Nested);
      if (placement == Anywhere) {
        view.offset = pick(0, view.capacity - 1);
      } else {
        put_behind(view);
      }
    }
    faultless_ &= placement == Behind || placement == Nested;
    if (bytes_.ConsumeIntegralInRange(0, 7) == 7) alter(view);
    tell_the_truth(view);
    if (numel(spec.shape) > 0 && reach_of(view).second >= view.capacity) faultless_ = false;
    views_.push_back(view);
  }

  const Tensors& views() const { return views_; }
  /// Nothing is wrong with the views: each fits its buffer and they lie one behind the other.
  bool faultless() const { return faultless_; }

 private:
  std::int64_t pick(std::int64_t lowest, std::int64_t highest) {
    return bytes_.ConsumeIntegralInRange(lowest, highest);
  }

  /// An earlier view of the same element and shape.
  const AnyTensorMut* twin_of(const TensorSpec& spec) {
    std::vector<const AnyTensorMut*> twins;
    for (const AnyTensorMut& view : views_) {
      if (view.element == spec.element && view.shape == spec.shape) twins.push_back(&view);
    }
    return twins.empty() ? nullptr : twins[static_cast<std::size_t>(pick(0, std::ssize(twins) - 1))];
  }

  /// Row-major; or the dimensions in any order and direction, with gaps, each beyond the reach of the smaller ones.
  void lay_out(AnyTensorMut& view, bool nested) {
    std::array<int, kMaxRank> order{};
    const int rank = view.shape.rank();
    for (int d = 0; d < rank; ++d) order[d] = rank - 1 - d;
    for (int d = rank - 1; nested && d > 0; --d) std::swap(order[d], order[pick(0, d)]);
    std::int64_t step = nested ? pick(1, 3) : 1;
    for (int k = 0; k < rank; ++k) {
      const int d = order[k];
      const std::int64_t extent = std::max<std::int64_t>(view.shape[d], 1);
      const bool backwards = nested && bytes_.ConsumeBool();
      view.stride[d] = backwards ? -step : step;
      if (backwards) view.offset += step * (extent - 1);
      step = step * extent + (nested ? pick(0, 2) : 0);
    }
  }

  /// Moves a view, whose lowest element is element 0, behind all others, perhaps with a gap.
  void put_behind(AnyTensorMut& view) {
    if (numel(view.shape) == 0) return;
    const std::int64_t size = size_of(view.element);
    const std::int64_t first = (used_bytes_ + size - 1) / size + (bytes_.ConsumeBool() ? pick(0, 9) : 0);
    view.offset += first;
    used_bytes_ = low_bits(reach_of(view).second + 1) * size;
  }

  void alter(AnyTensorMut& view) {
    const std::int64_t size = size_of(view.element);
    const std::int64_t shift = pick(0, 64);
    const auto move_data = [&](std::int64_t by) { view.data = static_cast<std::byte*>(view.data) + by; };
    faultless_ = false;
    switch (pick(0, 7)) {
      case 0:  // the buffer starts later, the elements stay where they are
        if (view.data == nullptr) return;
        move_data(shift * size);
        view.offset = low_bits(Wide{view.offset} - shift);
        return;
      case 1:
        view.capacity = kUnknownCapacity;
        return;
      case 2:  // just enough, or one too few
        if (numel(view.shape) > 0) view.capacity = low_bits(reach_of(view).second + pick(0, 1));
        return;
      case 3:
        view.capacity = bytes_.PickValueInArray(kExtremes);
        return;
      case 4:
        view.offset = bytes_.PickValueInArray(kExtremes);
        return;
      case 5:
        view.stride[pick(0, 3)] = bytes_.PickValueInArray(kExtremes);
        return;
      case 6:
        view.data = nullptr;
        return;
      default:
        if (view.data != nullptr) move_data(1);
    }
  }

  /// A capacity beyond the arena is kept only for a view that stays inside: the caller's word is all a plan has.
  void tell_the_truth(AnyTensorMut& view) const {
    if (view.data == nullptr || numel(view.shape) == 0) return;
    const std::int64_t size = size_of(view.element);
    const std::int64_t before = static_cast<std::byte*>(view.data) - arena_.start.get();
    const std::int64_t truth = (arena_.bytes - before) / size;
    const auto [lowest, highest] = reach_of(view);
    const bool inside = before + lowest * size >= 0 && highest < truth;
    if (view.capacity > truth && !inside) view.capacity = truth;
  }

  FuzzedDataProvider& bytes_;
  const Arena& arena_;
  Tensors views_;
  std::int64_t used_bytes_ = 0;
  bool faultless_ = true;
};

Shape draw_shape(FuzzedDataProvider& bytes, std::int64_t max_elements, bool large) {
  const int rank = bytes.ConsumeIntegralInRange(0, 4);
  Shape shape(std::vector<std::int64_t>(static_cast<std::size_t>(rank)));
  const int longest = bytes.ConsumeIntegralInRange(-4, 3);  // none, half of the time
  // Scans cut axes of more than 1024 elements, and look back on more than 4096 through a workspace.
  const std::int64_t most = large ? max_elements : 300;
  std::int64_t room = max_elements;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t usual = large ? 300 : 9;
    const std::int64_t extent = bytes.ConsumeIntegralInRange<std::int64_t>(1, d == longest ? most : usual);
    shape[d] = std::min(extent, room);
    room /= shape[d];
  }
  if (rank > 0 && bytes.ConsumeIntegralInRange(0, 15) == 15) shape[bytes.ConsumeIntegralInRange(0, rank - 1)] = 0;
  return shape;
}

/// One drawn run, and what is said about it when something is wrong.
struct Problem {
  cpu::KernelRow row;
  OpCase op_case;
  Tensors views;
  const std::byte* arena;
  ArchSku arch;
  int threads;

  [[noreturn]] void violated(const std::string& what) const {
    std::fprintf(stderr, "%s on %s with %d threads: %s\n", name_of(row).c_str(), std::string(to_string(arch)).c_str(),
                 threads, what.c_str());
    for (std::size_t i = 0; i < views.size(); ++i) {
      const AnyTensorMut& view = views[i];
      std::fprintf(stderr, "  %s: ", op_case.tensors[i].name.c_str());
      if (view.data == nullptr) {
        std::fprintf(stderr, "null");
      } else {
        std::fprintf(stderr, "arena + %td", static_cast<const std::byte*>(view.data) - arena);
      }
      std::fprintf(stderr, ", capacity %jd, offset %jd, extents and strides", std::intmax_t{view.capacity},
                   std::intmax_t{view.offset});
      for (int d = 0; d < view.shape.rank(); ++d) {
        std::fprintf(stderr, " %jd:%jd", std::intmax_t{view.shape[d]}, std::intmax_t{view.stride[d]});
      }
      std::fprintf(stderr, "\n");
    }
    std::abort();
  }

  /// The same views over another arena.
  Tensors views_in(const Arena& other) const {
    Tensors moved = views;
    for (AnyTensorMut& view : moved) {
      if (view.data != nullptr) view.data = other.start.get() + (static_cast<const std::byte*>(view.data) - arena);
    }
    return moved;
  }
};

/// Both failed with the same words, or neither did; words begin with the plan's name.
template <class T>
void check_verdicts(const Problem& problem, const Result<T>& got, const Result<T>& reference) {
  if (got.has_value() != reference.has_value()) {
    problem.violated("reference: " + std::string(reference ? "success" : reference.error().message()) +
                     "; kernel: " + std::string(got ? "success" : got.error().message()));
  }
  if (got) return;
  const Error& a = got.error();
  const Error& b = reference.error();
  if (a.kind() != b.kind() || a.message() != b.message() || a.needed() != b.needed() || a.got() != b.got()) {
    problem.violated("reference: " + std::string(b.message()) + "; kernel: " + std::string(a.message()));
  }
  // The plan's name, from an error that every plan gives.
  PlanPreference impossible;
  impossible.prefer_backend = BackendKind::Bespoke;
  const auto refused = problem.op_case.select(Stream::cpu(1), impossible);
  if (refused) problem.violated("selected a CUDA kernel for the CPU");
  const std::string_view text = refused.error().message();
  const std::string_view name = text.substr(0, text.find(':') + 1);
  if (!name.ends_with("Plan:") || !a.message().starts_with(name) || a.message().size() < name.size() + 2) {
    problem.violated("the message does not begin with the plan's name: " + std::string(a.message()));
  }
}

/// Where each element of a view begins, in bytes from the arena's start, row-major; all inside the declared buffer,
/// or inside the arena if nobody said how long the buffer is.
std::vector<std::int64_t> positions(const Problem& problem, const Arena& arena, std::size_t tensor) {
  const AnyTensorMut& view = problem.views[tensor];
  const std::int64_t size = size_of(view.element);
  const std::int64_t buffer = view.data == nullptr ? 0 : static_cast<const std::byte*>(view.data) - problem.arena;
  std::vector<std::int64_t> all(static_cast<std::size_t>(numel(view.shape)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Wide at = view.offset;
    auto rest = static_cast<std::int64_t>(i);
    for (int d = view.shape.rank() - 1; d >= 0; --d) {
      at += Wide{view.stride[d]} * (rest % view.shape[d]);
      rest /= view.shape[d];
    }
    const bool in_buffer = view.capacity == kUnknownCapacity || (at >= 0 && at < view.capacity);
    if (!in_buffer || buffer + at * size < 0 || buffer + (at + 1) * size > arena.bytes) {
      problem.violated("accepted " + problem.op_case.tensors[tensor].name + ", which leaves its buffer");
    }
    all[i] = buffer + static_cast<std::int64_t>(at) * size;
  }
  return all;
}

std::vector<std::byte> packed(const Arena& arena, const std::vector<std::int64_t>& positions, std::int64_t size) {
  std::vector<std::byte> out;
  for (const std::int64_t at : positions) out.insert(out.end(), arena.start.get() + at, arena.start.get() + at + size);
  return out;
}

/// Leaves both arenas as they were before, if nothing but the outputs was written.
void check_success(const Problem& problem, const Arena& before, Arena& after, Arena& reference) {
  const auto& specs = problem.op_case.tensors;
  constexpr std::int8_t kNobody = -1;
  std::vector<std::int8_t> writer(before.size(), kNobody);  // of each byte of the arena
  std::vector<std::vector<std::int64_t>> at;
  for (std::size_t i = 0; i < specs.size(); ++i) at.push_back(positions(problem, before, i));

  for (std::size_t o = 0; o < specs.size(); ++o) {
    if (!specs[o].output) continue;
    const std::int64_t size = size_of(specs[o].element);
    for (const std::int64_t element : at[o]) {
      for (std::int64_t b = element; b < element + size; ++b) {
        if (writer[b] != kNobody) problem.violated("accepted " + specs[o].name + ", which writes a byte twice");
        writer[b] = static_cast<std::int8_t>(o);
      }
    }
    const std::vector<std::byte> got = packed(after, at[o], size);
    const std::vector<std::byte> wanted = packed(reference, at[o], size);
    const std::int64_t index = first_difference(specs[o].element, wanted, got);
    if (index >= 0) {
      problem.violated(specs[o].name + " differs at logical index " + std::to_string(index) + ": reference " +
                       std::to_string(element_as_double(specs[o].element, wanted, index)) + ", got " +
                       std::to_string(element_as_double(specs[o].element, got, index)));
    }
    for (const std::int64_t element : at[o]) {
      std::memcpy(after.start.get() + element, before.start.get() + element, static_cast<std::size_t>(size));
      std::memcpy(reference.start.get() + element, before.start.get() + element, static_cast<std::size_t>(size));
    }
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].output) continue;
    for (const std::int64_t element : at[i]) {
      for (std::int64_t b = element; b < element + size_of(specs[i].element); ++b) {
        if (writer[b] == kNobody) continue;
        const auto o = static_cast<std::size_t>(writer[b]);
        if (specs[o].element != specs[i].element || specs[o].shape != specs[i].shape || at[o] != at[i]) {
          problem.violated("accepted " + specs[o].name + ", which overlaps " + specs[i].name);
        }
      }
    }
  }
  if (!(after == before)) problem.violated("the kernel wrote outside the outputs");
  if (!(reference == before)) problem.violated("the reference wrote outside the outputs");
}

/// Values of the kind that the first tensor of the case has.
void fill(const Arena& arena, ElementKind element, const OpCase& op_case, std::uint64_t seed) {
  TestTensor values(element, Shape{509}, Layout::Contiguous);
  planck::test::fill(values, op_case.tensors.front(), seed, op_case.unit);
  const std::vector<std::byte> tile = values.packed();
  for (std::size_t b = 0; b < arena.size(); b += tile.size()) {
    std::memcpy(arena.start.get() + b, tile.data(), std::min(tile.size(), arena.size() - b));
  }
}

/// Other segments for a ragged batch, as many as before; false if they may be none.
bool draw_offsets(FuzzedDataProvider& bytes, OpCase& op_case) {
  bool good = true;
  for (TensorSpec& spec : op_case.tensors) {
    if (spec.values != Values::Offsets || bytes.ConsumeBool()) continue;
    for (std::size_t i = 1; i + 1 < spec.offsets.size(); ++i) {
      spec.offsets[i] = bytes.ConsumeIntegralInRange(spec.offsets[i - 1], spec.offsets.back());
    }
    if (bytes.ConsumeIntegralInRange(0, 7) < 7) continue;
    const auto place = bytes.ConsumeIntegralInRange<std::size_t>(0, spec.offsets.size() - 1);
    spec.offsets[place] = bytes.PickValueInArray(kExtremes);
    good = false;
  }
  return good;
}

/// Gives a view of scales, zero points or offsets values that a plan accepts, where the view stays inside the arena.
void put_qparams(const Arena& arena, const TensorSpec& spec, const AnyTensorMut& view, std::uint64_t seed,
                 double unit) {
  const std::int64_t size = size_of(view.element);
  const bool checked =
      spec.values == Values::Scales || spec.values == Values::ZeroPoints || spec.values == Values::Offsets;
  if (!checked || view.data == nullptr || numel(view.shape) == 0) return;
  const std::int64_t before = static_cast<std::byte*>(view.data) - arena.start.get();
  const auto [lowest, highest] = reach_of(view);
  if (before + lowest * size < 0 || before + (highest + 1) * size > arena.bytes) return;
  TestTensor values(spec.element, Shape{numel(view.shape)}, Layout::Contiguous);
  planck::test::fill(values, spec, seed, unit);
  const std::vector<std::byte> packed = values.packed();
  for (std::int64_t i = 0; i < numel(view.shape); ++i) {
    std::int64_t at = view.offset;
    std::int64_t rest = i;
    for (int d = view.shape.rank() - 1; d >= 0; --d) {
      at += view.stride[d] * (rest % view.shape[d]);
      rest /= view.shape[d];
    }
    std::memcpy(arena.start.get() + before + at * size, packed.data() + i * size, static_cast<std::size_t>(size));
  }
}

template <class T>
const T& pick_from(FuzzedDataProvider& bytes, const std::vector<T>& list) {
  return list[bytes.ConsumeIntegralInRange<std::size_t>(0, list.size() - 1)];
}

void run_one(FuzzedDataProvider& bytes) {
  static const std::vector<cpu::KernelRow> kRows = kernel_list();
  static const std::vector<ArchSku> kArchs = archs_here();
  const cpu::KernelRow& row = pick_from(bytes, kRows);
  Arena arena(bytes.PickValueInArray(kArenas));
  const bool large = arena.bytes == kLarge;
  const Shape shape = draw_shape(bytes, arena.bytes / 64, large);
  const std::vector<Broadcast> broadcasts = broadcasts_for(row, shape);
  if (broadcasts.empty()) return;  // a number has no segments
  Problem problem{row,
                  make_case(row, shape, pick_from(bytes, broadcasts)),
                  {},
                  arena.start.get(),
                  pick_from(bytes, kArchs),
                  large ? bytes.ConsumeIntegralInRange(1, 3) : 1};
  const bool good_offsets = draw_offsets(bytes, problem.op_case);
  PlanPreference preference;
  preference.prefer_arch = problem.arch;
  if (bytes.ConsumeBool()) preference.max_workspace_bytes = bytes.ConsumeIntegral<std::uint16_t>();
  const bool streams = bytes.ConsumeBool();
  const auto seed = bytes.ConsumeIntegral<std::uint16_t>();
  fill(arena, row.element, problem.op_case, seed);
  ViewDrawer drawer(bytes, arena);
  for (const TensorSpec& spec : problem.op_case.tensors) drawer.draw(spec);
  problem.views = drawer.views();
  for (std::size_t i = 0; i < problem.views.size(); ++i) {
    put_qparams(arena, problem.op_case.tensors[i], problem.views[i], seed + i, problem.op_case.unit);
  }

  ThreadExecutor usual(problem.threads);
  ThreadExecutor without_cache(problem.threads, 0);
  ThreadExecutor& executor = streams ? without_cache : usual;
  const Stream stream = Stream::cpu(executor);
  PlanPreference plain_loops;
  plain_loops.prefer_backend = BackendKind::Reference;
  const auto plan = problem.op_case.select(stream, preference);
  const auto reference_plan = problem.op_case.select(stream, plain_loops);
  check_verdicts(problem, plan, reference_plan);
  if (!plan) return;

  const Arena before = arena;
  Arena reference = arena;
  const Result<void> result = (*plan)(problem.views);
  const Result<void> expected = (*reference_plan)(problem.views_in(reference));
  check_verdicts(problem, result, expected);
  if (result) {
    check_success(problem, before, arena, reference);
  } else {
    if (!(arena == before && reference == before)) problem.violated("an error that wrote to memory");
    if (drawer.faultless() && good_offsets)
      problem.violated("nothing is wrong, but: " + std::string(result.error().message()));
  }
}

}  // namespace
}  // namespace planck::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider bytes(data, size);
  planck::test::run_one(bytes);
  return 0;
}
