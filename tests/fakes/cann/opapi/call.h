// Phase 1 of an op of this folder: it checks each argument and records what phase 2 does. A refused argument throws out
// of the body; plan() turns that into the code and the message that CANN gives.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "backends/npu/cann/errors.h"
#include "backends/npu/cann/meta.h"
#include "numerics_view.h"

namespace fake {

using numerics::Element;
using numerics::Shape;
using numerics::View;

enum class Chip { kA2, kA3, kA5, k310P, k910 };
using Chips = std::initializer_list<Chip>;
inline constexpr Chips every_chip = {Chip::kA2, Chip::kA3, Chip::kA5, Chip::k310P, Chip::k910};
inline constexpr Chips not_310p = {Chip::kA2, Chip::kA3, Chip::kA5, Chip::k910};
inline constexpr Chips a2_a3_a5 = {Chip::kA2, Chip::kA3, Chip::kA5};
inline constexpr Chips not_910 = {Chip::kA2, Chip::kA3, Chip::kA5, Chip::k310P};

// Hand-written ops name a bad argument themselves (161002); generated ones find it out as they are tiled (561002), and
// have no kernel (561003) where a chip lacks them. See "Executors and phase 1" of the constraints.
enum class Kind { kHandWritten, kGenerated };

using Types = std::initializer_list<Element>;
inline constexpr Types floats = {Element::kFloat32, Element::kFloat16, Element::kBfloat16};
inline constexpr Types halves = {Element::kFloat16, Element::kBfloat16};
inline constexpr Types fp32 = {Element::kFloat32};
inline constexpr Types int32 = {Element::kInt32};
inline constexpr Types int64 = {Element::kInt64};
inline constexpr Types indices = {Element::kInt32, Element::kInt64};
inline constexpr Types truths = {Element::kBool};
inline constexpr Types bytes_or_truths = {Element::kBool, Element::kUint8};
inline constexpr Types integers = {Element::kInt8, Element::kUint8, Element::kInt16, Element::kInt32, Element::kInt64};
inline constexpr Types numbers = {Element::kFloat32, Element::kFloat16, Element::kBfloat16,
                                  Element::kFloat64, Element::kInt8,    Element::kUint8,
                                  Element::kInt16,   Element::kInt32,   Element::kInt64};
inline constexpr Types anything = {Element::kFloat32, Element::kFloat16, Element::kBfloat16, Element::kFloat64,
                                   Element::kInt8,    Element::kUint8,   Element::kInt16,    Element::kInt32,
                                   Element::kInt64,   Element::kBool};

// A tensor as phase 1 sees it. What it points at is known in phase 2 only: see Run::view.
struct Argument {
  std::string name;
  Element element = Element::kFloat32;
  Shape shape;
  Shape strides;
  aclFormat format = ACL_FORMAT_ND;
  std::size_t slot = 0;

  [[nodiscard]] std::int64_t count() const { return numerics::count_of(shape); }
  [[nodiscard]] std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  [[nodiscard]] std::int64_t size(std::int64_t dimension) const {
    return shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))];
  }
  [[nodiscard]] bool contiguous() const;
  [[nodiscard]] bool is(Types types) const;
};

// Phase 2, on the stream.
class Run {
 public:
  virtual ~Run() = default;
  [[nodiscard]] virtual View view(const Argument& argument) const = 0;
  // A number for summation_order: 0 where the op is deterministic or was asked to be, another at each run elsewhere.
  [[nodiscard]] virtual std::uint64_t shuffle() const = 0;
  // What the device reports when a kernel reads or writes where it mustn't: 507015 at the next synchronisation.
  [[noreturn]] virtual void fault(const std::string& why) const = 0;

  [[nodiscard]] std::optional<View> view(const std::optional<Argument>& argument) const {
    return argument ? std::optional(view(*argument)) : std::nullopt;
  }
};

class Call {
 public:
  virtual ~Call() = default;

  // The op's chips and kind; constraints page, "Ops".
  virtual void available(Chips chips, Kind kind = Kind::kHandWritten) = 0;
  [[nodiscard]] virtual Chip chip() const = 0;
  [[nodiscard]] bool on(Chips chips) const { return std::find(chips.begin(), chips.end(), chip()) != chips.end(); }

  // Null: 161001. A type outside the list, bf16 where the chip has none, more than 8 dimensions: 161002.
  [[nodiscard]] virtual Argument tensor(const char* name, const aclTensor* tensor, Types types) = 0;
  [[nodiscard]] std::optional<Argument> optional(const char* name, const aclTensor* given, Types types) {
    return given != nullptr ? std::optional(tensor(name, given, types)) : std::nullopt;
  }
  [[nodiscard]] virtual std::vector<Argument> list(const char* name, const aclTensorList* list, Types types) = 0;
  [[nodiscard]] virtual double number(const char* name, const aclScalar* scalar) = 0;
  [[nodiscard]] virtual bool is_floating(const aclScalar* scalar) const = 0;
  [[nodiscard]] virtual Shape array(const char* name, const aclIntArray* array) = 0;
  [[nodiscard]] virtual std::vector<bool> truth_array(const char* name, const aclBoolArray* array) = 0;
  void absent(const char* name, const void* given);  // an option that the fake doesn't compute

  // Refuses with the kind's code unless it holds; `what` continues the sentence "aclnnX: ".
  void require(bool holds, const std::string& what);
  void require_shape(const Argument& argument, const Shape& shape);
  void require_same_type(const Argument& one, const Argument& other);
  void require_contiguous(const Argument& argument);
  void require_dimension(std::int64_t dimension, std::int64_t rank);
  [[noreturn]] virtual void refuse(int code, const std::string& what) = 0;

  // Bytes beyond what copies of tensors that aren't contiguous take.
  virtual void workspace(std::uint64_t bytes) = 0;
  virtual void not_repeatable() = 0;
  virtual void nondeterministic() = 0;
  virtual void run(std::function<void(const Run&)> body) = 0;

 protected:
  Kind kind_ = Kind::kHandWritten;
};

[[nodiscard]] std::string text_of(const Shape& shape);
[[nodiscard]] const char* name_of(Element element);
// The shape of two shapes side by side, or a refusal.
[[nodiscard]] Shape broadcast_shape(Call& call, const Shape& one, const Shape& other);
// What a sum of the two types has (aclnn's promotion).
[[nodiscard]] Element promoted(Element one, Element other);

// `function` is "aclnnXGetWorkspaceSize".
aclnnStatus plan(const char* function, std::uint64_t* workspace_size, aclOpExecutor** executor,
                 const std::function<void(Call&)>& body);
aclnnStatus launch(const char* function, void* workspace, std::uint64_t workspace_size, aclOpExecutor* executor,
                   aclrtStream stream);

}  // namespace fake

// Both phases of aclnnNAME. The body that follows is phase 1's; it ends in FAKE_PLAN with a lambda over Call&.
#define FAKE_OP(name, ...)                                                                             \
  extern "C" aclnnStatus aclnn##name(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, \
                                     aclrtStream stream) {                                             \
    return fake::launch(__func__, workspace, workspaceSize, executor, stream);                         \
  }                                                                                                    \
  extern "C" aclnnStatus aclnn##name##GetWorkspaceSize(__VA_ARGS__, uint64_t* workspaceSize, aclOpExecutor** executor)
#define FAKE_PLAN(...) return fake::plan(__func__, workspaceSize, executor, __VA_ARGS__)
