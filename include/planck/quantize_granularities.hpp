// The plans of the quantise family held to one granularity: each is the family's plan of the same name without the
// granularity, and `select` refuses a descriptor that has another one.
#pragma once

#include "planck/quantize.hpp"

namespace planck {

namespace detail {
/// The error of a named plan whose descriptor has another granularity: `wanted` is an index of Granularity.
PLANCK_API Error other_granularity(std::string_view op, std::size_t wanted, const Granularity& got) noexcept;

/// A plan of the family held to granularity G.
template <class Op, class G>
struct WithGranularity : Op {
  static Result<PlanChoice> select(const Stream& stream, const typename Op::Descriptor& descriptor,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    if (!std::holds_alternative<G>(descriptor.scope)) {
      return tl::unexpected(other_granularity(Op::kName, Granularity(G{}).index(), descriptor.scope));
    }
    return Op::select(stream, descriptor, preference, expected);
  }
};
}  // namespace detail

using QuantizePerTensorDescriptor = QuantizeDescriptor;
using QuantizePerTensorArgs = QuantizeArgs;
template <class... T>
using QuantizePerTensorPlan = Plan<detail::WithGranularity<QuantizeOp, PerTensor>, T...>;
using QuantizePerTensorBackwardDescriptor = QuantizeBackwardDescriptor;
using QuantizePerTensorBackwardArgs = QuantizeBackwardArgs;
template <class... T>
using QuantizePerTensorBackwardPlan = Plan<detail::WithGranularity<QuantizeBackwardOp, PerTensor>, T...>;

using QuantizePerChannelDescriptor = QuantizeDescriptor;
using QuantizePerChannelArgs = QuantizeArgs;
template <class... T>
using QuantizePerChannelPlan = Plan<detail::WithGranularity<QuantizeOp, PerChannel>, T...>;
using QuantizePerChannelBackwardDescriptor = QuantizeBackwardDescriptor;
using QuantizePerChannelBackwardArgs = QuantizeBackwardArgs;
template <class... T>
using QuantizePerChannelBackwardPlan = Plan<detail::WithGranularity<QuantizeBackwardOp, PerChannel>, T...>;

using QuantizePerTokenDescriptor = QuantizeDescriptor;
using QuantizePerTokenArgs = QuantizeArgs;
template <class... T>
using QuantizePerTokenPlan = Plan<detail::WithGranularity<QuantizeOp, PerToken>, T...>;
using QuantizePerTokenBackwardDescriptor = QuantizeBackwardDescriptor;
using QuantizePerTokenBackwardArgs = QuantizeBackwardArgs;
template <class... T>
using QuantizePerTokenBackwardPlan = Plan<detail::WithGranularity<QuantizeBackwardOp, PerToken>, T...>;

using QuantizePerGroupDescriptor = QuantizeDescriptor;
using QuantizePerGroupArgs = QuantizeArgs;
template <class... T>
using QuantizePerGroupPlan = Plan<detail::WithGranularity<QuantizeOp, PerGroup>, T...>;
using QuantizePerGroupBackwardDescriptor = QuantizeBackwardDescriptor;
using QuantizePerGroupBackwardArgs = QuantizeBackwardArgs;
template <class... T>
using QuantizePerGroupBackwardPlan = Plan<detail::WithGranularity<QuantizeBackwardOp, PerGroup>, T...>;

using DequantizePerTensorDescriptor = DequantizeDescriptor;
using DequantizePerTensorArgs = DequantizeArgs;
template <class... T>
using DequantizePerTensorPlan = Plan<detail::WithGranularity<DequantizeOp, PerTensor>, T...>;
using DequantizePerTensorBackwardDescriptor = DequantizeBackwardDescriptor;
using DequantizePerTensorBackwardArgs = DequantizeBackwardArgs;
template <class... T>
using DequantizePerTensorBackwardPlan = Plan<detail::WithGranularity<DequantizeBackwardOp, PerTensor>, T...>;

using DequantizePerChannelDescriptor = DequantizeDescriptor;
using DequantizePerChannelArgs = DequantizeArgs;
template <class... T>
using DequantizePerChannelPlan = Plan<detail::WithGranularity<DequantizeOp, PerChannel>, T...>;
using DequantizePerChannelBackwardDescriptor = DequantizeBackwardDescriptor;
using DequantizePerChannelBackwardArgs = DequantizeBackwardArgs;
template <class... T>
using DequantizePerChannelBackwardPlan = Plan<detail::WithGranularity<DequantizeBackwardOp, PerChannel>, T...>;

using DequantizePerTokenDescriptor = DequantizeDescriptor;
using DequantizePerTokenArgs = DequantizeArgs;
template <class... T>
using DequantizePerTokenPlan = Plan<detail::WithGranularity<DequantizeOp, PerToken>, T...>;
using DequantizePerTokenBackwardDescriptor = DequantizeBackwardDescriptor;
using DequantizePerTokenBackwardArgs = DequantizeBackwardArgs;
template <class... T>
using DequantizePerTokenBackwardPlan = Plan<detail::WithGranularity<DequantizeBackwardOp, PerToken>, T...>;

using DequantizePerGroupDescriptor = DequantizeDescriptor;
using DequantizePerGroupArgs = DequantizeArgs;
template <class... T>
using DequantizePerGroupPlan = Plan<detail::WithGranularity<DequantizeOp, PerGroup>, T...>;
using DequantizePerGroupBackwardDescriptor = DequantizeBackwardDescriptor;
using DequantizePerGroupBackwardArgs = DequantizeBackwardArgs;
template <class... T>
using DequantizePerGroupBackwardPlan = Plan<detail::WithGranularity<DequantizeBackwardOp, PerGroup>, T...>;

using FakeQuantizePerTensorDescriptor = FakeQuantizeDescriptor;
using FakeQuantizePerTensorArgs = FakeQuantizeArgs;
template <class... T>
using FakeQuantizePerTensorPlan = Plan<detail::WithGranularity<FakeQuantizeOp, PerTensor>, T...>;
using FakeQuantizePerTensorBackwardDescriptor = FakeQuantizeBackwardDescriptor;
using FakeQuantizePerTensorBackwardArgs = FakeQuantizeBackwardArgs;
template <class... T>
using FakeQuantizePerTensorBackwardPlan = Plan<detail::WithGranularity<FakeQuantizeBackwardOp, PerTensor>, T...>;

using FakeQuantizePerChannelDescriptor = FakeQuantizeDescriptor;
using FakeQuantizePerChannelArgs = FakeQuantizeArgs;
template <class... T>
using FakeQuantizePerChannelPlan = Plan<detail::WithGranularity<FakeQuantizeOp, PerChannel>, T...>;
using FakeQuantizePerChannelBackwardDescriptor = FakeQuantizeBackwardDescriptor;
using FakeQuantizePerChannelBackwardArgs = FakeQuantizeBackwardArgs;
template <class... T>
using FakeQuantizePerChannelBackwardPlan = Plan<detail::WithGranularity<FakeQuantizeBackwardOp, PerChannel>, T...>;

using FakeQuantizePerTokenDescriptor = FakeQuantizeDescriptor;
using FakeQuantizePerTokenArgs = FakeQuantizeArgs;
template <class... T>
using FakeQuantizePerTokenPlan = Plan<detail::WithGranularity<FakeQuantizeOp, PerToken>, T...>;
using FakeQuantizePerTokenBackwardDescriptor = FakeQuantizeBackwardDescriptor;
using FakeQuantizePerTokenBackwardArgs = FakeQuantizeBackwardArgs;
template <class... T>
using FakeQuantizePerTokenBackwardPlan = Plan<detail::WithGranularity<FakeQuantizeBackwardOp, PerToken>, T...>;

using FakeQuantizePerGroupDescriptor = FakeQuantizeDescriptor;
using FakeQuantizePerGroupArgs = FakeQuantizeArgs;
template <class... T>
using FakeQuantizePerGroupPlan = Plan<detail::WithGranularity<FakeQuantizeOp, PerGroup>, T...>;
using FakeQuantizePerGroupBackwardDescriptor = FakeQuantizeBackwardDescriptor;
using FakeQuantizePerGroupBackwardArgs = FakeQuantizeBackwardArgs;
template <class... T>
using FakeQuantizePerGroupBackwardPlan = Plan<detail::WithGranularity<FakeQuantizeBackwardOp, PerGroup>, T...>;

}  // namespace planck
