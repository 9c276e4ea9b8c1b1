#include "ops/registry.h"

#include <array>
#include <stdexcept>

#include "base/strings.h"
#include "ops/program_ops.h"

namespace tern::ops {
namespace {

constexpr std::array<const OpRules*, TERN_OP_LIMIT> kRules = [] {
  std::array<const OpRules*, TERN_OP_LIMIT> rules{};
#define TERN_NAME_RULES(ID, name) rules[TERN_OP_##ID] = &name##_rules;
  TERN_FOR_EACH_OP(TERN_NAME_RULES)
#undef TERN_NAME_RULES
  return rules;
}();

}  // namespace

const OpRules& op_rules(std::uint32_t op) {
  if (is_program_op(op)) return program_op_rules(op);
  if (op == 0 || op >= kRules.size()) throw std::out_of_range(cat("no op has the id ", op));
  return *kRules[op];
}

Work work_of(const CallDesc& call, HostArrays lengths) {
  const WorkRules& rules = op_rules(call.op).work;
  Work work{rules.flops(call, lengths), 0};
  for (std::size_t a = 0; a < call.args.size(); ++a) work.bytes += rules.bytes(call, static_cast<int>(a), lengths);
  return work;
}

}  // namespace tern::ops
