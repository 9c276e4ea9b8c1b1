#include "train/expert_balance.h"

#include "base/status.h"
#include "nn/moe.h"
#include "ops/act.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/fill.h"
#include "ops/merge_lse.h"
#include "ops/mul.h"
#include "ops/row_sum.h"

namespace tern::train {
namespace {

using ops::Value;

// Adds nodes for one router after another.
class Balance {
 public:
  Balance(nn::Context& context, std::int64_t experts)
      : graph_(context.graph()), experts_(experts), needs_(context.options().needs) {}

  // softmax(logits): [tokens, experts].
  Value probabilities(Value logits) {
    const TensorDesc wide = graph_.desc(logits);
    // An expert is a shard of one logit: its row_max, and a row_sum of 1.
    TensorDesc across = make_desc(TERN_F32, {experts_, wide.shape[0]});
    across.strides[0] = 1;
    across.strides[1] = experts_;
    if (wide.dynamic_dim == 0) across = with_dynamic(across, 1, wide.count_slot);
    TensorDesc ones = across;
    ones.strides[0] = ones.strides[1] = 0;
    const Value one = ops::fill(graph_, make_desc(TERN_F32, {1}), 1.0F, {.at = {}, .needs = needs_});
    const Value lse = ops::merge_lse(graph_, graph_.view(logits, across, 0), graph_.view(one, ones, 0), needs_);
    return ops::act(graph_, difference(logits, each_row(lse, wide)),
                    {.kind = TERN_ACT_EXP, .out = TERN_F32, .needs = needs_});
  }
  // offsets [experts + 1] i32 -> [experts] f32: rows of each.
  Value counts(Value offsets) {
    const Value numbers = ops::cast_copy(graph_, offsets, {.out = TERN_F32, .into = {}, .at = {}, .needs = needs_});
    const TensorDesc each = make_desc(TERN_F32, {experts_});
    return difference(graph_.view(numbers, each, 1), graph_.view(numbers, each, 0));
  }
  // The gradient by the logits of sum over tokens and experts of p share: p (share - sum over experts of p share).
  Value gradient(Value p, Value share) {
    const TensorDesc wide = graph_.desc(p);
    TensorDesc spread = wide;
    spread.strides[0] = 0;
    spread.strides[1] = 1;
    const Value weighted = product(p, graph_.view(share, spread, 0));
    const Value mean = ops::row_sum(graph_, weighted, {.axis = 1, .out = TERN_F32, .into = {}, .needs = needs_});
    return difference(weighted, product(p, each_row(mean, wide)));
  }
  Value product(Value x, Value y) { return ops::mul(graph_, x, y, {.out = TERN_F32, .into = {}, .needs = needs_}); }
  Value sum(Value x, Value y, float scale = 1.0F) { return combined(x, y, scale, scale); }
  Value sum_of_tokens(Value p) {
    return ops::row_sum(graph_, p, {.axis = 0, .out = TERN_F32, .into = {}, .needs = needs_});
  }

 private:
  Value difference(Value x, Value y) { return combined(x, y, 1.0F, -1.0F); }
  Value combined(Value x, Value y, float a, float b) {
    ops::AxpbyOptions options;
    options.a = a;
    options.b = b;
    options.needs = needs_;
    return ops::axpby(graph_, x, y, options);
  }
  // [tokens] seen as [tokens, experts].
  Value each_row(Value x, TensorDesc wide) {
    wide.dtype = TERN_F32;
    wide.strides[0] = 1;
    wide.strides[1] = 0;
    return graph_.view(x, wide, 0);
  }

  graph::Graph& graph_;
  std::int64_t experts_;
  std::uint32_t needs_;
};

}  // namespace

void ExpertUse::add(const ExpertUse& more) {
  counts.resize(more.counts.size());
  probabilities.resize(more.probabilities.size());
  for (std::size_t e = 0; e < more.counts.size(); ++e) counts[e] += more.counts[e];
  for (std::size_t e = 0; e < more.probabilities.size(); ++e) probabilities[e] += more.probabilities[e];
}

double balance_loss(const ExpertUse& use) {
  double sum = 0;
  double rows = 0;  // of all layers: a row's probabilities add up to 1
  for (std::size_t e = 0; e < use.counts.size(); ++e) {
    sum += use.counts[e] * use.probabilities[e];
    rows += use.probabilities[e];
  }
  return rows > 0 ? static_cast<double>(use.counts.size()) * sum / (rows * rows) : 0.0;
}

void add_expert_balance(nn::Context& context, bool trains, std::vector<graph::Root>& roots) {
  graph::Graph& graph = context.graph();
  const std::vector<nn::Router> routers = nn::routers(context);
  if (routers.empty()) {
    throw Failure(
        usage_error("--router_aux_loss_coef keeps experts evenly used, and the model has none that transformers "
                    "balances",
                    "remove it"));
  }
  const std::int64_t experts = graph.desc(routers.front().logits).shape[1];
  Balance balance(context, experts);
  Value counts;
  Value probabilities;
  std::vector<Value> by_router;
  for (const auto& router : routers) {
    const Value p = balance.probabilities(router.logits);
    const Value of_router = balance.counts(router.offsets);
    const Value sums = balance.sum_of_tokens(p);
    counts = counts.present() ? balance.sum(counts, of_router) : of_router;
    probabilities = probabilities.present() ? balance.sum(probabilities, sums) : sums;
    by_router.push_back(p);
  }
  graph.output(kExpertCounts, counts);
  graph.output(kExpertProbabilities, probabilities);
  if (!trains) return;
  const Value others = graph.input(kOtherCounts, make_desc(TERN_F32, {experts}));
  TensorDesc each = make_desc(TERN_F32, {experts});
  each.strides[0] = 0;
  const Value factor = graph.view(graph.input(kBalanceFactor, make_desc(TERN_F32, {1})), each, 0);
  const auto layers = static_cast<double>(routers.size());
  const auto scale = static_cast<float>(static_cast<double>(experts) / (layers * layers));
  const Value share = balance.product(balance.sum(counts, others, scale), factor);
  for (std::size_t i = 0; i < routers.size(); ++i) {
    roots.push_back({.value = routers[i].logits, .gradient = balance.gradient(by_router[i], share)});
  }
}

}  // namespace tern::train
