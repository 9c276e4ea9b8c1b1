#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/inspect.h"
#include "checkpoint/logical_tensors.h"
#include "io/atomic_dir.h"
#include "io/json.h"
#include "tests/support/temp_dir.h"

namespace tern::checkpoint {
namespace {

namespace fs = std::filesystem;

// A directory with a linear of [3, 512], one of [2, 576], a norm of [512] and integers.
void make_model(const test::TempDir& dir) {
  const std::vector<TensorSpec> specs = {{"a.weight", "F32", {3, 512}},
                                         {"b.weight", "BF16", {2, 576}},
                                         {"norm.weight", "F32", {512}},
                                         {"ids", "I64", {2}}};
  fs::create_directories(dir / "model");
  auto writer = SafetensorsWriter::create(dir / "model", specs).value();
  std::vector<float> a(3 * 512);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  const std::vector<std::uint16_t> b(2 * 576, 0x3f80);
  const std::vector<float> norm(512, 1.25F);
  const std::vector<std::int64_t> ids = {7, -1};
  EXPECT_TRUE(writer.write("a.weight", std::as_bytes(std::span(a))).ok());
  EXPECT_TRUE(writer.write("b.weight", std::as_bytes(std::span(b))).ok());
  EXPECT_TRUE(writer.write("norm.weight", std::as_bytes(std::span(norm))).ok());
  EXPECT_TRUE(writer.write("ids", std::as_bytes(std::span(ids))).ok());
  EXPECT_TRUE(writer.finish().ok());
  dir.write("model/config.json", R"({"model_type":"llama","torch_dtype":"float32"})");
  dir.write("model/tokenizer.json", "{}");
  dir.write("model/notes.md", "not copied");
}

std::vector<float> values_of(const CheckpointSource& source, const std::string& name) {
  const SourceTensor* tensor = source.require(name).value();
  std::vector<float> values(*element_count(tensor->shape));
  EXPECT_TRUE(source.read_f32(*tensor, values).ok());
  return values;
}

// A tensor of the source, as it is, under another name.
TargetTensor whole(const CheckpointSource& source, const std::string& from, const std::string& name) {
  const SourceTensor* tensor = source.require(from).value();
  const std::int64_t rows = tensor->shape.size() == 1 ? 1 : tensor->shape[0];
  return {name, tensor->shape, {from}, {{0, 0, rows}}, [&source, tensor](auto first, auto count, auto values) {
            const auto all = values_of(source, tensor->name);
            const std::int64_t columns = tensor->shape.back();
            std::copy_n(all.begin() + first * columns, count * columns, values.begin());
          }};
}

TEST(Convert, ChangesTheDtypeOfADirectory) {
  test::TempDir dir;
  make_model(dir);
  const auto source = CheckpointSource::open(dir / "model").value();
  ConvertOptions options;
  options.outtype = "bf16";
  options.max_shard_size = 3000;
  std::uint64_t last = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
    return true;
  };
  const auto report = convert_checkpoint(source, dir / "out", options);
  ASSERT_TRUE(report.ok()) << report.error().line();
  EXPECT_EQ(report->tensors, 4U);
  EXPECT_EQ(last, 3U * 512 * 4 + 2 * 576 * 2 + 512 * 4 + 16);
  EXPECT_TRUE(io::verify_manifest(dir / "out").ok());
  EXPECT_TRUE(fs::exists(dir / "out/tokenizer.json"));
  EXPECT_FALSE(fs::exists(dir / "out/notes.md"));
  const auto written = CheckpointSource::open(dir / "out").value();
  EXPECT_GT(written.files().size(), 1U);
  EXPECT_EQ((*written.config())["torch_dtype"], "bfloat16");
  EXPECT_EQ(written.find("ids")->storage.dtype, TERN_I64);
  EXPECT_EQ(written.find("a.weight")->storage.dtype, TERN_BF16);
  const auto before = values_of(source, "a.weight");
  const auto after = values_of(written, "a.weight");
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], std::fabs(before[i]) * 0x1p-8);
  EXPECT_FALSE(convert_checkpoint(source, dir / "out", options).ok());  // exists
  options.replace = true;
  options.progress = nullptr;
  EXPECT_TRUE(convert_checkpoint(source, dir / "out", options).ok());
}

TEST(Convert, WritesGgufWithFallbacksThatItNames) {
  test::TempDir dir;
  make_model(dir);
  const auto source = CheckpointSource::open(dir / "model").value();
  ConvertOptions options;
  options.outtype = "q4_k";
  EXPECT_THROW((void)convert_checkpoint(source, dir / "m.gguf", options), std::logic_error);  // of metadata
  options.metadata.emplace();
  options.metadata->set("general.architecture", "llama");
  for (const auto& tensor : source.tensors()) {
    if (tensor.name != "ids") options.tensors.push_back(whole(source, tensor.name, "x." + tensor.name));
  }
  const auto report = convert_checkpoint(source, dir / "m.gguf", options);
  ASSERT_TRUE(report.ok()) << report.error().line();
  ASSERT_EQ(report->notes.size(), 1U);
  EXPECT_NE(report->notes[0].find("b.weight: Q8_0 in place of Q4_K"), std::string::npos) << report->notes[0];
  const auto written = CheckpointSource::open(dir / "m.gguf").value();
  ASSERT_EQ(written.tensors().size(), 3U);
  EXPECT_EQ(written.find("x.a.weight")->storage.block, GgmlType::q4_k);
  EXPECT_EQ(written.find("x.b.weight")->storage.block, GgmlType::q8_0);
  EXPECT_EQ(written.find("x.norm.weight")->storage.dtype, TERN_F32);
  EXPECT_EQ(written.gguf()->integer("general.file_type").value(), 15);
  const auto before = values_of(source, "a.weight");
  const auto after = values_of(written, "x.a.weight");
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], 2.0 / 15);
  for (float value : values_of(written, "x.b.weight")) ASSERT_NEAR(value, 1.0F, 0x1p-11);

  // GGUF to GGUF takes its metadata along; to safetensors it needs a dtype.
  ConvertOptions again;
  again.outtype = "q8_0";
  ASSERT_TRUE(convert_checkpoint(written, dir / "n.gguf", again).ok());
  EXPECT_EQ(CheckpointSource::open(dir / "n.gguf")->gguf()->text("general.architecture").value(), "llama");
  again.outtype = "";
  EXPECT_NE(convert_checkpoint(written, dir / "n.safetensors", again).error().line().find("outtype"),
            std::string::npos);
  again.outtype = "f16";
  ASSERT_TRUE(convert_checkpoint(written, dir / "n.safetensors", again).ok());
  EXPECT_EQ(CheckpointSource::open(dir / "n.safetensors")->find("x.a.weight")->storage.dtype, TERN_F16);
}

TEST(Convert, ExpandsAQuantisedCheckpoint) {
  test::TempDir dir;
  const fs::path quantized = TERN_TEST_DATA "/checkpoint/quantized/gptq4";
  fs::create_directories(dir / "in");
  for (const char* name : {"model.safetensors", "config.json"})
    fs::copy_file(quantized / name, dir / (std::string("in/") + name));
  const auto source = CheckpointSource::open(dir / "in").value();
  ConvertOptions options;
  EXPECT_FALSE(convert_checkpoint(source, dir / "out", options).ok());  // planes have no plain dtype of their own
  options.outtype = "f32";
  const auto report = convert_checkpoint(source, dir / "out", options);
  ASSERT_TRUE(report.ok()) << report.error().line();
  const auto written = CheckpointSource::open(dir / "out").value();
  const auto expected = CheckpointSource::open(quantized / "expected.safetensors").value();
  const auto got = values_of(written, "l.q_proj.weight");
  const auto want = values_of(expected, "l.q_proj.weight");
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_FLOAT_EQ(got[i], want[i]);
  EXPECT_FALSE(written.config()->contains("quantization_config"));
}

TEST(Convert, SaysWhichOptionsDoNotFit) {
  test::TempDir dir;
  make_model(dir);
  const auto source = CheckpointSource::open(dir / "model").value();
  const auto attempt = [&](const char* outtype, const char* target) {
    ConvertOptions options;
    options.outtype = outtype;
    options.metadata.emplace();
    const auto report = convert_checkpoint(source, dir / target, options);
    EXPECT_EQ(report.error().kind, ErrorKind::usage);
    return dir.line(report.error());
  };
  EXPECT_EQ(attempt("q5_k", "m.gguf"),
            "tern does not write the type q5_k; choose f32, f16, bf16, q8_0, q4_0, q4_1, q4_k or q6_k as --outtype.");
  EXPECT_EQ(attempt("q8_0", "out"),
            "a safetensors file cannot hold q8_0; choose f32, f16 or bf16 as --outtype, or write a .gguf file.");
  dir.write("m.gguf", "theirs");
  EXPECT_EQ(attempt("q8_0", "m.gguf"),
            "DIR/m.gguf already exists; name another file, or replace it with --exist_ok true.");
  EXPECT_EQ(dir.read("m.gguf"), "theirs");
  ConvertOptions options;
  options.tensors = {whole(source, "a.weight", "a.weight")};
  options.tensors[0].sources = {"absent.weight"};
  EXPECT_THROW((void)convert_checkpoint(source, dir / "out", options), std::logic_error);
}

// Broken if a note names a type in place of itself.
TEST(Convert, NotesEachFallbackOnce) {
  test::TempDir dir;
  const std::vector<TensorSpec> specs = {{"a.weight", "F32", {2, 33}}};
  fs::create_directories(dir / "model");
  auto writer = SafetensorsWriter::create(dir / "model", specs).value();
  const std::vector<float> values(66, 1.0F);
  EXPECT_TRUE(writer.write("a.weight", std::as_bytes(std::span(values))).ok());
  EXPECT_TRUE(writer.finish().ok());
  ConvertOptions options;
  options.outtype = "q8_0";
  options.metadata.emplace();
  const auto report = convert_checkpoint(CheckpointSource::open(dir / "model").value(), dir / "m.gguf", options);
  ASSERT_TRUE(report.ok()) << report.error().line();
  ASSERT_EQ(report->notes.size(), 1U);
  EXPECT_EQ(report->notes[0].rfind("a.weight: F16 in place of Q8_0", 0), 0U) << report->notes[0];
}

// Broken if a stop, or a value that does not fit, leaves half a result under the target's name or beside it.
TEST(Convert, LeavesNothingWhenStopped) {
  test::TempDir dir;
  make_model(dir);
  const auto source = CheckpointSource::open(dir / "model").value();
  ConvertOptions options;
  options.outtype = "f16";
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  for (const char* target : {"out", "out.safetensors"})
    EXPECT_FALSE(convert_checkpoint(source, dir / target, options).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
}

TEST(Inspect, TellsWhatIsThere) {
  test::TempDir dir;
  make_model(dir);
  const auto plain = inspect(dir / "model").value();
  EXPECT_EQ(plain.architecture, "llama");
  EXPECT_EQ(plain.parameters, 3U * 512 + 2 * 576 + 512 + 2);
  EXPECT_EQ(plain.stored_bytes, 3U * 512 * 4 + 2 * 576 * 2 + 512 * 4 + 16);
  EXPECT_EQ(plain.totals.front().storage, "F32");
  EXPECT_NE(to_text(plain).find("a.weight"), std::string::npos);

  const auto quantised = inspect(TERN_TEST_DATA "/checkpoint/quantized/gptq4").value();
  const auto json = to_json(quantised);
  ASSERT_EQ(json["tensors"].size(), 1U);
  EXPECT_EQ(json["tensors"][0]["name"], "l.q_proj.weight");
  EXPECT_EQ(json["tensors"][0]["scheme"], "4 bit, groups 1 x 32, scales f16, permuted");
  EXPECT_EQ(json["metadata"]["quantization_config"]["bits"], 4);
  EXPECT_FALSE(inspect(dir / "absent").ok());
}

}  // namespace
}  // namespace tern::checkpoint
