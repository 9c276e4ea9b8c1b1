#include "graph/bind.h"

#include <algorithm>

#include "base/strings.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/program_ops.h"
#include "ops/rules.h"

namespace tern::graph {
namespace {

// Emits into the bound graph what the device can do, decomposing on the way: a decomposition's own calls are bound
// alike.
class Binder : public ops::Emitter {
 public:
  Binder(const accel::Device& device, const accel::Device* host, const BindOptions& options)
      : device_(device), host_(host), options_(options) {}

  std::vector<Value> emit(const OpCall& call) override {
    if (ops::is_program_op(call.op)) {
      auto results = out_.graph.emit(call);
      out_.graph.set_last_lane(lane_);
      return results;
    }
    const accel::OpDesc desc = op_desc(out_.graph, call);
    if (options_.prefer_decomposition && is_placed(call)) return emit_and_place(call);
    if (options_.prefer_decomposition) {
      if (auto results = try_decompose(call); !results.empty()) {
        count(call, "decomposed", "asked for");
        return results;
      }
    }
    const accel::Verdict native = verdict(device_, desc, native_);
    if (native.native) {
      if (depth_ == 0) count(call, "native", {});
      auto results = out_.graph.emit(call);
      out_.graph.set_last_lane(lane_);
      return results;
    }
    if (is_placed(call)) return emit_and_place(call);
    if (auto results = try_decompose(call); !results.empty()) {
      count(call, "decomposed", native.reason);
      return results;
    }
    return emit_on_host(call, desc, native.reason);
  }

  [[nodiscard]] const TensorDesc& desc(Value value) const override { return out_.graph.desc(value); }
  Value view(Value value, const TensorDesc& desc, std::int64_t offset) override {
    return out_.graph.view(value, desc, offset);
  }
  BoundGraph& out() { return out_; }
  // Of what is emitted from here on.
  void set_lane(Lane lane) { lane_ = lane; }

 private:
  // Whether an output is written upon a part of something, and there is another way.
  static bool is_placed(const OpCall& call) {
    if (call.op == TERN_OP_CAST_COPY) return false;
    bool placed = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) placed = placed || is_place(call, i);
    return placed;
  }
  static bool is_place(const OpCall& call, std::size_t arg) {
    return call.inputs[arg].present() && (call.accumulate >> arg & 1U) == 0 &&
           ops::op_spec(call.op).args[arg].role == ops::Role::output;
  }

  // Decompositions, and devices that know no strides, give tensors of their own: they are copied where they belong.
  std::vector<Value> emit_and_place(const OpCall& call) {
    OpCall fresh = call;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!is_place(call, i)) continue;
      fresh.inputs[i] = {};
      fresh.outputs[i] = ops::like(call.outputs[i], call.outputs[i].dtype);
    }
    std::vector<Value> results = emit(fresh);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!is_place(call, i)) continue;
      // Two outputs of one call may lie on one storage.
      const Value at = out_.graph.latest(call.inputs[i]);
      results[i] = ops::cast_copy(*this, results[i], {.out = call.outputs[i].dtype, .at = at, .needs = call.needs});
    }
    return results;
  }
  std::vector<Value> try_decompose(const OpCall& call) {
    const auto decompose = ops::op_rules(call.op).decompose;
    if (decompose == nullptr) return {};
    ++depth_;
    auto results = decompose(*this, call);
    --depth_;
    return results;
  }

  std::vector<Value> emit_on_host(const OpCall& call, const accel::OpDesc& desc, const std::string& reason) {
    const auto name = ops::op_spec(call.op).name;
    std::vector<std::string> tensors;
    for (const TensorDesc& arg : desc.args) {
      if (is_present(arg)) tensors.push_back(to_string(arg));
    }
    const std::string where = cat("op ", name, "(", join(tensors, ", "), ") on ", device_.name());
    if (options_.fallback == Fallback::forbid || host_ == nullptr) {
      throw Failure(device_error(
          cat(where, " has neither a kernel nor a decomposition", reason.empty() ? std::string() : cat(": ", reason)),
          "run it on the host with --fallback warn, or choose another --device"));
    }
    const accel::Verdict on_host = verdict(*host_, desc, host_verdicts_);
    if (!on_host.native) {
      throw Failure(device_error(
          cat(where, " has no kernel (", reason, "), and neither has ", host_->name(), " (", on_host.reason, ")"),
          "choose another --device or --torch_dtype"));
    }
    count(call, "host", reason);
    auto results = out_.graph.emit(call);
    out_.graph.set_last_lane(lane_);
    out_.graph.set_last_on_host();
    return results;
  }

  // `supports` is asked once for equal calls: thirty layers ask alike.
  static accel::Verdict verdict(const accel::Device& device, const accel::OpDesc& desc,
                                std::map<std::string, accel::Verdict>& known) {
    const auto [place, is_new] = known.try_emplace(desc.key());
    if (is_new) place->second = accel::supports(device, desc);
    return place->second;
  }

  void count(const OpCall& call, const char* how, const std::string& why) {
    const std::string op(ops::op_spec(call.op).name);
    for (BindingRow& row : out_.table) {
      if (row.op == op && row.how == how && row.why == why) {
        ++row.calls;
        return;
      }
    }
    out_.table.push_back({op, how, why, 1});
  }

  const accel::Device& device_;
  const accel::Device* host_;
  BindOptions options_;
  BoundGraph out_;
  std::map<std::string, accel::Verdict> native_;
  std::map<std::string, accel::Verdict> host_verdicts_;
  int depth_ = 0;
  Lane lane_ = Lane::compute;
};

}  // namespace

accel::OpDesc op_desc(const Graph& graph, const OpCall& call) {
  accel::OpDesc desc;
  desc.op = call.op;
  desc.args = graph.arg_descs(call);
  desc.attrs = call.attrs;
  desc.needs = call.needs;
  desc.accumulate = call.accumulate;
  return desc;
}

BoundGraph bind_graph(const Graph& graph, const accel::Device& device, const accel::Device* host,
                      const BindOptions& options) {
  Binder binder(device, host, options);
  std::vector<Value> map(graph.values().size());
  Graph& to = binder.out().graph;
  for (const Node& node : graph.nodes()) {
    OpCall call = node.call;
    for (Value& value : call.inputs) value = map_value(graph, value, to, map);
    binder.set_lane(node.lane);
    const std::vector<Value> results = binder.emit(call);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.results[i].present()) map[static_cast<std::size_t>(node.results[i].id)] = results[i];
    }
  }
  for (const Output& output : graph.outputs()) to.output(output.name, map_value(graph, output.value, to, map));
  return std::move(binder.out());
}

std::string to_text(const std::vector<BindingRow>& table) {
  std::string out;
  for (const BindingRow& row : table) {
    out += cat(row.op, std::string(row.op.size() < 24 ? 24 - row.op.size() : 1, ' '), row.how,
               std::string(row.how.size() < 12 ? 12 - row.how.size() : 1, ' '), row.calls, row.why.empty() ? "" : "  ",
               row.why, "\n");
  }
  return out;
}

}  // namespace tern::graph
