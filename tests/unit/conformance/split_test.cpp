// What an op says of being cut (ops/facts.h, Split) against its oracle: the parts give what the whole gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "conformance/recipe.h"
#include "ops/build.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

using ops::Split;
using ops::ref::Tensor;

// Elements [begin, end) of a dimension, of tensors in logical order.
template <typename T>
std::vector<T> sliced(const std::vector<T>& from, const TensorDesc& desc, int dim, std::int64_t begin,
                      std::int64_t end) {
  std::vector<T> out;
  if (from.empty()) return out;
  std::int64_t inner = 1;
  for (int d = dim + 1; d < desc.rank; ++d) inner *= desc.shape[d];
  const std::int64_t row = desc.shape[dim] * inner;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(from.size()); at += row) {
    out.insert(out.end(), from.begin() + at + begin * inner, from.begin() + at + end * inner);
  }
  return out;
}

TensorDesc dense(const TensorDesc& desc) { return make_desc(static_cast<tern_dtype>(desc.dtype), shape_of(desc)); }

Tensor sliced(const Tensor& from, int dim, std::int64_t begin, std::int64_t end) {
  Tensor out = from;
  out.real = sliced(from.real, from.desc, dim, begin, end);
  out.integer = sliced(from.integer, from.desc, dim, begin, end);
  out.parts = sliced(from.parts, from.desc, dim, begin, end);
  std::vector<std::int64_t> shape(from.desc.shape, from.desc.shape + from.desc.rank);
  shape[static_cast<std::size_t>(dim)] = end - begin;
  out.desc = make_desc(static_cast<tern_dtype>(from.desc.dtype), shape);
  return out;
}

// Where two parts of unequal size meet. Quantised weights are cut at borders of their groups alone, which x15 and int8
// need.
std::int64_t middle_of(const Case& c, std::int64_t size) {
  const std::int64_t middle = (size + 2) / 3;
  if (c.op != TERN_OP_MATMUL_Q) return middle;
  const tern_compute compute = ops::unpack_attrs<tern_matmul_q_attrs>(c.attrs).compute;
  const bool whole = compute == TERN_COMPUTE_X15 || compute == TERN_COMPUTE_INT8;
  return whole ? std::min(size, (middle + 31) / 32 * 32) : middle;
}

// One op's case, whole and cut.
class Cut {
 public:
  Cut(const Case& c, const Split& split, std::int64_t size) : c_(c), split_(split), size_(size) {
    for (std::size_t a = 0; a < c.args.size(); ++a) {
      Tensor tensor;
      if (is_present(c.args[a].desc)) tensor = decode(c.args[a].desc, c.args[a].planes, c.counts);
      if (is_present(tensor.desc)) tensor.desc = dense(tensor.desc);
      args_.push_back(tensor);
    }
  }

  [[nodiscard]] std::vector<Tensor> run(std::vector<Tensor> args) const {
    ops::ref::Call call{c_.op, c_.attrs, c_.accumulate, args};
    ops::op_rules(c_.op).reference(call);
    return args;
  }
  [[nodiscard]] std::vector<Tensor> whole() const { return run(args_); }

  // Two parts of unequal size.
  [[nodiscard]] std::vector<std::vector<Tensor>> parts() const {
    const std::int64_t middle = middle_of(c_, size_);
    return {run(part(0, middle)), run(part(middle, size_))};
  }

  [[nodiscard]] bool is_along(std::size_t arg) const { return dim_of(arg) >= 0; }
  [[nodiscard]] int dim_of(std::size_t arg) const {
    for (const auto& [along, dim] : split_.along) {
      if (along == static_cast<int>(arg)) return dim;
    }
    return -1;
  }

 private:
  [[nodiscard]] std::vector<Tensor> part(std::int64_t begin, std::int64_t end) const {
    std::vector<Tensor> out = args_;
    for (std::size_t a = 0; a < out.size(); ++a) {
      if (is_along(a) && is_present(out[a].desc)) out[a] = sliced(args_[a], dim_of(a), begin, end);
    }
    for (const int a : split_.indices) {
      for (std::int64_t& id : out[static_cast<std::size_t>(a)].integer) {
        id = id >= begin && id < end ? id - begin : -1;
      }
    }
    for (const int a : split_.once) {
      if (begin > 0) out[static_cast<std::size_t>(a)] = {};
    }
    for (const int a : split_.sums) {  // what it is added to is there once
      if (begin > 0 && (c_.accumulate >> a & 1U) != 0) {
        std::ranges::fill(out[static_cast<std::size_t>(a)].real, 0.0);
      }
    }
    return out;
  }

  const Case& c_;
  const Split& split_;
  std::int64_t size_;
  std::vector<Tensor> args_;
};

void expect_parts_are_the_whole(const Case& c, const Split& split, std::int64_t size, const std::string& where) {
  const Cut cut(c, split, size);
  const std::vector<Tensor> whole = cut.whole();
  const auto parts = cut.parts();
  const std::int64_t middle = middle_of(c, size);
  for (std::size_t a = 0; a < whole.size(); ++a) {
    if (!c.written(a) || !is_present(whole[a].desc)) continue;
    const bool is_sum = std::find(split.sums.begin(), split.sums.end(), static_cast<int>(a)) != split.sums.end();
    ASSERT_TRUE(is_sum || cut.is_along(a)) << where << ": " << c.spec().args[a].name << " is neither cut nor summed";
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Tensor expected =
          is_sum ? whole[a] : sliced(whole[a], cut.dim_of(a), p == 0 ? 0 : middle, p == 0 ? middle : size);
      for (std::size_t i = 0; i < expected.real.size(); ++i) {
        const double found = is_sum ? parts[0][a].real.at(i) + parts[1][a].real.at(i) : parts[p][a].real.at(i);
        ASSERT_NEAR(found, expected.real[i], 1e-9 * (1.0 + std::abs(expected.real[i])))
            << where << ": " << c.spec().args[a].name << "[" << i << "]";
      }
      for (std::size_t i = 0; i < expected.integer.size(); ++i) {
        const std::int64_t found =
            is_sum ? parts[0][a].integer.at(i) & parts[1][a].integer.at(i) : parts[p][a].integer.at(i);
        ASSERT_EQ(found, expected.integer[i]) << where << ": " << c.spec().args[a].name << "[" << i << "]";
      }
    }
  }
}

// Every way that an op says it can be cut. Returns how many were tried.
int try_all_cuts(const Case& c) {
  const std::vector<TensorDesc> descs = descs_of(c);
  int tried = 0;
  for (std::size_t a = 0; a < descs.size(); ++a) {
    for (int dim = 0; dim < descs[a].rank; ++dim) {
      const auto split = ops::op_rules(c.op).split({c.op, descs, c.attrs, c.accumulate}, static_cast<int>(a), dim);
      // What parts tell each other needs an emitter: graph/row_split is tested with it.
      if (!split || split->complete != nullptr || descs[a].shape[dim] < 2) continue;
      const bool names_itself = std::any_of(split->along.begin(), split->along.end(), [&](const Split::Along& at) {
        return at.arg == static_cast<int>(a) && at.dim == dim;
      });
      EXPECT_TRUE(names_itself) << c.spec().name << ", " << c.spec().args[a].name << " " << dim;
      expect_parts_are_the_whole(
          c, *split, descs[a].shape[dim],
          cat(c.spec().name, " (", c.label, ") cut at ", c.spec().args[a].name, "'s dimension ", dim));
      ++tried;
    }
  }
  return tried;
}

TEST(Split, PartsGiveWhatTheWholeGives) {
  std::map<std::string_view, int> tried;
  for (const ops::OpSpec& spec : ops::op_table()) {
    for (const CaseSource& source : case_sources(spec.id)) {
      const Variant& v = source.variant;
      if (v.size > 2 || v.in != TERN_F32 || v.dynamic || v.special != 0 || v.layout != Layout::contiguous) continue;
      const Case c = source.make(7);
      // A part of a tensor that shares memory is no tensor by itself here, and a bool has no sum.
      if (std::any_of(c.alias.begin(), c.alias.end(), [](std::int8_t at) { return at >= 0; })) continue;
      tried[spec.name] += try_all_cuts(c);
    }
  }
  for (const std::string_view op :
       {"cast_copy", "gather_rows", "scatter_add_rows", "axpby", "mul", "row_sum", "scale", "sum_squares", "all_finite",
        "fill", "matmul", "matmul_q", "dequantize", "embedding", "softcap", "adamw", "shard_index"}) {
    EXPECT_GT(tried[op], 0) << op;
  }
}

}  // namespace
}  // namespace tern::conformance
