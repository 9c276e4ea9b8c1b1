// The error of logits that are no numbers, in scoring and in generation alike.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tern::engine {

// `where` names the token whose logits have the value, a NaN or an infinity.
[[nodiscard]] Error non_finite_logit(std::string_view where, double value);

}  // namespace tern::engine
