// A call of attention, its paged form or its backward, decoded.
#pragma once

#include "mutant/launch.h"
#include "ops/ref/attention_row.h"

namespace tern::mutant {

// Where each op of attention keeps its arguments.
struct AttentionPlaces {
  int q, k, v, cu_q, lens, table, sinks, mask, out, lse;
};

class AttentionCall {
 public:
  AttentionCall(const tern_op_desc& desc, std::vector<ops::ref::Tensor>& args);

 protected:
  ops::ref::Tensor& arg(int index) { return args_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] ops::ref::AttentionInputs inputs();
  // What a row's key gives to the gradients, `times` as often, is added to them.
  void add_gradient(const ops::ref::AttentionRow& row, std::size_t key, double times);

  std::uint32_t op_;
  AttentionPlaces at_;
  std::vector<ops::ref::Tensor>& args_;
  tern_attention_attrs attrs_{};  // all three ops' are alike
};

}  // namespace tern::mutant
