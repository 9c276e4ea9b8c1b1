// What the checks of attention and attention_paged share.
#pragma once

#include "ops/check.h"

namespace tern::ops {

[[nodiscard]] std::string check_attention(const tern_attention_attrs& attrs, std::int64_t heads, std::int64_t kv_heads);

}  // namespace tern::ops
