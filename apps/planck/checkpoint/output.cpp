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

#include "checkpoint/file.hpp"
#include "terminal/failure.hpp"

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

/// A folder that somebody else filled is not ours to replace.
bool looks_like_checkpoint(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
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

fs::path resolved(const fs::path& place) {
  std::error_code error;
  fs::path absolute = fs::absolute(place);
  if (absolute.filename().empty()) absolute = absolute.parent_path();  // "out/" is "out"
  fs::path path = fs::weakly_canonical(absolute, error);
  if (error) throw Failure(ExitCode::Io, text("cannot follow ", in_quotes(place.native()), ": ", error.message()));
  return path;
}

Output::Output(const fs::path& place, Kind kind, bool force, const std::vector<fs::path>& inputs,
               std::set<fs::path> writes)
    : place_(resolved(place)), kind_(kind), writes_(std::move(writes)) {
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
    if (folder) refuse_foreign_files();
    if (!empty_folder) replaces_ = old;
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

void Output::refuse_foreign_files() const {
  constexpr std::int64_t kNamed = 5;
  std::int64_t count = 0;
  std::string names;
  for (const auto& entry : fs::recursive_directory_iterator(place_)) {
    const fs::path relative = entry.path().lexically_relative(place_);
    if ((entry.is_directory() && !entry.is_symlink()) || writes_.contains(relative)) continue;
    if (++count <= kNamed) names += text(count > 1 ? ", " : "", in_quotes(relative.native()));
  }
  if (count == 0) return;
  if (count > kNamed) names += text(" and ", count - kNamed, " more");
  refuse(place_, text("it holds files that this run would not write, and replacing it would delete them: ", names,
                      " (move them away, or choose another output)"));
}

void Output::remove_old_folder() const {
  std::error_code ignored;
  for (const fs::path& file : writes_) fs::remove(temporary_ / file, ignored);
  // Folders behind what they hold; only those that are empty by now go.
  std::set<fs::path, std::greater<>> folders{temporary_};
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) {
    if (entry.is_directory(ignored)) folders.insert(entry.path());
  }
  for (const fs::path& folder : folders) fs::remove(folder, ignored);
  if (fs::exists(temporary_)) {
    std::fprintf(stderr, "planck: files that appeared in the old output during the run are kept in %s\n",
                 in_quotes(temporary_.native()).c_str());
  }
}

void Output::publish() {
  throw_if_stopped();
  if (kind_ == Kind::Folder) {
    for (const auto& entry : fs::recursive_directory_iterator(temporary_)) {
      if (entry.is_directory()) sync_folder(entry.path());
    }
    sync_folder(temporary_);
    if (replaces_ && fs::exists(place_)) refuse_foreign_files();  // some may be new
  }
  // Replaced is only what was there when we looked: by an exchange, which shows what it was, so that it can be taken
  // back. Nothing else may be replaced, even if it appeared since; an empty folder is taken away by the rename itself.
  const auto rename_with = [&](unsigned flags) {
    return renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, place_.c_str(), flags);
  };
  bool exchange = replaces_.has_value();
  const bool empty_folder = !exchange && kind_ == Kind::Folder && fs::exists(place_);
  int result = rename_with(exchange ? RENAME_EXCHANGE : empty_folder ? 0U : RENAME_NOREPLACE);
  if (result != 0 && exchange && errno == ENOENT) {  // the old one is gone
    exchange = false;
    result = rename_with(RENAME_NOREPLACE);
  }
  if (result != 0 && errno == EINVAL &&
      (exchange ? kind_ == Kind::File && id_of(place_) == replaces_ : !id_of(place_))) {
    exchange = false;
    result = std::rename(temporary_.c_str(), place_.c_str());  // a file system without the flags
  }
  const bool taken = exchange && result == 0 && id_of(temporary_) != replaces_;
  if (taken && rename_with(RENAME_EXCHANGE) != 0) {
    published_ = true;  // what is under the temporary name is not ours to remove
    throw Failure(ExitCode::Io, text("another program wrote ", in_quotes(place_.native()),
                                     " while this one ran: its output is now ", in_quotes(temporary_.native())));
  }
  if (taken || (result != 0 && (errno == EEXIST || errno == ENOTEMPTY))) {
    throw Failure(ExitCode::Io, text("another program wrote ", in_quotes(place_.native()),
                                     " while this one ran: its output stays, and this one's was removed"));
  }
  if (result != 0) {
    throw Failure(ExitCode::Io, text("cannot put the output into ", in_quotes(place_.native()), ": ",
                                     std::strerror(errno), exchange ? " (remove the old one first)" : ""));
  }
  published_ = true;
  sync_folder(place_.parent_path());
  if (!exchange) return;
  std::error_code ignored;
  if (kind_ == Kind::File) {
    fs::remove(temporary_, ignored);
  } else {
    remove_old_folder();
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
  // A limit on the size of files is then an error of the write, like a full disk, and outputs are removed.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, nullptr);
}

void throw_if_stopped() {
  if (stopped_by != 0) throw Failure(ExitCode::Io, "stopped");
}

int stop_signal() noexcept { return stopped_by; }

}  // namespace planck::cli
