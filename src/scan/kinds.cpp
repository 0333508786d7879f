#include "scan/kinds.hpp"

namespace planck {

std::string_view to_string(ScanKind kind) noexcept {
  const scan::ScanKindRow* const row = scan::find_kind(kind);
  return row == nullptr ? "unknown" : row->name;
}

}  // namespace planck
