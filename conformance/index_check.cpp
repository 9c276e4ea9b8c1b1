#include "conformance/index_check.h"

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/index_check.h"

namespace tern::conformance {

std::string index_problem(const Case& c) {
  std::vector<ops::ref::Tensor> args(c.args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Argument& arg = c.args[i];
    if (!is_present(arg.desc)) continue;
    if (arg.desc.dynamic_dim >= 0) {
      const std::int64_t most = arg.desc.shape[arg.desc.dynamic_dim];
      const std::int64_t count = c.counts[arg.desc.count_slot];
      if (count < 0 || count > most) {
        return cat("counts[", static_cast<int>(arg.desc.count_slot), "]: expected 0 to ", most, ", found ", count);
      }
    }
    args[i].desc = cut(arg.desc, c.counts);
    if (!dtype_info(arg.desc.dtype).floating) args[i] = decode(arg.desc, arg.planes, c.counts);
  }
  const std::vector<TensorDesc> descs = descs_of(c);
  return ops::index_problem({c.op, descs, c.attrs, c.accumulate}, args);
}

}  // namespace tern::conformance
