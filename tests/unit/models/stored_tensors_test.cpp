// The parameters of a made-up model whose files keep each in another way: what every form that a parameter has in a
// file does to loading, saving, merging and converting.
#include "models/stored_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "checkpoint/convert.h"
#include "models/gguf_names.h"
#include "models/loader.h"
#include "models/parameter_reader.h"
#include "models/write_weights.h"
#include "ops/ref/packing.h"
#include "scratch_model.h"
#include "tests/support/temp_dir.h"

namespace tern::models {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointSource;

// [rows, columns] of q and k are slices of Hugging Face's qkv, the pairs of rows of a GGUF's q are interleaved; two
// experts are stacked there and columns stand before rows; gate and up alternate; a norm lacks 1; the bias of both
// experts is one tensor here and a slice there. Heads of rows and of columns are tiled there; parts of heads stand
// together here, and two tensors are joined there; a convolution has one dimension more here.
std::vector<ParameterSpec> made_up() {
  std::vector<ParameterSpec> specs;
  specs.push_back({.name = "q.weight",
                   .shape = {8, 32},
                   .hugging_face = {.tensors = {"qkv.weight"}, .tensor_rows = 12},
                   .gguf = {.tensors = {"attn_q.weight"}, .interleaved_heads = 2, .rotary_dim = 4},
                   .is_linear = true});
  specs.push_back({.name = "k.weight",
                   .shape = {4, 32},
                   .hugging_face = {.tensors = {"qkv.weight"}, .first_row = 8, .tensor_rows = 12},
                   .gguf = {.tensors = {"attn_k.weight"}, .interleaved_heads = 2, .rotary_dim = 2}});
  specs.push_back({.name = "q.bias",
                   .shape = {8},
                   .hugging_face = {.tensors = {"q.bias"}},
                   .gguf = {.tensors = {"attn_q.bias"}, .interleaved_heads = 2, .rotary_dim = 4},
                   .is_bias = true});
  specs.push_back({.name = "norm.weight",
                   .shape = {32},
                   .hugging_face = {.tensors = {"norm.weight"}},
                   .gguf = {.tensors = {"norm.weight"}, .added = -1}});
  specs.push_back(
      {.name = "experts.gate",
       .shape = {2, 32, 64},
       .hugging_face = {.tensors = {"experts.gate_up"}, .row_step = 2, .tensor_rows = 64, .is_transposed = true},
       .gguf = {.tensors = {"gate_exps.weight"}}});
  specs.push_back(
      {.name = "experts.up",
       .shape = {2, 32, 64},
       .hugging_face =
           {.tensors = {"experts.gate_up"}, .first_row = 1, .row_step = 2, .tensor_rows = 64, .is_transposed = true},
       .gguf = {.tensors = {"up_exps.weight"}}});
  specs.push_back({.name = "experts.down",
                   .shape = {2, 64, 32},
                   .hugging_face = {.tensors = {"experts.0.down.weight", "experts.1.down.weight"}, .is_stack = true},
                   .gguf = {.tensors = {"down_exps.weight"}}});
  specs.push_back({.name = "experts.gate_bias",
                   .shape = {2, 32},
                   .hugging_face = {.tensors = {"experts.gate_up_bias"}, .row_step = 2, .tensor_rows = 64},
                   .gguf = {.tensors = {"gate_exps.bias"}},
                   .is_bias = true});
  specs.push_back(
      {.name = "experts.up_bias",
       .shape = {2, 32},
       .hugging_face = {.tensors = {"experts.gate_up_bias"}, .first_row = 1, .row_step = 2, .tensor_rows = 64},
       .gguf = {.tensors = {"up_exps.bias"}},
       .is_bias = true});
  specs.push_back({.name = "rows.weight",
                   .shape = {12, 32},
                   .hugging_face = {.tensors = {"rows.weight"}},
                   .gguf = {.tensors = {"rows.weight"}, .tiled_rows = {2, 2, 2, 4}}});
  specs.push_back({.name = "columns.weight",
                   .shape = {4, 128},
                   .hugging_face = {.tensors = {"columns.weight"}},
                   .gguf = {.tensors = {"columns.weight"}, .tiled_columns = {2, 2, 32}}});
  specs.push_back({.name = "parts.weight",
                   .shape = {12, 32},
                   .hugging_face = {.tensors = {"parts.weight"}, .parts = {2, {1, 2, 3}}},
                   .gguf = {.tensors = {"left.weight", "right.weight"}, .joined = {5, 7}}});
  specs.push_back({.name = "conv.weight",
                   .shape = {6, 4},
                   .hugging_face = {.tensors = {"conv.weight"}, .is_depthwise = true},
                   .gguf = {.tensors = {"conv.weight"}}});
  return specs;
}

std::int64_t elements(const ParameterSpec& spec) {
  return std::accumulate(spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Numbers that tell parameter and place, exact in bf16: below 256 steps of 1/64 around the parameter's own.
float value_of(std::size_t parameter, std::int64_t at) {
  return static_cast<float>((at * 7 + static_cast<std::int64_t>(parameter) * 13) % 251 - 125) / 64.0F;
}

std::vector<float> values_of(std::size_t parameter, const ParameterSpec& spec) {
  std::vector<float> values(static_cast<std::size_t>(elements(spec)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(parameter, static_cast<std::int64_t>(i));
  return values;
}

class StoredTensors : public ::testing::Test {
 protected:
  // The made-up model as Hugging Face would keep it.
  fs::path directory(tern_dtype dtype) {
    fs::create_directories(scratch_ / "model");
    scratch_.write("model/config.json", "{}");
    WriteWeightsOptions write;
    write.dtype = dtype;
    write.rows = [&](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
      const auto place = static_cast<std::size_t>(&spec - specs_.data());
      const auto columns = static_cast<std::int64_t>(values.size()) / count;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = value_of(place, first * columns + static_cast<std::int64_t>(i));
    };
    write_weights(specs_, scratch_ / "model", write);
    return scratch_ / "model";
  }

  fs::path gguf(const std::string& outtype) {
    const auto source = CheckpointSource::open(directory(TERN_F32)).value();
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    options.replace = true;
    options.metadata.emplace();
    options.metadata->set("general.architecture", "made-up");
    options.tensors = tensors_in_form(source, specs_, Form::gguf).value();
    (void)checkpoint::convert_checkpoint(source, scratch_ / "model.gguf", options).value();
    return scratch_ / "model.gguf";
  }

  static std::vector<float> stored(const fs::path& path, const std::string& name) {
    const auto source = CheckpointSource::open(path).value();
    const auto* tensor = source.require(name).value();
    std::vector<float> values(*checkpoint::element_count(tensor->shape));
    EXPECT_TRUE(source.read_f32(*tensor, values).ok());
    return values;
  }

  void expect_parameters(const fs::path& path) {
    const auto source = CheckpointSource::open(path).value();
    ParameterReader reader(source);
    for (std::size_t p = 0; p < specs_.size(); ++p) EXPECT_EQ(reader.read(specs_[p]), values_of(p, specs_[p])) << p;
  }

  test::TempDir scratch_;
  const std::vector<ParameterSpec> specs_ = made_up();
};

// Each number at the place where the form has it, said once more by hand.
TEST_F(StoredTensors, StandWhereHuggingFaceHasThem) {
  const fs::path path = directory(TERN_F32);
  const auto source = CheckpointSource::open(path).value();
  const std::map<std::string, std::vector<std::int64_t>> shapes = {{"qkv.weight", {12, 32}},
                                                                   {"q.bias", {8}},
                                                                   {"norm.weight", {32}},
                                                                   {"experts.gate_up", {2, 64, 64}},
                                                                   {"experts.0.down.weight", {64, 32}},
                                                                   {"experts.1.down.weight", {64, 32}},
                                                                   {"experts.gate_up_bias", {2, 64}},
                                                                   {"rows.weight", {12, 32}},
                                                                   {"columns.weight", {4, 128}},
                                                                   {"parts.weight", {12, 32}},
                                                                   {"conv.weight", {6, 1, 4}}};
  ASSERT_EQ(source.tensors().size(), shapes.size());
  for (const auto& [name, shape] : shapes) EXPECT_EQ(source.require(name).value()->shape, shape) << name;
  const auto qkv = stored(path, "qkv.weight");
  EXPECT_EQ(qkv[7 * 32 + 5], value_of(0, 7 * 32 + 5));
  EXPECT_EQ(qkv[9 * 32 + 5], value_of(1, 1 * 32 + 5));
  const auto gate_up = stored(path, "experts.gate_up");  // [expert, column, 2 row + (0: gate, 1: up)]
  EXPECT_EQ(gate_up[(1 * 64 + 40) * 64 + 2 * 31], value_of(4, (1 * 32 + 31) * 64 + 40));
  EXPECT_EQ(gate_up[(1 * 64 + 40) * 64 + 2 * 30 + 1], value_of(5, (1 * 32 + 30) * 64 + 40));
  EXPECT_EQ(stored(path, "experts.1.down.weight")[63 * 32 + 2], value_of(6, (64 + 63) * 32 + 2));
  EXPECT_EQ(stored(path, "experts.gate_up_bias")[64 + 2 * 7 + 1], value_of(8, 32 + 7));
  EXPECT_EQ(stored(path, "norm.weight")[3], value_of(3, 3));
  EXPECT_EQ(stored(path, "parts.weight")[7 * 32 + 3], value_of(11, 4 * 32 + 3));  // the second head's second part
}

TEST_F(StoredTensors, StandWhereAGgufHasThem) {
  const fs::path path = gguf("f32");
  const auto q = stored(path, "attn_q.weight");
  EXPECT_EQ(q[(4 + 1) * 32 + 9], value_of(0, (4 + 2) * 32 + 9));  // head 1: rows 0, 2, 1, 3
  EXPECT_EQ(stored(path, "attn_q.bias")[4 + 2], value_of(2, 4 + 1));
  EXPECT_EQ(stored(path, "norm.weight")[3], value_of(3, 3) + 1);
  EXPECT_EQ(stored(path, "gate_exps.weight")[(32 + 31) * 64 + 40], value_of(4, (32 + 31) * 64 + 40));
  EXPECT_EQ(CheckpointSource::open(path)->find("down_exps.weight")->shape, (std::vector<std::int64_t>{2, 64, 32}));
  const auto rows = stored(path, "rows.weight");
  EXPECT_EQ(rows[3 * 32 + 1], value_of(9, 3 * 32 + 1));
  EXPECT_EQ(rows[9 * 32 + 1], value_of(9, 7 * 32 + 1));  // the first group's second head comes third
  EXPECT_EQ(stored(path, "columns.weight")[128 + 2 * 32 + 5], value_of(10, 128 + 32 + 5));
  EXPECT_EQ(stored(path, "right.weight")[32 + 9], value_of(11, 6 * 32 + 9));
  EXPECT_EQ(CheckpointSource::open(path)->find("conv.weight")->shape, (std::vector<std::int64_t>{6, 4}));
}

TEST_F(StoredTensors, ReadBackFromEitherForm) {
  expect_parameters(directory(TERN_F32));
  expect_parameters(gguf("f32"));
}

// Both ways, and the way back is equal to the byte.
TEST_F(StoredTensors, SurviveAGguf) {
  for (const char* outtype : {"f32", "bf16"}) {
    const fs::path path = gguf(outtype);
    const auto source = CheckpointSource::open(path).value();
    checkpoint::ConvertOptions options;
    options.outtype = "f32";
    options.replace = true;
    options.tensors = tensors_in_form(source, specs_, Form::hugging_face).value();
    (void)checkpoint::convert_checkpoint(source, scratch_ / "back", options).value();
    const auto original = CheckpointSource::open(scratch_ / "model").value();
    const auto back = CheckpointSource::open(scratch_ / "back").value();
    ASSERT_EQ(back.tensors().size(), original.tensors().size());
    for (const auto& tensor : original.tensors())
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, back.find(tensor.name)->bytes)) << outtype << ' ' << tensor.name;
  }
}

// Rows that only move are moved as bytes: without an outtype there is nothing that could compute them.
TEST_F(StoredTensors, MoveWithoutBeingComputed) {
  const auto source = CheckpointSource::open(directory(TERN_BF16)).value();
  const auto tensors = tensors_in_form(source, specs_, Form::gguf).value();
  std::map<std::string, bool> moves;
  for (const auto& tensor : tensors) moves[tensor.name] = !tensor.rows.empty();
  EXPECT_TRUE(moves.at("attn_q.weight") && moves.at("attn_k.weight") && moves.at("attn_q.bias"));
  EXPECT_TRUE(moves.at("down_exps.weight") && moves.at("gate_exps.bias") && moves.at("up_exps.bias"));
  EXPECT_TRUE(moves.at("rows.weight") && moves.at("left.weight") && moves.at("right.weight") &&
              moves.at("conv.weight"));
  EXPECT_FALSE(moves.at("columns.weight"));
  EXPECT_FALSE(moves.at("norm.weight") || moves.at("gate_exps.weight") || moves.at("up_exps.weight"));
}

// Into a device's memory: as the file has them where that is rows, else computed, in each dtype.
TEST_F(StoredTensors, LoadFromEitherForm) {
  for (const fs::path& path : {directory(TERN_F32), directory(TERN_BF16), gguf("f32"), gguf("bf16")}) {
    for (const tern_dtype dtype : {TERN_F32, TERN_BF16}) {
      auto source = std::make_shared<CheckpointSource>(CheckpointSource::open(path).value());
      graph::TensorStore store(cpu_device());
      ParameterReader reader(*source);
      (void)load_parameters(specs_, reader, source, store, {.dtype = dtype}).value();
      for (std::size_t p = 0; p < specs_.size(); ++p) {
        const auto& held = store.at(specs_[p].name).desc;
        EXPECT_EQ(held.dtype, dtype);
        std::vector<std::byte> bytes(total_bytes(held));
        store.download(specs_[p].name, bytes);
        EXPECT_EQ(bytes, rounded(specs_[p].name, values_of(p, specs_[p]), dtype)) << path << ' ' << specs_[p].name;
      }
    }
  }
}

// Quantised rows of a slice and of a stack stay as they are stored.
TEST_F(StoredTensors, KeepQuantisedRows) {
  auto source = std::make_shared<CheckpointSource>(CheckpointSource::open(gguf("q8_0")).value());
  graph::TensorStore store(cpu_device());
  ParameterReader reader(*source);
  (void)load_parameters(specs_, reader, source, store, {.dtype = TERN_BF16}).value();
  for (const std::size_t p : {0, 1, 9, 10, 11}) {
    const auto& held = store.at(specs_[p].name).desc;
    EXPECT_TRUE(is_quantised(held)) << specs_[p].name;
    const auto values = reader.read(specs_[p]);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], value_of(p, static_cast<std::int64_t>(i)), 125.0 / 64 / 127) << i;
    // What the device holds is what the file says, in the parameter's order.
    std::vector<std::byte> bytes(total_bytes(held));
    store.download(specs_[p].name, bytes);
    std::vector<double> expanded(values.size());
    const std::span<const std::byte> planes[] = {bytes};
    ops::ref::expand_packing(held, planes, expanded);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(static_cast<float>(expanded[i]), values[i]) << i;
  }
}

TEST_F(StoredTensors, AListThatLeavesARowOutIsABug) {
  std::vector<ParameterSpec> specs = made_up();
  specs.erase(specs.begin() + 1);
  EXPECT_THROW((void)stored_tensors(specs, Form::hugging_face), std::logic_error);
  specs = made_up();
  specs[1].hugging_face.first_row = 7;
  EXPECT_THROW((void)stored_tensors(specs, Form::hugging_face), std::logic_error);
}

}  // namespace
}  // namespace tern::models
