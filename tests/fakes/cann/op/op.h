// How an operator of the fake is written. Its first phase names its arguments, says what CANN says no to, and leaves a
// function that computes; the second phase is the same for all. For example:
//
//   FAKE_OP(Silu, const aclTensor* self, aclTensor* out) {
//     return plan("aclnnSilu", workspaceSize, executor, [&](Op& op) {
//       const Tensor x = op.in("self", self), y = op.out("out", out);
//       op.dtypes(x, op.floats());           // nn: FLOAT, FLOAT16, and BFLOAT16 where the chip has it
//       op.same_shape(x, y);
//       op.run([=](Run& run) { map(run.view(y), silu, run.view(x)); });
//     });
//   }
//
// A check cites the constraint that it is from. Order matters, as CANN's: nulls, dtypes, formats, ranks, shapes.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/npu/cann/errors.h"
#include "backends/npu/cann/op.h"
#include "tests/fakes/cann/acl/process.h"
#include "tests/fakes/cann/op/handles.h"
#include "tests/fakes/cann/opapi/numerics_view.h"

namespace fake {

using Dtypes = std::vector<aclDataType>;

// Bits of one element; 0: the fake has no such numbers.
[[nodiscard]] std::int64_t bits_of(aclDataType dtype);
[[nodiscard]] std::string name_of(aclDataType dtype);  // DT_FLOAT
[[nodiscard]] numerics::Element element_of(aclDataType dtype);
[[nodiscard]] std::string text_of(const Dims& dims);
[[nodiscard]] bool is_floating(aclDataType dtype);
// What two dtypes are promoted to, as torch does (math: add, mul and their kin); ACL_DT_UNDEFINED: nothing.
[[nodiscard]] aclDataType promoted(aclDataType first, aclDataType second);
// The shape that both broadcast to; none: they don't.
[[nodiscard]] std::optional<Dims> broadcast_of(const Dims& first, const Dims& second);

// An argument of the first phase.
class Tensor {
 public:
  [[nodiscard]] bool given() const { return slot >= 0; }
  explicit operator bool() const { return given(); }
  [[nodiscard]] aclDataType dtype() const { return seen.dtype; }
  [[nodiscard]] aclFormat format() const { return seen.format; }
  [[nodiscard]] const Dims& shape() const { return seen.dims; }
  [[nodiscard]] std::int64_t dim(std::int64_t which) const;  // from the end where below 0
  [[nodiscard]] std::int64_t rank() const { return static_cast<std::int64_t>(seen.dims.size()); }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] bool contiguous() const;

  aclTensor seen;  // a copy, as the second phase may outlive what the first was given
  int slot = -1;
  std::string name;
};

class Op {
 public:
  explicit Op(std::string name);

  // Arguments. What isn't optional and is null: 161001.
  Tensor in(const char* name, const aclTensor* tensor);
  Tensor optional(const char* name, const aclTensor* tensor);
  Tensor out(const char* name, const aclTensor* tensor);
  Tensor optional_out(const char* name, const aclTensor* tensor);
  // The same, of one of some dtypes.
  Tensor in(const char* name, const aclTensor* tensor, const Dtypes& allowed);
  Tensor optional(const char* name, const aclTensor* tensor, const Dtypes& allowed);
  Tensor out(const char* name, const aclTensor* tensor, const Dtypes& allowed);
  Tensor optional_out(const char* name, const aclTensor* tensor, const Dtypes& allowed);
  std::vector<Tensor> list(const char* name, const aclTensorList* tensors, bool may_be_null = false);
  std::vector<Tensor> out_list(const char* name, const aclTensorList* tensors, bool may_be_null = false);
  std::vector<Tensor> list(const char* name, const aclTensorList* tensors, const Dtypes& allowed);
  std::vector<Tensor> out_list(const char* name, const aclTensorList* tensors, const Dtypes& allowed);
  double number(const char* name, const aclScalar* scalar);
  std::int64_t integer(const char* name, const aclScalar* scalar);
  Dims array(const char* name, const aclIntArray* array, bool may_be_null = false);
  std::vector<bool> truths(const char* name, const aclBoolArray* array);
  std::string word(const char* name, const char* text);

  // Generated operators (ob): what is wrong in a shape or an attribute is found by tiling, 561002, and not by the first
  // check.
  void generated() { executor_->generated = true; }
  // The chips that have it; others: 361001 ("SoC not supported"), or 561003 (no kernel) of a generated operator.
  void chips(std::initializer_list<Family> families);
  void not_on(std::initializer_list<Family> families);

  // Dtypes: FLOAT, FLOAT16, and BFLOAT16 where the chip has it.
  [[nodiscard]] Dtypes floats() const;
  [[nodiscard]] Dtypes floats_and(std::initializer_list<aclDataType> more) const;
  void dtypes(const Tensor& tensor, const Dtypes& allowed);
  void same_dtype(const Tensor& first, const Tensor& second);
  void format(const Tensor& tensor, std::initializer_list<aclFormat> allowed);
  void rank(const Tensor& tensor, std::int64_t least, std::int64_t most);
  void shape(const Tensor& tensor, const Dims& expected);
  void same_shape(const Tensor& first, const Tensor& second);
  // The shape that both broadcast to must be that of `out`.
  void broadcast(const Tensor& first, const Tensor& second, const Tensor& out);
  void contiguous(const Tensor& tensor);
  void need(bool met, const std::string& otherwise);  // shapes and attributes: 161002, or 561002
  [[noreturn]] void no(const std::string& text);      // the same
  // The dimension that an attribute names, counted from the end where it's below 0; 161002 where there is none.
  std::int64_t dimension(std::int64_t dim, std::int64_t rank);

  void workspace(std::uint64_t bytes) { executor_->workspace += bytes; }
  void not_repeatable() { executor_->may_repeat = false; }
  [[nodiscard]] bool deterministic() const { return executor_->deterministic; }
  [[nodiscard]] bool on(Family family) const { return chip().family == family; }
  void run(std::function<void(Run&)> body) { executor_->run = std::move(body); }

  [[nodiscard]] std::unique_ptr<aclOpExecutor> finish();

 private:
  void refuse_chip() const;
  Tensor add(const char* name, const aclTensor* tensor, bool output, bool may_be_null);
  std::vector<Tensor> add_list(const char* name, const aclTensorList* tensors, bool output, bool may_be_null);
  [[nodiscard]] int shape_code() const;

  std::unique_ptr<aclOpExecutor> executor_;
};

// One launch: what the second phase was given, when the stream comes to it.
class Run {
 public:
  // Where the tensor's elements are. Refuses with 507015 what isn't in the device's memory.
  [[nodiscard]] numerics::View view(const Tensor& tensor) const;
  [[nodiscard]] bool has(const Tensor& tensor) const { return tensor.given(); }
  // 0 where results must be the same each time; else another number each time, for the order of sums.
  [[nodiscard]] std::uint64_t shuffle() const { return shuffle_; }

  struct Place {
    aclTensor tensor;  // a copy, with the address of this launch
  };
  Run(std::vector<Place> places, std::uint64_t shuffle) : places_(std::move(places)), shuffle_(shuffle) {}

 private:
  std::vector<Place> places_;
  std::uint64_t shuffle_;
};

void begin_plan(const std::uint64_t* workspace, aclOpExecutor* const* executor);
void end_plan(Op& op, std::uint64_t* workspace, aclOpExecutor** executor);

template <typename Body>
aclnnStatus plan(const char* name, std::uint64_t* workspace, aclOpExecutor** executor, Body&& body) {
  return guarded((std::string(name) + "GetWorkspaceSize").c_str(), [&] {
    begin_plan(workspace, executor);
    Op op(name);
    std::forward<Body>(body)(op);
    end_plan(op, workspace, executor);
  });
}

aclnnStatus launch_executor(const char* name, void* workspace, std::uint64_t size, aclOpExecutor* executor,
                            aclrtStream stream);

}  // namespace fake

// Defines the second phase and begins the definition of the first, which must be as the backend's headers declare it.
#define FAKE_OP(name, ...)                                                                                          \
  extern "C" aclnnStatus aclnn##name(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) { \
    return fake::launch_executor("aclnn" #name, workspace, size, executor, stream);                                 \
  }                                                                                                                 \
  extern "C" aclnnStatus aclnn##name##GetWorkspaceSize(__VA_ARGS__, uint64_t* workspaceSize, aclOpExecutor** executor)
