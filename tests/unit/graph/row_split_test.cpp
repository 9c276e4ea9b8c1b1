// What is larger than the device allocates at a time is computed in parts, with the same results.
#include <gtest/gtest.h>

#include "graph/row_parts.h"
#include "graph/row_split.h"
#include "ops/adamw.h"
#include "ops/cast_copy.h"
#include "ops/matmul_q.h"
#include "ops/program_ops.h"
#include "ops/ref/packing.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

constexpr std::int64_t kVocabulary = 4000;
constexpr std::int64_t kNarrow = 64;
constexpr std::int64_t kBroad = 2500;

// A step of training with tied weights too large for the device: forward, backward, the gradient's norm, AdamW, and the
// head as it's stored for inference.
class LargeModel {
 public:
  // Of 4 rows of 6 that there may be, or 64.
  LargeModel(const accel::DevicePtr& device, bool dynamic)
      : dynamic_(dynamic), rows_(dynamic ? 6 : 64), store_(std::make_shared<graph::TensorStore>(device)) {
    build();
    for (const graph::Storage& storage : graph_.storages()) {
      if (!storage.is_stored()) continue;
      store_->create(storage.name, storage.desc);
      store_->fill_zero(storage.name);
      if (trained_.contains(storage.name) || storage.name == "bias")
        store_->upload(storage.name, bytes_of(data(storage)));
    }
    program_ = graph::Program::build(graph_, store_, choices_, {});
  }

  // What two steps leave.
  Results run() {
    const std::size_t count = dynamic_ ? 4 : 64;
    std::vector<std::int32_t> ids = {3, 3999, 2048, 7};
    std::vector<std::int32_t> targets = {3999, 0, 1999, 2000};
    std::vector<float> weights = {0.25F, 0.5F, 0.0F, 1.0F};
    ids.resize(count, 77);
    targets.resize(count, 1023);
    weights.resize(count, 0.125F);
    const std::vector<float> hyper = {0.01F, 0.9F, 0.99F, 0.1F, 0.01F, 0.1F, 0.1F, 0.1F, 0.01F, 1.0F};
    graph::RunInputs inputs;
    inputs.inputs = {{"ids", bytes_of(ids)},
                     {"targets", bytes_of(targets)},
                     {"weights", bytes_of(weights)},
                     {"hyper", bytes_of(hyper)}};
    inputs.counts[0] = static_cast<std::int64_t>(count);
    program_->run(inputs);
    program_->run(inputs);
    Results results;
    for (const char* name : {"loss", "norm"}) results[name] = output_of(*program_, name);
    for (const graph::Storage& storage : graph_.storages()) {
      if (!storage.is_stored() || storage.desc.dtype != TERN_F32) continue;
      std::vector<float>& values = results[storage.name];
      values.resize(static_cast<std::size_t>(num_elements(storage.desc)));
      store_->download(storage.name, writable_bytes_of(values));
    }
    return results;
  }

  [[nodiscard]] const graph::Program& program() const { return *program_; }
  [[nodiscard]] std::int64_t parts_of(const std::string& name) const {
    const auto storages = program_->graph().storages();
    return std::count_if(storages.begin(), storages.end(),
                         [&](const graph::Storage& storage) { return storage.name.starts_with(name + "["); });
  }

 private:
  static std::vector<float> data(const graph::Storage& storage) { return weight_data(storage.name, storage.desc); }

  [[nodiscard]] TensorDesc rows(tern_dtype dtype) const {
    const TensorDesc desc = make_desc(dtype, {rows_});
    return dynamic_ ? with_dynamic(desc, 0, 0) : desc;
  }

  Value weight(const std::string& name, std::int64_t out, std::int64_t in) {
    trained_[name] = graph_.resource(name, make_desc(TERN_F32, {out, in}));
    return trained_.at(name);
  }

  void build() {
    const Value table = weight("table", kVocabulary, kNarrow);
    const Value up = weight("up", kNarrow, kBroad);
    const Value down = weight("down", kNarrow, kBroad);
    const Value bias = graph_.constant("bias", make_desc(TERN_F32, {kBroad}));
    Value x = ops::embedding(graph_, table, graph_.input("ids", rows(TERN_I32)), TERN_F32);
    x = ops::matmul(graph_, x, up, {.bias = bias});
    x = ops::matmul(graph_, x, down, {.transpose_b = true});
    const Value targets = graph_.input("targets", rows(TERN_I32), graph::Padding::minus_one);
    const Value loss = ops::linear_cross_entropy(graph_, x, table, targets, graph_.input("weights", rows(TERN_F32)),
                                                 {.softcap = 8.0F, .dh = true, .dw = true})
                           .loss;
    std::vector<graph::GradTarget> targets_of;
    for (const auto& [name, value] : trained_) {
      targets_of.push_back({value, graph_.resource("grad." + name, graph_.desc(value))});
    }
    const auto grads = graph::differentiate(graph_, std::vector<graph::Root>{{loss, {}}}, targets_of);
    Value norm;
    for (const Value grad : grads) norm = ops::sum_squares(graph_, grad, norm);
    step(grads);
    graph_.output("loss", loss);
    graph_.output("norm", norm);
  }

  void step(const std::vector<Value>& grads) {
    const Value hyper = graph_.input("hyper", make_desc(TERN_F32, {10}));
    std::size_t at = 0;
    for (const auto& [name, value] : trained_) {
      const TensorDesc& desc = graph_.desc(value);
      const ops::AdamwState state = {value, graph_.resource("m." + name, desc), graph_.resource("v." + name, desc), {}};
      const ops::AdamwState next = ops::adamw(graph_, state, grads[at++], hyper);
      const TensorDesc half = make_desc(TERN_BF16, shape_of(desc));
      (void)ops::cast_copy(graph_, next.param, {.out = TERN_BF16, .at = graph_.resource("half." + name, half)});
    }
  }

  bool dynamic_;
  std::int64_t rows_;
  Graph graph_;
  std::map<std::string, Value> trained_;
  std::shared_ptr<graph::TensorStore> store_;
  accel::ChoiceCache choices_;
  std::unique_ptr<graph::Program> program_;
};

void expect_near(const Results& found, const Results& expected, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (const auto& [name, values] : expected) {
    ASSERT_EQ(found.at(name).size(), values.size()) << where << " " << name;
    double worst = 0.0;
    double largest = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(found.at(name)[i] - values[i])));
      largest = std::max(largest, static_cast<double>(std::abs(values[i])));
    }
    EXPECT_LE(worst, 2e-6 * largest + 1e-12) << where << " " << name;
    EXPECT_GT(largest, 0.0) << where << " " << name;
  }
}

TEST(RowSplit, TrainingInPartsIsTrainingOfTheWhole) {
  for (const char* personality : kPersonalities) {
    const Results expected = LargeModel(open_sim({{"TERN_SIM", personality}}), true).run();
    LargeModel model(open_sim({{"TERN_SIM", personality}, {"TERN_SIM_LARGEST", "200000"}}), true);
    expect_near(model.run(), expected, personality);
    EXPECT_EQ(model.parts_of("table"), 6) << personality;
  }
}

// Activations of a static number of rows may be cut too.
TEST(RowSplit, IntermediatesAreCutWhereTheirRowsAreKnown) {
  const Results expected = LargeModel(open_sim({{"TERN_SIM", "discrete"}}), false).run();
  LargeModel model(open_sim({{"TERN_SIM", "discrete"}, {"TERN_SIM_LARGEST", "200000"}}), false);
  expect_near(model.run(), expected, "cut");
}

TEST(RowSplit, ActivationsOfCountedRowsAreRefusedInPlainWords) {
  const auto device = open_sim({{"TERN_SIM", "discrete"}, {"TERN_SIM_LARGEST", "26000"}});
  const std::string line = failure_of([&] { LargeModel model(device, true); });
  EXPECT_NE(line.find("op matmul can't be computed in parts: out, f32[6,2500], takes 58.6 KiB"), std::string::npos)
      << line;
}

TEST(RowSplit, WhatIsSmallEnoughStaysAsItIs) {
  LargeModel model(open_sim({{"TERN_SIM", "discrete"}}), true);
  const Graph& graph = model.program().graph();
  EXPECT_EQ(graph::split_rows(graph, *model.program().plan().device).to_text(), graph.to_text());
}

// An offloaded state is in the same parts on the host and comes and goes part by part.
TEST(RowSplit, StatesOnTheHostComeAndGoInParts) {
  for (const char* personality : kPersonalities) {
    Graph graph;
    const TensorDesc desc = make_desc(TERN_F32, {1000, 64});  // 256 KB
    const Value host = graph.host_resource("state", desc);
    const Value here = ops::copy_to_device(graph, host);
    (void)ops::copy_to_host(graph, ops::axpby(graph, here, {}, {.a = 2.0F}), host);
    const auto store =
        std::make_shared<graph::TensorStore>(open_sim({{"TERN_SIM", personality}, {"TERN_SIM_LARGEST", "100000"}}));
    store->create_on_host("state", desc);
    std::vector<float> values = weight_data("state", desc);
    store->upload("state", bytes_of(values));
    accel::ChoiceCache choices;
    const auto program = graph::Program::build(graph, store, choices, {});
    program->run({});
    std::vector<float> found(values.size());
    store->download("state", writable_bytes_of(found));
    for (float& value : values) value *= 2.0F;
    EXPECT_EQ(found, values) << personality;
    EXPECT_GE(program->memory().host_resources, 256'000U) << personality;
    EXPECT_EQ(store->bytes(), 0U) << personality;
  }
}

// Weights as a file stores them, of one plane and of several, both ways through the product and as a table.
Results quantised_results(const accel::DevicePtr& device, tern_packing packing, const std::vector<std::byte>& stored) {
  Graph graph;
  const bool is_int8 = packing == TERN_PACK_ROW_INT8;
  tern_scheme scheme = is_int8 ? tern_scheme{} : gguf_scheme(packing);
  if (is_int8) {
    scheme.packing = packing;
    scheme.bits = 8;
    scheme.group_rows = 1;
    scheme.group_cols = 64;
    scheme.scale_dtype = TERN_F32;
  }
  const TensorDesc desc = make_quantised_desc(TERN_F32, scheme, 1000, 64);
  const Value w = graph.constant("w", desc);
  const Value x = ops::embedding(graph, w, graph.input("ids", make_desc(TERN_I32, {3})), TERN_F32);
  const Value y = ops::matmul_q(graph, x, w, {});
  graph.output("x", x);
  graph.output("y", y);
  graph.output("back", ops::matmul_q(graph, y, w, {.transpose_w = false}));
  auto store = std::make_shared<graph::TensorStore>(device);
  store->create("w", desc);
  store->upload("w", stored);
  std::vector<std::byte> again(stored.size());
  store->download("w", again);
  EXPECT_EQ(again, stored);
  accel::ChoiceCache choices;
  const auto program = graph::Program::build(graph, store, choices, {});
  const std::vector<std::int32_t> ids = {999, 0, 511};
  program->run({.inputs = {{"ids", bytes_of(ids)}}});
  Results results;
  for (const char* name : {"x", "y", "back"}) results[name] = output_of(*program, name);
  return results;
}

std::vector<std::byte> quantised_bytes(tern_packing packing) {
  const bool is_int8 = packing == TERN_PACK_ROW_INT8;
  const std::size_t scales = is_int8 ? 1000 * sizeof(float) : 0;
  std::vector<std::byte> bytes(is_int8 ? std::size_t{64} * 1000 + scales : std::size_t{2} * 34 * 1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 37 + i / 64 * 11) % 251);
  for (std::size_t r = 0; r < 1000 && is_int8; ++r) {
    const float scale = 0.001F * static_cast<float>(r % 17 + 1);
    std::memcpy(bytes.data() + 64000 + r * sizeof scale, &scale, sizeof scale);
  }
  for (std::size_t block = 0; block < 2000 && !is_int8; ++block) {
    const std::uint16_t scale = 0x2000;  // f16: 2^-7
    std::memcpy(bytes.data() + block * 34, &scale, sizeof scale);
  }
  return bytes;
}

TEST(RowSplit, QuantisedWeightsAreCutByRows) {
  for (const tern_packing packing : {TERN_PACK_GGUF_Q8_0, TERN_PACK_ROW_INT8}) {
    const auto stored = quantised_bytes(packing);
    const Results expected = quantised_results(open_sim({{"TERN_SIM", "discrete"}}), packing, stored);
    for (const char* personality : kPersonalities) {
      const auto device = open_sim({{"TERN_SIM", personality}, {"TERN_SIM_LARGEST", "100000"}});
      expect_near(quantised_results(device, packing, stored), expected, personality);
    }
  }
}

// A view that goes from part to part otherwise than row after row.
TEST(RowSplit, WhatCannotBeCutIsRefusedInPlainWords) {
  Graph graph;
  const Value state = graph.resource("state", make_desc(TERN_F32, {1000, 64}));
  TensorDesc crossed = make_desc(TERN_F32, {2, 500, 64});
  crossed.strides[0] = 64;
  crossed.strides[1] = 128;
  graph.output("sum", ops::sum_squares(graph, graph.view(state, crossed, 0)));
  const auto device = open_sim({{"TERN_SIM_LARGEST", "100000"}});
  const Graph cut = graph::split_rows(graph, *device);  // pairs of rows stay together: the border is even
  EXPECT_EQ(cut.nodes().size(), 3U);
  crossed.shape[0] = 5;
  crossed.shape[1] = 200;
  crossed.strides[1] = 320;
  graph.output("odd", ops::sum_squares(graph, graph.view(state, crossed, 0)));
  const std::string line = failure_of([&] { (void)graph::split_rows(graph, *device); });
  EXPECT_NE(line.find("op sum_squares can't be computed in parts: x, f32[1000,64]"), std::string::npos) << line;
}

TEST(RowSplit, PartsAreOfOneSizeAndWithinTheLimit) {
  tern_device_info info{};
  info.largest_allocation_bytes = 1 << 20;
  info.alignment = 64;
  const TensorDesc desc = make_desc(TERN_F32, {49152, 64});  // 12 MiB
  const auto parts = graph::row_parts(desc, info, "w");
  ASSERT_EQ(parts.size(), 12U);
  std::int64_t at = 0;
  for (const graph::RowRange& part : parts) {
    EXPECT_EQ(part.begin, at);
    EXPECT_LE(total_bytes(graph::part_desc(desc, part)), info.largest_allocation_bytes);
    at = part.end;
  }
  EXPECT_EQ(at, 49152);
  EXPECT_EQ(graph::row_parts(make_desc(TERN_F32, {1000, 64}), info, "w").size(), 1U);
  const std::string line = failure_of([&] { (void)graph::row_parts(make_desc(TERN_F32, {2, 1 << 20}), info, "w"); });
  EXPECT_NE(line.find("w: a row of f32[2,1048576] takes 4.00 MiB"), std::string::npos) << line;
}

}  // namespace
}  // namespace tern::test
