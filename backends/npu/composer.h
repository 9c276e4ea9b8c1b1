// An op as a list of aclnn calls. A kernel's function gets a Composer, asks it for the op's tensors as they are at this
// launch and writes calls down; nothing runs meanwhile. The runtime makes the calls real: in `supports` and `plan` at
// the planned shapes, in `bind` where nothing depends on counts or lengths, else in `launch`.
//
// Intermediates lie in the workspace, which calls of one list share in their order. `plan` reads the workspace's size
// from the list at the planned shapes, so a list at smaller counts must not need more of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/npu/calls.h"
#include "backends/npu/cann/ops_elementwise.h"
#include "backends/npu/cann/ops_movement.h"
#include "backends/npu/cann/ops_nn.h"
#include "backends/npu/cann/ops_reduce.h"
#include "backends/npu/chip.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace tern::npu {

// A tensor that never changes, which the device keeps for all kernels: made once by `bytes`, named by `key`.
struct Constant {
  std::string key;
  std::function<std::vector<std::byte>()> bytes;
};

// Actual numbers of a launch. Null counts, no arrays: the planned sizes.
struct Numbers {
  const std::int64_t* counts = nullptr;
  std::span<const tern_host_array> arrays;
};

class Composer {
 public:
  Composer(const Chip& chip, const tern_op_desc& op, Numbers numbers);

  // ---- what is asked
  [[nodiscard]] const Chip& chip() const { return chip_; }
  [[nodiscard]] bool planning() const { return numbers_.counts == nullptr && numbers_.arrays.empty(); }
  [[nodiscard]] const tern_tensor_desc& desc(int arg) const { return op_.args[arg]; }  // as planned
  [[nodiscard]] bool present(int arg) const { return op_.args[arg].rank != 0; }
  [[nodiscard]] bool accumulates(int arg) const { return (op_.accumulate >> arg & 1U) != 0; }
  [[nodiscard]] std::uint32_t needs() const { return op_.needs; }
  template <typename Attrs>
  [[nodiscard]] const Attrs& attrs() const {
    return *static_cast<const Attrs*>(op_.attrs);
  }
  // A strided argument, cut to its actual count; where it is static beside another that is not, to that one's
  // (shared_rows.cpp knows which go together). Absent: an absent view.
  [[nodiscard]] View arg(int arg) const;
  // The same where it's broadcast (a stride of 0) along a dimension that is cut in `like` alone.
  [[nodiscard]] View arg_like(int arg, const View& like) const;
  // Plane `plane` of a quantised or packed argument, as a contiguous tensor of this shape.
  [[nodiscard]] View plane(int arg, int plane, aclDataType dtype, const Dims& shape) const;
  // Lengths of an argument that is marked so, as many as count. Nothing while the op is planned: take the worst case.
  [[nodiscard]] std::optional<std::span<const std::int32_t>> lengths(int arg) const;
  // Refuses the op: `supports` says no, and why.
  [[noreturn]] void refuse(const std::string& reason) const;
  // Whether the installed CANN has an op. On a described device: whether CANN 8.1 has it, as `in_8_1` says.
  [[nodiscard]] bool has(const char* op, bool in_8_1 = true) const;
  // The device that only a description stands for: nothing can be asked of CANN.
  void set_described() { described_ = true; }

  // ---- memory
  [[nodiscard]] View temp(aclDataType dtype, const Dims& shape);
  [[nodiscard]] std::int64_t mark() const { return top_; }
  void rewind(std::int64_t mark) { top_ = mark; }  // later calls overwrite what was taken since `mark`
  [[nodiscard]] View constant(Constant constant, aclDataType dtype, const Dims& shape);

  // ---- calls
  template <typename FirstPhase, typename... Given>
  void call(Op<FirstPhase> op, Given... given) {
    calls_.push_back(make_call(op, std::move(given)...));
  }

  // ---- what most ops share; each skips empty tensors
  [[nodiscard]] View cast(const View& view, aclDataType dtype);  // the view itself where it's of that dtype
  [[nodiscard]] View f32(const View& view) { return cast(view, ACL_FLOAT); }
  [[nodiscard]] View dense(const View& view);   // the view itself, or a contiguous copy
  void copy(const View& to, const View& from);  // casts where dtypes differ
  void zero(const View& view);
  void fill(const View& view, double value);
  void add(const View& a, const View& b, const View& out, double factor = 1.0);  // out = a + factor b
  void mul(const View& a, const View& b, const View& out);
  void muls(const View& a, double factor, const View& out);
  void adds(const View& a, double term, const View& out);
  void reduce_sum(const View& from, std::vector<std::int64_t> dims, const View& out);  // dims are dropped from `out`
  // Where an output may be computed: the output itself if it's fp32 and replaced, else fp32 in the workspace.
  [[nodiscard]] View result(int arg);
  // Ends an output: rounds `value` (fp32) into it, or adds in fp32 and rounds once, where it isn't there already.
  void finish(int arg, const View& value);
  void store(const View& out, const View& value, bool accumulate);

  // ---- what came out
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }
  [[nodiscard]] std::int64_t workspace_bytes() const { return largest_; }
  [[nodiscard]] const std::vector<Constant>& constants() const { return constants_; }

 private:
  const Chip& chip_;
  const tern_op_desc& op_;
  Numbers numbers_;
  bool described_ = false;
  std::int64_t top_ = 0;
  std::int64_t largest_ = 0;
  std::vector<Call> calls_;
  std::vector<Constant> constants_;
};

// shared_rows.cpp: the actual entries of a static argument's dimension: those of the dynamic arguments that go with it.
[[nodiscard]] std::int64_t shared_entries(const tern_op_desc& op, int arg, int dim, const std::int64_t* counts);

}  // namespace tern::npu
