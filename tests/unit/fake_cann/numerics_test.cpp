// The numbers of the fake's ops against their definitions: by plain loops, or by differences for gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/fakes/cann/opapi/numerics_attention.h"
#include "tests/fakes/cann/opapi/numerics_matmul.h"
#include "tests/fakes/cann/opapi/numerics_misc.h"
#include "tests/fakes/cann/opapi/numerics_moe.h"
#include "tests/fakes/cann/opapi/numerics_norm.h"
#include "tests/fakes/cann/opapi/numerics_reduce.h"

namespace fake::numerics {
namespace {

using Floats = std::vector<float>;

Floats noise(std::int64_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// d(sum of weights * function(x)) / dx by central differences.
Floats slope(Floats x, const Floats& weights, const std::function<Floats(const Floats&)>& function) {
  constexpr float step = 1e-2F;
  const auto total = [&](const Floats& values) {
    double sum = 0;
    const Floats result = function(values);
    for (std::size_t i = 0; i < result.size(); ++i)
      sum += static_cast<double>(weights[i]) * static_cast<double>(result[i]);
    return sum;
  };
  Floats gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float kept = x[i];
    x[i] = kept + step;
    const double above = total(x);
    x[i] = kept - step;
    gradient[i] = static_cast<float>((above - total(x)) / (2 * static_cast<double>(step)));
    x[i] = kept;
  }
  return gradient;
}

void expect_near(const Floats& got, const Floats& wanted, float tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << "at " << i;
}

TEST(FakeNumerics, HalvesAndBrainsSurviveARoundTrip) {
  for (const Element element : {Element::kFloat16, Element::kBfloat16}) {
    std::vector<std::uint16_t> bits(65536);
    std::vector<std::uint16_t> back(65536);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    const View from{bits.data(), 0, element, {65536}, {1}};
    const View to{back.data(), 0, element, {65536}, {1}};
    const Floats values = load(from);
    store(to, std::span<const float>(values));
    for (std::size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(values[i])) continue;
      EXPECT_EQ(bits[i], back[i]);
    }
  }
}

TEST(FakeNumerics, ADoubleIsRoundedToAHalfOnce) {
  // Just above the middle of 1 and its neighbour: by way of a float it would be the middle itself, and go to even.
  const std::vector<double> value = {1 + 0x1p-11 + 0x1p-40};
  std::uint16_t bits = 0;
  store(View{&bits, 0, Element::kFloat16, {1}, {1}}, std::span<const double>(value));
  EXPECT_EQ(bits, 0x3c01);
}

TEST(FakeNumerics, FloatsGoToIntegersTowardsZeroSaturatingAndNanToZero) {
  const std::vector<double> values = {-1.9, 1.9, 300, -300, std::nan("")};
  std::vector<std::int8_t> bytes(5);
  store(View{bytes.data(), 0, Element::kInt8, {5}, {1}}, std::span<const double>(values));
  EXPECT_EQ(bytes, (std::vector<std::int8_t>{-1, 1, 127, -128, 0}));
}

TEST(FakeNumerics, Int4LiesLowNibbleFirstInAnyStride) {
  std::vector<std::uint8_t> bytes = {0x21, 0xf8};
  const View view{bytes.data(), 0, Element::kInt4, {2, 2}, {2, 1}};
  EXPECT_EQ(load(view), (Floats{1, 2, -8, -1}));
  EXPECT_EQ(load(transpose(view, 0, 1)), (Floats{1, -8, 2, -1}));
}

TEST(FakeNumerics, AProductIsTheSumOfProductsWhateverTheStrides) {
  const std::int64_t m = 5;
  const std::int64_t k = 700;
  const std::int64_t n = 37;
  Floats a = noise(m * k, 1);
  Floats b = noise(k * n, 2);
  Floats wanted(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += static_cast<double>(a[static_cast<std::size_t>(i * k + l)]) *
               static_cast<double>(b[static_cast<std::size_t>(l * n + j)]);
      }
      wanted[static_cast<std::size_t>(i * n + j)] = static_cast<float>(sum);
    }
  }
  Floats turned(b.size());
  copy(transpose(view_of(turned, {n, k}), 0, 1), view_of(b, {k, n}));
  Floats got(wanted.size());
  multiply(view_of(a, {m, k}), view_of(b, {k, n}), got.data());
  expect_near(got, wanted, 1e-3F);
  multiply(view_of(a, {m, k}), transpose(view_of(turned, {n, k}), 0, 1), got.data());
  expect_near(got, wanted, 1e-3F);
}

TEST(FakeNumerics, FactorsAreRoundedAsTheCubeDoes) {
  Floats a = {1 + 0x1p-11F, 1 + 0x1p-12F, 100000};
  Floats one = {1};
  Floats got(3);
  const auto product = [&](Rounding rounding) {
    Product how;
    how.rounding = rounding;
    matmul(view_of(a, {3, 1}), view_of(one, {1, 1}), view_of(got, {3, 1}), how);
    return got;
  };
  EXPECT_EQ(product(Rounding::kNone), a);
  EXPECT_EQ(product(Rounding::kHf32), (Floats{1 + 0x1p-11F, 1, 100000}));
  EXPECT_EQ(product(Rounding::kFloat16), (Floats{1, 1, INFINITY}));
}

TEST(FakeNumerics, ABatchedProductBroadcasts) {
  Floats a = noise(2 * 3 * 4 * 5, 3);
  Floats b = noise(2 * 5 * 6, 4);
  Floats got(2 * 3 * 4 * 6);
  matmul(view_of(a, {2, 3, 4, 5}), view_of(b, {2, 1, 5, 6}), view_of(got, {2, 3, 4, 6}));
  Floats one(4 * 6);
  multiply(select(select(view_of(a, {2, 3, 4, 5}), 0, 1), 0, 2), select(select(view_of(b, {2, 1, 5, 6}), 0, 1), 0, 0),
           one.data());
  expect_near(Floats(got.end() - 24, got.end()), one, 1e-6F);
}

struct Attention {
  std::int64_t rows = 5, keys = 7, width = 4;
  Floats q = noise(5 * 4, 5), k = noise(7 * 4, 6), v = noise(7 * 4, 7);
  std::int64_t mode = 3;

  [[nodiscard]] HeadForward forward() {
    HeadForward in;
    in.q = view_of(q, {rows, width});
    in.k = view_of(k, {keys, width});
    in.v = view_of(v, {keys, width});
    in.scale = 0.5F;
    in.visibility.sparse_mode = mode;
    in.visibility.before = 2;
    in.visibility.after = 0;
    return in;
  }
};

TEST(FakeNumerics, ModesOfAttentionSeeWhatCannSays) {
  Floats mask(1);
  const View any = view_of(mask, {1, 1});
  const auto range = [&](std::int64_t mode, std::int64_t row) {
    Visibility visibility;
    visibility.sparse_mode = mode;
    visibility.before = 2;
    visibility.after = 1;
    visibility.mask = &any;
    const auto [first, last] = visibility.range(row, 5, 7);
    return std::pair(first, last);
  };
  EXPECT_EQ(range(0, 3), std::pair(std::int64_t{1}, std::int64_t{5}));  // counted from the top left
  EXPECT_EQ(range(1, 3), std::pair(std::int64_t{0}, std::int64_t{7}));
  EXPECT_EQ(range(2, 3), std::pair(std::int64_t{0}, std::int64_t{4}));
  EXPECT_EQ(range(3, 3), std::pair(std::int64_t{0}, std::int64_t{6}));
  EXPECT_EQ(range(4, 3), std::pair(std::int64_t{3}, std::int64_t{7}));  // counted from the bottom right
}

TEST(FakeNumerics, AttentionIsSoftmaxOfScoresTimesValues) {
  Attention attention;
  const HeadForward in = attention.forward();
  Floats out(20);
  Floats maximum(5);
  Floats sum(5);
  attend(in, view_of(out, {5, 4}), maximum.data(), sum.data());
  for (std::size_t row = 0; row < 5; ++row) {
    std::vector<double> weights;
    double total = 0;
    for (std::size_t key = 0; key <= row + 2; ++key) {
      double score = 0;
      for (std::size_t i = 0; i < 4; ++i)
        score += 0.5 * static_cast<double>(attention.q[row * 4 + i]) * static_cast<double>(attention.k[key * 4 + i]);
      weights.push_back(std::exp(score));
      total += weights.back();
    }
    for (std::size_t i = 0; i < 4; ++i) {
      double value = 0;
      for (std::size_t key = 0; key < weights.size(); ++key)
        value += weights[key] / total * static_cast<double>(attention.v[key * 4 + i]);
      EXPECT_NEAR(out[row * 4 + i], value, 1e-5);
    }
    EXPECT_NEAR(static_cast<double>(maximum[row]) + std::log(static_cast<double>(sum[row])), std::log(total), 1e-5);
  }
}

TEST(FakeNumerics, ARowThatSeesNothingIsNanUnlessItIsCorrected) {
  Attention attention;
  attention.rows = 5;
  attention.keys = 2;
  HeadForward in = attention.forward();
  Floats out(20);
  Floats maximum(5);
  Floats sum(5);
  attend(in, view_of(out, {5, 4}), maximum.data(), sum.data());
  EXPECT_TRUE(std::isnan(out[0]));
  in.blind_rows_are_zero = true;
  attend(in, view_of(out, {5, 4}), maximum.data(), sum.data());
  EXPECT_EQ(out[0], 0);
}

TEST(FakeNumerics, GradientsOfAttentionAreSlopes) {
  for (const std::int64_t mode : {0, 3, 4}) {
    Attention attention;
    attention.mode = mode;
    const Floats weights = noise(20, 8);
    Floats out(20);
    HeadBackward in;
    in.maximum.resize(5);
    in.sum.resize(5);
    const auto run = [&] {
      attend(attention.forward(), view_of(out, {5, 4}), in.maximum.data(), in.sum.data());
      return out;
    };
    run();
    Floats dy = weights;
    Floats kept = out;
    in.forward = attention.forward();
    in.dy = view_of(dy, {5, 4});
    in.out = view_of(kept, {5, 4});
    Floats dq(20);
    Floats dk(28);
    Floats dv(28);
    attend_backward(in, view_of(dq, {5, 4}), dk.data(), dv.data());
    const auto by = [&](Floats Attention::*part) {
      return slope(attention.*part, weights, [&](const Floats& x) {
        Floats old = attention.*part;
        attention.*part = x;
        run();
        attention.*part = old;
        return out;
      });
    };
    expect_near(dq, by(&Attention::q), 2e-3F);
    expect_near(dk, by(&Attention::k), 2e-3F);
    expect_near(dv, by(&Attention::v), 2e-3F);
  }
}

TEST(FakeNumerics, GradientsOfNormsAreSlopes) {
  const Floats weights = noise(3 * 6, 9);
  Floats x = noise(3 * 6, 10);
  Floats gamma = noise(6, 11);
  Floats y(18);
  Floats mean(3);
  Floats rstd(3);
  Floats dy = weights;
  Floats dx(18);
  Floats dgamma(6);
  Floats dbias(6);
  const auto rms = [&](Floats a, Floats b) {
    const View inverse = view_of(rstd, {3});
    rms_norm(view_of(a, {3, 6}), view_of(b, {6}), 1e-3, false, view_of(y, {3, 6}), &inverse);
    return y;
  };
  rms(x, gamma);
  rms_norm_gradient({view_of(dy, {3, 6}), view_of(x, {3, 6}), view_of(rstd, {3}), view_of(gamma, {6})},
                    view_of(dx, {3, 6}), view_of(dgamma, {6}));
  expect_near(dx, slope(x, weights, [&](const Floats& a) { return rms(a, gamma); }), 5e-3F);
  expect_near(dgamma, slope(gamma, weights, [&](const Floats& b) { return rms(x, b); }), 5e-3F);
  const auto layer = [&](Floats a, Floats b) {
    const View center = view_of(mean, {3});
    const View inverse = view_of(rstd, {3});
    const View factor = view_of(b, {6});
    layer_norm(view_of(a, {3, 6}), &factor, nullptr, 1e-3, view_of(y, {3, 6}), &center, &inverse);
    return y;
  };
  layer(x, gamma);
  LayerNormGradient in{view_of(dy, {3, 6}), view_of(x, {3, 6}), view_of(mean, {3}), view_of(rstd, {3})};
  const View factor = view_of(gamma, {6});
  in.weight = &factor;
  const View to_x = view_of(dx, {3, 6});
  const View to_weight = view_of(dgamma, {6});
  const View to_bias = view_of(dbias, {6});
  layer_norm_gradient(in, &to_x, &to_weight, &to_bias);
  expect_near(dx, slope(x, weights, [&](const Floats& a) { return layer(a, gamma); }), 5e-3F);
  expect_near(dgamma, slope(gamma, weights, [&](const Floats& b) { return layer(x, b); }), 5e-3F);
}

TEST(FakeNumerics, TurningBackIsTheGradientOfTurning) {
  for (const bool interleaved : {false, true}) {
    const Floats weights = noise(2 * 8, 12);
    Floats x = noise(2 * 8, 13);
    Floats cos = noise(8, 14);
    Floats sin = noise(8, 15);
    Floats y(16);
    Floats dy = weights;
    Floats dx(16);
    const auto run = [&](Floats a) {
      rotate(view_of(a, {2, 8}), view_of(cos, {1, 8}), view_of(sin, {1, 8}), interleaved, view_of(y, {2, 8}));
      return y;
    };
    rotate_gradient(view_of(dy, {2, 8}), view_of(cos, {1, 8}), view_of(sin, {1, 8}), interleaved, view_of(dx, {2, 8}));
    expect_near(dx, slope(x, weights, run), 1e-3F);
  }
}

TEST(FakeNumerics, TokensComeBackFromTheirExpertsWeighted) {
  const std::vector<std::int64_t> experts = {2, 0, 1, 2};  // two tokens, two choices each
  const Routing routing = route(experts, 3);
  EXPECT_EQ(routing.sources, (std::vector<std::int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(routing.places, (std::vector<std::int64_t>{2, 0, 1, 3}));
  EXPECT_EQ(routing.counts, (std::vector<std::int64_t>{1, 1, 2}));
  Floats tokens = {1, 2, 10, 20};
  Floats permuted(8);
  permute_tokens(view_of(tokens, {2, 2}), routing, 2, view_of(permuted, {4, 2}));
  EXPECT_EQ(permuted, (Floats{1, 2, 10, 20, 1, 2, 10, 20}));
  Floats scales = {0.25F, 0.5F, 2, 1};
  const View factor = view_of(scales, {2, 2});
  Gathering gathering;
  gathering.places = routing.places;
  gathering.k = 2;
  gathering.scales = &factor;
  Floats out(4);
  combine_tokens(view_of(permuted, {4, 2}), gathering, view_of(out, {2, 2}));
  EXPECT_EQ(out, (Floats{0.75F, 1.5F, 30, 60}));
}

TEST(FakeNumerics, OrderIsStableAndNanIsLargest) {
  Floats x = {1, NAN, 3, 1, 3};
  Floats values(5);
  std::vector<std::int64_t> places(5);
  const View to = view_of(values, {5});
  top(view_of(x, {5}), 5, -1, true, &to, View{places.data(), 0, Element::kInt64, {5}, {1}});
  EXPECT_EQ(places, (std::vector<std::int64_t>{1, 2, 4, 0, 3}));
  top(view_of(x, {5}), 5, -1, false, &to, View{places.data(), 0, Element::kInt64, {5}, {1}});
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 3, 2, 4, 1}));
}

TEST(FakeNumerics, RowsAreTakenPutAndAdded) {
  Floats x = {1, 2, 3, 4, 5, 6};
  Floats out(4);
  take(view_of(x, {3, 2}), 0, {2, 0}, view_of(out, {2, 2}));
  EXPECT_EQ(out, (Floats{5, 6, 1, 2}));
  put(view_of(x, {3, 2}), 0, {1, 1}, view_of(out, {2, 2}), true);
  EXPECT_EQ(x, (Floats{1, 2, 9, 12, 5, 6}));
  put(view_of(x, {3, 2}), 1, {0}, narrow(view_of(out, {4, 1}), 0, 0, 3), false);
  EXPECT_EQ(x, (Floats{5, 2, 6, 12, 1, 6}));
}

TEST(FakeNumerics, ConvolutionAndItsGradients) {
  const Convolution shape{{1, 1}, {0, 2}, {1, 1}, 3};
  Floats x = noise(2 * 3 * 5, 16);
  Floats weight = noise(3 * 3, 17);
  Floats out(2 * 3 * 7);
  const auto run = [&](Floats a, Floats b) {
    convolve(view_of(a, {2, 3, 1, 5}), view_of(b, {3, 1, 1, 3}), nullptr, shape, view_of(out, {2, 3, 1, 7}));
    return out;
  };
  run(x, weight);
  EXPECT_NEAR(out[0], x[0] * weight[2], 1e-6);
  Floats dy = noise(2 * 3 * 7, 18);
  const Floats weights = dy;
  Floats dx(x.size());
  Floats dweight(weight.size());
  const View to_x = view_of(dx, {2, 3, 1, 5});
  const View to_weight = view_of(dweight, {3, 1, 1, 3});
  convolve_gradient(view_of(dy, {2, 3, 1, 7}), view_of(x, {2, 3, 1, 5}), view_of(weight, {3, 1, 1, 3}), shape, &to_x,
                    &to_weight, nullptr);
  expect_near(dx, slope(x, weights, [&](const Floats& a) { return run(a, weight); }), 2e-3F);
  expect_near(dweight, slope(weight, weights, [&](const Floats& b) { return run(x, b); }), 2e-3F);
}

}  // namespace
}  // namespace fake::numerics
