// Looking at what a tensor holds before a run writes anything.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/reference_loop.hpp"

namespace planck::quantize {

/// The first element of a tensor, in logical order, that `good` refuses; nothing if all are good.
template <class T, class Good>
std::optional<std::pair<std::int64_t, T>> first_bad(const AnyTensorRef& view, const Good& good) {
  core::StridedLoop loop(view.shape);
  loop.add(view);
  // A quick look at whole contiguous rows: almost every run ends here.
  core::StridedLoop rows = loop;
  core::collapse(rows);
  if (rows.rank <= 1 && (rows.rank == 0 || rows.operand[0].stride[0] == sizeof(T))) {
    const auto* values = reinterpret_cast<const T*>(rows.operand[0].base);
    const std::int64_t n = rows.count();
    unsigned bad = 0;
    for (std::int64_t i = 0; i < n; ++i) bad |= good(values[i]) ? 0U : 1U;
    if (bad == 0) return {};
  }
  std::optional<std::pair<std::int64_t, T>> found;
  std::int64_t index = 0;
  core::for_each_index(loop, [&](const auto& cell) {
    const T value = cell(0).template get<T>();
    if (!found && !good(value)) found.emplace(index, value);
    ++index;
  });
  return found;
}

}  // namespace planck::quantize
