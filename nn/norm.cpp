#include "nn/norm.h"

#include <stdexcept>

#include "ops/axpby.h"
#include "ops/rms_norm.h"

namespace tern::nn {

void Residual::add(Value branch, double scale) {
  if (branch_.present()) throw std::logic_error("two branches were added to the stream without a norm between them");
  branch_ = branch;
  scale_ = scale;
}

Value norm(Context& context, const std::string& module, double eps, Residual& x) {
  ops::RmsNormOptions options;
  options.eps = static_cast<float>(eps);
  options.residual = x.branch_.present() ? x.stream_ : Value{};
  options.keep_rstd = context.options().training;
  options.out = context.options().activations;
  options.sum = context.options().activations;
  options.needs = context.options().needs;
  Value read = x.branch_.present() ? x.branch_ : x.stream_;
  if (x.branch_.present() && x.scale_ != 1.0) {
    ops::AxpbyOptions scale;
    scale.a = static_cast<float>(x.scale_);
    scale.out = context.options().activations;
    scale.needs = context.options().needs;
    read = ops::axpby(context.graph(), read, {}, scale);
  }
  const auto out = ops::rms_norm(context.graph(), read, context.weight(module + ".weight"), options);
  x.stream_ = out.sum;
  x.branch_ = {};
  return out.y;
}

}  // namespace tern::nn
