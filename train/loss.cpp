#include "train/loss.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "graph/row_parts.h"
#include "nn/head_operands.h"
#include "ops/act.h"
#include "ops/axpby.h"
#include "ops/gather_rows.h"
#include "ops/merge_lse.h"
#include "ops/mul.h"

namespace tern::train {
namespace {

using graph::Padding;
using ops::Value;

bool is_trained(const TrainingGraphOptions& options, const std::string& name) {
  return std::find(options.trainable.begin(), options.trainable.end(), name) != options.trainable.end();
}

// A head that no buffer of the device holds is cut by rows of the vocabulary, and its parts have no statistics in
// common.
bool fits_whole(const LossContext& at, const std::string& weight) {
  const TensorDesc expanded = make_desc(TERN_F32, shape_of(at.model.store->at(weight).desc));
  return graph::row_parts(expanded, at.model.store->device()->info(), weight).size() == 1;
}

// The rows of the head: inputs that say which tokens predict a supervised one, and what those tokens give.
struct HeadRows {
  std::string weight;  // stored name of the head's
  nn::HeadOperands operands;
  Value targets;  // [rows] i32
  Value weights;  // [rows] f32
};

// Only positions that predict a supervised token go through the head: its cost is that of the answer, not the prompt.
HeadRows head_rows(const LossContext& at) {
  graph::Graph& graph = at.nn.graph();
  const std::int64_t rows = at.options.capacity.loss_rows;
  const Value loss_rows =
      graph.input("loss_rows", with_dynamic(make_desc(TERN_I32, {rows}), 0, kLossRows), Padding::minus_one);
  const nn::Head head = at.model.architecture->head(at.model.config);
  HeadRows out;
  out.weight = head.weight;
  out.targets = graph.input("targets", with_dynamic(make_desc(TERN_I32, {rows}), 0, kLossRows));
  out.weights = graph.input("loss_weights", with_dynamic(make_desc(TERN_F32, {rows}), 0, kLossRows));
  const Value supervised = ops::gather_rows(graph, at.hidden, loss_rows, at.nn.options().needs);
  out.operands = nn::head_operands(at.nn, head, supervised);
  return out;
}

void tell_rows(const LossContext& at, const ops::LinearCrossEntropyOut& of) {
  graph::Graph& graph = at.nn.graph();
  graph.output(kRowMax, of.row_max);
  graph.output(kRowTarget, of.row_target);
  if (at.options.row_losses) graph.output(kRowSum, of.row_sum);
}

void require_statistics(const LossContext& at, const HeadRows& rows, std::string_view flag) {
  if (fits_whole(at, rows.weight)) return;
  throw Failure(usage_error(
      cat(flag, " reads the sums of each row of logits, and no buffer of the device holds all of ", rows.weight),
      "leave it out, or train on a device with larger buffers"));
}

Value weighted_cross_entropy(const LossContext& at, const HeadRows& rows, bool tells_rows) {
  ops::LinearCrossEntropyOptions wanted;
  wanted.dh = at.nn.options().training;
  if (is_trained(at.options, rows.weight)) {
    wanted.dw = true;
    wanted.dw_into = at.accumulators.at(rows.weight);
  }
  wanted.row_statistics = tells_rows;
  const ops::LinearCrossEntropyOut out = nn::cross_entropy(at.nn, rows.operands, rows.targets, rows.weights, wanted);
  if (tells_rows) tell_rows(at, out);
  return out.loss;
}

// The sum over supervised tokens of weight * cross entropy.
Value cross_entropy(const LossContext& at) {
  const HeadRows rows = head_rows(at);
  if (at.options.row_losses) require_statistics(at, rows, "--enable_channel_loss");
  return weighted_cross_entropy(at, rows, fits_whole(at, rows.weight));
}

// The sum over supervised tokens of weight * p * cross entropy, where p, the probability of the target, passes no
// gradient: the head runs once for the probabilities and once more with the weights that they make (Wu et al., "On the
// Generalization of SFT: A Reinforcement Learning Perspective with Reward Rectification", 2025).
Value dynamic_fine_tuning(const LossContext& at) {
  graph::Graph& graph = at.nn.graph();
  const std::uint32_t needs = at.nn.options().needs;
  HeadRows rows = head_rows(at);
  require_statistics(at, rows, "--enable_dft_loss");
  ops::LinearCrossEntropyOptions statistics;
  statistics.row_statistics = true;
  const ops::LinearCrossEntropyOut plain =
      nn::cross_entropy(at.nn, rows.operands, rows.targets, rows.weights, statistics);
  tell_rows(at, plain);
  const TensorDesc row = graph.desc(plain.row_max);
  const TensorDesc one_shard = with_dynamic(make_desc(TERN_F32, {1, row.shape[0]}), 1, kLossRows);
  const Value lse =
      ops::merge_lse(graph, graph.view(plain.row_max, one_shard, 0), graph.view(plain.row_sum, one_shard, 0), needs);
  ops::AxpbyOptions difference;
  difference.b = -1.0F;
  difference.needs = needs;
  const Value log_probability = ops::axpby(graph, plain.row_target, lse, difference);
  const Value probability = ops::act(graph, log_probability, {.kind = TERN_ACT_EXP, .out = TERN_F32, .needs = needs});
  rows.weights = ops::mul(graph, rows.weights, probability, {.out = TERN_F32, .into = {}, .needs = needs});
  return weighted_cross_entropy(at, rows, false);
}

constexpr std::array kLosses = {Loss{"cross_entropy", cross_entropy}, Loss{kDftLoss, dynamic_fine_tuning}};

}  // namespace

std::span<const Loss> losses() { return kLosses; }

Result<const Loss*> find_loss(std::string_view name) {
  const auto* it = std::find_if(kLosses.begin(), kLosses.end(), [&](const Loss& loss) { return loss.name == name; });
  if (it != kLosses.end()) return it;
  std::vector<std::string> names;
  for (const Loss& loss : kLosses) names.emplace_back(loss.name);
  return usage_error(cat("the loss \"", name, "\" is unknown"), cat("choose ", join(names, " or ")));
}

}  // namespace tern::train
