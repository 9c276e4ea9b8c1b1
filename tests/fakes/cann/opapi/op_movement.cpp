// Copies, fills, and views made real.
#include <cmath>

#include "arguments.h"
#include "backends/npu/cann/ops_movement.h"

namespace fake {
namespace {

void fill_with(Op& op, const aclTensor* self, double value) {
  const Tensor x = op.out("selfRef", self, anything);
  op.run([=](Run& run) { numerics::fill(run.view(x), value); });
}

// out is a copy of what `seen` makes of self.
void copy_of(Op& op, const aclTensor* self, const aclTensor* out, const std::function<Shape(const Tensor&)>& shape,
             const std::function<View(const View&)>& seen) {
  const Tensor x = op.in("self", self, anything);
  const Tensor y = op.out("out", out, anything);
  op.same_dtype(x, y);
  op.shape(y, shape(x));
  op.run([=](Run& run) { numerics::copy(run.view(y), seen(run.view(x))); });
}

void count_up(Op& op, const aclScalar* start, const aclScalar* end, const aclScalar* step, const aclTensor* out,
              bool with_end) {
  const double first = op.number("start", start);
  const double last = op.number("end", end);
  const double by = op.number("step", step);
  op.need(by != 0 && (last - first) / by >= 0, "step should lead from start to end");
  const Tensor y = op.out("out", out, numbers);
  const double number = (last - first) / by;
  op.shape(y, {static_cast<std::int64_t>(with_end ? std::floor(number) + 1 : std::ceil(number))});
  op.run([=](Run& run) {
    std::vector<double> values(static_cast<std::size_t>(y.count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + by * static_cast<double>(i);
    numerics::store(run.view(y), values);
  });
}

void triangle(Op& op, const aclTensor* self, std::int64_t diagonal, const aclTensor* out, bool lower) {
  const Tensor x = op.in("self", self, anything);
  const Tensor y = op.out("out", out, anything);
  op.same_dtype(x, y);
  op.shape(y, x.shape());
  op.need(x.rank() >= 2, "self should have two dimensions at least");
  op.run([=](Run& run) {
    std::vector<double> kept(static_cast<std::size_t>(x.dim(-2) * x.dim(-1)));
    for (std::int64_t i = 0; i < x.dim(-2); ++i) {
      for (std::int64_t j = 0; j < x.dim(-1); ++j) {
        const bool inside = lower ? j - i <= diagonal : j - i >= diagonal;
        kept[static_cast<std::size_t>(i * x.dim(-1) + j)] = inside ? 1 : 0;
      }
    }
    numerics::map(
        run.view(y), [](double value, double inside) { return inside != 0 ? value : 0; }, run.view(x),
        numerics::view_of(kept, {x.dim(-2), x.dim(-1)}));
  });
}

// Pieces of `whole` along a dimension, in order, against a list of tensors of those sizes.
void pieces(Op& op, const Tensor& whole, const std::vector<Tensor>& parts, std::int64_t dimension, bool join) {
  (void)op.dimension(dimension, whole.rank());
  std::int64_t total = 0;
  for (const Tensor& part : parts) {
    op.same_dtype(part, whole);
    Shape shape = whole.shape();
    op.need(part.rank() == whole.rank(), "tensors should have the same number of dimensions");
    shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] = part.dim(dimension);
    op.shape(part, shape);
    total += part.dim(dimension);
  }
  op.need(total == whole.dim(dimension), "sizes along dim should add up to " + std::to_string(whole.dim(dimension)));
  op.run([=](Run& run) {
    std::int64_t start = 0;
    for (const Tensor& part : parts) {
      const View piece = numerics::narrow(run.view(whole), dimension, start, part.dim(dimension));
      start += part.dim(dimension);
      if (join) {
        numerics::copy(piece, run.view(part));
      } else {
        numerics::copy(run.view(part), piece);
      }
    }
  });
}

View sliced(const View& view, std::int64_t dimension, std::int64_t start, std::int64_t end, std::int64_t step) {
  const auto at = static_cast<std::size_t>(numerics::wrap_dimension(dimension, view.shape.size()));
  const std::int64_t size = view.shape[at];
  const auto clipped = [size](std::int64_t place) {
    return std::clamp<std::int64_t>(place < 0 ? place + size : place, 0, size);
  };
  View result = view;
  const std::int64_t length = std::max<std::int64_t>(clipped(end) - clipped(start), 0);
  result.offset += clipped(start) * view.strides[at];
  result.shape[at] = (length + step - 1) / step;
  result.strides[at] *= step;
  return result;
}

View turned(View view, const Shape& dimensions) {
  for (const std::int64_t dimension : dimensions) {
    const auto at = static_cast<std::size_t>(numerics::wrap_dimension(dimension, view.shape.size()));
    view.offset += (view.shape[at] - 1) * view.strides[at];
    view.strides[at] = -view.strides[at];
  }
  return view;
}

View of_shape(const Tensor& argument) {
  return {nullptr, 0, element_of(argument.dtype()), argument.shape(), argument.seen.strides};
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(InplaceCopy, aclTensor* selfRef, const aclTensor* src) {
  return plan("aclnnInplaceCopy", workspaceSize, executor, [&](Op& op) {
    const Tensor to = op.out("selfRef", selfRef, anything);
    const Tensor from = op.in("src", src, anything);
    op.need(broadcast_shape(op, to.shape(), from.shape()) == to.shape(),
            "src should broadcast to the shape of selfRef");
    if (!to.contiguous()) op.not_repeatable();  // in place by ViewCopy
    op.run([=](Run& run) { numerics::copy(run.view(to), run.view(from)); });
  });
}
FAKE_OP(InplaceFillScalar, aclTensor* selfRef, const aclScalar* value) {
  return plan("aclnnInplaceFillScalar", workspaceSize, executor,
              [&](Op& op) { fill_with(op, selfRef, op.number("value", value)); });
}
FAKE_OP(InplaceFillTensor, aclTensor* selfRef, const aclTensor* value) {
  return plan("aclnnInplaceFillTensor", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.out("selfRef", selfRef, anything);
    const Tensor filling = op.in("value", value, anything);
    op.need(filling.count() == 1, "value should have one element");
    op.run([=](Run& run) { numerics::fill(run.view(x), numerics::load_doubles(run.view(filling)).front()); });
  });
}
FAKE_OP(InplaceZero, aclTensor* selfRef) {
  return plan("aclnnInplaceZero", workspaceSize, executor, [&](Op& op) { fill_with(op, selfRef, 0); });
}
FAKE_OP(InplaceOne, const aclTensor* selfRef) {
  return plan("aclnnInplaceOne", workspaceSize, executor, [&](Op& op) { fill_with(op, selfRef, 1); });
}
FAKE_OP(Arange, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out) {
  return plan("aclnnArange", workspaceSize, executor, [&](Op& op) { count_up(op, start, end, step, out, false); });
}
FAKE_OP(Range, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out) {
  return plan("aclnnRange", workspaceSize, executor, [&](Op& op) { count_up(op, start, end, step, out, true); });
}
FAKE_OP(Eye, int64_t n, int64_t m, aclTensor* out) {
  return plan("aclnnEye", workspaceSize, executor, [&](Op& op) {
    const Tensor y = op.out("out", out, anything);
    op.shape(y, {n, m});
    op.run([=](Run& run) {
      numerics::fill(run.view(y), 0);
      for (std::int64_t i = 0; i < std::min(n, m); ++i) {
        numerics::fill(numerics::narrow(numerics::narrow(run.view(y), 0, i, 1), 1, i, 1), 1);
      }
    });
  });
}
FAKE_OP(Permute, const aclTensor* self, const aclIntArray* dims, aclTensor* out) {
  return plan("aclnnPermute", workspaceSize, executor, [&](Op& op) {
    const Shape order = op.array("dims", dims);
    const Tensor x = op.in("self", self, anything);
    op.need(order.size() == x.shape().size(), "dims should name each dimension of self once");
    for (const std::int64_t dimension : order) (void)op.dimension(dimension, x.rank());
    copy_of(
        op, self, out, [&](const Tensor& a) { return numerics::permute(of_shape(a), order).shape; },
        [order](const View& view) { return numerics::permute(view, order); });
  });
}
FAKE_OP(Expand, const aclTensor* self, const aclIntArray* size, aclTensor* out) {
  return plan("aclnnExpand", workspaceSize, executor, [&](Op& op) {
    Shape shape = op.array("size", size);
    const Tensor x = op.in("self", self, anything);
    for (std::size_t i = 0; i < shape.size() && i < x.shape().size(); ++i) {
      std::int64_t& wanted = shape[shape.size() - 1 - i];
      if (wanted == -1) wanted = x.shape()[x.shape().size() - 1 - i];
    }
    op.need(broadcast_shape(op, x.shape(), shape) == shape, "self should broadcast to size");
    copy_of(
        op, self, out, [&](const Tensor&) { return shape; },
        [shape](const View& view) { return numerics::broadcast(view, shape); });
  });
}
FAKE_OP(Cat, const aclTensorList* tensors, int64_t dim, aclTensor* out) {
  return plan("aclnnCat", workspaceSize, executor, [&](Op& op) {
    const std::vector<Tensor> parts = op.list("tensors", tensors, anything);
    pieces(op, op.out("out", out, anything), parts, dim, true);
  });
}
FAKE_OP(Stack, const aclTensorList* tensors, int64_t dim, aclTensor* out) {
  return plan("aclnnStack", workspaceSize, executor, [&](Op& op) {
    const std::vector<Tensor> parts = op.list("tensors", tensors, anything);
    const Tensor y = op.out("out", out, anything);
    (void)op.dimension(dim, y.rank());
    for (const Tensor& part : parts) {
      Shape shape = part.shape();
      shape.insert(shape.begin() + numerics::wrap_dimension(dim, shape.size() + 1),
                   static_cast<std::int64_t>(parts.size()));
      op.shape(y, shape);
      op.same_dtype(part, y);
    }
    op.run([=](Run& run) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        numerics::copy(numerics::select(run.view(y), dim, static_cast<std::int64_t>(i)), run.view(parts[i]));
      }
    });
  });
}
FAKE_OP(SplitTensor, const aclTensor* self, uint64_t splitSections, int64_t dim, aclTensorList* out) {
  return plan("aclnnSplitTensor", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, anything);
    const std::vector<Tensor> parts = op.out_list("out", out, anything);
    op.need(splitSections > 0, "splitSections should be above 0");
    pieces(op, x, parts, dim, false);
  });
}
FAKE_OP(SplitWithSize, const aclTensor* self, const aclIntArray* splitSize, int64_t dim, aclTensorList* out) {
  return plan("aclnnSplitWithSize", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, anything);
    const Shape sizes = op.array("splitSize", splitSize);
    const std::vector<Tensor> parts = op.out_list("out", out, anything);
    op.need(sizes.size() == parts.size(), "out should hold as many tensors as splitSize numbers");
    (void)op.dimension(dim, x.rank());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      op.need(parts[i].rank() == x.rank() && parts[i].dim(dim) == sizes[i], "a tensor of out isn't of its split size");
    }
    pieces(op, x, parts, dim, false);
  });
}
FAKE_OP(Slice, const aclTensor* self, int64_t dim, int64_t start, int64_t end, int64_t step, aclTensor* out) {
  return plan("aclnnSlice", workspaceSize, executor, [&](Op& op) {
    op.need(step > 0, "step should be above 0");
    (void)op.dimension(dim, op.in("self", self, anything).rank());
    copy_of(
        op, self, out, [&](const Tensor& x) { return sliced(of_shape(x), dim, start, end, step).shape; },
        [=](const View& view) { return sliced(view, dim, start, end, step); });
  });
}
FAKE_OP(SliceV2, const aclTensor* self, const aclIntArray* starts, const aclIntArray* ends, const aclIntArray* axes,
        const aclIntArray* steps, aclTensor* out) {
  return plan("aclnnSliceV2", workspaceSize, executor, [&](Op& op) {
    const Shape first = op.array("starts", starts);
    const Shape last = op.array("ends", ends);
    const Shape along = op.array("axes", axes);
    const Shape by = op.array("steps", steps);
    op.need(last.size() == first.size() && along.size() == first.size() && by.size() == first.size(),
            "starts, ends, axes and steps should be of one length");
    const auto seen = [=](View view) {
      for (std::size_t i = 0; i < first.size(); ++i) view = sliced(view, along[i], first[i], last[i], by[i]);
      return view;
    };
    copy_of(
        op, self, out, [&](const Tensor& x) { return seen(of_shape(x)).shape; }, seen);
  });
}
FAKE_OP(Flip, const aclTensor* self, const aclIntArray* dims, aclTensor* out) {
  return plan("aclnnFlip", workspaceSize, executor, [&](Op& op) {
    const Shape along = op.array("dims", dims);
    copy_of(
        op, self, out, [](const Tensor& x) { return x.shape(); },
        [=](const View& view) { return turned(view, along); });
  });
}
FAKE_OP(Repeat, const aclTensor* self, const aclIntArray* repeats, aclTensor* out) {
  return plan("aclnnRepeat", workspaceSize, executor, [&](Op& op) {
    const Shape times = op.array("repeats", repeats);
    const Tensor x = op.in("self", self, anything);
    const Tensor y = op.out("out", out, anything);
    op.same_dtype(x, y);
    op.need(times.size() >= x.shape().size(), "repeats should name each dimension of self");
    Shape shape = times;
    const std::size_t lead = times.size() - x.shape().size();
    for (std::size_t i = 0; i < x.shape().size(); ++i) shape[lead + i] *= x.shape()[i];
    op.shape(y, shape);
    op.run([=](Run& run) {
      // Each dimension of out as (times, size): of self as stride 0, then its own.
      View from = run.view(x);
      View to = run.view(y);
      Shape outer(lead, 1);
      from.shape.insert(from.shape.begin(), outer.begin(), outer.end());
      from.strides.insert(from.strides.begin(), lead, 0);
      for (std::size_t i = times.size(); i-- > 0;) {
        to.strides.insert(to.strides.begin() + static_cast<std::int64_t>(i), to.strides[i] * from.shape[i]);
        to.shape.insert(to.shape.begin() + static_cast<std::int64_t>(i), times[i]);
        to.shape[i + 1] = from.shape[i];
        from.shape.insert(from.shape.begin() + static_cast<std::int64_t>(i), times[i]);
        from.strides.insert(from.strides.begin() + static_cast<std::int64_t>(i), 0);
      }
      numerics::copy(to, from);
    });
  });
}
FAKE_OP(Roll, const aclTensor* x, const aclIntArray* shifts, const aclIntArray* dims, aclTensor* out) {
  return plan("aclnnRoll", workspaceSize, executor, [&](Op& op) {
    const Tensor from = op.in("x", x, anything);
    const Tensor to = op.out("out", out, anything);
    const Shape by = op.array("shifts", shifts);
    const Shape along = op.array("dims", dims);
    op.same_dtype(from, to);
    op.shape(to, from.shape());
    op.need(by.size() == 1 && along.size() == 1, "the fake rolls along one dimension");
    (void)op.dimension(along[0], from.rank());
    op.run([=](Run& run) {
      const std::int64_t size = from.dim(along[0]);
      const std::int64_t shift = ((by[0] % size) + size) % size;
      const View read = run.view(from);
      const View write = run.view(to);
      numerics::copy(numerics::narrow(write, along[0], shift, size - shift),
                     numerics::narrow(read, along[0], 0, size - shift));
      numerics::copy(numerics::narrow(write, along[0], 0, shift),
                     numerics::narrow(read, along[0], size - shift, shift));
    });
  });
}
FAKE_OP(Tril, const aclTensor* self, int64_t diagonal, aclTensor* out) {
  return plan("aclnnTril", workspaceSize, executor, [&](Op& op) { triangle(op, self, diagonal, out, true); });
}
FAKE_OP(Triu, const aclTensor* self, int64_t diagonal, aclTensor* out) {
  return plan("aclnnTriu", workspaceSize, executor, [&](Op& op) { triangle(op, self, diagonal, out, false); });
}
FAKE_OP(InplaceTril, const aclTensor* selfRef, int64_t diagonal) {
  return plan("aclnnInplaceTril", workspaceSize, executor,
              [&](Op& op) { triangle(op, selfRef, diagonal, selfRef, true); });
}
FAKE_OP(InplaceTriu, aclTensor* selfRef, int64_t diagonal) {
  return plan("aclnnInplaceTriu", workspaceSize, executor,
              [&](Op& op) { triangle(op, selfRef, diagonal, selfRef, false); });
}
FAKE_OP(ConstantPadNd, const aclTensor* self, const aclIntArray* pad, const aclScalar* value, aclTensor* out) {
  return plan("aclnnConstantPadNd", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, anything);
    const Tensor y = op.out("out", out, anything);
    const Shape widths = op.array("pad", pad);  // (before, after) of the last dimension, then of the one before it
    const double filling = op.number("value", value);
    op.same_dtype(x, y);
    op.need(widths.size() % 2 == 0 && widths.size() <= 2 * x.shape().size(),
            "pad should hold pairs, one a dimension at most");
    Shape shape = x.shape();
    for (std::size_t i = 0; i < widths.size(); ++i) shape[shape.size() - 1 - i / 2] += widths[i];
    op.shape(y, shape);
    op.need(std::all_of(widths.begin(), widths.end(), [](std::int64_t width) { return width >= 0; }),
            "the fake pads, and cuts nothing");
    op.run([=](Run& run) {
      View inner = run.view(y);
      numerics::fill(inner, filling);
      for (std::size_t i = 0; i < widths.size(); i += 2) {
        const auto dimension = static_cast<std::int64_t>(x.shape().size() - 1 - i / 2);
        inner = numerics::narrow(inner, dimension, widths[i], x.dim(dimension));
      }
      numerics::copy(inner, run.view(x));
    });
  });
}
