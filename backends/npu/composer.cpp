#include "backends/npu/composer.h"

#include <algorithm>

#include "tern/plugin.h"

namespace tern::npu {
namespace {

// CANN wants pieces of one allocation to begin at 64, with 32 bytes behind each that a kernel may read.
constexpr std::int64_t kPiece = 64;
constexpr std::int64_t kBehind = 32;

}  // namespace

Composer::Composer(const Chip& chip, const tern_op_desc& op, Numbers numbers)
    : chip_(chip), op_(op), numbers_(numbers) {}

void Composer::refuse(const std::string& reason) const { throw tern_plugin::Error(TERN_UNSUPPORTED, reason); }

bool Composer::has(const char* op, bool in_8_1) const { return described_ ? in_8_1 : find_op(op).present(); }

View Composer::arg(int arg) const {
  const tern_tensor_desc& desc = op_.args[arg];
  View view;
  if (desc.rank == 0) return view;
  if (!tern_plugin_is_strided(&desc)) refuse("it is quantised or in a private layout");
  view.place = arg * TERN_MAX_PLANES;
  view.dtype = acl_dtype(desc.dtype);
  view.shape = Dims({desc.shape, static_cast<std::size_t>(desc.rank)});
  view.strides = Dims({desc.strides, static_cast<std::size_t>(desc.rank)});
  for (int d = 0; d < desc.rank; ++d) {
    view.shape[d] = tern_plugin_entries(&desc, d, numbers_.counts);
    if (desc.dynamic_dim < 0) view.shape[d] = shared_entries(op_, arg, d, numbers_.counts);
    if (desc.shape[d] <= 1) view.strides[d] = 1;  // whatever stands there means nothing
  }
  // The stride of a dimension of one entry: as if it were contiguous, so that nothing is copied for it.
  for (int d = desc.rank - 1; d >= 0; --d) {
    if (desc.shape[d] <= 1 && d + 1 < desc.rank)
      view.strides[d] = view.strides[d + 1] * std::max<std::int64_t>(1, view.shape[d + 1]);
  }
  return view;
}

View Composer::arg_like(int arg, const View& like) const {
  View view = this->arg(arg);
  for (int d = 0; d < view.rank() && view.rank() == like.rank(); ++d) {
    if (view.strides[d] == 0) view.shape[d] = like.shape[d];
  }
  return view;
}

View Composer::plane(int arg, int plane, aclDataType dtype, const Dims& shape) const {
  return contiguous_view(arg * TERN_MAX_PLANES + plane, 0, dtype, shape);
}

std::optional<std::span<const std::int32_t>> Composer::lengths(int arg) const {
  if (numbers_.arrays.empty()) return std::nullopt;
  const tern_op_signature* signature = tern_plugin_signature(op_.op);
  std::size_t array = 0;
  for (int i = 0; i < arg; ++i) array += (signature->args[i].flags & TERN_ARG_LENGTHS) != 0 ? 1 : 0;
  const auto entries = static_cast<std::size_t>(tern_plugin_entries(&op_.args[arg], 0, numbers_.counts));
  const tern_host_array& given = numbers_.arrays[array];
  return std::span(given.data, std::min(entries, static_cast<std::size_t>(given.count)));
}

View Composer::temp(aclDataType dtype, const Dims& shape) {
  View view = contiguous_view(kWorkspace, top_, dtype, shape);
  const std::int64_t bytes = shape.product() * acl_bytes(dtype) + kBehind;
  top_ += (bytes + kPiece - 1) / kPiece * kPiece;
  largest_ = std::max(largest_, top_);
  return view;
}

View Composer::constant(Constant constant, aclDataType dtype, const Dims& shape) {
  const auto at = std::find_if(constants_.begin(), constants_.end(),
                               [&](const Constant& known) { return known.key == constant.key; });
  const auto index = static_cast<std::int32_t>(at - constants_.begin());
  if (at == constants_.end()) constants_.push_back(std::move(constant));
  return contiguous_view(kFirstConstant + index, 0, dtype, shape);
}

View Composer::cast(const View& view, aclDataType dtype) {
  if (!view.present() || view.dtype == dtype) return view;
  const View out = temp(dtype, view.shape);
  copy(out, view);
  return out;
}

View Composer::dense(const View& view) {
  if (!view.present() || view.contiguous()) return view;
  const View out = temp(view.dtype, view.shape);
  copy(out, view);
  return out;
}

void Composer::copy(const View& to, const View& from) {
  if (to.elements() == 0) return;
  if (to.dtype == from.dtype) {
    call(TERN_NPU_OP(InplaceCopy), to, from);
  } else {
    call(TERN_NPU_OP(Cast), from, to.dtype, to);
  }
}

void Composer::zero(const View& view) {
  if (view.elements() > 0) call(TERN_NPU_OP(InplaceZero), view);
}

void Composer::fill(const View& view, double value) {
  if (view.elements() > 0) call(TERN_NPU_OP(InplaceFillScalar), view, Number{value});
}

void Composer::add(const View& a, const View& b, const View& out, double factor) {
  if (out.elements() > 0) call(TERN_NPU_OP(Add), a, b, Number{factor}, out);
}

void Composer::mul(const View& a, const View& b, const View& out) {
  if (out.elements() > 0) call(TERN_NPU_OP(Mul), a, b, out);
}

void Composer::muls(const View& a, double factor, const View& out) {
  if (out.elements() > 0) call(TERN_NPU_OP(Muls), a, Number{factor}, out);
}

void Composer::adds(const View& a, double term, const View& out) {
  if (out.elements() > 0) call(TERN_NPU_OP(Adds), a, Number{term}, Number{1.0}, out);
}

void Composer::reduce_sum(const View& from, std::vector<std::int64_t> dims, const View& out) {
  if (out.elements() == 0) return;
  if (from.elements() == 0) {
    zero(out);
  } else {
    call(TERN_NPU_OP(ReduceSum), from, Ints(std::move(dims)), false, out.dtype, out);
  }
}

View Composer::result(int arg) {
  const View out = this->arg(arg);
  if (out.dtype == ACL_FLOAT && !accumulates(arg)) return out;
  return temp(ACL_FLOAT, out.shape);
}

void Composer::finish(int arg, const View& value) { store(this->arg(arg), value, accumulates(arg)); }

void Composer::store(const View& out, const View& value, bool accumulate) {
  if (out.elements() == 0) return;
  if (accumulate) {
    const View sum = out.dtype == ACL_FLOAT ? out : temp(ACL_FLOAT, out.shape);
    if (out.dtype == ACL_FLOAT) {
      add(out, value, out);
    } else {
      copy(sum, out);
      add(sum, value, sum);
      copy(out, sum);
    }
  } else if (out.place != value.place || out.offset != value.offset) {
    copy(out, value);
  }
}

}  // namespace tern::npu
