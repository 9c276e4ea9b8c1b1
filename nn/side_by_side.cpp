#include "nn/side_by_side.h"

#include "ops/build.h"
#include "ops/cast_copy.h"

namespace tern::nn {

void put_columns(Context& context, Value x, Value place, std::int64_t first) {
  graph::Graph& graph = context.graph();
  ops::CastCopyOptions copy;
  copy.at = ops::columns(graph, graph.latest(place), first, graph.desc(x).shape[1]);
  copy.out = graph.desc(place).dtype;
  copy.needs = context.options().needs;
  (void)ops::cast_copy(graph, x, copy);
}

Value side_by_side(Context& context, Value a, Value b) {
  graph::Graph& graph = context.graph();
  const TensorDesc left = graph.desc(a);
  const std::int64_t columns = left.shape[1] + graph.desc(b).shape[1];
  const Value both = graph.buffer(ops::rows_like(make_desc(left.dtype, {left.shape[0], columns}), left));
  put_columns(context, a, both, 0);
  put_columns(context, b, both, left.shape[1]);
  return graph.latest(both);
}

}  // namespace tern::nn
