// How a command ends when it cannot do its job: one exception with an exit code and a sentence for people.
//
// Everything below `main` throws it; `main` prints the sentence and ends with the code. Names that come from files may
// hold anything, so they go through `in_quotes` before they reach a terminal.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace planck::cli {

/// The program's exit codes, as `planck --help` lists them.
enum class ExitCode : int {
  Ok = 0,
  Io = 1,       ///< reading or writing failed
  Usage = 2,    ///< the command line makes no sense, or would overwrite something
  BadFile = 3,  ///< a file is not what it says: broken, truncated, hostile
  Refused = 4,  ///< valid, but the result could not be what was asked for
  Differs = 5,  ///< compare: the checkpoints differ more than allowed
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The arguments, printed one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// As it is, but what would not be seen (`is_hidden`) as \xNN, \uNNNN or \UNNNNNNNN, and what is no UTF-8 as \xNN; cut
/// after `limit` bytes.
std::string printable(std::string_view name, std::size_t limit = 200);
/// The same between quotation marks, with none inside: Python's functions pass over what is quoted when they put their
/// words in place of options.
std::string in_quotes(std::string_view name);

}  // namespace planck::cli
