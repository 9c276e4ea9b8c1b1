// libnnopbase's functions: tensors, arrays and executors.
#include <algorithm>
#include <cstring>
#include <memory>

#include "backends/npu/cann/meta.h"
#include "base/half.h"
#include "tests/fakes/cann/op/control.h"
#include "tests/fakes/cann/op/op.h"

using fake::Dims;
using fake::guarded;
using fake::live_executors;
using fake::live_handles;
using fake::refuse;

namespace fake {

Handles& live_handles() {
  static auto* const one = new Handles;
  return *one;
}

Handles& live_executors() {
  static auto* const one = new Handles;
  return *one;
}

const aclOpExecutor*& last_executor() {
  thread_local const aclOpExecutor* last = nullptr;
  return last;
}

}  // namespace fake

namespace {

template <typename Handle>
Handle* kept(std::unique_ptr<Handle> made) {
  live_handles().add(made.get());
  return made.release();
}

// Null is fine; what isn't there any more isn't.
template <typename Handle>
aclnnStatus destroy(const char* function, const Handle* handle) {
  return guarded(function, [&] {
    if (handle == nullptr) return;
    if (!live_handles().remove(handle)) refuse(ACLNN_ERR_PARAM_INVALID, "The handle was destroyed already.");
    delete handle;
  });
}

void need(const void* argument) {
  if (argument == nullptr) refuse(ACLNN_ERR_PARAM_NULLPTR, "An argument is null.");
}

void give(const Dims& values, std::int64_t** to, std::uint64_t* count) {
  need(to);
  need(count);
  *to = new std::int64_t[values.size()];
  std::copy(values.begin(), values.end(), *to);
  *count = values.size();
}

const aclTensor& tensor_of(const aclTensor* tensor) {
  need(tensor);
  if (!live_handles().has(tensor)) refuse(ACLNN_ERR_PARAM_INVALID, "The handle is no tensor, or was destroyed.");
  return *tensor;
}

aclOpExecutor& executor_of(aclOpExecutor* executor) {
  need(executor);
  if (!live_executors().has(executor)) refuse(ACLNN_ERR_PARAM_INVALID, "The executor was run already, or destroyed.");
  return *executor;
}

// ob: on 32 bytes; the tensor must be one of the first phase's. Generated operators go by the index as well.
void set_address(aclOpExecutor* handle, std::size_t index, const aclTensor* tensor, void* address, int outputs) {
  aclOpExecutor& executor = executor_of(handle);
  (void)tensor_of(tensor);
  if (reinterpret_cast<std::uintptr_t>(address) % 32 != 0) {
    refuse(ACLNN_ERR_PARAM_INVALID, "The address must be on 32 bytes.");
  }
  bool found = false;
  std::size_t number = 0;
  for (aclOpExecutor::Slot& slot : executor.slots) {
    if (outputs >= 0 && slot.output != (outputs == 1)) continue;
    if (slot.tensor == tensor && (!executor.generated || number == index)) {
      slot.address = address;
      found = true;
    }
    ++number;
  }
  if (!found) refuse(ACLNN_ERR_PARAM_INVALID, "The tensor isn't one of the executor's.");
}

void set_dynamic(aclOpExecutor* handle, std::size_t place, const aclTensorList* list, void* address) {
  aclOpExecutor& executor = executor_of(handle);
  need(list);
  if (reinterpret_cast<std::uintptr_t>(address) % 32 != 0) {
    refuse(ACLNN_ERR_PARAM_INVALID, "The address must be on 32 bytes.");
  }
  for (aclOpExecutor::Slot& slot : executor.slots) {
    if (slot.list != list || slot.place != place) continue;
    slot.address = address;
    return;
  }
  refuse(ACLNN_ERR_PARAM_INVALID, "The list isn't one of the executor's, or is shorter.");
}

bool inside(const aclTensor& tensor) {
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] < 0 || tensor.strides[i] < 0) return false;
    if (tensor.dims[i] == 0) return true;
    last += (tensor.dims[i] - 1) * tensor.strides[i];
  }
  return tensor.offset >= 0 && last < fake::product(tensor.storage);
}

}  // namespace

extern "C" {

aclnnStatus aclnnInit(const char*) { return 0; }
aclnnStatus aclnnFinalize() { return 0; }

aclTensor* aclCreateTensor(const std::int64_t* dims, std::uint64_t rank, aclDataType dtype, const std::int64_t* strides,
                           std::int64_t offset, aclFormat format, const std::int64_t* storage,
                           std::uint64_t storage_rank, void* data) {
  if ((dims == nullptr && rank > 0) || (storage == nullptr && storage_rank > 0)) {
    fake::report(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor: the dimensions are null.");
    return nullptr;
  }
  auto tensor = std::make_unique<aclTensor>();
  tensor->dtype = dtype;
  tensor->format = format;
  tensor->dims.assign(dims, dims + rank);
  if (strides != nullptr) {
    tensor->strides.assign(strides, strides + rank);
  } else {
    tensor->strides.resize(rank);
    std::int64_t step = 1;
    for (std::size_t i = rank; i-- > 0; step *= tensor->dims[i]) tensor->strides[i] = step;
  }
  tensor->storage.assign(storage, storage + storage_rank);
  tensor->offset = offset;
  tensor->data = data;
  // A private layout's storage has other dimensions than the view.
  if (fake::bits_of(dtype) == 0 || (format != ACL_FORMAT_FRACTAL_NZ && !inside(*tensor))) {
    fake::report(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: the dtype is none, or the view leaves its storage.");
    return nullptr;
  }
  return kept(std::move(tensor));
}

aclScalar* aclCreateScalar(void* value, aclDataType dtype) {
  if (value == nullptr) return nullptr;
  auto scalar = std::make_unique<aclScalar>();
  scalar->dtype = dtype;
  const auto read = [&]<typename Number>(Number number) {
    std::memcpy(&number, value, sizeof number);
    scalar->real = static_cast<double>(number);
    scalar->integer = static_cast<std::int64_t>(number);  // NOLINT(bugprone-signed-char-misuse): numbers, not letters
  };
  switch (dtype) {
    case ACL_FLOAT:
      read(float{});
      break;
    case ACL_DOUBLE:
      read(double{});
      break;
    case ACL_INT8:
      read(std::int8_t{});
      break;
    case ACL_UINT8:
      read(std::uint8_t{});
      break;
    case ACL_BOOL:
      read(bool{});
      break;
    case ACL_INT16:
      read(std::int16_t{});
      break;
    case ACL_INT32:
      read(std::int32_t{});
      break;
    case ACL_INT64:
      read(std::int64_t{});
      break;
    case ACL_FLOAT16:
    case ACL_BF16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, value, sizeof bits);
      scalar->real = dtype == ACL_BF16 ? tern::bf16_to_float(bits) : tern::fp16_to_float(bits);
      scalar->integer = static_cast<std::int64_t>(scalar->real);
      break;
    }
    default:
      return nullptr;
  }
  return kept(std::move(scalar));
}

aclIntArray* aclCreateIntArray(const std::int64_t* value, std::uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  auto array = std::make_unique<aclIntArray>();
  array->values.assign(value, value + size);
  return kept(std::move(array));
}

aclFloatArray* aclCreateFloatArray(const float* value, std::uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  auto array = std::make_unique<aclFloatArray>();
  array->values.assign(value, value + size);
  return kept(std::move(array));
}

aclBoolArray* aclCreateBoolArray(const bool* value, std::uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  auto array = std::make_unique<aclBoolArray>();
  array->values.assign(value, value + size);
  return kept(std::move(array));
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, std::uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  auto list = std::make_unique<aclTensorList>();
  list->tensors.assign(value, value + size);
  return kept(std::move(list));
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, std::uint64_t size) {
  if (value == nullptr && size > 0) return nullptr;
  auto list = std::make_unique<aclScalarList>();
  list->scalars.assign(value, value + size);
  return kept(std::move(list));
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy("aclDestroyTensor", tensor); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy("aclDestroyScalar", scalar); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy("aclDestroyIntArray", array); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) { return destroy("aclDestroyFloatArray", array); }
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return destroy("aclDestroyBoolArray", array); }

aclnnStatus aclDestroyTensorList(const aclTensorList* list) {
  if (list != nullptr && live_handles().has(list)) {
    for (const aclTensor* tensor : list->tensors) {
      if (const aclnnStatus status = destroy("aclDestroyTensorList", tensor)) return status;
    }
  }
  return destroy("aclDestroyTensorList", list);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* list) {
  if (list != nullptr && live_handles().has(list)) {
    for (const aclScalar* scalar : list->scalars) {
      if (const aclnnStatus status = destroy("aclDestroyScalarList", scalar)) return status;
    }
  }
  return destroy("aclDestroyScalarList", list);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, std::int64_t** dims, std::uint64_t* count) {
  return guarded("aclGetViewShape", [&] { give(tensor_of(tensor).dims, dims, count); });
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, std::int64_t** dims, std::uint64_t* count) {
  return guarded("aclGetStorageShape", [&] { give(tensor_of(tensor).storage, dims, count); });
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, std::int64_t** strides, std::uint64_t* count) {
  return guarded("aclGetViewStrides", [&] { give(tensor_of(tensor).strides, strides, count); });
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, std::int64_t* offset) {
  return guarded("aclGetViewOffset", [&] {
    need(offset);
    *offset = tensor_of(tensor).offset;
  });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return guarded("aclGetFormat", [&] {
    need(format);
    *format = tensor_of(tensor).format;
  });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dtype) {
  return guarded("aclGetDataType", [&] {
    need(dtype);
    *dtype = tensor_of(tensor).dtype;
  });
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, std::uint64_t* size) {
  return guarded("aclGetIntArraySize", [&] {
    need(array);
    need(size);
    *size = array->values.size();
  });
}

aclnnStatus aclGetTensorListSize(const aclTensorList* list, std::uint64_t* size) {
  return guarded("aclGetTensorListSize", [&] {
    need(list);
    need(size);
    *size = list->tensors.size();
  });
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return guarded("aclSetAclOpExecutorRepeatable", [&] {
    if (executor == nullptr) refuse(ACLNN_ERR_INNER_NULLPTR, "The executor is null.");
    aclOpExecutor& one = executor_of(executor);
    // ob: on the thread of the first phase, right after it.
    if (one.thread != std::this_thread::get_id() || fake::last_executor() != executor) {
      refuse(ACLNN_ERR_INNER, "It must be said right after the first phase, on its thread.");
    }
    if (!one.may_repeat) refuse(ACLNN_ERR_INNER, "The executor of " + one.name + " can't be repeated.");
    one.repeatable = true;
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return guarded("aclDestroyAclOpExecutor", [&] {
    if (executor == nullptr) refuse(ACLNN_ERR_INNER_NULLPTR, "The executor is null.");
    if (!live_executors().remove(executor))
      refuse(ACLNN_ERR_PARAM_INVALID, "The executor was run already, or destroyed.");
    delete executor;
  });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, std::size_t index, aclTensor* tensor, void* address) {
  return guarded("aclSetInputTensorAddr", [&] { set_address(executor, index, tensor, address, 0); });
}
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, std::size_t index, aclTensor* tensor, void* address) {
  return guarded("aclSetOutputTensorAddr", [&] { set_address(executor, index, tensor, address, 1); });
}
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, std::size_t index, aclTensor* tensor, void* address) {
  return guarded("aclSetTensorAddr", [&] { set_address(executor, index, tensor, address, -1); });
}
aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, std::size_t, std::size_t place, aclTensorList* list,
                                         void* address) {
  return guarded("aclSetDynamicInputTensorAddr", [&] { set_dynamic(executor, place, list, address); });
}
aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, std::size_t, std::size_t place, aclTensorList* list,
                                          void* address) {
  return guarded("aclSetDynamicOutputTensorAddr", [&] { set_dynamic(executor, place, list, address); });
}
aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, std::size_t, std::size_t place, aclTensorList* list,
                                    void* address) {
  return guarded("aclSetDynamicTensorAddr", [&] { set_dynamic(executor, place, list, address); });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* address) {
  return guarded("aclSetRawTensorAddr", [&] {
    (void)tensor_of(tensor);
    tensor->data = address;
  });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** address) {
  return guarded("aclGetRawTensorAddr", [&] {
    need(address);
    *address = tensor_of(tensor).data;
  });
}

std::uint64_t ternFakeCannObjects() { return live_handles().count(); }
std::uint64_t ternFakeCannExecutors() { return live_executors().count(); }
}
