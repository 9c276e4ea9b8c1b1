// Gathers and scatters. An index out of range is a device error where CANN says so, and elsewhere too: real devices
// read or write what isn't theirs, which a test must see.
#include <cmath>

#include "backends/npu/cann/ops_movement.h"
#include "backends/npu/cann/ops_nn.h"
#include "call.h"
#include "numerics_reduce.h"

namespace fake {
namespace {

std::vector<std::int64_t> indices_of(const Run& run, const Argument& index, std::int64_t limit, bool wraps) {
  std::vector<std::int64_t> values = numerics::load_integers(run.view(index));
  for (std::int64_t& value : values) {
    if (wraps && value < 0) value += limit;
    if (value < 0 || value >= limit) {
      run.fault(index.name + " holds " + std::to_string(value) + ", which is out of [0, " + std::to_string(limit) +
                ")");
    }
  }
  return values;
}

void take_rows(Call& call, const aclTensor* self, std::int64_t dimension, const aclTensor* index, const aclTensor* out,
               std::optional<std::int64_t> rank) {
  const Argument x = call.tensor("self", self, anything);
  const Argument i = call.tensor("index", index, indices);
  const Argument y = call.tensor("out", out, anything);
  call.require_same_type(x, y);
  call.require_dimension(dimension, x.rank());
  call.require(!rank || i.rank() == *rank || i.rank() == 0, "index should have one dimension");
  const std::int64_t at = numerics::wrap_dimension(dimension, x.shape.size());
  Shape shape(x.shape.begin(), x.shape.begin() + at);
  shape.insert(shape.end(), i.shape.begin(), i.shape.end());
  shape.insert(shape.end(), x.shape.begin() + at + 1, x.shape.end());
  call.require_shape(y, shape);
  call.run([=](const Run& run) { numerics::take(run.view(x), at, indices_of(run, i, x.size(at), true), run.view(y)); });
}

void require_index_shape(Call& call, const Argument& self, std::int64_t dimension, const Argument& index) {
  call.require_dimension(dimension, self.rank());
  call.require(index.rank() == self.rank(), "index should have as many dimensions as self");
  const auto at = static_cast<std::size_t>(numerics::wrap_dimension(dimension, self.shape.size()));
  for (std::size_t i = 0; i < self.shape.size(); ++i) {
    call.require(i == at || index.shape[i] <= self.shape[i], "index should not be larger than self but along dim");
  }
}

struct Scatter {
  const aclTensor* self;
  std::int64_t dimension;
  const aclTensor* index;
  const aclTensor* source;
  const aclTensor* out;
};

void scatter(Call& call, const Scatter& op, bool add, const std::optional<double>& value) {
  const Argument x = call.tensor("self", op.self, anything);
  const Argument i = call.tensor("index", op.index, indices);
  const Argument y = call.tensor("out", op.out, anything);
  const Argument source = value ? i : call.tensor("src", op.source, anything);
  require_index_shape(call, x, op.dimension, i);
  call.require_same_type(x, y);
  call.require_shape(y, x.shape);
  if (!value) {
    call.require_same_type(x, source);
    call.require(source.rank() == i.rank(), "src should have as many dimensions as index");
    for (std::size_t j = 0; j < i.shape.size(); ++j) {
      call.require(i.shape[j] <= source.shape[j], "index should not be larger than src");
    }
  }
  const std::int64_t dimension = op.dimension;
  if (add) call.nondeterministic();
  call.run([=](const Run& run) {
    static_cast<void>(indices_of(run, i, x.size(dimension), false));
    if (x.slot != y.slot) numerics::copy(run.view(y), run.view(x));
    std::vector<double> filling(1, value.value_or(0));
    View from = value ? numerics::broadcast(numerics::view_of(filling, {1}), i.shape) : run.view(source);
    numerics::scatter(run.view(y), dimension, run.view(i), from, add);
  });
}

// dim, index [n] and source [.., n, ..] into y, which holds self.
void put_rows(Call& call, const Argument& y, std::int64_t dimension, const Argument& index, const Argument& source,
              bool add, double alpha, const std::optional<Argument>& self) {
  call.require_dimension(dimension, y.rank());
  call.require_same_type(y, source);
  call.require(index.rank() <= 1, "index should have one dimension");
  Shape shape = y.shape;
  shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] = index.count();
  call.require_shape(source, shape);
  if (add) call.nondeterministic();
  call.run([=](const Run& run) {
    if (self) numerics::copy(run.view(y), run.view(*self));
    numerics::put(run.view(y), dimension, indices_of(run, index, y.size(dimension), false), run.view(source), add,
                  alpha, run.shuffle());
  });
}

bool reduces(Call& call, std::int64_t reduce) {
  call.require(reduce == 0 || reduce == 1, "reduce should be 0 (none) or 1 (add); the fake doesn't multiply");
  return reduce == 1;
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(GatherV2, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { take_rows(call, self, dim, index, out, std::nullopt); });
}
FAKE_OP(IndexSelect, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { take_rows(call, self, dim, index, out, 1); });
}
FAKE_OP(Gather, const aclTensor* self, const int64_t dim, const aclTensor* index, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, anything);
    const Argument i = call.tensor("index", index, indices);
    const Argument y = call.tensor("out", out, anything);
    require_index_shape(call, x, dim, i);
    call.require_same_type(x, y);
    call.require_shape(y, i.shape);
    call.run([=](const Run& run) {
      static_cast<void>(indices_of(run, i, x.size(dim), false));
      numerics::gather(run.view(x), dim, run.view(i), run.view(y));
    });
  });
}
FAKE_OP(Scatter, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src, int64_t reduce,
        aclTensor* out) {
  FAKE_PLAN([&](Call& call) { scatter(call, {self, dim, index, src, out}, reduces(call, reduce), std::nullopt); });
}
FAKE_OP(InplaceScatter, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclTensor* src, int64_t reduce) {
  FAKE_PLAN([&](Call& call) {
    scatter(call, {selfRef, dim, index, src, selfRef}, reduces(call, reduce), std::nullopt);
  });
}
FAKE_OP(ScatterValue, const aclTensor* self, int64_t dim, const aclTensor* index, const aclScalar* value,
        int64_t reduce, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    scatter(call, {self, dim, index, nullptr, out}, reduces(call, reduce), call.number("value", value));
  });
}
FAKE_OP(InplaceScatterValue, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclScalar* value,
        int64_t reduce) {
  FAKE_PLAN([&](Call& call) {
    scatter(call, {selfRef, dim, index, nullptr, selfRef}, reduces(call, reduce), call.number("value", value));
  });
}
FAKE_OP(ScatterAdd, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.available(a2_a3_a5);  // "ScatterAdd, IndexAdd, InplaceIndexCopy A2 A3 A5"
    scatter(call, {self, dim, index, src, out}, true, std::nullopt);
  });
}
FAKE_OP(IndexAdd, const aclTensor* self, const int64_t dim, const aclTensor* index, const aclTensor* source,
        const aclScalar* alpha, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.available(a2_a3_a5);
    const Argument x = call.tensor("self", self, anything);
    const Argument y = call.tensor("out", out, anything);
    call.require_same_type(x, y);
    call.require_shape(y, x.shape);
    put_rows(call, y, dim, call.tensor("index", index, indices), call.tensor("source", source, anything), true,
             call.number("alpha", alpha), x.slot == y.slot ? std::nullopt : std::optional(x));
  });
}
FAKE_OP(InplaceIndexCopy, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclTensor* source) {
  FAKE_PLAN([&](Call& call) {
    call.available(a2_a3_a5);
    put_rows(call, call.tensor("selfRef", selfRef, anything), dim, call.tensor("index", index, indices),
             call.tensor("source", source, anything), false, 1, std::nullopt);
  });
}
FAKE_OP(InplaceScatterUpdate, aclTensor* data, const aclTensor* indices_given, const aclTensor* updates, int64_t axis) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_310p);  // "InplaceScatterUpdate, IndexPutImpl not 310P"
    // data [b, s, ...], indices [b] or [b, s'], updates [b, s', ...]: rows of each batch go where its index begins.
    const Argument x = call.tensor("data", data, anything);
    const Argument i = call.tensor("indices", indices_given, indices);
    const Argument source = call.tensor("updates", updates, anything);
    call.require_same_type(x, source);
    call.require(x.rank() == source.rank() && x.rank() >= 3 && (axis == -2 || axis == x.rank() - 2),
                 "axis should be -2, and data and updates of one rank above 2");
    call.require(i.rank() == 1 && i.size(0) == x.size(0), "indices should be [batch]");
    call.run([=](const Run& run) {
      const std::int64_t rows = source.size(axis);
      const std::vector<std::int64_t> starts = indices_of(run, i, x.size(axis) - rows + 1, false);
      for (std::int64_t batch = 0; batch < x.size(0); ++batch) {
        const View to = numerics::select(run.view(x), 0, batch);
        numerics::copy(numerics::narrow(to, -2, starts[static_cast<std::size_t>(batch)], rows),
                       numerics::select(run.view(source), 0, batch));
      }
    });
  });
}
FAKE_OP(ScatterNdUpdate, aclTensor* varRef, const aclTensor* indices_given, const aclTensor* updates) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("varRef", varRef, anything);
    const Argument i = call.tensor("indices", indices_given, indices);
    const Argument source = call.tensor("updates", updates, anything);
    call.require_same_type(x, source);
    call.require(i.rank() == 2 && i.size(-1) == 1, "the fake takes indices [rows, 1]");
    Shape shape = x.shape;
    shape[0] = i.size(0);
    call.require_shape(source, shape);
    call.run([=](const Run& run) {
      numerics::put(run.view(x), 0, indices_of(run, i, x.size(0), false), run.view(source), false);
    });
  });
}
FAKE_OP(IndexPutImpl, aclTensor* selfRef, const aclTensorList* indices_given, const aclTensor* values,
        const bool accumulate, const bool unsafe) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_310p);
    static_cast<void>(unsafe);  // whether the range is checked; here it is
    const Argument x = call.tensor("selfRef", selfRef, anything);
    const std::vector<Argument> list = call.list("indices", indices_given, indices);
    const Argument source = call.tensor("values", values, anything);
    call.require(list.size() == 1 && list[0].rank() == 1, "the fake takes one index of one dimension");
    Shape shape = x.shape;
    shape[0] = list[0].count();
    call.require(broadcast_shape(call, source.shape, shape) == shape, "values should broadcast to " + text_of(shape));
    call.require_same_type(x, source);
    if (accumulate) call.nondeterministic();
    call.run([=](const Run& run) {
      numerics::put(run.view(x), 0, indices_of(run, list[0], x.size(0), true),
                    numerics::broadcast(run.view(source), shape), accumulate, 1, run.shuffle());
    });
  });
}
FAKE_OP(Index, const aclTensor* self, const aclTensorList* indices_given, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const std::vector<Argument> list = call.list("indices", indices_given, indices);
    call.require(list.size() == 1, "the fake takes one index, of the first dimension");
    const Argument x = call.tensor("self", self, anything);
    const Argument y = call.tensor("out", out, anything);
    Shape shape = list[0].shape;
    shape.insert(shape.end(), x.shape.begin() + 1, x.shape.end());
    call.require_same_type(x, y);
    call.require_shape(y, shape);
    call.run([=](const Run& run) {
      numerics::take(run.view(x), 0, indices_of(run, list[0], x.size(0), true), run.view(y));
    });
  });
}
FAKE_OP(OneHot, const aclTensor* self, int numClasses, const aclTensor* onValue, const aclTensor* offValue,
        int64_t axis, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, indices);
    const Argument on = call.tensor("onValue", onValue, anything);
    const Argument off = call.tensor("offValue", offValue, anything);
    const Argument y = call.tensor("out", out, anything);
    call.require_same_type(on, off);
    call.require_same_type(on, y);
    call.require(on.count() == 1 && off.count() == 1, "onValue and offValue should have one element");
    call.require(axis == -1 || axis == x.rank(), "the fake puts classes last");
    Shape shape = x.shape;
    shape.push_back(numClasses);
    call.require_shape(y, shape);
    call.run([=](const Run& run) {
      std::vector<double> classes(static_cast<std::size_t>(numClasses));
      for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<double>(i);
      numerics::map(
          run.view(y), [](double id, double place, double yes, double no) { return id == place ? yes : no; },
          numerics::unsqueeze(run.view(x), -1), numerics::view_of(classes, {numClasses}), run.view(on), run.view(off));
    });
  });
}
FAKE_OP(Embedding, const aclTensor* weight, const aclTensor* indices_given, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument table = call.tensor("weight", weight, anything);
    const Argument ids = call.tensor("indices", indices_given, indices);
    const Argument y = call.tensor("out", out, anything);
    call.require(table.rank() == 2, "weight should have two dimensions");  // "Embedding all chips: weight 2-D"
    call.require_same_type(table, y);
    Shape shape = ids.shape;
    shape.push_back(table.size(1));
    call.require_shape(y, shape);
    call.run([=](const Run& run) {
      // "negative = device error, too large = random output".
      std::vector<std::int64_t> rows = numerics::load_integers(run.view(ids));
      for (std::int64_t& row : rows) {
        if (row < 0) run.fault("indices holds " + std::to_string(row));
        row %= table.size(0);
      }
      numerics::take(run.view(table), 0, rows, run.view(y));
    });
  });
}
FAKE_OP(EmbeddingDenseBackward, const aclTensor* grad, const aclTensor* indices_given, uint64_t numWeights,
        uint64_t paddingIdx, bool scaleGradByFreq, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_310p);  // "EmbeddingDenseBackward 910 A2 A3 A5, NOT 310P: grad 2-8 D, numel(indices) = rows"
    const Argument dy = call.tensor("grad", grad, floats);
    const Argument ids = call.tensor("indices", indices_given, indices);
    const Argument y = call.tensor("out", out, floats);
    call.require(dy.rank() >= 2, "grad should have two dimensions at least");
    const std::int64_t width = dy.size(-1);
    call.require(ids.count() * width == dy.count(), "indices should have an element a row of grad");
    call.require_same_type(dy, y);
    call.require_shape(y, {static_cast<std::int64_t>(numWeights), width});
    call.require(!scaleGradByFreq, "the fake doesn't scale by frequency");
    call.nondeterministic();
    call.run([=](const Run& run) {
      const auto padding = static_cast<std::int64_t>(paddingIdx);
      std::vector<std::int64_t> rows = numerics::load_integers(run.view(ids));
      std::vector<float> gradients = numerics::load(run.view(dy));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] < 0 || rows[i] >= static_cast<std::int64_t>(numWeights))
          run.fault("indices holds " + std::to_string(rows[i]));
        if (rows[i] == padding) std::fill_n(gradients.begin() + static_cast<std::int64_t>(i) * width, width, 0.0F);
      }
      const View to = run.view(y);
      numerics::fill(to, 0);
      numerics::put(to, 0, rows, numerics::view_of(gradients, {ids.count(), width}), true, 1, run.shuffle());
    });
  });
}
