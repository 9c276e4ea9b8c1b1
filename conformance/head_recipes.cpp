#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// rows, vocab, width; the last three as real models have them: vocabularies of 32k and 150k, and more rows than 256.
constexpr std::array<std::array<std::int64_t, 3>, 10> kLosses = {{{12, 96, 32},
                                                                  {7, 131, 33},
                                                                  {13, 517, 64},
                                                                  {1, 1, 1},
                                                                  {0, 16, 8},
                                                                  {3, 4099, 32},
                                                                  {67, 257, 160},
                                                                  {5, 32003, 32},
                                                                  {2, 151936, 16},
                                                                  {300, 131, 24}}};

void make_linear_cross_entropy(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, vocab, size] = kLosses[static_cast<std::size_t>(v.size)];
  // options: everything; loss alone; soft cap and bf16 products; a quantised head; one shard of a vocabulary
  const bool all = v.option != 1;
  const std::int64_t width = v.option == 3 ? (size + 31) / 32 * 32 : size;
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_linear_cross_entropy_attrs{v.option == 2 ? TERN_BF16 : v.in, v.option == 2 ? 4.0F : 0.0F});
  b.real(TERN_LINEAR_CROSS_ENTROPY_H, v.in, {capacity, width}, 0);
  if (v.option == 3) {
    b.quantised(TERN_LINEAR_CROSS_ENTROPY_W, TERN_PACK_GGUF_Q8_0, vocab, width);
  } else {
    // logits of a trained model's spread: an order or two, not `width`
    std::vector<double> w(static_cast<std::size_t>(vocab * width));
    for (double& x : w) x = 2.0 * b.random().term() / std::sqrt(static_cast<double>(width));
    b.values(TERN_LINEAR_CROSS_ENTROPY_W, v.in, {vocab, width}, w);
  }
  b.mark_packed(TERN_LINEAR_CROSS_ENTROPY_W);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows));
  std::vector<double> weights(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < targets.size(); ++r) {
    targets[r] = b.random().below(7) == 0 ? -1 : b.random().below(vocab);
    weights[r] = b.random().below(4) == 0 ? 0.0 : 0.25 + b.random().uniform();
  }
  b.integers(TERN_LINEAR_CROSS_ENTROPY_TARGETS, TERN_I32, {capacity}, targets, 0);
  b.values(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS, TERN_F32, {capacity}, weights, 0);
  if (v.option == 4) {
    std::vector<double> lse(weights.size());
    for (double& x : lse) x = std::log(2.0 * static_cast<double>(vocab)) + 3.0 * b.random().term();
    b.values(TERN_LINEAR_CROSS_ENTROPY_LSE, TERN_F32, {capacity}, lse, 0);
  }
  b.out(TERN_LINEAR_CROSS_ENTROPY_LOSS, TERN_F32, {1});
  if (!all) return;
  for (int arg :
       {TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET}) {
    b.out(arg, TERN_F32, {capacity}, 0);
  }
  b.out(TERN_LINEAR_CROSS_ENTROPY_DH, v.out, {capacity, width}, 0);
  if (v.option != 3) b.out(TERN_LINEAR_CROSS_ENTROPY_DW, TERN_F32, {vocab, width});
}

// Maxima far from each other and from 0: exp without the largest taken away is infinite. Some rows were left out.
void make_merge_lse(CaseBuilder& b) {
  constexpr std::array<std::array<std::int64_t, 2>, 7> kShards = {
      {{2, 16}, {3, 7}, {1, 5}, {17, 131}, {4, 0}, {5, 300}, {2, 70001}}};
  const auto [shards, capacity] = kShards[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(capacity);
  std::vector<double> row_max(static_cast<std::size_t>(shards * rows));
  std::vector<double> row_sum(row_max.size());
  const double spread = b.variant().option == 0 ? 4.0 : 200.0;
  for (std::size_t i = 0; i < row_max.size(); ++i) {
    const bool left_out = rows > 1 && static_cast<std::int64_t>(i) % rows == 1;
    row_max[i] = left_out ? 0.0 : spread * b.random().term();
    row_sum[i] = left_out ? 0.0 : 1.0 + 1000.0 * b.random().uniform();
  }
  b.values(TERN_MERGE_LSE_ROW_MAX, TERN_F32, {shards, capacity}, row_max, 1);
  b.values(TERN_MERGE_LSE_ROW_SUM, TERN_F32, {shards, capacity}, row_sum, 1);
  b.out(TERN_MERGE_LSE_LSE, TERN_F32, {capacity}, 0);
}

// rows, vocab, tokens of the longest history, tokens in a block of it (0: what the device prefers).
constexpr std::array<std::array<std::int64_t, 4>, 9> kSamples = {{{9, 128, 12, 0},
                                                                  {5, 1031, 70, 16},
                                                                  {13, 333, 40, 16},
                                                                  {31, 5, 300, 128},
                                                                  {0, 8, 4, 0},
                                                                  {3, 40009, 400, 128},
                                                                  {1, 1, 1, 1},
                                                                  {2, 151936, 260, 0},
                                                                  {300, 37, 35, 16}}};

std::vector<double> per_row(CaseBuilder& b, std::int64_t rows, double off, double low, double high) {
  std::vector<double> out(static_cast<std::size_t>(rows));
  for (double& x : out) x = b.random().below(3) == 0 ? off : low + (high - low) * b.random().uniform();
  return out;
}

// Tokens that may stand in the history, and so are likely, moved by as much as penalties do; entries that name none.
void make_bias(CaseBuilder& b, std::int64_t rows, std::int64_t capacity, std::int64_t vocab) {
  constexpr std::int64_t kBiases = 6;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(rows * kBiases));
  std::vector<double> bias(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = b.random().below(5) == 0 ? -1 : b.random().below(std::min<std::int64_t>(vocab, 25));
    bias[i] = 4.0 * b.random().uniform() - 2.0;
  }
  b.integers(TERN_SAMPLE_BIAS_IDS, TERN_I32, {capacity, kBiases}, ids, 0);
  b.values(TERN_SAMPLE_BIAS, TERN_F32, {capacity, kBiases}, bias, 0);
}

// Earlier tokens of some rows, in blocks out of order, of which neighbours share some.
class Histories {
 public:
  // Of `rows` of `capacity` rows; `longest` tokens at most.
  Histories(CaseBuilder& b, std::int64_t rows, std::int64_t capacity, std::int64_t vocab, std::int64_t longest,
            std::int64_t block_size)
      : block_size_(block_size), width_((longest + block_size - 1) / block_size + 1) {
    const std::int64_t num_blocks = capacity * width_ + 2;  // block 0, and one that nobody has
    std::vector<std::int64_t> order(static_cast<std::size_t>(num_blocks - 1));
    std::iota(order.begin(), order.end(), 1);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(b.random().below(static_cast<std::int64_t>(i)))]);
    }
    tokens_.resize(static_cast<std::size_t>(num_blocks * block_size));
    for (std::int64_t& token : tokens_) {
      token = b.random().below(std::min<std::int64_t>(vocab, 25)) - (b.random().below(9) == 0 ? 30 : 0);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      lens_.push_back(b.random().below(longest + 1));
      for (std::int64_t i = 0; i < width_; ++i) {
        const bool used = i * block_size < lens_.back();
        const bool shared = r > 0 && i == 0 && b.random().below(3) == 0;
        const std::int64_t own = order[static_cast<std::size_t>((shared ? r - 1 : r) * width_ + i)];
        table_.push_back(used ? own : b.random().below(num_blocks));
      }
    }
  }
  [[nodiscard]] std::int64_t length(std::int64_t row) const { return lens_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] std::int64_t token(std::int64_t row, std::int64_t t) const {
    const std::int64_t block = table_[static_cast<std::size_t>(row * width_ + t / block_size_)];
    return tokens_[static_cast<std::size_t>(block * block_size_ + t % block_size_)];
  }
  void give(CaseBuilder& b, std::int64_t capacity) const {
    const std::int64_t num_blocks = static_cast<std::int64_t>(tokens_.size()) / block_size_;
    b.integers(TERN_SAMPLE_HISTORY, TERN_I32, {num_blocks, block_size_}, tokens_);
    b.integers(TERN_SAMPLE_HISTORY_TABLE, TERN_I32, {capacity, width_}, table_, 0);
    b.integers(TERN_SAMPLE_HISTORY_LEN, TERN_I32, {capacity}, lens_, 0);
  }

 private:
  std::int64_t block_size_;
  std::int64_t width_;  // blocks that a row's table has room for
  std::vector<std::int64_t> tokens_;
  std::vector<std::int64_t> table_;
  std::vector<std::int64_t> lens_;
};

void make_sample(CaseBuilder& b) {
  const auto [capacity, vocab, longest, block] = kSamples[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(capacity);
  const int option = b.variant().option;
  auto row_reals = [&, n = capacity](int arg, const std::vector<double>& values) {
    b.values(arg, TERN_F32, {n}, values, 0);
  };
  auto row_integers = [&, n = capacity](int arg, const std::vector<std::int64_t>& values) {
    b.integers(arg, TERN_I32, {n}, values, 0);
  };
  // options: everything at random; greedy; plain temperature, without a history
  row_reals(TERN_SAMPLE_TEMPERATURE,
            per_row(b, rows, option == 2 ? 1.0 : 0.0, option == 1 ? 0.0 : 0.5, option == 1 ? 0.0 : 1.5));
  std::vector<std::int64_t> top_k(static_cast<std::size_t>(rows));
  for (std::int64_t& k : top_k) {  // few, so that one less shows, or many
    k = option == 2 || b.random().below(3) == 0 ? 0 : 1 + b.random().below(b.random().below(3) != 0 ? 4 : 50);
  }
  row_integers(TERN_SAMPLE_TOP_K, top_k);
  const bool filters = option == 0;
  row_reals(TERN_SAMPLE_TOP_P, per_row(b, rows, 1.0, filters ? 0.3 : 1.0, filters ? 0.99 : 1.0));
  row_reals(TERN_SAMPLE_MIN_P, per_row(b, rows, 0.0, 0.0, filters ? 0.2 : 0.0));
  const bool penalties = option != 2;
  if (penalties) {
    row_reals(TERN_SAMPLE_REPETITION, per_row(b, rows, 1.0, 1.05, 1.4));
    row_reals(TERN_SAMPLE_PRESENCE, per_row(b, rows, 0.0, 0.1, 0.9));
    row_reals(TERN_SAMPLE_FREQUENCY, per_row(b, rows, 0.0, 0.3, 1.5));
  }
  const Histories histories(b, rows, capacity, vocab, longest, block > 0 ? block : b.kv_block());
  if (penalties) histories.give(b, capacity);
  std::vector<double> logits(static_cast<std::size_t>(rows * vocab));
  for (double& x : logits) {
    x = b.random().below(50) == 0 ? -std::numeric_limits<double>::infinity()
                                  : 6.0 * b.random().uniform() * b.random().uniform();
  }
  for (std::int64_t r = 0; r < rows; ++r) logits[static_cast<std::size_t>(r * vocab)] = 1.0;  // one is finite
  // tokens of the history are likely, so that penalties decide
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < histories.length(r); ++i) {
      const std::int64_t token = histories.token(r, i);
      if (token >= 0 && token < vocab)
        logits[static_cast<std::size_t>(r * vocab + token)] = 8.0 + 0.6 * b.random().uniform();
    }
  }
  b.values(TERN_SAMPLE_LOGITS, TERN_F32, {capacity, vocab}, logits, 0);
  std::vector<std::int64_t> begins(static_cast<std::size_t>(rows));
  std::vector<double> uniform(begins.size());
  for (std::size_t r = 0; r < begins.size(); ++r) {
    begins[r] = b.random().below(histories.length(static_cast<std::int64_t>(r)) + 1);
    // 24 bits, as hosts draw them; 0 and the largest number below 1 among them
    const std::int64_t ends[2] = {0, (1 << 24) - 1};
    const std::int64_t bits = b.random().below(8) == 0 ? ends[b.random().below(2)] : b.random().below(1 << 24);
    uniform[r] = static_cast<double>(bits) * 0x1p-24;
  }
  if (penalties) row_integers(TERN_SAMPLE_OUTPUT_BEGIN, begins);
  row_reals(TERN_SAMPLE_UNIFORM, uniform);
  if (option != 2) {
    make_bias(b, rows, capacity, vocab);
    const std::int64_t words = (vocab + 31) / 32;
    std::vector<std::int64_t> mask(static_cast<std::size_t>(rows * words));
    for (std::int64_t& word : mask) word = static_cast<std::int64_t>(b.random().bits() & 0xffffffffU);
    if (!mask.empty()) mask[0] = 0;  // a row, or a stretch of one, with nothing allowed
    b.integers(TERN_SAMPLE_MASK, TERN_U32, {capacity, words}, mask, 0);
  }
  b.out(TERN_SAMPLE_IDS, TERN_I32, {capacity}, 0);
  b.out(TERN_SAMPLE_LOGPROB, TERN_F32, {capacity}, 0);
  if (option == 2) return;
  const std::int64_t tops = std::min<std::int64_t>(vocab, option == 0 ? 5 : 20);
  b.out(TERN_SAMPLE_TOP_IDS, TERN_I32, {capacity, tops}, 0);
  b.out(TERN_SAMPLE_TOP_LOGPROBS, TERN_F32, {capacity, tops}, 0);
}

constexpr Recipe kRecipes[] = {
    {TERN_OP_LINEAR_CROSS_ENTROPY, kLosses.size(), 5,
     kDtypes | kMixed | kLayouts | kAccumulates | kDynamic | kSpecials | kPacks | kReduces | kRows,
     make_linear_cross_entropy},
    {TERN_OP_MERGE_LSE, 7, 2, kLayouts | kDynamic | kRows, make_merge_lse},
    {TERN_OP_SAMPLE, kSamples.size(), 3, kDynamic | kRows, make_sample},
};

}  // namespace

std::span<const Recipe> head_recipes() { return kRecipes; }

}  // namespace tern::conformance
