// No kernel reads or writes beside its operands: every tensor ends, or begins, at a page that nobody may touch. Every
// row of the kernel list, on every instruction set that this machine has, with and without non-temporal stores.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "testing/op_cases.hpp"
#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

/// What runs, for the last words of a program that touched a guarded page.
std::string running;

void say_and_exit(int) {
  constexpr std::string_view kWhat = "touched memory beside an operand: ";
  static_cast<void>(!write(STDERR_FILENO, kWhat.data(), kWhat.size()));
  static_cast<void>(!write(STDERR_FILENO, running.data(), running.size()));
  static_cast<void>(!write(STDERR_FILENO, "\n", 1));
  _exit(1);
}

/// Pages between two that nobody may touch.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t bytes) : bytes_(bytes), size_((bytes + kPage - 1) / kPage * kPage) {
    void* const all = mmap(nullptr, size_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) std::abort();
    begin_ = static_cast<std::byte*>(all) + kPage;
    if (size_ > 0 && mprotect(begin_, size_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  GuardedPages(GuardedPages&& other) noexcept : bytes_(other.bytes_), size_(other.size_), begin_(other.begin_) {
    other.begin_ = nullptr;
  }
  GuardedPages& operator=(GuardedPages&&) = delete;
  ~GuardedPages() {
    if (begin_ != nullptr) munmap(begin_ - kPage, size_ + 2 * kPage);
  }
  /// So many bytes, which the guarded page before or behind follows.
  std::byte* place(std::size_t bytes, bool behind) const { return behind ? begin_ + size_ - bytes : begin_; }
  std::size_t bytes() const { return bytes_; }

 private:
  inline static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t bytes_;
  std::size_t size_;
  std::byte* begin_;
};

/// Where operands lie: before or behind a guarded page, and the inputs whole or one row that stands for all.
struct Placing {
  bool behind;
  bool repeated;
};
constexpr Placing kPlacings[] = {{true, false}, {false, false}, {true, true}, {false, true}};

class Guarded {
 public:
  explicit Guarded(const OpCase& op_case) : case_(op_case) {
    for (const TensorSpec& spec : op_case.tensors) {
      tensors_.emplace_back(spec.element, spec.shape, Layout::Contiguous);
      if (!spec.output) fill(tensors_.back(), spec, tensors_.size(), op_case.unit);
      packed_.push_back(tensors_.back().packed());
      pages_.emplace_back(packed_.back().size());
    }
  }
  Tensors views(const Placing& placing) const {
    Tensors views;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const TensorSpec& spec = case_.tensors[i];
      AnyTensorMut view = tensors_[i];
      std::size_t bytes = packed_[i].size();
      if (placing.repeated && !spec.output && spec.shape.rank() == 2 && spec.shape == case_.tensors[0].shape) {
        bytes /= static_cast<std::size_t>(spec.shape[0]);
        view.stride[0] = 0;
        view.capacity = spec.shape[1];
      }
      std::byte* const data = pages_[i].place(bytes, placing.behind);
      if (bytes > 0) std::memcpy(data, packed_[i].data(), bytes);
      view.data = data;
      views.push_back(view);
    }
    return views;
  }

 private:
  const OpCase& case_;
  std::vector<TestTensor> tensors_;
  std::vector<std::vector<std::byte>> packed_;
  std::vector<GuardedPages> pages_;
};

class Borders : public testing::TestWithParam<cpu::KernelRow> {
 protected:
  static void check(const Shape& shape, Broadcast broadcast) {
    static ThreadExecutor plain(1);
    static ThreadExecutor streaming(1, 0);
    check(shape, broadcast, plain, streaming);
  }
  static void check(const Shape& shape, Broadcast broadcast, ThreadExecutor& plain, ThreadExecutor& streaming) {
    const OpCase op_case = make_case(GetParam(), shape, broadcast);
    const Guarded guarded(op_case);
    const bool scan = GetParam().category == OpCategory::Scan;
    for (const ArchSku arch : archs_here()) {
      for (ThreadExecutor* const executor : {&plain, &streaming}) {
        PlanPreference preference;
        preference.prefer_arch = arch;
        const auto plan = op_case.select(Stream::cpu(*executor), preference);
        ASSERT_TRUE(plan) << plan.error().message();
        for (const Placing& placing : kPlacings) {
          if (placing.repeated && !(scan && shape.rank() == 2)) continue;
          running = name_of(GetParam()) + " of " + std::to_string(shape[0]) + " x " +
                    std::to_string(shape[shape.rank() - 1]) + ", way " + std::to_string(static_cast<int>(broadcast)) +
                    ", " + std::string(to_string(arch)) + (executor == &streaming ? ", streamed" : "") +
                    (placing.repeated ? ", one row for all" : "") + (placing.behind ? ", behind" : ", before");
          const Result<void> result = (*plan)(guarded.views(placing));
          ASSERT_TRUE(result) << running << ": " << result.error().message();
        }
      }
    }
  }
};

TEST_P(Borders, AreKept) {
  // Less than a register, than a block of 64 and than the lanes of registers have, and a little more; and rows of whole
  // cache lines that fill all lanes, but not their blocks.
  for (const Shape& shape : {Shape{1, 5}, Shape{1, 63}, Shape{3, 33}, Shape{2, 64}, Shape{5, 200}, Shape{3, 517},
                             Shape{8, 32}, Shape{8, 48}}) {
    for (const Broadcast broadcast : broadcasts_for(GetParam(), shape)) check(shape, broadcast);
  }
}

TEST_P(Borders, AreKeptWhereThreadsShareARow) {
  if (GetParam().category != OpCategory::Scan) return;  // others have no rows to share
  static ThreadExecutor plain(3);
  static ThreadExecutor streaming(3, 0);
  // A little more than two segments of a row, and enough of them for three threads.
  for (const Shape& shape : {Shape{1, 8257}, Shape{1, 40003}}) check(shape, Broadcast::None, plain, streaming);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Borders, testing::ValuesIn(kernel_list()),
                         [](const auto& row) { return name_of(row.param); });

/// The pages are what they seem.
TEST(GuardedPages, NobodyMayTouchWhatIsBesideThem) {
  const GuardedPages pages(12);
  volatile const std::byte* const end = pages.place(pages.bytes(), true) + pages.bytes();
  volatile const std::byte* const begin = pages.place(pages.bytes(), false);
  EXPECT_TRUE(end[-1] == std::byte{0});
  EXPECT_EXIT(static_cast<void>(*end), testing::ExitedWithCode(1), "touched memory beside an operand: ");
  EXPECT_EXIT(static_cast<void>(begin[-1]), testing::ExitedWithCode(1), "touched memory beside an operand: ");
}

}  // namespace
}  // namespace planck::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  struct sigaction action {};
  action.sa_handler = planck::test::say_and_exit;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  return RUN_ALL_TESTS();
}
