#include "graph/differentiate.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "ops/rules.h"

namespace tern::graph {
namespace {

std::size_t at(Value value) { return static_cast<std::size_t>(value.id); }

class Differentiator {
 public:
  Differentiator(Graph& graph, Value loss, std::span<const GradTarget> targets,
                 std::span<const RecomputeSegment> recompute)
      : graph_(graph), loss_(loss), recompute_(recompute), num_values_(graph.values().size()) {
    grads_.resize(num_values_);
    needed_.assign(num_values_, false);
    is_target_.assign(num_values_, false);
    for (const GradTarget& target : targets) {
      needed_[at(target.value)] = true;
      is_target_[at(root(target.value))] = true;
      grads_[at(root(target.value))] = target.into;
    }
    mark_needed();
  }

  std::vector<Value> run(std::span<const GradTarget> targets) {
    const auto num_nodes = static_cast<std::int32_t>(graph_.nodes().size());
    replacement_.resize(num_values_);
    for (std::int32_t n = num_nodes; n-- > 0;) {
      for (const RecomputeSegment& segment : recompute_) {
        if (n == segment.end - 1) recompute_segment(segment);
      }
      differentiate_node(n);
      // Nothing before this node adds to the gradient of what it made: what shares that memory may be added to again.
      for (Value result : graph_.nodes()[static_cast<std::size_t>(n)].results) {
        if (result.present() && !is_target_[at(result)]) grads_[at(result)] = {};
      }
    }
    std::vector<Value> out;
    for (const GradTarget& target : targets) {
      const Value grad = grads_[at(root(target.value))];
      out.push_back(grad == target.into ? Value{} : grad);
    }
    return out;
  }

 private:
  // A view's gradient is kept at the value that it is a view of.
  [[nodiscard]] Value root(Value value) const {
    while (graph_.info(value).base >= 0) value = {graph_.info(value).base};
    return value;
  }

  void mark_needed() {
    for (std::size_t v = 0; v < num_values_; ++v) {
      const ValueInfo& info = graph_.values()[v];
      if (info.base >= 0 && needed_[static_cast<std::size_t>(info.base)]) needed_[v] = true;
      if (info.producer < 0) continue;
      const Node& node = graph_.nodes()[static_cast<std::size_t>(info.producer)];
      const ops::OpSpec& spec = ops::op_spec(node.call.op);
      for (std::size_t i = 0; i < spec.args.size(); ++i) {
        const Value used = node.call.inputs[i];
        if (used.present() && used.id < static_cast<std::int32_t>(v) && needed_[at(used)]) needed_[v] = true;
      }
    }
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

  void recompute_segment(const RecomputeSegment& segment) {
    for (std::int32_t n = segment.begin; n < segment.end; ++n) {
      const Node node = graph_.nodes()[static_cast<std::size_t>(n)];
      OpCall call = node.call;
      for (Value& value : call.inputs) value = current(value);
      const std::vector<Value> results = graph_.emit(call);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (node.results[i].present()) replacement_[at(node.results[i])] = results[i];
      }
    }
  }

  // A gradient held for the root, seen in the shape of `value`.
  Value shaped_like(Value grad, Value value) {
    if (!grad.present()) return grad;
    const TensorDesc& wanted = graph_.desc(value);
    if (same_shape(graph_.desc(grad), wanted)) return grad;
    if (num_elements(graph_.desc(grad)) != num_elements(wanted) || !is_contiguous(graph_.desc(grad))) {
      throw std::logic_error("differentiate: only views of the whole value have a gradient");
    }
    TensorDesc desc = make_desc(graph_.desc(grad).dtype, shape_of(wanted));
    desc.dynamic_dim = wanted.dynamic_dim;
    desc.count_slot = wanted.count_slot;
    return graph_.view(grad, desc, 0);
  }

  void differentiate_node(std::int32_t n) {
    const Node node = graph_.nodes()[static_cast<std::size_t>(n)];
    const ops::OpSpec& spec = ops::op_spec(node.call.op);
    const std::size_t count = spec.args.size();
    std::vector<Value> out_grads(count);
    bool reached = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (!node.results[i].present()) continue;
      out_grads[i] = node.results[i] == loss_ ? ops::kUnitGradient
                                              : shaped_like(grads_[at(root(node.results[i]))], node.results[i]);
      reached = reached || out_grads[i].id != -1;
    }
    std::vector<bool> wanted(count, false);
    bool any_wanted = false;
    for (std::size_t i = 0; i < count; ++i) {
      const Value used = node.call.inputs[i];
      wanted[i] = used.present() && spec.args[i].role == ops::Role::input && needed_[at(used)];
      any_wanted = any_wanted || wanted[i];
    }
    // What an output was added to has the output's own gradient.
    const auto passes_through = [&](std::size_t i) {
      return spec.args[i].role == ops::Role::output && (node.call.accumulate >> i & 1U) != 0 &&
             needed_[at(node.call.inputs[i])] && out_grads[i].present();
    };
    for (std::size_t i = 0; reached && i < count; ++i) {
      if (passes_through(i)) add_gradient(node.call.inputs[i], out_grads[i], false);
    }
    if (!reached || !any_wanted) return;
    const auto rule = ops::op_rules(node.call.op).backward;
    if (rule == nullptr) throw std::logic_error(cat("differentiate: ", spec.name, " has no gradient"));

    // The rule sees the recomputed inputs and results.
    OpCall call = node.call;
    std::vector<Value> results = node.results;
    for (Value& value : call.inputs) value = current(value);
    for (Value& value : results) value = current(value);
    std::vector<Value> into(count);
    for (std::size_t i = 0; i < count; ++i) {
      // A value used twice by one call is added to in place once; the second contribution is summed after.
      if (!wanted[i]) continue;
      bool earlier = false;
      for (std::size_t j = 0; j < i; ++j) {
        earlier = earlier || (wanted[j] && root(node.call.inputs[j]) == root(node.call.inputs[i]));
      }
      if (earlier) continue;
      const Value held = grads_[at(root(node.call.inputs[i]))];
      if (is_exclusive(held)) into[i] = shaped_like(held, node.call.inputs[i]);
    }
    std::vector<bool> absorbed(count, false);
    ops::BackwardCall backward{graph_, call, results, out_grads, wanted, into, absorbed};
    const std::vector<Value> grads = rule(backward);
    for (std::size_t i = 0; i < count; ++i) {
      if (wanted[i] && grads[i].present()) add_gradient(node.call.inputs[i], grads[i], absorbed[i]);
    }
  }

  // Whether nothing but one value holds this gradient: a rule may give one gradient to several inputs (rms_norm's x and
  // residual), and adding to it in place would change the other's.
  [[nodiscard]] bool is_exclusive(Value held) const {
    if (!held.present()) return true;
    const Value memory = root(held);
    return std::count_if(grads_.begin(), grads_.end(),
                         [&](Value other) { return other.present() && root(other) == memory; }) <= 1;
  }

  // Adds a contribution to the gradient held for `value`'s root.
  void add_gradient(Value value, Value contribution, bool absorbed) {
    const Value holder = root(value);
    Value& held = grads_[at(holder)];
    if (absorbed || !held.present()) {
      held = shaped_like(contribution, holder);
      return;
    }
    if (!is_exclusive(held)) {
      OpCall sum;
      sum.op = TERN_OP_AXPBY;
      sum.attrs = ops::pack_attrs(tern_axpby_attrs{1.0F, 1.0F});
      sum.inputs = {shaped_like(contribution, holder), held, {}};
      TensorDesc desc = make_desc(graph_.desc(held).dtype, shape_of(graph_.desc(held)));
      desc.dynamic_dim = graph_.desc(held).dynamic_dim;
      desc.count_slot = graph_.desc(held).count_slot;
      sum.outputs = {absent_desc(), absent_desc(), desc};
      held = graph_.emit(sum)[TERN_AXPBY_OUT];
      return;
    }
    const Value sum_into = held;
    OpCall call;
    call.op = TERN_OP_AXPBY;
    call.attrs = ops::pack_attrs(tern_axpby_attrs{1.0F, 0.0F});
    call.accumulate = 1U << TERN_AXPBY_OUT;
    call.inputs = {shaped_like(contribution, holder), {}, sum_into};
    call.outputs = {absent_desc(), absent_desc(), graph_.desc(sum_into)};
    held = graph_.emit(call)[TERN_AXPBY_OUT];
  }

  Graph& graph_;
  Value loss_;
  std::span<const RecomputeSegment> recompute_;
  std::size_t num_values_;    // values of the forward: those the backward appends have no gradient
  std::vector<Value> grads_;  // per root value
  std::vector<bool> is_target_;
  std::vector<bool> needed_;        // a path leads from a target to this value
  std::vector<Value> replacement_;  // recomputed twins
};

}  // namespace

std::vector<Value> differentiate(Graph& graph, Value loss, std::span<const GradTarget> targets,
                                 std::span<const RecomputeSegment> recompute) {
  if (num_elements(graph.desc(loss)) != 1) throw std::logic_error("differentiate: the loss is one number");
  return Differentiator(graph, loss, targets, recompute).run(targets);
}

}  // namespace tern::graph
