// Tokens from logits. Ranks are found lazily, from a heap over the likely tokens first: a draw seldom needs more.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/check.h"
#include "backends/cpu/kept_memory.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& logits = desc.arg(TERN_SAMPLE_LOGITS);
  Check check(desc, reason);
  check.rank(TERN_SAMPLE_LOGITS, 2).rank(TERN_SAMPLE_HISTORY, 2).rank(TERN_SAMPLE_HISTORY_TABLE, 2);
  check.rank(TERN_SAMPLE_MASK, 2);
  check.same_shape({TERN_SAMPLE_BIAS_IDS, TERN_SAMPLE_BIAS})
      .same_shape({TERN_SAMPLE_TOP_IDS, TERN_SAMPLE_TOP_LOGPROBS});
  check.rank(TERN_SAMPLE_BIAS, 2).rank(TERN_SAMPLE_TOP_IDS, 2).dtype(TERN_SAMPLE_MASK, TERN_U32);
  for (const int arg : {TERN_SAMPLE_LOGITS, TERN_SAMPLE_TEMPERATURE, TERN_SAMPLE_TOP_P, TERN_SAMPLE_MIN_P,
                        TERN_SAMPLE_REPETITION, TERN_SAMPLE_PRESENCE, TERN_SAMPLE_FREQUENCY, TERN_SAMPLE_BIAS,
                        TERN_SAMPLE_UNIFORM, TERN_SAMPLE_LOGPROB, TERN_SAMPLE_TOP_LOGPROBS}) {
    check.dtype(arg, TERN_F32);
  }
  for (const int arg : {TERN_SAMPLE_TOP_K, TERN_SAMPLE_HISTORY, TERN_SAMPLE_HISTORY_LEN, TERN_SAMPLE_OUTPUT_BEGIN,
                        TERN_SAMPLE_HISTORY_TABLE, TERN_SAMPLE_BIAS_IDS, TERN_SAMPLE_IDS, TERN_SAMPLE_TOP_IDS}) {
    check.dtype(arg, TERN_I32);
  }
  for (int arg = 1; arg < TERN_SAMPLE_NUM_ARGS; ++arg) {
    if (arg != TERN_SAMPLE_HISTORY) check.dim(arg, 0, logits.shape[0]);
  }
  check.dim(TERN_SAMPLE_MASK, 1, (logits.shape[1] + 31) / 32);
  return check.ok();
}

// The row's logits as they are changed, and scaled, for each thread.
std::uint64_t workspace(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_SAMPLE_LOGITS).shape[1], std::int64_t{2} * desc.num_threads);
}

struct Row {
  const KernelArgs& args;
  std::int64_t r;
  template <typename T>
  [[nodiscard]] T value(int arg) const {
    return args[arg].data<const T>()[r * args[arg].stride(0)];
  }
};

void penalise(const Row& row, float* z, std::int64_t vocab) {
  if (!row.args[TERN_SAMPLE_HISTORY].present()) return;
  const auto repetition = row.value<float>(TERN_SAMPLE_REPETITION);
  const auto presence = row.value<float>(TERN_SAMPLE_PRESENCE);
  const auto frequency = row.value<float>(TERN_SAMPLE_FREQUENCY);
  if (repetition == 1.0F && presence == 0.0F && frequency == 0.0F) return;
  const TensorView &history = row.args[TERN_SAMPLE_HISTORY], &table = row.args[TERN_SAMPLE_HISTORY_TABLE];
  const std::int64_t block_size = history.dim(1);
  const std::int64_t length =
      std::min<std::int64_t>(row.value<std::int32_t>(TERN_SAMPLE_HISTORY_LEN), table.dim(1) * block_size);
  const std::int64_t begin = row.value<std::int32_t>(TERN_SAMPLE_OUTPUT_BEGIN);
  Kept<std::int64_t> tokens;  // twice their id, and one more where they were generated
  tokens.reserve(static_cast<std::size_t>(table.dim(1) * block_size));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t entry = row.r * table.stride(0) + i / block_size * table.stride(1);
    const std::int64_t block = table.data<const std::int32_t>()[entry];
    require_index(block, history.dim(0), "sample: history_table");
    const std::int64_t at = block * history.stride(0) + i % block_size * history.stride(1);
    const auto token = history.data<const std::int32_t>()[at];
    if (token >= 0 && token < vocab) tokens.push_back(2 * std::int64_t{token} + (i >= begin ? 1 : 0));
  }
  std::sort(tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < tokens.size();) {
    const std::int64_t token = tokens[i] / 2;
    std::int64_t count = 0;  // 0: in the prompt alone
    for (; i < tokens.size() && tokens[i] / 2 == token; ++i) count += tokens[i] % 2;
    float& value = z[token];
    value = value > 0.0F ? value / repetition : value * repetition;
    value -= frequency * static_cast<float>(count) + (count > 0 ? presence : 0.0F);
  }
}

void bias_and_mask(const Row& row, float* z, std::int64_t vocab) {
  const TensorView &bias = row.args[TERN_SAMPLE_BIAS], &ids = row.args[TERN_SAMPLE_BIAS_IDS],
                   &mask = row.args[TERN_SAMPLE_MASK];
  for (std::int64_t i = 0; bias.present() && i < bias.dim(1); ++i) {
    const auto token = ids.data<const std::int32_t>()[row.r * ids.stride(0) + i * ids.stride(1)];
    if (token < 0 || token >= vocab) continue;
    z[token] += bias.data<const float>()[row.r * bias.stride(0) + i * bias.stride(1)];
  }
  for (std::int64_t j = 0; mask.present() && j < vocab; ++j) {
    const auto word = mask.data<const std::uint32_t>()[row.r * mask.stride(0) + j / 32 * mask.stride(1)];
    if ((word >> (j % 32) & 1U) == 0) z[j] = kNever;
  }
}

// Tokens in order of falling value, ties by rising id, found as they are asked for.
class Ranking {
  [[nodiscard]] auto later() const {
    return [this](std::int32_t a, std::int32_t b) {
      return scaled_[a] < scaled_[b] || (scaled_[a] == scaled_[b] && a > b);
    };
  }

 public:
  // `scaled` holds (z - max) / temperature.
  Ranking(const float* scaled, std::int64_t vocab) : scaled_(scaled), vocab_(vocab) {
    heap_.reserve(static_cast<std::size_t>(vocab));
    ranked_.reserve(static_cast<std::size_t>(vocab));
    take(kLikely, 1.0F);
  }

  // The token of this rank, -1 past the last that is possible at all.
  std::int32_t at(std::size_t rank) {
    while (rank >= ranked_.size()) {
      if (heap_.empty() && !complete_) {
        complete_ = true;
        take(kNever, kLikely);
      }
      if (heap_.empty()) return -1;
      std::pop_heap(heap_.begin(), heap_.end(), later());
      ranked_.push_back(heap_.back());
      heap_.pop_back();
    }
    return ranked_[rank];
  }

 private:
  static constexpr float kLikely = -12.0F;  // e^-12 of the best one's probability

  // Those with low < value <= high.
  void take(float low, float high) {
    for (std::int64_t j = 0; j < vocab_; ++j) {
      if (scaled_[j] > low && scaled_[j] <= high) heap_.push_back(static_cast<std::int32_t>(j));
    }
    std::make_heap(heap_.begin(), heap_.end(), later());
  }

  const float* scaled_;
  std::int64_t vocab_;
  bool complete_ = false;
  Kept<std::int32_t> heap_;
  Kept<std::int32_t> ranked_;
};

double sum_exp(const TileMath& math, const float* x, float shift, std::int64_t n) {
  double total = 0.0;
  for (std::int64_t first = 0; first < n; first += kTile) {
    total += static_cast<double>(math.sum_exp(x + first, shift, static_cast<std::size_t>(std::min(kTile, n - first))));
  }
  return total;
}

// Draws from what is kept of a row: `scaled` holds (z - max) / temperature, so a token's weight is its exponential.
class Draw {
 public:
  Draw(const Row& row, const float* scaled, std::int64_t vocab)
      : scaled_(scaled),
        vocab_(vocab),
        math_(tile_math(row.args.target)),
        top_k_(row.value<std::int32_t>(TERN_SAMPLE_TOP_K)),
        top_p_(row.value<float>(TERN_SAMPLE_TOP_P)),
        min_p_(std::min(1.0F, row.value<float>(TERN_SAMPLE_MIN_P))),
        uniform_(row.value<float>(TERN_SAMPLE_UNIFORM)) {
    if (top_k_ <= 0 || top_k_ >= vocab) top_k_ = static_cast<std::int32_t>(vocab);
  }

  [[nodiscard]] std::int32_t id() const {
    if (top_k_ < vocab_ || top_p_ < 1.0F) return among(ranked());
    return min_p_ > 0.0F ? among(likely()) : among_all();
  }

 private:
  [[nodiscard]] double weight(std::int32_t token) const { return std::exp(static_cast<double>(scaled_[token])); }
  // Min-p's border: the largest weight is 1.
  [[nodiscard]] bool is_likely(std::int32_t token) const { return min_p_ <= 0.0F || weight(token) >= min_p_; }

  // What min-p leaves, by rising id.
  [[nodiscard]] Kept<std::int32_t> likely() const {
    const float least = std::log(min_p_) - 1e-3F;  // below it no exponential is needed
    Kept<std::int32_t> ids;
    ids.reserve(static_cast<std::size_t>(vocab_));
    for (std::int32_t j = 0; j < vocab_; ++j) {
      if (scaled_[j] >= least && is_likely(j)) ids.push_back(j);
    }
    return ids;
  }

  // What min-p, top-k and top-p leave, by rising id.
  [[nodiscard]] Kept<std::int32_t> ranked() const {
    Ranking ranking(scaled_, vocab_);
    const auto most = static_cast<std::size_t>(top_k_);
    const auto is_left = [&](std::size_t rank) {
      return rank < most && ranking.at(rank) >= 0 && (rank == 0 || is_likely(ranking.at(rank)));
    };
    double mass = 0.0;
    if (top_k_ < vocab_) {
      for (std::size_t i = 0; is_left(i); ++i) mass += weight(ranking.at(i));
    } else if (min_p_ > 0.0F) {
      for (const std::int32_t token : likely()) mass += weight(token);
    } else {
      mass = sum_exp(math_, scaled_, 0.0F, vocab_);
    }
    const double border = top_p_ < 1.0F ? static_cast<double>(top_p_) * mass : std::numeric_limits<double>::infinity();
    Kept<std::int32_t> ids;
    ids.reserve(static_cast<std::size_t>(vocab_));
    double before = 0.0;
    for (std::size_t i = 0; is_left(i) && (i == 0 || before < border); ++i) {
      ids.push_back(ranking.at(i));
      before += weight(ids.back());
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  [[nodiscard]] std::int32_t among(const Kept<std::int32_t>& ids) const {
    if (ids.empty()) return -1;  // no logit is a number
    double mass = 0.0;
    for (const std::int32_t token : ids) mass += weight(token);
    const double point = static_cast<double>(uniform_) * mass;
    double before = 0.0;
    for (const std::int32_t token : ids) {
      before += weight(token);
      if (before > point) return token;
    }
    return ids.back();
  }

  // Tiles first: only the one in which the point lies is gone through token by token.
  [[nodiscard]] std::int32_t among_all() const {
    const double point = static_cast<double>(uniform_) * sum_exp(math_, scaled_, 0.0F, vocab_);
    double before = 0.0;
    std::int32_t last = 0;  // of those that are possible at all
    for (std::int64_t first = 0; first < vocab_; first += kTile) {
      const std::int64_t end = std::min(first + kTile, vocab_);
      const auto tile =
          static_cast<double>(math_.sum_exp(scaled_ + first, 0.0F, static_cast<std::size_t>(end - first)));
      if (tile <= 0.0) continue;
      const bool is_here = before + tile > point;
      double sum = before;
      for (auto j = static_cast<std::int32_t>(first); j < end; ++j) {
        if (scaled_[j] == kNever) continue;
        last = j;
        if (is_here && (sum += weight(j)) > point) return j;
      }
      if (is_here) return last;
      before += tile;
    }
    return last;
  }

  const float* scaled_;
  std::int64_t vocab_;
  const TileMath& math_;
  std::int32_t top_k_;
  float top_p_;
  float min_p_;
  float uniform_;
};

// The id drawn from z, which holds no token above `best`; `scaled` is scratch.
std::int32_t draw(const Row& row, const float* z, float best, std::int64_t vocab, float* scaled) {
  const float temperature = row.value<float>(TERN_SAMPLE_TEMPERATURE);
  for (std::int64_t j = 0; j < vocab; ++j) scaled[j] = (z[j] - best) / temperature;
  return Draw(row, scaled, vocab).id();
}

// The likeliest tokens by rising id among equals, and their log-probabilities.
void tell_tops(const Row& row, const float* raw, std::int64_t vocab, float largest, double log_sum) {
  const TensorView &ids = row.args[TERN_SAMPLE_TOP_IDS], &logprobs = row.args[TERN_SAMPLE_TOP_LOGPROBS];
  if (!ids.present()) return;
  const auto tops = static_cast<std::size_t>(ids.dim(1));
  Kept<std::int32_t> best;  // so far, the likeliest first
  best.reserve(tops);
  for (std::int32_t j = 0; j < vocab && tops > 0; ++j) {
    if (best.size() == tops && !(raw[j] > raw[best.back()])) continue;
    if (best.size() == tops) best.pop_back();
    const auto before = [raw](std::int32_t a, std::int32_t b) { return raw[a] > raw[b]; };
    best.insert(std::upper_bound(best.begin(), best.end(), j, before), j);
  }
  for (std::size_t i = 0; i < tops; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const float logit = raw[best[i]];
    ids.data<std::int32_t>()[row.r * ids.stride(0) + at * ids.stride(1)] = best[i];
    logprobs.data<float>()[row.r * logprobs.stride(0) + at * logprobs.stride(1)] =
        logit == kNever ? kNever : static_cast<float>(static_cast<double>(logit - largest) - log_sum);
  }
}

void run(const KernelArgs& args) {
  const TensorView &logits = args[TERN_SAMPLE_LOGITS], &ids = args[TERN_SAMPLE_IDS],
                   &logprob = args[TERN_SAMPLE_LOGPROB];
  const std::int64_t vocab = logits.dim(1);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  args.pool->parallel_for(logits.dim(0), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* z = float_row(args, vocab, std::int64_t{2} * thread);
    float* scaled = float_row(args, vocab, std::int64_t{2} * thread + 1);
    for (std::int64_t r = begin; r < end; ++r) {
      const Row row{args, r};
      const float* raw = io.load(logits, r * logits.stride(0), logits.stride(1), vocab, scaled);
      std::copy(raw, raw + vocab, z);
      const float largest = math.max(raw, static_cast<std::size_t>(vocab));
      const double log_sum = std::log(sum_exp(math, raw, largest, vocab));
      tell_tops(row, raw, vocab, largest, log_sum);
      penalise(row, z, vocab);
      bias_and_mask(row, z, vocab);
      const float best = math.max(z, static_cast<std::size_t>(vocab));
      std::int32_t id = -1;
      if (best == kNever) {  // nothing is allowed
      } else if (row.value<float>(TERN_SAMPLE_TEMPERATURE) <= 0.0F) {
        id = static_cast<std::int32_t>(std::find(z, z + vocab, best) - z);
      } else {
        id = draw(row, z, best, vocab, scaled);
      }
      ids.data<std::int32_t>()[r * ids.stride(0)] = id;
      const auto chosen = [&] { return logits.data<const float>()[r * logits.stride(0) + id * logits.stride(1)]; };
      logprob.data<float>()[r * logprob.stride(0)] =
          id < 0 ? kNever : static_cast<float>(static_cast<double>(chosen() - largest) - log_sum);
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SAMPLE, "sample", supports, workspace, nullptr, run}};

}  // namespace

KernelList sample_kernels() { return kKernels; }

}  // namespace tern::cpu
