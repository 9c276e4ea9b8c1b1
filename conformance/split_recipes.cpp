// Decoding with many keys. Kernels cut such a row's keys into partitions, compute each apart, and merge them by their
// logsumexp (Dao et al., "Flash-Decoding for long-context inference", 2023): here the largest logit lies in another
// partition for each row, partitions are empty, of one key, or full, and sequences of one call have one key or
// thousands.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "conformance/attention_cases.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

struct SplitCase {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t rows;  // of a sequence, at most: more than one of them are a speculative step's
  bool causal;
  std::int32_t window;
  bool softcap;
  bool sinks;
  Mask mask = Mask::none;
  std::int32_t chunk = 0;
};

// A group of 8; a window that most partitions lie before; one head each, and keys hidden in long runs; rows of
// speculation; all there is, with a window over several partitions; not causal, and rows without keys; rows on both
// sides of a chunk's border, with several partitions before it.
constexpr std::array<SplitCase, kSplitCases> kCases = {{{8, 1, 64, 1, true, 0, false, false},
                                                        {4, 1, 128, 1, true, 300, false, true},
                                                        {2, 2, 64, 1, true, 0, true, false, Mask::runs},
                                                        {8, 1, 64, 4, true, 0, false, true},
                                                        {4, 1, 128, 3, true, 1000, true, true},
                                                        {4, 2, 64, 1, false, 0, false, true},
                                                        {4, 1, 64, 4, true, 0, false, false, Mask::none, 1024}}};

// A sequence has as many keys as one of these, one less or one more; one sequence more has no row.
constexpr std::array<std::int64_t, 7> kLengths = {1, 16, 128, 256, 512, 1024, 4096};
constexpr std::int64_t kLongest = kLengths.back() + 1;
constexpr auto kSequences = static_cast<std::int64_t>(kLengths.size()) + 1;
constexpr std::int64_t kShort = 17;  // keys at most, where no sequence needs a second partition
constexpr float kCap = 10.0F;

const SplitCase& case_of(const CaseBuilder& b) { return kCases[static_cast<std::size_t>(b.variant().split - 1)]; }

struct Split {
  std::int64_t capacity;  // rows
  std::int64_t rows;      // valid
  std::vector<std::int64_t> len_q;
  std::vector<std::int64_t> len_k;
};

// Which sequence has which length changes with the data: what an earlier launch left behind is of another length.
Split split_of(CaseBuilder& b) {
  const SplitCase& of = case_of(b);
  Split out{};
  out.capacity = kSequences * of.rows;
  out.rows = b.count_for(out.capacity);
  const std::int64_t turn = b.random().below(kSequences - 1);
  const std::int64_t empty = b.random().below(kSequences);
  std::int64_t left = out.rows;
  for (std::int64_t s = 0, n = turn; s < kSequences; ++s, n += s - 1 == empty ? 0 : 1) {
    const auto at = static_cast<std::size_t>(n % (kSequences - 1));
    std::int64_t keys = std::max<std::int64_t>(1, kLengths[at] - 1 + b.random().below(3));
    if (b.variant().short_keys) keys = 1 + b.random().below(kShort);
    const std::int64_t most = of.rows == 1 ? 1 : 2 + b.random().below(of.rows - 1);
    std::int64_t rows = std::min({most, keys, left});
    if (s == empty) {
      keys = 0;
      rows = of.causal ? 0 : std::min<std::int64_t>(1, left);
    }
    left -= rows;
    out.len_q.push_back(rows);
    out.len_k.push_back(rows > 0 ? keys : 0);
  }
  return out;
}

std::vector<std::int64_t> bounds_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> out = {0};
  for (const std::int64_t length : lengths) out.push_back(out.back() + length);
  return out;
}

// The logit of a row and a key, by the row's number: it grows along the keys, it falls, or the last key has by far the
// largest, 100 where nothing caps it: more than an exponential holds. The first two features of a head make these; the
// others are noise of about 1.
constexpr std::int64_t kKinds = 3;
constexpr double kSlope = 1.5;
constexpr double kPeak = 100.0;

std::vector<double> queries(CaseBuilder& b, std::int64_t rows) {
  const SplitCase& of = case_of(b);
  const double unit = std::sqrt(static_cast<double>(of.head_dim));  // 1 / scale
  std::vector<double> out;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < of.heads; ++head) {
      const std::int64_t kind = (row + head) % kKinds;
      out.push_back(kind == 0 ? unit : kind == 1 ? -unit : 0.0);
      out.push_back(kind == 2 ? unit : 0.0);
      for (std::int64_t d = 2; d < of.head_dim; ++d) out.push_back(b.random().term());
    }
  }
  return out;
}

// Key `j` of `length`, all its heads, at `out`.
void put_key(CaseBuilder& b, std::int64_t j, std::int64_t length, double* out) {
  const SplitCase& of = case_of(b);
  const double peak = of.softcap ? kCap : kPeak;
  for (std::int64_t head = 0; head < of.kv_heads; ++head) {
    *out++ = kSlope * std::log2(static_cast<double>(1 + j));
    *out++ = length - j <= of.rows ? peak : b.random().below(97) == 0 ? 0.9 * peak : 0.0;
    for (std::int64_t d = 2; d < of.head_dim; ++d) *out++ = b.random().term();
  }
}

std::vector<double> terms(CaseBuilder& b, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& x : out) x = b.random().term();
  return out;
}

template <typename Attrs>
void put_attrs(CaseBuilder& b) {
  const SplitCase& of = case_of(b);
  Attrs attrs{};
  attrs.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(of.head_dim)));
  attrs.softcap = of.softcap ? kCap : 0.0F;
  attrs.causal = of.causal ? 1 : 0;
  attrs.window = of.window;
  attrs.max_seqlen_q = static_cast<std::int32_t>(of.rows);
  attrs.max_seqlen_k = kLongest;
  attrs.chunk = of.chunk;
  b.attrs(attrs);
}

// A sink that weighs as much as all keys of a row whose logits fall.
void put_sinks(CaseBuilder& b, int arg) {
  const SplitCase& of = case_of(b);
  if (!of.sinks) return;
  std::vector<double> sinks(static_cast<std::size_t>(of.heads));
  for (double& x : sinks) x = 1.0 + b.random().term();
  b.values(arg, TERN_F32, {of.heads}, sinks);
}

}  // namespace

void make_split_attention(CaseBuilder& b) {
  const SplitCase& of = case_of(b);
  const Split split = split_of(b);
  const std::vector<std::int64_t> cu_q = bounds_of(split.len_q);
  const std::vector<std::int64_t> cu_k = bounds_of(split.len_k);
  const std::int64_t room = std::accumulate(kLengths.begin(), kLengths.end(), kSequences);
  const std::int64_t keys = b.count_for(room, 1, cu_k.back());
  const std::int64_t width = of.kv_heads * of.head_dim;
  std::vector<double> k(static_cast<std::size_t>(keys * width), 7.0);  // and of no sequence
  for (std::size_t s = 0; s < split.len_k.size(); ++s) {
    for (std::int64_t j = 0; j < split.len_k[s]; ++j) {
      put_key(b, j, split.len_k[s], k.data() + (cu_k[s] + j) * width);
    }
  }
  put_attrs<tern_attention_attrs>(b);
  b.values(TERN_ATTENTION_Q, b.variant().in, {split.capacity, of.heads, of.head_dim}, queries(b, split.rows), 0);
  b.values(TERN_ATTENTION_K, b.key_dtype(), {room, of.kv_heads, of.head_dim}, k, 0, 1);
  b.values(TERN_ATTENTION_V, b.key_dtype(), {room, of.kv_heads, of.head_dim}, terms(b, keys * width), 0, 1);
  b.counted(TERN_ATTENTION_CU_SEQLENS_Q, cu_q, kBoundsSlot, cu_q.back());
  b.counted(TERN_ATTENTION_CU_SEQLENS_K, cu_k, kBoundsSlot, cu_k.back());
  put_sinks(b, TERN_ATTENTION_SINKS);
  fill_mask(b, TERN_ATTENTION_MASK, of.mask, {split.capacity, split.rows, kLongest, cu_q, split.len_k});
  b.out(TERN_ATTENTION_OUT, b.variant().out, {split.capacity, of.heads, of.head_dim}, 0);
  b.out(TERN_ATTENTION_LSE, TERN_F32, {split.capacity, of.heads}, 0);
}

void make_split_attention_paged(CaseBuilder& b) {
  const SplitCase& of = case_of(b);
  Split split = split_of(b);
  for (std::size_t s = 0; s < split.len_k.size(); ++s) {  // a row's own key has been stored
    split.len_k[s] = std::max(split.len_k[s], split.len_q[s]);
  }
  const std::vector<std::int64_t> cu_q = bounds_of(split.len_q);
  const std::int64_t block = b.kv_block();
  const auto blocks_of = [block](std::int64_t keys) { return (keys + block - 1) / block; };
  std::int64_t blocks = 2;  // block 0, and what the sequence that has no row may have
  for (const std::int64_t length : kLengths) blocks += blocks_of(length + 1);
  const std::vector<std::int64_t> order = shuffled_blocks(b, blocks);
  const std::int64_t width = of.kv_heads * of.head_dim;
  std::vector<double> k(static_cast<std::size_t>(blocks * block * width), 7.0);  // and nobody's
  std::vector<std::int64_t> table;
  std::size_t next = 0;
  for (const std::int64_t length : split.len_k) {
    for (std::int64_t i = 0; i < blocks_of(kLongest); ++i) {
      const bool used = i * block < length;
      table.push_back(used ? order.at(next++) : b.random().below(blocks));
      for (std::int64_t j = i * block; used && j < std::min(length, (i + 1) * block); ++j) {
        put_key(b, j, length, k.data() + (table.back() * block + j % block) * width);
      }
    }
  }
  const CaseBuilder::Shape cache = {blocks, block, of.kv_heads, of.head_dim};
  put_attrs<tern_attention_paged_attrs>(b);
  b.values(TERN_ATTENTION_PAGED_Q, b.variant().in, {split.capacity, of.heads, of.head_dim}, queries(b, split.rows), 0);
  b.cached(TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_K_SCALE, b.key_dtype(), cache, k);
  b.cached(TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_V_SCALE, b.key_dtype(), cache,
           terms(b, blocks * block * width));
  hide_block_0(b);
  b.counted(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, kSequencesSlot, 0, blocks_of(kLongest));
  b.counted(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, cu_q, kBoundsSlot, cu_q.back());
  b.counted(TERN_ATTENTION_PAGED_KV_LENS, split.len_k, kSequencesSlot, 0);
  put_sinks(b, TERN_ATTENTION_PAGED_SINKS);
  fill_mask(b, TERN_ATTENTION_PAGED_MASK, of.mask, {split.capacity, split.rows, kLongest, cu_q, split.len_k});
  b.out(TERN_ATTENTION_PAGED_OUT, b.variant().out, {split.capacity, of.heads, of.head_dim}, 0);
  b.out(TERN_ATTENTION_PAGED_LSE, TERN_F32, {split.capacity, of.heads}, 0);
}

}  // namespace tern::conformance
