#include "quantize/settings.hpp"

#include "terminal/failure.hpp"

namespace planck::cli {

QuantizeSettings settings_of(const QuantizeOptions& options) {
  const auto wrong = [](const std::string& why) { throw Failure(ExitCode::Usage, why); };
  QuantizeSettings settings;
  settings.scope = options.scope == "group"    ? Scope::Group
                   : options.scope == "tensor" ? Scope::Tensor
                   : options.scope == "token"  ? Scope::Token
                                               : Scope::Channel;
  settings.group_size = options.group_size;
  settings.symmetric = options.mode == "symmetric";
  for (const ElementInfo& element : kElements) {
    if (element.python_name == options.dtype) settings.codes = element.kind;
  }
  const int usual_axis = settings.scope == Scope::Group ? 1 : 0;
  const int axis = options.axis.value_or(usual_axis);
  settings.axis = axis < 0 ? axis + 2 : axis;
  if (settings.axis < 0 || settings.axis > 1)
    wrong(text("--axis ", axis, ": a weight has the axes 0 (outputs) and 1 (inputs)"));
  if (options.axis && (settings.scope == Scope::Tensor || settings.scope == Scope::Token)) {
    wrong(text("--axis says nothing for --scope ", options.scope));
  }
  if (settings.group_size < 1) wrong("--group-size must be at least 1");
  if (options.min_size < 0) wrong("--min-size must not be negative");
  if (settings.symmetric && !settings.codes_are_signed()) {
    wrong("--dtype uint8 needs --mode asymmetric: symmetric codes without a sign would lose every negative weight");
  }
  if (!options.compressed_tensors()) return settings;
  if (!settings.codes_are_signed()) wrong("the format compressed-tensors has no uint8: use --format plain");
  if (settings.axis != usual_axis) {
    wrong(text("the format compressed-tensors has no --scope ", options.scope, " along axis ", settings.axis,
               ": use --format plain"));
  }
  return settings;
}

std::string scope_text(const QuantizeSettings& settings) {
  const std::string axis = settings.scope == Scope::Channel && settings.axis == 1 ? ", axis 1"
                           : settings.scope == Scope::Group && settings.axis == 0 ? ", axis 0"
                                                                                  : "";
  switch (settings.scope) {
    case Scope::Channel:
      return "channel" + axis;
    case Scope::Group:
      return text("group ", settings.group_size, axis);
    case Scope::Tensor:
      return "tensor";
    case Scope::Token:
      break;
  }
  return "token";
}

}  // namespace planck::cli
