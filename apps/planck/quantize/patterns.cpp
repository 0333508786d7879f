#include "quantize/patterns.hpp"

#include <re2/re2.h>

#include <algorithm>

#include "terminal/failure.hpp"

namespace planck::cli {

Patterns::Patterns(const std::vector<std::string>& patterns, const char* option) {
  for (const std::string& pattern : patterns) {
    compiled_.push_back(std::make_unique<re2::RE2>(pattern, re2::RE2::Quiet));
    if (compiled_.back()->ok()) continue;
    throw Failure(
        ExitCode::Usage,
        text(option, " ", in_quotes(pattern), " is no regular expression: ", printable(compiled_.back()->error()),
             " (the syntax is RE2's, which has no look-around (?=…) and no back-references \\1)"));
  }
}

Patterns::Patterns(Patterns&&) noexcept = default;
Patterns& Patterns::operator=(Patterns&&) noexcept = default;
Patterns::~Patterns() = default;

bool Patterns::any_in(const std::string& name) const {
  return std::any_of(compiled_.begin(), compiled_.end(),
                     [&](const auto& each) { return re2::RE2::PartialMatch(name, *each); });
}

}  // namespace planck::cli
