#include "graph/unbroadcast.h"

#include <stdexcept>

#include "ops/cast_copy.h"
#include "ops/row_sum.h"

namespace tern::graph {
namespace {

bool is_broadcast_at(const TensorDesc& desc, int dim) { return desc.shape[dim] > 1 && desc.strides[dim] == 0; }

// The same tensor with `dim` first.
TensorDesc with_first(const TensorDesc& desc, int dim) {
  TensorDesc out = desc;
  for (int d = dim; d > 0; --d) {
    out.shape[d] = desc.shape[d - 1];
    out.strides[d] = desc.strides[d - 1];
  }
  out.shape[0] = desc.shape[dim];
  out.strides[0] = desc.strides[dim];
  if (desc.dynamic_dim == dim) out.dynamic_dim = 0;
  if (desc.dynamic_dim >= 0 && desc.dynamic_dim < dim) ++out.dynamic_dim;
  return out;
}

TensorDesc contiguous(const TensorDesc& desc) {
  TensorDesc out = make_desc(desc.dtype, shape_of(desc));
  out.dynamic_dim = desc.dynamic_dim;
  out.count_slot = desc.count_slot;
  return out;
}

// The sum over one dimension, which keeps a size of 1. Copies once where the dimension does not come first.
Value sum_over(Graph& graph, Value x, int dim) {
  const TensorDesc desc = graph.desc(x);
  const TensorDesc first = with_first(desc, dim);
  if (dim != 0) x = graph.view(x, first, 0);
  if (dim != 0 || !is_contiguous(desc)) {
    // Rows that are kept are dynamic, and the matrix below has none: what is beyond their count stays there.
    x = ops::cast_copy(graph, x, {.out = desc.dtype});
  }
  TensorDesc matrix = make_desc(desc.dtype, {first.shape[0], num_elements(first) / first.shape[0]});
  if (first.dynamic_dim == 0) matrix = with_dynamic(matrix, 0, first.count_slot);
  const Value sum = ops::row_sum(graph, graph.view(x, matrix, 0), {.axis = 0, .out = TERN_F32});
  TensorDesc out = desc;
  out.dtype = TERN_F32;
  out.shape[dim] = 1;
  if (desc.dynamic_dim == dim) out.dynamic_dim = -1;
  return graph.view(sum, contiguous(out), 0);
}

}  // namespace

bool is_broadcast(const TensorDesc& desc) {
  for (int d = 0; d < desc.rank; ++d) {
    if (is_broadcast_at(desc, d)) return true;
  }
  return false;
}

TensorDesc unbroadcast(TensorDesc desc) {
  for (int d = 0; d < desc.rank; ++d) {
    if (!is_broadcast_at(desc, d)) continue;
    desc.shape[d] = 1;
    if (desc.dynamic_dim == d) desc.dynamic_dim = -1;
  }
  return desc;
}

Value sum_over_broadcast(Graph& graph, Value gradient, const TensorDesc& desc) {
  // A broadcast dimension that is dynamic in the gradient counts its rows there.
  const auto sum_where = [&](bool dynamic) {
    for (int d = 0; d < desc.rank; ++d) {
      if (is_broadcast_at(desc, d) && (graph.desc(gradient).dynamic_dim == d) == dynamic) {
        gradient = sum_over(graph, gradient, d);
      }
    }
  };
  sum_where(true);
  sum_where(false);
  return gradient;
}

}  // namespace tern::graph
