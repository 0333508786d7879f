// planck bench: this machine's speed for the main kernels, beside a copy of the same bytes by the same threads.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include "checkpoint/file.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/workers.hpp"
#include "commands/commands.hpp"
#include "planck/planck.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

constexpr int kRounds = 7;

template <class T>
T must(Result<T> result) {
  if (!result) throw Failure(ExitCode::Refused, result.error().c_str());
  if constexpr (!std::is_void_v<T>) return *result;
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A kernel to measure: what it is, the bytes it must read and write, and one run.
struct Case {
  std::string title;
  KernelSku sku;
  std::int64_t bytes = 0;
  std::function<void()> run;
};

class Bench {
 public:
  Bench(std::int64_t mebibytes, int threads)
      : stream_(Stream::cpu(threads)),
        workers_(threads),
        rows_(mebibytes * 64),
        x_(static_cast<std::size_t>(rows_ * kColumns)),
        y_(x_.size()),
        halves_(x_.size()),
        codes_(x_.size()),
        scales_(static_cast<std::size_t>(rows_)),
        from_(x_.size() * 6, 1),
        to_(x_.size() * 6, 2) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = i < 65536 ? normal(random) : x_[i - 65536];
    for (std::size_t i = 0; i < x_.size(); ++i) halves_[i] = bf16(x_[i]);
    add_cases();
  }

  const std::vector<Case>& cases() const noexcept { return cases_; }
  int threads() const noexcept { return stream_.threads(); }

  /// Half of the bytes read, half written.
  void copy(std::int64_t bytes) {
    const std::int64_t half = std::min<std::int64_t>(bytes / 2, static_cast<std::int64_t>(to_.size()));
    constexpr std::int64_t kPiece = 1 << 20;
    workers_.for_each((half + kPiece - 1) / kPiece, [&](int, std::int64_t p) {
      std::memcpy(to_.data() + p * kPiece, from_.data() + p * kPiece,
                  static_cast<std::size_t>(std::min(kPiece, half - p * kPiece)));
    });
  }

 private:
  static constexpr std::int64_t kColumns = 4096;

  template <class T>
  auto matrix(std::vector<T>& elements) const {
    return view(elements, {rows_, kColumns});
  }

  template <class PlanType>
  void add(const char* title, std::int64_t bytes, const typename PlanType::Descriptor& what,
           const typename PlanType::Args& args) {
    const PlanType plan = must(PlanType::select(stream_, what));
    if (workspace_.size() < plan.workspace_size()) workspace_.resize(plan.workspace_size());
    cases_.push_back(
        {title, plan.sku(), bytes, [this, plan, args] { must(plan.run(stream_, Workspace::of(workspace_), args)); }});
  }

  void add_cases() {
    const std::int64_t n = rows_ * kColumns;
    const Shape shape{rows_, kColumns};
    DynamicRangeQuantizeDescriptor range;
    range.shape = shape;
    DynamicRangeQuantizeArgs range_args;
    range_args.input = matrix(x_);
    range_args.scale_out = view(scales_, {rows_});
    range_args.output = matrix(codes_);
    add<DynamicRangeQuantizePlan<>>("quantize, ranges found, f32", n * 5, range, range_args);
    DynamicRangeQuantizeDescriptor half_range = range;
    half_range.input_element = ElementKind::Bf16;
    DynamicRangeQuantizeArgs half_args = range_args;
    half_args.input = matrix(halves_);
    add<DynamicRangeQuantizePlan<>>("quantize, ranges found, bf16", n * 3, half_range, half_args);
    QuantizeDescriptor quantize;
    quantize.shape = shape;
    add<QuantizePlan<>>("quantize, scale given, f32", n * 5, quantize, {matrix(x_), 0.001, 0, matrix(codes_)});
    DequantizeDescriptor dequantize;
    dequantize.shape = shape;
    add<DequantizePlan<>>("dequantize, f32", n * 5, dequantize, {matrix(codes_), 0.001, 0, matrix(y_)});
    FakeQuantizeDescriptor fake;
    fake.shape = shape;
    add<FakeQuantizePlan<>>("fake-quantize, f32", n * 8, fake, {matrix(x_), 0.001, 0, matrix(y_)});
    ScanDescriptor scan;
    scan.input_shape = shape;
    scan.scan_axis = 1;
    ScanArgs scan_args;
    scan_args.x = matrix(x_);
    scan_args.y = matrix(y_);
    add<ScanPlan<>>("cumsum along rows, f32", n * 8, scan, scan_args);
    BinaryParamDescriptor lerp;
    lerp.shape = shape;
    lerp.param = 0.25;
    add<BinaryParamPlan<>>("lerp, f32", n * 12, lerp, {matrix(x_), matrix(y_), std::nullopt, matrix(y_)});
  }

  Stream stream_;
  Workers workers_;
  std::int64_t rows_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<bf16> halves_;
  std::vector<std::int8_t> codes_;
  std::vector<float> scales_;
  std::vector<char> from_;
  std::vector<char> to_;
  std::vector<std::byte> workspace_;
  std::vector<Case> cases_;
};

}  // namespace

void bench_command(const BenchOptions& options) {
  Bench bench(options.mebibytes, options.threads);
  using Align = Table::Align;
  Table table({{"kernel"},
               {"sku"},
               {"ms", Align::Right},
               {"GB/s", Align::Right},
               {"copy GB/s", Align::Right},
               {"time ÷ copy", Align::Right}});
  JsonArray rows;
  for (const Case& each : bench.cases()) {
    // Interleaved, best of several: both see the same machine.
    double best = 1e9;
    double copy = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      throw_if_stopped();
      best = std::min(best, seconds_of(each.run));
      copy = std::min(copy, seconds_of([&] { bench.copy(each.bytes); }));
    }
    const double gigabytes = static_cast<double>(each.bytes) * 1e-9;
    if (options.json) {
      rows.raw(JsonObject()
                   .add("kernel", each.title)
                   .add("sku", to_string(each.sku))
                   .add("seconds", best)
                   .add("bytes", each.bytes)
                   .add("copy_seconds", copy)
                   .str());
    } else {
      table.add({each.title, to_string(each.sku), number_text(best * 1e3, 3), number_text(gigabytes / best, 3),
                 number_text(gigabytes / copy, 3), number_text(best / copy, 3)});
    }
  }
  if (options.json) {
    std::printf("%s\n", JsonObject()
                            .add("command", "bench")
                            .add("version", version_text())
                            .add("threads", bench.threads())
                            .raw("kernels", rows.str())
                            .str()
                            .c_str());
  } else {
    std::printf("%s\n%lld MiB of f32, %d threads, best of %d; bytes are those read and written\n", table.str().c_str(),
                static_cast<long long>(options.mebibytes), bench.threads(), kRounds);
  }
}

}  // namespace planck::cli
