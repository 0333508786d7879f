// Reads numbers and texts one after the other from a file of which only so many bytes may be read.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "gguf/header.hpp"
#include "terminal/failure.hpp"

namespace planck::cli::gguf {

class Reader {
 public:
  Reader(const Fetch& fetch, std::uint64_t file_bytes, const std::string& file)
      : fetch_(fetch), file_bytes_(file_bytes), end_(std::min(file_bytes, kMaxHeaderBytes)), file_(file) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::uint64_t left() const noexcept { return end_ - position_; }

  /// What is being read, for messages: `the value of "a.b"`.
  void now(std::string what) { what_ = std::move(what); }
  [[noreturn]] void bad(const std::string& why) const {
    throw Failure(ExitCode::BadFile, cli::text(file_, ": ", what_, what_.empty() ? "" : ": ", why));
  }

  /// A little-endian number.
  template <class T>
  T number() {
    std::array<std::byte, sizeof(T)> bytes{};
    read(bytes);
    if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  /// A length and so many bytes.
  std::string text(std::uint64_t limit) {
    const std::uint64_t length = text_length(limit);
    std::string value(length, '\0');
    read(std::as_writable_bytes(std::span(value)));
    return value;
  }
  void skip_text() { skip(text_length(kMaxHeaderBytes)); }
  void skip(std::uint64_t bytes) {
    need(bytes);
    position_ += bytes;
  }

  /// `count` things of at least so many bytes each must fit what is left.
  void need_all(std::uint64_t count, std::uint64_t bytes_each, const char* things) const {
    if (count > left() / bytes_each) {
      bad(cli::text(count, " ", things, " of at least ", bytes_each, " bytes each, where ", left(), " are left",
                    limit_text()));
    }
  }

 private:
  const char* limit_text() const noexcept { return end_ < file_bytes_ ? " of the 100000000 that are allowed" : ""; }
  void need(std::uint64_t bytes) const {
    if (bytes > left()) {
      bad(cli::text(bytes, " bytes at ", position_, ", where ", left(), " are left", limit_text()));
    }
  }
  std::uint64_t text_length(std::uint64_t limit) {
    const auto length = number<std::uint64_t>();
    if (length > limit) bad(cli::text("a text of ", length, " bytes, where at most ", limit, " are allowed"));
    need(length);
    return length;
  }
  void read(std::span<std::byte> to) {
    need(to.size());
    while (!to.empty()) {
      if (position_ < begin_ || position_ >= begin_ + held_) {
        begin_ = position_;
        held_ = std::min<std::uint64_t>(buffer_.size(), left());
        fetch_(std::span(buffer_).first(held_), begin_);
      }
      const std::size_t count = std::min<std::uint64_t>(to.size(), begin_ + held_ - position_);
      std::memcpy(to.data(), buffer_.data() + (position_ - begin_), count);
      to = to.subspan(count);
      position_ += count;
    }
  }

  const Fetch& fetch_;
  std::uint64_t file_bytes_;
  std::uint64_t end_;
  const std::string& file_;
  std::string what_;
  std::uint64_t position_ = 0;
  std::uint64_t begin_ = 0;  ///< of what the buffer holds
  std::uint64_t held_ = 0;
  std::array<std::byte, 1 << 16> buffer_;
};

}  // namespace planck::cli::gguf
