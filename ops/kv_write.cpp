#include "ops/kv_write.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

}  // namespace

KvCache kv_write(Emitter& emitter, Value k, Value v, Value slots, const KvCache& cache, std::uint32_t needs) {
  const std::vector<Value> out = CallBuilder(TERN_OP_KV_WRITE, needs)
                                     .in(TERN_KV_WRITE_K, k)
                                     .in(TERN_KV_WRITE_V, v)
                                     .in(TERN_KV_WRITE_SLOTS, slots)
                                     .state(emitter, TERN_KV_WRITE_K_CACHE, cache.k)
                                     .state(emitter, TERN_KV_WRITE_V_CACHE, cache.v)
                                     .emit(emitter);
  return {out[TERN_KV_WRITE_K_CACHE], out[TERN_KV_WRITE_V_CACHE]};
}

const OpRules kv_write_rules = {check, nullptr, nullptr, ref::kv_write};

}  // namespace tern::ops
