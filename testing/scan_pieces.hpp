// Scans of one axis, whole and piece by piece with carries between, on any stream.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <vector>

#include "planck/planck.hpp"
#include "scan/carry.hpp"
#include "testing/test_tensor.hpp"

namespace planck::test {

inline constexpr std::int64_t kBlock = scan::kCarryBlock;

/// One scan of the family.
struct ScanCase {
  ScanKind kind = ScanKind::Cumsum;
  ElementKind element = ElementKind::F32;
  bool reverse = false;
  bool exclusive = false;
  ScanTies ties = ScanTies::First;
  std::optional<ElementKind> indices{};
  bool initial = false;

  bool recurrence() const { return kind == ScanKind::LinearRecurrence; }
  scan::ScanKey key() const { return {kind, element, ties, indices, initial, exclusive}; }
};
std::ostream& operator<<(std::ostream& out, const ScanCase& c);

/// All kinds × elements × directions × forms that scans have; with carries, a reverse scan has no indices.
std::vector<ScanCase> all_scan_cases();

/// Well-mixed bits of a number, for choices.
std::uint64_t mix(std::uint64_t x);

struct Where {
  Stream stream = Stream::cpu();
  PlanPreference preference{};
};

/// The tensors of one run; `b` and `initial` belong to recurrences.
struct ScanViews {
  AnyTensorMut x;
  AnyTensorMut b;
  AnyTensorMut y;
  std::optional<AnyTensorMut> indices{};
  std::optional<AnyTensorMut> initial{};
  std::optional<AnyTensorMut> carry_in{};
  std::optional<AnyTensorMut> carry_out{};
};
Result<void> run(const ScanCase& c, int axis, const ScanViews& v, const Where& where = {});

AnyTensorMut slice(AnyTensorMut view, int axis, std::int64_t begin, std::int64_t length);

/// A row count on either side of the axis, and the axis' place among them.
struct Place {
  Shape shape;  ///< with any extent along the axis
  int axis;
};
inline const Place kPlaces[] = {{{1}, 0}, {{2, 1}, 1}, {{1, 3}, 0}, {{2, 1, 2}, 1}, {{20, 1}, 1}, {{1, 20}, 0}};
inline const std::vector<std::int64_t> kCuts[] = {{kBlock, kBlock, 5000}, {2 * kBlock, 1}, {kBlock, 2 * kBlock, 4095}};
std::int64_t sum_of(const std::vector<std::int64_t>& pieces);

/// The tensors of a whole axis in one layout, from which runs and pieces are cut.
struct Whole {
  Whole(const ScanCase& what, const Place& place, std::int64_t n, Layout in);

  /// What a run of all elements gives, by default on the CPU.
  void run_whole(const Where& where = {});
  /// The same in pieces, in scan order. Between pieces the carries become bytes and take another layout; or, in place,
  /// y is x and one carry serves as both.
  void run_pieces(const std::vector<std::int64_t>& pieces, bool in_place, const Where& where);
  TestTensor new_carry(Layout in) const;

  ScanCase c;
  int axis;
  std::int64_t length;
  Layout layout;
  TestTensor x, b, initial, y, indices;
};
void expect_same(const Whole& whole, const Whole& pieces);

}  // namespace planck::test
