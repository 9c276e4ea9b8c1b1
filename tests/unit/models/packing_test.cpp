#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <filesystem>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/ggml_types.h"
#include "models/stored_planes.h"
#include "ops/ref/packing_blocks.h"
#include "ops/ref/tensor.h"

namespace tern::models {
namespace {

// What a device's products mean by a packing is what the file's reader makes of it, which equals the gguf package's.
TEST(Packing, TheOracleExpandsAsTheReaderDoes) {
  int checked = 0;
  std::mt19937 random(5);
  for (const checkpoint::GgmlTypeInfo& info : checkpoint::ggml_types()) {
    const auto packing = checkpoint::ggml_packing(info.type);
    if (!packing) continue;
    constexpr std::int64_t kBlocks = 64;
    std::vector<std::byte> bytes(static_cast<std::size_t>(kBlocks * info.block_bytes));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(info.block_bytes)) {
      for (const int half : ops::ref::block_halves(*packing)) {  // finite numbers
        const std::uint16_t bits = float_to_fp16(static_cast<float>(random() % 2000) / 512.0F - 2.0F);
        bytes[at + static_cast<std::size_t>(half)] = static_cast<std::byte>(bits & 255);
        bytes[at + static_cast<std::size_t>(half) + 1] = static_cast<std::byte>(bits >> 8);
      }
      if (ops::ref::block_halves(*packing).empty()) bytes[at] = static_cast<std::byte>(64 + random() % 128);
    }
    const std::int64_t elements = kBlocks * info.block_elements;
    std::vector<float> expected(static_cast<std::size_t>(elements));
    ASSERT_TRUE(checkpoint::dequantize(info.type, bytes, expected).ok()) << info.name;
    const std::span<const std::byte> plane(bytes);
    const auto tensor =
        ops::ref::decode(make_quantised_desc(TERN_F32, gguf_scheme(*packing), 1, elements), std::span(&plane, 1));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(static_cast<float>(tensor.real[i]), expected[i]) << info.name << " element " << i;
      ASSERT_GE(tensor.parts[i] * 1.000001, std::abs(tensor.real[i])) << info.name << " element " << i;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 13);
}

// Rows of the file's reader, one run after the other.
std::vector<float> read(std::span<const checkpoint::LogicalTensor* const> tensors, std::span<const RowRun> runs) {
  std::vector<float> out;
  for (const RowRun& run : runs) {
    std::vector<float> rows(static_cast<std::size_t>(run.count * tensors[run.tensor]->shape[1]));
    checkpoint::read_rows_f32(*tensors[run.tensor], run.first, run.count, rows).value();
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

// What the oracle makes of the planes.
std::vector<float> expanded(const TensorDesc& desc, std::span<const std::byte> planes) {
  std::array<std::span<const std::byte>, TERN_MAX_PLANES> parts;
  const PlaneBytes sizes = plane_bytes(desc);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    parts[p] = planes.first(static_cast<std::size_t>(sizes.bytes[p]));
    planes = planes.subspan(parts[p].size());
  }
  EXPECT_TRUE(planes.empty());
  const auto tensor = ops::ref::decode(desc, parts);
  return {tensor.real.begin(), tensor.real.end()};
}

class Planes : public testing::TestWithParam<const char*> {
 protected:
  Planes()
      : source_(checkpoint::CheckpointSource::open(std::filesystem::path(TERN_TEST_DATA) /
                                                   "checkpoint/quantized/models" / GetParam())
                    .value()),
        logical_(checkpoint::logical_tensors(source_).value()) {}
  [[nodiscard]] const checkpoint::LogicalTensor* find(const std::string& module) const {
    for (const auto& tensor : logical_) {
      if (tensor.name == "model.layers.0." + module + ".weight") return &tensor;
    }
    return nullptr;
  }
  void expect_whole_tensors() const {
    for (const char* module : {"self_attn.q_proj", "mlp.up_proj", "mlp.down_proj"}) {
      const std::vector tensors = {find(module)};
      const std::vector runs = {RowRun{0, 0, tensors[0]->shape[0]}};
      const TensorDesc desc = joined_desc(tensors, runs);
      ASSERT_TRUE(is_present(desc)) << module;
      EXPECT_EQ(expanded(desc, joined_planes(tensors, runs)), read(tensors, runs)) << module;
    }
  }
  checkpoint::CheckpointSource source_;
  std::vector<checkpoint::LogicalTensor> logical_;
};

TEST_P(Planes, OfATensorAreItsNumbers) { expect_whole_tensors(); }

// As experts are joined, and cut.
TEST_P(Planes, OfSeveralTensorsAreTheirNumbers) {
  const std::string method = GetParam();
  const bool has_own = method == "nf4_256";  // a shift of its scales
  const std::vector tensors = {find("self_attn.k_proj"), find("self_attn.v_proj"), find("self_attn.q_proj")};
  const std::vector<std::vector<RowRun>> cases = {
      {{0, 0, 16}, {1, 0, 16}}, {{2, 16, 16}}, {{1, 0, 16}, {2, 0, 16}, {0, 0, 16}}};
  for (const auto& runs : cases) {
    const TensorDesc desc = joined_desc(tensors, runs);
    ASSERT_EQ(is_present(desc), !has_own);
    if (has_own) continue;
    EXPECT_EQ(expanded(desc, joined_planes(tensors, runs)), read(tensors, runs));
  }
  if (method == "gptq") {  // an order of inputs
    const std::vector down = {find("mlp.down_proj")};
    EXPECT_FALSE(is_present(joined_desc(down, std::vector<RowRun>{{0, 0, 16}})));
  }
  const bool any_border = method == "int8" || method == "fp8_rows";
  EXPECT_EQ(is_present(joined_desc(tensors, std::vector<RowRun>{{2, 5, 3}})), any_border);
}

// What lies otherwise in the file is as a device takes it, of whole tensors: those of 32 outputs at least.
class TurnedPlanes : public Planes {};
TEST_P(TurnedPlanes, OfATensorAreItsNumbers) { expect_whole_tensors(); }
TEST_P(TurnedPlanes, OfSeveralTensorsAreTheirNumbers) {
  const std::string method = GetParam();
  const bool has_own = method == "fp4";  // a shift of its scales
  const std::vector tensors = {find("self_attn.q_proj"), find("mlp.gate_proj"), find("mlp.up_proj")};
  for (const auto& runs : {std::vector<RowRun>{{0, 0, 32}, {2, 32, 32}, {1, 0, 64}}, {{1, 32, 32}, {0, 0, 32}}}) {
    if (method == "gptq_dynamic" || method == "int8_mixed") continue;  // each has bits of its own
    const TensorDesc desc = joined_desc(tensors, runs);
    ASSERT_EQ(is_present(desc), !has_own);
    if (has_own) continue;
    EXPECT_EQ(expanded(desc, joined_planes(tensors, runs)), read(tensors, runs));
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, TurnedPlanes,
                         testing::Values("packed_int4", "packed_int4_zeros", "packed_int4_rows", "packed_int4_order",
                                         "packed_int8", "int8_zeros", "gptq_int3", "gptq_v2", "gptq_borrowed",
                                         "gptq_dynamic", "awq_gemv", "fp4", "bnb_int8"),
                         [](const auto& tested) { return std::string(tested.param); });

INSTANTIATE_TEST_SUITE_P(Methods, Planes,
                         testing::Values("awq", "gptq", "gptq_in_order", "fp8", "fp8_rows", "int8", "nf4_256"),
                         [](const auto& tested) { return std::string(tested.param); });

// Four scales of nf4 share one here, where planes have 256.
TEST(OtherPlanes, HaveNoWordForOtherGroups) {
  const auto source =
      checkpoint::CheckpointSource::open(std::filesystem::path(TERN_TEST_DATA) / "checkpoint/quantized/models/nf4")
          .value();
  int count = 0;
  for (const auto& tensor : checkpoint::logical_tensors(source).value()) {
    if (tensor.scale == nullptr) continue;
    const std::vector tensors = {&tensor};
    EXPECT_FALSE(is_present(joined_desc(tensors, std::vector<RowRun>{{0, 0, tensor.shape[0]}})));
    ++count;
  }
  EXPECT_EQ(count, 7);
}

}  // namespace
}  // namespace tern::models
