// The names of the enumerations (those of element and scan kinds are in their tables), and a kernel's identity
// in one line.
#include <string>

#include "planck/dynamic_range.hpp"
#include "planck/plan.hpp"
#include "planck/quantize.hpp"

namespace planck {

std::string_view to_string(ElementKind kind) noexcept { return info_of(kind).name; }

std::string_view to_string(OpCategory category) noexcept {
  switch (category) {
    case OpCategory::BinaryElementwise:
      return "BinaryElementwise";
    case OpCategory::Scan:
      return "Scan";
    case OpCategory::Quantization:
      return "Quantization";
  }
  return "unknown";
}

std::string_view to_string(QuantizeKind kind) noexcept {
  switch (kind) {
#define PLANCK_NAME(name)  \
  case QuantizeKind::name: \
    return #name
    PLANCK_NAME(PerTensor);
    PLANCK_NAME(PerTensorBackward);
    PLANCK_NAME(DequantizePerTensor);
    PLANCK_NAME(DequantizePerTensorBackward);
    PLANCK_NAME(PerChannel);
    PLANCK_NAME(PerChannelBackward);
    PLANCK_NAME(DequantizePerChannel);
    PLANCK_NAME(DequantizePerChannelBackward);
    PLANCK_NAME(FakeQuantize);
    PLANCK_NAME(FakeQuantizeBackward);
    PLANCK_NAME(PerToken);
    PLANCK_NAME(PerTokenBackward);
    PLANCK_NAME(PerGroup);
    PLANCK_NAME(PerGroupBackward);
    PLANCK_NAME(DynamicRange);
    PLANCK_NAME(DequantizePerToken);
    PLANCK_NAME(DequantizePerTokenBackward);
    PLANCK_NAME(DequantizePerGroup);
    PLANCK_NAME(DequantizePerGroupBackward);
#undef PLANCK_NAME
  }
  return "unknown";
}

std::string_view to_string(BinaryKind kind) noexcept {
  switch (kind) {
    case BinaryKind::Lerp:
      return "Lerp";
    case BinaryKind::AddScaled:
      return "AddScaled";
  }
  return "unknown";
}

std::string_view to_string(ScaleForm form) noexcept {
  switch (form) {
    case ScaleForm::Divide:
      return "Divide";
    case ScaleForm::Reciprocal:
      return "Reciprocal";
  }
  return "unknown";
}

std::string_view to_string(DynamicRangeMode mode) noexcept {
  switch (mode) {
    case DynamicRangeMode::Symmetric:
      return "Symmetric";
    case DynamicRangeMode::Asymmetric:
      return "Asymmetric";
  }
  return "unknown";
}

std::string_view to_string(NonFinite nonfinite) noexcept {
  switch (nonfinite) {
    case NonFinite::Saturate:
      return "Saturate";
    case NonFinite::Error:
      return "Error";
  }
  return "unknown";
}

std::string_view to_string(MathPrecision precision) noexcept {
  switch (precision) {
    case MathPrecision::F32:
      return "f32";
    case MathPrecision::F64:
      return "f64";
  }
  return "unknown";
}

std::string_view to_string(ArchSku arch) noexcept {
  switch (arch) {
    case ArchSku::Sm80:
      return "sm80";
    case ArchSku::Sm89:
      return "sm89";
    case ArchSku::Sm90a:
      return "sm90a";
    case ArchSku::Sm90:
      return "sm90";
    case ArchSku::Sm100:
      return "sm100";
    case ArchSku::Sm120:
      return "sm120";
    case ArchSku::Scalar:
      return "scalar";
    case ArchSku::Sse2:
      return "sse2";
    case ArchSku::Sse4:
      return "sse4";
    case ArchSku::Avx2:
      return "avx2";
    case ArchSku::Avx512:
      return "avx512";
    case ArchSku::Neon:
      return "neon";
  }
  return "unknown";
}

std::string_view to_string(BackendKind backend) noexcept {
  switch (backend) {
    case BackendKind::Bespoke:
      return "bespoke";
    case BackendKind::Cpu:
      return "cpu";
    case BackendKind::Reference:
      return "reference";
  }
  return "unknown";
}

std::string to_string(const KernelSku& sku) {
  std::string out(to_string(sku.category));
  out += '.';
  if (sku.category == OpCategory::Quantization) {
    out += to_string(static_cast<QuantizeKind>(sku.op));
  } else {
    const bool scan = sku.category == OpCategory::Scan;
    out += scan ? to_string(static_cast<ScanKind>(sku.op)) : to_string(static_cast<BinaryKind>(sku.op));
    if (sku.backward) out += "Backward";
  }
  out += ' ';
  out += to_string(sku.element);
  if (sku.aux_element) {
    out += '/';
    out += to_string(*sku.aux_element);
  }
  out += ' ';
  out += to_string(sku.backend);
  out += '/';
  out += to_string(sku.arch);
  return out;
}

}  // namespace planck
