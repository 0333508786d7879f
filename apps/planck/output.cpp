// Outputs that appear at once: temporary names, what may be replaced, and the rename that publishes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>

#include "failure.hpp"
#include "file.hpp"

namespace planck::cli {
namespace {

std::atomic<int> stopped_by{0};

/// What a path leads to, or nothing if it leads nowhere.
std::optional<FileId> id_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

/// Whether `inner` is `folder` or lies in it, by what the folders are and not what they are called.
bool holds(const FileId& folder, const fs::path& inner) {
  std::error_code error;
  fs::path path = fs::canonical(inner, error);
  if (error) return false;
  for (;;) {
    if (id_of(path) == folder) return true;
    if (!path.has_relative_path()) return false;
    path = path.parent_path();
  }
}

/// A folder that somebody else filled is not ours to delete.
bool looks_like_checkpoint(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
}

/// Links followed as far as they lead, so that the target is replaced and the link stays.
fs::path resolved(const fs::path& place) {
  std::error_code error;
  fs::path absolute = fs::absolute(place);
  if (absolute.filename().empty()) absolute = absolute.parent_path();  // "out/" is "out"
  fs::path path = fs::weakly_canonical(absolute, error);
  if (error) throw Failure(ExitCode::Io, text("cannot follow ", in_quotes(place.native()), ": ", error.message()));
  return path;
}

fs::path temporary_name(const fs::path& place) {
  std::random_device random;
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, ".%08x%08x.tmp", random(), random());
  return place.parent_path() / text(".", place.filename().native().substr(0, 200), suffix);
}

void sync_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw Failure(ExitCode::Io, text("cannot open ", in_quotes(folder.native()), ": ", std::strerror(errno)));
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems cannot sync a folder; then there is nothing to wait for.
  if (result != 0 && error != EINVAL) {
    throw Failure(ExitCode::Io, text("cannot write ", in_quotes(folder.native()), ": ", std::strerror(error)));
  }
}

[[noreturn]] void refuse(const fs::path& place, std::string_view why) {
  throw Failure(ExitCode::Usage, text("will not write ", in_quotes(place.native()), ": ", why));
}

}  // namespace

Output::Output(const fs::path& place, Kind kind, bool force, const std::vector<fs::path>& inputs)
    : place_(resolved(place)), kind_(kind) {
  if (const std::optional<FileId> old = id_of(place_)) {
    const bool folder = fs::is_directory(place_);
    if (folder != (kind == Kind::Folder)) refuse(place, folder ? "it is a folder" : "it is no folder");
    for (const fs::path& input : inputs) {
      if (holds(*old, input)) refuse(place, text("it is the input ", in_quotes(input.native()), " or holds it"));
    }
    const bool empty_folder = folder && fs::is_empty(place_);
    if (!force && !empty_folder) refuse(place, "it exists (--force replaces it)");
    if (folder && holds(*old, fs::current_path())) refuse(place, "it holds the current folder");
    if (folder && !empty_folder && !looks_like_checkpoint(place_)) refuse(place, "it is a folder without a checkpoint");
    replaces_ = !empty_folder;
  }
  for (const fs::path& input : inputs) {
    const std::optional<FileId> id = fs::is_directory(input) ? id_of(input) : std::nullopt;
    if (id && holds(*id, place_.parent_path())) {
      refuse(place, text("it lies in the input ", in_quotes(input.native())));
    }
  }
  if (!fs::is_directory(place_.parent_path())) refuse(place, "the folder around it does not exist");
  temporary_ = temporary_name(place_);
  if (kind_ == Kind::Folder && mkdir(temporary_.c_str(), 0777) != 0) {
    throw Failure(ExitCode::Io, text("cannot create ", in_quotes(temporary_.native()), ": ", std::strerror(errno)));
  }
}

Output::~Output() {
  if (published_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void Output::publish() {
  throw_if_stopped();
  if (kind_ == Kind::Folder) {
    for (const auto& entry : fs::recursive_directory_iterator(temporary_)) {
      if (entry.is_directory()) sync_folder(entry.path());
    }
    sync_folder(temporary_);
  }
  // A file is replaced by a plain rename; a folder that is not empty only by an exchange. Without --force nothing may
  // be replaced, even if it appeared since we looked; an empty folder is taken away by the rename itself.
  const bool exchange = replaces_ && kind_ == Kind::Folder;
  const bool keep = !replaces_ && !(kind_ == Kind::Folder && fs::exists(place_));
  int result = renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, place_.c_str(),
                         exchange ? RENAME_EXCHANGE
                         : keep   ? RENAME_NOREPLACE
                                  : 0U);
  if (result != 0 && errno == EINVAL && !exchange && !fs::exists(place_)) {
    result = std::rename(temporary_.c_str(), place_.c_str());  // a file system without the flag
  }
  if (result != 0) {
    throw Failure(ExitCode::Io, text("cannot put the output into ", in_quotes(place_.native()), ": ",
                                     std::strerror(errno), exchange ? " (remove the old folder first)" : ""));
  }
  published_ = true;
  sync_folder(place_.parent_path());
  if (exchange) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);  // the old folder
  }
}

void publish_text(const fs::path& place, bool force, const std::vector<fs::path>& inputs, std::string_view contents) {
  Output output(place, Output::Kind::File, force, inputs);
  write_text(output.temporary(), contents);
  output.publish();
}

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    int first = 0;
    // A closed terminal may send SIGHUP twice, by the system and by the shell: that is no second wish.
    if (stopped_by.compare_exchange_strong(first, signal) || signal == SIGHUP) return;
    constexpr std::string_view kLast = "\nplanck: stopped at once; a file or folder .NAME.*.tmp may be left\n";
    [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, kLast.data(), kLast.size());
    _exit(128 + signal);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

void throw_if_stopped() {
  if (stopped_by != 0) throw Failure(ExitCode::Io, "stopped");
}

int stop_signal() noexcept { return stopped_by; }

}  // namespace planck::cli
