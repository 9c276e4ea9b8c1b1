// A row's tokens are sorted once; what min-p, top-k and top-p keep is then the begin of that order, and its last token
// tells in the order of ids which are kept. Nothing is scattered, so that every chip can do it.
#include <limits>

#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = -std::numeric_limits<float>::max();
constexpr std::int64_t kPanel = std::int64_t{1} << 21;  // logits at a time

struct Rows {
  Composer& c;
  Algebra algebra;
  std::int64_t row, rows, vocab;
  View zero;

  [[nodiscard]] View part(int arg) const { return c.arg(arg).slice(0, row, rows); }
  [[nodiscard]] View column(int arg) const { return part(arg).reshaped({rows, 1}); }
  View sum_by_token(const View& tokens, const View& weights);
  View penalised(const View& z);
  View biased(const View& z);
  void mask(const View& z);
  View draw(const View& z, const Algebra::Sorted& sorted);
  void run();
};

// [rows, vocab]: of each token the sum of its weights. tokens [rows, n] i32; those outside of the vocabulary are
// skipped.
View Rows::sum_by_token(const View& tokens, const View& weights) {
  const View known = algebra.both(algebra.above(tokens, -1), algebra.below(tokens, static_cast<double>(vocab)));
  const Family family = c.chip().family;
  if (family != Family::a910 && family != Family::a310p) {
    // One column more, for those that are skipped.
    const View beyond = algebra.constant(static_cast<double>(vocab), ACL_INT32);
    const View places = c.cast(algebra.select(known, tokens, beyond), ACL_INT64);
    const View none = c.temp(ACL_FLOAT, {rows, vocab + 1}), out = c.temp(ACL_FLOAT, none.shape);
    c.zero(none);
    c.call(TERN_NPU_OP(ScatterAdd), none, 1, places, weights, out);
    return out.slice(1, 0, vocab);
  }
  const View out = c.temp(ACL_FLOAT, {rows, vocab});
  c.zero(out);
  const View numbers = algebra.range(0, vocab, ACL_INT32).reshaped({1, vocab});
  for (std::int64_t i = 0; i < tokens.dim(1); ++i) {
    const std::int64_t mark = c.mark();
    const View hit = algebra.equal(tokens.slice(1, i, 1), numbers);
    algebra.add(out, algebra.select(hit, weights.slice(1, i, 1), zero), out);
    c.rewind(mark);
  }
  return out;
}

View Rows::penalised(const View& z) {
  const View history = c.arg(TERN_SAMPLE_HISTORY), table = part(TERN_SAMPLE_HISTORY_TABLE);
  const std::int64_t longest = table.dim(1) * history.dim(1);
  if (longest == 0) return z;
  const View taken = algebra.take_rows(history, table.reshaped({table.elements()})).reshaped({rows, longest});
  const View places = algebra.range(0, longest, ACL_INT32).reshaped({1, longest});
  const View there = algebra.less(places, column(TERN_SAMPLE_HISTORY_LEN));
  const View tokens = algebra.select(there, taken, algebra.constant(-1, ACL_INT32));
  const View once = c.f32(there);
  const View seen = algebra.above(sum_by_token(tokens, once), 0.0);
  const View generated = algebra.both(there, algebra.at_least(places, column(TERN_SAMPLE_OUTPUT_BEGIN)));
  const View times = sum_by_token(tokens, c.f32(generated));
  const View repetition = column(TERN_SAMPLE_REPETITION);
  const View repeated = algebra.select(algebra.above(z, 0.0), algebra.div(z, repetition), algebra.mul(z, repetition));
  const View out = algebra.select(seen, repeated, z);
  algebra.sub(out, algebra.mul(times, column(TERN_SAMPLE_FREQUENCY)), out);
  const View present = c.f32(algebra.above(times, 0.0));
  return algebra.sub(out, algebra.mul(present, column(TERN_SAMPLE_PRESENCE)), out);
}

View Rows::biased(const View& z) {
  const View ids = part(TERN_SAMPLE_BIAS_IDS);
  if (ids.dim(1) == 0) return z;
  return algebra.add(z, sum_by_token(ids, c.dense(part(TERN_SAMPLE_BIAS))));
}

void Rows::mask(const View& z) {
  const View words = part(TERN_SAMPLE_MASK);
  const std::int64_t bytes = words.dim(1) * 4;
  const View given = contiguous_view(words.place, words.offset, ACL_UINT8, {rows, bytes, 1});
  const View bits = c.constant({"bits of a byte",
                                [] {
                                  std::vector<std::byte> all;
                                  for (int bit = 0; bit < 8; ++bit) all.push_back(static_cast<std::byte>(1 << bit));
                                  return all;
                                }},
                               ACL_UINT8, {1, 1, 8});
  const View set = c.temp(ACL_UINT8, {rows, bytes, 8});
  c.call(TERN_NPU_OP(BitwiseAndTensor), given, bits, set);
  const View hidden = algebra.equals(set, 0).reshaped({rows, bytes * 8}).slice(1, 0, vocab);
  algebra.put_where(z, hidden, -kInfinity);
}

// [rows, 1] fp32: the drawn token's number.
View Rows::draw(const View& z, const Algebra::Sorted& sorted) {
  const View given = column(TERN_SAMPLE_TEMPERATURE);
  const View temperature = algebra.select(algebra.above(given, 0.0), given, algebra.constant(1.0));
  const View top = algebra.at_least(sorted.values.slice(1, 0, 1), kLowest);
  const auto shares = [&](const View& logits) {  // of the largest's
    const View out = algebra.sub(logits, top);
    algebra.div(out, temperature, out);
    return algebra.exp(out, out);
  };
  const View ranks = algebra.range(0, vocab, ACL_INT32).reshaped({1, vocab});
  const View most = column(TERN_SAMPLE_TOP_K);
  const View all = algebra.constant(static_cast<double>(vocab), ACL_INT32);
  View kept = algebra.less(ranks, algebra.select(algebra.above(most, 0), most, all));
  const View share = shares(sorted.values);
  const View least = algebra.at_most(column(TERN_SAMPLE_MIN_P), 1.0);
  kept = algebra.both(kept, algebra.at_least(share, least));
  algebra.mul(share, c.f32(kept), share);
  const View until = algebra.cumulative(share, 1);
  const View before = algebra.sub(until, share);
  const View top_p = column(TERN_SAMPLE_TOP_P);
  const View inside = algebra.less(before, algebra.mul(algebra.sum(share, 1), top_p));
  const View off = algebra.at_least(top_p, algebra.constant(1.0));
  kept = algebra.both(kept, algebra.either(inside, off));
  // The last that is kept; the first always is.
  const View count = algebra.at_least(algebra.sum(c.f32(kept), 1), 1.0);
  const View last = c.cast(algebra.adds(count, -1.0), ACL_INT64);
  const View border = algebra.pick(sorted.values, last);
  const View border_id = c.cast(algebra.pick(sorted.places, last), ACL_INT32);
  const View tied = algebra.both(algebra.equal(z, border), algebra.at_least(border_id, ranks));
  const View chosen = c.f32(algebra.either(algebra.greater(z, border), tied));
  const View p = shares(z);
  algebra.mul(p, chosen, p);
  const View sums = algebra.cumulative(p, 1);
  const View target = algebra.mul(sums.slice(1, vocab - 1, 1), column(TERN_SAMPLE_UNIFORM));
  const View index = algebra.sum(c.f32(algebra.at_least(target, sums)), 1);
  // Rounding may leave nothing above the target: then it's the last token that has a share.
  const View numbers = c.f32(ranks);
  const View ends = algebra.largest(algebra.select(algebra.above(p, 0.0), numbers, zero), 1);
  return algebra.minimum(index, ends);
}

void Rows::run() {
  const View logits = part(TERN_SAMPLE_LOGITS);
  const View top = algebra.at_least(algebra.largest(logits, 1), kLowest);
  const View e = algebra.sub(logits, top);
  algebra.exp(e, e);
  const View lse = algebra.add(algebra.log(algebra.sum(e, 1)), top);
  const auto logprob = [&](const View& value) {  // -infinity stays, also where lse is
    const View out = algebra.sub(value, lse);
    algebra.put_where(out, algebra.equals(value, -kInfinity), -kInfinity);
    return out;
  };
  View z = logits;
  if (c.present(TERN_SAMPLE_HISTORY)) z = penalised(z);
  if (c.present(TERN_SAMPLE_BIAS_IDS)) z = biased(z);
  if (c.present(TERN_SAMPLE_MASK)) {
    if (z.place == logits.place) z = algebra.adds(z, 0.0);
    mask(z);
  }
  const Algebra::Sorted sorted = algebra.sort(z, true);
  if (const View top_ids = c.arg(TERN_SAMPLE_TOP_IDS); top_ids.present()) {
    const Algebra::Sorted plain = z.place == logits.place ? sorted : algebra.sort(logits, true);
    const std::int64_t tops = top_ids.dim(1);
    c.copy(part(TERN_SAMPLE_TOP_IDS), plain.places.slice(1, 0, tops));
    c.copy(part(TERN_SAMPLE_TOP_LOGPROBS), logprob(plain.values.slice(1, 0, tops)));
  }
  const View first = c.f32(sorted.places.slice(1, 0, 1));
  const View greedy = algebra.equals(column(TERN_SAMPLE_TEMPERATURE), 0.0);
  const View id = algebra.select(greedy, first, draw(z, sorted));
  const View own = logprob(algebra.pick(logits, c.cast(id, ACL_INT64)));
  const View nothing = algebra.equals(sorted.values.slice(1, 0, 1), -kInfinity);
  algebra.put_where(id, nothing, -1.0);
  algebra.put_where(own, nothing, -kInfinity);
  c.copy(column(TERN_SAMPLE_IDS), id);
  c.copy(column(TERN_SAMPLE_LOGPROB), own);
}

void compose(Composer& c) {
  const View logits = c.arg(TERN_SAMPLE_LOGITS);
  const std::int64_t vocab = logits.dim(1), most = std::max<std::int64_t>(1, kPanel / std::max<std::int64_t>(1, vocab));
  for (std::int64_t row = 0; row < logits.dim(0); row += most) {
    const std::int64_t mark = c.mark();
    Rows rows{c, Algebra(c), row, std::min(most, logits.dim(0) - row), vocab, {}};
    rows.zero = rows.algebra.constant(0.0);
    rows.run();
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_SAMPLE, "sort", compose, true}};

}  // namespace

KernelList sample_kernels() { return kEntries; }

}  // namespace tern::npu
