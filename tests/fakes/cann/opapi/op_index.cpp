// Gathers and scatters. An index out of range is a device error where CANN says so, and elsewhere too: real devices
// read or write what isn't theirs, which a test must see.
#include <cmath>

#include "arguments.h"
#include "backends/npu/cann/ops_movement.h"
#include "backends/npu/cann/ops_nn.h"
#include "numerics_reduce.h"

namespace fake {
namespace {

std::vector<std::int64_t> indices_of(Run& run, const Tensor& index, std::int64_t limit, bool wraps) {
  std::vector<std::int64_t> values = numerics::load_integers(run.view(index));
  for (std::int64_t& value : values) {
    if (wraps && value < 0) value += limit;
    if (value < 0 || value >= limit) {
      refuse(ACL_ERROR_RT_AICORE_EXCEPTION,
             index.name + " holds " + std::to_string(value) + ", which is out of [0, " + std::to_string(limit) + ")");
    }
  }
  return values;
}

void take_rows(Op& op, const aclTensor* self, std::int64_t dimension, const aclTensor* index, const aclTensor* out,
               std::optional<std::int64_t> rank) {
  const Tensor x = op.in("self", self, anything);
  const Tensor i = op.in("index", index, indices);
  const Tensor y = op.out("out", out, anything);
  op.same_dtype(x, y);
  (void)op.dimension(dimension, x.rank());
  op.need(!rank || i.rank() == *rank || i.rank() == 0, "index should have one dimension");
  const std::int64_t at = numerics::wrap_dimension(dimension, x.shape().size());
  Shape shape(x.shape().begin(), x.shape().begin() + at);
  shape.insert(shape.end(), i.shape().begin(), i.shape().end());
  shape.insert(shape.end(), x.shape().begin() + at + 1, x.shape().end());
  op.shape(y, shape);
  op.run([=](Run& run) { numerics::take(run.view(x), at, indices_of(run, i, x.dim(at), true), run.view(y)); });
}

void require_index_shape(Op& op, const Tensor& self, std::int64_t dimension, const Tensor& index) {
  (void)op.dimension(dimension, self.rank());
  op.need(index.rank() == self.rank(), "index should have as many dimensions as self");
  const auto at = static_cast<std::size_t>(numerics::wrap_dimension(dimension, self.shape().size()));
  for (std::size_t i = 0; i < self.shape().size(); ++i) {
    op.need(i == at || index.shape()[i] <= self.shape()[i], "index should not be larger than self but along dim");
  }
}

struct Scatter {
  const aclTensor* self;
  std::int64_t dimension;
  const aclTensor* index;
  const aclTensor* source;
  const aclTensor* out;
};

void scatter(Op& op, const Scatter& given, bool add, const std::optional<double>& value) {
  const Tensor x = op.in("self", given.self, anything);
  const Tensor i = op.in("index", given.index, indices);
  const Tensor y = op.out("out", given.out, anything);
  const Tensor source = value ? i : op.in("src", given.source, anything);
  require_index_shape(op, x, given.dimension, i);
  op.same_dtype(x, y);
  op.shape(y, x.shape());
  if (!value) {
    op.same_dtype(x, source);
    op.need(source.rank() == i.rank(), "src should have as many dimensions as index");
    for (std::size_t j = 0; j < i.shape().size(); ++j) {
      op.need(i.shape()[j] <= source.shape()[j], "index should not be larger than src");
    }
  }
  const std::int64_t dimension = given.dimension;
  const bool in_place = given.self == given.out;
  op.run([=](Run& run) {
    static_cast<void>(indices_of(run, i, x.dim(dimension), false));
    if (!in_place) numerics::copy(run.view(y), run.view(x));
    std::vector<double> filling(1, value.value_or(0));
    View from = value ? numerics::broadcast(numerics::view_of(filling, {1}), i.shape()) : run.view(source);
    numerics::scatter(run.view(y), dimension, run.view(i), from, add);
  });
}

// dim, index [n] and source [.., n, ..] into y, which holds self.
void put_rows(Op& op, const Tensor& y, std::int64_t dimension, const Tensor& index, const Tensor& source, bool add,
              double alpha, const Tensor& self) {
  (void)op.dimension(dimension, y.rank());
  op.same_dtype(y, source);
  op.need(index.rank() <= 1, "index should have one dimension");
  Shape shape = y.shape();
  shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] = index.count();
  op.shape(source, shape);
  op.run([=](Run& run) {
    if (self) numerics::copy(run.view(y), run.view(self));
    numerics::put(run.view(y), dimension, indices_of(run, index, y.dim(dimension), false), run.view(source), add, alpha,
                  run.shuffle());
  });
}

bool reduces(Op& op, std::int64_t reduce) {
  op.need(reduce == 0 || reduce == 1, "reduce should be 0 (none) or 1 (add); the fake doesn't multiply");
  return reduce == 1;
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(GatherV2, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out) {
  return plan("aclnnGatherV2", workspaceSize, executor,
              [&](Op& op) { take_rows(op, self, dim, index, out, std::nullopt); });
}
FAKE_OP(IndexSelect, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out) {
  return plan("aclnnIndexSelect", workspaceSize, executor, [&](Op& op) { take_rows(op, self, dim, index, out, 1); });
}
FAKE_OP(Gather, const aclTensor* self, const int64_t dim, const aclTensor* index, aclTensor* out) {
  return plan("aclnnGather", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, anything);
    const Tensor i = op.in("index", index, indices);
    const Tensor y = op.out("out", out, anything);
    require_index_shape(op, x, dim, i);
    op.same_dtype(x, y);
    op.shape(y, i.shape());
    op.run([=](Run& run) {
      static_cast<void>(indices_of(run, i, x.dim(dim), false));
      numerics::gather(run.view(x), dim, run.view(i), run.view(y));
    });
  });
}
FAKE_OP(Scatter, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src, int64_t reduce,
        aclTensor* out) {
  return plan("aclnnScatter", workspaceSize, executor, [&](Op& op) {
    scatter(op, {self, dim, index, src, out}, reduces(op, reduce), std::nullopt);
  });
}
FAKE_OP(InplaceScatter, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclTensor* src, int64_t reduce) {
  return plan("aclnnInplaceScatter", workspaceSize, executor, [&](Op& op) {
    scatter(op, {selfRef, dim, index, src, selfRef}, reduces(op, reduce), std::nullopt);
  });
}
FAKE_OP(ScatterValue, const aclTensor* self, int64_t dim, const aclTensor* index, const aclScalar* value,
        int64_t reduce, aclTensor* out) {
  return plan("aclnnScatterValue", workspaceSize, executor, [&](Op& op) {
    scatter(op, {self, dim, index, nullptr, out}, reduces(op, reduce), op.number("value", value));
  });
}
FAKE_OP(InplaceScatterValue, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclScalar* value,
        int64_t reduce) {
  return plan("aclnnInplaceScatterValue", workspaceSize, executor, [&](Op& op) {
    scatter(op, {selfRef, dim, index, nullptr, selfRef}, reduces(op, reduce), op.number("value", value));
  });
}
FAKE_OP(ScatterAdd, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src, aclTensor* out) {
  return plan("aclnnScatterAdd", workspaceSize, executor, [&](Op& op) {
    op.chips(a2_a3_a5);  // "ScatterAdd, IndexAdd, InplaceIndexCopy A2 A3 A5"
    scatter(op, {self, dim, index, src, out}, true, std::nullopt);
  });
}
FAKE_OP(IndexAdd, const aclTensor* self, const int64_t dim, const aclTensor* index, const aclTensor* source,
        const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnIndexAdd", workspaceSize, executor, [&](Op& op) {
    op.chips(a2_a3_a5);
    const Tensor x = op.in("self", self, anything);
    const Tensor y = op.out("out", out, anything);
    op.same_dtype(x, y);
    op.shape(y, x.shape());
    put_rows(op, y, dim, op.in("index", index, indices), op.in("source", source, anything), true,
             op.number("alpha", alpha), self == out ? Tensor{} : x);
  });
}
FAKE_OP(InplaceIndexCopy, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclTensor* source) {
  return plan("aclnnInplaceIndexCopy", workspaceSize, executor, [&](Op& op) {
    op.chips(a2_a3_a5);
    put_rows(op, op.out("selfRef", selfRef, anything), dim, op.in("index", index, indices),
             op.in("source", source, anything), false, 1, {});
  });
}
FAKE_OP(InplaceScatterUpdate, aclTensor* data, const aclTensor* indices_given, const aclTensor* updates, int64_t axis) {
  return plan("aclnnInplaceScatterUpdate", workspaceSize, executor, [&](Op& op) {
    op.chips(not_310p);  // "InplaceScatterUpdate, IndexPutImpl not 310P"
    // data [b, s, ...], indices [b] or [b, s'], updates [b, s', ...]: rows of each batch go where its index begins.
    const Tensor x = op.in("data", data, anything);
    const Tensor i = op.in("indices", indices_given, indices);
    const Tensor source = op.in("updates", updates, anything);
    op.same_dtype(x, source);
    op.need(x.rank() == source.rank() && x.rank() >= 3 && (axis == -2 || axis == x.rank() - 2),
            "axis should be -2, and data and updates of one rank above 2");
    op.need(i.rank() == 1 && i.dim(0) == x.dim(0), "indices should be [batch]");
    op.run([=](Run& run) {
      const std::int64_t rows = source.dim(axis);
      const std::vector<std::int64_t> starts = indices_of(run, i, x.dim(axis) - rows + 1, false);
      for (std::int64_t batch = 0; batch < x.dim(0); ++batch) {
        const View to = numerics::select(run.view(x), 0, batch);
        numerics::copy(numerics::narrow(to, -2, starts[static_cast<std::size_t>(batch)], rows),
                       numerics::select(run.view(source), 0, batch));
      }
    });
  });
}
FAKE_OP(ScatterNdUpdate, aclTensor* varRef, const aclTensor* indices_given, const aclTensor* updates) {
  return plan("aclnnScatterNdUpdate", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.out("varRef", varRef, anything);
    const Tensor i = op.in("indices", indices_given, indices);
    const Tensor source = op.in("updates", updates, anything);
    op.same_dtype(x, source);
    op.need(i.rank() == 2 && i.dim(-1) == 1, "the fake takes indices [rows, 1]");
    Shape shape = x.shape();
    shape[0] = i.dim(0);
    op.shape(source, shape);
    op.run(
        [=](Run& run) { numerics::put(run.view(x), 0, indices_of(run, i, x.dim(0), false), run.view(source), false); });
  });
}
FAKE_OP(IndexPutImpl, aclTensor* selfRef, const aclTensorList* indices_given, const aclTensor* values,
        const bool accumulate, const bool unsafe) {
  return plan("aclnnIndexPutImpl", workspaceSize, executor, [&](Op& op) {
    op.chips(not_310p);
    static_cast<void>(unsafe);  // whether the range is checked; here it is
    const Tensor x = op.out("selfRef", selfRef, anything);
    const std::vector<Tensor> list = op.list("indices", indices_given, indices);
    const Tensor source = op.in("values", values, anything);
    op.need(list.size() == 1 && list[0].rank() == 1, "the fake takes one index of one dimension");
    Shape shape = x.shape();
    shape[0] = list[0].count();
    op.need(broadcast_shape(op, source.shape(), shape) == shape, "values should broadcast to " + text_of(shape));
    op.same_dtype(x, source);
    op.run([=](Run& run) {
      numerics::put(run.view(x), 0, indices_of(run, list[0], x.dim(0), true),
                    numerics::broadcast(run.view(source), shape), accumulate, 1, run.shuffle());
    });
  });
}
FAKE_OP(Index, const aclTensor* self, const aclTensorList* indices_given, aclTensor* out) {
  return plan("aclnnIndex", workspaceSize, executor, [&](Op& op) {
    const std::vector<Tensor> list = op.list("indices", indices_given, indices);
    op.need(list.size() == 1, "the fake takes one index, of the first dimension");
    const Tensor x = op.in("self", self, anything);
    const Tensor y = op.out("out", out, anything);
    Shape shape = list[0].shape();
    shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
    op.same_dtype(x, y);
    op.shape(y, shape);
    op.run([=](Run& run) { numerics::take(run.view(x), 0, indices_of(run, list[0], x.dim(0), true), run.view(y)); });
  });
}
FAKE_OP(OneHot, const aclTensor* self, int numClasses, const aclTensor* onValue, const aclTensor* offValue,
        int64_t axis, aclTensor* out) {
  return plan("aclnnOneHot", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, indices);
    const Tensor on = op.in("onValue", onValue, anything);
    const Tensor off = op.in("offValue", offValue, anything);
    const Tensor y = op.out("out", out, anything);
    op.same_dtype(on, off);
    op.same_dtype(on, y);
    op.need(on.count() == 1 && off.count() == 1, "onValue and offValue should have one element");
    op.need(axis == -1 || axis == x.rank(), "the fake puts classes last");
    Shape shape = x.shape();
    shape.push_back(numClasses);
    op.shape(y, shape);
    op.run([=](Run& run) {
      std::vector<double> classes(static_cast<std::size_t>(numClasses));
      for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<double>(i);
      numerics::map(
          run.view(y), [](double id, double place, double yes, double no) { return id == place ? yes : no; },
          numerics::unsqueeze(run.view(x), -1), numerics::view_of(classes, {numClasses}), run.view(on), run.view(off));
    });
  });
}
FAKE_OP(Embedding, const aclTensor* weight, const aclTensor* indices_given, const aclTensor* out) {
  return plan("aclnnEmbedding", workspaceSize, executor, [&](Op& op) {
    const Tensor table = op.in("weight", weight, anything);
    const Tensor ids = op.in("indices", indices_given, indices);
    const Tensor y = op.out("out", out, anything);
    op.need(table.rank() == 2, "weight should have two dimensions");  // "Embedding all chips: weight 2-D"
    op.same_dtype(table, y);
    Shape shape = ids.shape();
    shape.push_back(table.dim(1));
    op.shape(y, shape);
    op.run([=](Run& run) {
      // "negative = device error, too large = random output".
      std::vector<std::int64_t> rows = numerics::load_integers(run.view(ids));
      for (std::int64_t& row : rows) {
        if (row < 0) refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "indices holds " + std::to_string(row));
        row %= table.dim(0);
      }
      numerics::take(run.view(table), 0, rows, run.view(y));
    });
  });
}
FAKE_OP(EmbeddingDenseBackward, const aclTensor* grad, const aclTensor* indices_given, uint64_t numWeights,
        uint64_t paddingIdx, bool scaleGradByFreq, const aclTensor* out) {
  return plan("aclnnEmbeddingDenseBackward", workspaceSize, executor, [&](Op& op) {
    op.chips(not_310p);  // "EmbeddingDenseBackward 910 A2 A3 A5, NOT 310P: grad 2-8 D, numel(indices) = rows"
    const Tensor dy = op.in("grad", grad, floats);
    const Tensor ids = op.in("indices", indices_given, indices);
    const Tensor y = op.out("out", out, floats);
    op.need(dy.rank() >= 2, "grad should have two dimensions at least");
    const std::int64_t width = dy.dim(-1);
    op.need(ids.count() * width == dy.count(), "indices should have an element a row of grad");
    op.same_dtype(dy, y);
    op.shape(y, {static_cast<std::int64_t>(numWeights), width});
    op.need(!scaleGradByFreq, "the fake doesn't scale by frequency");
    op.run([=](Run& run) {
      const auto padding = static_cast<std::int64_t>(paddingIdx);
      std::vector<std::int64_t> rows = numerics::load_integers(run.view(ids));
      std::vector<float> gradients = numerics::load(run.view(dy));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] < 0 || rows[i] >= static_cast<std::int64_t>(numWeights))
          refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "indices holds " + std::to_string(rows[i]));
        if (rows[i] == padding) std::fill_n(gradients.begin() + static_cast<std::int64_t>(i) * width, width, 0.0F);
      }
      const View to = run.view(y);
      numerics::fill(to, 0);
      numerics::put(to, 0, rows, numerics::view_of(gradients, {ids.count(), width}), true, 1, run.shuffle());
    });
  });
}
