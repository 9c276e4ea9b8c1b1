// Array arithmetic written down as aclnn calls: what ops that CANN has no call for are composed of. Inputs broadcast as
// usual; what has no `out` goes to fp32 (or the input's dtype) in the workspace. An `out` may be an input's own memory.
#pragma once

#include <vector>

#include "backends/npu/composer.h"

namespace tern::npu {

class Algebra {
 public:
  explicit Algebra(Composer& composer) : composer_(composer) {}

  // ---- element by element
  View add(const View& a, const View& b, const View& out = {});
  View sub(const View& a, const View& b, const View& out = {});
  View mul(const View& a, const View& b, const View& out = {});
  View div(const View& a, const View& b, const View& out = {});
  View maximum(const View& a, const View& b, const View& out = {});
  View minimum(const View& a, const View& b, const View& out = {});
  View muls(const View& a, double factor, const View& out = {});
  View adds(const View& a, double term, const View& out = {});
  View at_least(const View& a, double bound, const View& out = {});
  View at_most(const View& a, double bound, const View& out = {});
  View exp(const View& a, const View& out = {});
  View log(const View& a, const View& out = {});
  View sigmoid(const View& a, const View& out = {});
  View tanh(const View& a, const View& out = {});
  View relu(const View& a, const View& out = {});
  // Whole numbers.
  View floor_divide(const View& a, std::int64_t divisor);

  // ---- bools
  View equal(const View& a, const View& b);
  View greater(const View& a, const View& b);
  View less(const View& a, const View& b);
  View at_least(const View& a, const View& b);
  View equals(const View& a, double value);
  View differs(const View& a, double value);
  View above(const View& a, double value);
  View below(const View& a, double value);
  View both(const View& a, const View& b);
  View either(const View& a, const View& b);
  View negate(const View& a);
  View select(const View& condition, const View& yes, const View& no, const View& out = {});
  void put_where(const View& target, const View& condition, double value);  // in place

  // ---- along dimensions; kept as 1
  View sum(const View& a, int dim);
  View largest(const View& a, int dim);
  View cumulative(const View& a, int dim);
  // exp(a) over its sum along the last dimension. Rows of -infinity alone become 0.
  View softmax(const View& a);
  // The last dimension in falling (or rising) order, equal ones by their place.
  struct Sorted {
    View values;
    View places;  // i64
  };
  Sorted sort(const View& a, bool descending);

  // ---- makes and takes
  View range(std::int64_t first, std::int64_t count, aclDataType dtype);
  View constant(double value, aclDataType dtype = ACL_FLOAT);                  // one element, of rank 1
  View take_rows(const View& table, const View& index, const View& out = {});  // table[index], along dimension 0
  void put_rows(const View& table, const View& index, const View& rows);       // table[index] = rows, 2-D
  View pick(const View& a, const View& index);                                 // a[r, index[r, i]]

  // Products of the last two dimensions in fp32, those before broadcast. fp32 operands.
  View product(const View& a, const View& b, const View& out = {});

  [[nodiscard]] Composer& composer() { return composer_; }

 private:
  template <typename First>
  View binary(Op<First> op, const View& a, const View& b, const View& out);
  template <typename First>
  View unary(Op<First> op, const View& a, const View& out);
  template <typename First>
  View compare(Op<First> op, const View& a, const View& b);
  template <typename First>
  View compare_scalar(Op<First> op, const View& a, double value);
  View room(const View& out, aclDataType dtype, const Dims& shape);
  View product_by_elements(const View& a, const View& b, const View& out);

  Composer& composer_;
};

// The shape that both broadcast to.
[[nodiscard]] Dims broadcast(const Dims& a, const Dims& b);
// `view` with its dimensions in another order.
[[nodiscard]] View permuted(const View& view, std::initializer_list<int> order);

}  // namespace tern::npu
