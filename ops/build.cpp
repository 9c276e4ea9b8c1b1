#include "ops/build.h"

#include <stdexcept>

#include "base/dtype.h"
#include "ops/axpby.h"
#include "ops/cast_copy.h"
#include "ops/fill.h"
#include "ops/row_sum.h"

namespace tern::ops {

CallBuilder::CallBuilder(std::uint32_t op, std::uint32_t needs) {
  const std::size_t count = op_spec(op).args.size();
  call_.op = op;
  call_.needs = needs;
  call_.inputs.resize(count);
  call_.outputs.assign(count, absent_desc());
}

CallBuilder& CallBuilder::in(int arg, Value value) {
  call_.inputs[static_cast<std::size_t>(arg)] = value;
  return *this;
}

CallBuilder& CallBuilder::out(int arg, const TensorDesc& desc) {
  call_.outputs[static_cast<std::size_t>(arg)] = desc;
  return *this;
}

CallBuilder& CallBuilder::out(const Emitter& emitter, int arg, const TensorDesc& desc, Value into) {
  if (!into.present()) return out(arg, desc);
  call_.accumulate |= 1U << arg;
  return in(arg, into).out(arg, emitter.desc(into));
}

CallBuilder& CallBuilder::place(const Emitter& emitter, int arg, const TensorDesc& desc, Value at) {
  return at.present() ? in(arg, at).out(arg, emitter.desc(at)) : out(arg, desc);
}

CallBuilder& CallBuilder::state(const Emitter& emitter, int arg, Value value) {
  return in(arg, value).out(arg, emitter.desc(value));
}

Value Gradients::of_output(int arg) const {
  if (!of_output_is_one(arg)) return call_.out_grads[at(arg)];
  return fill(emitter(), like(emitter().desc(result(arg)), TERN_F32), 1.0F, {.needs = needs()});
}

TensorDesc like(const TensorDesc& x, tern_dtype dtype) {
  TensorDesc out = make_desc(dtype, shape_of(x));
  out.dynamic_dim = x.dynamic_dim;
  out.count_slot = x.count_slot;
  return out;
}

TensorDesc rows_like(TensorDesc desc, const TensorDesc& x) {
  return x.dynamic_dim == 0 ? with_dynamic(desc, 0, x.count_slot) : desc;
}

Value contiguous(Emitter& emitter, Value value, std::uint32_t needs) {
  const TensorDesc& desc = emitter.desc(value);
  return is_contiguous(desc) ? value : cast_copy(emitter, value, {.out = desc.dtype, .needs = needs});
}

Value as_matrix(Emitter& emitter, Value value) {
  const TensorDesc& desc = emitter.desc(value);
  if (desc.rank == 2) return value;
  if (!is_contiguous(desc) || desc.dynamic_dim > 0) {
    throw std::logic_error("only a contiguous tensor is seen as a matrix: " + to_string(desc));
  }
  std::int64_t width = 1;
  for (int d = 1; d < desc.rank; ++d) width *= desc.shape[d];
  return emitter.view(value, rows_like(make_desc(desc.dtype, {desc.shape[0], width}), desc), 0);
}

Value columns(Emitter& emitter, Value x, std::int64_t first, std::int64_t width) {
  const TensorDesc whole = emitter.desc(x);
  TensorDesc part = rows_like(make_desc(whole.dtype, {whole.shape[0], width}), whole);
  part.strides[0] = whole.strides[0];
  part.strides[1] = whole.strides[1];
  return emitter.view(x, part, first * whole.strides[1]);
}

Value broadcast_rows(Emitter& emitter, Value vector, const TensorDesc& like) {
  const TensorDesc& desc = emitter.desc(vector);
  TensorDesc wide = make_desc(desc.dtype, {like.shape[0], desc.shape[0]});
  wide.strides[0] = 0;
  wide.strides[1] = desc.strides[0];
  return emitter.view(vector, rows_like(wide, like), 0);
}

Value reduce_all(Emitter& emitter, Value value, std::uint32_t needs, Value into) {
  const Value rows = row_sum(emitter, as_matrix(emitter, value), {.axis = 1, .out = TERN_F32, .needs = needs});
  const TensorDesc& desc = emitter.desc(rows);
  TensorDesc flat = make_desc(TERN_F32, {1, desc.shape[0]});
  if (is_dynamic(desc)) flat = with_dynamic(flat, 1, desc.count_slot);
  return row_sum(emitter, emitter.view(rows, flat, 0), {.axis = 1, .out = TERN_F32, .into = into, .needs = needs});
}

std::vector<Value> decompose_accumulate(Emitter& emitter, const OpCall& call) {
  if (call.accumulate == 0 || call.op == TERN_OP_AXPBY) return {};
  OpCall fresh = call;
  fresh.accumulate = 0;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!accumulates(call, static_cast<int>(i))) continue;
    if (!dtype_info(call.outputs[i].dtype).floating) return {};
    fresh.inputs[i] = {};
    fresh.outputs[i] = like(call.outputs[i], TERN_F32);
  }
  std::vector<Value> results = emitter.emit(fresh);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!accumulates(call, static_cast<int>(i))) continue;
    results[i] = axpby(emitter, results[i], {}, {.a = 1.0F, .into = call.inputs[i], .needs = call.needs});
  }
  return results;
}

}  // namespace tern::ops
