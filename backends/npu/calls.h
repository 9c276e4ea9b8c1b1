// One aclnn call written down: its arguments as tensors without addresses, to be made real as often as it's needed.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/npu/loader.h"
#include "backends/npu/view.h"

namespace tern::npu {

// The name and the first phase's type of an op: TERN_NPU_OP(Add), of which backends/npu/cann declares both phases.
template <typename FirstPhase>
struct Op {
  const char* name;
};
#define TERN_NPU_OP(name) \
  ::tern::npu::Op<decltype(&::aclnn##name##GetWorkspaceSize)> { "aclnn" #name }

// Values that become CANN's objects.
struct Number {
  double value;
  aclDataType dtype = ACL_FLOAT;
};
struct Ints {
  std::vector<std::int64_t> values;
  Ints(std::initializer_list<std::int64_t> list) : values(list) {}
  explicit Ints(std::vector<std::int64_t> list) : values(std::move(list)) {}
};
struct Bools {
  std::vector<bool> values;
};
struct Views {
  std::vector<View> values;
};

// Where places lie at the moment.
class Places {
 public:
  virtual ~Places() = default;
  [[nodiscard]] virtual std::byte* address(std::int32_t place) const = 0;
};

// CANN's objects of one call, destroyed together.
class Objects {
 public:
  explicit Objects(const Places& places) : places_(&places) {}
  Objects(Objects&&) noexcept = default;
  Objects& operator=(Objects&&) = delete;
  ~Objects();

  [[nodiscard]] aclTensor* tensor(const View& view);  // null: absent
  [[nodiscard]] aclScalar* scalar(const Number& number);
  [[nodiscard]] aclIntArray* ints(const Ints& ints);
  [[nodiscard]] aclBoolArray* bools(const Bools& bools);
  [[nodiscard]] aclTensorList* list(const Views& views);
  [[nodiscard]] char* text(const std::string& text);

 private:
  [[nodiscard]] aclTensor* make_tensor(const View& view) const;
  const Places* places_;
  std::vector<aclTensor*> tensors_;
  std::vector<aclScalar*> scalars_;
  std::vector<aclIntArray*> ints_;
  std::vector<aclBoolArray*> bools_;
  std::vector<aclTensorList*> lists_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

using FirstPhaseCall = std::function<aclnnStatus(void* symbol, Objects&, std::uint64_t*, aclOpExecutor**)>;

struct Call {
  const char* name = nullptr;
  FirstPhaseCall prepare;
};

namespace detail {

template <typename Parameter, typename Given>
Parameter convert(Objects& objects, const Given& given) {
  using Plain = std::remove_cv_t<std::remove_pointer_t<Parameter>>;
  if constexpr (std::is_same_v<Given, std::nullptr_t>) {
    return nullptr;
  } else if constexpr (std::is_same_v<Plain, aclTensor>) {
    return objects.tensor(given);
  } else if constexpr (std::is_same_v<Plain, aclScalar>) {
    return objects.scalar(given);
  } else if constexpr (std::is_same_v<Plain, aclIntArray>) {
    return objects.ints(given);
  } else if constexpr (std::is_same_v<Plain, aclBoolArray>) {
    return objects.bools(given);
  } else if constexpr (std::is_same_v<Plain, aclTensorList>) {
    return objects.list(given);
  } else if constexpr (std::is_same_v<Plain, char>) {
    return objects.text(given);
  } else {
    return static_cast<Parameter>(given);
  }
}

template <typename Function>
struct Signature;
template <typename... Parameters>
struct Signature<aclnnStatus (*)(Parameters...)> {
  using Tuple = std::tuple<Parameters...>;
};

template <typename FirstPhase, typename Given, std::size_t... I>
aclnnStatus run_first_phase(void* symbol, Objects& objects, const Given& given, std::uint64_t* bytes,
                            aclOpExecutor** executor, std::index_sequence<I...>) {
  using Parameters = typename Signature<FirstPhase>::Tuple;
  const auto function = reinterpret_cast<FirstPhase>(symbol);
  return function(convert<std::tuple_element_t<I, Parameters>>(objects, std::get<I>(given))..., bytes, executor);
}

inline std::string keep(const char* text) { return text; }
template <typename T>
T keep(T value) {
  return value;
}

}  // namespace detail

// Arguments are the first phase's own: a View for a tensor, Views for a list, Number, Ints, Bools, text, plain numbers;
// nullptr for an absent one.
template <typename FirstPhase, typename... Given>
Call make_call(Op<FirstPhase> op, Given... given) {
  constexpr auto kParameters = std::tuple_size_v<typename detail::Signature<FirstPhase>::Tuple>;
  static_assert(sizeof...(Given) + 2 == kParameters, "the op has another number of arguments");
  auto kept = std::make_tuple(detail::keep(std::move(given))...);
  return {op.name,
          [kept = std::move(kept)](void* symbol, Objects& objects, std::uint64_t* bytes, aclOpExecutor** executor) {
            return detail::run_first_phase<FirstPhase>(symbol, objects, kept, bytes, executor,
                                                       std::index_sequence_for<Given...>{});
          }};
}

}  // namespace tern::npu
