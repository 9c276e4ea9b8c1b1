#include "conformance/compare.h"

#include <algorithm>
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

bool is_other(const ops::ref::Tensor& expected, std::size_t i, double found) {
  if (expected.others.empty()) return false;
  const std::vector<double>& others = expected.others[i];
  return std::find(others.begin(), others.end(), found) != others.end();
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
      if (!expected.slack.empty() && std::isinf(expected.slack[i])) continue;  // open
      // Integers of the op's dtype: what encoding keeps of the oracle's.
      ops::ref::Tensor one;
      one.desc = make_desc(expected.desc.dtype, {1});
      one.integer = {expected.integer[i]};
      std::byte bytes[8] = {};
      ops::ref::encode(one, one.desc, bytes);
      const std::span<const std::byte> plane(bytes);
      const auto want = ops::ref::decode(one.desc, std::span(&plane, 1)).integer[0];
      if (want != got.integer[i] && !is_other(expected, i, static_cast<double>(got.integer[i]))) {
        note(INFINITY, i, static_cast<double>(want), static_cast<double>(got.integer[i]));
      }
    }
    return out;
  }
  for (std::size_t i = 0; i < expected.real.size(); ++i) {
    const double value = expected.real[i];
    const double slack = expected.slack.empty() ? 0.0 : expected.slack[i];
    const auto share = [&](double want) {
      return ops::error_share(expected.desc.dtype, want, slack, got.real[i], slack == 0.0 || !c.special);
    };
    double best = share(value);
    for (std::size_t n = 0; best > 1.0 && !expected.others.empty() && n < expected.others[i].size(); ++n) {
      best = std::min(best, share(expected.others[i][n]));
    }
    note(best, i, value, got.real[i]);
  }
  return out;
}

}  // namespace tern::conformance
