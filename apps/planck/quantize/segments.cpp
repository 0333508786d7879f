#include "quantize/segments.hpp"

#include "terminal/failure.hpp"
#include "terminal/unicode.hpp"

namespace planck::cli {
namespace {

constexpr std::int64_t kMostColumns = 1 << 17;  // a row of f64 is then a piece, and the ranges of all take 4 MiB

/// Experts are told from a convolution of one dimension, [out, in, kernel], by their name.
bool holds_experts(const TensorInfo& tensor) {
  const std::string name = lowered(tensor.name);
  return tensor.shape.size() == 3 &&
         (name.find("expert") != std::string::npos || name.find("moe") != std::string::npos);
}

}  // namespace

Segments segments_of(const TensorInfo& tensor, const QuantizeSettings& settings) {
  const auto refuse = [&](const std::string& why) {
    throw Failure(ExitCode::Refused, text("tensor ", in_quotes(tensor.name), " of shape ", shape_list(tensor.shape),
                                          ": ", why, "; leave it out with --exclude, or choose otherwise"));
  };
  const std::vector<std::int64_t>& shape = tensor.shape;
  // Experts are several matrices [out, in]; a convolution is one, with a kernel for each pair.
  const std::size_t row_axis = holds_experts(tensor) ? 1 : 0;
  const std::int64_t matrices = row_axis == 1 ? shape[0] : 1;
  const std::int64_t rows = shape[row_axis];
  const std::int64_t columns = shape[row_axis + 1];
  const std::int64_t kernel = tensor.elements / (matrices * rows * columns);
  const bool along_columns = settings.axis == 1;
  std::vector<std::int64_t> scales(shape.size(), 1);
  scales[0] = shape[0];
  switch (settings.scope) {
    case Scope::Tensor:
      return {1, tensor.elements, 1, {1}};
    case Scope::Token:
      scales = shape;
      scales.back() = 1;
      return {tensor.elements / shape.back(), shape.back(), 1, scales};
    case Scope::Channel:
      scales[row_axis] = rows;
      if (!along_columns) return {matrices * rows, columns * kernel, 1, scales};
      if (kernel > 1) refuse("a convolution has no --axis 1");
      scales[row_axis] = 1;
      scales[row_axis + 1] = columns;
      break;
    case Scope::Group: {
      const std::size_t cut_axis = row_axis + static_cast<std::size_t>(settings.axis);
      const std::int64_t cut = shape[cut_axis];
      if (cut % settings.group_size != 0) {
        refuse(text("groups of ", settings.group_size, " do not divide its ", cut,
                    along_columns ? " inputs" : " outputs"));
      }
      const std::int64_t groups = cut / settings.group_size;
      if (along_columns) {
        scales[row_axis] = rows;
        scales[cut_axis] = groups;
        return {matrices * rows * groups, settings.group_size * kernel, 1, scales};
      }
      scales = shape;
      scales[cut_axis] = groups;
      break;
    }
  }
  const std::int64_t inner = columns * kernel;
  if (inner > kMostColumns) refuse(text("ranges across rows are kept for at most ", kMostColumns, " columns"));
  const std::int64_t length = settings.scope == Scope::Group ? settings.group_size : rows;
  return {matrices * rows / length, length, inner, scales};
}

}  // namespace planck::cli
