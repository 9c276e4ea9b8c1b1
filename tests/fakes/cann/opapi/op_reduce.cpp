// Sums, extremes, scans, order and softmax.
#include <cmath>

#include "backends/npu/cann/ops_reduce.h"
#include "elementwise.h"
#include "numerics_reduce.h"

namespace fake {
namespace {

using numerics::Reduction;

void reduce(Call& call, const aclTensor* self, const Shape& dimensions, bool keep, const aclTensor* out, Types from,
            Types to, Reduction reduction) {
  const Argument x = call.tensor("self", self, from);
  const Argument y = call.tensor("out", out, to);
  Shape shape = x.shape;
  std::vector<bool> gone(shape.size(), dimensions.empty());
  for (const std::int64_t dimension : dimensions) {
    call.require_dimension(dimension, x.rank());
    if (x.rank() == 0) continue;
    const auto at = static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()));
    call.require(!gone[at], "dim names a dimension twice");
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
  call.require_shape(y, shape);
  call.run([=](const Run& run) {
    numerics::reduce(run.view(x), x.rank() == 0 ? Shape{} : dimensions, reduction, run.view(y));
  });
}

Shape dimensions_of(Call& call, const aclIntArray* array) {
  return array != nullptr ? call.array("dim", array) : Shape{};
}

void require_type(Call& call, aclDataType type, const aclTensor* out) {
  aclDataType got = ACL_DT_UNDEFINED;
  if (out == nullptr) call.refuse(ACLNN_ERR_PARAM_NULLPTR, "out is null");
  aclGetDataType(out, &got);
  call.require(got == type, "dtype should be that of out");
}

void extreme(Call& call, const aclTensor* self, std::int64_t dimension, bool keep, const aclTensor* values,
             const aclTensor* places, bool largest) {
  const Argument x = call.tensor("self", self, numbers);
  const Argument at = call.tensor("indices", places, indices);
  call.require_dimension(dimension, x.rank());
  Shape shape = x.shape;
  const std::int64_t along = numerics::wrap_dimension(dimension, shape.size());
  if (keep) {
    shape[static_cast<std::size_t>(along)] = 1;
  } else {
    shape.erase(shape.begin() + along);
  }
  call.require_shape(at, shape);
  std::optional<Argument> y;
  if (values != nullptr) {
    y = call.tensor("out", values, numbers);
    call.require_same_type(x, *y);
    call.require_shape(*y, shape);
  }
  call.run([=](const Run& run) {
    const std::optional<View> to = run.view(y);
    numerics::arg_extreme(run.view(x), dimension, largest, to ? &*to : nullptr, run.view(at));
  });
}

void order(Call& call, const aclTensor* self, std::int64_t k, std::int64_t dimension, bool falling,
           const aclTensor* values, const aclTensor* places) {
  const Argument x = call.tensor("self", self, numbers);
  call.require_dimension(dimension, x.rank());
  const std::int64_t size = x.rank() == 0 ? 1 : x.size(dimension);
  const std::int64_t number = k < 0 ? size : k;
  call.require(number <= size, "k should not be above the size along dim");
  Shape shape = x.shape;
  if (!shape.empty()) shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] = number;
  const Argument at = call.tensor("indices", places, int64);
  call.require_shape(at, shape);
  std::optional<Argument> y;
  if (values != nullptr) {
    y = call.tensor("values", values, numbers);
    call.require_same_type(x, *y);
    call.require_shape(*y, shape);
  }
  call.run([=](const Run& run) {
    const std::optional<View> to = run.view(y);
    numerics::top(run.view(x), number, dimension, falling, to ? &*to : nullptr, run.view(at));
  });
}

inline constexpr Types softmax_types = {Element::kFloat32, Element::kFloat16, Element::kBfloat16, Element::kFloat64};

void softmax(Call& call, const aclTensor* self, std::int64_t dimension, bool logarithm, const aclTensor* out) {
  const Argument x = call.tensor("self", self, softmax_types);  // "Softmax all, rank 0-8, also FP64, det."
  const Argument y = call.tensor("out", out, softmax_types);
  call.require_dimension(dimension, x.rank());
  call.require_shape(y, x.shape);
  call.run([=](const Run& run) { numerics::softmax(run.view(x), dimension, logarithm, run.view(y)); });
}

void softmax_backward(Call& call, const aclTensor* gradient, const aclTensor* output, std::int64_t dimension,
                      bool logarithm, const aclTensor* out) {
  const Argument dy = call.tensor("gradOutput", gradient, softmax_types);
  const Argument y = call.tensor("output", output, softmax_types);
  const Argument dx = call.tensor("out", out, softmax_types);
  call.require_dimension(dimension, y.rank());
  call.require_same_type(dy, y);
  call.require_shape(dy, y.shape);
  call.require_shape(dx, y.shape);
  call.run([=](const Run& run) {
    numerics::softmax_backward(run.view(dy), run.view(y), dimension, logarithm, run.view(dx));
  });
}

void running_sum(Call& call, const aclTensor* self, std::int64_t dimension, bool exclusive, bool reverse,
                 const aclTensor* out) {
  const Argument x = call.tensor("self", self, anything);
  const Argument y = call.tensor("out", out, numbers);
  call.require_dimension(dimension, x.rank());
  call.require_shape(y, x.shape);
  call.run([=](const Run& run) { numerics::cumulative_sum(run.view(x), dimension, exclusive, reverse, run.view(y)); });
}

// Where each value of self goes into the sorted line so that it stays sorted.
void search(Call& call, const aclTensor* sequence, const aclTensor* self, std::optional<double> value, bool narrow,
            bool right, const aclTensor* out) {
  const Argument line = call.tensor("sortedSequence", sequence, numbers);
  call.require(line.rank() == 1, "the fake searches one line");
  const Argument y = call.tensor("out", out, narrow ? int32 : int64);
  const Argument x = value ? line : call.tensor("self", self, numbers);
  call.require_shape(y, value ? Shape{} : x.shape);
  call.run([=](const Run& run) {
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
  FAKE_PLAN([&](Call& call) {
    require_type(call, dtype, out);
    reduce(call, self, dimensions_of(call, dims), keepDims, out, anything, numbers, Reduction::kSum);
  });
}
FAKE_OP(Mean, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    require_type(call, dtype, out);
    reduce(call, self, dimensions_of(call, dim), keepDim, out, floats, floats, Reduction::kMean);
  });
}
FAKE_OP(Prod, const aclTensor* self, aclDataType dtype, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    require_type(call, dtype, out);
    reduce(call, self, {}, false, out, numbers, numbers, Reduction::kProduct);
  });
}
FAKE_OP(Amax, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    reduce(call, self, dimensions_of(call, dim), keepDim, out, anything, anything, Reduction::kMax);
  });
}
FAKE_OP(Amin, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    reduce(call, self, dimensions_of(call, dim), keepDim, out, anything, anything, Reduction::kMin);
  });
}
FAKE_OP(Max, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { reduce(call, self, {}, false, out, anything, anything, Reduction::kMax); });
}
FAKE_OP(Min, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { reduce(call, self, {}, false, out, anything, anything, Reduction::kMin); });
}
FAKE_OP(All, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    reduce(call, self, dimensions_of(call, dim), keepdim, out, anything, bytes_or_truths, Reduction::kAll);
  });
}
FAKE_OP(Any, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    reduce(call, self, dimensions_of(call, dim), keepdim, out, anything, bytes_or_truths, Reduction::kAny);
  });
}
FAKE_OP(LogSumExp, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    reduce(call, self, call.array("dim", dim), keepDim, out, floats, floats, Reduction::kLogSumExp);
  });
}
FAKE_OP(MaxDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* places) {
  FAKE_PLAN([&](Call& call) {
    static_cast<void>(call.tensor("out", out, numbers));
    extreme(call, self, dim, keepdim, out, places, true);
  });
}
FAKE_OP(MinDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* places) {
  FAKE_PLAN([&](Call& call) {
    static_cast<void>(call.tensor("out", out, numbers));
    extreme(call, self, dim, keepdim, out, places, false);
  });
}
FAKE_OP(ArgMax, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { extreme(call, self, dim, keepdim, nullptr, out, true); });
}
FAKE_OP(ArgMin, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { extreme(call, self, dim, keepdim, nullptr, out, false); });
}
FAKE_OP(Topk, const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor* valuesOut,
        aclTensor* indicesOut) {
  FAKE_PLAN([&](Call& call) {
    static_cast<void>(sorted);  // without it any order will do, and this is one
    static_cast<void>(call.tensor("values", valuesOut, numbers));
    call.require(k >= 0, "k should not be below 0");
    order(call, self, k, dim, largest, valuesOut, indicesOut);
  });
}
FAKE_OP(Sort, const aclTensor* self, bool stable, int64_t dim, bool descending, aclTensor* valuesOut,
        aclTensor* indicesOut) {
  FAKE_PLAN([&](Call& call) {
    static_cast<void>(stable);
    static_cast<void>(call.tensor("values", valuesOut, numbers));
    order(call, self, -1, dim, descending, valuesOut, indicesOut);
  });
}
FAKE_OP(Argsort, const aclTensor* self, int64_t dim, bool descending, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { order(call, self, -1, dim, descending, nullptr, out); });
}
FAKE_OP(Cumsum, const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    require_type(call, dtype, out);
    running_sum(call, self, dim, false, false, out);
  });
}
FAKE_OP(CumsumV2, const aclTensor* self, int64_t dim, bool exclusive, bool reverse, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { running_sum(call, self, dim, exclusive, reverse, out); });
}
FAKE_OP(SearchSorted, const aclTensor* sortedSequence, const aclTensor* self, const bool outInt32, const bool right,
        const aclTensor* sorter, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.absent("sorter", sorter);
    search(call, sortedSequence, self, std::nullopt, outInt32, right, out);
  });
}
FAKE_OP(SearchSorteds, const aclTensor* sortedSequence, const aclScalar* self, const bool outInt32, const bool right,
        const aclTensor* sorter, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.absent("sorter", sorter);
    search(call, sortedSequence, nullptr, call.number("self", self), outInt32, right, out);
  });
}
FAKE_OP(Bincount, const aclTensor* self, const aclTensor* weights, int64_t minlength, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.absent("weights", weights);
    const Argument x = call.tensor("self", self, integers);
    const Argument y = call.tensor("out", out, int64);
    call.require(y.rank() == 1 && y.size(0) >= minlength, "out should have minlength elements at least");
    call.run([=](const Run& run) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(y.count()));
      for (const std::int64_t value : numerics::load_integers(run.view(x))) {
        if (value < 0 || value >= y.count()) run.fault("self holds " + std::to_string(value));
        ++counts[static_cast<std::size_t>(value)];
      }
      numerics::store(run.view(y), counts);
    });
  });
}
FAKE_OP(Softmax, const aclTensor* self, int64_t dim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { softmax(call, self, dim, false, out); });
}
FAKE_OP(LogSoftmax, const aclTensor* self, int64_t dim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { softmax(call, self, dim, true, out); });
}
FAKE_OP(SoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { softmax_backward(call, gradOutput, output, dim, false, out); });
}
FAKE_OP(LogSoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { softmax_backward(call, gradOutput, output, dim, true, out); });
}
