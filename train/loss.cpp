#include "train/loss.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "graph/row_parts.h"
#include "nn/head.h"
#include "ops/gather_rows.h"

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

// The sum over supervised tokens of weight * cross entropy. Inputs: loss_rows [rows] i32, which tokens predict a
// supervised one; targets [rows] i32; loss_weights [rows] f32.
Value cross_entropy(const LossContext& at) {
  graph::Graph& graph = at.nn.graph();
  const nn::BuildOptions& build = at.nn.options();
  const std::int64_t rows = at.options.capacity.loss_rows;
  const Value loss_rows =
      graph.input("loss_rows", with_dynamic(make_desc(TERN_I32, {rows}), 0, kLossRows), Padding::minus_one);
  const Value targets = graph.input("targets", with_dynamic(make_desc(TERN_I32, {rows}), 0, kLossRows));
  const Value weights = graph.input("loss_weights", with_dynamic(make_desc(TERN_F32, {rows}), 0, kLossRows));
  // Only positions that predict a supervised token go through the head: its cost is that of the answer, not the prompt.
  const Value supervised = ops::gather_rows(graph, at.hidden, loss_rows, build.needs);
  const nn::Head head = at.model.architecture->head(at.model.config);
  ops::LinearCrossEntropyOptions wanted;
  wanted.dh = build.training;
  if (is_trained(at.options, head.weight)) {
    wanted.dw = true;
    wanted.dw_into = at.accumulators.at(head.weight);
  }
  wanted.row_statistics = fits_whole(at, head.weight);
  const ops::LinearCrossEntropyOut out = nn::cross_entropy(at.nn, head, supervised, targets, weights, wanted);
  if (wanted.row_statistics) {
    graph.output(kRowMax, out.row_max);
    graph.output(kRowTarget, out.row_target);
  }
  return out.loss;
}

constexpr std::array kLosses = {Loss{"cross_entropy", cross_entropy}};

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
