#include "backends/npu/attention_shape.h"

#include <limits>

namespace tern::npu {

View by_heads(const View& rows, std::int64_t kv_heads) {
  const View split = rows.reshaped({rows.dim(0), kv_heads, rows.dim(1) / kv_heads, rows.dim(2)});
  return permuted(split, {1, 2, 0, 3});
}

View numbers_by_heads(const View& rows, std::int64_t kv_heads) {
  const View split = rows.reshaped({rows.dim(0), kv_heads, rows.dim(1) / kv_heads, 1});
  return permuted(split, {1, 2, 0, 3});
}

std::int64_t tile_rows(std::int64_t heads, std::int64_t longest, std::int64_t most) {
  constexpr std::int64_t kElements = std::int64_t{1} << 23;
  return std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, heads * longest), 1,
                                  std::max<std::int64_t>(1, most));
}

std::vector<Tile> tiles(const Composer& composer, const tern_attention_attrs& attrs, std::int64_t rows,
                        std::int64_t keys, std::int64_t most) {
  std::vector<Tile> out;
  if (composer.planning()) {
    const std::int64_t count = std::min(rows, most);
    return {{0, count, 0, keys, keys - count}};
  }
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t place = keys - rows + row;
    std::int64_t count = std::min(most, rows - row);
    std::int64_t first = 0, end = keys;
    if (attrs.chunk > 0) {
      const std::int64_t begin = place / attrs.chunk * attrs.chunk;
      count = std::min(count, begin + attrs.chunk - place);
      first = begin;
      end = std::min<std::int64_t>(end, begin + attrs.chunk);
    }
    const std::int64_t last = place + count - 1;
    if (attrs.causal != 0) end = std::min(end, last + 1);
    if (attrs.window > 0) first = std::max(first, place - attrs.window + 1);
    if (attrs.window_right > 0) end = std::min(end, last + attrs.window_right);
    out.push_back({row, count, first, std::max<std::int64_t>(0, end - first), place});
    row += count;
  }
  return out;
}

View hidden_keys(Algebra& algebra, const tern_attention_attrs& attrs, const Tile& tile, const View& mask) {
  View hidden;
  const auto hide = [&](const View& more) { hidden = hidden.present() ? algebra.either(hidden, more) : more; };
  const std::int64_t last_key = tile.key + tile.keys - 1, last_place = tile.place + tile.rows - 1;
  const bool planning = algebra.composer().planning();
  const bool future = attrs.causal != 0 && (planning || last_key > tile.place);
  const bool past = attrs.window > 0 && (planning || tile.key <= last_place - attrs.window);
  const bool right = attrs.window_right > 0 && (planning || last_key >= tile.place + attrs.window_right);
  if (future || past || right) {
    const View keys = algebra.range(tile.key, tile.keys, ACL_INT32).reshaped({1, tile.keys});
    const View places = algebra.range(tile.place, tile.rows, ACL_INT32).reshaped({tile.rows, 1});
    const View ahead = algebra.sub(keys, places);  // j - p
    if (future) hide(algebra.above(ahead, 0));
    if (past) hide(algebra.below(ahead, 1 - attrs.window));
    if (right) hide(algebra.above(ahead, attrs.window_right - 1));
  }
  if (mask.present()) hide(algebra.negate(mask));
  return hidden;
}

std::vector<Sequence> sequences(const Composer& composer, const tern_attention_attrs& attrs, int cu_seqlens_q,
                                std::int64_t q_rows, int cu_seqlens_k, std::int64_t k_rows) {
  std::vector<Sequence> out;
  const auto q = composer.lengths(cu_seqlens_q), k = composer.lengths(cu_seqlens_k);
  if (!q || !k) {
    const std::int64_t rows = std::min<std::int64_t>(attrs.max_seqlen_q, q_rows);
    const std::int64_t keys = std::min<std::int64_t>(attrs.max_seqlen_k, k_rows);
    const bool sees_itself = attrs.causal != 0 || attrs.window > 0 || attrs.window_right > 0 || attrs.chunk > 0;
    const Sequence longest{0, sees_itself ? std::min(rows, keys) : rows, 0, keys, 0};
    if (longest.rows > 0) out.push_back(longest);
    return out;
  }
  for (std::size_t s = 0; s + 1 < q->size(); ++s) {
    const std::int64_t rows = (*q)[s + 1] - (*q)[s], keys = (*k)[s + 1] - (*k)[s];
    if (rows > 0 || keys > 0) out.push_back({(*q)[s], rows, (*k)[s], keys, static_cast<std::int64_t>(s)});
  }
  return out;
}

std::vector<Sequence> paged_sequences(const Composer& composer, const tern_attention_attrs& attrs,
                                      const PagedArgs& args) {
  std::vector<Sequence> out;
  const auto q = composer.lengths(args.cu_seqlens_q), k = composer.lengths(args.kv_lens);
  if (!q || !k) {
    const std::int64_t keys = std::min<std::int64_t>(attrs.max_seqlen_k, args.capacity);
    const std::int64_t rows = std::min({std::int64_t{attrs.max_seqlen_q}, args.q_rows, keys});
    if (rows > 0) out.push_back({0, rows, 0, keys, 0});
    return out;
  }
  for (std::size_t s = 0; s + 1 < q->size() && s < k->size(); ++s) {
    const std::int64_t rows = (*q)[s + 1] - (*q)[s];
    if (rows > 0) out.push_back({(*q)[s], rows, 0, (*k)[s], static_cast<std::int64_t>(s)});
  }
  return out;
}

View gather_keys(Algebra& algebra, const View& cache, const View& table, std::int64_t first, std::int64_t end) {
  const std::int64_t block = cache.dim(1);
  const std::int64_t first_block = first / block, blocks = (end + block - 1) / block - first_block;
  const View wanted = table.slice(0, first_block, blocks);
  // Where a head's rows of a block lie together, blocks are taken as they lie: a view in another order would first be
  // copied, the whole cache.
  const View by_heads = permuted(cache, {0, 2, 1, 3});
  const bool together = !cache.contiguous() && by_heads.contiguous();
  const View taken = together ? algebra.composer().dense(permuted(algebra.take_rows(by_heads, wanted), {0, 2, 1, 3}))
                              : algebra.take_rows(cache, wanted);
  const View flat = taken.reshaped({blocks * block, cache.dim(2), cache.dim(3)});
  return algebra.composer().f32(flat.slice(0, first - first_block * block, end - first));
}

Scores scores(Algebra& algebra, const tern_attention_attrs& attrs, const View& q, const View& k, const View& hidden,
              bool slope) {
  Scores out;
  out.values = algebra.product(q, k.transposed(k.rank() - 2, k.rank() - 1));
  const View& s = out.values;
  if (attrs.softcap != 0.0F) {
    algebra.muls(s, attrs.scale / attrs.softcap, s);
    algebra.tanh(s, s);
    if (slope) {
      out.slope = algebra.mul(s, s);
      algebra.muls(out.slope, -1.0, out.slope);
      algebra.adds(out.slope, 1.0, out.slope);
    }
    algebra.muls(s, attrs.softcap, s);
  } else {
    algebra.muls(s, attrs.scale, s);
  }
  if (hidden.present()) algebra.put_where(s, hidden, -std::numeric_limits<double>::infinity());
  return out;
}

}  // namespace tern::npu
