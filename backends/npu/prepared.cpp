// From calls that are written down to executors, and their second phase.
#include <algorithm>

#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

// What the context's option must be: 1 keeps an order of summation, 3 also makes a row's bits its own.
std::int64_t determinism_of(std::uint32_t needs) {
  if ((needs & TERN_NEED_ROW_INVARIANT) != 0) return 3;
  return (needs & TERN_NEED_DETERMINISTIC) != 0 ? 1 : 0;
}

void set_determinism(Shared& shared, std::int64_t wanted) {
  if (wanted == 3 && !shared.has_invariant_kernels) wanted = 1;
  if (shared.determinism == wanted) return;
  const auto set = acl().aclrtCtxSetSysParamOpt;
  if (set == nullptr) throw Error(TERN_UNSUPPORTED, "this CANN keeps no order of summation; install CANN 8.0 or later");
  check(set(ACL_OPT_DETERMINISTIC, wanted), "aclrtCtxSetSysParamOpt");
  shared.determinism = wanted;
}

}  // namespace

Prepared::Prepared(Shared& shared, const Composer& composer, const Places& places, std::uint32_t needs, bool keep) {
  const std::lock_guard lock(shared.first_phase);
  set_determinism(shared, determinism_of(needs));
  steps_.reserve(composer.calls().size());
  try {
    for (const Call& call : composer.calls()) prepare(shared, call, places, keep);
  } catch (...) {
    for (const Step& step : steps_) {
      if (step.executor != nullptr) acl().aclDestroyAclOpExecutor(step.executor);
    }
    throw;
  }
}

Prepared::~Prepared() {
  for (const Step& step : steps_) {
    if (step.executor != nullptr) acl().aclDestroyAclOpExecutor(step.executor);
  }
}

void Prepared::prepare(Shared& /*shared*/, const Call& call, const Places& places, bool keep) {
  const Acl& api = acl();
  const OpSymbols symbols = find_op(call.name);
  if (!symbols.present()) {
    throw Error(TERN_UNSUPPORTED, std::string("the installed CANN has no ") + call.name + "; a newer one may");
  }
  auto& objects = *objects_.emplace_back(std::make_unique<Objects>(places));
  Step step;
  step.name = call.name;
  step.run = symbols.run;
  const aclnnStatus code = call.prepare(symbols.workspace, objects, &step.bytes, &step.executor);
  if (code != 0) throw Error(status_of(code), describe_failure(call.name, code));
  step.kept =
      keep && api.aclSetAclOpExecutorRepeatable != nullptr && api.aclSetAclOpExecutorRepeatable(step.executor) == 0;
  repeatable_ = repeatable_ && step.kept;
  scratch_bytes_ = std::max(scratch_bytes_, step.bytes);
  steps_.push_back(step);
}

bool Prepared::same_calls(const Prepared& other) const {
  return std::equal(steps_.begin(), steps_.end(), other.steps_.begin(), other.steps_.end(),
                    [](const Step& a, const Step& b) { return std::string_view(a.name) == b.name; });
}

void Prepared::run(std::byte* workspace, aclrtStream stream) {
  using SecondPhase = aclnnStatus (*)(void*, std::uint64_t, aclOpExecutor*, aclrtStream);
  for (Step& step : steps_) {
    if (step.executor == nullptr) throw Error(TERN_INTERNAL, std::string(step.name) + ": launched a second time");
    const auto run = reinterpret_cast<SecondPhase>(step.run);
    aclOpExecutor* const executor = step.executor;
    if (!step.kept) step.executor = nullptr;  // the second phase ends it
    check(run(step.bytes > 0 ? workspace + scratch_offset : nullptr, step.bytes, executor, stream), step.name);
  }
}

}  // namespace tern::npu
