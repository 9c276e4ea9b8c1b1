#include "conformance/rows.h"

#include <cstring>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

// By argument: the dimension that counts independent rows, or -1 (where the call has none, too).
std::vector<int> row_dims(const Case& c) {
  const std::vector<TensorDesc> descs = descs_of(c);
  std::vector<int> out(descs.size(), -1);
  for (std::size_t i = 0; i < descs.size(); ++i) {
    if (!is_present(descs[i])) continue;
    out[i] = ops::op_rules(c.op).row_dim({c.op, descs, c.attrs, c.accumulate}, static_cast<int>(i));
  }
  return out;
}

// Entries [begin, begin + count) of a dimension.
Argument slice(const Argument& from, int dim, std::int64_t begin, std::int64_t count) {
  Argument out = from;
  out.desc.shape[dim] = count;
  const auto at = static_cast<std::ptrdiff_t>(begin * from.desc.strides[dim] * dtype_bytes(from.desc.dtype));
  const auto size = static_cast<std::ptrdiff_t>(plane_bytes(out.desc).bytes[0]);
  out.planes[0].assign(from.planes[0].begin() + at, from.planes[0].begin() + at + size);
  return out;
}

bool slice_rows(const Case& c, std::int64_t begin, std::int64_t count, Case& out) {
  const std::vector<int> dims = row_dims(c);
  out = c;
  bool any = false;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (dims[i] < 0) continue;
    const TensorDesc& desc = c.args[i].desc;
    if (desc.dynamic_dim >= 0 || is_quantised(desc) || begin + count > desc.shape[dims[i]]) return false;
    any = true;
    out.args[i] = slice(c.args[i], dims[i], begin, count);
  }
  return any;
}

void set_lengths(Argument& argument, const std::vector<std::int32_t>& values) {
  argument.desc = make_desc(TERN_I32, {static_cast<std::int64_t>(values.size())});
  argument.planes[0].resize(values.size() * sizeof(std::int32_t));
  std::memcpy(argument.planes[0].data(), values.data(), argument.planes[0].size());
}

std::vector<std::int64_t> numbers(const Case& c, int arg) {
  const Argument& argument = c.args[static_cast<std::size_t>(arg)];
  return decode(argument.desc, argument.planes, c.counts).integer;
}

// The sequence with the most rows, among equal ones that with the most keys.
std::size_t longest_of(const Case& c, const ops::Indices& indices, const std::vector<std::int64_t>& bounds) {
  std::vector<std::int64_t> keys(bounds.size(), 0);
  if (indices.paged) keys = numbers(c, indices.paged->kv_lens);
  if (indices.sequences.size() > 1) {
    const std::vector<std::int64_t> of_keys = numbers(c, indices.sequences[1].arg);
    for (std::size_t s = 0; s + 1 < of_keys.size(); ++s) keys[s] = of_keys[s + 1] - of_keys[s];
  }
  const auto size = [&](std::size_t s) { return std::pair(bounds[s + 1] - bounds[s], keys[s]); };
  std::size_t longest = 0;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    if (size(s) > size(longest)) longest = s;
  }
  return longest;
}

// Leaves sequence `s` alone with its keys: every argument that has as many rows as `keys` cuts is cut alike.
void keep_keys(const Case& c, const ops::Indices::Sequences& keys, std::size_t s, Case& part) {
  const std::vector<std::int64_t> bounds = numbers(c, keys.arg);
  const std::int64_t count = bounds[s + 1] - bounds[s];
  const auto args = c.spec().args;
  const std::string_view rows = args[static_cast<std::size_t>(keys.rows_of)].shape[0].name;
  set_lengths(part.args[static_cast<std::size_t>(keys.arg)], {0, static_cast<std::int32_t>(count)});
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].shape.find(rows) == 0 && is_present(c.args[i].desc)) {
      part.args[i] = slice(c.args[i], 0, bounds[s], count);
    }
  }
}

void keep_blocks(const Case& c, const ops::Indices::Paged& paged, std::size_t s, Case& part) {
  const auto table = static_cast<std::size_t>(paged.block_table);
  set_lengths(part.args[static_cast<std::size_t>(paged.kv_lens)],
              {static_cast<std::int32_t>(numbers(c, paged.kv_lens)[s])});
  part.args[table] = slice(c.args[table], 0, static_cast<std::int64_t>(s), 1);
}

// The longest sequence alone, and its last row.
std::vector<RowSlice> sequence_slices(const Case& c, const ops::Indices& indices) {
  const ops::Indices::Sequences& queries = indices.sequences[0];
  const std::vector<std::int64_t> bounds = numbers(c, queries.arg);
  const std::size_t longest = longest_of(c, indices, bounds);
  const std::int64_t count = bounds[longest + 1] - bounds[longest];
  std::vector<RowSlice> out;
  for (const std::int64_t rows : {count, std::int64_t{1}}) {
    RowSlice made{{}, bounds[longest] + count - rows, rows};
    if (count < 1 || !slice_rows(c, made.begin, rows, made.part)) continue;
    set_lengths(made.part.args[static_cast<std::size_t>(queries.arg)], {0, static_cast<std::int32_t>(rows)});
    for (std::size_t i = 1; i < indices.sequences.size(); ++i) keep_keys(c, indices.sequences[i], longest, made.part);
    if (indices.paged) keep_blocks(c, *indices.paged, longest, made.part);
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace

std::vector<RowSlice> row_slices(const Case& c) {
  const std::vector<TensorDesc> descs = descs_of(c);
  const ops::Indices indices = ops::op_rules(c.op).indices({c.op, descs, c.attrs, c.accumulate});
  if (!indices.sequences.empty()) return sequence_slices(c, indices);
  const std::vector<int> dims = row_dims(c);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) rows = descs[i].shape[dims[i]];
  }
  std::vector<RowSlice> out;
  // One, all but one, and numbers on both sides of what kernels take at once.
  using Part = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [begin, count] : {Part{rows / 2, 1}, {1, rows - 1}, {rows / 3, 6}, {3, 64}, {rows - 256, 256}}) {
    if (begin < 0) continue;
    RowSlice made{{}, begin, count};
    if (count >= 1 && slice_rows(c, begin, count, made.part)) out.push_back(std::move(made));
  }
  return out;
}

std::string compare_rows(const Case& c, const RowSlice& slice_of, const Outputs& whole, const Outputs& alone) {
  const std::vector<int> dims = row_dims(c);
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (dims[i] < 0 || !c.written(i)) continue;
    Argument found = c.args[i];
    found.planes = whole.planes[i];
    const Argument rows = slice(found, dims[i], slice_of.begin, slice_of.count);
    const auto left = decode(rows.desc, rows.planes, c.counts);
    const auto right = decode(slice_of.part.args[i].desc, alone.planes[i], c.counts);
    if (left.real != right.real || left.integer != right.integer) {
      return cat(c.spec().args[i].name, ": ", slice_of.count, " rows from ", slice_of.begin,
                 " on have other bits alone than among the others");
    }
  }
  return {};
}

}  // namespace tern::conformance
