#include "conformance/compare.h"

#include <cmath>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/tolerance.h"

namespace tern::conformance {
namespace {

std::string place(const TensorDesc& desc, std::size_t element) {
  std::vector<std::string> index(static_cast<std::size_t>(desc.rank));
  auto rest = static_cast<std::int64_t>(element);
  for (int d = desc.rank - 1; d >= 0; --d) {
    index[static_cast<std::size_t>(d)] = cat(rest % desc.shape[d]);
    rest /= desc.shape[d];
  }
  return cat("[", join(index, ","), "]");
}

}  // namespace

Comparison compare(const Case& c, int arg, const ops::ref::Tensor& expected, const ops::ref::Tensor& got) {
  Comparison out;
  const std::string_view name = c.spec().args[static_cast<std::size_t>(arg)].name;
  auto note = [&](double share, std::size_t i, double want, double found) {
    if (!(share > out.worst)) return;
    out.worst = share;
    if (share > 1.0) {
      out.problem = cat(name, place(expected.desc, i), ": expected ", want, ", found ", found, ", ", fixed(share, 2),
                        " of the tolerance");
    }
  };
  if (!dtype_info(expected.desc.dtype).floating) {
    for (std::size_t i = 0; i < expected.integer.size(); ++i) {
      // Integers of the op's dtype: what encoding keeps of the oracle's.
      const bool undecided = !expected.magnitude.empty() && std::isinf(expected.magnitude[i]);
      ops::ref::Tensor one;
      one.desc = make_desc(expected.desc.dtype, {1});
      one.integer = {expected.integer[i]};
      std::byte bytes[8] = {};
      ops::ref::encode(one, one.desc, bytes);
      const std::span<const std::byte> plane(bytes);
      const auto want = ops::ref::decode(one.desc, std::span(&plane, 1)).integer[0];
      if (!undecided && want != got.integer[i]) {
        note(INFINITY, i, static_cast<double>(want), static_cast<double>(got.integer[i]));
      }
    }
    return out;
  }
  std::vector<TensorDesc> descs;
  for (const Argument& argument : c.args) descs.push_back(cut(argument.desc, c.counts));
  const std::int64_t length = ops::reduction_length(c.op, arg, descs, c.attrs);
  const bool exact = ops::is_exact(c.op, arg, c.accumulate);
  for (std::size_t i = 0; i < expected.real.size(); ++i) {
    const double value = expected.real[i];
    const double magnitude = expected.magnitude.empty() ? std::fabs(value) : expected.magnitude[i];
    const double slack = exact ? 0.0 : ops::slack_of(magnitude, length);
    note(ops::error_share(expected.desc.dtype, value, slack, got.real[i], exact || !c.special), i, value, got.real[i]);
  }
  return out;
}

}  // namespace tern::conformance
