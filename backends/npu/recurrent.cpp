#include "backends/npu/recurrent.h"

#include <algorithm>
#include <limits>

#include "backends/npu/attention_shape.h"

namespace tern::npu {

std::vector<Rows> row_sequences(const Composer& composer, int cu_seqlens, std::int64_t rows, std::int32_t max_seqlen) {
  std::vector<Rows> out;
  const auto bounds = composer.lengths(cu_seqlens);
  if (!bounds) {
    const std::int64_t most = std::min<std::int64_t>(rows, max_seqlen);
    if (most > 0) out.push_back({0, most, 0});
    // Some calls copy what doesn't fill its memory: a chunk that isn't whole may want more than a whole one.
    if (most > 1) out.push_back({0, std::min(most, kChunk) - 1, 0});
    return out;
  }
  for (std::size_t s = 0; s + 1 < bounds->size(); ++s) {
    const std::int64_t count = (*bounds)[s + 1] - (*bounds)[s];
    if (count > 0) out.push_back({(*bounds)[s], count, static_cast<std::int64_t>(s)});
  }
  return out;
}

States states(Composer& composer, int kv_lens, int seats, int state) {
  States out{composer.arg(kv_lens), composer.arg(seats), composer.arg(state)};
  if (out.all.present() && !out.all.contiguous()) composer.refuse("its states have gaps between them");
  return out;
}

void load_state(Algebra& algebra, const States& states, const Rows& rows, const View& out) {
  Composer& c = algebra.composer();
  if (!states.all.present()) {
    c.zero(out);
    return;
  }
  const View old = c.f32(algebra.take_rows(states.all, states.seats.slice(0, rows.sequence, 1)));
  const View begins = algebra.below(states.kv_lens.slice(0, rows.sequence, 1), static_cast<double>(rows.count + 1));
  algebra.select(begins, algebra.constant(0.0), old.reshaped(out.shape), out);
}

void store_state(Algebra& algebra, const States& states, const Rows& rows, const View& value) {
  if (!states.all.present()) return;
  Composer& c = algebra.composer();
  const std::int64_t width = value.elements();
  const View table = states.all.reshaped({states.all.dim(0), width});
  algebra.put_rows(table, states.seats.slice(0, rows.sequence, 1),
                   c.dense(c.cast(value, states.all.dtype)).reshaped({1, width}));
}

View head_column(Algebra& algebra, const View& numbers, std::int64_t groups) {
  const View by_group = numbers_by_heads(numbers, groups);
  const View out = algebra.composer().temp(ACL_FLOAT, by_group.shape);
  algebra.composer().copy(out, by_group);
  return out;
}

// Each sum is made of its own terms: a difference of two sums would cancel.
Decays decays(Algebra& algebra, const View& decay) {
  const std::int64_t rows = decay.dim(2);
  Decays out;
  const View sums = algebra.cumulative(decay, 2);
  out.whole = algebra.exp(sums.slice(2, rows - 1, 1));
  out.from_start = algebra.exp(sums);
  const View row = algebra.range(0, rows, ACL_INT32).reshaped({rows, 1}), column = row.transposed(0, 1);
  const View terms = algebra.select(algebra.greater(row, column), decay, algebra.constant(0.0));  // [.., l, j], j < l
  out.between = algebra.cumulative(terms, 2);
  out.to_end = algebra.exp(out.between.slice(2, rows - 1, 1)).transposed(2, 3);
  algebra.put_where(out.between, algebra.greater(column, row), -std::numeric_limits<double>::infinity());
  algebra.exp(out.between, out.between);
  return out;
}

View take_poison(Algebra& algebra, View& values, View& keys) {
  const auto clean = [&](View& view) {
    const View poison = algebra.sub(view, view);
    view = algebra.select(algebra.equals(poison, 0.0), view, algebra.constant(0.0));
    return poison;
  };
  const View of_values = clean(values), of_keys = clean(keys);
  return algebra.cumulative(algebra.add(of_values, algebra.sum(of_keys, 3)), 2);
}

Triangles triangles(Algebra& algebra, std::int64_t rows) {
  const View row = algebra.range(0, rows, ACL_INT32).reshaped({rows, 1}), column = row.transposed(0, 1);
  Composer& c = algebra.composer();
  return {c.f32(algebra.greater(column, row)), c.f32(algebra.greater(row, column))};
}

// Without differences of sums: what cancels in them may be much larger than what is left.
View decay_gradient(Algebra& algebra, const Triangles& ones, const DecayPaths& paths) {
  // crossing[i, l] = sum of inside[i, j] over j < l; then over i >= l.
  const View crossing = algebra.product(paths.inside, ones.later);
  const View until = algebra.adds(algebra.muls(ones.later, -1.0), 1.0);  // 1 where the column isn't beyond the row
  algebra.mul(crossing, until, crossing);
  const View total = algebra.sum(crossing, 2);  // [.., 1, rows]
  algebra.add(total, algebra.product(paths.from_start.transposed(2, 3), until), total);
  algebra.add(total, algebra.product(paths.to_end.transposed(2, 3), ones.later), total);
  algebra.add(total, paths.through, total);
  return total.transposed(2, 3);
}

View group_sum(Algebra& algebra, const View& view) { return view.dim(1) == 1 ? view : algebra.sum(view, 1); }

}  // namespace tern::npu
