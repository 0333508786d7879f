// The reader of safetensors headers against files that lie, and the writer against the reader.
#include "checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "checkpoint/json.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

/// What a header with this much data behind it is refused with; empty if it is not.
std::string refusal(const std::string& json, std::uint64_t data_bytes) {
  try {
    parse_header(json, 8 + json.size(), 8 + json.size() + data_bytes, "file");
    return {};
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ExitCode::BadFile) << json;
    return failure.what();
  }
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

struct Hostile {
  std::string json;
  std::uint64_t data_bytes;
  std::string message;  ///< a part of it
};

TEST(SafetensorsHeader, HostileOnesAreRefusedByName) {
  const std::string good = tensor("F32", "[2]", "[0,8]");
  const std::vector<Hostile> table{
      {"", 0, "no JSON object"},
      {"[]", 0, "no JSON object"},
      {"{", 0, "no valid JSON"},
      {"{\"a\":" + good + "} x", 8, "no valid JSON"},
      {"{\"\xFF\":" + good + "}", 8, "no valid JSON"},
      {"{\"a\":5}", 0, "\"a\""},
      {"{\"a\":\"x\"}", 0, "\"a\""},
      {"{\"a\":[1]}", 0, "\"a\""},
      {"{\"a\":null}", 0, "\"a\""},
      {"{\"a\":true}", 0, "\"a\""},
      {"{\"a\":{}}", 0, "needs dtype"},
      {"{\"a\":{\"x\":{}}}", 0, "needs dtype"},
      {"{\"a\":" + good + "}" + std::string(2, '\0'), 8, "NUL"},
      {"{\"a\":" + good + "}" + std::string(1, '\0') + "rest", 8, "NUL"},
      {"{\"__metadata__\":[],\"a\":" + good + "}", 8, "a list"},
      {"{\"a\":" + tensor("F32", "[2]", "[-0,8]") + "}", 8, "negative"},
      {"{\"a\":{\"dtype\":[\"F32\"],\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "\"a\": a list"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "\"a\": a text"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "two members \"shape\""},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8, "\"a\": a list"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[0,8]}}", 8, "\"a\": an object"},
      {"{\"a\":" + good + ",\"a\":" + good + "}", 8, "\"a\": the name occurs twice"},
      {"{\"a\":" + tensor("F31", "[2]", "[0,8]") + "}", 8, "unknown type \"F31\""},
      {"{\"a\":" + tensor("F32", "[2]", "[0]") + "}", 8, "two numbers"},
      {"{\"a\":" + tensor("F32", "[2]", "[0,8,9]") + "}", 8, "two numbers"},
      {"{\"a\":" + tensor("F32", "[2]", "[8,0]") + "}", 8, "before it begins"},
      {"{\"a\":" + tensor("F32", "[2]", "[0,9]") + "}", 8, "it ends at 9, the data at 8"},
      {"{\"a\":" + tensor("F32", "[2]", "[0,18446744073709551615]") + "}", 8, "the number"},
      {"{\"a\":" + tensor("F32", "[2]", "[0,99999999999999999999999]") + "}", 8, "the number"},
      {"{\"a\":" + tensor("F32", "[3]", "[0,8]") + "}", 8, "needs 12"},
      {"{\"a\":" + tensor("F64", "[2]", "[0,8]") + "}", 8, "needs 16"},
      {"{\"a\":" + tensor("F32", "[-2]", "[0,8]") + "}", 8, "negative"},
      {"{\"a\":" + tensor("F32", "[2.0]", "[0,8]") + "}", 8, "the number 2.0"},
      {"{\"a\":" + tensor("F32", "[9223372036854775807,9223372036854775807]", "[0,8]") + "}", 8, "too many elements"},
      {"{\"a\":" + tensor("F32", "[4294967296,4294967296]", "[0,0]") + "}", 0, "too many elements"},
      {"{\"a\":" + tensor("F32", "[4611686018427387904]", "[0,0]") + "}", 0, "no whole number of bytes"},
      {"{\"a\":" + tensor("F32", "[0,9223372036854775807,2]", "[0,0]") + "}", 0, "too many elements"},
      {"{\"a\":" + tensor("F4", "[3]", "[0,1]") + "}", 1, "no whole number of bytes"},
      {"{\"a\":" + good + ",\"b\":" + tensor("F32", "[2]", "[4,12]") + "}", 12, "overlap those of \"a\""},
      {"{\"a\":" + good + ",\"b\":" + tensor("F32", "[2]", "[0,8]") + "}", 8, "overlap"},
      {"{\"a\":" + good + ",\"b\":" + tensor("F32", "[1]", "[12,16]") + "}", 16, "\"b\": 4 bytes before it"},
      {"{\"a\":" + good + "}", 9, "the file has 9"},
      {"{}", 1, "the file has 1"},
      {"{\"__metadata__\":{\"a\":5}}", 0, "a number"},
      {"{\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}}", 0, "two members"},
      {"{\"__metadata__\":{\"a\":{}}}", 0, "an object"},
      {"{\"\\u001b[2J\":5}", 0, "\"\\x1b[2J\""},  // names must not steer the terminal
  };
  for (const Hostile& each : table) {
    const std::string message = refusal(each.json, each.data_bytes);
    EXPECT_NE(message.find(each.message), std::string::npos) << each.json << "\n  was answered: " << message;
  }
}

TEST(SafetensorsHeader, DeepNestingIsRefusedWithoutRecursion) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep = "{\"a\":";
    for (int i = 0; i < 1'000'000; ++i) deep += open;
    EXPECT_FALSE(refusal(deep, 0).empty());
    EXPECT_THROW(parse_document(deep, "file"), Failure);
  }
}

TEST(SafetensorsHeader, LengthsThatLieAreRefused) {
  const std::string path = testing::TempDir() + "/lengths.safetensors";
  const auto refused = [&](const std::string& bytes) {
    std::remove(path.c_str());
    write_text(path, bytes);
    try {
      read_header(File::open(path));
    } catch (const Failure& failure) {
      return failure.code() == ExitCode::BadFile;
    }
    return false;
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("1234567"));
  EXPECT_TRUE(refused(std::string(8, '\0')));
  EXPECT_TRUE(refused(std::string(8, '\xFF')));
  EXPECT_TRUE(refused(std::string("\x03\0\0\0\0\0\0\0{}", 10)));
  EXPECT_TRUE(refused(std::string("\0\0\0\0\0\0\0\x80{}", 10)));
  EXPECT_FALSE(refused(std::string("\x02\0\0\0\0\0\0\0{}", 10)));
  std::remove(path.c_str());
}

TEST(SafetensorsHeader, ExtentsOfZeroAndOneAreRead) {
  const std::string json = "{\"a\":" + tensor("F32", "[]", "[0,4]") + ",\"b\":" + tensor("I8", "[0,7]", "[4,4]") +
                           ",\"c\":" + tensor("F16", "[1,1]", "[4,6]") + ",\"__metadata__\":{\"k\":\"v\"}}  ";
  const Header header = parse_header(json, 100, 106, "file");
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].elements, 1);
  EXPECT_EQ(header.tensors[1].elements, 0);
  EXPECT_EQ(header.tensors[2].begin, 104U);
  EXPECT_EQ(header.metadata, (Metadata{{"k", "v"}}));
}

TEST(SafetensorsWriter, LaysOutAlignedAndReadsBack) {
  std::vector<TensorInfo> tensors{new_tensor("codes\n\"ä", *dtype_of("I8"), {3, 5}),
                                  new_tensor("scale", *dtype_of("F32"), {3, 1}),
                                  new_tensor("half", *dtype_of("F16"), {3}), new_tensor("wide", *dtype_of("F64"), {})};
  const Metadata metadata{{"format", "pt"}, {"quote\"", "\x01"}};
  const std::string bytes = lay_out(tensors, metadata);
  EXPECT_EQ(bytes.size() % 8, 0U);
  for (const TensorInfo& each : tensors)
    EXPECT_EQ(each.begin % static_cast<std::uint64_t>(each.dtype.bits / 8), 0U) << each.name;
  const Header back =
      parse_header(std::string_view(bytes).substr(8), bytes.size(), bytes.size() + 15 + 12 + 6 + 8, "file");
  EXPECT_EQ(back.metadata, metadata);
  ASSERT_EQ(back.tensors.size(), 4U);
  EXPECT_EQ(back.tensors[0].name, "wide");
  EXPECT_EQ(back.tensors[3].name, tensors[0].name);
  EXPECT_EQ(back.tensors[3].begin, tensors[0].begin);
}

TEST(Json, MembersAreAddedAndTakenAwayByText) {
  for (const std::string before :
       {"{}", "{\"a\": 1e-05}\n", "{\n  \"a\": [1, {\"quantization_config\": 3}],\n  \"b\": \"}\"\n}\n", " { } "}) {
    const std::string with = with_member(before, "quantization_config", "{\"x\": [1, 2]}");
    ASSERT_NE(parse_document(with, "file").find("quantization_config"), nullptr) << with;
    std::string back = with;
    const MemberRange range = find_member(with, "quantization_config");
    back.erase(range.begin, range.end - range.begin);
    EXPECT_EQ(parse_document(back, "file").find("quantization_config"), nullptr);
    if (before.find('a') != std::string::npos) {
      EXPECT_EQ(back, before);
    }
  }
  const std::string first = "{\"q\": {\"a\": \"\\\"}\"}, \"b\": 2}";
  std::string back = first;
  const MemberRange range = find_member(first, "q");
  EXPECT_EQ(back.erase(range.begin, range.end - range.begin), "{\"b\": 2}");
}

}  // namespace
}  // namespace planck::cli
