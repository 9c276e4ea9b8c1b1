// acc += rms_norm(2 x - y) w^T as one graph: two intermediates, constants, and a state that two launches add to.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <optional>

#include "base/strings.h"
#include "conformance/compare.h"
#include "conformance/law_tools.h"
#include "conformance/runtime_checks.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

constexpr std::int64_t kCapacity = 9;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kOut = 33;
constexpr int kSlot = 5;
constexpr tern_axpby_attrs kAxpby{2.0F, -1.0F};
constexpr tern_rms_norm_attrs kNorm{1e-5F, 0.0F};
constexpr tern_matmul_attrs kMatmul{0, 1, TERN_COMPUTE_F32, 1.0F};

enum Stored { kX, kY, kWeight, kW, kAcc, kStored };                                         // arguments of the recipe
enum Value { kVX, kVY, kVSum, kVWeight, kVNormed, kVW, kVAccBefore, kVAccAfter, kValues };  // values of the graph

TensorDesc rows_of(std::int64_t width) { return with_dynamic(make_desc(TERN_F32, {kCapacity, width}), 0, kSlot); }

std::array<TensorDesc, kStored> stored_descs() {
  return {rows_of(kWidth), rows_of(kWidth), make_desc(TERN_F32, {kWidth}), make_desc(TERN_F32, {kOut, kWidth}),
          rows_of(kOut)};
}

// The three ops as single calls: what `supports` is asked, and what the nodes hold.
struct Ops {
  accel::OpDesc axpby{TERN_OP_AXPBY, std::vector<TensorDesc>(TERN_AXPBY_NUM_ARGS, absent_desc())};
  accel::OpDesc norm{TERN_OP_RMS_NORM, std::vector<TensorDesc>(TERN_RMS_NORM_NUM_ARGS, absent_desc())};
  accel::OpDesc matmul{TERN_OP_MATMUL, std::vector<TensorDesc>(TERN_MATMUL_NUM_ARGS, absent_desc())};

  Ops() {
    const auto stored = stored_descs();
    for (int arg : {TERN_AXPBY_X, TERN_AXPBY_Y, TERN_AXPBY_OUT}) axpby.args[static_cast<std::size_t>(arg)] = stored[kX];
    for (int arg : {TERN_RMS_NORM_X, TERN_RMS_NORM_Y}) norm.args[static_cast<std::size_t>(arg)] = stored[kX];
    norm.args[TERN_RMS_NORM_WEIGHT] = stored[kWeight];
    matmul.args[TERN_MATMUL_A] = stored[kX];
    matmul.args[TERN_MATMUL_B] = stored[kW];
    matmul.args[TERN_MATMUL_OUT] = stored[kAcc];
    matmul.accumulate = 1U << TERN_MATMUL_OUT;
    set_attrs(axpby, kAxpby);
    set_attrs(norm, kNorm);
    set_attrs(matmul, kMatmul);
  }

  template <typename Attrs>
  static void set_attrs(accel::OpDesc& desc, const Attrs& attrs) {
    const auto bytes = std::as_bytes(std::span(&attrs, 1));
    desc.attrs.assign(bytes.begin(), bytes.end());
  }
};

// Which values a node's argument reads and writes; -1: none.
struct Edge {
  int arg;
  int input;
  int output;
};

tern_graph_node node_of(Pages& pages, const accel::OpDesc& desc, std::initializer_list<Edge> edges) {
  std::vector<std::int32_t> inputs(desc.args.size(), -1);
  std::vector<std::int32_t> outputs(desc.args.size(), -1);
  for (const Edge& edge : edges) {
    inputs[static_cast<std::size_t>(edge.arg)] = edge.input;
    outputs[static_cast<std::size_t>(edge.arg)] = edge.output;
  }
  tern_graph_node node{};
  node.op = desc.c_desc();
  node.op.args = nullptr;
  node.op.alias = nullptr;
  node.op.attrs = pages.put(desc.attrs);
  node.lane = TERN_LANE_COMPUTE;
  node.inputs = pages.put(inputs);
  node.outputs = pages.put(outputs);
  return node;
}

accel::Recipe compile(const accel::DevicePtr& device, tern_plan_info& info) {
  const Ops ops;
  const auto stored = stored_descs();
  std::vector<tern_graph_value> values(kValues);
  const auto set = [&](int value, const TensorDesc& desc, std::int32_t kind, std::int32_t argument, int version = 0) {
    tern_graph_value& to = values[static_cast<std::size_t>(value)];
    to.desc = desc;
    to.kind = kind;
    to.state = kind == TERN_VALUE_STATE ? 0 : -1;
    to.version = version;
    to.argument = argument;
  };
  set(kVX, stored[kX], TERN_VALUE_INPUT, kX);
  set(kVY, stored[kY], TERN_VALUE_INPUT, kY);
  set(kVSum, stored[kX], TERN_VALUE_INTERMEDIATE, -1);
  set(kVWeight, stored[kWeight], TERN_VALUE_CONSTANT, kWeight);
  set(kVNormed, stored[kX], TERN_VALUE_INTERMEDIATE, -1);
  set(kVW, stored[kW], TERN_VALUE_CONSTANT, kW);
  set(kVAccBefore, stored[kAcc], TERN_VALUE_STATE, kAcc);
  set(kVAccAfter, stored[kAcc], TERN_VALUE_STATE, kAcc, 1);
  Pages pages;
  const std::vector<tern_graph_node> nodes = {
      node_of(pages, ops.axpby, {{TERN_AXPBY_X, kVX, -1}, {TERN_AXPBY_Y, kVY, -1}, {TERN_AXPBY_OUT, -1, kVSum}}),
      node_of(pages, ops.norm,
              {{TERN_RMS_NORM_X, kVSum, -1}, {TERN_RMS_NORM_WEIGHT, kVWeight, -1}, {TERN_RMS_NORM_Y, -1, kVNormed}}),
      node_of(pages, ops.matmul,
              {{TERN_MATMUL_A, kVNormed, -1}, {TERN_MATMUL_B, kVW, -1}, {TERN_MATMUL_OUT, kVAccBefore, kVAccAfter}})};
  tern_graph_desc graph{};
  graph.size = sizeof(graph);
  graph.num_values = kValues;
  graph.num_nodes = static_cast<std::uint32_t>(nodes.size());
  graph.num_arguments = kStored;
  graph.values = pages.put(values);
  graph.nodes = pages.put(nodes);
  const tern_plan_options options = accel::PlanOptions{}.c_options();
  info.size = sizeof(info);
  tern_recipe raw = nullptr;
  accel::check(device->api().compile(device->raw(), pages.put_one(graph), &options, &raw, &info), device->backend(),
               "compiling a graph of three nodes");
  return {device, raw};
}

// Eighths, so that 2 x - y has no rounding.
std::vector<double> eighths(Random& random, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& x : out) x = (static_cast<double>(random.below(31)) - 15.5) / 8.0;
  return out;
}

// What a stored argument holds, junk beyond a count included.
struct Data {
  std::array<std::vector<double>, kStored> elements;
  std::int64_t rows = 0;
};

Bytes encoded(const TensorDesc& desc, const std::vector<double>& elements) {
  Bytes out(static_cast<std::size_t>(plane_bytes(desc).bytes[0]));
  ops::ref::Tensor tensor;
  tensor.desc = desc;
  tensor.desc.dynamic_dim = -1;
  tensor.real = elements;
  ops::ref::encode(tensor, tensor.desc, out);
  return out;
}

ops::ref::Tensor valid_part(const Data& data, Stored which) {
  std::array<std::int64_t, TERN_MAX_COUNTS> counts{};
  counts[kSlot] = data.rows;
  ops::ref::Tensor out;
  out.desc = cut(stored_descs()[which], counts);
  const auto count = static_cast<std::ptrdiff_t>(num_elements(out.desc));
  out.real.assign(data.elements[which].begin(), data.elements[which].begin() + count);
  return out;
}

ops::ref::Tensor run_op(const accel::OpDesc& desc, std::vector<ops::ref::Tensor> args, int result) {
  ops::ref::Call call{desc.op, desc.attrs, desc.accumulate, args};
  ops::op_rules(desc.op).reference(call);
  return args[static_cast<std::size_t>(result)];
}

// The oracles' chain. To the product's own slack comes what the norm may be off by, carried through the product.
ops::ref::Tensor expected_of(const Data& data) {
  const Ops ops;
  const ops::ref::Tensor x = valid_part(data, kX);
  ops::ref::Tensor blank;
  blank.desc = x.desc;
  std::vector<ops::ref::Tensor> args(TERN_AXPBY_NUM_ARGS);
  args[TERN_AXPBY_X] = x;
  args[TERN_AXPBY_Y] = valid_part(data, kY);
  args[TERN_AXPBY_OUT] = blank;
  const ops::ref::Tensor sum = run_op(ops.axpby, args, TERN_AXPBY_OUT);
  args.assign(TERN_RMS_NORM_NUM_ARGS, {});
  args[TERN_RMS_NORM_X] = sum;
  args[TERN_RMS_NORM_WEIGHT] = valid_part(data, kWeight);
  args[TERN_RMS_NORM_Y] = blank;
  const ops::ref::Tensor normed = run_op(ops.norm, args, TERN_RMS_NORM_Y);
  args.assign(TERN_MATMUL_NUM_ARGS, {});
  args[TERN_MATMUL_A] = normed;
  args[TERN_MATMUL_B] = valid_part(data, kW);
  args[TERN_MATMUL_OUT] = valid_part(data, kAcc);
  ops::ref::Tensor out = run_op(ops.matmul, args, TERN_MATMUL_OUT);
  for (std::size_t i = 0; i < out.real.size(); ++i) {
    const std::size_t row = i / kOut;
    for (std::size_t k = 0; k < kWidth; ++k) {
      const std::size_t from = row * kWidth + k;
      const double off = normed.slack[from] + ops::ref::half_ulp(TERN_F32, normed.real[from]);
      out.slack[i] += off * std::fabs(data.elements[kW][i % kOut * kWidth + k]);
    }
  }
  return out;
}

class Chain {
 public:
  explicit Chain(const accel::DevicePtr& device) : device_(device), recipe_(compile(device, info_)) {
    for (const TensorDesc& desc : stored_descs()) {
      memory_.push_back(std::make_unique<Guarded>(device, plane_bytes(desc).bytes[0], 1, "a graph's argument"));
      tern_tensor& tensor = tensors_.emplace_back();
      tensor.desc = desc;
      tensor.planes[0] = memory_.back()->plane();
    }
    if (info_.workspace_bytes > 0) workspace_.emplace(device, info_.workspace_bytes, 0, "a workspace");
    scratch_.resize(info_.host_scratch_bytes);
  }

  void put(Stored which, const std::vector<double>& elements, const accel::Stream& stream) {
    memory_[which]->upload(encoded(tensors_[which].desc, elements), stream);
  }

  // Queues a launch; the state as it leaves it.
  Bytes launch(std::int64_t rows, const accel::Stream& stream) {
    if (workspace_) workspace_->upload(Bytes(workspace_->bytes(), static_cast<std::byte>(kPoison)), stream);
    tern_host_args host_args{};
    host_args.size = sizeof(host_args);
    host_args.counts[kSlot] = rows;
    counts_.upload(std::as_bytes(std::span(host_args.counts)), stream);
    Pages pages;
    tern_bind_args args = accel::bind_args(tensors_, {workspace_ ? workspace_->plane() : tern_plane{}, counts_.plane(),
                                                      scratch_.empty() ? nullptr : scratch_.data()});
    args.args = pages.put(tensors_);
    accel::check(
        device_->api().launch_recipe(recipe_.raw(), pages.put_one(args), pages.put_one(host_args), stream.raw()),
        device_->backend(), "launching a graph of three nodes");
    return memory_[kAcc]->fetch(stream);
  }

  [[nodiscard]] bool is_intact(const Bytes& image) const { return memory_[kAcc]->zones_intact(image); }
  [[nodiscard]] std::vector<double> state(const Bytes& image) const {
    TensorDesc desc = tensors_[kAcc].desc;
    desc.dynamic_dim = -1;
    const std::array<std::span<const std::byte>, 1> planes = {memory_[kAcc]->content(image)};
    return ops::ref::decode(desc, planes).real;
  }

 private:
  accel::DevicePtr device_;
  tern_plan_info info_{};
  accel::Recipe recipe_;
  std::vector<std::unique_ptr<Guarded>> memory_;
  std::vector<tern_tensor> tensors_;
  std::optional<Guarded> workspace_;
  Guarded counts_{device_, sizeof(tern_host_args::counts), 0, "the counts"};
  Bytes scratch_;
};

// "" or how the state differs from the oracles' chain, from what it held before the launch.
std::string judge_state(const Data& before, const std::vector<double>& after) {
  Case matmul;
  matmul.op = TERN_OP_MATMUL;
  const ops::ref::Tensor expected = expected_of(before);
  ops::ref::Tensor got = expected;
  std::copy_n(after.begin(), got.real.size(), got.real.begin());
  const Comparison comparison = compare(matmul, TERN_MATMUL_OUT, expected, got);
  if (!comparison.problem.empty()) return cat("the state of a graph of three nodes: ", comparison.problem);
  for (std::size_t i = got.real.size(); i < after.size(); ++i) {
    if (after[i] != before.elements[kAcc][i]) return "a graph changed its state beyond the actual count";
  }
  return {};
}

}  // namespace

std::string check_graph_chain(Bench& bench, std::string& skipped) {
  const Ops ops;
  for (const accel::OpDesc* desc : {&ops.axpby, &ops.norm, &ops.matmul}) {
    const accel::Verdict verdict = accel::supports(*bench.device, *desc);
    if (verdict.native) continue;
    skipped = cat("the graph needs ", ops::op_spec(desc->op).name, ": ", verdict.reason);
    return {};
  }
  Chain chain(bench.device);
  Random random(1);
  std::array<Data, 3> data;
  std::array<Bytes, 3> images;
  constexpr std::array<std::int64_t, 3> kCounts = {7, kCapacity, 4};
  for (Stored which : {kX, kY, kWeight, kW, kAcc}) {
    data[0].elements[which] = eighths(random, num_elements(stored_descs()[which]));
    chain.put(which, data[0].elements[which], bench.stream);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {  // nothing is waited for
    if (i > 0) data[i] = data[i - 1];
    data[i].rows = kCounts[i];
    for (Stored which : {kX, kY}) {
      data[i].elements[which] = eighths(random, kCapacity * kWidth);
      chain.put(which, data[i].elements[which], bench.stream);
    }
    images[i] = chain.launch(kCounts[i], bench.stream);
  }
  bench.stream.synchronize();
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (!chain.is_intact(images[i])) return "a graph wrote beyond its state";
    const std::vector<double> after = chain.state(images[i]);
    const std::string problem = judge_state(data[i], after);
    if (!problem.empty()) return problem;
    if (i + 1 < data.size()) data[i + 1].elements[kAcc] = after;
  }
  return {};
}

}  // namespace tern::conformance
