#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void shard_index(Call& call) {
  const auto attrs = attrs_of<tern_shard_index_attrs>(call);
  const Tensor& ids = input(call, TERN_SHARD_INDEX_IDS);
  Tensor& y = call.args[TERN_SHARD_INDEX_Y];
  y.integer.clear();
  for (std::int64_t r = 0; r < ids.size(0); ++r) {
    const std::int64_t at = ids.integer[static_cast<std::size_t>(r)] - attrs.first;
    y.integer.push_back(at >= 0 && at < attrs.count ? at : -1);
  }
}

}  // namespace tern::ops::ref
