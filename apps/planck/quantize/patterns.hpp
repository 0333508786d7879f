// Regular expressions on tensors' names, as --include and --exclude take them.
//
// RE2 finds them in time linear in the name, whatever the pattern: neither a file nor a command line can make the
// program run for minutes. It has no look-around and no back-references, which is the price.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace planck::cli {

class Patterns {
 public:
  /// A Failure (Usage) that names `option` and the pattern where one is no regular expression of RE2.
  Patterns(const std::vector<std::string>& patterns, const char* option);
  Patterns(Patterns&&) noexcept;
  Patterns& operator=(Patterns&&) noexcept;
  ~Patterns();

  bool empty() const noexcept { return compiled_.empty(); }
  /// Whether one of them is found anywhere in the name.
  bool any_in(const std::string& name) const;

 private:
  std::vector<std::unique_ptr<re2::RE2>> compiled_;
};

}  // namespace planck::cli
