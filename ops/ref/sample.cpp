#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// A border of the choice nearer than this (relative) may fall either way in fp32: some hundred roundings.
constexpr double kUndecided = 1e-5;

struct Row {
  const Call& call;
  std::int64_t r;
  [[nodiscard]] double real(int arg) const { return input(call, arg).real[static_cast<std::size_t>(r)]; }
  [[nodiscard]] std::int64_t integer(int arg) const { return input(call, arg).integer[static_cast<std::size_t>(r)]; }
};

void penalise(const Row& row, std::vector<double>& z) {
  const Tensor& history = input(row.call, TERN_SAMPLE_HISTORY);
  if (!history.present()) return;
  const Tensor& table = input(row.call, TERN_SAMPLE_HISTORY_TABLE);
  const double repetition = row.real(TERN_SAMPLE_REPETITION);
  const double presence = row.real(TERN_SAMPLE_PRESENCE);
  const double frequency = row.real(TERN_SAMPLE_FREQUENCY);
  const std::int64_t begin = row.integer(TERN_SAMPLE_OUTPUT_BEGIN);
  std::unordered_map<std::int64_t, int> generated;  // token -> times; 0: only in the prompt
  for (std::int64_t i = 0; i < row.integer(TERN_SAMPLE_HISTORY_LEN); ++i) {
    const std::int64_t block = table.integer.at(static_cast<std::size_t>(row.r * table.size(1) + i / history.size(1)));
    const std::int64_t token =
        history.integer.at(static_cast<std::size_t>(block * history.size(1) + i % history.size(1)));
    if (token < 0 || token >= static_cast<std::int64_t>(z.size())) continue;
    generated[token] += i >= begin ? 1 : 0;
  }
  for (const auto& [token, count] : generated) {
    double& value = z[static_cast<std::size_t>(token)];
    value = value > 0.0 ? value / repetition : value * repetition;
    value -= frequency * count + (count > 0 ? presence : 0.0);
  }
}

void bias_and_mask(const Row& row, std::vector<double>& z) {
  const Tensor& bias_ids = input(row.call, TERN_SAMPLE_BIAS_IDS);
  const Tensor& bias = input(row.call, TERN_SAMPLE_BIAS);
  const Tensor& mask = input(row.call, TERN_SAMPLE_MASK);
  const auto vocab = static_cast<std::int64_t>(z.size());
  for (std::int64_t i = 0; bias.present() && i < bias.size(1); ++i) {
    const auto at = static_cast<std::size_t>(row.r * bias.size(1) + i);
    const std::int64_t token = bias_ids.integer[at];
    if (token >= 0 && token < vocab) z[static_cast<std::size_t>(token)] += bias.real[at];
  }
  for (std::int64_t j = 0; mask.present() && j < vocab; ++j) {
    const std::int64_t word = mask.integer[static_cast<std::size_t>(row.r * mask.size(1) + j / 32)];
    if ((word >> (j % 32) & 1) == 0) z[static_cast<std::size_t>(j)] = kNever;
  }
}

// The token that is drawn, and where fp32 may decide otherwise, every token that it may then give.
struct Choice {
  std::int64_t id = -1;
  std::vector<std::int64_t> others;
};

bool near(double a, double b, double size) { return std::fabs(a - b) <= kUndecided * size; }

// Tokens in order of falling logit, ties by lower id.
class Ranking {
 public:
  explicit Ranking(const std::vector<double>& z) : z_(z), order_(z.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
      return z_[static_cast<std::size_t>(a)] > z_[static_cast<std::size_t>(b)];
    });
    while (allowed_ < order_.size() && at(allowed_) != kNever) ++allowed_;
  }
  [[nodiscard]] std::size_t allowed() const { return allowed_; }  // tokens that the mask and the logits leave
  [[nodiscard]] double at(std::size_t rank) const { return z_[static_cast<std::size_t>(order_[rank])]; }
  [[nodiscard]] std::int64_t id(std::size_t rank) const { return order_[rank]; }
  [[nodiscard]] std::vector<std::int64_t> ids(std::size_t begin, std::size_t end) const {
    return {order_.begin() + static_cast<std::ptrdiff_t>(begin), order_.begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  const std::vector<double>& z_;
  std::vector<std::int64_t> order_;
  std::size_t allowed_ = 0;
};

// How many tokens the filters keep, in order of rank: as computed exactly, and the most that fp32 may keep.
struct Kept {
  std::size_t exact;
  std::size_t most;
  bool in_doubt = false;  // fp32 may keep other tokens than `exact`, fewer or more
};

Kept filter(const Row& row, const Ranking& ranking, double temperature, std::vector<double>& p) {
  Kept kept{ranking.allowed(), ranking.allowed()};
  p.resize(kept.most);
  for (std::size_t i = 0; i < kept.most; ++i) p[i] = std::exp((ranking.at(i) - ranking.at(0)) / temperature);
  if (const double least = std::min(1.0, row.real(TERN_SAMPLE_MIN_P)) * p[0]; least > 0.0) {
    const auto is_out = [&](std::size_t rank) { return rank > 0 && p[rank] < least; };
    while (is_out(kept.exact - 1)) --kept.exact;
    while (is_out(kept.most - 1) && !near(p[kept.most - 1], least, p[0])) --kept.most;
    for (std::size_t i = 0; i < kept.most; ++i) kept.in_doubt = kept.in_doubt || near(p[i], least, p[0]);
  }
  const auto top_k = static_cast<std::size_t>(std::max<std::int64_t>(0, row.integer(TERN_SAMPLE_TOP_K)));
  if (top_k > 0 && top_k < kept.most) {
    const double size = std::max(1.0, std::fabs(ranking.at(0)));
    const double last = ranking.at(top_k - 1);
    const std::size_t left = kept.most;
    kept.exact = std::min(kept.exact, top_k);
    kept.most = top_k;
    const auto is_near = [&] { return kept.most < left && near(last, ranking.at(kept.most), size); };
    const bool in_doubt = is_near() && ranking.at(kept.most) != last;
    while (in_doubt && is_near()) ++kept.most;
    kept.in_doubt = kept.in_doubt || in_doubt;
  }
  double total = 0.0;
  for (std::size_t i = 0; i < kept.exact; ++i) total += p[i];
  if (const double goal = row.real(TERN_SAMPLE_TOP_P) * total; goal < total) {
    double before = 0.0;
    std::size_t n = 0;
    while (n < kept.exact && (n == 0 || before < goal)) {
      before += p[n++];
      kept.in_doubt = kept.in_doubt || near(before, goal, total);
    }
    const std::size_t left = kept.most;
    kept.exact = kept.most = n;
    while (kept.in_doubt && kept.most < left && near(before, goal, total)) before += p[kept.most++];
  }
  kept.most = std::max(kept.most, kept.exact);
  return kept;
}

Choice draw(const Row& row, const std::vector<double>& z) {
  Choice choice;
  const Ranking ranking(z);
  if (ranking.allowed() == 0) return choice;
  const double temperature = row.real(TERN_SAMPLE_TEMPERATURE);
  if (temperature == 0.0) {
    choice.id = ranking.id(0);
    std::size_t near_top = 1;
    const double size = std::max(1.0, std::fabs(ranking.at(0)));
    while (near_top < ranking.allowed() && near(ranking.at(0), ranking.at(near_top), size)) ++near_top;
    const bool tied = near_top > 1 && ranking.at(near_top - 1) == ranking.at(0);  // exactly: the lower id
    if (!tied) choice.others = ranking.ids(1, near_top);
    return choice;
  }
  std::vector<double> p;
  const Kept kept = filter(row, ranking, temperature, p);
  std::vector<std::size_t> by_id(kept.exact);  // ranks
  std::iota(by_id.begin(), by_id.end(), 0);
  std::sort(by_id.begin(), by_id.end(), [&](std::size_t a, std::size_t b) { return ranking.id(a) < ranking.id(b); });
  double mass = 0.0;
  for (const std::size_t rank : by_id) mass += p[rank];
  const double point = row.real(TERN_SAMPLE_UNIFORM) * mass;
  double before = 0.0;
  std::size_t drawn = 0;
  while (drawn + 1 < by_id.size() && before + p[by_id[drawn]] <= point) before += p[by_id[drawn++]];
  choice.id = ranking.id(by_id[drawn]);
  if (kept.in_doubt) {  // all that may be kept
    choice.others = ranking.ids(0, kept.most);
  } else {  // the tokens whose share of the line begins or ends by the point
    std::size_t first = drawn;
    std::size_t last = drawn + 1;
    for (double begin = before; first > 0 && near(begin, point, mass); begin -= p[by_id[first]]) --first;
    for (double end = before + p[by_id[drawn]]; last < by_id.size() && near(end, point, mass); ++last) {
      end += p[by_id[last]];
    }
    for (std::size_t i = first; i < last; ++i) choice.others.push_back(ranking.id(by_id[i]));
  }
  std::erase(choice.others, choice.id);
  return choice;
}

// log_softmax of the untouched logits.
class LogProbs {
 public:
  LogProbs(const double* raw, std::int64_t vocab) : raw_(raw), vocab_(vocab) {
    largest_ = *std::max_element(raw, raw + vocab);
    for (std::int64_t j = 0; j < vocab; ++j) {
      const double term = std::exp(raw[j] - largest_);
      sum_ += term;
      error_ += term > 0.0 ? term * (8.0 + std::fabs(raw[j] - largest_)) : 0.0;
    }
  }
  [[nodiscard]] double of(std::int64_t id) const {
    return raw_[id] == kNever ? kNever : raw_[id] - largest_ - std::log(sum_);
  }
  [[nodiscard]] Error error(double value) const {
    return {.roundings = 4.0 + 2.0 * std::fabs(value) + error_ / sum_ + std::fabs(largest_), .terms = vocab_};
  }

 private:
  const double* raw_;
  std::int64_t vocab_;
  double largest_;
  double sum_ = 0.0;
  double error_ = 0.0;
};

// The most likely tokens: their order is that of the logits, which are as they were given.
void tell_tops(Tensor& ids, Output& logprobs, std::int64_t r, const double* raw, std::int64_t vocab) {
  const std::vector<double> logits(raw, raw + vocab);
  const Ranking ranking(logits);
  const LogProbs probs(raw, vocab);
  for (std::int64_t i = 0; i < ids.size(1); ++i) {
    const std::int64_t id = ranking.id(static_cast<std::size_t>(i));
    ids.integer[static_cast<std::size_t>(r * ids.size(1) + i)] = id;
    const double value = probs.of(id);
    logprobs.add(r * ids.size(1) + i, value, value == kNever ? Error{} : probs.error(value));
  }
}

}  // namespace

void sample(Call& call) {
  const Tensor& logits = input(call, TERN_SAMPLE_LOGITS);
  const std::int64_t vocab = logits.size(1);
  Tensor& ids = call.args[TERN_SAMPLE_IDS];
  Output logprob(call, TERN_SAMPLE_LOGPROB);
  Tensor& logprobs = call.args[TERN_SAMPLE_LOGPROB];
  Tensor& top_ids = call.args[TERN_SAMPLE_TOP_IDS];
  Output top_logprobs(call, TERN_SAMPLE_TOP_LOGPROBS);
  const auto rows = static_cast<std::size_t>(logits.size(0));
  ids.integer.assign(rows, -1);
  if (top_ids.present()) top_ids.integer.assign(rows * static_cast<std::size_t>(top_ids.size(1)), -1);
  ids.others.assign(rows, {});
  logprobs.others.assign(rows, {});
  for (std::size_t r = 0; r < rows; ++r) {
    const auto at = static_cast<std::int64_t>(r);
    const double* raw = logits.real.data() + at * vocab;
    const Row row = {call, at};
    std::vector<double> z(raw, raw + vocab);
    penalise(row, z);
    bias_and_mask(row, z);
    if (top_ids.present()) tell_tops(top_ids, top_logprobs, at, raw, vocab);
    const Choice choice = draw(row, z);
    ids.integer[r] = choice.id;
    if (choice.id < 0) {
      logprob.add(at, kNever, {});
      continue;
    }
    const LogProbs probs(raw, vocab);
    const double value = probs.of(choice.id);
    logprob.add(at, value, probs.error(value));
    for (const std::int64_t other : choice.others) {
      ids.others[r].push_back(static_cast<double>(other));
      logprobs.others[r].push_back(probs.of(other));
    }
  }
}

}  // namespace tern::ops::ref
