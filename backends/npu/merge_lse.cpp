#include <limits>

#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

void compose(Composer& c) {
  Algebra algebra(c);
  const View row_sum = c.arg(TERN_MERGE_LSE_ROW_SUM), lse = c.arg(TERN_MERGE_LSE_LSE);
  const View counts = algebra.differs(row_sum, 0.0);
  const View lowest = algebra.constant(-std::numeric_limits<float>::max());
  const View row_max = algebra.select(counts, c.arg(TERN_MERGE_LSE_ROW_MAX), lowest);
  const View top = algebra.largest(row_max, 0);
  const View terms = algebra.mul(algebra.exp(algebra.sub(row_max, top)), row_sum);
  const View total = algebra.sum(terms, 0);
  const View merged = algebra.add(algebra.log(total), top);
  algebra.put_where(merged, algebra.equals(total, 0.0), 0.0);  // every shard left out the row
  c.copy(lse, merged.reshaped({merged.dim(1)}));
}

constexpr KernelEntry kEntries[] = {{TERN_OP_MERGE_LSE, "composed", compose, true}};

}  // namespace

KernelList merge_lse_kernels() { return kEntries; }

}  // namespace tern::npu
