// The scale and the soft cap of attention's scores beside the formula in fp64, over packed and over paged keys.
#include "nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "graph/program.h"
#include "nn/cache_spec.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

constexpr std::size_t kTokens = 5, kHidden = 6, kHeads = 2, kHeadDim = 4, kWidth = kHeads * kHeadDim;

std::vector<float> numbers(std::size_t count, double phase) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + phase));
  return out;
}

// x W^T: [rows, in] and [out, in] -> [rows, out].
std::vector<double> times(const std::vector<double>& x, const std::vector<float>& w, std::size_t in) {
  std::vector<double> y;
  for (std::size_t r = 0; r * in < x.size(); ++r) {
    for (std::size_t o = 0; o * in < w.size(); ++o) {
      double sum = 0.0;
      for (std::size_t c = 0; c < in; ++c) sum += x[r * in + c] * double{w[o * in + c]};
      y.push_back(sum);
    }
  }
  return y;
}

struct Scores {
  const char* name;
  double scale;
  float softcap;
};
void PrintTo(const Scores& scores, std::ostream* out) { *out << scores.name; }

class AttentionScores : public testing::TestWithParam<Scores> {
 protected:
  AttentionScores() {
    put("x", {kTokens, kHidden}, x_);
    put("a.q_proj.weight", {kWidth, kHidden}, q_);
    put("a.k_proj.weight", {kHeadDim, kHidden}, k_);
    put("a.v_proj.weight", {kHeadDim, kHidden}, v_);
    put("a.o_proj.weight", {kHidden, kWidth}, o_);
    nn::add_rope_table(*store_, nn::kDefaultRope, std::vector<double>{0.0, 0.0},
                       std::vector<double>(kTokens, 1.0));  // turns nothing
    for (const auto& cache : {nn::key_cache_name("", "a"), nn::value_cache_name("", "a")}) {
      store_->create(cache, make_desc(TERN_F32, {3, 4, 1, kHeadDim}));
      store_->fill_zero(cache);
    }
    store_->create(nn::token_cache_name(""), make_desc(TERN_I32, {3, 4, 1, 1}));
    store_->create(nn::block_tables_name(""), make_desc(TERN_I32, {2, 2, 1, 1}));
  }
  void put(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    store_->create(name, make_desc(TERN_F32, shape));
    store_->upload(name, std::as_bytes(std::span(values)));
  }

  [[nodiscard]] std::vector<double> formula() const {
    const double scale = GetParam().scale != 0 ? GetParam().scale : 0.5;  // 1 / sqrt(4)
    const double cap = GetParam().softcap;
    const std::vector<double> x(x_.begin(), x_.end());
    const std::vector<double> q = times(x, q_, kHidden), k = times(x, k_, kHidden), v = times(x, v_, kHidden);
    std::vector<double> out(kTokens * kWidth);
    for (std::size_t i = 0; i < kTokens; ++i) {
      for (std::size_t h = 0; h < kHeads; ++h) {
        double sum = 0.0;
        for (std::size_t j = 0; j <= i; ++j) {
          double s = 0.0;
          for (std::size_t d = 0; d < kHeadDim; ++d) s += q[i * kWidth + h * kHeadDim + d] * k[j * kHeadDim + d];
          s *= scale;
          const double p = std::exp(cap > 0 ? cap * std::tanh(s / cap) : s);
          sum += p;
          for (std::size_t d = 0; d < kHeadDim; ++d) out[i * kWidth + h * kHeadDim + d] += p * v[j * kHeadDim + d];
        }
        for (std::size_t d = 0; d < kHeadDim; ++d) out[i * kWidth + h * kHeadDim + d] /= sum;
      }
    }
    return times(out, o_, kWidth);
  }

  [[nodiscard]] std::vector<float> attend(bool paged) {
    graph::Graph graph;
    nn::Context context(graph, *store_, {});
    nn::TokenCapacity capacity;
    capacity.tokens = capacity.max_seqlen = kTokens;
    capacity.sequences = 1;
    if (paged) {
      capacity.paged = nn::PagedCapacity{};
      capacity.paged->max_kv_len = 8;
      capacity.paged->max_blocks = 2;
      capacity.paged->num_blocks = 3;
      capacity.paged->block_size = 4;
      capacity.paged->num_seats = 2;
    }
    const nn::TokenInputs inputs = nn::declare_tokens(graph, capacity);
    nn::AttentionConfig config;
    config.heads = kHeads;
    config.kv_heads = 1;
    config.head_dim = kHeadDim;
    config.scale = GetParam().scale;
    config.softcap = GetParam().softcap;
    graph.output("y", nn::attention(context, "a", config, inputs, context.weight("x")));

    nn::TokenColumns columns;
    columns.ids.assign(kTokens, 0);
    columns.positions.resize(kTokens);
    std::iota(columns.positions.begin(), columns.positions.end(), 0);
    columns.cu_seqlens.push_back(kTokens);
    if (paged) {
      columns.slots = {8, 9, 10, 11, 4};
      columns.seats = {1};
      columns.table_slots = {2, 3};
      columns.table_values = {2, 1};
      columns.kv_lens = {kTokens};
    }
    graph::RunInputs run;
    nn::give_tokens(run, columns);
    const auto program = graph::Program::build(graph, store_, choices_, {});
    program->run(run);
    std::vector<float> y(kTokens * kHidden);
    std::memcpy(y.data(), program->output("y").data(), y.size() * sizeof(float));
    return y;
  }

  std::vector<float> x_ = numbers(kTokens * kHidden, 0.3), q_ = numbers(kWidth * kHidden, 1.1),
                     k_ = numbers(kHeadDim * kHidden, 2.3), v_ = numbers(kHeadDim * kHidden, 3.7),
                     o_ = numbers(kHidden * kWidth, 4.9);
  std::shared_ptr<graph::TensorStore> store_ = std::make_shared<graph::TensorStore>(cpu_device());
  accel::ChoiceCache choices_;
};

TEST_P(AttentionScores, AreTheFormulas) {
  const std::vector<double> want = formula();
  for (const bool paged : {false, true}) {
    const std::vector<float> got = attend(paged);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i << (paged ? " paged" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, AttentionScores,
                         testing::Values(Scores{"Usual", 0.0, 0.0F}, Scores{"Scaled", 0.8, 0.0F},
                                         Scores{"Capped", 0.0, 0.7F}, Scores{"ScaledAndCapped", 0.8, 0.7F}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tern::models
