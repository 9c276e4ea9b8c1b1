#include "graph/work.h"

#include <algorithm>

namespace tern::graph {
namespace {

using Lengths = std::span<const std::int32_t>;

class Counter {
 public:
  Counter(const Graph& graph, const Node& node, std::span<const std::int64_t> counts,
          std::span<const tern_host_array> lengths)
      : descs_(graph.arg_descs(node.call)), node_(node), lengths_(lengths) {
    for (TensorDesc& desc : descs_) {
      if (!is_present(desc) || desc.dynamic_dim < 0 || desc.count_slot >= counts.size()) continue;
      desc.shape[desc.dynamic_dim] = std::min(desc.shape[desc.dynamic_dim], counts[desc.count_slot]);
    }
  }

  [[nodiscard]] Work count() const {
    Work work{flops(), 0};
    for (std::size_t a = 0; a < descs_.size(); ++a) work.bytes += bytes(static_cast<int>(a));
    return work;
  }

 private:
  [[nodiscard]] const TensorDesc& arg(int index) const { return descs_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] double elements(int index) const { return static_cast<double>(num_elements(arg(index))); }
  [[nodiscard]] double dim(int index, int d) const { return static_cast<double>(arg(index).shape[d]); }
  [[nodiscard]] bool written(int index) const { return node_.results[static_cast<std::size_t>(index)].present(); }
  [[nodiscard]] Lengths lengths(std::size_t index) const {
    if (index >= lengths_.size()) return {};
    return {lengths_[index].data, static_cast<std::size_t>(lengths_[index].count)};
  }

  // Bytes of a tensor whose planned shape was cut to its counts.
  [[nodiscard]] double whole(int index) const {
    const TensorDesc& desc = arg(index);
    if (!is_present(desc) || num_elements(desc) == 0) return 0;
    TensorDesc packed = desc;
    if (!is_quantised(desc)) packed = make_desc(desc.dtype, shape_of(desc));  // no gaps of strides
    return static_cast<double>(total_bytes(packed));
  }

  // Of a table, the rows that an index tensor names.
  [[nodiscard]] double rows_of(int table, int index) const {
    return whole(table) / std::max(dim(table, 0), 1.0) * elements(index);
  }

  [[nodiscard]] double bytes(int index) const {
    switch (node_.call.op) {
      case TERN_OP_EMBEDDING:
        return index == TERN_EMBEDDING_TABLE ? rows_of(index, TERN_EMBEDDING_IDS) : whole(index);
      case TERN_OP_GATHER_ROWS:
        return index == TERN_GATHER_ROWS_X ? whole(TERN_GATHER_ROWS_Y) : whole(index);
      case TERN_OP_KV_WRITE:
        if (index == TERN_KV_WRITE_K_CACHE) return whole(TERN_KV_WRITE_K);
        return index == TERN_KV_WRITE_V_CACHE ? whole(TERN_KV_WRITE_V) : whole(index);
      case TERN_OP_ROPE:
        return index == TERN_ROPE_COS || index == TERN_ROPE_SIN ? rows_of(index, TERN_ROPE_POSITIONS) : whole(index);
      case TERN_OP_QK_NORM_ROPE:
        return index == TERN_QK_NORM_ROPE_COS || index == TERN_QK_NORM_ROPE_SIN
                   ? rows_of(index, TERN_QK_NORM_ROPE_POSITIONS)
                   : whole(index);
      case TERN_OP_QK_NORM_ROPE_BACKWARD:
        return index == TERN_QK_NORM_ROPE_BACKWARD_COS || index == TERN_QK_NORM_ROPE_BACKWARD_SIN
                   ? rows_of(index, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS)
                   : whole(index);
      case TERN_OP_ATTENTION_PAGED:
        if (index != TERN_ATTENTION_PAGED_K_CACHE && index != TERN_ATTENTION_PAGED_V_CACHE) return whole(index);
        return whole(index) / std::max(dim(index, 0) * dim(index, 1), 1.0) * cached_keys();
      default: {
        const bool twice = written(index) && node_.call.inputs[static_cast<std::size_t>(index)].present();
        return twice ? 2 * whole(index) : whole(index);
      }
    }
  }

  [[nodiscard]] double cached_keys() const {
    double keys = 0;
    for (const std::int32_t length : lengths(1)) keys += length;
    return keys;
  }

  // Pairs of a query row and a key that it sees. Rows of a sequence end where its keys end.
  static double pairs(double rows, double keys, bool causal, double window) {
    if (!causal) return rows * keys;
    double seen = 0;
    for (double row = 0; row < rows; ++row) {
      const double visible = std::max(keys - rows + row + 1, 0.0);
      seen += window > 0 ? std::min(visible, window) : visible;
    }
    return seen;
  }

  template <typename Attrs>
  [[nodiscard]] double attended(bool paged) const {
    const auto attrs = ops::unpack_attrs<Attrs>(node_.call.attrs);
    const Lengths q = lengths(0);
    const Lengths k = lengths(1);
    double sum = 0;
    for (std::size_t s = 0; s + 1 < q.size(); ++s) {
      if (s + (paged ? 0 : 1) >= k.size()) break;
      const double keys = paged ? k[s] : k[s + 1] - k[s];
      sum += pairs(q[s + 1] - q[s], keys, attrs.causal != 0, attrs.window);
    }
    return sum;
  }

  [[nodiscard]] double flops() const {
    switch (node_.call.op) {
      case TERN_OP_MATMUL: {
        const auto attrs = ops::unpack_attrs<tern_matmul_attrs>(node_.call.attrs);
        const int inner = arg(TERN_MATMUL_A).rank - 1 - (attrs.transpose_a != 0 ? 1 : 0);
        return 2 * elements(TERN_MATMUL_OUT) * dim(TERN_MATMUL_A, inner);
      }
      case TERN_OP_MATMUL_Q:
        return 2 * elements(TERN_MATMUL_Q_Y) * dim(TERN_MATMUL_Q_X, 1);
      case TERN_OP_LINEAR_CROSS_ENTROPY: {
        const double products =
            1 + (written(TERN_LINEAR_CROSS_ENTROPY_DH) ? 1 : 0) + (written(TERN_LINEAR_CROSS_ENTROPY_DW) ? 1 : 0);
        return 2 * products * elements(TERN_LINEAR_CROSS_ENTROPY_H) * dim(TERN_LINEAR_CROSS_ENTROPY_W, 0);
      }
      case TERN_OP_ATTENTION:  // q k^T and p v
        return 2 * attended<tern_attention_attrs>(false) * dim(TERN_ATTENTION_Q, 1) *
               (dim(TERN_ATTENTION_Q, 2) + dim(TERN_ATTENTION_V, 2));
      case TERN_OP_ATTENTION_BACKWARD:  // q k^T, dq, dk over head_dim; dp, dv over value_dim
        return 2 * attended<tern_attention_backward_attrs>(false) * dim(TERN_ATTENTION_BACKWARD_Q, 1) *
               (3 * dim(TERN_ATTENTION_BACKWARD_Q, 2) + 2 * dim(TERN_ATTENTION_BACKWARD_V, 2));
      case TERN_OP_ATTENTION_PAGED:
        return 2 * attended<tern_attention_paged_attrs>(true) * dim(TERN_ATTENTION_PAGED_Q, 1) *
               (dim(TERN_ATTENTION_PAGED_Q, 2) + dim(TERN_ATTENTION_PAGED_V_CACHE, 3));
      default:
        return 0;
    }
  }

  std::vector<TensorDesc> descs_;
  const Node& node_;
  std::span<const tern_host_array> lengths_;
};

}  // namespace

Work work_of(const Graph& graph, const Node& node, std::span<const std::int64_t> counts,
             std::span<const tern_host_array> lengths) {
  return Counter(graph, node, counts, lengths).count();
}

}  // namespace tern::graph
