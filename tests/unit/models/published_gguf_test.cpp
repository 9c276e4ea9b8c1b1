// Metadata as llama.cpp's conversion writes them of published models (tests/data/configs/gguf.jsonl): each is read, and
// says of the model what its config.json says.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/strings.h"
#include "checkpoint/gguf_writer.h"
#include "models/registry.h"
#include "published.h"

namespace tern::models {
namespace {

using Json = io::Json;

void set_key(checkpoint::GgufMetadata& metadata, const std::string& key, const io::JsonField& value) {
  const Json& json = value.json();
  if (json.is_string()) {
    metadata.set(key, value.text());
  } else if (json.is_boolean()) {
    metadata.set(key, value.boolean());
  } else if (json.is_array() && json.begin()->is_boolean()) {
    std::vector<bool> list;
    for (const auto& each : value.items()) list.push_back(each.boolean());
    metadata.set(key, list);
  } else if (json.is_array()) {
    const std::vector<std::int64_t> list = value.integers();
    metadata.set(key, std::vector<std::int32_t>(list.begin(), list.end()));
  } else if (json.dump().find_first_of(".e") != std::string::npos) {
    metadata.set(key, static_cast<float>(value.number()));
  } else {
    metadata.set(key, static_cast<std::uint32_t>(value.integer()));
  }
}

using Change = std::function<void(checkpoint::GgufMetadata&, std::vector<checkpoint::GgufTensorSpec>&)>;

// A file with the metadata, a table of eight tokens and the divisors of the frequencies.
std::filesystem::path write_gguf(const test::TempDir& scratch, const io::JsonField& row, std::int64_t hidden,
                                 const Change& change = {}) {
  checkpoint::GgufMetadata metadata;
  for (const Json::Member& one : row.at("metadata").object())
    set_key(metadata, one.key, row.at("metadata").member(one));
  std::map<std::string, std::vector<float>> tensors = {
      {"token_embd.weight", std::vector<float>(static_cast<std::size_t>(8 * hidden))}};
  std::vector<checkpoint::GgufTensorSpec> specs = {{"token_embd.weight", checkpoint::GgmlType::f32, {8, hidden}}};
  for (const Json::Member& one : row.at("tensors").object()) {
    for (const auto& each : row.at("tensors").member(one).items())
      tensors[one.key].push_back(static_cast<float>(each.number()));
    specs.push_back({one.key, checkpoint::GgmlType::f32, {static_cast<std::int64_t>(tensors[one.key].size())}});
  }
  if (change) change(metadata, specs);
  for (const auto& spec : specs) {
    if (tensors[spec.name].empty()) tensors[spec.name].resize(static_cast<std::size_t>(spec.shape.front()));
  }
  auto writer = checkpoint::GgufWriter::create(scratch / "model.gguf", metadata, specs).value();
  for (const auto& [name, values] : tensors) writer.write(name, std::as_bytes(std::span(values))).value();
  writer.finish().value();
  return scratch / "model.gguf";
}

std::vector<std::int64_t> windows_of(const ModelConfig& config) {
  std::vector<std::int64_t> windows;
  for (const auto& spec : find_architecture(config.architecture)->cache_specs(config)) windows.push_back(spec.window);
  return windows;
}

void expect_same_rotary(const ModelConfig& one, const ModelConfig& other) {
  const auto tables = find_architecture(one.architecture)->rope_tables(one);
  const auto others = find_architecture(other.architecture)->rope_tables(other);
  ASSERT_EQ(tables.empty(), others.empty());
  for (std::size_t i = 0; i < std::min(tables.size(), others.size()); ++i) {
    ASSERT_EQ(tables[i].frequencies.size(), others[i].frequencies.size());
    for (std::size_t pair = 0; pair < tables[i].frequencies.size(); ++pair) {
      const double expected = others[i].frequencies[pair];
      EXPECT_NEAR(tables[i].frequencies[pair], expected, 1e-5 * expected) << i << " " << pair;
    }
    EXPECT_NEAR(tables[i].amplitude, others[i].amplitude, 1e-6);
    EXPECT_NEAR(tables[i].amplitude_at(20000), others[i].amplitude_at(20000), 1e-6);
  }
}

TEST(PublishedGguf, SaysWhatConfigJsonSays) {
  std::map<std::string, ModelConfig> by_name;
  for (const PublishedRow& row : published_rows()) by_name.emplace(row.field().text("model", ""), row.config);
  const test::TempDir scratch;
  const std::vector<Json> lines = lines_of("gguf.jsonl");
  ASSERT_GE(lines.size(), 30U);
  for (const Json& line : lines) {
    const io::JsonField row(line, "gguf.jsonl", "see script/golden.d/gguf_configs.py");
    const std::string model = row.text("model", "");
    SCOPED_TRACE(model);
    const ModelConfig& json = by_name.at(model);
    const auto read =
        read_config(checkpoint::CheckpointSource::open(write_gguf(scratch, row, json.hidden_size)).value());
    ASSERT_TRUE(read.ok()) << read.error().line();
    EXPECT_EQ(read->hidden_size, json.hidden_size);
    EXPECT_EQ(read->intermediate_size, json.intermediate_size);
    EXPECT_EQ(read->num_hidden_layers, json.num_hidden_layers);
    EXPECT_EQ(read->num_attention_heads, json.num_attention_heads);
    EXPECT_EQ(read->num_key_value_heads, json.num_key_value_heads);
    EXPECT_EQ(read->head_dim, json.head_dim);
    EXPECT_EQ(read->rotary_dim, json.rotary_dim);
    EXPECT_EQ(read->rms_norm_eps, json.rms_norm_eps);
    expect_same_rotary(*read, json);
    // The conversion has no word for a Mistral's window.
    if (read->architecture == json.architecture) {
      EXPECT_EQ(windows_of(*read), windows_of(json));
    }
  }
}

// Keys of parts that a model has not say nothing; those of parts that it has are refused, as nothing computes them.
TEST(PublishedGguf, KeysOfOtherPartsAreRefusedWhereTheModelHasThem) {
  const test::TempDir scratch;
  const std::vector<Json> lines = lines_of("gguf.jsonl");
  const auto problem_of = [&](const std::string& model, const Change& change) {
    const auto line =
        std::find_if(lines.begin(), lines.end(), [&](const Json& each) { return each.find("model")->text() == model; });
    const io::JsonField row(*line, "gguf.jsonl", "");
    const auto read = read_config(checkpoint::CheckpointSource::open(write_gguf(scratch, row, 64, change)).value());
    return read.ok() ? "" : read.error().line();
  };
  const std::string llama = "meta-llama/Llama-2-7b-hf";
  const auto number = [](const char* key, std::uint32_t value) {
    return [=](auto& metadata, auto& /*tensors*/) { metadata.set(key, value); };
  };
  const std::string unknown = ": expected only fields that ";
  EXPECT_EQ(problem_of(llama, number("llama.nextn_predict_layers", 0)), "");
  EXPECT_NE(problem_of(llama, number("llama.nextn_predict_layers", 1)).find(unknown), std::string::npos);
  EXPECT_EQ(problem_of(llama, number("llama.ssm.conv_kernel", 4)), "");
  EXPECT_NE(problem_of(llama,
                       [](auto& metadata, auto& tensors) {
                         metadata.set("llama.ssm.conv_kernel", std::uint32_t{4});
                         tensors.push_back({"blk.0.ssm_a", checkpoint::GgmlType::f32, {4}});
                       })
                .find("\"llama.ssm.conv_kernel\"" + unknown),
            std::string::npos);
  const auto local = [](float theta) {
    return [=](auto& metadata, auto& /*tensors*/) { metadata.set("llama.rope.freq_base_swa", theta); };
  };
  EXPECT_EQ(problem_of(llama, local(10000.0F)), "");
  EXPECT_NE(problem_of(llama, local(20000.0F)).find("\"llama.rope.freq_base_swa\"" + unknown), std::string::npos);
  const std::string coder = "Qwen/Qwen3-Coder-480B-A35B-Instruct";
  EXPECT_NE(problem_of(coder, number("qwen3moe.expert_shared_feed_forward_length", 64)).find(unknown),
            std::string::npos);
  const std::string granite = "ibm-granite/granite-4.0-micro";
  EXPECT_NE(problem_of(granite, number("granite.expert_count", 8)).find(unknown), std::string::npos);
  EXPECT_NE(problem_of(granite,
                       [](auto& metadata, auto& /*tensors*/) {
                         metadata.set("granite.attention.head_count_kv", std::vector<std::int32_t>{8, 4});
                       })
                .find("expected an integer, found an array of 2 i32"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::models
