#include "quantize/spec.hpp"

namespace planck::quantize {

std::string_view plan_name(Formula formula, std::size_t granularity) noexcept {
  static constexpr std::string_view kNames[6][4] = {
      {"QuantizePerTensorPlan", "QuantizePerChannelPlan", "QuantizePerTokenPlan", "QuantizePerGroupPlan"},
      {"QuantizePerTensorBackwardPlan", "QuantizePerChannelBackwardPlan", "QuantizePerTokenBackwardPlan",
       "QuantizePerGroupBackwardPlan"},
      {"DequantizePerTensorPlan", "DequantizePerChannelPlan", "DequantizePerTokenPlan", "DequantizePerGroupPlan"},
      {"DequantizePerTensorBackwardPlan", "DequantizePerChannelBackwardPlan", "DequantizePerTokenBackwardPlan",
       "DequantizePerGroupBackwardPlan"},
      {"FakeQuantizePlan", "FakeQuantizePerChannelPlan", "FakeQuantizePerTokenPlan", "FakeQuantizePerGroupPlan"},
      {"FakeQuantizeBackwardPlan", "FakeQuantizePerChannelBackwardPlan", "FakeQuantizePerTokenBackwardPlan",
       "FakeQuantizePerGroupBackwardPlan"},
  };
  return kNames[static_cast<int>(formula)][granularity];
}

QuantizeKind QuantizeSpec::kind() const noexcept {
  using K = QuantizeKind;
  static constexpr K kKinds[6][4] = {
      {K::PerTensor, K::PerChannel, K::PerToken, K::PerGroup},
      {K::PerTensorBackward, K::PerChannelBackward, K::PerTokenBackward, K::PerGroupBackward},
      {K::DequantizePerTensor, K::DequantizePerChannel, K::DequantizePerToken, K::DequantizePerGroup},
      {K::DequantizePerTensorBackward, K::DequantizePerChannelBackward, K::DequantizePerTokenBackward,
       K::DequantizePerGroupBackward},
      {K::FakeQuantize, K::FakeQuantize, K::FakeQuantize, K::FakeQuantize},
      {K::FakeQuantizeBackward, K::FakeQuantizeBackward, K::FakeQuantizeBackward, K::FakeQuantizeBackward},
  };
  return kKinds[static_cast<int>(formula)][granularity.index()];
}

}  // namespace planck::quantize
