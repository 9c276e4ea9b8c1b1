// Sums, extremes, scans, order and softmax.
#include <cmath>

#include "backends/npu/cann/ops_reduce.h"
#include "elementwise.h"
#include "numerics_reduce.h"

namespace fake {
namespace {

using numerics::Reduction;

void reduce(Op& op, const aclTensor* self, const Shape& dimensions, bool keep, const aclTensor* out, const Dtypes& from,
            const Dtypes& to, Reduction reduction) {
  const Tensor x = op.in("self", self, from);
  const Tensor y = op.out("out", out, to);
  Shape shape = x.shape();
  std::vector<bool> gone(shape.size(), dimensions.empty());
  for (const std::int64_t dimension : dimensions) {
    (void)op.dimension(dimension, x.rank());
    if (x.rank() == 0) continue;
    const auto at = static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()));
    op.need(!gone[at], "dim names a dimension twice");
    gone[at] = true;
  }
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (!gone[i]) continue;
    if (keep) {
      shape[i] = 1;
    } else {
      shape.erase(shape.begin() + static_cast<std::int64_t>(i));
    }
  }
  op.shape(y, shape);
  op.run(
      [=](Run& run) { numerics::reduce(run.view(x), x.rank() == 0 ? Shape{} : dimensions, reduction, run.view(y)); });
}

Shape dimensions_of(Op& op, const aclIntArray* array) { return array != nullptr ? op.array("dim", array) : Shape{}; }

void require_type(Op& op, aclDataType dtype, const aclTensor* out) {
  op.need(op.out("out", out).dtype() == dtype, "dtype should be that of out.");
}

void extreme(Op& op, const aclTensor* self, std::int64_t dimension, bool keep, const aclTensor* values,
             const aclTensor* places, bool largest) {
  const Tensor x = op.in("self", self, numbers);
  const Tensor at = op.in("indices", places, indices);
  (void)op.dimension(dimension, x.rank());
  Shape shape = x.shape();
  const std::int64_t along = numerics::wrap_dimension(dimension, shape.size());
  if (keep) {
    shape[static_cast<std::size_t>(along)] = 1;
  } else {
    shape.erase(shape.begin() + along);
  }
  op.shape(at, shape);
  Tensor y;
  if (values != nullptr) {
    y = op.out("out", values, numbers);
    op.same_dtype(x, y);
    op.shape(y, shape);
  }
  op.run([=](Run& run) {
    const std::optional<View> to = view_if(run, y);
    numerics::arg_extreme(run.view(x), dimension, largest, to ? &*to : nullptr, run.view(at));
  });
}

void order(Op& op, const aclTensor* self, std::int64_t k, std::int64_t dimension, bool falling, const aclTensor* values,
           const aclTensor* places) {
  const Tensor x = op.in("self", self, numbers);
  (void)op.dimension(dimension, x.rank());
  const std::int64_t size = x.rank() == 0 ? 1 : x.dim(dimension);
  const std::int64_t number = k < 0 ? size : k;
  op.need(number <= size, "k should not be above the size along dim");
  Shape shape = x.shape();
  if (!shape.empty()) shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] = number;
  const Tensor at = op.in("indices", places, int64);
  op.shape(at, shape);
  Tensor y;
  if (values != nullptr) {
    y = op.in("values", values, numbers);
    op.same_dtype(x, y);
    op.shape(y, shape);
  }
  op.run([=](Run& run) {
    const std::optional<View> to = view_if(run, y);
    numerics::top(run.view(x), number, dimension, falling, to ? &*to : nullptr, run.view(at));
  });
}

void softmax(Op& op, const aclTensor* self, std::int64_t dimension, bool logarithm, const aclTensor* out) {
  const Tensor x = op.in("self", self, wide_floats);  // "Softmax all, rank 0-8, also FP64, det."
  const Tensor y = op.out("out", out, wide_floats);
  (void)op.dimension(dimension, x.rank());
  op.shape(y, x.shape());
  op.run([=](Run& run) { numerics::softmax(run.view(x), dimension, logarithm, run.view(y)); });
}

void softmax_backward(Op& op, const aclTensor* gradient, const aclTensor* output, std::int64_t dimension,
                      bool logarithm, const aclTensor* out) {
  const Tensor dy = op.in("gradOutput", gradient, wide_floats);
  const Tensor y = op.in("output", output, wide_floats);
  const Tensor dx = op.out("out", out, wide_floats);
  (void)op.dimension(dimension, y.rank());
  op.same_dtype(dy, y);
  op.shape(dy, y.shape());
  op.shape(dx, y.shape());
  op.run([=](Run& run) { numerics::softmax_backward(run.view(dy), run.view(y), dimension, logarithm, run.view(dx)); });
}

void running_sum(Op& op, const aclTensor* self, std::int64_t dimension, bool exclusive, bool reverse,
                 const aclTensor* out) {
  const Tensor x = op.in("self", self, anything);
  const Tensor y = op.out("out", out, numbers);
  (void)op.dimension(dimension, x.rank());
  op.shape(y, x.shape());
  op.run([=](Run& run) { numerics::cumulative_sum(run.view(x), dimension, exclusive, reverse, run.view(y)); });
}

// Where each value of self goes into the sorted line so that it stays sorted.
void search(Op& op, const aclTensor* sequence, const aclTensor* self, std::optional<double> value, bool narrow,
            bool right, const aclTensor* out) {
  const Tensor line = op.in("sortedSequence", sequence, numbers);
  op.need(line.rank() == 1, "the fake searches one line");
  const Tensor y = op.out("out", out, narrow ? int32 : int64);
  const Tensor x = value ? line : op.in("self", self, numbers);
  op.shape(y, value ? Shape{} : x.shape());
  op.run([=](Run& run) {
    const std::vector<double> sorted = numerics::load_doubles(run.view(line));
    const std::vector<double> values = value ? std::vector<double>{*value} : numerics::load_doubles(run.view(x));
    std::vector<std::int64_t> places;
    for (const double wanted : values) {
      const auto at = right ? std::upper_bound(sorted.begin(), sorted.end(), wanted)
                            : std::lower_bound(sorted.begin(), sorted.end(), wanted);
      places.push_back(at - sorted.begin());
    }
    numerics::store(run.view(y), places);
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(ReduceSum, const aclTensor* self, const aclIntArray* dims, bool keepDims, aclDataType dtype, aclTensor* out) {
  return plan("aclnnReduceSum", workspaceSize, executor, [&](Op& op) {
    require_type(op, dtype, out);
    reduce(op, self, dimensions_of(op, dims), keepDims, out, anything, numbers, Reduction::kSum);
  });
}
FAKE_OP(Mean, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype, aclTensor* out) {
  return plan("aclnnMean", workspaceSize, executor, [&](Op& op) {
    require_type(op, dtype, out);
    reduce(op, self, dimensions_of(op, dim), keepDim, out, floats, floats, Reduction::kMean);
  });
}
FAKE_OP(Prod, const aclTensor* self, aclDataType dtype, aclTensor* out) {
  return plan("aclnnProd", workspaceSize, executor, [&](Op& op) {
    require_type(op, dtype, out);
    reduce(op, self, {}, false, out, numbers, numbers, Reduction::kProduct);
  });
}
FAKE_OP(Amax, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out) {
  return plan("aclnnAmax", workspaceSize, executor, [&](Op& op) {
    reduce(op, self, dimensions_of(op, dim), keepDim, out, anything, anything, Reduction::kMax);
  });
}
FAKE_OP(Amin, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out) {
  return plan("aclnnAmin", workspaceSize, executor, [&](Op& op) {
    reduce(op, self, dimensions_of(op, dim), keepDim, out, anything, anything, Reduction::kMin);
  });
}
FAKE_OP(Max, const aclTensor* self, aclTensor* out) {
  return plan("aclnnMax", workspaceSize, executor,
              [&](Op& op) { reduce(op, self, {}, false, out, anything, anything, Reduction::kMax); });
}
FAKE_OP(Min, const aclTensor* self, aclTensor* out) {
  return plan("aclnnMin", workspaceSize, executor,
              [&](Op& op) { reduce(op, self, {}, false, out, anything, anything, Reduction::kMin); });
}
FAKE_OP(All, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out) {
  return plan("aclnnAll", workspaceSize, executor, [&](Op& op) {
    reduce(op, self, dimensions_of(op, dim), keepdim, out, anything, bytes_or_truths, Reduction::kAll);
  });
}
FAKE_OP(Any, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out) {
  return plan("aclnnAny", workspaceSize, executor, [&](Op& op) {
    reduce(op, self, dimensions_of(op, dim), keepdim, out, anything, bytes_or_truths, Reduction::kAny);
  });
}
FAKE_OP(LogSumExp, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out) {
  return plan("aclnnLogSumExp", workspaceSize, executor, [&](Op& op) {
    reduce(op, self, op.array("dim", dim), keepDim, out, floats, floats, Reduction::kLogSumExp);
  });
}
FAKE_OP(MaxDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* places) {
  return plan("aclnnMaxDim", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(op.out("out", out, numbers));
    extreme(op, self, dim, keepdim, out, places, true);
  });
}
FAKE_OP(MinDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* places) {
  return plan("aclnnMinDim", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(op.out("out", out, numbers));
    extreme(op, self, dim, keepdim, out, places, false);
  });
}
FAKE_OP(ArgMax, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out) {
  return plan("aclnnArgMax", workspaceSize, executor,
              [&](Op& op) { extreme(op, self, dim, keepdim, nullptr, out, true); });
}
FAKE_OP(ArgMin, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out) {
  return plan("aclnnArgMin", workspaceSize, executor,
              [&](Op& op) { extreme(op, self, dim, keepdim, nullptr, out, false); });
}
FAKE_OP(Topk, const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor* valuesOut,
        aclTensor* indicesOut) {
  return plan("aclnnTopk", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(sorted);  // without it any order will do, and this is one
    static_cast<void>(op.in("values", valuesOut, numbers));
    op.need(k >= 0, "k should not be below 0");
    order(op, self, k, dim, largest, valuesOut, indicesOut);
  });
}
FAKE_OP(Sort, const aclTensor* self, bool stable, int64_t dim, bool descending, aclTensor* valuesOut,
        aclTensor* indicesOut) {
  return plan("aclnnSort", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(stable);
    static_cast<void>(op.in("values", valuesOut, numbers));
    order(op, self, -1, dim, descending, valuesOut, indicesOut);
  });
}
FAKE_OP(Argsort, const aclTensor* self, int64_t dim, bool descending, aclTensor* out) {
  return plan("aclnnArgsort", workspaceSize, executor,
              [&](Op& op) { order(op, self, -1, dim, descending, nullptr, out); });
}
FAKE_OP(Cumsum, const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out) {
  return plan("aclnnCumsum", workspaceSize, executor, [&](Op& op) {
    require_type(op, dtype, out);
    running_sum(op, self, dim, false, false, out);
  });
}
FAKE_OP(CumsumV2, const aclTensor* self, int64_t dim, bool exclusive, bool reverse, aclTensor* out) {
  return plan("aclnnCumsumV2", workspaceSize, executor,
              [&](Op& op) { running_sum(op, self, dim, exclusive, reverse, out); });
}
FAKE_OP(SearchSorted, const aclTensor* sortedSequence, const aclTensor* self, const bool outInt32, const bool right,
        const aclTensor* sorter, aclTensor* out) {
  return plan("aclnnSearchSorted", workspaceSize, executor, [&](Op& op) {
    absent("sorter", sorter);
    search(op, sortedSequence, self, std::nullopt, outInt32, right, out);
  });
}
FAKE_OP(SearchSorteds, const aclTensor* sortedSequence, const aclScalar* self, const bool outInt32, const bool right,
        const aclTensor* sorter, aclTensor* out) {
  return plan("aclnnSearchSorteds", workspaceSize, executor, [&](Op& op) {
    absent("sorter", sorter);
    search(op, sortedSequence, nullptr, op.number("self", self), outInt32, right, out);
  });
}
FAKE_OP(Bincount, const aclTensor* self, const aclTensor* weights, int64_t minlength, aclTensor* out) {
  return plan("aclnnBincount", workspaceSize, executor, [&](Op& op) {
    absent("weights", weights);
    const Tensor x = op.in("self", self, integers);
    const Tensor y = op.out("out", out, int64);
    op.need(y.rank() == 1 && y.dim(0) >= minlength, "out should have minlength elements at least");
    op.run([=](Run& run) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(y.count()));
      for (const std::int64_t value : numerics::load_integers(run.view(x))) {
        if (value < 0 || value >= y.count())
          refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "self holds " + std::to_string(value));
        ++counts[static_cast<std::size_t>(value)];
      }
      numerics::store(run.view(y), counts);
    });
  });
}
FAKE_OP(Softmax, const aclTensor* self, int64_t dim, aclTensor* out) {
  return plan("aclnnSoftmax", workspaceSize, executor, [&](Op& op) { softmax(op, self, dim, false, out); });
}
FAKE_OP(LogSoftmax, const aclTensor* self, int64_t dim, aclTensor* out) {
  return plan("aclnnLogSoftmax", workspaceSize, executor, [&](Op& op) { softmax(op, self, dim, true, out); });
}
FAKE_OP(SoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out) {
  return plan("aclnnSoftmaxBackward", workspaceSize, executor,
              [&](Op& op) { softmax_backward(op, gradOutput, output, dim, false, out); });
}
FAKE_OP(LogSoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out) {
  return plan("aclnnLogSoftmaxBackward", workspaceSize, executor,
              [&](Op& op) { softmax_backward(op, gradOutput, output, dim, true, out); });
}
