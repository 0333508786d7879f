// planck compare: how far the tensors of one checkpoint are from those of another, codes read as what they stand for.
//
// Exit code 5 if anything could be wrong: a tensor that only one side has, another shape or kind, NaN or infinities
// that the other side does not have at the same place, or a limit that was not kept.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "checkpoint/workers.hpp"
#include "commands/commands.hpp"
#include "quantize/statistics.hpp"
#include "quantize/stored.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

struct Comparison {
  std::string name;
  std::string verdict;  ///< empty: fine
  bool measured = false;
  ErrorSums sums;
};

class Comparer {
 public:
  explicit Comparer(int threads) : workers_(threads) {}

  void compare(const StoredTensor& a, const StoredTensor& b, Comparison& result) {
    if (a.tensor->shape != b.tensor->shape) {
      result.verdict = text("shapes ", shape_list(a.tensor->shape), " and ", shape_list(b.tensor->shape));
    } else if (a.dtype().kind && b.dtype().kind) {
      result.sums = errors(a, b);
      result.measured = true;
      // Numbers beyond 2^53 may differ by less than the errors can tell.
      const bool wide = a.dtype().kind == ElementKind::S64 && a.dtype() == b.dtype() && result.sums.max_error == 0;
      if (wide && !same_bytes(a, b)) result.verdict = "bytes differ";
      if (result.sums.nonfinite_differs > 0) result.verdict = text(result.sums.nonfinite_differs, " NaN or Inf differ");
    } else if (a.dtype() != b.dtype()) {
      result.verdict = text("types ", a.dtype().name, " and ", b.dtype().name);
    } else if (!same_bytes(a, b)) {
      result.verdict = "bytes differ";
    }
  }

 private:
  ErrorSums errors(const StoredTensor& a, const StoredTensor& b) {
    const std::int64_t elements = a.tensor->elements;
    const std::int64_t pieces = (elements + kStoredPiece - 1) / kStoredPiece;
    std::vector<ErrorSums> sums(static_cast<std::size_t>(pieces));
    workers_.for_each(pieces, [&](int worker, std::int64_t p) {
      Scratch& own = workers_.scratch(worker);
      const std::int64_t first = p * kStoredPiece;
      const std::int64_t count = std::min(kStoredPiece, elements - first);
      const std::byte* x = a.read(first, count, plans_, own, 0);
      const std::byte* y = b.read(first, count, plans_, own, kStoredSlots);
      const auto measure = [&]<class C>(C) {
        const auto wide = [&](const StoredTensor& stored, const std::byte* from, std::size_t slot) {
          const std::span<C> to(reinterpret_cast<C*>(own.slot(slot, static_cast<std::size_t>(count) * sizeof(C))),
                                static_cast<std::size_t>(count));
          widen(*stored.dtype().kind, from, to);
          return std::span<const C>(to);
        };
        return errors_of(wide(a, x, 2 * kStoredSlots), wide(b, y, 2 * kStoredSlots + 1));
      };
      const bool narrow = widens_to_f32(*a.dtype().kind) && widens_to_f32(*b.dtype().kind);
      sums[static_cast<std::size_t>(p)] = narrow ? measure(float{}) : measure(double{});
    });
    ErrorSums total;
    for (const ErrorSums& each : sums) total.merge(each);
    return total;
  }

  bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
    std::atomic<bool> same{true};
    const auto bytes = static_cast<std::int64_t>(a.tensor->bytes);
    workers_.for_each((bytes + kPieceBytes - 1) / kPieceBytes, [&](int worker, std::int64_t p) {
      Scratch& own = workers_.scratch(worker);
      const std::int64_t first = p * kPieceBytes;
      const auto count = static_cast<std::size_t>(std::min(kPieceBytes, bytes - first));
      const auto load = [&](const StoredTensor& stored, std::size_t slot) {
        std::byte* memory = own.slot(slot, count);
        stored.file->read({memory, count}, stored.tensor->begin + static_cast<std::uint64_t>(first));
        return memory;
      };
      if (std::memcmp(load(a, 0), load(b, 1), count) != 0) same = false;
    });
    return same;
  }

  Workers workers_;
  RestorePlans plans_;
};

std::string json_of(const Comparison& each) {
  JsonObject tensor;
  tensor.add("name", each.name).add("ok", each.verdict.empty());
  if (!each.verdict.empty()) tensor.add("problem", each.verdict);
  if (each.measured) {
    const ErrorSums& sums = each.sums;
    tensor.add("max_error", sums.max_error)
        .add("mean_error", sums.mean_error())
        .add("snr_db", sums.snr_db())
        .add("cosine", sums.cosine());
    tensor.add("exact", sums.error_squared == 0 && sums.max_error == 0 && sums.nonfinite_differs == 0);
    tensor.add("nonfinite_a", sums.nonfinite_x)
        .add("nonfinite_b", sums.nonfinite_y)
        .add("nonfinite_differs", sums.nonfinite_differs);
  }
  return tensor.str();
}

/// A limit holds only if the number is known to keep it: NaN does not.
void apply_limits(const CompareOptions& options, Comparison& each) {
  if (!each.measured || !each.verdict.empty() || each.sums.count == 0) return;
  if (options.min_snr && !(each.sums.snr_db() >= *options.min_snr)) {
    each.verdict = text("SNR below ", number_text(*options.min_snr), " dB");
  }
  if (options.max_error && !(each.sums.max_error <= *options.max_error)) {
    each.verdict = text("error above ", number_text(*options.max_error));
  }
}

/// All tensors of either side, and the errors of those that are floats in both.
struct Comparisons {
  std::vector<Comparison> tensors;
  ErrorSums total;

  std::int64_t problems() const noexcept {
    return std::count_if(tensors.begin(), tensors.end(), [](const Comparison& each) { return !each.verdict.empty(); });
  }
};

Comparisons compare_all(const Checkpoint& a, const Checkpoint& b, const CompareOptions& options) {
  const std::vector<StoredTensor> a_tensors = stored_tensors(a);
  std::map<std::string_view, StoredTensor> b_tensors;
  for (const StoredTensor& each : stored_tensors(b)) b_tensors.emplace(each.tensor->name, each);
  Comparisons all;
  Comparer comparer(options.threads);
  Progress progress("comparing", a.file_bytes(), options.json);
  for (const StoredTensor& each : a_tensors) {
    Comparison& result = all.tensors.emplace_back();
    result.name = each.tensor->name;
    const auto other = b_tensors.find(each.tensor->name);
    if (other == b_tensors.end()) {
      result.verdict = "only in A";
    } else {
      comparer.compare(each, other->second, result);
      // Positions and masks are no signal: a single one of them would outweigh all weights.
      if (each.dtype().is_float() && other->second.dtype().is_float()) all.total.merge(result.sums);
      b_tensors.erase(other);
    }
    apply_limits(options, result);
    progress.advance(each.tensor->bytes);
  }
  for (const auto& [name, each] : b_tensors) {
    Comparison& result = all.tensors.emplace_back();
    result.name = name;
    result.verdict = "only in B";
  }
  return all;
}

void print_json(const Checkpoint& a, const Checkpoint& b, const Comparisons& all) {
  JsonArray tensors;
  for (const Comparison& each : all.tensors) tensors.raw(json_of(each));
  JsonObject out;
  out.add("command", "compare")
      .add("a", a.title)
      .add("b", b.title)
      .add("ok", all.problems() == 0)
      .add("problems", all.problems());
  out.add("max_error", all.total.max_error)
      .add("mean_error", all.total.mean_error())
      .add("snr_db", all.total.snr_db())
      .add("cosine", all.total.cosine());
  out.add("nonfinite_a", all.total.nonfinite_x).add("nonfinite_b", all.total.nonfinite_y).raw("tensors", tensors.str());
  std::printf("%s\n", out.str().c_str());
}

void print_table(const Comparisons& all) {
  using Align = Table::Align;
  Table table({{"tensor"},
               {"max error", Align::Right},
               {"mean error", Align::Right},
               {"SNR dB", Align::Right},
               {"cosine", Align::Right},
               {"NaN/Inf A", Align::Right},
               {"NaN/Inf B", Align::Right},
               {"problem"}});
  for (const Comparison& each : all.tensors) {
    if (each.measured) {
      const ErrorSums& sums = each.sums;
      table.add({printable(each.name, 80), number_text(sums.max_error), number_text(sums.mean_error()),
                 decibel_text(sums.snr_db()), number_text(sums.cosine(), 7), std::to_string(sums.nonfinite_x),
                 std::to_string(sums.nonfinite_y), each.verdict});
    } else {
      table.add(
          {printable(each.name, 80), "–", "–", "–", "–", "–", "–", each.verdict.empty() ? "same bytes" : each.verdict});
    }
  }
  const ErrorSums& total = all.total;
  std::printf("%s\nall floats: max error %s, mean error %s, SNR %s dB, cosine %s; NaN or Inf: %lld in A, %lld in B\n",
              table.str().c_str(), number_text(total.max_error).c_str(), number_text(total.mean_error()).c_str(),
              decibel_text(total.snr_db()).c_str(), number_text(total.cosine(), 7).c_str(),
              static_cast<long long>(total.nonfinite_x), static_cast<long long>(total.nonfinite_y));
}

}  // namespace

void compare_command(const CompareOptions& options) {
  const auto check = [](const char* name, const std::optional<double>& limit) {
    if (limit && std::isnan(*limit)) throw Failure(ExitCode::Usage, text(name, " is NaN, which nothing can keep"));
  };
  check("--min-snr", options.min_snr);
  check("--max-error", options.max_error);
  const Checkpoint a = open_checkpoint({options.a});
  const Checkpoint b = open_checkpoint({options.b});
  const Comparisons all = compare_all(a, b, options);
  options.json ? print_json(a, b, all) : print_table(all);
  if (const std::int64_t problems = all.problems(); problems > 0)
    throw Failure(ExitCode::Differs, text(problems, problems == 1 ? " tensor differs" : " tensors differ"));
}

}  // namespace planck::cli
