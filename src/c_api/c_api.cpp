// The C ABI: translate the structs, select, call, keep the error's text for this thread.
#include <optional>
#include <string_view>

#include "c_api/structs.hpp"
#include "core/error_texts.hpp"
#include "planck/planck.h"
#include "planck/planck.hpp"

namespace planck {
namespace {

using core::Text;

thread_local Error last_error(ErrorKind::InvalidProblem, "");

planck_status report(const Error& error) noexcept {
  last_error = error;
  return static_cast<planck_status>(error.kind());
}

planck_status status_of(const Result<void>& result) noexcept { return result ? PLANCK_OK : report(result.error()); }

/// A caller's thread pool behind a C callback.
class CallbackExecutor final : public Executor {
 public:
  explicit CallbackExecutor(const planck_stream* stream) noexcept : stream_(stream) {}
  int concurrency() const noexcept override { return stream_->concurrency; }
  void for_each(std::int64_t count, int max_threads, Task task, void* context) noexcept override {
    stream_->for_each(stream_->executor, count, max_threads, task, context);
  }

 private:
  const planck_stream* stream_;
};

/// Calls body(Stream) for a C stream.
template <class Body>
planck_status with_stream(std::string_view plan, const planck_stream* stream, const Body& body) noexcept {
  if (stream == nullptr) return body(Stream::cpu());
  if (stream->device == PLANCK_CUDA) return body(Stream::cuda(stream->native));
  if (stream->device != PLANCK_CPU) return report(core::make_error(Text::DeviceUnknown, {plan, stream->device}));
  if (stream->for_each == nullptr) return body(Stream::cpu(stream->max_threads));
  CallbackExecutor executor(stream);
  return body(Stream::cpu(executor, stream->max_threads));
}

/// Selects the plan for a C descriptor and calls body(stream, plan, args); args is translated if there is any.
template <class Op, class CDescriptor, class CArgs, class Body>
planck_status with_plan(std::string_view name, const CDescriptor* descriptor, const CArgs* args, bool needs_args,
                        const planck_stream* c_stream, const Body& body) noexcept {
  if (descriptor == nullptr) return report(core::make_error(Text::NullStruct, {name, "descriptor"}));
  if (needs_args && args == nullptr) return report(core::make_error(Text::NullStruct, {name, "args"}));
  return with_stream(name, c_stream, [&](const Stream& stream) noexcept {
    c_api::Translator translator(name);
    auto cpp_descriptor = c_api::translate(translator, *descriptor);
    typename Op::Args cpp_args;
    if (args != nullptr) cpp_args = c_api::translate(translator, *args);
    if (translator.error()) return report(*translator.error());
    args != nullptr ? c_api::complete(cpp_descriptor, cpp_args) : c_api::complete(cpp_descriptor);
    c_api::complete_segments(cpp_descriptor);
    const auto plan = Plan<Op>::select(stream, cpp_descriptor);
    if (!plan) return report(plan.error());
    return body(stream, *plan, cpp_args);
  });
}

}  // namespace
}  // namespace planck

extern "C" {

const char* planck_last_error_message(void) { return planck::last_error.c_str(); }
int32_t planck_last_backend_code(void) { return planck::last_error.backend_code(); }
int64_t planck_last_needed(void) { return planck::last_error.needed(); }
int64_t planck_last_got(void) { return planck::last_error.got(); }

#define PLANCK_TEXT_OF(number) #number
#define PLANCK_VERSION_TEXT(major, minor, patch) \
  PLANCK_TEXT_OF(major) "." PLANCK_TEXT_OF(minor) "." PLANCK_TEXT_OF(patch)
const char* planck_version(void) {
  return PLANCK_VERSION_TEXT(PLANCK_VERSION_MAJOR, PLANCK_VERSION_MINOR, PLANCK_VERSION_PATCH);
}

#define PLANCK_DEFINE_C_OP(op, Name)                                                                                  \
  planck_status planck_##op##_run(const planck_##op##_descriptor* descriptor, const planck_##op##_args* args,         \
                                  void* workspace, size_t workspace_bytes, planck_stream* stream) {                   \
    return planck::with_plan<planck::Name##Op>(                                                                       \
        #Name "Plan", descriptor, args, true, stream,                                                                 \
        [&](const planck::Stream& s, const auto& plan, const auto& a) noexcept {                                      \
          return planck::status_of(plan.run(s, {workspace, workspace_bytes}, a));                                     \
        });                                                                                                           \
  }                                                                                                                   \
  planck_status planck_##op##_can_implement(const planck_##op##_descriptor* descriptor,                               \
                                            const planck_##op##_args* args, planck_stream* stream) {                  \
    return planck::with_plan<planck::Name##Op>(#Name "Plan", descriptor, args, true, stream,                          \
                                               [&](const planck::Stream&, const auto& plan, const auto& a) noexcept { \
                                                 return planck::status_of(plan.can_implement(a));                     \
                                               });                                                                    \
  }                                                                                                                   \
  planck_status planck_##op##_workspace_size(const planck_##op##_descriptor* descriptor, planck_stream* stream,       \
                                             size_t* bytes) {                                                         \
    if (bytes == nullptr)                                                                                             \
      return planck::report(planck::core::make_error(planck::core::Text::NullStruct, {#Name "Plan", "bytes"}));       \
    return planck::with_plan<planck::Name##Op>(#Name "Plan", descriptor,                                              \
                                               static_cast<const planck_##op##_args*>(nullptr), false, stream,        \
                                               [&](const planck::Stream&, const auto& plan, const auto&) noexcept {   \
                                                 *bytes = plan.workspace_size();                                      \
                                                 return PLANCK_OK;                                                    \
                                               });                                                                    \
  }

PLANCK_DEFINE_C_OP(quantize, Quantize)
PLANCK_DEFINE_C_OP(quantize_backward, QuantizeBackward)
PLANCK_DEFINE_C_OP(dequantize, Dequantize)
PLANCK_DEFINE_C_OP(dequantize_backward, DequantizeBackward)
PLANCK_DEFINE_C_OP(fake_quantize, FakeQuantize)
PLANCK_DEFINE_C_OP(fake_quantize_backward, FakeQuantizeBackward)
PLANCK_DEFINE_C_OP(dynamic_range_quantize, DynamicRangeQuantize)
PLANCK_DEFINE_C_OP(scan, Scan)
PLANCK_DEFINE_C_OP(scan_backward, ScanBackward)
PLANCK_DEFINE_C_OP(linear_recurrence, LinearRecurrence)
PLANCK_DEFINE_C_OP(linear_recurrence_backward, LinearRecurrenceBackward)
PLANCK_DEFINE_C_OP(binary_param, BinaryParam)
PLANCK_DEFINE_C_OP(binary_param_backward, BinaryParamBackward)

}  // extern "C"
