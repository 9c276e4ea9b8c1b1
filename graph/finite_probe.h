// Finds where a run first holds a number that isn't finite: for the error that ends such a run.
#pragma once

#include <optional>
#include <string>

#include "graph/node_probe.h"
#include "graph/tensor_store.h"

namespace tern::graph {

struct NonFinite {
  std::string op;             // "matmul"; empty: a weight that the run reads isn't finite itself
  std::string tensor;         // the weights that the op reads, else those read last before it
  double value = 0;           // the first such element: a NaN or an infinity
  bool reads_tensor = false;  // the op reads `tensor` itself

  // "op matmul of model.layers.1.mlp.up_proj.weight first gives inf", "the weight lm_head.weight holds nan".
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] std::string non_finite_name(double value);  // nan, inf or -inf

// Reads every result on the host, so that a run takes many times as long. Quantised weights aren't looked at.
class FiniteProbe final : public NodeProbe {
 public:
  void before(const ProbedCall& call) override;
  void after(const ProbedCall& call) override;
  [[nodiscard]] const std::optional<NonFinite>& first() const { return first_; }

 private:
  std::optional<NonFinite> first_;
  std::string last_read_;
};

// The first element of a tensor that isn't finite; none where all are, or where it holds no floating numbers. `bytes`:
// of its first plane, from the first element on.
[[nodiscard]] std::optional<double> first_non_finite(const TensorDesc& desc, std::span<const std::byte> bytes);
[[nodiscard]] std::optional<double> first_non_finite(const TensorStore& store, const std::string& name);

}  // namespace tern::graph
