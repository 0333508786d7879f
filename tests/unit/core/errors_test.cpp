// Every error text of the library, provoked through the public API; none may be left without a way to get it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <regex>
#include <vector>

#include "backend/backend.hpp"
#include "core/error_texts.hpp"
#include "planck/planck.h"
#include "planck/planck.hpp"
#include "quantize/job.hpp"

namespace planck {
namespace {

using core::Text;

const Stream kCpu = Stream::cpu();

/// What a failing call left: from C++ or from the C ABI.
struct Outcome {
  int kind;
  std::string message;
};

template <class T>
Outcome outcome(const Result<T>& result) {
  if (result) return {0, "no error"};
  return {static_cast<int>(result.error().kind()), std::string(result.error().message())};
}

struct Floats {
  std::vector<float> memory;
  explicit Floats(std::size_t n = 64) : memory(n, 1.0F) {}
  AnyTensorMut view(std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> stride,
                    std::int64_t offset = 0) {
    AnyTensorMut t{memory.data(), static_cast<std::int64_t>(memory.size()), offset, ElementKind::F32, Shape(shape), {}};
    std::copy(stride.begin(), stride.end(), t.stride.begin());
    return t;
  }
};

FakeQuantizeDescriptor fake(Shape shape = {8}) {
  FakeQuantizeDescriptor d;
  d.shape = shape;
  return d;
}

Outcome select_fake(const std::function<void(FakeQuantizeDescriptor&)>& change, const PlanPreference& p = {},
                    const Stream& stream = kCpu) {
  FakeQuantizeDescriptor d = fake();
  change(d);
  return outcome(FakeQuantizePlan<>::select(stream, d, p));
}

/// A device library without kernels, loaded for one call: an sm80, or one that fails to be found.
const Stream kCuda = Stream::cuda(nullptr);
std::optional<Text> device_failure;

Outcome on_device(const std::function<Outcome()>& call, std::optional<Text> failure = std::nullopt) {
  static constexpr auto kProbe = [](backend::Selection& selection) noexcept -> core::Status {
    const std::string_view plan = selection.request.plan;
    selection.choice.arch = ArchSku::Sm80;
    if (device_failure == Text::DeviceTooOld) return core::fail(*device_failure, {plan, 7});
    if (device_failure) return core::fail(*device_failure, {plan, "a call", 35, "a name"}, 0, 0, 35);
    return {};
  };
  static constexpr auto kPrepareSums = [](const quantize::QuantizeJob& job, backend::Selection& selection) noexcept {
    selection.want_workspace(static_cast<std::size_t>(32 * job.sums.count));
    return core::Status();
  };
  static constexpr auto kPrepare = [](const quantize::DynamicRangeJob&, backend::Selection&) noexcept {
    return core::Status();
  };
  static constexpr backend::Backend kBackend{BackendKind::Bespoke,    Device::Cuda,        false, true, kProbe,
                                             {kPrepareSums, nullptr}, {kPrepare, nullptr}, {},    {}};
  device_failure = failure;
  backend::register_cuda(&kBackend);
  const Outcome result = call();
  backend::register_cuda(nullptr);
  return result;
}

Outcome select_fake_backward(const PlanPreference& p) {
  FakeQuantizeDescriptor d = fake();
  d.learnable = true;
  return outcome(FakeQuantizeBackwardPlan<>::select(kCuda, d, p));
}

Outcome select_granularity(const Granularity& granularity, const Shape& shape = {2, 4}) {
  return select_fake([&](auto& d) {
    d.shape = shape;
    d.scope = granularity;
  });
}

Outcome select_dynamic(const std::function<void(DynamicRangeQuantizeDescriptor&)>& change) {
  DynamicRangeQuantizeDescriptor d;
  d.shape = {2, 4};
  change(d);
  return outcome(DynamicRangeQuantizePlan<>::select(kCpu, d));
}

Outcome select_float_codes(const std::function<void(QuantizeDescriptor&)>& change) {
  auto d = QuantizeDescriptor::flat(8, -448, 448, ElementKind::F32, ElementKind::F8E4M3);
  change(d);
  return outcome(QuantizePlan<>::select(kCpu, d));
}

/// With a number or a tensor, trusted or not; nothing may be written.
Outcome run_float_codes(const ZeroPointArg& zero_point, bool trusted = false) {
  DequantizeDescriptor d{{8}, ElementKind::F8E5M2};
  d.trust_qparams = trusted;
  const auto plan = DequantizePlan<>::select(kCpu, d);
  std::vector<f8e5m2> q(8);
  Floats x;
  const std::vector<float> before = x.memory;
  const Outcome result = outcome(plan->run(kCpu, Workspace::none(), {view(q, {8}), 1.0, zero_point, x.view({8}, {1})}));
  EXPECT_EQ(x.memory, before) << "a failing run wrote to its output";
  return result;
}

/// Per channel, on 2 × 4 elements, with these scales and zero points; nothing may be written.
Outcome run_channels(std::vector<float> scales, std::vector<std::int32_t> zero_points) {
  const auto plan = FakeQuantizePerChannelPlan<>::select(
      kCpu, FakeQuantizeDescriptor::channels({2, 4}, 1, -128, 127, ElementKind::F32));
  Floats x;
  Floats y;
  const std::vector<float> before = y.memory;
  const Outcome result =
      outcome(plan->run(kCpu, Workspace::none(),
                        {x.view({2, 4}, {4, 1}), view(scales, {4}), view(zero_points, {4}), y.view({2, 4}, {4, 1})}));
  EXPECT_EQ(y.memory, before) << "a failing run wrote to its output";
  return result;
}

Outcome run_fake(const Shape& shape, const std::function<void(FakeQuantizeArgs&)>& change,
                 Workspace workspace = Workspace::none(), const Stream& stream = kCpu) {
  const auto plan = FakeQuantizePlan<>::select(kCpu, fake(shape));
  Floats x;
  Floats y;
  const std::vector<float> before = y.memory;
  FakeQuantizeArgs args{x.view({8}, {1}), 0.1, 0, y.view({8}, {1})};
  change(args);
  const Outcome result = outcome(plan->run(stream, workspace, args));
  EXPECT_EQ(y.memory, before) << "a failing run wrote to its output";
  return result;
}

constexpr std::int64_t kRows = 4000;  // enough that a sum over them asks for a workspace

BinaryParamDescriptor lerp() {
  BinaryParamDescriptor d;
  d.shape = {kRows, 8};
  d.weight_shape = Shape{1, 8};
  return d;
}

Outcome run_lerp_backward(const std::function<void(BinaryParamBackwardArgs&)>& change, std::size_t missing_bytes = 0) {
  const auto plan = BinaryParamBackwardPlan<>::select(kCpu, lerp());
  std::vector<Floats> t(7, Floats(kRows * 8));
  BinaryParamBackwardArgs args{t[0].view({kRows, 8}, {8, 1}), t[1].view({kRows, 8}, {8, 1}),
                               t[2].view({kRows, 8}, {8, 1}), t[3].view({1, 8}, {8, 1}),
                               t[4].view({kRows, 8}, {8, 1}), t[5].view({kRows, 8}, {8, 1}),
                               t[6].view({1, 8}, {8, 1})};
  change(args);
  std::vector<std::byte> workspace(plan->workspace_size() - missing_bytes);
  return outcome(plan->run(kCpu, Workspace::of(workspace), args));
}

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) saved_ = old;
    setenv(name, value, 1);
  }
  ~EnvironmentVariable() {
    if (saved_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, saved_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string saved_;
};

Outcome select_with_isa(const char* isa) {
  const EnvironmentVariable isa_variable("PLANCK_ISA", isa);
  return select_fake([](auto&) {});
}

Outcome select_with_arch(ArchSku arch) {
  PlanPreference p;
  p.prefer_arch = arch;
  return select_fake([](auto&) {}, p);
}

template <class Change>
Outcome select_scan(const Change& change) {
  ScanDescriptor d;
  d.input_shape = {8};
  change(d);
  return outcome(ScanPlan<>::select(kCpu, d));
}

/// A piece of an axis with carries full of zeros, which no scan makes.
template <class Change>
Outcome run_piece(std::int64_t length, const Change& change) {
  ScanDescriptor d;
  d.kind = ScanKind::Cummax;
  d.input_shape = {length};
  std::vector<float> x(static_cast<std::size_t>(length));
  std::vector<float> y(x.size());
  std::vector<std::int64_t> at(x.size());
  std::vector<std::int64_t> in(kScanCarryWords);
  std::vector<std::int64_t> out(kScanCarryWords);
  ScanArgs args{view(x, {length}), view(y, {length}), {}, view(in, {kScanCarryWords}), view(out, {kScanCarryWords})};
  change(d);
  if (d.index_element) args.indices = view(at, {length});
  return outcome(ScanPlan<>::select(kCpu, d)->run(kCpu, Workspace::none(), args));
}

/// A way to get each text.
const std::map<Text, std::function<Outcome()>>& provocations() {
  static std::vector<std::byte> scratch(1024);
  static const std::map<Text, std::function<Outcome()>> kAll = {
      {Text::TypeParameterDiffers, [] { return outcome(FakeQuantizePlan<double>::select(kCpu, fake())); }},
      {Text::ElementUnsupported, [] { return select_fake([](auto& d) { d.input_element = ElementKind::S32; }); }},
      {Text::GranularityDiffers, [] { return outcome(FakeQuantizePerTokenPlan<>::select(kCpu, fake())); }},
      {Text::KindUnsupported,
       [] {
         BinaryParamDescriptor d = lerp();
         d.kind = static_cast<BinaryKind>(7);
         return outcome(BinaryParamPlan<>::select(kCpu, d));
       }},
      {Text::ExclusiveUnsupported,
       [] {
         return select_scan([](auto& d) {
           d.kind = ScanKind::Cummax;
           d.exclusive = true;
         });
       }},
      {Text::CarryUnsupported,
       [] {
         return run_piece(8, [](auto& d) {
           d.reverse = true;
           d.index_element = ElementKind::S64;
         });
       }},
      {Text::RankUnsupported, [] { return select_fake([](auto& d) { d.shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}; }); }},
      {Text::DeviceUnsupported, [] { return select_fake([](auto&) {}, {}, Stream::cuda(nullptr)); }},
      {Text::BackendUnsupported,
       [] {
         PlanPreference p;
         p.prefer_backend = BackendKind::Bespoke;
         return select_fake([](auto&) {}, p);
       }},
      {Text::IsaUnknown, [] { return select_with_isa("avx9000"); }},
      {Text::IsaUnsupported, [] { return select_with_arch(ArchSku::Sm80); }},
      {Text::ReferenceIsScalar,
       [] {
         PlanPreference p;
         p.prefer_backend = BackendKind::Reference;
         p.prefer_arch = ArchSku::Avx2;
         return select_fake([](auto&) {}, p);
       }},
      {Text::DeviceArchUnsupported,
       [] {
         PlanPreference p;
         p.prefer_arch = ArchSku::Sm90;
         return on_device([&] { return select_fake([](auto&) {}, p, kCuda); });
       }},
      {Text::DeviceTooOld,
       [] { return on_device([] { return select_fake([](auto&) {}, {}, kCuda); }, Text::DeviceTooOld); }},
      {Text::WorkspaceLimit,
       [] {
         PlanPreference p;
         p.max_workspace_bytes = 63;
         return on_device([&] { return select_fake_backward(p); });
       }},
      {Text::NonFiniteOnDevice,
       [] {
         return on_device([] {
           DynamicRangeQuantizeDescriptor d;
           d.shape = {2, 4};
           d.nonfinite = NonFinite::Error;
           return outcome(DynamicRangeQuantizePlan<>::select(kCuda, d));
         });
       }},
      {Text::DeviceFailed,
       [] { return on_device([] { return select_fake([](auto&) {}, {}, kCuda); }, Text::DeviceFailed); }},
      {Text::NegativeExtent, [] { return select_fake([](auto& d) {
                                    d.shape = {4, -1};
                                  }); }},
      {Text::SizeOverflow,
       [] { return select_fake([](auto& d) {
              d.shape = {std::int64_t{1} << 31, std::int64_t{1} << 31};
            }); }},
      {Text::NotBroadcastable,
       [] {
         BinaryParamDescriptor d = lerp();
         d.weight_shape = Shape{3, 8};
         return outcome(BinaryParamPlan<>::select(kCpu, d));
       }},
      {Text::GranularityUnknown,
       [] {
         planck_fake_quantize_descriptor d{};
         d.scope.kind = 4;
         std::size_t bytes = 0;
         const planck_status status = planck_fake_quantize_workspace_size(&d, nullptr, &bytes);
         return Outcome{status, planck_last_error_message()};
       }},
      {Text::AxisOutOfRange, [] { return select_granularity(PerChannel{-3}); }},
      {Text::TokenWithoutAxis, [] { return select_granularity(PerToken{}, {}); }},
      {Text::GroupSizeTooSmall,
       [] {
         return select_granularity(PerGroup{-1, 0});
       }},
      {Text::CodeRangeEmpty, [] { return select_fake([](auto& d) { d.q_min = 128; }); }},
      {Text::CodeRangeTooWide, [] { return select_fake([](auto& d) { d.q_max = (1 << 20) + 1; }); }},
      {Text::CodeRangeRounds, [] { return select_float_codes([](auto& d) { d.q_max = 447; }); }},
      {Text::SaturateUnsupported,
       [] {
         return select_float_codes([](auto& d) {
           d.output_element = ElementKind::S8;
           d.q_min = d.q_max = 0;
           d.saturate = false;
         });
       }},
      {Text::SaturateRange,
       [] {
         return select_float_codes([](auto& d) {
           d.q_max = 240;
           d.saturate = false;
         });
       }},
      {Text::ScaleFormUnknown, [] { return select_fake([](auto& d) { d.scale_form = static_cast<ScaleForm>(2); }); }},
      {Text::ModeUnknown, [] { return select_dynamic([](auto& d) { d.mode = static_cast<DynamicRangeMode>(2); }); }},
      {Text::NonFiniteUnknown, [] { return select_dynamic([](auto& d) { d.nonfinite = static_cast<NonFinite>(2); }); }},
      {Text::SymmetricRange, [] { return select_dynamic([](auto& d) { d.q_max = 0; }); }},
      {Text::AsymmetricRange,
       [] {
         return select_dynamic([](auto& d) {
           d.mode = DynamicRangeMode::Asymmetric;
           d.q_min = d.q_max;
         });
       }},
      {Text::AsymmetricCodes,
       [] {
         return select_dynamic([](auto& d) {
           d.mode = DynamicRangeMode::Asymmetric;
           d.q_min = 0;
           d.q_max = 448;
           d.output_element = ElementKind::F8E4M3;
         });
       }},
      {Text::RowSumTooLong,
       [] {
         DynamicRangeQuantizeDescriptor d;
         d.shape = {1, std::int64_t{1} << 24};
         d.q_min = -128;
         Floats x;
         const AnyTensorMut any = x.view({1}, {1});
         return outcome(DynamicRangeQuantizePlan<>::select(kCpu, d)->can_implement({any, any, any, {}, any}));
       }},
      {Text::TiesUnknown, [] { return select_scan([](auto& d) { d.ties = static_cast<ScanTies>(2); }); }},
      {Text::IndicesTooLong,
       [] {
         return select_scan([](auto& d) {
           d.kind = ScanKind::Cummin;
           d.input_shape = {(std::int64_t{1} << 31) + 1};
           d.index_element = ElementKind::S32;
         });
       }},
      {Text::OffsetsTooLong,
       [] {
         return select_scan([](auto& d) {
           d.input_shape = {std::int64_t{1} << 31};
           d.offset_element = ElementKind::S32;
           d.segments = 1;
         });
       }},
      {Text::TooFewSegments, [] { return select_scan([](auto& d) { d.offset_element = ElementKind::S64; }); }},
      {Text::PieceLength, [] { return run_piece(4095, [](auto&) {}); }},
      {Text::ElementDiffers, [] { return run_fake({8}, [](auto& a) { a.input.element = ElementKind::F16; }); }},
      {Text::ShapeDiffers,
       [] {
         return run_fake({2, 4}, [](auto&) {});
       }},
      {Text::StrideCountDiffers,
       [] {
         return run_fake({8}, [](auto& a) {
           a.input = AnyTensorRef::strided(a.input.data, ElementKind::F32, {8}, {1, 1});
         });
       }},
      {Text::NullData, [] { return run_fake({8}, [](auto& a) { a.output.data = nullptr; }); }},
      {Text::SpanOverflow, [] { return run_fake({8}, [](auto& a) { a.input.stride[0] = std::int64_t{1} << 61; }); }},
      {Text::NotInjective, [] { return run_fake({8}, [](auto& a) { a.output.stride[0] = 0; }); }},
      {Text::Overlap,
       [] {
         return run_fake({8}, [](auto& a) {
           a.input.data = a.output.data;
           a.input.offset = 1;
         });
       }},
      {Text::SummedOverlap, [] { return run_lerp_backward([](auto& a) { a.weight->data = a.d_weight->data; }); }},
      {Text::ArgumentMissing, [] { return run_lerp_backward([](auto& a) { a.a.reset(); }); }},
      {Text::ArgumentUnexpected,
       [] {
         BinaryParamDescriptor d = lerp();
         d.weight_shape.reset();
         std::vector<Floats> t(3, Floats(kRows * 8));
         return outcome(
             BinaryParamPlan<>::select(kCpu, d)->run(kCpu, Workspace::none(),
                                                     {t[0].view({kRows, 8}, {8, 1}), t[1].view({kRows, 8}, {8, 1}),
                                                      t[2].view({1, 8}, {8, 1}), t[2].view({kRows, 8}, {8, 1})}));
       }},
      {Text::NoOutput,
       [] {
         return run_lerp_backward([](auto& a) {
           a.da.reset();
           a.db.reset();
           a.d_weight.reset();
         });
       }},
      {Text::BadScale, [] { return run_fake({8}, [](auto& a) { a.scale = 1e-39; }); }},
      {Text::BadZeroPoint, [] { return run_fake({8}, [](auto& a) { a.zero_point = (1 << 20) + 1; }); }},
      {Text::NoZeroPoint, [] { return run_float_codes(1); }},
      {Text::BadScaleAt,
       [] {
         return run_channels({1.0F, 1.0F, 0.0F, -1.0F}, {0, 0, 0, 0});
       }},
      {Text::BadZeroPointAt,
       [] {
         return run_channels({1.0F, 1.0F, 1.0F, 1.0F}, {0, -(1 << 20) - 1, 0, 0});
       }},
      {Text::InfiniteInput,
       [] {
         DynamicRangeQuantizeDescriptor d;
         d.shape = {2, 4};
         d.nonfinite = NonFinite::Error;
         std::vector<float> x{1, 2, NAN, 4, 5, -INFINITY, 7, 8};
         std::vector<float> scale(2, 9.0F);
         std::vector<std::int8_t> q(8, 9);
         const Outcome result = outcome(DynamicRangeQuantizePlan<>::select(kCpu, d)->run(
             kCpu, Workspace::none(), {view(x, {2, 4}), view(scale, {2}), view(q, {2, 4})}));
         EXPECT_EQ(result.message.find("input[5] = -inf") == std::string::npos, false) << result.message;
         EXPECT_EQ(scale, (std::vector<float>{9, 9}));
         EXPECT_EQ(q, std::vector<std::int8_t>(8, 9));
         return result;
       }},
      {Text::BadCarryAt, [] { return run_piece(4096, [](auto&) {}); }},
      {Text::BadOffsetAt,
       [] {
         const ScanDescriptor d{.input_shape = {8}, .offset_element = ElementKind::S64, .segments = 2};
         std::vector<float> x(8), y(8);
         const std::vector<std::int64_t> offsets{0, 9, 8};
         return outcome(ScanPlan<>::select(kCpu, d)->run(kCpu, {.x = view(x), .y = view(y), .offsets = view(offsets)}));
       }},
      {Text::DeviceUnknown,
       [] {
         const std::int64_t extent = 8;
         const planck_fake_quantize_descriptor d{{1, &extent}, -8, 7, PLANCK_F32, {}, PLANCK_DIVIDE, 0, 0};
         planck_stream stream{7, 0, nullptr, nullptr, 0, nullptr};
         std::size_t bytes = 0;
         const planck_status status = planck_fake_quantize_workspace_size(&d, &stream, &bytes);
         return Outcome{status, planck_last_error_message()};
       }},
      {Text::WrongDevice,
       [] {
         return run_fake(
             {8}, [](auto&) {}, Workspace::none(), Stream::cuda(nullptr));
       }},
      {Text::WorkspaceNull,
       [] {
         return run_fake(
             {8}, [](auto&) {}, Workspace{nullptr, 16});
       }},
      {Text::WorkspaceTooLarge,
       [] {
         return run_fake(
             {8}, [](auto&) {}, Workspace{scratch.data(), std::numeric_limits<std::size_t>::max()});
       }},
      {Text::WorkspaceOverlap,
       [] {
         return run_fake(
             {8}, [](auto& a) { a.input.data = scratch.data(); }, Workspace::of(scratch));
       }},
      {Text::NullStruct,
       [] {
         const planck_status status = planck_fake_quantize_run(nullptr, nullptr, nullptr, 0, nullptr);
         return Outcome{status, planck_last_error_message()};
       }},
      {Text::Misaligned,
       [] { return run_fake({8}, [](auto& a) { a.input.data = static_cast<const std::byte*>(a.input.data) + 1; }); }},
      {Text::WorkspaceTooSmall, [] { return run_lerp_backward([](auto&) {}, 1); }},
      {Text::BufferTooSmall, [] { return run_fake({8}, [](auto& a) { a.input.offset = 60; }); }},
  };
  return kAll;
}

/// The template as a pattern: what stands in {} is some text.
std::regex pattern_of(std::string_view text) {
  std::string pattern;
  while (!text.empty()) {
    if (text.substr(0, 2) == "{}") {
      pattern += ".+";
      text.remove_prefix(2);
      continue;
    }
    if (std::string_view("()[]{}.*+?^$|\\").find(text[0]) != std::string_view::npos) pattern += '\\';
    pattern += text[0];
    text.remove_prefix(1);
  }
  return std::regex(pattern);
}

TEST(Errors, EveryTextIsProduced) {
  for (int i = 0; i < core::kTextCount; ++i) {
    const auto text = static_cast<Text>(i);
    const core::TextEntry& entry = core::entry(text);
    ASSERT_TRUE(provocations().contains(text)) << "no test produces " << entry.name;
    const Outcome outcome = provocations().at(text)();
    EXPECT_EQ(outcome.kind, static_cast<int>(entry.kind)) << entry.name << ": " << outcome.message;
    EXPECT_TRUE(std::regex_match(outcome.message, pattern_of(entry.text))) << entry.name << ": " << outcome.message;
    EXPECT_TRUE(std::regex_search(outcome.message, std::regex("^[A-Z][A-Za-z]+Plan: "))) << outcome.message;
    EXPECT_EQ(outcome.message.find("{}"), std::string::npos) << outcome.message;
  }
}

TEST(Errors, MessagesNameArgumentAndValues) {
  EXPECT_EQ(run_fake({8}, [](auto& a) { a.input.offset = 60; }).message,
            "FakeQuantizePlan: input reaches elements 60 to 67 of a buffer of 64");
  EXPECT_EQ(run_fake({2, 4}, [](auto&) {}).message,
            "FakeQuantizePlan: input has shape [8] but the descriptor says [2, 4]");
  EXPECT_EQ(select_fake([](auto& d) { d.input_element = static_cast<ElementKind>(42); }).message,
            "FakeQuantizePlan: no kernel for input_element = 42");
  EXPECT_EQ(run_fake({8}, [](auto& a) { a.scale = -2.5; }).message,
            "FakeQuantizePlan: scale = -2.5 must be finite and at least 1.17549435e-38, the smallest normal f32");
  EXPECT_EQ(run_channels({1.0F, 1.0F, 0.0F, -1.0F}, {0, 0, 0, 0}).message,
            "FakeQuantizePerChannelPlan: scale[2] = 0 must be finite and at least 1.17549435e-38, the smallest normal "
            "f32; counted in row-major order");
  EXPECT_EQ(select_granularity(PerGroup{2, 4}).message,
            "FakeQuantizePerGroupPlan: axis = 2 is not an axis of shape = [2, 4]");
}

TEST(Errors, OffsetsBeyondAnyBufferAreNoSpans) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::regex span_overflow = pattern_of(core::entry(Text::SpanOverflow).text);
  const auto at = [](std::int64_t offset, std::int64_t stride) {
    return run_fake({8}, [=](auto& a) {
      a.input.offset = offset;
      a.input.stride[0] = stride;
    });
  };
  // Side by side and apart: the last element's index reaches kMost / 32, or leaves 64 bits.
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t offset : {kMost / 32 - 7 * stride, kMost - 7 * stride, kMost, -kMost / 32}) {
      EXPECT_TRUE(std::regex_match(at(offset, stride).message, span_overflow)) << offset << ", " << stride;
    }
    EXPECT_FALSE(std::regex_match(at(kMost / 32 - 7 * stride - 1, stride).message, span_overflow)) << stride;
  }
}

TEST(Errors, CountsAreReal) {
  const auto plan = FakeQuantizePlan<>::select(kCpu, fake());
  Floats x;
  Floats y;
  FakeQuantizeArgs args{x.view({8}, {1}, 60), 0.1, 0, y.view({8}, {1})};
  auto result = plan->run(kCpu, Workspace::none(), args);
  EXPECT_EQ(result.error().needed(), 68);
  EXPECT_EQ(result.error().got(), 64);
  args.input = x.view({8}, {-1}, 3);  // reaches four elements before the buffer
  result = plan->run(kCpu, Workspace::none(), args);
  EXPECT_EQ(result.error().kind(), ErrorKind::BufferTooSmall);
  EXPECT_EQ(result.error().needed(), 68);

  const auto backward = BinaryParamBackwardPlan<>::select(kCpu, lerp());
  ASSERT_GT(backward->workspace_size(), 0U);
  std::vector<std::byte> small(backward->workspace_size() / 2);
  std::vector<Floats> t(4, Floats(kRows * 8));
  const auto short_of =
      backward->run(kCpu, Workspace::of(small),
                    {t[0].view({kRows, 8}, {8, 1}), std::nullopt, std::nullopt, t[1].view({1, 8}, {8, 1}),
                     t[2].view({kRows, 8}, {8, 1}), std::nullopt, std::nullopt});
  EXPECT_EQ(short_of.error().needed(), static_cast<std::int64_t>(backward->workspace_size()));
  EXPECT_EQ(short_of.error().got(), static_cast<std::int64_t>(small.size()));
}

TEST(Errors, AliasingRuleAcceptsWhatItShould) {
  const auto plan = FakeQuantizePlan<>::select(kCpu, fake());
  Floats x;
  const auto run = [&](const AnyTensorMut& in, const AnyTensorMut& out) {
    return outcome(plan->run(kCpu, Workspace::none(), {in, 0.1, 0, out})).kind;
  };
  EXPECT_EQ(run(x.view({8}, {1}), x.view({8}, {1})), 0) << "in place";
  EXPECT_EQ(run(x.view({8}, {2}), x.view({8}, {2}, 1)), 0) << "interleaved";
  EXPECT_EQ(run(x.view({8}, {1}), x.view({8}, {1}, 8)), 0) << "neighbours";
  EXPECT_EQ(run(x.view({8}, {1}), x.view({8}, {2})), 2) << "same start, other stride";
  EXPECT_EQ(run(x.view({8}, {1}), x.view({8}, {-1}, 7)), 2) << "the same elements backwards";
  EXPECT_EQ(run(x.view({8}, {0}), x.view({8}, {1}, 8)), 0) << "a broadcast input";
  const auto matrix = FakeQuantizePlan<>::select(kCpu, fake({3, 4}));
  EXPECT_EQ(
      outcome(matrix->run(kCpu, Workspace::none(), {x.view({3, 4}, {4, 1}), 0.1, 0, x.view({3, 4}, {3, 1}, 16)})).kind,
      2)
      << "rows of the output overlap each other";
}

TEST(Errors, EmptyTensorsNeedNoMemory) {
  const auto plan = FakeQuantizePlan<>::select(kCpu, fake({4, 0}));
  AnyTensorMut none{nullptr, 0, 0, ElementKind::F32, Shape{4, 0}, {}};
  EXPECT_TRUE(plan->run(kCpu, Workspace::none(), {none, 0.1, 0, none}));
  none.offset = std::numeric_limits<std::int64_t>::min();
  none.stride = {std::numeric_limits<std::int64_t>::max(), -1};
  EXPECT_TRUE(plan->run(kCpu, Workspace::none(), {none, 0.1, 0, none})) << "numbers that nobody follows";
}

TEST(Errors, TrustedParametersAreNotChecked) {
  FakeQuantizeDescriptor d = fake();
  d.trust_qparams = true;
  const auto plan = FakeQuantizePlan<>::select(kCpu, d);
  Floats x;
  Floats y;
  EXPECT_TRUE(plan->run(kCpu, Workspace::none(), {x.view({8}, {1}), 0.0, 0, y.view({8}, {1})}));
}

TEST(Errors, FloatCodesHaveNoZeroPoints) {
  const std::vector<std::int32_t> zero{0};
  const AnyTensorRef tensor = view(zero, {});
  for (const bool trusted : {false, true}) {
    EXPECT_EQ(run_float_codes(-3, trusted).message,
              "DequantizePerTensorPlan: zero_point = -3 must be 0, since codes of f8e5m2 have no zero point");
    EXPECT_EQ(run_float_codes(tensor, trusted).message,
              "DequantizePerTensorPlan: the tensor zero_point is present but float codes have no zero points");
  }
  DynamicRangeQuantizeDescriptor d{.shape = {2, 4}, .q_min = -448, .q_max = 448, .output_element = ElementKind::F8E4M3};
  Floats x;
  std::vector<f8e4m3> q(8);
  std::vector<float> scale(2);
  std::vector<std::int32_t> sum(2);
  const auto plan = DynamicRangeQuantizePlan<>::select(kCpu, d);
  EXPECT_EQ(
      outcome(plan->run(kCpu, Workspace::none(), {x.view({2, 4}, {4, 1}), view(scale), view(q, {2, 4}), {}, view(sum)}))
          .message,
      "DynamicRangeQuantizePlan: row_sum is present but the codes are no integers");
}

TEST(Errors, LongMessagesAreCutNotOverrun) {
  const std::string endless(5000, 'x');
  const Error error(ErrorKind::Unsupported, endless);
  EXPECT_EQ(error.message().size(), Error::kMaxMessage);
  EXPECT_EQ(std::string(error.c_str()).size(), Error::kMaxMessage);
  const std::string_view text = endless;
  const Error made = core::make_error(Text::ElementUnsupported, {text, text, text});
  EXPECT_EQ(made.message().size(), Error::kMaxMessage);
}

}  // namespace
}  // namespace planck
