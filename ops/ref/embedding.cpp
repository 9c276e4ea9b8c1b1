#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void embedding(Call& call) {
  const Tensor& table = input(call, TERN_EMBEDDING_TABLE);
  const Tensor& ids = input(call, TERN_EMBEDDING_IDS);
  Output y(call, TERN_EMBEDDING_Y, Output::Kind::copies);
  const std::int64_t width = table.size(1);
  for (std::int64_t r = 0; r < ids.size(0); ++r) {
    const std::int64_t id = ids.integer[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; id >= 0 && c < width; ++c)
      y.add(r * width + c, table.real.at(static_cast<std::size_t>(id * width + c)));
  }
}

}  // namespace tern::ops::ref
