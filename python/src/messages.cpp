#include "messages.hpp"

#include <optional>
#include <vector>

#include "array.hpp"

namespace planck::python {
namespace {

enum class Text {
#define PLANCK_ERROR_TEXT(name, kind, text) name,
#include "../../src/core/error_texts.def"
#undef PLANCK_ERROR_TEXT
};

constexpr std::string_view kLibraryTexts[] = {
#define PLANCK_ERROR_TEXT(name, kind, text) text,
#include "../../src/core/error_texts.def"
#undef PLANCK_ERROR_TEXT
};

/// What Python says instead: {1} is the library's second value (the first is the plan), {q_min} the caller's name for
/// that argument. Empty: the library's own text without the plan, for what no call from Python can do wrong.
std::string_view python_template(Text text) {
  switch (text) {
    case Text::DeviceUnsupported:
      return "this package has no kernels for {1} devices: build it with -C cmake.define.PLANCK_CUDA=ON";
    case Text::NonFiniteOnDevice:
      return "nonfinite = 'error' has to read all of {input} first, and a call on a {1} device never waits";
    case Text::SizeOverflow:
      return "{1} has shape {2}, which is more bytes than a signed 64-bit integer counts";
    case Text::NotBroadcastable:
      return "{1} has shape {2}, which does not broadcast to {3}";
    case Text::CodeRangeEmpty:
      return "{q_min} = {1} is larger than {q_max} = {2}";
    case Text::CodeRangeTooWide:
      return "{q_min} = {1} and {q_max} = {2} must lie in [{3}, {4}]";
    case Text::SymmetricRange:
      return "mode = 'symmetric' needs {q_max} > 0, but {q_max} = {1}";
    case Text::AsymmetricRange:
      return "mode = 'asymmetric' needs {q_max} > {q_min}, but both are {1}";
    case Text::AsymmetricCodes:
      return "mode = 'asymmetric' needs zero points, which codes of {1} do not have";
    case Text::SaturateUnsupported:
      return "saturate = False is for codes of float8_e4m3fn and float8_e5m2, not of {1}";
    case Text::SaturateRange:
      return "saturate = False limits nothing to [{1}, {2}]; for {3} it goes with [{4}, {5}]";
    case Text::IndicesTooLong:
      return "index_dtype = int32 cannot count an axis of {1} elements: use int64";
    case Text::OffsetsTooLong:
      return "offsets of dtype int32 cannot count {1} elements along {axis}: use int64";
    case Text::TooFewSegments:
      return "offsets stand for {1} segments, but {3} elements along {axis} have at least {2}";
    case Text::BadOffsetAt:
      return "offsets[{1}] = {2} must lie in [{3}, {4}], as offsets rise from 0 to the {5} elements along {axis}";
    case Text::ElementDiffers:
      return "{1} has dtype {2}, but must have {3}";
    case Text::ShapeDiffers:
      return "{1} has shape {2}, but must have {3}";
    case Text::NotInjective:
      return "{1} with shape {2} and strides {3} has elements that share memory, and cannot be written";
    case Text::Overlap:
      return "{1} overlaps {2} and is not the same view";
    case Text::SummedOverlap:
      return "{1} is made of many elements and must not share memory with {2}";
    case Text::ArgumentMissing:
      return "{1} is None, but this gradient needs it";
    case Text::InfiniteInput:
      return "{input}[{1}] = {2}, which nonfinite = 'error' refuses; counted in row-major order";
    case Text::Misaligned:
      return "the data of {1} is not aligned to {2} bytes, the size of its dtype {3}";
    // Only names and dtypes among the values change.
    case Text::IsaUnknown:
    case Text::IsaUnsupported:
    case Text::DeviceTooOld:
    case Text::RowSumTooLong:
    case Text::CodeRangeRounds:
    case Text::NoZeroPoint:
    case Text::ArgumentUnexpected:
    case Text::NullData:
    case Text::SpanOverflow:
    case Text::BadScale:
    case Text::BadZeroPoint:
    case Text::BadScaleAt:
    case Text::BadZeroPointAt:
    case Text::DeviceFailed:
    // Nothing that Python passes on.
    case Text::TypeParameterDiffers:
    case Text::ElementUnsupported:
    case Text::GranularityDiffers:
    case Text::KindUnsupported:
    case Text::ExclusiveUnsupported:
    case Text::CarryUnsupported:
    case Text::BackendUnsupported:
    case Text::ReferenceIsScalar:
    case Text::DeviceArchUnsupported:
    case Text::WorkspaceLimit:
    case Text::RankUnsupported:
    case Text::NegativeExtent:
    case Text::AxisOutOfRange:
    case Text::TokenWithoutAxis:
    case Text::GroupSizeTooSmall:
    case Text::GranularityUnknown:
    case Text::ScaleFormUnknown:
    case Text::ModeUnknown:
    case Text::NonFiniteUnknown:
    case Text::TiesUnknown:
    case Text::PieceLength:
    case Text::NoOutput:
    case Text::BadCarryAt:
    case Text::DeviceUnknown:
    case Text::WrongDevice:
    case Text::StrideCountDiffers:
    case Text::WorkspaceTooLarge:
    case Text::WorkspaceNull:
    case Text::WorkspaceOverlap:
    case Text::NullStruct:
    case Text::WorkspaceTooSmall:
    case Text::BufferTooSmall:
      break;
  }
  return {};
}

/// What stands in a message where its text has {}, if it was made of that text.
std::optional<std::vector<std::string_view>> values_of(std::string_view message, std::string_view text) {
  std::vector<std::string_view> values;
  while (true) {
    const std::size_t hole = text.find("{}");
    const std::string_view before = text.substr(0, hole);
    if (!message.starts_with(before)) return std::nullopt;
    message.remove_prefix(before.size());
    if (hole == std::string_view::npos) break;
    text.remove_prefix(hole + 2);
    const std::string_view after = text.substr(0, text.find("{}"));
    const std::size_t end = after.empty() ? message.size() : message.find(after);
    if (end == std::string_view::npos) return std::nullopt;
    values.push_back(message.substr(0, end));
    message.remove_prefix(end);
  }
  if (!message.empty()) return std::nullopt;
  return values;
}

/// A dtype, an argument's name, or anything else as it is.
std::string_view python_value(std::string_view value) {
  for (const ElementKind element : kKnownDtypes) {
    if (value == to_string(element)) return python_name(element);
  }
  return caller_name(value);
}

/// The holes of a library's text are numbered by their order.
std::string fill(std::string_view text, const std::vector<std::string_view>& values) {
  std::string filled;
  std::size_t next = 1;
  for (std::size_t hole = text.find('{'); hole != std::string_view::npos; hole = text.find('{')) {
    filled += text.substr(0, hole);
    const std::size_t end = text.find('}', hole);
    const std::string_view what = text.substr(hole + 1, end - hole - 1);
    if (what.empty()) {
      filled += python_value(values[next++]);
    } else if (what[0] >= '0' && what[0] <= '9') {
      filled += python_value(values[static_cast<std::size_t>(what[0] - '0')]);
    } else {
      filled += caller_name(what);
    }
    text.remove_prefix(end + 1);
  }
  return filled.append(text);
}

}  // namespace

const CallNames*& CallNames::current() {
  thread_local const CallNames* names = nullptr;
  return names;
}

bool& FromTorch::current() {
  thread_local bool from_torch = false;
  return from_torch;
}

std::string_view option_name(std::string_view name) {
  static constexpr Rename kTorch[] = {{"axis", "dim"}, {"q_min", "quant_min"}, {"q_max", "quant_max"}};
  if (FromTorch::current()) {
    for (const Rename& rename : kTorch) {
      if (rename.library == name) return rename.python;
    }
  }
  return name;
}

std::string_view caller_name(std::string_view name) {
  if (CallNames::current() != nullptr) {
    for (const Rename& rename : CallNames::current()->renames_) {
      if (rename.library == name) return rename.python;
    }
  }
  return option_name(name);
}

std::string python_text(const Error& error) {
  constexpr std::string_view kPlan = "{}: ";  // what every text begins with
  const std::string_view message = error.message();
  for (std::size_t i = 0; i < std::size(kLibraryTexts); ++i) {
    if (const auto values = values_of(message, kLibraryTexts[i])) {
      const std::string_view text = python_template(static_cast<Text>(i));
      return fill(text.empty() ? kLibraryTexts[i].substr(kPlan.size()) : text, *values);
    }
  }
  // Cut, since it was longer than an error holds.
  const std::size_t plan = message.find(": ");
  return std::string(message.substr(plan == std::string_view::npos ? 0 : plan + 2));
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
  }
  return text;
}

}  // namespace planck::python
