#include "scan/cpu/rows.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/workspace.hpp"
#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "numerics/canonical_order.hpp"
#include "scan/cpu/column_fold.hpp"
#include "scan/cpu/column_strip.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {

std::int64_t row_chunk_bytes = kRowChunkBytes;

namespace {

using core::StridedLoop;

/// Shorter rows, which are not even a group of AVX2's, are better off side by side, if there are enough of them to fill
/// registers.
constexpr std::int64_t kShortRow = 32;
constexpr std::int64_t kManyRows = 16;
/// States that need no workspace: of the pieces of a row that threads share, and of a feed's in a row that they do not.
constexpr std::int64_t kStackValues = kStackRowValues;

/// A group of elements as registers have it, of the widest ones.
constexpr std::int64_t kMaxRowGroup = 64;

std::int64_t pieces_in(std::int64_t length) { return ceil_div(length, kRowPiece); }

/// A state for each piece of a row.
struct PieceStates {
  double* values;
  int parts;
  double* at(std::int64_t piece) const { return values + piece * parts; }
};

/// Puts the prefix before a piece in the place of its total, which is taken in if another piece follows.
void replace_total(OneColumnFold& fold, int parts, double* state, bool follows) {
  double total[kMaxScanParts];
  if (follows) std::copy_n(state, parts, total);
  if (const std::byte* before = fold->before())
    std::memcpy(state, before, static_cast<std::size_t>(parts * kPartBytes));
  if (follows) fold->push_block(kCarryLevel, reinterpret_cast<const std::byte*>(total));
}

/// What a feed says: the first element's value, before which the others' lie, transposed or as registers have them.
struct FeedValues {
  const double* first;
  bool in_lanes;
};

/// The rows of a loop: where they are, and what a run over one or a piece of it needs to know.
class Rows {
 public:
  explicit Rows(const LaneScan& scan)
      : scan_(scan),
        kernel_(scan.kernel),
        loop_(scan.loop),
        length_(loop_.extent[scan.axis]),
        streamed_(worth_streaming(loop_, scan.kernel.inputs, scan.kernel.outputs)) {}

  std::int64_t length() const { return length_; }
  bool streamed() const { return streamed_; }

  /// Calls body with each row from begin to end - 1, in the order that goes on through memory where a row leaves off:
  /// processors fetch ahead only so, and short rows the other way round took three times as long.
  template <class Body>
  void for_each(std::int64_t begin, std::int64_t end, const Body& body) const {
    const bool back = loop_.operand[0].stride[scan_.axis] < 0;
    for (std::int64_t i = begin; i < end; ++i) body(row(back ? begin + (end - 1 - i) : i));
  }

  /// Every operand's first element of a row.
  Pointers row(std::int64_t index) const {
    Pointers at;
    for (int k = 0; k < loop_.operands; ++k) at[k] = loop_.operand[k].base;
    for (int d = loop_.rank - 1; d >= 0 && index > 0; --d) {
      if (d == scan_.axis) continue;
      const std::int64_t here = index % loop_.extent[d];
      index /= loop_.extent[d];
      for (int k = 0; k < loop_.operands; ++k) {
        if (at[k] != nullptr) at[k] += here * loop_.operand[k].stride[d];
      }
    }
    return at;
  }

  /// Elements start … start + n - 1 of a row.
  RowRun run_of(const Pointers& row, std::int64_t start, std::int64_t n) const {
    RowRun run{};
    for (int k = 0; k < kernel_.inputs; ++k) {
      const std::int64_t step = loop_.operand[k].stride[scan_.axis];
      run.input[k] = row[k] == nullptr ? nullptr : row[k] + start * step;
      run.input_back[k] = step < 0;
    }
    run.writes = true;
    run.streamed = streamed_;
    for (int k = 0; k < kernel_.outputs; ++k) {
      const core::LoopOperand& op = loop_.operand[kernel_.inputs + k];
      const std::int64_t step = k == kEdgeOutput ? 0 : op.stride[scan_.axis];
      std::byte* const to = row[kernel_.inputs + k];
      if (to == nullptr) continue;
      run.output[k] = to + start * step;
      run.output_back[k] = step < 0;
      constexpr std::uintptr_t kLine = 64;
      const auto line_end = reinterpret_cast<std::uintptr_t>(run.output[k] + (step < 0 ? op.element_bytes : 0));
      if (k != kEdgeOutput && line_end % kLine != 0) run.streamed = false;
    }
    run.n = n;
    run.position_step = scan_.descends ? -1 : 1;
    run.position = scan_.descends ? length_ - 1 - start : start;
    run.lag = kernel_.lag_start;
    const bool has_edge = scan_.edge == ScanEdge::First ? start == 0 : start + n == length_;
    if (scan_.edge != ScanEdge::None && has_edge) {
      run.edge = scan_.edge;
      run.edge_input = row[kernel_.inputs + kernel_.outputs];
    }
    return run;
  }

  /// Piece q of a row.
  RowRun piece(const Pointers& row, std::int64_t q) const {
    const std::int64_t start = q * kRowPiece;
    return run_of(row, start, std::min(kRowPiece, length_ - start));
  }

  /// Gives a run its fed input: the first element's value, before which the others' lie.
  void feed(RowRun& run, const FeedValues& values) const {
    run.input[kernel_.inputs] = reinterpret_cast<const std::byte*>(values.first);
    run.input_back[kernel_.inputs] = true;
    run.in_lanes = values.in_lanes;
  }

  /// The lowest address of an input's elements `distance` elements further on than those of a run, wherever that is:
  /// rows follow each other in memory, mostly.
  const std::byte* ahead(const RowRun& run, int input, std::int64_t distance) const {
    const std::int64_t step = loop_.operand[input].stride[scan_.axis];
    const std::int64_t lowest = distance * step + (step < 0 ? (run.n - 1) * step : 0);
    const auto from = reinterpret_cast<std::uintptr_t>(run.input[input]);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie outside of the tensor, and is fetched but never read
    return reinterpret_cast<const std::byte*>(from + static_cast<std::uintptr_t>(lowest));
  }

  const LaneScanKernel& kernel() const { return kernel_; }

 private:
  const LaneScan& scan_;
  const LaneScanKernel& kernel_;
  const StridedLoop& loop_;
  std::int64_t length_;
  bool streamed_;
};

/// What a feed has to say about each element of a piece. It runs the other way, and so its own pieces begin elsewhere:
/// two of them have a part in it.
class Feed {
 public:
  explicit Feed(const Rows& rows) : rows_(rows), kernel_(*rows.kernel().feed) {}

  std::int64_t pieces() const { return pieces_in(rows_.length()); }

  /// The prefix before each of the feed's pieces in a row, from the second on.
  void find_befores(const Pointers& row, const PieceStates& befores) const {
    for (std::int64_t q = 0; q + 1 < pieces(); ++q) find_total(row, q, befores);
    totals_to_befores(befores);
  }
  void find_total(const Pointers& row, std::int64_t q, const PieceStates& totals) const {
    RowRun run = run_of(row, q, kRowPiece);
    run.total = totals.at(q);
    kernel_.row(run);
  }
  void totals_to_befores(const PieceStates& states) const {
    OneColumnFold fold(kernel_);
    for (std::int64_t q = 0; q < pieces(); ++q) replace_total(fold, kernel_.parts, states.at(q), q + 1 < pieces());
  }

  /// The values for a row's elements start … start + n - 1, where n is at most kRowPiece + 1, in `values`, which has
  /// room for kValues. `ahead` is wanted soon after.
  FeedValues values_of(const Pointers& row, const PieceStates& befores, std::int64_t start, std::int64_t n,
                       double* values, const std::byte* ahead = nullptr) const {
    // In the feed's own order the elements are first … last.
    const std::int64_t last = rows_.length() - 1 - start;
    const std::int64_t first = last - (n - 1);
    const std::int64_t from = first / kRowPiece * kRowPiece;
    const bool in_lanes = first % kMaxRowGroup == 0 && (last + 1) % kMaxRowGroup == 0;
    for (std::int64_t t = from; t <= last; t += kRowPiece) {
      const std::int64_t q = t / kRowPiece;
      RowRun piece = run_of(row, q, std::min(kRowPiece, last + 1 - t));
      piece.before = q == 0 ? nullptr : befores.at(q);
      piece.writes = true;
      piece.output[0] = reinterpret_cast<std::byte*>(values + (t - from));
      piece.in_lanes = in_lanes;
      piece.ahead = ahead;
      kernel_.row(piece);
    }
    return {values + (last - from), in_lanes};
  }
  static constexpr std::int64_t kValues = 2 * kRowPiece;

 private:
  /// n elements from the first of the feed's piece q on, for their states alone.
  RowRun run_of(const Pointers& row, std::int64_t q, std::int64_t n) const {
    const RowRun here = rows_.run_of(row, rows_.length() - 1 - q * kRowPiece, 1);
    RowRun run{};
    run.input[0] = here.input[kFeedInput];
    run.input_back[0] = !here.input_back[kFeedInput];
    run.n = n;
    run.position = here.position;
    run.position_step = -here.position_step;
    run.lag = kernel_.lag_start;
    return run;
  }

  const Rows& rows_;
  const LaneScanKernel& kernel_;
};

/// Each row by one thread.
void run_whole(const Stream& stream, const Rows& rows, std::int64_t count, std::int64_t row_bytes) noexcept {
  const LaneScanKernel& kernel = rows.kernel();
  const std::int64_t length = rows.length();
  if (kernel.feed == nullptr) {
    return for_each_range(stream, count, row_bytes, [&](std::int64_t begin, std::int64_t end) noexcept {
      rows.for_each(begin, end, [&](const Pointers& row) {
        RowRun run = rows.run_of(row, 0, length);
        kernel.row(run);
      });
      if (rows.streamed()) stream_fence();
    });
  }
  for_each_range(stream, count, row_bytes, [&](std::int64_t begin, std::int64_t end) noexcept {
    const Feed feed(rows);
    double stack[kStackValues];
    const PieceStates befores{stack, kernel.feed->parts};
    alignas(64) double values[Feed::kValues];
    rows.for_each(begin, end, [&](const Pointers& row) {
      if (length <= kRowPiece) {
        // Memory is asked for about a piece before it is wanted: short rows beyond this one.
        RowRun run = rows.piece(row, 0);
        const std::byte* const ahead = rows.ahead(run, 0, kRowPiece - length);
        rows.feed(run, feed.values_of(row, befores, 0, length, values, ahead));
        run.ahead = rows.ahead(run, kFeedInput, kRowPiece);
        kernel.row(run);
        return;
      }
      feed.find_befores(row, befores);
      OneColumnFold fold(kernel);
      double lag = kernel.lag_start;
      for (std::int64_t q = 0; q < pieces_in(length); ++q) {
        RowRun run = rows.piece(row, q);
        rows.feed(run, feed.values_of(row, befores, q * kRowPiece, run.n, values, rows.ahead(run, 0, 0)));
        run.ahead = rows.ahead(run, kFeedInput, kRowPiece);
        double total[kMaxScanParts];
        run.before = reinterpret_cast<const double*>(fold->before());
        run.lag = lag;
        run.total = run.n == kRowPiece ? total : nullptr;
        kernel.row(run);
        lag = run.lag;
        if (run.n == kRowPiece) fold->push_block(kCarryLevel, reinterpret_cast<const std::byte*>(total));
      }
    });
    if (rows.streamed()) stream_fence();
  });
}

/// A row in pieces that threads share: the totals of some pieces, then the prefix before each, then the pieces.
class CutRow {
 public:
  /// For each piece the state before it, perhaps a feed's too, and perhaps what the step before it left: no more than
  /// lane_scan_workspace asks for.
  static std::int64_t values_needed(const LaneScanKernel& kernel, std::int64_t length) {
    const int feed_parts = kernel.feed == nullptr ? 0 : kernel.feed->parts;
    return pieces_in(length) * (kernel.parts + feed_parts + (kernel.lags ? 1 : 0));
  }

  CutRow(const Stream& stream, const Rows& rows, const Pointers& row, double* values)
      : stream_(stream),
        rows_(rows),
        kernel_(rows.kernel()),
        row_(row),
        pieces_(pieces_in(rows.length())),
        befores_{values, kernel_.parts},
        feed_befores_{befores_.at(pieces_), kernel_.feed == nullptr ? 0 : kernel_.feed->parts},
        lags_(feed_befores_.at(pieces_)) {}

  void run(std::int64_t element_bytes) noexcept {
    const std::int64_t piece_bytes = kRowPiece * element_bytes;
    if (kernel_.feed != nullptr) {
      const Feed feed(rows_);
      each_piece(0, pieces_ - 1, piece_bytes, [&](std::int64_t q) { feed.find_total(row_, q, feed_befores_); });
      feed.totals_to_befores(feed_befores_);
    }
    OneColumnFold fold(kernel_);
    if (kernel_.lags) lags_[0] = kernel_.lag_start;
    const std::int64_t chunk = std::max<std::int64_t>(row_chunk_bytes / piece_bytes, stream_.threads());
    for (std::int64_t begin = 0; begin < pieces_; begin += chunk) {
      const std::int64_t end = std::min(begin + chunk, pieces_);
      // Of the last piece nobody needs the total.
      each_piece(begin, std::min(end, pieces_ - 1), piece_bytes, [&](std::int64_t q) { find_total(q, q == begin); });
      for (std::int64_t q = begin; q < end; ++q) replace_total(fold, kernel_.parts, befores_.at(q), q + 1 < pieces_);
      each_piece(begin, end, piece_bytes, [&](std::int64_t q) { scan_piece(q); });
    }
  }

 private:
  template <class Body>
  void each_piece(std::int64_t begin, std::int64_t end, std::int64_t piece_bytes, const Body& body) const noexcept {
    for_each_range(stream_, end - begin, piece_bytes, [&](std::int64_t from, std::int64_t to) noexcept {
      for (std::int64_t q = from; q < to; ++q) body(begin + q);
      if (rows_.streamed()) stream_fence();
    });
  }

  /// And what the piece's last step leaves. What the step before it left is known for the first of a chunk, whose
  /// neighbour may have been overwritten since.
  void find_total(std::int64_t q, bool lag_known) const noexcept {
    const std::int64_t start = q * kRowPiece;
    RowRun run = rows_.piece(row_, q);
    // One more, if the step before has to be asked what it leaves.
    const std::int64_t more = kernel_.lags && !lag_known ? 1 : 0;
    alignas(64) double values[Feed::kValues];
    FeedValues fed{};
    if (kernel_.feed != nullptr && kernel_.states_need_feed) {
      fed = Feed(rows_).values_of(row_, feed_befores_, start - more, run.n + more, values);
      rows_.feed(run, {fed.first - more, fed.in_lanes});
    }
    if (more > 0) {
      RowRun step = rows_.run_of(row_, start - 1, 1);
      if (fed.first != nullptr) rows_.feed(step, fed);
      step.writes = false;
      kernel_.row(step);
      run.lag = step.lag;
    } else if (kernel_.lags) {
      run.lag = lags_[q];
    }
    run.writes = false;
    run.total = befores_.at(q);
    kernel_.row(run);
    if (kernel_.lags) lags_[q + 1] = run.lag;
  }

  void scan_piece(std::int64_t q) const noexcept {
    RowRun run = rows_.piece(row_, q);
    alignas(64) double values[Feed::kValues];
    if (kernel_.feed != nullptr) {
      const std::byte* const ahead = rows_.ahead(run, 0, 0);
      rows_.feed(run, Feed(rows_).values_of(row_, feed_befores_, q * kRowPiece, run.n, values, ahead));
      run.ahead = rows_.ahead(run, kFeedInput, kRowPiece);
    }
    run.before = q == 0 ? nullptr : befores_.at(q);
    if (kernel_.lags) run.lag = lags_[q];
    kernel_.row(run);
  }

  const Stream& stream_;
  const Rows& rows_;
  const LaneScanKernel& kernel_;
  const Pointers& row_;
  std::int64_t pieces_;
  PieceStates befores_;
  PieceStates feed_befores_;
  double* lags_;
};

}  // namespace

/// Whether the elements along the axis lie side by side for every operand that walks it.
bool runs_along_rows(const LaneScan& scan) noexcept {
  const LaneScanKernel& kernel = scan.kernel;
  const std::int64_t length = scan.loop.extent[scan.axis];
  if (kernel.row == nullptr || (kernel.feed != nullptr && kernel.feed->row == nullptr)) return false;
  if (scan.carry_in() >= 0 || scan.carry_out() >= 0) return false;
  if (length < kShortRow && scan.loop.count() / length >= kManyRows) return false;
  for (int k = 0; k < kernel.inputs + std::min(kernel.outputs, kEdgeOutput); ++k) {
    const core::LoopOperand& op = scan.loop.operand[k];
    const std::int64_t step = op.stride[scan.axis];
    if (op.base != nullptr && step != op.element_bytes && step != -op.element_bytes) return false;
  }
  return true;
}

bool feed_fits_whole_rows(const LaneScanKernel& kernel, std::int64_t length) noexcept {
  return kernel.feed == nullptr || pieces_in(length) * kernel.feed->parts <= kStackValues;
}

void run_whole_rows(const Stream& stream, const LaneScan& scan) noexcept {
  const Rows rows(scan);
  run_whole(stream, rows, scan.loop.count() / rows.length(), rows.length() * scan.loop.element_bytes());
}

bool rows_want_cut(const Stream& stream, const LaneScan& scan) noexcept {
  const std::int64_t length = scan.loop.extent[scan.axis];
  const std::int64_t pieces = pieces_in(length);
  const bool shared = pieces > 1 && scan.loop.count() / length < stream.threads() && pieces > stream.threads();
  return shared || !feed_fits_whole_rows(scan.kernel, length);
}

std::int64_t cut_row_values(const LaneScan& scan) noexcept {
  return CutRow::values_needed(scan.kernel, scan.loop.extent[scan.axis]);
}

void run_cut_rows(const Stream& stream, const LaneScan& scan, double* values) noexcept {
  const Rows rows(scan);
  const std::int64_t count = scan.loop.count() / rows.length();
  for (std::int64_t r = 0; r < count; ++r) {
    const Pointers row = rows.row(r);
    CutRow(stream, rows, row, values).run(scan.loop.element_bytes());
  }
}

}  // namespace planck::cpu
