#include "backends/npu/calls.h"

#include <cmath>

#include "backends/npu/errors.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

template <typename T>
T* made(T* object, const char* what) {
  if (object == nullptr) throw tern_plugin::Error(TERN_INTERNAL, describe_failure(what, 561101));
  return object;
}

constexpr std::int64_t kPiece = 64;  // bytes

// As far as the strides reach, in elements.
std::int64_t extent(const View& view) {
  std::int64_t last = 0;
  for (int d = 0; d < view.rank(); ++d) {
    if (view.shape[d] == 0) return 0;
    last += (view.shape[d] - 1) * view.strides[d];
  }
  return last + 1;
}

}  // namespace

Objects::~Objects() {
  const Acl& api = acl();
  for (aclTensorList* list : lists_) api.aclDestroyTensorList(list);
  for (aclTensor* tensor : tensors_) api.aclDestroyTensor(tensor);
  for (aclScalar* scalar : scalars_) api.aclDestroyScalar(scalar);
  for (aclIntArray* array : ints_) api.aclDestroyIntArray(array);
  for (aclBoolArray* array : bools_) api.aclDestroyBoolArray(array);
}

aclTensor* Objects::make_tensor(const View& view) const {
  // Kernels want aligned addresses, so what begins between two pieces is given as a view from the piece's begin.
  const std::int64_t size = acl_bytes(view.dtype);
  const std::int64_t within = view.offset % kPiece % size == 0 ? view.offset % kPiece : 0;
  const auto rank = static_cast<std::uint64_t>(view.rank());
  const Dims storage = view.storage.rank > 0 ? view.storage : Dims{within / size + extent(view)};
  return made(
      acl().aclCreateTensor(view.shape.values.data(), rank, view.dtype, view.strides.values.data(), within / size,
                            view.format, storage.values.data(), static_cast<std::uint64_t>(storage.rank),
                            places_->address(view.place) + (view.offset - within)),
      "aclCreateTensor");
}

aclTensor* Objects::tensor(const View& view) {
  if (!view.present()) return nullptr;
  tensors_.push_back(nullptr);
  return tensors_.back() = make_tensor(view);
}

aclScalar* Objects::scalar(const Number& number) {
  float real = static_cast<float>(number.value);
  double wide = number.value;
  auto small = static_cast<std::int32_t>(std::isfinite(number.value) ? number.value : 0.0);
  auto large = static_cast<std::int64_t>(std::isfinite(number.value) ? number.value : 0.0);
  bool truth = number.value != 0.0;
  void* value = &real;
  if (number.dtype == ACL_DOUBLE) value = &wide;
  if (number.dtype == ACL_INT32) value = &small;
  if (number.dtype == ACL_INT64) value = &large;
  if (number.dtype == ACL_BOOL) value = &truth;
  scalars_.push_back(nullptr);
  return scalars_.back() = made(acl().aclCreateScalar(value, number.dtype), "aclCreateScalar");
}

aclIntArray* Objects::ints(const Ints& ints) {
  ints_.push_back(nullptr);
  return ints_.back() = made(acl().aclCreateIntArray(ints.values.data(), ints.values.size()), "aclCreateIntArray");
}

aclBoolArray* Objects::bools(const Bools& bools) {
  if (acl().aclCreateBoolArray == nullptr || acl().aclDestroyBoolArray == nullptr) {
    throw tern_plugin::Error(TERN_UNSUPPORTED,
                             "CANN's libraries have no aclCreateBoolArray; install CANN 8.0 or later");
  }
  const auto flags = std::make_unique<bool[]>(bools.values.size() + 1);
  for (std::size_t i = 0; i < bools.values.size(); ++i) flags[i] = bools.values[i];
  bools_.push_back(nullptr);
  return bools_.back() = made(acl().aclCreateBoolArray(flags.get(), bools.values.size()), "aclCreateBoolArray");
}

aclTensorList* Objects::list(const Views& views) {
  std::vector<const aclTensor*> tensors;
  for (const View& view : views.values) tensors.push_back(make_tensor(view));
  lists_.push_back(nullptr);
  return lists_.back() = made(acl().aclCreateTensorList(tensors.data(), tensors.size()), "aclCreateTensorList");
}

char* Objects::text(const std::string& text) {
  return texts_.emplace_back(std::make_unique<std::string>(text))->data();
}

}  // namespace tern::npu
