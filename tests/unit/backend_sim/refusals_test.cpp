// If these fail, the simulated ascend takes what the vendor's fused attention doesn't, or refuses what it takes.
#include <gtest/gtest.h>

#include <functional>

#include "accel/kernel.h"
#include "ops/build.h"
#include "tern/accel_ops.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

struct Shape {
  std::int64_t rows = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t width = 64;
  std::int64_t value_width = 64;
  std::int64_t sequences = 2;
  std::int64_t block = 128;
  tern_dtype dtype = TERN_BF16;
  float softcap = 0.0F;
  bool sinks = false;
  std::int32_t max_seqlen_q = 64;
};

tern_attention_attrs attrs_of(const Shape& s) { return {0.125F, s.softcap, 1, 0, s.max_seqlen_q, 4096, 0, 0}; }

accel::OpDesc training(const Shape& s) {
  const TensorDesc bounds = make_desc(TERN_I32, {s.sequences + 1});
  return {TERN_OP_ATTENTION,
          {make_desc(s.dtype, {s.rows, s.heads, s.width}), make_desc(s.dtype, {s.rows, s.kv_heads, s.width}),
           make_desc(s.dtype, {s.rows, s.kv_heads, s.value_width}), bounds, bounds,
           s.sinks ? make_desc(TERN_F32, {s.heads}) : absent_desc(), absent_desc(),
           make_desc(s.dtype, {s.rows, s.heads, s.value_width}), absent_desc()},
          ops::pack_attrs(attrs_of(s)),
          0,
          0,
          {}};
}

accel::OpDesc training_backward(const Shape& s) {
  const TensorDesc bounds = make_desc(TERN_I32, {s.sequences + 1});
  const TensorDesc q = make_desc(s.dtype, {s.rows, s.heads, s.width});
  const TensorDesc k = make_desc(s.dtype, {s.rows, s.kv_heads, s.width});
  const TensorDesc v = make_desc(s.dtype, {s.rows, s.kv_heads, s.value_width});
  const TensorDesc out = make_desc(s.dtype, {s.rows, s.heads, s.value_width});
  const TensorDesc sinks = s.sinks ? make_desc(TERN_F32, {s.heads}) : absent_desc();
  return {
      TERN_OP_ATTENTION_BACKWARD,
      {out, q, k, v, out, make_desc(TERN_F32, {s.rows, s.heads}), bounds, bounds, sinks, absent_desc(), q, k, v, sinks},
      ops::pack_attrs(attrs_of(s)),
      0,
      0,
      {}};
}

accel::OpDesc serving(const Shape& s) {
  return {TERN_OP_ATTENTION_PAGED,
          {make_desc(s.dtype, {s.rows, s.heads, s.width}), make_desc(s.dtype, {8, s.block, s.kv_heads, s.width}),
           make_desc(s.dtype, {8, s.block, s.kv_heads, s.value_width}), make_desc(TERN_I32, {s.sequences, 4}),
           make_desc(TERN_I32, {s.sequences + 1}), make_desc(TERN_I32, {s.sequences}),
           s.sinks ? make_desc(TERN_F32, {s.heads}) : absent_desc(), absent_desc(),
           make_desc(s.dtype, {s.rows, s.heads, s.value_width}), absent_desc()},
          ops::pack_attrs(attrs_of(s)),
          0,
          0,
          {}};
}

Shape with(const std::function<void(Shape&)>& change) {
  Shape shape;
  change(shape);
  return shape;
}

// `part` of the reason; "": taken.
void expect(const accel::OpDesc& desc, const std::string& part) {
  const accel::Verdict verdict = accel::supports(*open_sim({{"TERN_SIM", "ascend"}}), desc);
  EXPECT_EQ(verdict.native, part.empty()) << verdict.reason;
  EXPECT_TRUE(contains(verdict.reason, part)) << verdict.reason << "\nlacks: " << part;
  EXPECT_TRUE(accel::supports(*open_sim(), desc).native) << "elsewhere too";
}

TEST(SimRefusals, OfEveryFusedAttention) {
  for (const auto make : {training, training_backward, serving}) {
    expect(make({}), "");
    expect(make(with([](Shape& s) { s.softcap = 30.0F; })), "the fused attention has no soft cap");
    expect(make(with([](Shape& s) { s.sinks = true; })), "the fused attention takes no sinks");
    expect(make(with([](Shape& s) { s.heads = 256; })), "");
    expect(make(with([](Shape& s) { s.heads = 258; })), "at most 256 heads, not 258");
  }
}

TEST(SimRefusals, OfCachesInEightBits) {
  for (const tern_dtype dtype : {TERN_I8, TERN_F8_E4M3}) {
    accel::OpDesc desc = serving({});
    desc.args.resize(TERN_ATTENTION_PAGED_NUM_ARGS, absent_desc());
    TensorDesc& keys = desc.args[TERN_ATTENTION_PAGED_K_CACHE];
    keys.dtype = desc.args[TERN_ATTENTION_PAGED_V_CACHE].dtype = dtype;
    const TensorDesc scales = make_desc(TERN_F32, {keys.shape[0], keys.shape[1], keys.shape[2]});
    desc.args[TERN_ATTENTION_PAGED_K_SCALE] = desc.args[TERN_ATTENTION_PAGED_V_SCALE] = scales;
    expect(desc, "no scale for each row of a cache in 8 bits");
  }
}

TEST(SimRefusals, OfTraining) {
  for (const auto make : {training, training_backward}) {
    expect(make(with([](Shape& s) { s.width = s.value_width = 768; })), "");
    expect(make(with([](Shape& s) { s.width = s.value_width = 770; })), "at most 768 features, not 770");
    expect(make(with([](Shape& s) { s.width = s.value_width = 10; })), "");
    expect(make(with([](Shape& s) { s.value_width = 32; })), "");
    expect(make(with([](Shape& s) { s.value_width = 80; })), "no wider than keys: 80 and 64");
    expect(make(with([](Shape& s) { s.sequences = 2048; })), "");
    expect(make(with([](Shape& s) { s.sequences = 2049; })), "at most 2048 sequences");
    expect(make(with([](Shape& s) { s.rows = (1 << 20) + 1; })), "at most 1048576 rows");
  }
}

TEST(SimRefusals, OfServing) {
  expect(serving(with([](Shape& s) { s.width = s.value_width = 256; })), "");
  expect(serving(with([](Shape& s) { s.width = s.value_width = 272; })), "16, 32, ... 256 features, not 272");
  expect(serving(with([](Shape& s) { s.width = s.value_width = 72; })), "16, 32, ... 256 features, not 72");
  expect(serving(with([](Shape& s) { s.width = 192, s.value_width = 128; })), "");
  expect(serving(with([](Shape& s) { s.value_width = 32; })), "as wide as keys, or 128 beside 192: 32 and 64");
  for (const std::int64_t block : {128, 256, 384, 512}) expect(serving(with([&](Shape& s) { s.block = block; })), "");
  for (const std::int64_t block : {16, 64, 192, 640}) {
    expect(serving(with([&](Shape& s) { s.block = block; })), cat("128, 256, 384 or 512 tokens, not ", block));
  }
  expect(serving(with([](Shape& s) { s.kv_heads = s.heads = 256, s.width = s.value_width = 256; })), "65535 numbers");
}

TEST(SimRefusals, OfDecoding) {
  const auto decoding = [](const std::function<void(Shape&)>& change) {
    Shape shape = with(change);
    shape.max_seqlen_q = 1;
    return serving(shape);
  };
  expect(decoding([](Shape& s) { s.width = s.value_width = 72; }), "");
  expect(decoding([](Shape& s) { s.width = s.value_width = 512; }), "");
  expect(decoding([](Shape& s) { s.width = s.value_width = 528; }), "at most 512 features, not 528");
  expect(decoding([](Shape& s) { s.block = 16; }), "");
  expect(decoding([](Shape& s) { s.block = 8; }), "at most 512 tokens, in 16-bit caches a multiple of 16, not 8");
  expect(decoding([](Shape& s) { s.block = 8, s.dtype = TERN_F32; }), "");
  expect(decoding([](Shape& s) { s.block = 1024; }), "at most 512 tokens");
}

}  // namespace
}  // namespace tern::test
