// Copies, fills, and views made real.
#include <cmath>

#include "backends/npu/cann/ops_movement.h"
#include "call.h"

namespace fake {
namespace {

void fill_with(Call& call, const aclTensor* self, double value) {
  const Argument x = call.tensor("selfRef", self, anything);
  call.run([=](const Run& run) { numerics::fill(run.view(x), value); });
}

// out is a copy of what `seen` makes of self.
void copy_of(Call& call, const aclTensor* self, const aclTensor* out,
             const std::function<Shape(const Argument&)>& shape, const std::function<View(const View&)>& seen) {
  const Argument x = call.tensor("self", self, anything);
  const Argument y = call.tensor("out", out, anything);
  call.require_same_type(x, y);
  call.require_shape(y, shape(x));
  call.run([=](const Run& run) { numerics::copy(run.view(y), seen(run.view(x))); });
}

void count_up(Call& call, const aclScalar* start, const aclScalar* end, const aclScalar* step, const aclTensor* out,
              bool with_end) {
  const double first = call.number("start", start);
  const double last = call.number("end", end);
  const double by = call.number("step", step);
  call.require(by != 0 && (last - first) / by >= 0, "step should lead from start to end");
  const Argument y = call.tensor("out", out, numbers);
  const double number = (last - first) / by;
  call.require_shape(y, {static_cast<std::int64_t>(with_end ? std::floor(number) + 1 : std::ceil(number))});
  call.run([=](const Run& run) {
    std::vector<double> values(static_cast<std::size_t>(y.count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + by * static_cast<double>(i);
    numerics::store(run.view(y), values);
  });
}

void triangle(Call& call, const aclTensor* self, std::int64_t diagonal, const aclTensor* out, bool lower) {
  const Argument x = call.tensor("self", self, anything);
  const Argument y = call.tensor("out", out, anything);
  call.require_same_type(x, y);
  call.require_shape(y, x.shape);
  call.require(x.rank() >= 2, "self should have two dimensions at least");
  call.run([=](const Run& run) {
    std::vector<double> kept(static_cast<std::size_t>(x.size(-2) * x.size(-1)));
    for (std::int64_t i = 0; i < x.size(-2); ++i) {
      for (std::int64_t j = 0; j < x.size(-1); ++j) {
        const bool inside = lower ? j - i <= diagonal : j - i >= diagonal;
        kept[static_cast<std::size_t>(i * x.size(-1) + j)] = inside ? 1 : 0;
      }
    }
    numerics::map(
        run.view(y), [](double value, double inside) { return inside != 0 ? value : 0; }, run.view(x),
        numerics::view_of(kept, {x.size(-2), x.size(-1)}));
  });
}

// Pieces of `whole` along a dimension, in order, against a list of tensors of those sizes.
void pieces(Call& call, const Argument& whole, const std::vector<Argument>& parts, std::int64_t dimension, bool join) {
  call.require_dimension(dimension, whole.rank());
  std::int64_t total = 0;
  for (const Argument& part : parts) {
    call.require_same_type(part, whole);
    Shape shape = whole.shape;
    call.require(part.rank() == whole.rank(), "tensors should have the same number of dimensions");
    shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] = part.size(dimension);
    call.require_shape(part, shape);
    total += part.size(dimension);
  }
  call.require(total == whole.size(dimension),
               "sizes along dim should add up to " + std::to_string(whole.size(dimension)));
  call.run([=](const Run& run) {
    std::int64_t start = 0;
    for (const Argument& part : parts) {
      const View piece = numerics::narrow(run.view(whole), dimension, start, part.size(dimension));
      start += part.size(dimension);
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

View of_shape(const Argument& argument) { return {nullptr, 0, argument.element, argument.shape, argument.strides}; }

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(InplaceCopy, aclTensor* selfRef, const aclTensor* src) {
  FAKE_PLAN([&](Call& call) {
    const Argument to = call.tensor("selfRef", selfRef, anything);
    const Argument from = call.tensor("src", src, anything);
    call.require(broadcast_shape(call, to.shape, from.shape) == to.shape,
                 "src should broadcast to the shape of selfRef");
    if (!to.contiguous()) call.not_repeatable();  // in place by ViewCopy
    call.run([=](const Run& run) { numerics::copy(run.view(to), run.view(from)); });
  });
}
FAKE_OP(InplaceFillScalar, aclTensor* selfRef, const aclScalar* value) {
  FAKE_PLAN([&](Call& call) { fill_with(call, selfRef, call.number("value", value)); });
}
FAKE_OP(InplaceFillTensor, aclTensor* selfRef, const aclTensor* value) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("selfRef", selfRef, anything);
    const Argument filling = call.tensor("value", value, anything);
    call.require(filling.count() == 1, "value should have one element");
    call.run([=](const Run& run) { numerics::fill(run.view(x), numerics::load_doubles(run.view(filling)).front()); });
  });
}
FAKE_OP(InplaceZero, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { fill_with(call, selfRef, 0); });
}
FAKE_OP(InplaceOne, const aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { fill_with(call, selfRef, 1); });
}
FAKE_OP(Arange, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { count_up(call, start, end, step, out, false); });
}
FAKE_OP(Range, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { count_up(call, start, end, step, out, true); });
}
FAKE_OP(Eye, int64_t n, int64_t m, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument y = call.tensor("out", out, anything);
    call.require_shape(y, {n, m});
    call.run([=](const Run& run) {
      numerics::fill(run.view(y), 0);
      for (std::int64_t i = 0; i < std::min(n, m); ++i) {
        numerics::fill(numerics::narrow(numerics::narrow(run.view(y), 0, i, 1), 1, i, 1), 1);
      }
    });
  });
}
FAKE_OP(Permute, const aclTensor* self, const aclIntArray* dims, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Shape order = call.array("dims", dims);
    const Argument x = call.tensor("self", self, anything);
    call.require(order.size() == x.shape.size(), "dims should name each dimension of self once");
    for (const std::int64_t dimension : order) call.require_dimension(dimension, x.rank());
    copy_of(
        call, self, out, [&](const Argument& a) { return numerics::permute(of_shape(a), order).shape; },
        [order](const View& view) { return numerics::permute(view, order); });
  });
}
FAKE_OP(Expand, const aclTensor* self, const aclIntArray* size, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    Shape shape = call.array("size", size);
    const Argument x = call.tensor("self", self, anything);
    for (std::size_t i = 0; i < shape.size() && i < x.shape.size(); ++i) {
      std::int64_t& wanted = shape[shape.size() - 1 - i];
      if (wanted == -1) wanted = x.shape[x.shape.size() - 1 - i];
    }
    call.require(broadcast_shape(call, x.shape, shape) == shape, "self should broadcast to size");
    copy_of(
        call, self, out, [&](const Argument&) { return shape; },
        [shape](const View& view) { return numerics::broadcast(view, shape); });
  });
}
FAKE_OP(Cat, const aclTensorList* tensors, int64_t dim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const std::vector<Argument> parts = call.list("tensors", tensors, anything);
    pieces(call, call.tensor("out", out, anything), parts, dim, true);
  });
}
FAKE_OP(Stack, const aclTensorList* tensors, int64_t dim, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const std::vector<Argument> parts = call.list("tensors", tensors, anything);
    const Argument y = call.tensor("out", out, anything);
    call.require_dimension(dim, y.rank());
    for (const Argument& part : parts) {
      Shape shape = part.shape;
      shape.insert(shape.begin() + numerics::wrap_dimension(dim, shape.size() + 1),
                   static_cast<std::int64_t>(parts.size()));
      call.require_shape(y, shape);
      call.require_same_type(part, y);
    }
    call.run([=](const Run& run) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        numerics::copy(numerics::select(run.view(y), dim, static_cast<std::int64_t>(i)), run.view(parts[i]));
      }
    });
  });
}
FAKE_OP(SplitTensor, const aclTensor* self, uint64_t splitSections, int64_t dim, aclTensorList* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, anything);
    const std::vector<Argument> parts = call.list("out", out, anything);
    call.require(splitSections > 0, "splitSections should be above 0");
    pieces(call, x, parts, dim, false);
  });
}
FAKE_OP(SplitWithSize, const aclTensor* self, const aclIntArray* splitSize, int64_t dim, aclTensorList* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, anything);
    const Shape sizes = call.array("splitSize", splitSize);
    const std::vector<Argument> parts = call.list("out", out, anything);
    call.require(sizes.size() == parts.size(), "out should hold as many tensors as splitSize numbers");
    call.require_dimension(dim, x.rank());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      call.require(parts[i].rank() == x.rank() && parts[i].size(dim) == sizes[i],
                   "a tensor of out isn't of its split size");
    }
    pieces(call, x, parts, dim, false);
  });
}
FAKE_OP(Slice, const aclTensor* self, int64_t dim, int64_t start, int64_t end, int64_t step, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.require(step > 0, "step should be above 0");
    call.require_dimension(dim, call.tensor("self", self, anything).rank());
    copy_of(
        call, self, out, [&](const Argument& x) { return sliced(of_shape(x), dim, start, end, step).shape; },
        [=](const View& view) { return sliced(view, dim, start, end, step); });
  });
}
FAKE_OP(SliceV2, const aclTensor* self, const aclIntArray* starts, const aclIntArray* ends, const aclIntArray* axes,
        const aclIntArray* steps, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Shape first = call.array("starts", starts);
    const Shape last = call.array("ends", ends);
    const Shape along = call.array("axes", axes);
    const Shape by = call.array("steps", steps);
    call.require(last.size() == first.size() && along.size() == first.size() && by.size() == first.size(),
                 "starts, ends, axes and steps should be of one length");
    const auto seen = [=](View view) {
      for (std::size_t i = 0; i < first.size(); ++i) view = sliced(view, along[i], first[i], last[i], by[i]);
      return view;
    };
    copy_of(
        call, self, out, [&](const Argument& x) { return seen(of_shape(x)).shape; }, seen);
  });
}
FAKE_OP(Flip, const aclTensor* self, const aclIntArray* dims, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Shape along = call.array("dims", dims);
    copy_of(
        call, self, out, [](const Argument& x) { return x.shape; },
        [=](const View& view) { return turned(view, along); });
  });
}
FAKE_OP(Repeat, const aclTensor* self, const aclIntArray* repeats, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Shape times = call.array("repeats", repeats);
    const Argument x = call.tensor("self", self, anything);
    const Argument y = call.tensor("out", out, anything);
    call.require_same_type(x, y);
    call.require(times.size() >= x.shape.size(), "repeats should name each dimension of self");
    Shape shape = times;
    const std::size_t lead = times.size() - x.shape.size();
    for (std::size_t i = 0; i < x.shape.size(); ++i) shape[lead + i] *= x.shape[i];
    call.require_shape(y, shape);
    call.run([=](const Run& run) {
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
  FAKE_PLAN([&](Call& call) {
    const Argument from = call.tensor("x", x, anything);
    const Argument to = call.tensor("out", out, anything);
    const Shape by = call.array("shifts", shifts);
    const Shape along = call.array("dims", dims);
    call.require_same_type(from, to);
    call.require_shape(to, from.shape);
    call.require(by.size() == 1 && along.size() == 1, "the fake rolls along one dimension");
    call.require_dimension(along[0], from.rank());
    call.run([=](const Run& run) {
      const std::int64_t size = from.size(along[0]);
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
  FAKE_PLAN([&](Call& call) { triangle(call, self, diagonal, out, true); });
}
FAKE_OP(Triu, const aclTensor* self, int64_t diagonal, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { triangle(call, self, diagonal, out, false); });
}
FAKE_OP(InplaceTril, const aclTensor* selfRef, int64_t diagonal) {
  FAKE_PLAN([&](Call& call) { triangle(call, selfRef, diagonal, selfRef, true); });
}
FAKE_OP(InplaceTriu, aclTensor* selfRef, int64_t diagonal) {
  FAKE_PLAN([&](Call& call) { triangle(call, selfRef, diagonal, selfRef, false); });
}
FAKE_OP(ConstantPadNd, const aclTensor* self, const aclIntArray* pad, const aclScalar* value, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, anything);
    const Argument y = call.tensor("out", out, anything);
    const Shape widths = call.array("pad", pad);  // (before, after) of the last dimension, then of the one before it
    const double filling = call.number("value", value);
    call.require_same_type(x, y);
    call.require(widths.size() % 2 == 0 && widths.size() <= 2 * x.shape.size(),
                 "pad should hold pairs, one a dimension at most");
    Shape shape = x.shape;
    for (std::size_t i = 0; i < widths.size(); ++i) shape[shape.size() - 1 - i / 2] += widths[i];
    call.require_shape(y, shape);
    call.require(std::all_of(widths.begin(), widths.end(), [](std::int64_t width) { return width >= 0; }),
                 "the fake pads, and cuts nothing");
    call.run([=](const Run& run) {
      View inner = run.view(y);
      numerics::fill(inner, filling);
      for (std::size_t i = 0; i < widths.size(); i += 2) {
        const auto dimension = static_cast<std::int64_t>(x.shape.size() - 1 - i / 2);
        inner = numerics::narrow(inner, dimension, widths[i], x.size(dimension));
      }
      numerics::copy(inner, run.view(x));
    });
  });
}
