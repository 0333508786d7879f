#include "checkpoint/json.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "terminal/failure.hpp"
#include "terminal/unicode.hpp"

namespace planck::cli {
namespace {

/// nlohmann's events, handed on; counts the nesting.
class Events {
 public:
  Events(const std::string& what, JsonHandler& handler, int max_depth)
      : what_(what), handler_(handler), max_depth_(max_depth) {}

  bool null() { return handler_.null(), true; }
  bool boolean(bool value) { return handler_.boolean(value), true; }
  /// Only of numbers with a minus sign, "-0" among them.
  bool number_integer(std::int64_t value) {
    handler_.integer(std::uint64_t{0} - static_cast<std::uint64_t>(value), true);
    return true;
  }
  bool number_unsigned(std::uint64_t value) { return handler_.integer(value, false), true; }
  bool number_float(double value, const std::string& spelling) { return handler_.real(value, spelling), true; }
  bool string(std::string& value) { return handler_.text(value), true; }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool key(std::string& name) { return handler_.key(name), true; }
  bool start_object(std::size_t) { return deeper(), handler_.begin_object(), true; }
  bool end_object() { return --depth_, handler_.end_object(), true; }
  bool start_array(std::size_t) { return deeper(), handler_.begin_array(), true; }
  bool end_array() { return --depth_, handler_.end_array(), true; }
  [[noreturn]] bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    throw Failure(ExitCode::BadFile, cli::text(what_, ": no valid JSON at byte ", position));
  }

 private:
  void deeper() {
    if (++depth_ > max_depth_) {
      throw Failure(ExitCode::BadFile, cli::text(what_, ": JSON nested deeper than ", max_depth_, " levels"));
    }
  }

  const std::string& what_;
  JsonHandler& handler_;
  int max_depth_;
  int depth_ = 0;
};

/// Builds a document. Open values are kept as a path of indices, since parents move while they grow.
class DocumentBuilder final : public JsonHandler {
 public:
  void begin_object() override { open(Json::Kind::Object); }
  void begin_array() override { open(Json::Kind::Array); }
  void end_object() override { close(); }
  void end_array() override { close(); }
  void key(std::string& name) override { keys_.back() = std::move(name); }
  void text(std::string& value) override {
    Json json;
    json.kind = Json::Kind::Text;
    json.text = std::move(value);
    put(std::move(json));
  }
  void integer(std::uint64_t magnitude, bool negative) override {
    const auto value = static_cast<double>(magnitude);
    number(Json::Kind::Integer, negative ? -value : value);
  }
  void real(double value, const std::string&) override { number(Json::Kind::Real, value); }
  void boolean(bool value) override {
    Json json;
    json.kind = Json::Kind::Boolean;
    json.boolean = value;
    put(std::move(json));
  }
  void null() override { put({}); }

  Json take() { return std::move(root_); }

 private:
  void number(Json::Kind kind, double value) {
    Json json;
    json.kind = kind;
    json.number = value;
    put(std::move(json));
  }
  void open(Json::Kind kind) {
    open_.emplace_back().kind = kind;
    keys_.emplace_back();
  }
  void close() {
    Json done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    put(std::move(done));
  }
  void put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().kind == Json::Kind::Array) {
      open_.back().items.push_back(std::move(value));
    } else {
      open_.back().names.push_back(keys_.back());
      open_.back().items.push_back(std::move(value));
    }
  }

  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;
};

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
  return at;
}

/// The end of the string that begins at the quotation mark `at`.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

/// The end of the value that begins at `at`, in valid JSON.
std::size_t skip_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0) return at;  // the end of the object around a number or a word
      if (--depth == 0) return at + 1;
    }
    if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r')) return at;
    ++at;
  }
  return at;
}

}  // namespace

void parse_json(std::string_view source, const std::string& what, JsonHandler& handler, int max_depth) {
  // nlohmann takes a NUL for the end of the text, whatever follows it.
  if (const std::size_t nul = source.find('\0'); nul != std::string_view::npos) {
    throw Failure(ExitCode::BadFile, text(what, ": no valid JSON at byte ", nul + 1, ", which is NUL"));
  }
  Events events(what, handler, max_depth);
  nlohmann::json::sax_parse(source.begin(), source.end(), &events);
}

const Json* Json::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return &items[i];
  }
  return nullptr;
}

Json parse_document(std::string_view source, const std::string& what) {
  DocumentBuilder builder;
  parse_json(source, what, builder);
  return builder.take();
}

MemberRange find_member(std::string_view object, std::string_view name) {
  std::size_t at = skip_blanks(object, 0) + 1;
  std::size_t comma = std::string_view::npos;  // the one before the member
  for (;;) {
    const std::size_t begin = skip_blanks(object, at);
    if (begin >= object.size() || object[begin] != '"') return {};
    const std::size_t key_end = skip_string(object, begin);
    const std::size_t value = skip_blanks(object, skip_blanks(object, key_end) + 1);
    const std::size_t end = skip_value(object, value);
    const std::size_t next = skip_blanks(object, end);
    const bool last = next >= object.size() || object[next] != ',';
    if (object.substr(begin + 1, key_end - begin - 2) == name) {
      if (comma != std::string_view::npos) return {comma, end};
      return {begin, last ? end : skip_blanks(object, next + 1)};
    }
    if (last) return {};
    comma = next;
    at = next + 1;
  }
}

std::string with_member(std::string_view object, std::string_view name, std::string_view value) {
  const std::size_t close = object.rfind('}');
  std::size_t end = close;
  while (end > 0 && skip_blanks(object, end - 1) == close) --end;  // behind the last member, or behind the brace
  const bool empty = object[end - 1] == '{';
  return text(object.substr(0, end), empty ? "\n  " : ",\n  ", json_string(name), ": ", value, empty ? "\n" : "",
              object.substr(end));
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    const char32_t code = utf8_code(text.substr(i, length));
    if (code == '"' || code == '\\') out += '\\';
    if (!is_hidden(code)) {
      out.append(text, i, length);
    } else {
      char escaped[16];
      const auto wide = static_cast<unsigned>(code);
      const unsigned beyond = wide - 0x10000U;
      wide < 0x10000U ? std::snprintf(escaped, sizeof escaped, "\\u%04x", wide)
                      : std::snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xD800U + (beyond >> 10),
                                      0xDC00U + (beyond & 0x3FFU));
      out += escaped;
    }
    i += length;
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view value) {
  body_ += body_.empty() ? "{" : ", ";
  body_ += json_string(name);
  body_ += ": ";
  body_ += value;
  return *this;
}

JsonArray& JsonArray::raw(std::string_view value) {
  body_ += body_.empty() ? "[" : ", ";
  body_ += value;
  return *this;
}

std::string json_array(const std::vector<std::int64_t>& numbers) {
  JsonArray array;
  for (const std::int64_t number : numbers) array.raw(std::to_string(number));
  return array.str();
}

std::string json_array(const std::vector<std::string>& texts) {
  JsonArray array;
  for (const std::string& each : texts) array.raw(json_string(each));
  return array.str();
}

}  // namespace planck::cli
