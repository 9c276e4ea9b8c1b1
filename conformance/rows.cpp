#include "conformance/rows.h"

#include <cstring>

#include "base/dtype.h"
#include "base/strings.h"

namespace tern::conformance {
namespace {

// The dimension of an argument that counts independent rows, or -1.
int row_dim(const Case& c, std::size_t arg) {
  switch (c.op) {
    case TERN_OP_CAST_COPY:
    case TERN_OP_AXPBY:
    case TERN_OP_MUL:
    case TERN_OP_SOFTCAP:
      return 0;
    case TERN_OP_SCALE:
      return arg == TERN_SCALE_FACTOR ? -1 : 0;
    case TERN_OP_MATMUL: {
      const auto attrs = ops::unpack_attrs<tern_matmul_attrs>(c.attrs);
      if (c.args[TERN_MATMUL_A].desc.rank != 2) return -1;
      if (arg == TERN_MATMUL_A) return attrs.transpose_a;
      return arg == TERN_MATMUL_OUT ? 0 : -1;
    }
    case TERN_OP_MATMUL_Q:
      return arg == TERN_MATMUL_Q_X || arg == TERN_MATMUL_Q_Y ? 0 : -1;
    case TERN_OP_ATTENTION:
    case TERN_OP_ATTENTION_PAGED: {
      const std::string_view name = c.spec().args[arg].name;
      return name == "q" || name == "out" || name == "lse" ? 0 : -1;
    }
    default:
      return c.spec().args[arg].shape.text.substr(0, 5) == "[rows" ? 0 : -1;
  }
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
  out = c;
  bool any = false;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const TensorDesc& desc = c.args[i].desc;
    const int dim = is_present(desc) ? row_dim(c, i) : -1;
    if (dim < 0) continue;
    if (desc.dynamic_dim >= 0 || is_quantised(desc) || begin + count > desc.shape[dim]) return false;
    any = true;
    out.args[i] = slice(c.args[i], dim, begin, count);
  }
  return any;
}

void set_lengths(Argument& argument, const std::vector<std::int32_t>& values) {
  argument.desc = make_desc(TERN_I32, {static_cast<std::int64_t>(values.size())});
  argument.planes[0].resize(values.size() * sizeof(std::int32_t));
  std::memcpy(argument.planes[0].data(), values.data(), argument.planes[0].size());
}

// The longest sequence, alone.
std::vector<RowSlice> attention_slices(const Case& c) {
  const bool paged = c.op == TERN_OP_ATTENTION_PAGED;
  const std::vector<std::vector<std::int32_t>> lengths = host_lengths(c).arrays;
  const std::vector<std::int32_t>& cu_q = lengths[0];
  std::size_t longest = 0;
  for (std::size_t s = 0; s + 1 < cu_q.size(); ++s) {
    if (cu_q[s + 1] - cu_q[s] > cu_q[longest + 1] - cu_q[longest]) longest = s;
  }
  const std::int32_t begin = cu_q[longest];
  const std::int32_t count = cu_q[longest + 1] - begin;
  std::vector<RowSlice> out;
  auto add = [&](std::int32_t first, std::int32_t rows) {
    RowSlice made{{}, first, rows};
    if (rows < 1 || !slice_rows(c, first, rows, made.part)) return;
    if (paged) {
      set_lengths(made.part.args[TERN_ATTENTION_PAGED_CU_SEQLENS_Q], {0, rows});
      set_lengths(made.part.args[TERN_ATTENTION_PAGED_KV_LENS], {lengths[1][longest]});
      made.part.args[TERN_ATTENTION_PAGED_BLOCK_TABLE] =
          slice(c.args[TERN_ATTENTION_PAGED_BLOCK_TABLE], 0, static_cast<std::int64_t>(longest), 1);
    } else {
      const std::int32_t keys = lengths[1][longest + 1] - lengths[1][longest];
      set_lengths(made.part.args[TERN_ATTENTION_CU_SEQLENS_Q], {0, rows});
      set_lengths(made.part.args[TERN_ATTENTION_CU_SEQLENS_K], {0, keys});
      for (std::size_t arg : {TERN_ATTENTION_K, TERN_ATTENTION_V}) {
        made.part.args[arg] = slice(c.args[arg], 0, lengths[1][longest], keys);
      }
    }
    out.push_back(std::move(made));
  };
  add(begin, count);
  add(begin + count - 1, 1);
  return out;
}

}  // namespace

std::vector<RowSlice> row_slices(const Case& c) {
  if (c.op == TERN_OP_ATTENTION || c.op == TERN_OP_ATTENTION_PAGED) return attention_slices(c);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const int dim = is_present(c.args[i].desc) ? row_dim(c, i) : -1;
    if (dim >= 0) rows = c.args[i].desc.shape[dim];
  }
  std::vector<RowSlice> out;
  for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{rows / 2, 1}, {1, rows - 1}}) {
    RowSlice made{{}, begin, count};
    if (count >= 1 && slice_rows(c, begin, count, made.part)) out.push_back(std::move(made));
  }
  return out;
}

std::string compare_rows(const Case& c, const RowSlice& slice_of, const Outputs& whole, const Outputs& alone) {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const int dim = is_present(c.args[i].desc) && c.written(i) ? row_dim(c, i) : -1;
    if (dim < 0) continue;
    Argument found = c.args[i];
    found.planes = whole.planes[i];
    const Argument rows = slice(found, dim, slice_of.begin, slice_of.count);
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
