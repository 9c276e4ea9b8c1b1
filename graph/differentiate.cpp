#include "graph/differentiate.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/strings.h"
#include "graph/gradient_sums.h"
#include "ops/axpby.h"
#include "ops/fill.h"
#include "ops/rules.h"

namespace tern::graph {
namespace {

std::size_t at(Value value) { return static_cast<std::size_t>(value.id); }

class Differentiator {
 public:
  Differentiator(Graph& graph, std::span<const Root> roots, std::span<const GradTarget> targets,
                 std::span<const RecomputeSegment> recompute)
      : graph_(graph), roots_(roots), targets_(targets), recompute_(recompute), sums_(graph) {
    replacement_.resize(graph.values().size());
    found_.resize(targets.size());
    mark_needed();
    for (const GradTarget& target : targets) {
      if (can_begin_at(target)) sums_.begin_at(target.value, target.into);
    }
    for (const Root& root : roots) {
      if (!root.gradient.present()) continue;
      check_given(root);
      sums_.keep(root.gradient);
    }
  }

  std::vector<Value> run() {
    for (auto n = static_cast<std::int32_t>(graph_.nodes().size()); n-- > 0;) {
      for (const RecomputeSegment& segment : recompute_) {
        if (n == segment.end - 1) recompute_segment(segment);
      }
      meet_values_of(n);
      differentiate_node(n);
      const Node node = graph_.nodes()[static_cast<std::size_t>(n)];
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        if (node.results[i].present() && !adds(node, i)) {
          sums_.begins_here(node.results[i], node.call.inputs[i].present());
        }
      }
    }
    meet_values_of(-1);
    return found_;
  }

 private:
  static bool adds(const Node& node, std::size_t arg) {
    return ops::op_spec(node.call.op).args[arg].role == ops::Role::state || (node.call.accumulate >> arg & 1U) != 0;
  }

  void check_given(const Root& root) const {
    const TensorDesc& desc = graph_.desc(root.gradient);
    if (same_shape(desc, graph_.desc(root.value))) return;
    throw std::logic_error(
        cat("differentiate: a root is ", to_string(graph_.desc(root.value)), ", and its gradient ", to_string(desc)));
  }

  // From which version on a storage holds something that a target leads to.
  void mark_needed() {
    needed_from_.assign(graph_.storages().size(), std::numeric_limits<std::int32_t>::max());
    const auto mark = [&](Value value) {
      const ValueInfo& info = graph_.info(value);
      std::int32_t& from = needed_from_[static_cast<std::size_t>(info.storage)];
      from = std::min(from, info.version);
    };
    for (const GradTarget& target : targets_) mark(target.value);
    for (const Node& node : graph_.nodes()) {
      const bool reached = std::any_of(node.call.inputs.begin(), node.call.inputs.end(),
                                       [&](Value used) { return used.present() && is_needed(used); });
      if (!reached) continue;
      for (Value result : node.results) {
        if (result.present()) mark(result);
      }
    }
  }

  [[nodiscard]] bool is_needed(Value value) const {
    const ValueInfo& info = graph_.info(value);
    return info.version >= needed_from_[static_cast<std::size_t>(info.storage)];
  }

  // Whether a target's gradient is made in `into` from the start: nothing but the target's whole memory goes there.
  [[nodiscard]] bool can_begin_at(const GradTarget& target) const {
    if (!target.into.present()) return false;
    const Storage& storage = graph_.storage_of(target.value);
    const TensorDesc& into = graph_.desc(target.into);
    if (storage.kind == StorageKind::intermediate || !same_shape(into, storage.desc) ||
        !std::equal(into.strides, into.strides + into.rank, storage.desc.strides)) {
      return false;
    }
    return std::count_if(targets_.begin(), targets_.end(), [&](const GradTarget& other) {
             return graph_.info(other.value).storage == graph_.info(target.value).storage ||
                    (other.into.present() && graph_.info(other.into).storage == graph_.info(target.into).storage);
           }) == 1;
  }

  // Everything behind node n has been walked: its results have what their uses gave them. -1: values that no node made.
  void meet_values_of(std::int32_t n) {
    for (const Root& root : roots_) {
      if (graph_.info(root.value).producer != n) continue;
      if (root.gradient.present()) {
        sums_.add(root.value, root.gradient, false);
      } else {
        sums_.add_one(root.value);
      }
    }
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      if (graph_.info(targets_[t].value).producer == n) found_[t] = found(targets_[t]);
    }
  }

  Value found(const GradTarget& target) {
    if (target.into.present() && sums_.is_at(target.value, target.into)) {
      return sums_.is_given(target.value) ? graph_.latest(target.into) : Value{};
    }
    Value grad = sums_.of(target.value);
    if (grad == ops::kUnitGradient) {
      grad = ops::fill(graph_, make_desc(TERN_F32, shape_of(graph_.desc(target.value))), 1.0F, {});
    }
    if (!grad.present()) return {};
    if (target.into.present()) {
      return ops::axpby(graph_, grad, {}, {.a = 1.0F, .b = 0.0F, .into = graph_.latest(target.into)});
    }
    sums_.keep(grad);
    return grad;
  }

  // The value that the backward reads in place of `value`: its recomputed twin where there is one.
  Value current(Value value) {
    if (!value.present()) return value;
    const ValueInfo info = graph_.info(value);
    if (replacement_[at(value)].present()) return replacement_[at(value)];
    if (info.base < 0) return value;
    const Value base = current({info.base});
    if (base.id == info.base) return value;
    const Value twin = graph_.view(base, info.desc, info.offset - graph_.info({info.base}).offset);
    replacement_[at(value)] = twin;
    return twin;
  }

  // What is put together within a segment is put together again in memory of its own.
  void replace_buffer(Value used) {
    while (used.present() && graph_.info(used).base >= 0) used = {graph_.info(used).base};
    if (!used.present() || replacement_[at(used)].present()) return;
    const bool is_buffer = graph_.info(used).producer < 0 && graph_.storage_of(used).kind == StorageKind::intermediate;
    if (is_buffer) replacement_[at(used)] = graph_.buffer(TensorDesc(graph_.desc(used)));
  }

  void recompute_segment(const RecomputeSegment& segment) {
    for (std::int32_t n = segment.begin; n < segment.end; ++n) {
      const Node node = graph_.nodes()[static_cast<std::size_t>(n)];
      OpCall call = node.call;
      for (Value& value : call.inputs) {
        replace_buffer(value);
        value = current(value);
      }
      const std::vector<Value> results = graph_.emit(call);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (node.results[i].present()) replacement_[at(node.results[i])] = results[i];
      }
    }
  }

  // The gradients of a node's results; false: there is none.
  bool gradients_of(const Node& node, std::vector<Value>& out) {
    const ops::OpSpec& spec = ops::op_spec(node.call.op);
    bool reached = false;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      if (!node.results[i].present()) continue;
      out[i] = sums_.of(node.results[i]);
      if (out[i] == Value{}) continue;
      reached = true;
      if (spec.args[i].role == ops::Role::state) {
        throw std::logic_error(cat("differentiate: ", spec.name, " changes a state, which has no gradient"));
      }
    }
    return reached;
  }

  // Where the rule may add: once to a storage, as it may do so by several calls, and not beside what it reads.
  std::vector<Value> places_of(const Node& node, const std::vector<bool>& wanted, const std::vector<Value>& out_grads) {
    const auto memory = [&](Value value) { return graph_.info(value).storage; };
    std::vector<Value> into(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      bool free = true;
      for (std::size_t j = 0; j < i; ++j) {
        free = free && !(wanted[j] && memory(node.call.inputs[j]) == memory(node.call.inputs[i]));
      }
      if (!free) continue;
      into[i] = sums_.into(node.call.inputs[i]);
      for (Value out_grad : out_grads) {
        if (into[i].present() && out_grad.present() && memory(out_grad) == memory(into[i])) into[i] = {};
      }
    }
    return into;
  }

  void differentiate_node(std::int32_t n) {
    const Node node = graph_.nodes()[static_cast<std::size_t>(n)];
    const ops::OpSpec& spec = ops::op_spec(node.call.op);
    const std::size_t count = spec.args.size();
    std::vector<bool> wanted(count, false);
    bool any_wanted = false;
    for (std::size_t i = 0; i < count; ++i) {
      const Value used = node.call.inputs[i];
      wanted[i] = used.present() && spec.args[i].role != ops::Role::output && is_needed(used);
      any_wanted = any_wanted || wanted[i];
      if (spec.args[i].role == ops::Role::state) wanted[i] = false;
    }
    // What an output was added to has the output's own gradient: both are one storage.
    std::vector<Value> out_grads(count);
    if (!any_wanted || !gradients_of(node, out_grads)) return;
    const auto rule = ops::op_rules(node.call.op).backward;
    if (rule == nullptr) throw std::logic_error(cat("differentiate: ", spec.name, " has no gradient"));

    // The rule sees the recomputed inputs and results.
    OpCall call = node.call;
    std::vector<Value> results = node.results;
    for (Value& value : call.inputs) value = current(value);
    for (Value& value : results) value = current(value);
    const std::vector<Value> into = places_of(node, wanted, out_grads);
    std::vector<bool> absorbed(count, false);
    const auto first = static_cast<std::int32_t>(graph_.nodes().size());
    ops::BackwardCall backward{graph_, call, results, out_grads, wanted, into, absorbed};
    const std::vector<Value> grads = rule(backward);
    for (std::size_t i = 0; i < count; ++i) {
      if (!wanted[i] || !grads[i].present()) continue;
      const bool sole = is_sole(grads, i, first);
      if (absorbed[i]) {
        sums_.absorb(node.call.inputs[i], grads[i], sole);
      } else {
        sums_.add(node.call.inputs[i], grads[i], sole);
      }
    }
  }

  // Whether nodes from `first` on made the gradient, and nothing else is given it.
  [[nodiscard]] bool is_sole(const std::vector<Value>& grads, std::size_t i, std::int32_t first) const {
    const ValueInfo& info = graph_.info(grads[i]);
    return info.producer >= first && std::count_if(grads.begin(), grads.end(), [&](Value other) {
                                       return other.present() && graph_.info(other).storage == info.storage;
                                     }) == 1;
  }

  Graph& graph_;
  std::span<const Root> roots_;
  std::span<const GradTarget> targets_;
  std::span<const RecomputeSegment> recompute_;
  GradientSums sums_;
  std::vector<std::int32_t> needed_from_;  // per storage: a version
  std::vector<Value> replacement_;         // recomputed twins, per value of the forward
  std::vector<Value> found_;               // per target
};

}  // namespace

std::vector<Value> differentiate(Graph& graph, std::span<const Root> roots, std::span<const GradTarget> targets,
                                 std::span<const RecomputeSegment> recompute) {
  return Differentiator(graph, roots, targets, recompute).run();
}

}  // namespace tern::graph
