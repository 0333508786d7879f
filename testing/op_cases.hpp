// From a row of the kernel list to something that can be run: which tensors the operation takes for a shape,
// and a plan over them. The parity test and the benchmark both walk the list through this.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cpu/kernel.hpp"
#include "planck/planck.hpp"
#include "testing/test_tensor.hpp"

namespace planck::test {

/// The instruction sets of this machine, best first.
std::vector<ArchSku> archs_here();

/// The plainest instruction set that this build has: scalar, but NEON where the processor always has it.
ArchSku plainest_arch();

/// All kernels of one instruction set: every operation × element × variant, once.
std::vector<cpu::KernelRow> kernel_list();

/// "FakeQuantize_f32_reciprocal", unique in the list.
std::string name_of(const cpu::KernelRow& row);

/// Factors are of either sign and near 1, so that long products and recurrences stay in range; Levels are few, so that
/// many are equal. Winners are indices along an axis. Exponents are what exponentials are taken of. Offsets are those
/// of a ragged batch.
enum class Values { Ordinary, Scales, ZeroPoints, Factors, Levels, Winners, Exponents, Offsets };

struct TensorSpec {
  std::string name;
  ElementKind element;
  Shape shape;
  bool output;
  Values values = Values::Ordinary;
  bool summed = false;  ///< an output that may not share memory with an input
  int axis = 0;         ///< of Winners
  bool reverse = false;
  std::vector<std::int64_t> offsets{};  ///< of Offsets, and of Winners in segments
};

using Tensors = std::vector<AnyTensorMut>;  ///< in the order of the specs

struct OpCase {
  std::vector<TensorSpec> tensors;
  double unit;  ///< the size of ordinary values
  /// Selects a plan; the function it returns runs it.
  std::function<Result<std::function<Result<void>(const Tensors&)>>(const Stream&, const PlanPreference&)> select;
};

/// How operands smaller than the result are given: broadcast inputs, or the segments of the quantise family, where
/// Scalar is PerTensor, Rows PerToken, and Columns and Middle are PerChannel of the last and of the middle axis. Scans
/// have axes instead: None the last one, Rows and Scalar the same in reverse (Scalar exclusive), Columns the first one
/// (exclusive), FirstChannel that in reverse, Middle the middle one; Ragged ones are those in segments. Kinds without
/// an exclusive form are inclusive.
enum class Broadcast {
  None,
  Scalar,
  Rows,
  Columns,
  Middle,
  FirstChannel,
  Groups,
  OuterGroups,
  Ragged,
  RaggedScalar,
  RaggedFirstChannel
};

/// Segments of all lengths near the borders of blocks, empty ones among them, and the rest of the axis as one.
std::vector<std::int64_t> ragged_offsets(std::int64_t length);

/// The same scan of one segment: None, Scalar or FirstChannel, if it is ragged.
std::optional<Broadcast> of_one_segment(Broadcast broadcast);

/// The operation on tensors of `shape`. Rows marked `terms` sum gradients: their operands broadcast. Ragged scans have
/// the segments of `offsets`, or of ragged_offsets() where none are given.
OpCase make_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast = Broadcast::None,
                 const std::vector<std::int64_t>& offsets = {});

/// What a tensor of a case is filled with: values that find mistakes, or (`ordinary`) such as benchmarks measure.
void fill(TestTensor& tensor, const TensorSpec& spec, std::uint64_t seed, double unit, bool ordinary = false);

/// The ways to broadcast that make sense for a shape.
std::vector<Broadcast> broadcasts_for(const cpu::KernelRow& row, const Shape& shape);

}  // namespace planck::test
