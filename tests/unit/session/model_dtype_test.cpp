#include "session/model_dtype.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/convert.h"
#include "io/mapped_file.h"
#include "models/gguf_names.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointSource;

constexpr tern_dtype kDtypes[] = {TERN_F32, TERN_BF16, TERN_F16};

class ModelDtype : public ::testing::Test {
 protected:
  static fs::path tiny() { return fs::path(TERN_TEST_DATA) / "golden/llama-tied"; }
  // The folder's config.json with `line` where it named its dtype.
  static void name_dtype(const fs::path& folder, const std::string& line) {
    std::string json = io::read_text_file(folder / "config.json").value();
    for (const char* key : {"\"dtype\": ", "\"torch_dtype\": "}) {
      const auto begin = json.find(key);
      if (begin != std::string::npos) json.erase(begin, json.find(',', begin) + 1 - begin);
    }
    json.insert(json.find('{') + 1, line);
    std::ofstream(folder / "config.json") << json;
  }
  // The tiny Llama stored in that dtype.
  fs::path stored(const std::string& outtype, const std::string& line) {
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    options.replace = true;
    (void)checkpoint::convert_checkpoint(CheckpointSource::open(tiny()).value(), scratch_ / "model", options).value();
    fs::copy_file(tiny() / "config.json", scratch_ / "model/config.json", fs::copy_options::overwrite_existing);
    name_dtype(scratch_ / "model", line);
    return scratch_ / "model";
  }
  fs::path gguf(const std::string& outtype) {
    const auto source = CheckpointSource::open(tiny()).value();
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    options.replace = true;
    models::set_gguf_form(source, models::read_config(source).value(), "tiny", options).value();
    (void)checkpoint::convert_checkpoint(source, scratch_ / "model.gguf", options).value();
    return scratch_ / "model.gguf";
  }
  static tern_dtype of(const fs::path& model, std::optional<tern_dtype> asked = std::nullopt) {
    const auto source = CheckpointSource::open(model).value();
    return model_dtype(models::read_config(source).value(), source, asked);
  }

  test::TempDir scratch_;
};

TEST_F(ModelDtype, IsWhatConfigJsonNames) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    for (const tern_dtype dtype : kDtypes) {
      const auto model = stored("f32", cat("\"", key, "\": \"", dtype_info(dtype).torch, "\","));
      EXPECT_EQ(of(model), dtype) << key;
      for (const tern_dtype asked : kDtypes) EXPECT_EQ(of(model, asked), asked) << "the flag wins";
    }
  }
}

TEST_F(ModelDtype, IsThatOfTheWeightsWhereConfigJsonSaysNothing) {
  for (const tern_dtype dtype : kDtypes) {
    const std::string outtype(dtype_name(dtype));
    EXPECT_EQ(of(stored(outtype, "")), dtype);
    EXPECT_EQ(of(stored(outtype, R"("torch_dtype": null,)")), dtype);
    EXPECT_EQ(of(stored(outtype, R"("torch_dtype": "auto",)")), dtype);
    EXPECT_EQ(of(stored(outtype, R"("dtype": "float64",)")), dtype) << "no dtype of a model";
  }
}

// GPTQ's codes are no weights that a dtype could be read from; its norms and its embedding are.
TEST_F(ModelDtype, QuantisedWeightsDoNotCount) {
  fs::copy(fs::path(TERN_TEST_DATA) / "checkpoint/quantized/models/gptq", scratch_ / "gptq");
  name_dtype(scratch_ / "gptq", "");
  const auto source = CheckpointSource::open(scratch_ / "gptq").value();
  EXPECT_EQ(of(scratch_ / "gptq"), source.require("model.norm.weight").value()->storage.dtype);
}

TEST_F(ModelDtype, IsBf16WhereTheWeightsAreMixed) {
  const auto file = checkpoint::Safetensors::open_directory(tiny()).value();
  std::vector<checkpoint::TensorSpec> specs;
  for (const auto& tensor : file.tensors()) specs.push_back({tensor.name, specs.empty() ? "F16" : "F32", tensor.shape});
  const auto model = stored("f32", "");
  for (const auto& entry : fs::directory_iterator(model))
    if (entry.path().extension() == ".safetensors") fs::remove(entry.path());
  auto writer = checkpoint::SafetensorsWriter::create(model, specs, {}).value();
  for (const auto& spec : specs) {
    const auto bytes = file.tensor(spec.name)->bytes;
    writer.write(spec.name, spec.dtype == "F16" ? bytes.first(bytes.size() / 2) : bytes).value();
  }
  writer.finish().value();
  EXPECT_EQ(of(model), TERN_BF16);
}

TEST_F(ModelDtype, IsBf16ForGguf) {
  for (const char* outtype : {"f32", "f16", "bf16", "q8_0"}) {
    const auto model = gguf(outtype);
    EXPECT_EQ(of(model), TERN_BF16) << outtype;
    EXPECT_EQ(of(model, TERN_F16), TERN_F16) << "the flag wins";
  }
}

// A device of rates: f32 at 1.
tern_device_info device(float bf16, float f16) {
  tern_device_info info{};
  info.matmul_rate[TERN_F32] = 1.0F;
  info.matmul_rate[TERN_BF16] = bf16;
  info.matmul_rate[TERN_F16] = f16;
  info.storage_dtypes = (1U << TERN_F32) | (1U << TERN_F16);
  return info;
}

// Never another 16-bit dtype than the model's, however fast.
TEST(ComputeDtype, IsTheModelsWhereThatIsFasterElseF32) {
  EXPECT_EQ(compute_dtype(device(2, 4), TERN_BF16), TERN_BF16);
  EXPECT_EQ(compute_dtype(device(2, 4), TERN_F16), TERN_F16);
  EXPECT_EQ(compute_dtype(device(2, 4), TERN_F32), TERN_F32);
  EXPECT_EQ(compute_dtype(device(0.9F, 4), TERN_BF16), TERN_F32);
  EXPECT_EQ(compute_dtype(device(4, 0.9F), TERN_F16), TERN_F32);
  EXPECT_EQ(compute_dtype(device(1, 1), TERN_BF16), TERN_F32) << "no gain";
  EXPECT_EQ(compute_dtype(device(0, 0), TERN_F16), TERN_F32) << "no such products";
}

TEST(ActivationDtype, IsWhatIsAskedOrAnError) {
  EXPECT_EQ(activation_dtype(device(1, 1), TERN_F16).value(), TERN_F16);
  EXPECT_EQ(activation_dtype(device(1, 1), std::nullopt).value(), TERN_F32);
  const auto refused = activation_dtype(device(1, 1), TERN_BF16);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().line().find("--activation_dtype is bfloat16"), std::string::npos) << refused.error().line();
}

// As older accelerators lack bf16 alone.
TEST(StorableDtype, IsF16WhereTheDeviceLacksBf16AndF32WhereItLacksBoth) {
  EXPECT_EQ(storable_dtype(device(2, 2), TERN_F16), TERN_F16);
  EXPECT_EQ(storable_dtype(device(0, 2), TERN_BF16), TERN_F16);
  EXPECT_EQ(storable_dtype(device(0, 0), TERN_BF16), TERN_F32) << "f16 is stored, and nothing is multiplied in it";
  EXPECT_EQ(storable_dtype(device(2, 2), TERN_F32), TERN_F32);
  tern_device_info plain = device(0, 0);
  plain.storage_dtypes = 1U << TERN_F32;
  EXPECT_EQ(storable_dtype(plain, TERN_BF16), TERN_F32);
  EXPECT_EQ(storable_dtype(plain, TERN_F16), TERN_F32);
}

TEST(RunDtype, IsWhatIsAskedOrAnErrorAndElseWhatTheDeviceStores) {
  EXPECT_EQ(run_dtype(device(0, 2), TERN_BF16, std::nullopt).value(), TERN_F16);
  EXPECT_EQ(run_dtype(device(0, 2), TERN_BF16, TERN_F32).value(), TERN_F32);
  const auto refused = run_dtype(device(0, 2), TERN_F32, TERN_BF16);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().line().find("--torch_dtype is bfloat16"), std::string::npos) << refused.error().line();
  EXPECT_NE(refused.error().line().find("give float16"), std::string::npos) << refused.error().line();
}

}  // namespace
}  // namespace tern::session
