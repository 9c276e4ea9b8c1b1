// Every op's rules; each is defined beside its contract in ops/<op>.cpp. The op's row in ops/table.cpp declares them.
#pragma once

#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::ops {

#define TERN_DECLARE_RULES(ID, name) extern const OpRules name##_rules;
TERN_FOR_EACH_OP(TERN_DECLARE_RULES)
#undef TERN_DECLARE_RULES

}  // namespace tern::ops
