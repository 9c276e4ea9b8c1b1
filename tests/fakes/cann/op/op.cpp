#include "tests/fakes/cann/op/op.h"

#include <algorithm>
#include <cstring>
#include <future>

namespace fake {

std::int64_t Tensor::dim(std::int64_t which) const {
  const std::int64_t at = which < 0 ? which + rank() : which;
  if (at < 0 || at >= rank()) refuse(ACLNN_ERR_PARAM_INVALID, "Tensor " + name + " has too few dimensions.");
  return seen.dims[static_cast<std::size_t>(at)];
}

std::int64_t Tensor::count() const { return product(seen.dims); }

bool Tensor::contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = seen.dims.size(); i-- > 0;) {
    if (seen.dims[i] != 1 && seen.strides[i] != expected) return count() == 0;
    expected *= seen.dims[i];
  }
  return true;
}

Op::Op(std::string name) : executor_(std::make_unique<aclOpExecutor>()) {
  executor_->name = std::move(name);
  executor_->deterministic = fake::deterministic();
}

Tensor Op::add(const char* name, const aclTensor* tensor, bool output, bool may_be_null) {
  Tensor added;
  added.name = name;
  if (tensor == nullptr) {
    if (!may_be_null) {
      refuse(ACLNN_ERR_PARAM_NULLPTR, std::string("Expected a proper Tensor but got null for argument ") + name + ".");
    }
    return added;
  }
  if (!live_handles().has(tensor)) {
    refuse(ACLNN_ERR_PARAM_INVALID, std::string("The argument ") + name + " is no tensor, or was destroyed.");
  }
  // No 16-bit floats of eight exponent bits there: pta and the constraint pages of every operator.
  if (tensor->dtype == ACL_BF16 && !chip().has_bf16()) {
    refuse(ACLNN_ERR_PARAM_INVALID, std::string("Tensor ") + name + " not implemented for DT_BFLOAT16 on this SoC.");
  }
  added.seen = *tensor;
  added.slot = static_cast<int>(executor_->slots.size());
  executor_->slots.push_back({name, tensor, tensor->data, output, nullptr, 0});
  return added;
}

Tensor Op::in(const char* name, const aclTensor* tensor) { return add(name, tensor, false, false); }
Tensor Op::optional(const char* name, const aclTensor* tensor) { return add(name, tensor, false, true); }
Tensor Op::out(const char* name, const aclTensor* tensor) { return add(name, tensor, true, false); }
Tensor Op::optional_out(const char* name, const aclTensor* tensor) { return add(name, tensor, true, true); }

Tensor Op::in(const char* name, const aclTensor* tensor, const Dtypes& allowed) {
  Tensor added = in(name, tensor);
  dtypes(added, allowed);
  return added;
}
Tensor Op::optional(const char* name, const aclTensor* tensor, const Dtypes& allowed) {
  Tensor added = optional(name, tensor);
  dtypes(added, allowed);
  return added;
}
Tensor Op::out(const char* name, const aclTensor* tensor, const Dtypes& allowed) {
  Tensor added = out(name, tensor);
  dtypes(added, allowed);
  return added;
}
Tensor Op::optional_out(const char* name, const aclTensor* tensor, const Dtypes& allowed) {
  Tensor added = optional_out(name, tensor);
  dtypes(added, allowed);
  return added;
}

std::vector<Tensor> Op::add_list(const char* name, const aclTensorList* tensors, bool output, bool may_be_null) {
  std::vector<Tensor> added;
  if (tensors == nullptr) {
    if (may_be_null) return added;
    refuse(ACLNN_ERR_PARAM_NULLPTR,
           std::string("Expected a proper TensorList but got null for argument ") + name + ".");
  }
  if (!live_handles().has(tensors)) {
    refuse(ACLNN_ERR_PARAM_INVALID, std::string("The argument ") + name + " is no list, or was destroyed.");
  }
  for (std::size_t i = 0; i < tensors->tensors.size(); ++i) {
    added.push_back(add(name, tensors->tensors[i], output, may_be_null));
    if (!added.back().given()) continue;
    executor_->slots.back().list = tensors;
    executor_->slots.back().place = i;
  }
  return added;
}

std::vector<Tensor> Op::list(const char* name, const aclTensorList* tensors, bool may_be_null) {
  return add_list(name, tensors, false, may_be_null);
}
std::vector<Tensor> Op::out_list(const char* name, const aclTensorList* tensors, bool may_be_null) {
  return add_list(name, tensors, true, may_be_null);
}

std::vector<Tensor> Op::list(const char* name, const aclTensorList* tensors, const Dtypes& allowed) {
  std::vector<Tensor> added = list(name, tensors);
  for (const Tensor& tensor : added) dtypes(tensor, allowed);
  return added;
}
std::vector<Tensor> Op::out_list(const char* name, const aclTensorList* tensors, const Dtypes& allowed) {
  std::vector<Tensor> added = out_list(name, tensors);
  for (const Tensor& tensor : added) dtypes(tensor, allowed);
  return added;
}

double Op::number(const char* name, const aclScalar* scalar) {
  if (scalar == nullptr)
    refuse(ACLNN_ERR_PARAM_NULLPTR, std::string("Expected a proper Scalar but got null for ") + name);
  if (!live_handles().has(scalar)) refuse(ACLNN_ERR_PARAM_INVALID, std::string(name) + " is no scalar.");
  return scalar->real;
}

std::int64_t Op::integer(const char* name, const aclScalar* scalar) {
  (void)number(name, scalar);
  return scalar->integer;
}

Dims Op::array(const char* name, const aclIntArray* array, bool may_be_null) {
  if (array == nullptr) {
    if (may_be_null) return {};
    refuse(ACLNN_ERR_PARAM_NULLPTR, std::string("Expected a proper IntArray but got null for argument ") + name + ".");
  }
  if (!live_handles().has(array)) refuse(ACLNN_ERR_PARAM_INVALID, std::string(name) + " is no array.");
  return array->values;
}

std::vector<bool> Op::truths(const char* name, const aclBoolArray* array) {
  if (array == nullptr)
    refuse(ACLNN_ERR_PARAM_NULLPTR, std::string("Expected a proper BoolArray but got null for argument ") + name + ".");
  if (!live_handles().has(array)) refuse(ACLNN_ERR_PARAM_INVALID, std::string(name) + " is no array.");
  return array->values;
}

std::string Op::word(const char* name, const char* text) {
  if (text == nullptr)
    refuse(ACLNN_ERR_PARAM_NULLPTR, std::string("Expected a string but got null for argument ") + name);
  return text;
}

void Op::refuse_chip() const {
  const std::string text = executor_->name + " isn't supported on " + std::string(chip().name) + ".";
  refuse(executor_->generated ? ACLNN_ERR_INNER_FIND_KERNEL_ERROR : ACLNN_ERR_RUNTIME_ERROR, text);
}

void Op::chips(std::initializer_list<Family> families) {
  if (std::find(families.begin(), families.end(), chip().family) == families.end()) refuse_chip();
}

void Op::not_on(std::initializer_list<Family> families) {
  if (std::find(families.begin(), families.end(), chip().family) != families.end()) refuse_chip();
}

Dtypes Op::floats() const { return floats_and({}); }

Dtypes Op::floats_and(std::initializer_list<aclDataType> more) const {
  Dtypes all = {ACL_FLOAT, ACL_FLOAT16};
  if (chip().has_bf16()) all.push_back(ACL_BF16);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void Op::dtypes(const Tensor& tensor, const Dtypes& allowed) {
  if (!tensor.given() || std::find(allowed.begin(), allowed.end(), tensor.dtype()) != allowed.end()) return;
  std::string names;
  for (const aclDataType one : allowed) names += (names.empty() ? "" : ",") + name_of(one);
  refuse(ACLNN_ERR_PARAM_INVALID, "Tensor " + tensor.name + " not implemented for " + name_of(tensor.dtype()) +
                                      ", should be in dtype support list [" + names + "].");
}

void Op::same_dtype(const Tensor& first, const Tensor& second) {
  if (!first.given() || !second.given() || first.dtype() == second.dtype()) return;
  refuse(ACLNN_ERR_PARAM_INVALID, "Expected both tensors to have same dtype, but found " + first.name + " " +
                                      name_of(first.dtype()) + " and " + second.name + " " + name_of(second.dtype()) +
                                      ".");
}

void Op::format(const Tensor& tensor, std::initializer_list<aclFormat> allowed) {
  if (!tensor.given() || std::find(allowed.begin(), allowed.end(), tensor.format()) != allowed.end()) return;
  refuse(ACLNN_ERR_PARAM_INVALID,
         "The format " + std::to_string(tensor.format()) + " of tensor " + tensor.name + " isn't supported.");
}

void Op::rank(const Tensor& tensor, std::int64_t least, std::int64_t most) {
  if (!tensor.given() || (tensor.rank() >= least && tensor.rank() <= most)) return;
  no("Expected " + tensor.name + " dimension to be from " + std::to_string(least) + " to " + std::to_string(most) +
     " but got " + std::to_string(tensor.rank()) + ".");
}

void Op::shape(const Tensor& tensor, const Dims& expected) {
  if (!tensor.given() || tensor.shape() == expected) return;
  no("Expected tensor for " + tensor.name + " to have size " + text_of(expected) + ", but got size " +
     text_of(tensor.shape()) + ".");
}

void Op::same_shape(const Tensor& first, const Tensor& second) {
  if (first.given() && second.given()) shape(second, first.shape());
}

void Op::broadcast(const Tensor& first, const Tensor& second, const Tensor& out) {
  const std::optional<Dims> both = broadcast_of(first.shape(), second.shape());
  if (!both) {
    no("The size of tensor " + first.name + " " + text_of(first.shape()) + " must match the size of tensor " +
       second.name + " " + text_of(second.shape()) + ".");
  }
  shape(out, *both);
}

void Op::contiguous(const Tensor& tensor) {
  if (tensor.given() && !tensor.contiguous()) no("Tensor " + tensor.name + " must be contiguous.");
}

void Op::need(bool met, const std::string& otherwise) {
  if (!met) no(otherwise);
}

void Op::no(const std::string& text) { refuse(shape_code(), text); }

int Op::shape_code() const { return executor_->generated ? ACLNN_ERR_INNER_TILING_ERROR : ACLNN_ERR_PARAM_INVALID; }

std::int64_t Op::dimension(std::int64_t dim, std::int64_t rank) {
  const std::int64_t most = std::max<std::int64_t>(rank, 1);
  if (dim < -most || dim >= most) {
    no("Dimension out of range (expected to be in range of [" + std::to_string(-most) + ", " +
       std::to_string(most - 1) + "], but got " + std::to_string(dim) + ").");
  }
  return dim < 0 ? dim + most : dim;
}

std::unique_ptr<aclOpExecutor> Op::finish() {
  // ob: hand-written operators take eight dimensions, and copy what isn't contiguous into the workspace.
  for (const aclOpExecutor::Slot& slot : executor_->slots) {
    const Tensor tensor{*slot.tensor, 0, slot.name};
    if (tensor.rank() > 8) no("Tensor " + slot.name + " has more than 8 dimensions.");
    if (tensor.contiguous() || slot.tensor->format != ACL_FORMAT_ND) continue;
    executor_->workspace +=
        static_cast<std::uint64_t>((tensor.count() * bits_of(tensor.dtype()) / 8 + 1023) / 512 * 512);
  }
  return std::move(executor_);
}

numerics::View Run::view(const Tensor& tensor) const {
  const aclTensor& at = places_[static_cast<std::size_t>(tensor.slot)].tensor;
  numerics::View view;
  view.element = element_of(at.dtype);
  view.shape = at.dims;
  view.strides = at.strides;
  if (product(at.dims) == 0) return view;
  std::int64_t last = at.offset;
  for (std::size_t i = 0; i < at.dims.size(); ++i) last += (at.dims[i] - 1) * at.strides[i];
  // A packed weight's private layout takes its whole storage.
  if (at.format == ACL_FORMAT_FRACTAL_NZ) last = std::max(last, product(at.storage) - 1);
  const std::int64_t start = at.offset * bits_of(at.dtype) / 8;
  const std::int64_t end = ((last + 1) * bits_of(at.dtype) + 7) / 8;
  std::byte* base = device_view(static_cast<const std::byte*>(at.data) + start, static_cast<std::size_t>(end - start));
  view.data = base - start;
  view.offset = at.offset;
  return view;
}

void begin_plan(const std::uint64_t* workspace, aclOpExecutor* const* executor) {
  if (workspace == nullptr || executor == nullptr) {
    refuse(ACLNN_ERR_PARAM_NULLPTR, "workspaceSize and executor must not be null.");
  }
  if (!has_device()) refuse(ACLNN_ERR_RUNTIME_ERROR, "No device is set in this thread.");
  // ob: where set_env.sh wasn't sourced the operators' package isn't found. Only where a test asks, as the fake has no
  // package.
  if (std::getenv("TERN_FAKE_CANN_NEEDS_OPP") != nullptr && std::getenv("ASCEND_OPP_PATH") == nullptr) {
    refuse(ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, "ASCEND_OPP_PATH isn't set.");
  }
}

void end_plan(Op& op, std::uint64_t* workspace, aclOpExecutor** executor) {
  std::unique_ptr<aclOpExecutor> made = op.finish();
  *workspace = made->workspace;
  made->thread = std::this_thread::get_id();
  *executor = made.release();
  last_executor() = *executor;
  live_executors().add(*executor);
}

namespace {

// Addresses of this launch, of tensors that must still be there.
std::vector<Run::Place> places_of(const aclOpExecutor& executor) {
  std::vector<Run::Place> places;
  for (const aclOpExecutor::Slot& slot : executor.slots) {
    if (!live_handles().has(slot.tensor)) {
      refuse(ACLNN_ERR_PARAM_INVALID, "The tensor " + slot.name + " was destroyed before it was used.");
    }
    places.push_back({*slot.tensor});
    places.back().tensor.data = slot.address;
  }
  return places;
}

void check_workspace(const aclOpExecutor& executor, const void* workspace, std::uint64_t size) {
  if (size > 0 && workspace == nullptr) refuse(ACLNN_ERR_PARAM_NULLPTR, "The workspace is null but its size isn't 0.");
  // ob: generated operators look at the size. Hand-written ones write past it, which the fake doesn't wait for.
  if (size < executor.workspace) {
    refuse(ACLNN_ERR_PARAM_INVALID, "The workspace of " + std::to_string(size) + " bytes is smaller than the " +
                                        std::to_string(executor.workspace) + " that were asked for.");
  }
}

int work(const aclOpExecutor& executor, const std::vector<Run::Place>& places, void* workspace, int fault, bool hang) {
  if (hang) std::promise<void>().get_future().wait();  // for ever
  if (fault != 0) {
    note_device_failure(executor.name, "The aicore execution is abnormal, as TERN_FAKE_CANN_FAULT asks.");
    return fault;
  }
  // Whatever was in the workspace is lost: nobody may keep anything there.
  if (executor.workspace > 0) std::memset(device_view(workspace, executor.workspace), 0xA5, executor.workspace);
  Run run(places, executor.deterministic ? 0 : 1 + chance(1U << 30));
  executor.run(run);
  return 0;
}

}  // namespace

aclnnStatus launch_executor(const char* name, void* workspace, std::uint64_t size, aclOpExecutor* executor,
                            aclrtStream stream) {
  return guarded(name, [&] {
    if (executor == nullptr) refuse(ACLNN_ERR_PARAM_NULLPTR, "The executor is null.");
    // ob: the second phase destroys a plain executor, so a second run reads what was freed.
    if (!live_executors().has(executor)) {
      refuse(ACLNN_ERR_PARAM_NULLPTR, "The executor is none: it was run already, or destroyed.");
    }
    if (executor->name != name) refuse(ACLNN_ERR_PARAM_INVALID, "The executor is of " + executor->name + ".");
    std::shared_ptr<const aclOpExecutor> kept;
    if (executor->repeatable) {
      kept = std::make_shared<const aclOpExecutor>(*executor);
    } else {
      (void)live_executors().remove(executor);
      kept.reset(executor);
    }
    check_workspace(*kept, workspace, size);
    std::vector<Run::Place> places = places_of(*kept);
    Stream& on = stream_of(stream);
    const int fault = planned_fault("kernel");
    const bool hang = planned_fault("hang") != 0;
    launch(on, {TaskKind::kKernel, name, [kept, places = std::move(places), workspace, fault, hang] {
                  return work(*kept, places, workspace, fault, hang);
                }});
  });
}

}  // namespace fake
