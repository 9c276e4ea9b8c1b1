#include "backends/cpu/check.h"

#include "base/dtype.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {

void Check::refuse(std::string reason) {
  if (ok_) reason_ = std::move(reason);
  ok_ = false;
}

Check& Check::floats(std::initializer_list<int> args) {
  for (const int i : args) {
    if (!desc_.present(i) || is_small_float(desc_.arg(i).dtype)) continue;
    refuse(cat("argument ", i, ": expected f32, bf16 or f16, found ", dtype_name(desc_.arg(i).dtype)));
  }
  return *this;
}

Check& Check::dtype(int arg, tern_dtype dtype) {
  if (desc_.present(arg) && desc_.arg(arg).dtype != dtype) {
    refuse(cat("argument ", arg, ": expected ", dtype_name(dtype), ", found ", dtype_name(desc_.arg(arg).dtype)));
  }
  return *this;
}

Check& Check::rank(int arg, int rank) {
  if (desc_.present(arg) && desc_.arg(arg).rank != rank) {
    refuse(cat("argument ", arg, ": expected rank ", rank, ", found ", desc_.arg(arg).rank));
  }
  return *this;
}

Check& Check::same_shape(std::initializer_list<int> args) {
  const int first = *args.begin();
  for (const int i : args) {
    if (!desc_.present(i) || !desc_.present(first)) continue;
    const auto& a = desc_.arg(first);
    const auto& b = desc_.arg(i);
    bool same = a.rank == b.rank;
    for (int d = 0; same && d < a.rank; ++d) same = a.shape[d] == b.shape[d];
    if (!same) refuse(cat("argument ", i, ": its shape differs from that of argument ", first));
  }
  return *this;
}

Check& Check::dim(int arg, int d, std::int64_t size) {
  if (!ok_ || !desc_.present(arg)) return *this;
  const auto& desc = desc_.arg(arg);
  if (d >= desc.rank || desc.shape[d] != size) {
    refuse(cat("argument ", arg, ": expected dimension ", d, " to be ", size, ", found ",
               d < desc.rank ? desc.shape[d] : 0));
  }
  return *this;
}

Check& Check::that(bool good, const char* reason) {
  if (!good) refuse(reason);
  return *this;
}

void require_index(std::int64_t index, std::int64_t size, const char* what) {
  if (index < 0 || index >= size)
    throw Failure(data_error(what, cat("an index below ", size), cat(index), kCallAsSpecified));
}

}  // namespace tern::cpu
