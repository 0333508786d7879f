// Files: positioned reads and writes that are whole or fail, and outputs that appear at once or not at all.
//
// Nothing is mapped: a mapped file that another process truncates would end this one. An output is written under a
// temporary name next to its place, synced, and renamed, so that killing the program at any time leaves the old state
// or the new one. Inputs are known by device and inode; no output may replace one, by whatever name.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planck::cli {

namespace fs = std::filesystem;

/// What a file is, whatever it is called.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileId&) const = default;
};

class File {
 public:
  File() = default;
  /// An existing regular file.
  static File open(const fs::path& path);
  /// A new file; fails if the name is taken.
  static File create(const fs::path& path);
  File(File&& other) noexcept { swap(other); }
  File& operator=(File&& other) noexcept {
    swap(other);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const fs::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }  ///< when it was opened
  FileId id() const noexcept { return id_; }

  /// All bytes of `to` from `offset` on; thread-safe, as are the other two.
  void read(std::span<std::byte> to, std::uint64_t offset) const;
  void write(std::span<const std::byte> from, std::uint64_t offset) const;
  /// Tells the system that these bytes will be read soon.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  /// Starts writing these bytes to the disk, so that `sync` has less to wait for.
  void start_writing(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void resize(std::uint64_t bytes) const;
  void sync() const;

 private:
  void swap(File& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    std::swap(id_, other.id_);
    std::swap(path_, other.path_);
  }

  int fd_ = -1;
  std::uint64_t size_ = 0;
  FileId id_;
  fs::path path_;
};

/// The whole of a small text file; a Failure (BadFile) if it has more than `limit` bytes.
std::string read_text(const File& file, std::uint64_t limit);
/// A new, synced file with these bytes.
void write_text(const fs::path& path, std::string_view contents);

/// A path with all links followed as far as they lead, so that the target is replaced and the link stays.
fs::path resolved(const fs::path& place);

/// An output on its way: a file, or a folder with everything in it.
class Output {
 public:
  enum class Kind { File, Folder };
  /// Settles where the output goes, and refuses (Usage) what exists without `force`, what is an input or holds one,
  /// and, with `force`, a folder that is no checkpoint or holds other files than `writes`, those that this one will
  /// hold (relative to it). Makes the temporary folder; a temporary file is the caller's.
  Output(const fs::path& place, Kind kind, bool force, const std::vector<fs::path>& inputs,
         std::set<fs::path> writes = {});
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();  ///< removes what was not published

  /// Where to write: the temporary file or folder.
  const fs::path& temporary() const noexcept { return temporary_; }
  const fs::path& place() const noexcept { return place_; }
  /// Syncs the folders and puts the output in its place; a Failure if another program wrote there meanwhile.
  void publish();

 private:
  void refuse_foreign_files() const;
  void remove_old_folder() const;

  fs::path place_;
  fs::path temporary_;
  Kind kind_;
  std::set<fs::path> writes_;
  std::optional<FileId> replaces_;  ///< what was there and is not empty
  bool published_ = false;
};

/// A file next to its place, then in it, for outputs made of one text.
void publish_text(const fs::path& place, bool force, const std::vector<fs::path>& inputs, std::string_view contents);

/// Ctrl-C, SIGTERM or SIGHUP makes `throw_if_stopped` end the command as a Failure would, so that outputs are removed.
/// The second Ctrl-C or SIGTERM ends the program where it is, for whatever does not come to the next check.
void stop_on_signals();
void throw_if_stopped();
int stop_signal() noexcept;

}  // namespace planck::cli
