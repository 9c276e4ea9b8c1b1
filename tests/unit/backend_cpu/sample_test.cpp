// Drawing tokens on the plugin beside the fp64 oracle.
#include <cstring>

#include "plugin.h"

namespace tern::test {
namespace {

Call sample_call(std::int64_t rows, std::int64_t vocab, float temperature, int top_k, float top_p, float min_p) {
  const auto f = [&](float value) {
    Arg arg = blank(make_desc(TERN_F32, {rows}));
    for (std::int64_t r = 0; r < rows; ++r) std::memcpy(arg.bytes.data() + 4 * r, &value, 4);
    return arg;
  };
  const auto i = [&](std::int64_t value) {
    return integers(make_desc(TERN_I32, {rows}), std::vector<std::int64_t>(static_cast<std::size_t>(rows), value));
  };
  std::vector<std::int64_t> history, table;  // blocks of 4 tokens, two a row, from the last on
  Arg uniform = blank(make_desc(TERN_F32, {rows}));
  for (std::int64_t n = 0; n < (2 * rows + 1) * 4; ++n) history.push_back(n * 5 % vocab);
  for (std::int64_t n = 0; n < 2 * rows; ++n) table.push_back(2 * rows - n);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float number = static_cast<float>(r * 37 % 101) / 101.0F;
    std::memcpy(uniform.bytes.data() + 4 * r, &number, 4);
  }
  return {TERN_OP_SAMPLE,
          {random_real(make_desc(TERN_F32, {rows, vocab}), 1, 6.0),
           f(temperature),
           i(top_k),
           f(top_p),
           f(min_p),
           f(1.3F),
           f(0.4F),
           f(0.2F),
           integers(make_desc(TERN_I32, {2 * rows + 1, 4}), history),
           i(7),
           i(2),
           {},
           {},
           {},
           uniform,
           blank(make_desc(TERN_I32, {rows})),
           blank(make_desc(TERN_F32, {rows})),
           blank(make_desc(TERN_I32, {rows, std::min<std::int64_t>(vocab, 8)})),
           blank(make_desc(TERN_F32, {rows, std::min<std::int64_t>(vocab, 8)})),
           integers(make_desc(TERN_I32, {rows, 2}), table)},
          {},
          0,
          {}};
}

TEST(CpuOps, Sample) {
  for (const std::int64_t vocab : {1, 40, 5000}) {
    for (const float temperature : {0.0F, 0.7F, 5.0F}) {
      for (const int top_k : {0, 1, 20}) {
        for (const float top_p : {1.0F, 0.6F}) {
          for (const float min_p : {0.0F, 0.05F}) {
            Call call = sample_call(20, vocab, temperature, top_k, top_p, min_p);
            check(call, "vocab " + std::to_string(vocab) + " temperature " + std::to_string(temperature) + " top_k " +
                            std::to_string(top_k));
            std::vector<std::int64_t> biased;
            for (std::int64_t n = 0; n < 60; ++n) biased.push_back(n % 8 == 5 ? -1 : n * 11 % vocab);
            call.args[TERN_SAMPLE_BIAS_IDS] = integers(make_desc(TERN_I32, {20, 3}), biased);
            call.args[TERN_SAMPLE_BIAS] = random_real(make_desc(TERN_F32, {20, 3}), 8, 3.0);
            std::vector<std::int64_t> mask;
            for (std::int64_t n = 0; n < 20 * ((vocab + 31) / 32); ++n) mask.push_back(n % 7 == 6 ? 0 : 0xAAAAAAAA);
            call.args[TERN_SAMPLE_MASK] = integers(make_desc(TERN_U32, {20, (vocab + 31) / 32}), mask);
            check(call, "bias and mask");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tern::test
