// Kernels from desc to launch: supports, plan, bind, launch.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/interface.h"
#include "backends/cpu/measure.h"
#include "backends/cpu/runtime.h"
#include "backends/cpu/signature.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

std::string choice_of(const KernelEntry& kernel, Target target) { return cat(kernel.name, "@", target_name(target)); }

// The kernels that take the desc, in order of preference, or the one that `choice` names; none with the reason.
// `most`: the search ends there, as asking a library costs time.
std::vector<const KernelEntry*> find_kernels(const PlanDesc& desc, std::string_view choice, std::size_t most,
                                             std::string& reason) {
  std::string refusals;
  std::vector<const KernelEntry*> found;
  for (const KernelEntry* kernel : kernel_entries()) {
    if (kernel->op != desc.op.op) continue;
    if (!choice.empty() && choice != choice_of(*kernel, desc.target)) continue;
    std::string why;
    if (kernel->supports == nullptr || kernel->supports(desc, why)) {
      found.push_back(kernel);
      if (found.size() == most) return found;
      continue;
    }
    if (!refusals.empty()) refusals += "; ";
    refusals += why;
  }
  if (!found.empty()) return found;
  const char* name = find_signature(desc.op.op)->name;
  if (!refusals.empty()) {
    reason = cat(name, ": ", refusals);
  } else if (!choice.empty()) {
    reason =
        cat(name, ": no kernel is called \"", choice, "\" here; this device computes as ", target_name(desc.target));
  } else {
    reason = cat(name, ": this device has no kernel for it");
  }
  return found;
}

tern_status check(const tern_device device, const tern_op_desc* desc, std::string& reason) {
  if (device == nullptr || desc == nullptr || desc->size < sizeof(tern_op_desc)) {
    reason = "no device or no desc, or a desc of an older version";
    return TERN_INVALID_ARGUMENT;
  }
  bool invalid = false;
  if (check_desc(*desc, reason, invalid)) return TERN_OK;
  return invalid ? TERN_INVALID_ARGUMENT : TERN_UNSUPPORTED;
}

bool same_desc(const tern_tensor_desc& a, const tern_tensor_desc& b) {
  if (a.rank != b.rank) return false;
  if (a.rank == 0) return true;
  if (a.dtype != b.dtype || a.layout != b.layout || a.scheme.packing != b.scheme.packing) return false;
  if (a.dynamic_dim != b.dynamic_dim || (a.dynamic_dim >= 0 && a.count_slot != b.count_slot)) return false;
  const bool strided = a.layout == 0 && a.scheme.packing == TERN_PACK_NONE;
  for (int d = 0; d < a.rank; ++d) {
    if (a.shape[d] != b.shape[d]) return false;
    if (strided && a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

// What an output holds beyond its actual count must be finite, and its memory may have held anything before.
void clear_tail(const TensorView& view, std::int64_t count) {
  const auto& desc = view.desc;
  const auto dynamic = static_cast<unsigned char>(desc.dynamic_dim);  // present: not -1
  const auto size = static_cast<std::size_t>(dtype_bytes(desc.dtype));
  std::int64_t index[TERN_MAX_RANK] = {};
  index[dynamic] = count;
  const int last = desc.rank - 1;
  const bool rows = desc.strides[last] == 1;
  for (int d = 0; d < desc.rank; ++d) {
    if (desc.shape[d] == 0 || (d == dynamic && count >= desc.shape[d])) return;
  }
  for (;;) {
    std::int64_t offset = 0;
    for (int d = 0; d < desc.rank; ++d) offset += index[d] * desc.strides[d];
    const std::int64_t run = rows ? desc.shape[last] - index[last] : 1;
    std::memset(view.data<std::byte>() + static_cast<std::size_t>(offset) * size, 0,
                static_cast<std::size_t>(run) * size);
    int d = rows ? last - 1 : last;
    if (rows && last != dynamic) index[last] = 0;
    for (; d >= 0; --d) {
      if (++index[d] < desc.shape[d]) break;
      index[d] = d == dynamic ? count : 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  return guarded([&]() -> tern_status {
    std::string why;
    tern_status status = check(device, desc, why);
    if (status == TERN_OK && find_kernels({*desc, device->target, device->pool->num_threads()}, {}, 1, why).empty()) {
      status = TERN_UNSUPPORTED;
    }
    put_text(reason, why);
    return status == TERN_OK ? TERN_OK : fail(status, why);
  });
}

tern_status plan(tern_device device, const tern_op_desc* desc, const char* choice, tern_plan* out,
                 tern_plan_info* info) {
  return guarded([&]() -> tern_status {
    std::string why;
    if (out == nullptr || info == nullptr) return fail(TERN_INVALID_ARGUMENT, "plan: no place for the result");
    if (const auto status = check(device, desc, why); status != TERN_OK) return fail(status, why);
    const std::string_view named = choice == nullptr ? "" : choice;
    const PlanDesc asked{*desc, device->target, device->pool->num_threads()};
    const auto kernels = find_kernels(asked, named, std::numeric_limits<std::size_t>::max(), why);
    if (kernels.empty()) return fail(TERN_UNSUPPORTED, why);
    const auto& kernel = fastest(*device, *desc, kernels);
    auto made = make_plan(*device, *desc, kernel);
    const std::uint32_t size = std::min<std::uint32_t>(info->size, sizeof *info);
    tern_plan_info filled{};
    filled.size = size;
    filled.workspace_bytes = made->workspace_bytes;
    put_text({filled.choice, sizeof filled.choice}, choice_of(kernel, device->target));
    std::memcpy(info, &filled, size);
    *out = std::make_unique<tern_plan_s>(tern_plan_s{std::move(made)}).release();
    return TERN_OK;
  });
}

tern_status plan_destroy(tern_plan plan) {
  const std::unique_ptr<tern_plan_s> owner(plan);
  return TERN_OK;
}

tern_status bind(tern_plan plan, const tern_tensor* args, tern_plane workspace, void* /*host_scratch*/,
                 tern_bound* out) {
  return guarded([&]() -> tern_status {
    if (plan == nullptr || args == nullptr || out == nullptr)
      return fail(TERN_INVALID_ARGUMENT, "bind: a null argument");
    const Plan& planned = *plan->plan;
    const char* op = find_signature(planned.desc.op)->name;
    auto made = std::make_shared<Bound>();
    made->plan = plan->plan;
    for (std::size_t i = 0; i < planned.args.size(); ++i) {
      const auto what = cat(op, ": argument ", i);
      if (!same_desc(planned.args[i], args[i].desc)) {
        return fail(TERN_INVALID_ARGUMENT, cat(what, " is bound with another desc than it was planned with"));
      }
      made->args.push_back(view_tensor(args[i], planned.device->target, what));
    }
    if (planned.workspace_bytes > 0) {
      made->workspace = plane_data(workspace, planned.workspace_bytes, "workspace");
      if (reinterpret_cast<std::uintptr_t>(made->workspace) % 64 != 0) {
        return fail(TERN_INVALID_ARGUMENT, cat(op, ": the workspace's offset is no multiple of 64"));
      }
    }
    *out = std::make_unique<tern_bound_s>(tern_bound_s{std::move(made)}).release();
    return TERN_OK;
  });
}

tern_status unbind(tern_bound bound) {
  const std::unique_ptr<tern_bound_s> owner(bound);
  return TERN_OK;
}

tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, std::uint64_t* node) {
  return guarded([&]() -> tern_status {
    if (bound == nullptr || stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "launch: a null argument");
    submit(*stream, Capture::Launch{bound->bound, copy_host_args(*bound->bound->plan, host_args)}, node);
    return TERN_OK;
  });
}

HostArgs copy_host_args(const Plan& plan, const tern_host_args* given) {
  HostArgs copy;
  if (given == nullptr) return copy;
  const Signature& signature = *find_signature(plan.desc.op);
  copy.given = true;
  for (std::size_t i = 0; i < plan.args.size(); ++i) {
    const auto& arg = plan.args[i];
    if (arg.rank == 0 || arg.dynamic_dim < 0) continue;
    const std::int64_t count = given->counts[arg.count_slot];
    if (count < 0 || count > arg.shape[arg.dynamic_dim]) {
      throw Failure(data_error(cat(signature.name, ": count of argument ", i), cat("0 to ", arg.shape[arg.dynamic_dim]),
                               cat(count), kCallAsSpecified));
    }
  }
  std::copy(std::begin(given->counts), std::end(given->counts), std::begin(copy.counts));
  const auto expected = static_cast<std::uint32_t>(__builtin_popcount(signature.lengths));
  if (expected > 0 && given->num_arrays != 0) {
    if (given->num_arrays != expected || given->arrays == nullptr) {
      throw Failure(
          data_error(signature.name, cat(expected, " arrays of lengths"), cat(given->num_arrays), kCallAsSpecified));
    }
    for (std::uint32_t i = 0; i < expected; ++i) {
      const auto& array = given->arrays[i];
      if (array.count < 0 || (array.count > 0 && array.data == nullptr)) {
        throw Failure(data_error(signature.name, "arrays of lengths", "a null or negative one", kCallAsSpecified));
      }
      copy.arrays.emplace_back(array.data, array.data + array.count);
    }
  }
  return copy;
}

void run_bound(const Bound& bound, const HostArgs& host_args) {
  const Plan& plan = *bound.plan;
  const Signature& signature = *find_signature(plan.desc.op);
  std::vector<TensorView> args = bound.args;
  for (std::size_t i = 0; i < args.size(); ++i) {
    auto& desc = args[i].desc;
    if (desc.rank == 0 || desc.dynamic_dim < 0 || !host_args.given) continue;
    const std::int64_t count = host_args.counts[desc.count_slot];
    const bool replaced = (signature.outputs >> i & 1U) != 0 && (plan.desc.accumulate >> i & 1U) == 0;
    if (replaced) clear_tail(args[i], count);
    desc.shape[desc.dynamic_dim] = count;
  }
  std::vector<tern_host_array> arrays;
  for (const auto& array : host_args.arrays) {
    arrays.push_back({array.data(), static_cast<std::int64_t>(array.size())});
  }
  KernelArgs kernel_args;
  kernel_args.args = args;
  kernel_args.attrs = plan.desc.attrs;
  kernel_args.accumulate = plan.desc.accumulate;
  kernel_args.needs = plan.desc.needs;
  kernel_args.arrays = arrays;
  kernel_args.workspace = bound.workspace;
  kernel_args.state = plan.state.get();
  kernel_args.target = plan.device->target;
  kernel_args.pool = plan.device->pool.get();
  plan.kernel->run(kernel_args);
}

}  // namespace tern::cpu
