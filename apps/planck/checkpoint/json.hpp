// JSON in and out, as far as checkpoints need it: events, a small document, and writing.
//
// nlohmann-json does the parsing, in json.cpp alone (it costs many seconds of compile time a file). Parsing needs no
// recursion, and nesting beyond a limit is refused, so no file can exhaust the stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planck::cli {

/// What a parser meets, in the text's order. A handler that does not like it throws.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void key(std::string& name) = 0;
  virtual void text(std::string& value) = 0;
  virtual void integer(std::uint64_t magnitude, bool negative) = 0;
  virtual void real(double value, const std::string& spelling) = 0;
  virtual void boolean(bool value) = 0;
  virtual void null() = 0;
};

inline constexpr int kMaxJsonDepth = 64;

/// Parses all of `source`; a Failure (BadFile) that begins with `what` if it is no JSON or nested too deeply.
void parse_json(std::string_view source, const std::string& what, JsonHandler& handler, int max_depth = kMaxJsonDepth);

/// A parsed document, for small files.
struct Json {
  enum class Kind { Null, Boolean, Integer, Real, Text, Array, Object };
  Kind kind = Kind::Null;
  bool boolean = false;
  double number = 0;               ///< Integer and Real
  std::string text;                ///< Text
  std::vector<Json> items;         ///< Array, and the values of an Object
  std::vector<std::string> names;  ///< of an Object's items

  /// The member of an object, or null.
  const Json* find(std::string_view name) const noexcept;
  bool is_true() const noexcept { return kind == Kind::Boolean && boolean; }
};

Json parse_document(std::string_view source, const std::string& what);

/// Where a member of the outermost object lies in valid JSON, with the comma that ties it to its neighbours.
struct MemberRange {
  std::size_t begin = 0;
  std::size_t end = 0;  ///< begin == end: there is no such member
};
MemberRange find_member(std::string_view object, std::string_view name);

/// The same object with one more member at its end; everything else keeps its bytes.
std::string with_member(std::string_view object, std::string_view name, std::string_view value);

/// "text" with what JSON wants escaped, and all that `is_hidden`; broken UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
/// Seventeen digits, so that the number comes back; null if it is not finite.
std::string json_number(double value);

/// Builds an object or an array member by member: JsonObject().add("a", 1).add("b", "x").str().
class JsonObject {
 public:
  JsonObject& raw(std::string_view name, std::string_view value);
  JsonObject& add(std::string_view name, std::string_view value) { return raw(name, json_string(value)); }
  JsonObject& add(std::string_view name, const char* value) { return raw(name, json_string(value)); }
  JsonObject& add(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  JsonObject& add(std::string_view name, double value) { return raw(name, json_number(value)); }
  JsonObject& add(std::string_view name, int value) { return raw(name, std::to_string(value)); }
  JsonObject& add(std::string_view name, std::int64_t value) { return raw(name, std::to_string(value)); }
  JsonObject& add(std::string_view name, std::uint64_t value) { return raw(name, std::to_string(value)); }
  std::string str() const { return body_.empty() ? "{}" : body_ + "}"; }

 private:
  std::string body_;
};

class JsonArray {
 public:
  JsonArray& raw(std::string_view value);
  std::string str() const { return body_.empty() ? "[]" : body_ + "]"; }

 private:
  std::string body_;
};

std::string json_array(const std::vector<std::int64_t>& numbers);
std::string json_array(const std::vector<std::string>& texts);

}  // namespace planck::cli
