#include "checkpoint/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

[[noreturn]] void fail_io(const char* doing, const fs::path& path) {
  const int error = errno;
  throw Failure(ExitCode::Io, text(doing, " ", in_quotes(path.native()), ": ", std::strerror(error)));
}

/// The most that one call moves; larger ones are cut by some systems.
constexpr std::size_t kLargestCall = std::size_t{64} << 20;

}  // namespace

File File::open(const fs::path& path) {
  File file;
  file.path_ = path;
  // Without O_NONBLOCK a pipe in the place of a file would wait for a writer for ever.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) fail_io("cannot open", path);
  struct stat status {};
  if (fstat(file.fd_, &status) != 0) fail_io("cannot look at", path);
  if (!S_ISREG(status.st_mode)) throw Failure(ExitCode::Io, text(in_quotes(path.native()), " is no regular file"));
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  file.id_ = {status.st_dev, status.st_ino};
  return file;
}

File File::create(const fs::path& path) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.fd_ < 0) fail_io("cannot create", path);
  return file;
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

void File::read(std::span<std::byte> to, std::uint64_t offset) const {
  while (!to.empty()) {
    const ssize_t got = pread(fd_, to.data(), std::min(to.size(), kLargestCall), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io("cannot read", path_);
    if (got == 0)
      throw Failure(ExitCode::BadFile, text(in_quotes(path_.native()), " became shorter while it was read"));
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void File::write(std::span<const std::byte> from, std::uint64_t offset) const {
  while (!from.empty()) {
    const ssize_t put = pwrite(fd_, from.data(), std::min(from.size(), kLargestCall), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_io("cannot write", path_);
    from = from.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void File::will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (offset >= size_) return;
  posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(std::min(bytes, size_ - offset)),
                POSIX_FADV_WILLNEED);
}

void File::start_writing(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

void File::resize(std::uint64_t bytes) const {
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail_io("cannot make room for", path_);
}

void File::sync() const {
  if (fsync(fd_) != 0) fail_io("cannot write", path_);
}

std::string read_text(const File& file, std::uint64_t limit) {
  if (file.size() > limit) {
    throw Failure(ExitCode::BadFile, text(in_quotes(file.path().native()), " has ", file.size(),
                                          " bytes, more than the ", limit, " allowed"));
  }
  std::string contents(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(contents)), 0);
  return contents;
}

void write_text(const fs::path& path, std::string_view contents) {
  const File file = File::create(path);
  file.write(std::as_bytes(std::span(contents)), 0);
  file.sync();
}

}  // namespace planck::cli
