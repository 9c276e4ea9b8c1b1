#include "engine/non_finite_logit.h"

#include <cmath>

#include "base/strings.h"

namespace tern::engine {

Error non_finite_logit(std::string_view where, double value) {
  return failed_error(cat(where, ": a logit is ", std::isnan(value) ? "NaN" : "an infinity"),
                      "try --torch_dtype float32; if that fails too, the weights or the adapter are damaged");
}

}  // namespace tern::engine
