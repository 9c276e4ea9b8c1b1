#include "nn/norm.h"

#include <stdexcept>

#include "nn/scale.h"
#include "ops/layer_norm.h"
#include "ops/rms_norm.h"

namespace tern::nn {
namespace {

ops::RmsNormOptions norm_options(const Context& context, double eps, float weight_offset) {
  ops::RmsNormOptions options;
  options.eps = static_cast<float>(eps);
  options.weight_offset = weight_offset;
  options.keep_rstd = context.options().training;
  options.out = context.options().activations;
  options.sum = context.options().activations;
  options.needs = context.options().needs;
  return options;
}

}  // namespace

void Residual::add(Value branch, double scale) {
  if (branch_.present())
    throw std::logic_error("two branches were added to the stream, and nothing reads it between them");
  branch_ = branch;
  scale_ = scale;
}

Residual::Parts Residual::parts(Context& context) const {
  if (!branch_.present()) return {stream_, {}};
  return {scaled(context, branch_, scale_), stream_};
}

Value norm(Context& context, const std::string& module, double eps, Residual& x, float weight_offset) {
  const Residual::Parts parts = x.parts(context);
  ops::RmsNormOptions options = norm_options(context, eps, weight_offset);
  options.residual = parts.residual;
  const auto out = ops::rms_norm(context.graph(), parts.read, context.weight(module + ".weight"), options);
  x.stream_ = out.sum;
  x.branch_ = {};
  return out.y;
}

Value layer_norm(Context& context, const std::string& module, double eps, Residual& x) {
  const Residual::Parts parts = x.parts(context);
  ops::LayerNormOptions options;
  options.eps = static_cast<float>(eps);
  options.residual = parts.residual;
  if (context.has(module + ".bias")) options.bias = context.weight(module + ".bias");
  options.keep_stats = context.options().training;
  options.out = context.options().activations;
  options.sum = context.options().activations;
  options.needs = context.options().needs;
  const auto out = ops::layer_norm(context.graph(), parts.read, context.weight(module + ".weight"), options);
  x.stream_ = out.sum;
  x.branch_ = {};
  return out.y;
}

Value layer_norm(Context& context, const std::string& module, double eps, Value x, Value branch) {
  Residual sum(x);
  (void)stream(context, sum);
  sum.add(branch);
  return layer_norm(context, module, eps, sum);
}

Value stream(Context& context, Residual& x) {
  if (!x.branch_.present()) return x.stream_;
  x.stream_ = x.stream_.present() ? weighted_sum(context, x.scale_, x.branch_, 1.0, x.stream_)
                                  : scaled(context, x.branch_, x.scale_);
  x.branch_ = {};
  return x.stream_;
}

Value branch_norm_by(Context& context, const std::string& weight, double eps, Value x, float weight_offset) {
  return ops::rms_norm(context.graph(), x, context.weight(weight), norm_options(context, eps, weight_offset)).y;
}

Value branch_norm(Context& context, const std::string& module, double eps, Value x, float weight_offset) {
  return branch_norm_by(context, module + ".weight", eps, x, weight_offset);
}

Value branch_layer_norm(Context& context, const std::string& module, double eps, Value x) {
  Residual alone(x);
  return layer_norm(context, module, eps, alone);
}

}  // namespace tern::nn
