// What every plan promises: preferences honoured, instruction sets forced, no allocation, no exception, the
// caller's floating-point state kept, many threads at once, forked children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

#include "cpu/isa.hpp"
#include "numerics/fp_env.hpp"
#include "planck/planck.hpp"
#include "testing/op_cases.hpp"
#include "testing/test_tensor.hpp"
#include "testing/thread_executor.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLANCK_COUNTS_ALLOCATIONS 0
#else
#define PLANCK_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<std::int64_t> allocations{0};
}  // namespace

#if PLANCK_COUNTS_ALLOCATIONS
// Every way to the heap goes through these in glibc; operator new calls malloc.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, n);
}
}
#endif

namespace planck::test {
namespace {

/// All kernels of the list, on tensors large enough for several threads.
class PreparedCase {
 public:
  PreparedCase(const cpu::KernelRow& row, const Shape& shape, const Stream& stream)
      : PreparedCase(row, shape, stream, row.terms ? Broadcast::Scalar : Broadcast::None) {}
  PreparedCase(const cpu::KernelRow& row, const Shape& shape, const Stream& stream, Broadcast broadcast)
      : case_(make_case(row, shape, broadcast)) {
    for (const TensorSpec& spec : case_.tensors) {
      tensors_.emplace_back(spec.element, spec.shape, Layout::Contiguous);
      fill(tensors_.back(), spec, tensors_.size(), case_.unit);
    }
    for (const TestTensor& tensor : tensors_) views_.push_back(tensor);
    run_ = *case_.select(stream, {});
  }

  bool run() const { return run_(views_).has_value(); }
  std::vector<std::byte> output() const { return tensors_.back().packed(); }

 private:
  OpCase case_;
  std::vector<TestTensor> tensors_;
  Tensors views_;
  std::function<Result<void>(const Tensors&)> run_;
};

TEST(PlanContract, RunAllocatesNothingAfterTheExecutorsFirstUse) {
#if PLANCK_COUNTS_ALLOCATIONS
  const std::int64_t at_start = allocations.load();
  void* volatile probe = std::malloc(16);  // volatile: a compiler may remove an unused pair
  std::free(probe);
  ASSERT_GT(allocations.load(), at_start) << "the counter does not see malloc";
  const auto check = [](const PreparedCase& prepared, const std::string& name) {
    ASSERT_TRUE(prepared.run());
    const std::int64_t before = allocations.load();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(prepared.run());
    ASSERT_EQ(allocations.load() - before, 0) << name;
  };
  for (const auto& row : kernel_list()) {
    check(PreparedCase(row, {300, 1000}, Stream::cpu()), name_of(row));
    if (row.category != OpCategory::Scan) continue;
    check(PreparedCase(row, {300, 1000}, Stream::cpu(), Broadcast::RaggedScalar), name_of(row) + " in segments");
  }
#else
  GTEST_SKIP() << "the sanitizer owns malloc";
#endif
}

TEST(PlanContract, FailingRunsAllocateNothingEither) {
#if PLANCK_COUNTS_ALLOCATIONS
  const auto plan =
      FakeQuantizePlan<float>::select(Stream::cpu(), FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32));
  const FakeQuantizeArgs nothing;
  static_cast<void>(plan->run(Stream::cpu(), Workspace::none(), nothing));
  const std::int64_t before = allocations.load();
  EXPECT_FALSE(plan->run(Stream::cpu(), Workspace::none(), nothing));
  EXPECT_EQ(allocations.load() - before, 0);
#else
  GTEST_SKIP() << "the sanitizer owns malloc";
#endif
}

TEST(PlanContract, NothingThrows) {
  using P = FakeQuantizePlan<float>;
  static_assert(noexcept(P::select(std::declval<const Stream&>(), std::declval<const FakeQuantizeDescriptor&>())));
  using Args = const FakeQuantizeArgs&;
  static_assert(
      noexcept(std::declval<const P&>().run(std::declval<const Stream&>(), Workspace::none(), std::declval<Args>())));
  static_assert(noexcept(std::declval<const P&>().can_implement(std::declval<Args>())));
}

// The control register of the processor's floating point, and a value of it that would change bits: flush to zero,
// round towards zero, and on x86 denormals as zero and a sticky flag.
#if defined(__x86_64__)
constexpr unsigned kStrangeEnvironment = 0x1F80 | 0x8040 | 0x6000 | 0x01;
unsigned get_environment() { return _mm_getcsr(); }
void set_environment(unsigned value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
constexpr std::uint64_t kStrangeEnvironment = 1U << 24 | 3U << 22;
std::uint64_t get_environment() {
  std::uint64_t value;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_environment(std::uint64_t value) { __asm__ __volatile__("msr fpcr, %0" : : "r"(value)); }
#endif

/// Runs every kernel with an environment that would change bits if it were used.
void check_environment(const Stream& stream) {
  for (const auto& row : kernel_list()) {
    const PreparedCase plain(row, {300, 400}, stream);
    const PreparedCase odd(row, {300, 400}, stream);
    ASSERT_TRUE(plain.run());
    const auto saved = get_environment();
    set_environment(kStrangeEnvironment);
    const bool ok = odd.run();
    const auto after = get_environment();
    set_environment(saved);
    ASSERT_TRUE(ok);
    ASSERT_EQ(after, kStrangeEnvironment) << "the caller's state changed in " << name_of(row);
    ASSERT_EQ(first_difference(row.element, plain.output(), odd.output()), -1) << name_of(row);
  }
}

TEST(PlanContract, TheCallersFloatingPointStateChangesNoBitAndComesBack) { check_environment(Stream::cpu(1)); }

TEST(PlanContract, WorkersHaveTheirOwnFloatingPointState) {
  // Threads inherit the register from the thread that starts them: these start inside the strange environment.
  ThreadExecutor executor(3);
  check_environment(Stream::cpu(executor));
}

TEST(PlanContract, OnePlanRunsFromEightThreadsAtOnce) {
  const auto plan =
      FakeQuantizePlan<float>::select(Stream::cpu(), FakeQuantizeDescriptor::flat(50000, -128, 127, ElementKind::F32));
  ThreadExecutor executor(2);
  std::vector<std::vector<float>> outputs(8, std::vector<float>(50000));
  std::vector<float> input(50000);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i) * 0.01F;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (auto& output : outputs) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const FakeQuantizeArgs args{view(input, {50000}), 0.05, 3, view(output, {50000})};
        if (!plan->run(Stream::cpu(executor), Workspace::none(), args)) failures.fetch_add(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
  for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]);
}

TEST(PlanContract, DefaultExecutorServesManyCallersAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const PreparedCase prepared(kernel_list().front(), {300, 1000}, Stream::cpu());
      for (int i = 0; i < 5; ++i) failures.fetch_add(prepared.run() ? 0 : 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST(PlanContract, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow a fork of a threaded process";
#else
  const PreparedCase prepared(kernel_list().front(), {1000, 1000}, Stream::cpu());
  ASSERT_TRUE(prepared.run());  // starts the pool, whose workers the child will not have
  const std::vector<std::byte> expected = prepared.output();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a hang is a failure
    const PreparedCase again(kernel_list().front(), {1000, 1000}, Stream::cpu());
    _exit(again.run() && again.output() == expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(prepared.run()) << "the parent's pool must still work";
#endif
}

TEST(PlanContract, PreferencesAreHonouredOrRefused) {
  const auto d = FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32);
  PlanPreference p;
  EXPECT_EQ(FakeQuantizePlan<>::select(Stream::cpu(), d, p)->sku().backend, BackendKind::Cpu);
  p.prefer_backend = BackendKind::Reference;
  EXPECT_EQ(FakeQuantizePlan<>::select(Stream::cpu(), d, p)->sku().backend, BackendKind::Reference);

  BinaryParamDescriptor sums;
  sums.shape = {1000, 300};
  sums.weight_shape = Shape{};
  const auto ask = [&](std::size_t bytes) {
    PlanPreference limit;
    limit.max_workspace_bytes = bytes;
    return BinaryParamBackwardPlan<>::select(Stream::cpu(), sums, limit)->workspace_size();
  };
  EXPECT_EQ(ask(0), 0U);
  EXPECT_EQ(ask(1000), 1000U);
  EXPECT_GT(ask(std::numeric_limits<std::size_t>::max()), 1000U);
  sums.weight_shape.reset();
  EXPECT_EQ(BinaryParamBackwardPlan<>::select(Stream::cpu(), sums)->workspace_size(), 0U);
}

TEST(PlanContract, LittleWorkspaceGivesTheSameBits) {
  // A scalar dw over a long row, split among threads as far as the workspace allows.
  const std::int64_t n = 300000;
  std::vector<float> dy(n);
  std::vector<float> a(n);
  std::vector<float> b(n);
  for (std::int64_t i = 0; i < n; ++i) {
    dy[i] = static_cast<float>(test_value(1, i | 1, 0.01));
    if (!std::isfinite(dy[i]) || std::abs(dy[i]) > 100) dy[i] = 1;
    a[i] = static_cast<float>(i % 97) * 0.25F;
    b[i] = static_cast<float>(i % 89) * 0.5F;
  }
  float weight = 0.5F;
  BinaryParamDescriptor d;
  d.shape = {n};
  d.weight_shape = Shape{1};
  ThreadExecutor executor(5);
  std::set<float> results;
  for (const std::size_t bytes : {0, 7, 40, 200, 1000, 4001, 300000}) {
    PlanPreference limit;
    limit.max_workspace_bytes = bytes;
    const auto plan = BinaryParamBackwardPlan<float>::select(Stream::cpu(), d, limit);
    std::vector<std::byte> memory(plan->workspace_size());
    float dw = -1;
    const TensorRef<float, 1> w{std::span<const float>(&weight, 1), {1}, {1}, 0};
    const TensorMut<float, 1> out{std::span<float>(&dw, 1), {1}, {1}, 0};
    const auto result = plan->run(Stream::cpu(executor), Workspace::of(memory),
                                  {view(dy, {n}), view(a, {n}), view(b, {n}), w, std::nullopt, std::nullopt, out});
    ASSERT_TRUE(result) << result.error().message();
    results.insert(dw);
  }
  EXPECT_EQ(results.size(), 1U);
}

TEST(PlanContract, LittleWorkspaceGivesTheSameGradientsOfParameters) {
  // One scale for a long row: the sums are split among threads as far as the workspace allows.
  const std::int64_t n = 300000;
  std::vector<float> x(n);
  std::vector<float> dy(n);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 997) * 0.3F - 150;
    dy[i] = static_cast<float>(i % 89) * 0.7F - 31;
  }
  auto d = FakeQuantizeDescriptor::flat(n, -128, 127, ElementKind::F32);
  d.learnable = true;
  ThreadExecutor executor(5);
  std::set<std::pair<float, float>> results;
  for (const std::size_t bytes : {0, 7, 40, 1000, 4001, 300000}) {
    PlanPreference limit;
    limit.max_workspace_bytes = bytes;
    const auto plan = FakeQuantizeBackwardPlan<float>::select(Stream::cpu(), d, limit);
    EXPECT_LE(plan->workspace_size(), bytes);
    std::vector<std::byte> memory(plan->workspace_size());
    float d_scale = -1;
    float d_zero_point = -1;
    FakeQuantizeBackwardArgs args{view(x, {n}), 0.7, 3, view(dy, {n})};
    args.d_scale = TensorMut<float, 0>{std::span<float>(&d_scale, 1), {}, {}, 0};
    args.d_zero_point = TensorMut<float, 0>{std::span<float>(&d_zero_point, 1), {}, {}, 0};
    const auto result = plan->run(Stream::cpu(executor), Workspace::of(memory), args);
    ASSERT_TRUE(result) << result.error().message();
    results.insert({d_scale, d_zero_point});
  }
  EXPECT_EQ(results.size(), 1U);
}

TEST(PlanContract, TheEnvironmentForcesAnInstructionSet) {
  const auto d = FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32);
  const char* old = std::getenv("PLANCK_ISA");
  const std::string saved = old == nullptr ? "" : old;
  int forced = 0;
  for (const ArchSku arch : cpu::known_archs()) {
    setenv("PLANCK_ISA", std::string(to_string(arch)).c_str(), 1);
    const auto plan = FakeQuantizePlan<>::select(Stream::cpu(), d);
    ASSERT_EQ(plan.has_value(), cpu::supported(arch)) << to_string(arch);
    if (plan) {
      EXPECT_EQ(plan->sku().arch, arch);
      ++forced;
    } else {
      EXPECT_EQ(plan.error().kind(), ErrorKind::Unsupported);
    }
  }
  setenv("PLANCK_ISA", saved.c_str(), 1);  // empty is as good as absent
  EXPECT_GE(forced, plainest_arch() == ArchSku::Scalar ? 2 : 1);
}

TEST(PlanContract, SkusNameTheKernelAndDifferForwardAndBackward) {
  std::set<std::string> names;
  PlanPreference p;
  p.prefer_arch = plainest_arch();
  const auto fake = FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::Bf16);
  const auto codes = DequantizeDescriptor::flat(8, ElementKind::U8, ElementKind::F16);
  BinaryParamDescriptor lerp;
  lerp.shape = {8};
  names.insert(to_string(FakeQuantizePlan<>::select(Stream::cpu(), fake, p)->sku()));
  names.insert(to_string(FakeQuantizeBackwardPlan<>::select(Stream::cpu(), fake, p)->sku()));
  names.insert(to_string(DequantizePerTensorPlan<>::select(Stream::cpu(), codes, p)->sku()));
  names.insert(to_string(DequantizePerTensorBackwardPlan<>::select(Stream::cpu(), codes, p)->sku()));
  QuantizeDescriptor groups;
  groups.shape = {8, 8};
  groups.scope = PerGroup{1, 4};
  names.insert(to_string(QuantizePlan<>::select(Stream::cpu(), groups, p)->sku()));
  names.insert(to_string(QuantizeBackwardPlan<>::select(Stream::cpu(), groups, p)->sku()));
  names.insert(to_string(BinaryParamPlan<>::select(Stream::cpu(), lerp, p)->sku()));
  names.insert(to_string(BinaryParamBackwardPlan<>::select(Stream::cpu(), lerp, p)->sku()));
  const std::string cpu = " cpu/" + std::string(to_string(plainest_arch()));
  EXPECT_EQ(names, (std::set<std::string>{
                       "Quantization.PerGroup f32/s8" + cpu, "Quantization.PerGroupBackward f32/s8" + cpu,
                       "Quantization.FakeQuantize bf16" + cpu, "Quantization.FakeQuantizeBackward bf16" + cpu,
                       "Quantization.DequantizePerTensor f16/u8" + cpu,
                       "Quantization.DequantizePerTensorBackward f16/u8" + cpu, "BinaryElementwise.Lerp f32" + cpu,
                       "BinaryElementwise.LerpBackward f32" + cpu}));
}

TEST(PlanContract, GuaranteesSayWhatIsSummedInWhat) {
  BinaryParamDescriptor d;
  d.shape = {8};
  EXPECT_EQ(BinaryParamPlan<>::select(Stream::cpu(), d)->precision_guarantee().accumulator, ElementKind::F32);
  d.weight_shape = Shape{};
  EXPECT_EQ(BinaryParamBackwardPlan<>::select(Stream::cpu(), d)->precision_guarantee().accumulator, ElementKind::F64);
  auto fake = FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32);
  EXPECT_EQ(FakeQuantizeBackwardPlan<>::select(Stream::cpu(), fake)->precision_guarantee().accumulator,
            ElementKind::F32);
  fake.learnable = true;
  EXPECT_EQ(FakeQuantizeBackwardPlan<>::select(Stream::cpu(), fake)->precision_guarantee().accumulator,
            ElementKind::F64);
  EXPECT_EQ(FakeQuantizePlan<>::select(Stream::cpu(), fake)->precision_guarantee().accumulator, ElementKind::F32);
  d.element = ElementKind::F64;
  EXPECT_EQ(BinaryParamPlan<>::select(Stream::cpu(), d)->precision_guarantee().math_precision, MathPrecision::F64);
}

TEST(PlanContract, VerboseTellsTheKernelAndTheReason) {
  testing::internal::CaptureStderr();
  setenv("PLANCK_VERBOSE", "1", 1);
  PlanPreference p;
  p.prefer_arch = plainest_arch();
  ASSERT_TRUE(FakeQuantizePlan<>::select(Stream::cpu(), FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32), p));
  setenv("PLANCK_VERBOSE", "0", 1);
  ASSERT_TRUE(FakeQuantizePlan<>::select(Stream::cpu(), FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F64), p));
  const std::string printed = testing::internal::GetCapturedStderr();
  const std::string chosen = "planck: FakeQuantizePlan f32 -> cpu/" + std::string(to_string(plainest_arch()));
  EXPECT_NE(printed.find(chosen + " (prefer_arch; "), std::string::npos) << printed;
  EXPECT_EQ(printed.find("f64"), std::string::npos) << printed;
}

TEST(Stream, ThreadsAreLimitedByStreamAndExecutor) {
  ThreadExecutor executor(5);
  EXPECT_EQ(Stream::cpu(executor).threads(), 5);
  EXPECT_EQ(Stream::cpu(executor, 2).threads(), 2);
  EXPECT_EQ(Stream::cpu(executor, 9).threads(), 5);
  EXPECT_GE(Stream::cpu().threads(), 1);
}

}  // namespace
}  // namespace planck::test
