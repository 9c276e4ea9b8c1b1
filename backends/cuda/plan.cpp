// Kernels from desc to launch: supports, plan, bind, launch.
#include <algorithm>

#include "backends/cuda/interface.h"
#include "backends/cuda/measure.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

// A kernel as tern/plugin.h lists it.
struct Listed : tern_plugin_kernel {
  const KernelEntry* entry;
};

const KernelEntry& entry_of(const tern_plugin_kernel* kernel) { return *static_cast<const Listed*>(kernel)->entry; }

tern_status takes(const tern_plugin_kernel* kernel, tern_device device, const tern_op_desc* desc) {
  const KernelEntry& entry = entry_of(kernel);
  for (std::uint32_t i = 0; i < desc->num_args; ++i) {
    const tern_tensor_desc& arg = desc->args[i];
    if (arg.rank > 0 && arg.layout != 0) return fail(TERN_UNSUPPORTED, "this device has no private layouts");
  }
  std::string why;
  const PlanDesc asked{*desc, *device->facts, entry.variant};
  return entry.supports == nullptr || entry.supports(asked, why) ? TERN_OK : fail(TERN_UNSUPPORTED, why);
}

std::span<const tern_plugin_kernel* const> listed_kernels() {
  static const std::vector<Listed> all = [] {
    std::vector<Listed> list;
    list.reserve(kernel_entries().size());
    for (const KernelEntry* entry : kernel_entries()) {
      list.push_back({{entry->op, entry->name, takes, nullptr}, entry});
    }
    return list;
  }();
  static const std::vector<const tern_plugin_kernel*> pointers = [] {
    std::vector<const tern_plugin_kernel*> list;
    list.reserve(all.size());
    for (const Listed& kernel : all) list.push_back(&kernel);
    return list;
  }();
  return pointers;
}

// The kernels that take the desc, in order of preference, or the one that `choice` names; throws why there are none.
// `own`: the desc to go on with.
std::vector<const KernelEntry*> find_kernels(tern_device device, const tern_op_desc* given, const char* choice,
                                             std::size_t most, tern_plugin_desc& own) {
  if (device == nullptr) throw Error(TERN_INVALID_ARGUMENT, "no device");
  require(tern_plugin_take_desc(given, &own));
  const auto list = listed_kernels();
  std::vector<const tern_plugin_kernel*> found(std::min(most, list.size()));
  tern_status status = TERN_OK;
  found.resize(tern_plugin_find_kernels(list.data(), static_cast<std::uint32_t>(list.size()), device, &own.desc, choice,
                                        found.data(), static_cast<std::uint32_t>(found.size()), &status));
  require(status);
  std::vector<const KernelEntry*> entries;
  entries.reserve(found.size());
  for (const tern_plugin_kernel* kernel : found) entries.push_back(&entry_of(kernel));
  return entries;
}

// Lets a stream's launch write down what it queues, as long as this lives.
class WritesSteps {
 public:
  WritesSteps(Stream& stream, std::vector<Step>& steps) : stream_(stream) { stream_.steps = &steps; }
  ~WritesSteps() { stream_.steps = nullptr; }
  WritesSteps(const WritesSteps&) = delete;
  WritesSteps& operator=(const WritesSteps&) = delete;

 private:
  Stream& stream_;
};

}  // namespace

std::shared_ptr<Plan> make_plan(Device& device, const tern_op_desc& desc, const KernelEntry& kernel) {
  auto made = std::make_shared<Plan>();
  made->device = &device;
  made->kernel = &kernel;
  made->desc = tern_plugin::copy_desc(desc);
  const PlanDesc planned{*made->desc, *device.facts, kernel.variant};
  if (kernel.workspace != nullptr) made->workspace_bytes = kernel.workspace(planned);
  if (!device.state) return made;  // nothing is loaded for a description
  if (kernel.functions == nullptr) return made;
  for (const std::string& name : kernel.functions(planned)) {
    made->functions.push_back(&device.state->modules.get(name));
  }
  return made;
}

void run_bound(const Bound& bound, const HostArgs& host_args, Stream& stream) {
  const std::int64_t* counts = host_args.counts();
  TensorView views[TERN_OP_MAX_ARGS];
  for (std::size_t i = 0; i < bound.args.size(); ++i) {
    tern_tensor_desc& desc = views[i].desc;
    desc = bound.args[i].desc;
    if (desc.rank == 0) continue;
    views[i].adds = (bound.plan->desc->accumulate >> i & 1U) != 0;
    if (desc.dynamic_dim >= 0 && counts != nullptr) desc.shape[desc.dynamic_dim] = counts[desc.count_slot];
    for (int p = 0; p < TERN_MAX_PLANES; ++p) {
      views[i].planes[p] = find_place(bound.args[i].planes[p], 0, tern_plugin_op_name(bound.plan->desc->op));
    }
  }
  bound.plan->kernel->run(Launch(bound, {views, bound.args.size()}, host_args.arrays(), stream));
}

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
    std::erase_if(kernels, [&](const KernelEntry* kernel) {
      const PlanDesc asked{desc, *device->facts, kernel->variant};
      return kernel->workspace != nullptr && tern_plugin_check_workspace(&own, kernel->workspace(asked)) != TERN_OK;
    });
    if (kernels.empty()) return TERN_UNSUPPORTED;  // last_error tells of the workspace
    if (device->state) device->state->use();
    const KernelEntry& kernel = fastest(*device, desc, kernels, own.typical_counts);
    auto made = std::make_unique<tern_plan_s>(tern_plan_s{make_plan(*device, desc, kernel)});
    tern_plan_info filled{};
    filled.workspace_bytes = made->plan->workspace_bytes;
    put_text({filled.choice, sizeof filled.choice}, kernel.name);
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
    if (!planned.device->state) return fail(TERN_UNSUPPORTED, "bind: the plan is of a description alone");
    const tern_op_desc& desc = *planned.desc;
    require(tern_plugin_check_bound(&desc, &own));
    tern_tensor args[TERN_OP_MAX_ARGS] = {};
    for (std::uint32_t i = 0; i < desc.num_args; ++i) {
      args[i] = *tern_plugin_bound_arg(&own, i);
      if (desc.args[i].rank == 0) continue;
      for (int p = 0; p < TERN_MAX_PLANES; ++p) {
        const std::string what = cat(tern_plugin_op_name(desc.op), ": ", tern_plugin_arg_name(desc.op, i));
        (void)find_place(args[i].planes[p], plane_bytes(desc.args[i], p), what);
      }
    }
    (void)find_place(own.workspace, planned.workspace_bytes, "bind: workspace");
    auto made = std::make_unique<tern_bound_s>();
    made->plan = plan->plan;
    made->args.assign(args, args + desc.num_args);
    made->workspace = own.workspace;
    *out = made.release();
    return TERN_OK;
  });
}

tern_status unbind(tern_bound bound) {
  const std::unique_ptr<tern_bound_s> owner(bound);
  return TERN_OK;
}

tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, std::uint64_t* node) {
  return guarded([&]() -> tern_status {
    if (bound == nullptr) return fail(TERN_INVALID_ARGUMENT, "launch: nothing is bound");
    (void)use(stream, "launch");
    const Plan& planned = *bound->plan;
    if (stream->state != planned.device->state) {
      return fail(TERN_INVALID_ARGUMENT, "launch: the stream is another device's");
    }
    if (host_args == nullptr) {
      bound->host_args = HostArgs();
    } else {
      bound->host_args.replace(*planned.desc, host_args);
    }
    Recording* const recording = stream->recording();
    if (recording == nullptr) {
      run_bound(*bound, bound->host_args, *stream);
      return TERN_OK;
    }
    Recording::Launched launched{bound, {}};
    const WritesSteps writes(*stream, launched.steps);
    run_bound(*bound, bound->host_args, *stream);
    if (node != nullptr) *node = recording->launches.size();
    recording->launches.push_back(std::move(launched));
    return TERN_OK;
  });
}

}  // namespace tern::cuda
