// attention, its backward and attention_paged against the oracle, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ops/ref/tensor.h"
#include "tests/unit/backend_cpu/op_harness.h"

namespace tern::test {
namespace {

struct Problem {
  std::vector<std::int32_t> len_q, len_k;
  std::int64_t heads = 6, kv_heads = 2, head_dim = 24, value_dim = 40;
  bool causal = true;
  int window = 0;
  float softcap = 0;
  bool sinks = false;
  bool masked = false;
  tern_dtype dtype = TERN_F32;
  std::optional<tern_dtype> stored = {};  // of keys and values; none: dtype
  std::int64_t spare = 2;                 // rows outside of every sequence
  int window_right = 0;
  int chunk = 0;

  [[nodiscard]] tern_dtype kept() const { return stored.value_or(dtype); }
};

// What queries are in, and what keys and values are.
constexpr std::pair<tern_dtype, tern_dtype> kDtypes[] = {
    {TERN_F32, TERN_F32}, {TERN_BF16, TERN_BF16}, {TERN_F16, TERN_F16}, {TERN_F32, TERN_BF16}};

std::vector<std::int32_t> cumulated(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> sums{0};
  for (const std::int32_t n : lengths) sums.push_back(sums.back() + n);
  return sums;
}

template <typename Attrs>
Attrs attrs_of(const Problem& s) {
  return {0.3F,
          s.softcap,
          s.causal ? 1 : 0,
          s.window,
          *std::max_element(s.len_q.begin(), s.len_q.end()),
          *std::max_element(s.len_k.begin(), s.len_k.end()),
          s.window_right,
          s.chunk};
}

// Keys by chance, of long sequences a whole block of them hidden, every seventh row blind; rows lie 5 bytes apart.
void show_some(OpCase& c, int arg, std::int64_t rows, std::int64_t keys) {
  const TensorDesc desc = padded(make_desc(TERN_BOOL, {rows, keys + 2}), 5);
  std::vector<std::byte> bytes(total_bytes(desc), std::byte{1});
  std::mt19937 random(7);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const bool shown = random() % 3 != 0 && i % 7 != 3 && (j < 256 || j >= 512);
      bytes[static_cast<std::size_t>(i * desc.strides[0] + j)] = std::byte{shown};
    }
  }
  c.args[static_cast<std::size_t>(arg)] = {desc, bytes};
}

OpCase forward_case(const Problem& s) {
  OpCase c(TERN_OP_ATTENTION);
  c.set_attrs(attrs_of<tern_attention_attrs>(s));
  const auto cu_q = cumulated(s.len_q), cu_k = cumulated(s.len_k);
  const std::int64_t rows_q = cu_q.back() + s.spare, rows_k = cu_k.back() + s.spare;
  c.random(TERN_ATTENTION_Q, padded(make_desc(s.dtype, {rows_q, s.heads, s.head_dim}), 4), 1);
  c.random(TERN_ATTENTION_K, make_desc(s.kept(), {rows_k, s.kv_heads, s.head_dim}), 2);
  c.random(TERN_ATTENTION_V, padded(make_desc(s.kept(), {rows_k, s.kv_heads, s.value_dim}), 2), 3);
  c.integers(TERN_ATTENTION_CU_SEQLENS_Q, cu_q);
  c.integers(TERN_ATTENTION_CU_SEQLENS_K, cu_k);
  if (s.sinks) c.random(TERN_ATTENTION_SINKS, make_desc(TERN_F32, {s.heads}), 4);
  if (s.masked) show_some(c, TERN_ATTENTION_MASK, rows_q, *std::max_element(s.len_k.begin(), s.len_k.end()));
  c.output(TERN_ATTENTION_OUT, make_desc(s.dtype, {rows_q, s.heads, s.value_dim}));
  c.output(TERN_ATTENTION_LSE, make_desc(TERN_F32, {rows_q, s.heads}));
  return c;
}

OpCase backward_case(const Problem& s) {
  const OpCase forward = forward_case(s);
  const Outcome made = run_on(targets().back(), forward);
  OpCase c(TERN_OP_ATTENTION_BACKWARD);
  c.set_attrs(attrs_of<tern_attention_backward_attrs>(s));
  const auto take = [&](int to, int from) { c.args[to] = forward.args[from]; };
  take(TERN_ATTENTION_BACKWARD_Q, TERN_ATTENTION_Q);
  take(TERN_ATTENTION_BACKWARD_K, TERN_ATTENTION_K);
  take(TERN_ATTENTION_BACKWARD_V, TERN_ATTENTION_V);
  take(TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q, TERN_ATTENTION_CU_SEQLENS_Q);
  take(TERN_ATTENTION_BACKWARD_CU_SEQLENS_K, TERN_ATTENTION_CU_SEQLENS_K);
  take(TERN_ATTENTION_BACKWARD_SINKS, TERN_ATTENTION_SINKS);
  take(TERN_ATTENTION_BACKWARD_MASK, TERN_ATTENTION_MASK);
  take(TERN_ATTENTION_BACKWARD_OUT, TERN_ATTENTION_OUT);
  take(TERN_ATTENTION_BACKWARD_LSE, TERN_ATTENTION_LSE);
  c.args[TERN_ATTENTION_BACKWARD_OUT].bytes = made.bytes[TERN_ATTENTION_OUT];
  c.args[TERN_ATTENTION_BACKWARD_LSE].bytes = made.bytes[TERN_ATTENTION_LSE];
  c.random(TERN_ATTENTION_BACKWARD_DOUT, forward.args[TERN_ATTENTION_OUT].desc, 5);
  c.output(TERN_ATTENTION_BACKWARD_DQ, forward.args[TERN_ATTENTION_Q].desc);
  c.output(TERN_ATTENTION_BACKWARD_DK, forward.args[TERN_ATTENTION_K].desc);
  c.output(TERN_ATTENTION_BACKWARD_DV, forward.args[TERN_ATTENTION_V].desc);
  if (s.sinks) {
    c.random(TERN_ATTENTION_BACKWARD_DSINKS, make_desc(TERN_F32, {s.heads}), 6);
    c.accumulate = 1U << TERN_ATTENTION_BACKWARD_DSINKS;
  }
  return c;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  all.push_back({.len_q = {5, 0, 37}, .len_k = {5, 0, 37}});
  all.push_back({.len_q = {7}, .len_k = {300}});                       // a chunk at the end of its keys
  all.push_back({.len_q = {9, 3}, .len_k = {0, 3}, .causal = false});  // rows that see no key
  all.push_back({.len_q = {70}, .len_k = {530}, .causal = false});     // three blocks of keys
  all.push_back({.len_q = {290}, .len_k = {290}, .window = 33});       // blocks that no row of a tile sees
  all.push_back({.len_q = {20, 11}, .len_k = {20, 17}, .causal = false, .window = 6, .softcap = 1.5F, .sinks = true});
  all.push_back(
      {.len_q = {31}, .len_k = {31}, .heads = 5, .kv_heads = 5, .head_dim = 7, .value_dim = 3, .sinks = true});
  all.push_back({.len_q = {9, 3}, .len_k = {0, 3}, .causal = false, .sinks = true});
  all.push_back({.len_q = {70}, .len_k = {530}, .causal = false, .masked = true});
  all.push_back({.len_q = {40, 2}, .len_k = {300, 9}, .window = 33, .masked = true});
  all.push_back({.len_q = {20, 11}, .len_k = {20, 17}, .softcap = 1.5F, .sinks = true, .masked = true});
  // Windows to both sides, and to the right alone; chunks that end within blocks of keys, with them, and with
  // sequences.
  all.push_back({.len_q = {290}, .len_k = {290}, .causal = false, .window = 33, .window_right = 20});
  all.push_back({.len_q = {70, 3}, .len_k = {530, 3}, .causal = false, .window_right = 300});
  all.push_back({.len_q = {290, 128}, .len_k = {600, 128}, .chunk = 64});
  all.push_back({.len_q = {300, 9}, .len_k = {512, 9}, .window = 50, .sinks = true, .chunk = 256});
  all.push_back({.len_q = {90}, .len_k = {300}, .causal = false, .masked = true, .window_right = 9, .chunk = 100});
  return all;
}

TEST(Attention, Forward) {
  for (Problem s : problems()) {
    for (const auto& [dtype, stored] : kDtypes) {
      s.dtype = dtype;
      s.stored = stored;
      check_everywhere(forward_case(s), "problem with " + std::to_string(s.len_q[0]) + " rows");
    }
  }
}

TEST(Attention, Backward) {
  for (Problem s : problems()) {
    for (const tern_dtype dtype : {TERN_F32, TERN_BF16, TERN_F16}) {
      s.dtype = dtype;
      check_everywhere(backward_case(s), "problem with " + std::to_string(s.len_q[0]) + " rows");
    }
  }
}

TEST(Attention, NoSequencesAtAll) {
  Problem s{.len_q = {3}, .len_k = {3}};
  OpCase c = forward_case(s);
  c.integers(TERN_ATTENTION_CU_SEQLENS_Q, {0});
  c.integers(TERN_ATTENTION_CU_SEQLENS_K, {0});
  check_everywhere(c, "none");
}

TEST(Attention, LengthsOutOfRangeAreErrors) {
  Problem s{.len_q = {3}, .len_k = {3}};
  OpCase c = forward_case(s);
  c.integers(TERN_ATTENTION_CU_SEQLENS_Q, {0, 9});
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
  c.integers(TERN_ATTENTION_CU_SEQLENS_Q, {3, 0});
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
  c.integers(TERN_ATTENTION_CU_SEQLENS_Q, {0, 3});
  c.integers(TERN_ATTENTION_CU_SEQLENS_K, {0, 2});  // causal, and fewer keys than rows
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
}

TEST(Attention, BordersNeedAKeyOfEachRow) {
  for (const Problem& s : {Problem{.len_q = {3}, .len_k = {3}, .causal = false, .window = 2},
                           Problem{.len_q = {3}, .len_k = {3}, .causal = false, .window_right = 2},
                           Problem{.len_q = {3}, .len_k = {3}, .causal = false, .chunk = 2}}) {
    OpCase c = forward_case(s);
    c.integers(TERN_ATTENTION_CU_SEQLENS_K, {0, 2});
    EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
  }
}

// What a row doesn't see is not read: a NaN there would spoil a product of tiles.
TEST(Attention, NaNBeyondBordersStaysUnseen) {
  for (const Problem& s : {Problem{.len_q = {40}, .len_k = {40}, .causal = false, .window = 5, .window_right = 3},
                           Problem{.len_q = {40}, .len_k = {40}, .chunk = 16}}) {
    OpCase c = forward_case(s);
    const auto& v = c.args[TERN_ATTENTION_V].desc;
    std::memset(c.args[TERN_ATTENTION_V].bytes.data() + 25 * v.strides[0] * 4, 0xff, 4);
    check_everywhere(c, "NaN in v");
    OpCase b = backward_case(s);
    const auto& k = b.args[TERN_ATTENTION_BACKWARD_K].desc;
    std::memset(b.args[TERN_ATTENTION_BACKWARD_K].bytes.data() + 25 * k.strides[0] * 4, 0xff, 4);
    check_everywhere(b, "NaN in k");
  }
}

// A NaN may reach only the rows that see it.
TEST(Attention, NaNOfUnseenKeysStaysUnseen) {
  for (const tern_dtype dtype : {TERN_F32, TERN_BF16}) {
    Problem s{.len_q = {40}, .len_k = {40}, .dtype = dtype};
    OpCase c = forward_case(s);
    const auto& v = c.args[TERN_ATTENTION_V].desc;
    const std::int64_t size = dtype == TERN_F32 ? 4 : 2;
    std::memset(c.args[TERN_ATTENTION_V].bytes.data() + 25 * v.strides[0] * size, 0xff, static_cast<std::size_t>(size));
    check_everywhere(c, "NaN in v");
    OpCase b = backward_case(s);
    const auto& dout = b.args[TERN_ATTENTION_BACKWARD_DOUT].desc;
    std::memset(b.args[TERN_ATTENTION_BACKWARD_DOUT].bytes.data() + 13 * dout.strides[0] * size, 0xff,
                static_cast<std::size_t>(size));
    check_everywhere(b, "NaN in dout");
  }
}

// A value that is not finite spoils the rows that see it, in strips of rows before and after the one that finds it.
TEST(Attention, OneInfiniteValueAmongManyRows) {
  for (const auto& [dtype, stored] : kDtypes) {
    const Problem s{.len_q = {300}, .len_k = {300}, .window = 90, .dtype = dtype, .stored = stored};
    OpCase c = forward_case(s);
    auto& v = c.args[TERN_ATTENTION_V];
    const std::uint32_t infinity = stored == TERN_F32 ? 0x7f800000U : stored == TERN_BF16 ? 0x7f80U : 0x7c00U;
    const std::int64_t size = stored == TERN_F32 ? 4 : 2;
    std::memcpy(v.bytes.data() + 130 * v.desc.strides[0] * size, &infinity, static_cast<std::size_t>(size));
    check_everywhere(c, "an infinite value");
  }
}

// Nor the rows to which a mask does not show it.
TEST(Attention, NaNOfHiddenKeysStaysHidden) {
  for (const tern_dtype dtype : {TERN_F32, TERN_BF16}) {
    const Problem s{.len_q = {40}, .len_k = {40}, .causal = false, .masked = true, .dtype = dtype};
    const auto hide_last = [](OpCase& c, int mask) {
      auto& shown = c.args[static_cast<std::size_t>(mask)];
      for (std::int64_t i = 0; i < 40; i += 2) {
        shown.bytes[static_cast<std::size_t>(i * shown.desc.strides[0] + 39)] = std::byte{0};
      }
    };
    const auto spoil_last = [dtype](OpCase& c, int arg) {
      auto& to = c.args[static_cast<std::size_t>(arg)];
      const std::int64_t size = dtype == TERN_F32 ? 4 : 2;
      std::memset(to.bytes.data() + 39 * to.desc.strides[0] * size, 0xff, static_cast<std::size_t>(size));
    };
    OpCase c = forward_case(s);
    hide_last(c, TERN_ATTENTION_MASK);
    spoil_last(c, TERN_ATTENTION_K);
    check_everywhere(c, "NaN in a hidden k");
    spoil_last(c, TERN_ATTENTION_V);
    check_everywhere(c, "NaN in a hidden k and v");
    OpCase b = backward_case(s);
    hide_last(b, TERN_ATTENTION_BACKWARD_MASK);
    spoil_last(b, TERN_ATTENTION_BACKWARD_K);
    spoil_last(b, TERN_ATTENTION_BACKWARD_V);
    check_everywhere(b, "backward of a NaN in a hidden k and v");
  }
}

// What a cache in 8 bits holds: any codes over scales of any size, a head's rows of a block one after the other.
void put_codes(OpCase& c, int cache, int scale, TensorDesc desc) {
  std::mt19937 random(static_cast<unsigned>(cache));
  const std::int64_t block = desc.shape[1], dim = desc.shape[3];
  desc.strides[1] = dim;
  desc.strides[2] = block * dim;
  std::vector<std::byte> codes(total_bytes(desc));
  for (std::byte& code : codes) {
    code = static_cast<std::byte>(random());
    if ((code & std::byte{0x7f}) == std::byte{0x7f}) code = std::byte{1};  // e4m3's NaN
  }
  TensorDesc scales = make_desc(TERN_F32, {desc.shape[0], block, desc.shape[2]});
  scales.strides[1] = 1;
  scales.strides[2] = block;
  std::vector<std::byte> bytes(total_bytes(scales));
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const float value = (0.5F + static_cast<float>(random() % 64) / 64.0F) / (desc.dtype == TERN_I8 ? 127.0F : 256.0F);
    std::memcpy(bytes.data() + i, &value, 4);
  }
  c.args[static_cast<std::size_t>(cache)] = {desc, codes};
  c.args[static_cast<std::size_t>(scale)] = {scales, bytes};
}

OpCase paged_case(const Problem& s, std::int64_t block_size) {
  OpCase c(TERN_OP_ATTENTION_PAGED);
  c.set_attrs(attrs_of<tern_attention_paged_attrs>(s));
  const auto cu_q = cumulated(s.len_q);
  const auto sequences = static_cast<std::int64_t>(s.len_q.size());
  const std::int64_t pages = *std::max_element(s.len_k.begin(), s.len_k.end()) / block_size + 1;
  std::vector<std::int32_t> table(static_cast<std::size_t>(sequences * pages));
  for (std::size_t i = 0; i < table.size(); ++i) {  // neighbours in a sequence are strangers in the cache
    table[i] = static_cast<std::int32_t>((i * 7 + 3) % table.size()) + 1;
  }
  const std::int64_t blocks = sequences * pages + 1;
  c.random(TERN_ATTENTION_PAGED_Q, make_desc(s.dtype, {cu_q.back() + s.spare, s.heads, s.head_dim}), 1);
  const TensorDesc keys = make_desc(s.kept(), {blocks, block_size, s.kv_heads, s.head_dim});
  const TensorDesc values = make_desc(s.kept(), {blocks, block_size, s.kv_heads, s.value_dim});
  if (s.kept() == TERN_I8 || s.kept() == TERN_F8_E4M3) {
    put_codes(c, TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_K_SCALE, keys);
    put_codes(c, TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_V_SCALE, values);
  } else {
    c.random(TERN_ATTENTION_PAGED_K_CACHE, keys, 2);
    c.random(TERN_ATTENTION_PAGED_V_CACHE, values, 3);
  }
  c.integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, {sequences, pages});
  c.integers(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, cu_q);
  c.integers(TERN_ATTENTION_PAGED_KV_LENS, s.len_k);
  if (s.sinks) c.random(TERN_ATTENTION_PAGED_SINKS, make_desc(TERN_F32, {s.heads}), 4);
  const std::int64_t longest = *std::max_element(s.len_k.begin(), s.len_k.end());
  if (s.masked) show_some(c, TERN_ATTENTION_PAGED_MASK, cu_q.back() + s.spare, longest);
  c.output(TERN_ATTENTION_PAGED_OUT, make_desc(s.dtype, {cu_q.back() + s.spare, s.heads, s.value_dim}));
  c.output(TERN_ATTENTION_PAGED_LSE, make_desc(TERN_F32, {cu_q.back() + s.spare, s.heads}));
  return c;
}

// The same, and over caches in 8 bits.
constexpr std::pair<tern_dtype, tern_dtype> kCacheDtypes[] = {
    {TERN_F32, TERN_F32}, {TERN_BF16, TERN_BF16}, {TERN_F16, TERN_F16},     {TERN_F32, TERN_BF16},
    {TERN_F32, TERN_I8},  {TERN_BF16, TERN_I8},   {TERN_F32, TERN_F8_E4M3}, {TERN_F16, TERN_F8_E4M3}};

TEST(AttentionPaged, PrefillAndDecodeInOneBatch) {
  for (const auto& [dtype, stored] : kCacheDtypes) {
    for (const int window : {0, 50}) {
      for (const std::int64_t block_size : {1, 5, 16}) {
        Problem s{.len_q = {1, 19, 1, 0}, .len_k = {613, 40, 1, 7}, .window = window, .dtype = dtype, .stored = stored};
        s.sinks = window != 0;
        s.masked = block_size == 5;
        check_everywhere(paged_case(s, block_size), "block size " + std::to_string(block_size));
      }
    }
  }
}

// Few rows by codes where they lie, and by panels where something isn't finite: who doesn't see it isn't changed.
TEST(AttentionPaged, FewRowsOverACacheInEightBits) {
  for (const tern_dtype stored : {TERN_I8, TERN_F8_E4M3}) {
    for (const tern_dtype dtype : {TERN_F32, TERN_BF16, TERN_F16}) {
      for (const int threads : {1, 3}) {
        Problem s{.len_q = {1, 2, 3, 1, 0}, .len_k = {700, 513, 5, 1, 9}, .dtype = dtype, .stored = stored};
        s.head_dim = 64;
        s.value_dim = 80;
        OpCase c = paged_case(s, 16);
        c.needs = 0;
        c.num_threads = threads;
        check_everywhere(c, "few rows");
        auto& scales = c.args[TERN_ATTENTION_PAGED_V_SCALE];
        const auto last = static_cast<std::size_t>(513 - 1);  // of the second sequence, which one of its rows sees
        const auto pages = static_cast<std::size_t>(c.args[TERN_ATTENTION_PAGED_BLOCK_TABLE].desc.shape[1]);
        std::int32_t block = 0;
        std::memcpy(&block, c.args[TERN_ATTENTION_PAGED_BLOCK_TABLE].bytes.data() + 4 * (pages + last / 16), 4);
        const float nan = std::numeric_limits<float>::quiet_NaN();
        const std::size_t at = static_cast<std::size_t>(block) * 16 * static_cast<std::size_t>(s.kv_heads) + last % 16;
        std::memcpy(scales.bytes.data() + 4 * at, &nan, 4);
        check_everywhere(c, "a value that isn't finite");
      }
    }
  }
}

// Decoding behind, at and before a chunk's border, and rows that cross one.
TEST(AttentionPaged, Chunks) {
  for (const tern_dtype dtype : {TERN_F32, TERN_BF16}) {
    for (const int chunk : {48, 256, 1000}) {
      Problem s{.len_q = {1, 1, 1, 19, 3, 0}, .len_k = {512, 513, 613, 58, 98, 7}, .dtype = dtype, .chunk = chunk};
      check_everywhere(paged_case(s, 16), "chunks of " + std::to_string(chunk));
      s.head_dim = s.value_dim = 64;  // keys where they lie
      s.len_q = {1, 1, 1, 2, 3, 0};
      check_everywhere(paged_case(s, 16), "few rows, chunks of " + std::to_string(chunk));
    }
  }
}

// Nobody reads the pages of keys before a chunk: they may be another's.
TEST(AttentionPaged, PagesBeforeAChunkMayBeGone) {
  const Problem s{.len_q = {2}, .len_k = {20}, .chunk = 16};
  OpCase c = paged_case(s, 16);
  c.integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, {0, 1}, {1, 2});
  check_everywhere(c, "the first page is gone");
}

TEST(AttentionPaged, PagesOutOfRangeAreErrors) {
  Problem s{.len_q = {2}, .len_k = {20}};
  OpCase c = paged_case(s, 16);
  c.integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, {0, 99}, {1, 2});
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
  c.integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, {0, 1}, {1, 2});  // block 0 is nobody's
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
}

// Decoding a row alone must give the bits of the prefill that held it among others.
TEST(AttentionPaged, DecodeEqualsPrefillBitForBit) {
  for (const auto& [dtype, stored] : kCacheDtypes) {
    for (const std::string& target : targets()) {
      Problem s{.len_q = {80}, .len_k = {600}, .window = 301, .dtype = dtype, .stored = stored, .spare = 0};
      const OpCase all = paged_case(s, 16);
      const Outcome together = run_on(target, all);
      const std::size_t row = static_cast<std::size_t>(s.heads * s.value_dim) * (dtype == TERN_F32 ? 4 : 2);
      const std::size_t q_row = static_cast<std::size_t>(s.heads * s.head_dim) * (dtype == TERN_F32 ? 4 : 2);
      for (const int i : {0, 41, 79}) {
        OpCase one = paged_case(s, 16);
        auto& q = one.args[TERN_ATTENTION_PAGED_Q];
        q.desc.shape[0] = 1;
        q.bytes = {all.args[TERN_ATTENTION_PAGED_Q].bytes.begin() + static_cast<std::ptrdiff_t>(i * q_row),
                   all.args[TERN_ATTENTION_PAGED_Q].bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * q_row)};
        auto attrs = attrs_of<tern_attention_paged_attrs>(s);
        attrs.max_seqlen_q = 1;  // decoding: its blocks of keys are computed side by side
        one.set_attrs(attrs);
        one.integers(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, {0, 1});
        one.integers(TERN_ATTENTION_PAGED_KV_LENS, {600 - 79 + i});
        one.output(TERN_ATTENTION_PAGED_OUT, make_desc(dtype, {1, s.heads, s.value_dim}));
        one.output(TERN_ATTENTION_PAGED_LSE, make_desc(TERN_F32, {1, s.heads}));
        const Outcome alone = run_on(target, one);
        EXPECT_EQ(std::memcmp(alone.bytes[TERN_ATTENTION_PAGED_OUT].data(),
                              together.bytes[TERN_ATTENTION_PAGED_OUT].data() + static_cast<std::size_t>(i) * row, row),
                  0)
            << target << ", row " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tern::test
