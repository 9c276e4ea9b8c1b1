// Routing of tokens to experts: where each (token, choice) goes, and the sums that bring it back.
#pragma once

#include "numerics_view.h"

namespace fake::numerics {

// places[row * k + choice]: the row of the permuted tensor; from_row[place] the inverse. Stable by expert.
struct Routing {
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> sources;
  std::vector<std::int64_t> counts;  // of each expert
};
[[nodiscard]] Routing route(const std::vector<std::int64_t>& experts, std::int64_t expert_number);

// permuted[place] = tokens[source / k] for the first permuted.shape[0] places.
void permute_tokens(const View& tokens, const Routing& routing, std::int64_t k, const View& permuted);

struct Gathering {
  std::vector<std::int64_t> places;  // [rows * k]; below 0: dropped
  std::int64_t k = 1;
  bool by_choice = false;            // places lie choice by choice ([k, rows]), as the first version of the op has them
  const View* scales = nullptr;      // [rows, k]
  const View* bias = nullptr;        // [experts, width]
  const View* expert_ids = nullptr;  // [rows, k]
  std::vector<const View*> addends;  // [rows, width]
};
// out[row] = addends + sum over choices of scale (permuted[place] + bias[expert]).
void combine_tokens(const View& permuted, const Gathering& gathering, const View& out);
// d permuted[place] = scale dout[row] (rows that nothing points at are 0); dscales[row, choice] = dout . permuted.
void combine_gradient(const View& dout, const View* permuted, const Gathering& gathering, const View& dpermuted,
                      const View* dscales);

struct Gating {
  std::int64_t k = 1;
  bool renormalise = false;  // softmax over the chosen alone
};
void gate(const View& logits, const View* finished, const Gating& gating, const View& weights, const View& experts,
          const View* rows, const View* softmaxed);

}  // namespace fake::numerics
