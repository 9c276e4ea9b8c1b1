// Random numbers and dropout: another generator than the device's, of which nobody may expect the bits.
#include <cmath>

#include "arguments.h"
#include "backends/npu/cann/ops_random.h"
#include "numerics_misc.h"

namespace fake {
namespace {

// "not possible 561000: random ops on A2/A3"
void require_random(Op& op, std::int64_t offset) {
  if (op.on(Family::kA2) || op.on(Family::kA3)) op.not_repeatable();
  op.need(!op.on(Family::kA5) || offset % 4 == 0, "offset should be a multiple of 4 on this SoC.");  // "A5: offset % 4"
}

// "M out UINT8 [align(n,128)/8]": a bit an element, 1 keeps.
void mask(Op& op, const aclIntArray* shape_given, double rate, std::int64_t seed, std::int64_t offset,
          const aclTensor* out) {
  const Shape shape = op.array("shape", shape_given);
  const Tensor y = op.out("out", out, {ACL_UINT8});
  op.need(rate >= 0 && rate <= 1, "prob should be 0 to 1.");
  require_random(op, offset);
  const std::int64_t count = numerics::count_of(shape);
  op.shape(y, {(count + 127) / 128 * 128 / 8});
  op.run([=](Run& run) {
    const std::vector<double> draws =
        numerics::uniform_draws(count, static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(offset));
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(y.count()));
    for (std::size_t i = 0; i < draws.size(); ++i) {
      if (draws[i] >= rate) bytes[i / 8] |= std::int64_t{1} << (i % 8);
    }
    numerics::store(run.view(y), bytes);
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(InplaceNormal, const aclTensor* selfRef, float mean, float std, int64_t seed, int64_t offset) {
  return plan("aclnnInplaceNormal", workspaceSize, executor, [&](Op& op) {
    op.chips({Family::k910, Family::kA2, Family::kA3, Family::kA5});
    const Tensor y = op.out("selfRef", selfRef, floats);
    op.need(std >= 0, "std should not be below 0.");  // "std < 0 161002"
    require_random(op, offset);
    op.run([=](Run& run) {
      std::vector<double> draws =
          numerics::normal_draws(y.count(), static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(offset));
      for (double& draw : draws) draw = draw * static_cast<double>(std) + static_cast<double>(mean);
      numerics::store(run.view(y), draws);
    });
  });
}

FAKE_OP(InplaceUniform, const aclTensor* selfRef, double from, double to, uint64_t seed, uint64_t offset) {
  return plan("aclnnInplaceUniform", workspaceSize, executor, [&](Op& op) {
    const Tensor y = op.out("selfRef", selfRef, floats);
    op.need(from <= to, "from should not be above to.");  // "from > to 161002"
    require_random(op, static_cast<std::int64_t>(offset));
    op.run([=](Run& run) {
      std::vector<double> draws = numerics::uniform_draws(y.count(), seed, offset);
      for (double& draw : draws) draw = from + draw * (to - from);
      numerics::store(run.view(y), draws);
    });
  });
}

FAKE_OP(InplaceRandom, const aclTensor* selfRef, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  return plan("aclnnInplaceRandom", workspaceSize, executor, [&](Op& op) {
    const Tensor y = op.out("selfRef", selfRef, anything);
    op.need(from < to, "from should be below to.");
    require_random(op, offset);
    op.run([=](Run& run) {
      std::vector<double> draws =
          numerics::uniform_draws(y.count(), static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(offset));
      for (double& draw : draws) draw = std::floor(static_cast<double>(from) + draw * static_cast<double>(to - from));
      numerics::store(run.view(y), draws);
    });
  });
}

FAKE_OP(DropoutGenMask, const aclIntArray* shape, double prob, int64_t seed, int64_t offset, aclTensor* out) {
  return plan("aclnnDropoutGenMask", workspaceSize, executor,
              [&](Op& op) { mask(op, shape, prob, seed, offset, out); });
}
FAKE_OP(DropoutGenMaskV2, const aclIntArray* shape, double prob, int64_t seed, int64_t offset, aclDataType probDataType,
        aclTensor* out) {
  return plan("aclnnDropoutGenMaskV2", workspaceSize, executor, [&](Op& op) {
    op.need(probDataType == ACL_FLOAT || probDataType == ACL_FLOAT16 || probDataType == ACL_BF16,
            "probDataType should be a float.");
    mask(op, shape, prob, seed, offset, out);
  });
}

FAKE_OP(DropoutDoMask, const aclTensor* self, const aclTensor* mask_given, double prob, aclTensor* out) {
  return plan("aclnnDropoutDoMask", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, floats), bits = op.in("mask", mask_given, {ACL_UINT8}),
                 y = op.out("out", out, floats);
    op.need(prob >= 0 && prob <= 1, "prob should be 0 to 1.");
    op.need(bits.count() >= (x.count() + 127) / 128 * 16, "mask should have a bit an element, in steps of 128.");
    op.same_dtype(x, y);
    op.same_shape(x, y);
    op.run([=](Run& run) {
      const std::vector<std::int64_t> bytes = numerics::load_integers(run.view(bits));
      std::vector<double> values = numerics::load_doubles(run.view(x));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool kept = (bytes[i / 8] >> (i % 8) & 1) != 0;
        values[i] = kept && prob < 1 ? values[i] / (1 - prob) : 0;
      }
      numerics::store(run.view(y), values);
    });
  });
}
