// Kernels from desc to binding: supports, plan, bind.
#include <algorithm>
#include <cstring>

#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

// Places for a first phase that only asks: addresses that nothing will ever touch, apart and aligned.
class Nowhere final : public Places {
 public:
  [[nodiscard]] std::byte* address(std::int32_t place) const override {
    constexpr std::uintptr_t kBase = std::uintptr_t{1} << 40;
    constexpr std::uintptr_t kApart = std::uintptr_t{1} << 24;
    return reinterpret_cast<std::byte*>(kBase + kApart * static_cast<std::uintptr_t>(place));
  }
};

std::uint64_t whole(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool has_dynamic(const tern_op_desc& desc) {
  return std::any_of(desc.args, desc.args + desc.num_args,
                     [](const tern_tensor_desc& arg) { return arg.rank > 0 && arg.dynamic_dim >= 0; });
}

bool has_lengths(const tern_op_desc& desc) {
  const tern_op_signature* signature = tern_plugin_signature(desc.op);
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    if (desc.args[i].rank > 0 && (signature->args[i].flags & TERN_ARG_LENGTHS) != 0) return true;
  }
  return false;
}

struct Sizes {
  std::uint64_t temp = 0;
  std::uint64_t scratch = 0;
};

// What the calls at these numbers need; throws where the kernel or CANN refuses.
Sizes measure(const Device& device, const KernelEntry& kernel, const tern_op_desc& desc, const Numbers& numbers) {
  Composer composer(*device.chip, desc, numbers);
  if (device.described()) composer.set_described();
  kernel.compose(composer);
  Sizes sizes;
  sizes.temp = whole(static_cast<std::uint64_t>(composer.workspace_bytes()));
  if (device.described()) {
    // Only the library knows. The operators' documentation has 16 MiB for most of those that take any.
    sizes.scratch = composer.calls().empty() ? 0 : std::uint64_t{16} << 20;
    return sizes;
  }
  device.shared->use();
  const Nowhere places;
  const Prepared prepared(*device.shared, composer, places, desc.needs, false);
  sizes.scratch = whole(prepared.scratch_bytes());
  return sizes;
}

std::string kernel_refusal(const Device& device, const KernelEntry& kernel, const tern_op_desc& desc) {
  const bool invariant = kernel.row_invariant || (device.shared && device.shared->has_invariant_kernels);
  if ((desc.needs & TERN_NEED_ROW_INVARIANT) != 0 && !invariant) {
    return "the installed CANN has no kernels whose rows don't depend on each other; a newer one has";
  }
  return {};
}

// Finds the first kernel that takes the desc, with what it needs. Throws where none does: the reasons of all.
const KernelEntry& find_kernel(const Device& device, const tern_op_desc& desc, const char* choice, Sizes& sizes) {
  std::string reasons;
  tern_status status = TERN_UNSUPPORTED;
  for (const KernelEntry* kernel : kernel_entries()) {
    if (kernel->op != desc.op) continue;
    if (choice != nullptr && *choice != '\0' && std::strcmp(choice, kernel->name) != 0) continue;
    std::string reason = kernel_refusal(device, *kernel, desc);
    if (reason.empty()) {
      try {
        sizes = measure(device, *kernel, desc, {});
        return *kernel;
      } catch (const Error& error) {
        if (error.status() == TERN_INVALID_ARGUMENT) status = TERN_INVALID_ARGUMENT;
        reason = error.what();
      }
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  const std::string op = tern_plugin_op_name(desc.op);
  if (!reasons.empty()) throw Error(status, op + ": " + reasons);
  if (choice != nullptr && *choice != '\0') throw Error(status, op + ": no kernel is called \"" + choice + "\" here");
  throw Error(status, op + ": this device has no kernel for it");
}

// A list at small counts may take other kernels of CANN, which want other scratch.
void measure_small(const Device& device, const Plan& plan, Sizes& sizes) {
  if (!plan.has_dynamic || plan.has_lengths) return;
  std::int64_t counts[TERN_MAX_COUNTS];
  std::fill(std::begin(counts), std::end(counts), INT64_MAX);
  for (std::uint32_t i = 0; i < plan.desc->num_args; ++i) {
    const tern_tensor_desc& arg = plan.desc->args[i];
    if (arg.rank == 0 || arg.dynamic_dim < 0) continue;
    counts[arg.count_slot] =
        std::min<std::int64_t>(counts[arg.count_slot], std::min<std::int64_t>(1, arg.shape[arg.dynamic_dim]));
  }
  const Sizes small = measure(device, *plan.kernel, *plan.desc, {counts, {}});
  sizes.temp = std::max(sizes.temp, small.temp);
  sizes.scratch = std::max(sizes.scratch, small.scratch);
}

// Bytes that plane 0 of an argument must have; those of quantised ones are checked as their kernels read them.
std::uint64_t plane_bytes(const tern_tensor_desc& desc) {
  std::uint64_t bytes = 0;
  if (tern_plugin_is_strided(&desc) != 0) (void)tern_plugin_extent(&desc, &bytes);
  return bytes;
}

}  // namespace

tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  const tern_status status = guarded([&]() -> tern_status {
    if (device == nullptr) return fail(TERN_INVALID_ARGUMENT, "supports: no device");
    tern_plugin_desc own;
    require(tern_plugin_take_desc(desc, &own));
    Sizes sizes;
    (void)find_kernel(*device, own.desc, nullptr, sizes);
    return TERN_OK;
  });
  return tern_plugin_answer(status, reason);
}

tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* plan,
                 tern_plan_info* info) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || plan == nullptr || info == nullptr)
      return fail(TERN_INVALID_ARGUMENT, "plan: a null argument");
    tern_plan_options chosen;
    require(tern_plugin_take_options(options, &chosen));
    tern_plugin_desc own;
    require(tern_plugin_take_desc(desc, &own));
    auto made = std::make_shared<Plan>();
    Sizes sizes;
    made->kernel = &find_kernel(*device, own.desc, chosen.choice, sizes);
    made->shared = device->shared;
    made->chip = device->chip;
    made->desc = tern_plugin::copy_desc(own.desc);
    made->has_dynamic = has_dynamic(own.desc);
    made->has_lengths = has_lengths(own.desc);
    measure_small(*device, *made, sizes);
    // CANN promises nowhere that a call of fewer rows wants no more memory.
    if (made->varies()) sizes.scratch += whole(sizes.scratch / 4);
    made->temp_bytes = sizes.temp;
    made->scratch_bytes = sizes.scratch;
    tern_plan_info filled{};
    const std::uint64_t bytes = sizes.temp + sizes.scratch;
    filled.workspace_bytes = bytes > 0 ? bytes + kBehind : 0;
    require(tern_plugin_check_workspace(&chosen, filled.workspace_bytes));
    put_text({filled.choice, sizeof filled.choice}, made->kernel->name);
    require(give_info(info, filled));
    *plan = new tern_plan_s{std::move(made)};
    return TERN_OK;
  });
}

tern_status plan_destroy(tern_plan plan) {
  const std::unique_ptr<tern_plan_s> owner(plan);
  return TERN_OK;
}

tern_status bind(tern_plan plan, const tern_bind_args* args, tern_bound* bound) {
  return guarded([&]() -> tern_status {
    if (plan == nullptr || bound == nullptr) return fail(TERN_INVALID_ARGUMENT, "bind: a null argument");
    const Plan& planned = *plan->plan;
    if (planned.shared == nullptr) return fail(TERN_UNSUPPORTED, "bind: the plan is of a description alone");
    tern_bind_args own;
    require(tern_plugin_take_bind_args(args, &own));
    require(tern_plugin_check_bound(planned.desc.get(), &own));
    auto made = std::make_shared<Bound>();
    made->plan = plan->plan;
    for (std::uint32_t i = 0; i < planned.desc->num_args; ++i) {
      const tern_tensor_desc& desc = planned.desc->args[i];
      const tern_tensor* given = tern_plugin_bound_arg(&own, i);
      for (int p = 0; p < TERN_MAX_PLANES; ++p) {
        const bool there = desc.rank > 0 && given->planes[p].buffer != nullptr;
        const std::uint64_t bytes = p == 0 && desc.rank > 0 ? plane_bytes(desc) : 0;
        const bool wanted = there || bytes > 0;
        made->planes.push_back(
            wanted ? plane_address(given->planes[p], bytes, tern_plugin_arg_name(planned.desc->op, i)) : nullptr);
      }
    }
    const std::uint64_t bytes = planned.temp_bytes + planned.scratch_bytes;
    made->workspace = plane_address(own.workspace, bytes > 0 ? bytes + kBehind : 0, "workspace");
    planned.shared->use();
    if (!planned.varies()) (void)made->prepare({});
    *bound = new tern_bound_s{std::move(made)};
    return TERN_OK;
  });
}

tern_status unbind(tern_bound bound) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_bound_s> owner(bound);
    if (bound != nullptr) bound->bound->plan->shared->use();
    return TERN_OK;
  });
}

}  // namespace tern::npu
