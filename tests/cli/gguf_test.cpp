// The reader of GGUF headers against files that lie, and what it makes of those that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/hugging_face.hpp"
#include "gguf/header.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

gguf::Fetch fetch_from(const std::string& bytes) {
  return [&](std::span<std::byte> to, std::uint64_t offset) {
    ASSERT_LE(offset, bytes.size());
    ASSERT_LE(to.size(), bytes.size() - offset);
    std::memcpy(to.data(), bytes.data() + offset, to.size());
  };
}

gguf::Header read(const std::string& bytes) { return gguf::read_header(fetch_from(bytes), bytes.size(), "file"); }

/// What a file is refused with; empty if it is not.
std::string refusal(const std::string& bytes) {
  try {
    read(bytes);
    return {};
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ExitCode::BadFile);
    return failure.what();
  }
}

template <class T>
std::string number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::string u32(std::uint32_t value) { return number(value); }
std::string u64(std::uint64_t value) { return number(value); }
std::string text_of(const std::string& value) { return u64(value.size()) + value; }

std::string pair(const std::string& key, std::uint32_t type, const std::string& value) {
  return text_of(key) + u32(type) + value;
}
std::string list(std::uint32_t type, std::uint64_t count, const std::string& items) {
  return u32(type) + u64(count) + items;
}
std::string tensor(const std::string& name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                   std::uint64_t offset) {
  std::string bytes = text_of(name) + u32(static_cast<std::uint32_t>(extents.size()));
  for (const std::uint64_t extent : extents) bytes += u64(extent);
  return bytes + u32(type) + u64(offset);
}

/// A file of these parts with `data` bytes of tensors behind them.
std::string file(const std::vector<std::string>& pairs, const std::vector<std::string>& tensors, std::size_t data,
                 std::size_t alignment = 32) {
  std::string bytes = "GGUF" + u32(3) + u64(tensors.size()) + u64(pairs.size());
  for (const std::string& each : pairs) bytes += each;
  for (const std::string& each : tensors) bytes += each;
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  return bytes + std::string(data, '\x01');
}

struct Hostile {
  std::string bytes;
  std::string message;  ///< a part of it
};

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4 = 2;

TEST(GgufHeader, HostileOnesAreRefusedByName) {
  const std::string counts = u64(0) + u64(0);
  const std::string good = tensor("a", {8}, kF32, 0);
  const std::vector<Hostile> table{
      {"", "begins with \"\", not \"GGUF\""},
      {"GGU", "begins with \"GGU\""},
      {"GGML" + u32(1), "begins with \"GGML\""},
      {"GGUF", "the header: 4 bytes at 4, where 0 are left"},
      {"GGUF" + u32(3), "8 bytes at 8, where 0 are left"},
      {"GGUF" + u32(1) + counts, "version 1 of GGUF; 2 and 3 are read"},
      {"GGUF" + u32(4) + counts, "version 4"},
      {"GGUF" + u32(0x03000000) + counts, "big-endian"},
      {"GGUF" + u32(3) + u64(1) + u64(0), "1 tensors of at least 24 bytes each, where 0 are left"},
      {"GGUF" + u32(3) + u64(1ULL << 63) + u64(0), "9223372036854775808 tensors, where at most 262144"},
      {"GGUF" + u32(3) + u64(0) + u64(~0ULL), "18446744073709551615 keys, where at most 65536"},
      {"GGUF" + u32(3) + u64(0) + u64(2) + std::string(20, '\0'), "2 keys of at least 13 bytes each"},
      {file({u64(~0ULL) + "key" + std::string(16, ' ')}, {}, 0), "key 1 of 1: a text of 18446744073709551615 bytes"},
      {file({u64(60000) + "key" + std::string(16, ' ')}, {}, 0), "key 1 of 1: 60000 bytes at 32"},
      {file({pair("\xFF", 4, u32(1))}, {}, 0), "key 1 of 1: \"\\xff\" is no UTF-8"},
      {file({pair("k", 13, u32(1))}, {}, 0), "the value of \"k\": the unknown type 13"},
      {file({pair("k", 7, "\x02")}, {}, 0), "\"k\": the byte 2 where true (1) or false (0) belongs"},
      {file({pair("k", 8, u64(1 << 20))}, {}, 64), "\"k\": 1048576 bytes at "},
      {file({pair("k", 4, u32(1)), pair("k", 4, u32(1))}, {}, 0), "\"k\": the key occurs twice"},
      {file({pair("k", 9, list(9, 1, list(4, 1, u32(1))))}, {}, 0), "\"k\": a list of lists"},
      {file({pair("k", 9, list(4, 1ULL << 62, u32(1)))}, {}, 99), "4611686018427387904 items of at least 4 bytes"},
      {file({pair("k", 9, list(8, 1ULL << 60, u32(1)))}, {}, 99), "items of at least 8 bytes"},
      {file({pair("k", 9, list(8, 6, text_of("") + text_of("") + text_of("") + text_of("") + u64(1 << 30)))}, {}, 99),
       "\"k\": a text of 1073741824 bytes, where at most 100000000 are allowed"},
      {file({pair("k", 9, list(7, 6, std::string("\0\1\0\1\0\3", 6)))}, {}, 0), "\"k\": the byte 3"},
      {file({pair("k", 9, list(99, 0, ""))}, {}, 0), "\"k\": the unknown type 99"},
      {file({pair("general.alignment", 10, u64(32))}, {}, 0), "\"general.alignment\": it has another type than U32"},
      {file({pair("general.alignment", 4, u32(0))}, {}, 0), "0 is no power of two"},
      {file({pair("general.alignment", 4, u32(48))}, {}, 0), "48 is no power of two"},
      {file({pair("general.alignment", 4, u32(1U << 31))}, {}, 0), "2147483648 is more than 1048576"},
      {file({}, {good, good}, 64), "tensor \"a\": the name occurs twice"},
      {file({}, {tensor("\xC0", {8}, kF32, 0)}, 64), "tensor 1 of 1: \"\\xc0\" is no UTF-8"},
      {file({}, {tensor("\x1b[2J", {8}, 77, 0)}, 64), "tensor \"\\x1b[2J\": the unknown type 77"},
      {file({}, {tensor("a", {1, 1, 1, 1, 1}, kF32, 0)}, 64), "\"a\": 5 axes, where at most 4"},
      {file({}, {tensor("a", {1ULL << 63}, kF32, 0)}, 64), "\"a\": the extent 9223372036854775808"},
      {file({}, {tensor("a", {1ULL << 32, 1ULL << 31}, kF32, 0)}, 64), "\"a\": too many elements"},
      {file({}, {tensor("a", {0, 1ULL << 62, 2}, kF32, 0)}, 64), "\"a\": too many elements"},
      {file({}, {tensor("a", {1ULL << 61}, kF32, 0)}, 64), "more bytes than 63 bits can count"},
      {file({}, {tensor("a", {33}, kQ4, 0)}, 64), "rows of 33 elements are no whole number of Q4_0's blocks of 32"},
      {file({}, {tensor("a", {}, kQ4, 0)}, 64), "rows of 1 elements"},
      {file({}, {tensor("a", {2, 32}, kQ4, 0)}, 64), "rows of 2 elements"},
      {file({}, {tensor("a", {32}, 4, 0)}, 64), "the type Q4_2, which ggml has given up"},
      {file({}, {good}, 31), "\"a\": its 32 bytes from 0 on leave the file, which has 31 bytes of tensors"},
      {file({}, {tensor("a", {8}, kF32, 64)}, 64), "\"a\": its 32 bytes from 64 on leave the file"},
      {file({}, {tensor("a", {8}, kF32, ~0ULL - 31)}, 64), "from 18446744073709551584 on leave the file"},
      {file({}, {tensor("a", {8}, kF32, 8)}, 64), "its offset 8 is no multiple of the alignment 32"},
      {file({}, {tensor("a", {8}, kF32, 32)}, 64), "it begins at 32; the bytes from 0 on belong to no tensor"},
      {file({}, {good, tensor("b", {8}, kF32, 0)}, 64), "\"b\": its bytes from 0 on overlap those of \"a\""},
      {file({}, {good, tensor("b", {8}, kF32, 64)}, 96), "\"b\": it begins at 64; the bytes from 32 on"},
      {file({}, {tensor("a", {0}, kF32, 64)}, 96), "\"a\": it begins at 64"},
  };
  for (const Hostile& each : table) {
    const std::string message = refusal(each.bytes);
    EXPECT_NE(message.find(each.message), std::string::npos) << each.message << "\n  was answered: " << message;
  }
}

TEST(GgufHeader, EveryTruncationIsRefused) {
  const std::string whole = file({pair("a", 8, text_of("text")), pair("b", 9, list(8, 2, text_of("x") + text_of("y"))),
                                  pair("general.alignment", 4, u32(64))},
                                 {tensor("t", {32, 2}, kQ4, 0), tensor("u", {3}, kF32, 64)}, 76, 64);
  EXPECT_EQ(refusal(whole), "");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "") << length;
  }
}

TEST(GgufHeader, LongListsAreReadInPieces) {
  std::string tokens;
  for (int i = 0; i < 50'000; ++i) tokens += text_of("token " + std::to_string(i));
  const gguf::Header header = read(file({pair("tokens", 9, list(8, 50'000, tokens)), pair("n", 5, u32(7))}, {}, 0));
  EXPECT_EQ(header.find("tokens")->text, "50000 items: token 0, token 1, token 2, token 3, …");
  EXPECT_EQ(header.find("n")->natural, 7U);
}

TEST(GgufHeader, ValuesShapesAndPlacesAreRead) {
  const gguf::Header header = read(
      file({pair("general.alignment", 4, u32(64)), pair("eps", 6, number(1e-5F)), pair("less", 11, u64(~0ULL)),
            pair("list", 9, list(4, 1, u32(7))), pair("yes", 7, "\x01")},
           {tensor("empty", {0, 3}, kF32, 0), tensor("q", {64, 2}, kQ4, 0), tensor("one", {}, kF32, 128)}, 132, 64));
  EXPECT_EQ(header.version, 3U);
  EXPECT_EQ(header.alignment, 64U);
  EXPECT_EQ(header.find("eps")->text, "1e-05");
  EXPECT_EQ(header.find("less")->text, "-1");
  EXPECT_FALSE(header.find("less")->natural);
  EXPECT_EQ(header.find("list")->text, "1 item: 7");
  EXPECT_EQ(header.find("yes")->text, "true");
  EXPECT_EQ(header.find("no"), nullptr);
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].shape, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::int64_t>{2, 64}));
  EXPECT_EQ(header.tensors[1].bytes, 4U * 18);
  EXPECT_EQ(header.tensors[1].begin % 64, 0U);
  EXPECT_EQ(header.tensors[2].begin, header.tensors[1].begin + 128);
  EXPECT_EQ(header.tensors[2].elements, 1);
}

TEST(GgufBlocks, TheTableIsInOrderAndItsBlocksFitAPiece) {
  std::uint32_t before = 0;
  for (const gguf::BlockType& type : gguf::block_types()) {
    EXPECT_TRUE(type.number == 0 || type.number > before) << type.name;
    before = type.number;
    EXPECT_EQ(gguf::block_type(type.number), &type);
    EXPECT_FALSE(type.decodes() && !type.plain.empty()) << type.name;
    if (type.elements > 0) {
      EXPECT_EQ((1 << 17) % type.elements, 0) << type.name;
    }
  }
  EXPECT_EQ(gguf::block_type(99), nullptr);
}

TEST(GgufBlocks, KnownBlocksAreDecoded) {
  // d = 0.5, codes 0x?8 and 0x0?: elements 0 to 15 are 8 - 8, 16 to 31 are 15 - 8.
  std::string block = number(std::uint16_t{0x3800}) + std::string(16, '\xF8');
  std::vector<float> to(32);
  gguf::block_type(kQ4)->decode(reinterpret_cast<const std::byte*>(block.data()), 1, to.data());
  EXPECT_EQ(to, [] {
    std::vector<float> expected(16, 0.0F);
    expected.resize(32, 3.5F);
    return expected;
  }());
  // Infinity times zero is the one NaN.
  block[1] = '\x7C';
  block[0] = '\0';
  gguf::block_type(kQ4)->decode(reinterpret_cast<const std::byte*>(block.data()), 1, to.data());
  std::uint32_t bits = 0;
  std::memcpy(&bits, to.data(), sizeof bits);
  EXPECT_EQ(bits, 0x7FC00000U);
  EXPECT_EQ(to[31], std::numeric_limits<float>::infinity());
}

TEST(HuggingFaceNames, WhatIsMissingIsRefusedByName) {
  const auto refused = [](const std::vector<std::string>& pairs, const std::string& message) {
    try {
      const std::string bytes = file(pairs, {}, 0);
      hugging_face_of(read(bytes), fetch_from(bytes), "file");
      ADD_FAILURE() << message;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), ExitCode::Refused);
      EXPECT_NE(std::string(failure.what()).find(message), std::string::npos) << failure.what();
    }
  };
  const std::string llama = pair("general.architecture", 8, text_of("llama"));
  const std::string layers = pair("llama.block_count", 4, u32(1));
  const std::string width = pair("llama.embedding_length", 4, u32(6));
  refused({}, "the architecture \"\"");
  refused({pair("general.architecture", 8, text_of("gpt2"))}, "the architecture \"gpt2\"");
  refused({llama}, "\"llama.block_count\" is missing");
  refused({llama, pair("llama.block_count", 4, u32(0))}, "\"llama.block_count\" = \"0\" is no number from 1");
  refused({llama, pair("llama.block_count", 6, number(1.0F))}, "\"llama.block_count\" = \"1\" is no number from 1");
  refused({llama, layers, width, pair("llama.attention.head_count", 9, list(4, 1, u32(2)))}, "\"1 item: 2\"");
  refused({llama, layers, width, pair("llama.attention.head_count", 4, u32(4))}, "4 heads do not divide the width 6");
  refused({llama, layers, width, pair("llama.attention.head_count", 4, u32(2))}, "\"token_embd.weight\" is missing");
  refused({llama, pair("llama.logit_scale", 6, number(2.0F))}, "config.json cannot say \"llama.logit_scale\" = \"2\"");
}

}  // namespace
}  // namespace planck::cli
