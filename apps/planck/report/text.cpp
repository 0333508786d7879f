// Texts and numbers of the HTML report. A checkpoint's names come from strangers: whatever could end an element or
// attribute, hide itself or turn the direction of the text is made visible here, in one place.
#include "report/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "terminal/unicode.hpp"

namespace planck::cli {
namespace {

template <class... Args>
std::string printed(const char* format, Args... args) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, args...);
  return buffer.data();
}

/// What is shown instead of digits, or nothing for a finite number.
std::string_view no_digits(double value) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  return {};
}

/// A minus sign as wide as the digits.
std::string with_minus(std::string digits) {
  for (std::size_t at = digits.find('-'); at != std::string::npos; at = digits.find('-', at + 1)) {
    digits.replace(at, 1, "−");
  }
  return digits;
}

/// What shows each character of the text, in HTML.
std::vector<std::string> html_characters(std::string_view text) {
  std::vector<std::string> result;
  while (!text.empty()) {
    const std::string_view bytes = text.substr(0, utf8_length(text));
    text.remove_prefix(bytes.empty() ? 1 : bytes.size());
    if (bytes.empty()) {
      result.emplace_back("\uFFFD");
    } else if (const char32_t code = utf8_code(bytes); is_hidden(code)) {
      result.push_back(printed("\\u%04x", static_cast<unsigned>(code)));
    } else if (bytes == "&") {
      result.emplace_back("&amp;");
    } else if (bytes == "<") {
      result.emplace_back("&lt;");
    } else if (bytes == ">") {
      result.emplace_back("&gt;");
    } else if (bytes == "\"") {
      result.emplace_back("&quot;");
    } else if (bytes == "'") {
      result.emplace_back("&#39;");
    } else {
      result.emplace_back(bytes);
    }
  }
  return result;
}

using Characters = std::vector<std::string>;

bool ends_part(const std::string& character) { return character == "." || character == "/"; }
bool ends_word(const std::string& character) { return character == "_" || character == "-"; }

/// Takes characters out behind the first `head` until `longest` are left, and some more if that spares a torn word.
bool shorten(Characters& characters, std::size_t longest, std::size_t head) {
  if (characters.size() <= longest) return false;
  constexpr std::size_t kNear = 16;
  const auto ends = [&](const std::string& each) { return ends_part(each) || (head > 0 && ends_word(each)); };
  std::size_t first = head;
  while (first > 0 && head - first < kNear && !ends(characters[first - 1])) --first;
  if (first == 0 || !ends(characters[first - 1])) first = head;
  const std::size_t kept = characters.size() - (longest - head - 1);
  std::size_t last = kept;
  while (last < characters.size() && last - kept < kNear && !ends(characters[last - 1])) ++last;
  if (!ends(characters[last - 1])) last = kept;
  characters[first] = "…";
  characters.erase(characters.begin() + static_cast<std::ptrdiff_t>(first + 1),
                   characters.begin() + static_cast<std::ptrdiff_t>(last));
  return true;
}

/// Cut in two or more, each with the character that ends it.
std::vector<Characters> split(const Characters& characters, bool (*ends)(const std::string&)) {
  std::vector<Characters> result(1);
  for (const std::string& each : characters) {
    result.back().push_back(each);
    if (ends(each)) result.emplace_back();
  }
  return result;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const std::string& each : html_characters(text)) result += each;
  return result;
}

ShortName short_name(std::string_view name, const NameLimits& limits) {
  Characters all = html_characters(name);
  ShortName result;
  result.cut = shorten(all, limits.longest, limits.head);
  const auto add = [&](Characters& word) {
    result.cut |= shorten(word, limits.word, 3 * limits.word / 5);
    if (!result.html.empty() && !word.empty()) result.html += "<wbr>";
    for (const std::string& each : word) result.html += each;
  };
  for (Characters& part : split(all, ends_part)) {
    if (part.size() <= limits.word) {
      add(part);
      continue;
    }
    for (Characters& word : split(part, ends_word)) add(word);
  }
  return result;
}

std::string model_name(const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::absolute(input, error).lexically_normal();
  if (error) return input;
  if (path.filename().empty()) path = path.parent_path();
  std::string name = path.filename().native();
  const auto drop = [&](std::string_view end) {
    if (!name.ends_with(end)) return false;
    name.resize(name.size() - end.size());
    return true;
  };
  drop(".index.json");
  if (drop(".safetensors")) {
    constexpr std::string_view kShard = "-00000-of-00000";
    const auto same_kind = [](char c, char digit) { return digit == '0' ? c >= '0' && c <= '9' : c == digit; };
    const bool shard =
        name.size() > kShard.size() && std::equal(name.end() - kShard.size(), name.end(), kShard.begin(), same_kind);
    if (shard) name.resize(name.size() - kShard.size());
    constexpr std::array<std::string_view, 5> kAnyModel{"model", "pytorch_model", "diffusion_pytorch_model",
                                                        "adapter_model", "consolidated"};
    if (std::find(kAnyModel.begin(), kAnyModel.end(), name) == kAnyModel.end()) return name;
    path = path.parent_path();
    name = path.filename().native();
  }
  // Hugging Face's cache: models--ORGANISATION--NAME/snapshots/REVISION.
  constexpr std::string_view kHub = "models--";
  const std::string hub = path.parent_path().parent_path().filename().native();
  if (path.parent_path().filename() == "snapshots" && hub.starts_with(kHub)) {
    const std::size_t between = hub.find("--", kHub.size());
    name = hub.substr(kHub.size(), between - kHub.size());
    if (between != std::string::npos) name += '/' + hub.substr(between + 2);
  }
  return name.empty() ? input : name;
}

std::string short_number(double value) {
  if (const auto sign = no_digits(value); !sign.empty()) return std::string(sign);
  return with_minus(printed("%.3g", value));
}

std::string fixed_number(double value, int decimals) {
  if (const auto sign = no_digits(value); !sign.empty()) return std::string(sign);
  if (std::fabs(value) >= 1e15) return short_number(value);
  return with_minus(printed("%.*f", decimals, value));
}

std::string exact_number(double value) {
  if (!std::isfinite(value)) return {};
  return printed("%.17g", value);
}

std::string byte_size(double bytes) {
  if (const auto sign = no_digits(bytes); !sign.empty()) return std::string(sign);
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return printed("%.*f\u00A0%s", decimals, bytes, kUnits[unit]);
}

std::string size_change(double before, double after) {
  std::string from = "from " + byte_size(before);
  if (before <= 0 || after <= 0) return from;
  const std::string times = fixed_number(std::max(before, after) / std::min(before, after), 2);
  if (times == "1.00") return from + ", about the same size";
  return from + ", " + times + (after < before ? " times smaller" : " times larger");
}

std::string tensor_count(std::size_t count) { return std::to_string(count) + (count == 1 ? " tensor" : " tensors"); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string result;
  for (const std::int64_t size : shape) result += (result.empty() ? "" : " × ") + std::to_string(size);
  return result;
}

}  // namespace planck::cli
