// Root mean square and layer norms, and the stream of residuals that they read.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// The residual stream of a decoder, [tokens, hidden]. A branch that is added to it is summed by the norm that reads the
// stream next: one pass over memory instead of two.
class Residual {
 public:
  // `embedding` [tokens, hidden] times `scale` begins the stream.
  explicit Residual(Value embedding, double scale = 1.0) : branch_(embedding), scale_(scale) {}
  // Adds a branch [tokens, hidden] times `scale`. The stream is read between two of them; throws std::logic_error where
  // it isn't.
  void add(Value branch, double scale = 1.0);

 private:
  friend Value norm(Context& context, const std::string& module, double eps, Residual& x, float weight_offset);
  friend Value layer_norm(Context& context, const std::string& module, double eps, Residual& x);
  friend Value stream(Context& context, Residual& x);
  struct Parts {
    Value read;
    Value residual;  // absent: `read` is the stream
  };
  // What a norm of the stream reads: it becomes the stream again by its sum.
  [[nodiscard]] Parts parts(Context& context) const;
  Value stream_;  // absent before the first norm
  Value branch_;  // not yet in the stream
  double scale_;  // of the branch
};

// y = x / sqrt(mean(x^2) + eps) * (weight + weight_offset) of the stream, [tokens, hidden] -> [tokens, hidden];
// "<module>.weight" [hidden]. Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
Value norm(Context& context, const std::string& module, double eps, Residual& x, float weight_offset = 0.0F);

// y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias of the stream; "<module>.weight" [hidden], and
// "<module>.bias" [hidden] where the model has one. Ba, Kiros and Hinton, "Layer Normalization", 2016.
Value layer_norm(Context& context, const std::string& module, double eps, Residual& x);

// The same of the sum x + branch, both [tokens, hidden]: of layers that norm after they add.
Value layer_norm(Context& context, const std::string& module, double eps, Value x, Value branch);

// The stream itself, for layers that read it without a norm.
Value stream(Context& context, Residual& x);

// The same norm of a branch [tokens, hidden] that is yet to be added.
Value branch_norm(Context& context, const std::string& module, double eps, Value x, float weight_offset = 0.0F);
// By a weight that is called `weight` as it stands.
Value branch_norm_by(Context& context, const std::string& weight, double eps, Value x, float weight_offset = 0.0F);
// The layer norm of a branch.
Value branch_layer_norm(Context& context, const std::string& module, double eps, Value x);

}  // namespace tern::nn
