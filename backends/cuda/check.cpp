#include "backends/cuda/check.h"

#include "backends/cuda/text.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {

void Check::refuse(std::string reason) {
  if (ok_) reason_ = std::move(reason);
  ok_ = false;
}

const char* Check::name(int arg) const { return tern_plugin_arg_name(desc_.op.op, static_cast<std::uint32_t>(arg)); }

Check& Check::floats(std::initializer_list<int> args) {
  for (const int i : args) {
    if (!desc_.present(i) || is_small_float(desc_.arg(i).dtype)) continue;
    refuse(cat(name(i), ": expected f32, bf16 or f16, found ", tern_plugin_dtype_name(desc_.arg(i).dtype)));
  }
  return *this;
}

Check& Check::dtype(int arg, tern_dtype dtype) {
  if (desc_.present(arg) && desc_.arg(arg).dtype != dtype) {
    refuse(cat(name(arg), ": expected ", tern_plugin_dtype_name(dtype), ", found ",
               tern_plugin_dtype_name(desc_.arg(arg).dtype)));
  }
  return *this;
}

Check& Check::rank(int arg, int rank) {
  if (desc_.present(arg) && desc_.arg(arg).rank != rank) {
    refuse(cat(name(arg), ": expected rank ", rank, ", found ", desc_.arg(arg).rank));
  }
  return *this;
}

Check& Check::same_shape(std::initializer_list<int> args) {
  const int first = *args.begin();
  for (const int i : args) {
    if (!desc_.present(i) || !desc_.present(first)) continue;
    const auto& a = desc_.arg(first);
    const auto& b = desc_.arg(i);
    if (tern_plugin_same_shape(&a, &b) == 0) refuse(cat(name(i), ": its shape differs from that of ", name(first)));
  }
  return *this;
}

Check& Check::dim(int arg, int d, std::int64_t size) {
  if (!ok_ || !desc_.present(arg)) return *this;
  const auto& desc = desc_.arg(arg);
  if (d >= desc.rank || desc.shape[d] != size) {
    refuse(cat(name(arg), ": expected dimension ", d, " to be ", size, ", found ", d < desc.rank ? desc.shape[d] : 0));
  }
  return *this;
}

Check& Check::contiguous() {
  for (int i = 0; i < static_cast<int>(desc_.op.num_args); ++i) {
    const auto& desc = desc_.arg(i);
    std::int64_t expected = 1;
    for (int d = static_cast<int>(desc.rank) - 1; d >= 0; --d) {
      if (desc.shape[d] != 1 && desc.strides[d] != expected) refuse("a tensor isn't contiguous");
      expected *= desc.shape[d];
    }
  }
  return *this;
}

Check& Check::that(bool good, const char* reason) {
  if (!good) refuse(reason);
  return *this;
}

}  // namespace tern::cuda
