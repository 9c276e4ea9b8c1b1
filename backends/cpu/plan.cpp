// Kernels from desc to launch: supports, plan, bind, launch.
#include <algorithm>
#include <cstring>

#include "backends/cpu/interface.h"
#include "backends/cpu/kept_memory.h"
#include "backends/cpu/measure.h"
#include "backends/cpu/runtime.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

// A kernel as tern/plugin.h lists it.
struct Listed : tern_plugin_kernel {
  const KernelEntry* entry;
};

const KernelEntry& entry_of(const tern_plugin_kernel* kernel) { return *static_cast<const Listed*>(kernel)->entry; }

tern_status takes(const tern_plugin_kernel* kernel, tern_device device, const tern_op_desc* desc) {
  const KernelEntry& entry = entry_of(kernel);
  std::string why;
  const PlanDesc asked{*desc, device->target, device->pool->num_threads()};
  return entry.supports == nullptr || entry.supports(asked, why) ? TERN_OK : fail(TERN_UNSUPPORTED, why);
}

void write_choice(const tern_plugin_kernel* kernel, tern_device device, tern_text text) {
  put_text(text, choice_of(entry_of(kernel), device->target));
}

std::span<const tern_plugin_kernel* const> listed_kernels() {
  static const std::vector<Listed> all = [] {
    std::vector<Listed> list;
    for (const KernelEntry* entry : kernel_entries()) {
      list.push_back({{entry->op, entry->name, takes, write_choice}, entry});
    }
    return list;
  }();
  static const std::vector<const tern_plugin_kernel*> pointers = [] {
    std::vector<const tern_plugin_kernel*> list;
    for (const Listed& kernel : all) list.push_back(&kernel);
    return list;
  }();
  return pointers;
}

// The kernels that take the desc, in order of preference, or the one that `choice` names; throws why there are none.
// `most`: the search ends there, as asking a library costs time. `own`: the desc to go on with.
std::vector<const KernelEntry*> find_kernels(tern_device device, const tern_op_desc* given, const char* choice,
                                             std::size_t most, tern_plugin_desc& own) {
  if (device == nullptr) throw tern_plugin::Error(TERN_INVALID_ARGUMENT, "no device");
  require(tern_plugin_take_desc(given, &own));
  const tern_op_desc* desc = &own.desc;
  const auto list = listed_kernels();
  std::vector<const tern_plugin_kernel*> found(std::min(most, list.size()));
  tern_status status = TERN_OK;
  found.resize(tern_plugin_find_kernels(list.data(), static_cast<std::uint32_t>(list.size()), device, desc, choice,
                                        found.data(), static_cast<std::uint32_t>(found.size()), &status));
  require(status);
  std::vector<const KernelEntry*> entries;
  for (const tern_plugin_kernel* kernel : found) entries.push_back(&entry_of(kernel));
  return entries;
}

}  // namespace

std::string choice_of(const KernelEntry& kernel, Target target) { return cat(kernel.name, "@", target_name(target)); }

tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  const tern_status status = guarded([&]() -> tern_status {
    tern_plugin_desc own;
    (void)find_kernels(device, desc, nullptr, 1, own);
    return TERN_OK;
  });
  return tern_plugin_answer(status, reason);
}

tern_status plan(tern_device device, const tern_op_desc* given, const tern_plan_options* options, tern_plan* out,
                 tern_plan_info* info) {
  return guarded([&]() -> tern_status {
    if (out == nullptr || info == nullptr) return fail(TERN_INVALID_ARGUMENT, "plan: no place for the result");
    tern_plan_options own{};
    require(tern_plugin_take_options(options, &own));
    tern_plugin_desc full;
    std::vector<const KernelEntry*> kernels = find_kernels(device, given, own.choice, SIZE_MAX, full);
    const tern_op_desc& desc = full.desc;
    const PlanDesc asked{desc, device->target, device->pool->num_threads()};
    std::erase_if(kernels, [&](const KernelEntry* kernel) {
      return kernel->workspace != nullptr && tern_plugin_check_workspace(&own, kernel->workspace(asked)) != TERN_OK;
    });
    if (kernels.empty()) return TERN_UNSUPPORTED;  // last_error tells of the workspace
    const KernelEntry& kernel = fastest(*device, desc, kernels, own.typical_counts);
    auto made = std::make_unique<tern_plan_s>(tern_plan_s{make_plan(*device, desc, kernel)});
    tern_plan_info filled{};
    filled.workspace_bytes = made->plan->workspace_bytes;
    put_text({filled.choice, sizeof filled.choice}, choice_of(kernel, device->target));
    require(give_info(info, filled));
    *out = made.release();
    return TERN_OK;
  });
}

tern_status plan_destroy(tern_plan plan) {
  const std::unique_ptr<tern_plan_s> owner(plan);
  return TERN_OK;
}

tern_status bind(tern_plan plan, const tern_bind_args* given, tern_bound* out) {
  return guarded([&]() -> tern_status {
    tern_bind_args own{};
    require(tern_plugin_take_bind_args(given, &own));
    if (plan == nullptr || out == nullptr) return fail(TERN_INVALID_ARGUMENT, "bind: a null argument");
    const Plan& planned = *plan->plan;
    require_present(planned.device);
    const tern_op_signature& op = *planned.signature;
    require(tern_plugin_check_bound(planned.desc.get(), &own));
    auto made = std::make_shared<Bound>();
    made->plan = plan->plan;
    for (std::uint32_t i = 0; i < op.num_args; ++i) {
      made->args.push_back(
          view_tensor(*tern_plugin_bound_arg(&own, i), planned.device->target, cat(op.name, ": ", op.args[i].name)));
    }
    if (planned.workspace_bytes > 0) {
      made->workspace = plane_data(own.workspace, planned.workspace_bytes, "workspace");
      if (reinterpret_cast<std::uintptr_t>(made->workspace) % 64 != 0) {
        return fail(TERN_INVALID_ARGUMENT, cat(op.name, ": the workspace's offset is no multiple of 64"));
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
  return given == nullptr ? HostArgs() : HostArgs(*plan.desc, given);
}

void run_bound(const Bound& bound, const HostArgs& host_args) {
  const Plan& plan = *bound.plan;
  const std::int64_t* counts = host_args.counts();
  Kept<TensorView> args(bound.args.begin(), bound.args.end());
  for (std::size_t i = 0; i < args.size(); ++i) {
    auto& desc = args[i].desc;
    if (desc.rank == 0 || desc.dynamic_dim < 0 || counts == nullptr) continue;
    desc.shape[desc.dynamic_dim] = counts[desc.count_slot];
  }
  KernelArgs kernel_args;
  kernel_args.args = args;
  kernel_args.attrs = plan.desc->attrs;
  kernel_args.accumulate = plan.desc->accumulate;
  kernel_args.needs = plan.desc->needs;
  kernel_args.arrays = host_args.arrays();
  kernel_args.workspace = bound.workspace;
  kernel_args.state = plan.state.get();
  kernel_args.target = plan.device->target;
  kernel_args.pool = plan.device->pool.get();
  plan.kernel->run(kernel_args);
}

}  // namespace tern::cpu
