// Kernels from desc to launch: supports, plan, bind, launch.
#include <algorithm>
#include <cstring>

#include "backends/sim/interface.h"
#include "backends/sim/kernel.h"
#include "base/strings.h"
#include "ops/table.h"
#include "tern/accel_ops.h"

namespace tern::sim {
namespace {

constexpr std::byte kPoison{0xff};

std::span<const TensorDesc> args_of(const tern_op_desc& desc) { return {desc.args, desc.num_args}; }
std::span<const std::byte> attrs_of(const tern_op_desc& desc) {
  return {static_cast<const std::byte*>(desc.attrs), desc.attrs == nullptr ? 0 : desc.attrs_size};
}

std::string refusal(const Device& device, const tern_op_desc& desc) {
  return why_not(device, desc.op, args_of(desc), attrs_of(desc), desc.needs, desc.accumulate);
}

std::string choice_of(const Device& device) { return cat("oracle@", personality_name(device.config.personality)); }

// Memory that such kernels take on real devices; what they find there is poison.
void size_memory(Plan& plan) {
  const bool ascend = plan.device->config.personality == Personality::ascend;
  switch (plan.op) {
    case TERN_OP_MATMUL:
    case TERN_OP_MATMUL_Q:
      plan.workspace_bytes = 4096;
      plan.library_bytes = ascend ? 32768 : 8192;
      break;
    case TERN_OP_ATTENTION:
    case TERN_OP_ATTENTION_BACKWARD:
    case TERN_OP_ATTENTION_PAGED:
      // by the planned lengths: shorter ones take no more
      plan.workspace_bytes =
          4096 + 64 * static_cast<std::uint64_t>(num_elements(plan.args.front())) /
                     static_cast<std::uint64_t>(std::max<std::int64_t>(1, plan.args.front().shape[2]));
      plan.host_scratch_bytes = ascend ? 512 : 0;
      break;
    case TERN_OP_LINEAR_CROSS_ENTROPY:
      plan.workspace_bytes = 16384;
      break;
    default:
      break;
  }
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

bool is_dense(const TensorDesc& desc) { return desc.layout != 0 || is_quantised(desc) || is_contiguous(desc); }

// What is written may share memory with nothing else of the call, unless the desc says that it does.
void check_overlap(const Plan& plan, const std::vector<Operand>& args, std::span<const std::byte> workspace) {
  const ops::OpSpec& spec = ops::op_spec(plan.op);
  for (std::size_t i = 0; i < args.size(); ++i) {
    for (const auto& plane : args[i].planes) {
      if (overlap(plane, workspace)) {
        fail(TERN_INVALID_ARGUMENT, cat(spec.name, ": ", spec.args[i].name, " overlaps the workspace"));
      }
    }
    if (spec.args[i].role == ops::Role::input || !is_dense(args[i].desc)) continue;
    for (std::size_t j = 0; j < args.size(); ++j) {
      const bool shared = !plan.alias.empty() && plan.alias[i] == static_cast<int>(j);
      if (i == j || shared || !is_dense(args[j].desc)) continue;
      for (const auto& plane : args[j].planes) {
        if (overlap(args[i].planes[0], plane)) {
          fail(TERN_INVALID_ARGUMENT,
               cat(spec.name, ": ", spec.args[i].name, ", which is written, overlaps ", spec.args[j].name));
        }
      }
    }
  }
}

std::vector<Operand> find_operands(const Bound& bound) {
  const Plan& plan = *bound.plan;
  const ops::OpSpec& spec = ops::op_spec(plan.op);
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < bound.args.size(); ++i) {
    operands.push_back(find_operand(*plan.device, bound.args[i], cat(spec.name, ": ", spec.args[i].name), true));
  }
  return operands;
}

void run_bound(const Bound& bound, const HostArgs& host_args) {
  const Plan& plan = *bound.plan;
  const auto workspace = world().plane(bound.workspace, plan.workspace_bytes, "workspace");
  std::fill(workspace.begin(), workspace.end(), kPoison);
  if (bound.host_scratch != nullptr) std::fill_n(bound.host_scratch, plan.host_scratch_bytes, kPoison);
  KernelCall call;
  call.device = plan.device.get();
  call.op = plan.op;
  call.attrs = plan.attrs;
  call.accumulate = plan.accumulate;
  call.args = find_operands(bound);
  const HostArgs counted = counts_at_run(*plan.device, host_args, bound.counts, plan.args);
  call.host_args = &counted;
  run_kernel(call);
}

}  // namespace

tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  const tern_status status = guarded([&](auto&) {
    const auto d = world().device(device);
    tern_plugin_desc own;
    tern_plugin::require(tern_plugin_take_desc(desc, &own));
    if (const std::string why = refusal(*d, own.desc); !why.empty()) fail(TERN_UNSUPPORTED, why);
  });
  return tern_plugin_answer(status, reason);
}

tern_status plan(tern_device device, const tern_op_desc* given, const tern_plan_options* options, tern_plan* out,
                 tern_plan_info* info) {
  return guarded([&](auto&) {
    tern_plan_options own{};
    tern_plugin::require(tern_plugin_take_options(options, &own));
    const char* choice = own.choice;
    require(out != nullptr && info != nullptr, "plan: no place for the result");
    tern_plugin_desc full;
    tern_plugin::require(tern_plugin_take_desc(given, &full));
    const tern_op_desc* desc = &full.desc;
    const auto d = world().device(device);
    require_alive(*d);
    if (!d->can(TERN_CAP_EAGER)) fail(TERN_UNSUPPORTED, cat(d->name(), " runs whole graphs only"));
    if (const std::string why = refusal(*d, *desc); !why.empty()) fail(TERN_UNSUPPORTED, why);
    const std::string name = choice_of(*d);
    if (choice != nullptr && *choice != '\0' && name != choice) {
      fail(TERN_UNSUPPORTED, cat("no kernel is called \"", choice, "\" here"));
    }
    auto made = std::make_shared<Plan>();
    made->device = d;
    made->op = desc->op;
    made->args.assign(desc->args, desc->args + desc->num_args);
    made->attrs.assign(attrs_of(*desc).begin(), attrs_of(*desc).end());
    made->arrays = length_arrays(desc->op, given->num_args);
    made->needs = desc->needs;
    made->accumulate = desc->accumulate;
    if (desc->alias != nullptr) made->alias.assign(desc->alias, desc->alias + desc->num_args);
    size_memory(*made);
    d->take(Use::library, made->library_bytes);
    tern_plugin::require(tern_plugin_check_workspace(&own, made->workspace_bytes));
    tern_plan_info filled{};
    filled.workspace_bytes = made->workspace_bytes;
    filled.host_scratch_bytes = made->host_scratch_bytes;
    filled.library_bytes = made->library_bytes;
    put_text({filled.choice, sizeof filled.choice}, name);
    tern_plugin::require(give_info(info, filled));
    *out = world().plans.add(std::move(made));
  });
}

tern_status plan_destroy(tern_plan plan) {
  return guarded([&](auto&) {
    if (plan != nullptr) world().plans.remove(plan);
  });
}

tern_status bind(tern_plan plan, const tern_bind_args* given, tern_bound* out) {
  return guarded([&](auto&) {
    tern_bind_args own{};
    tern_plugin::require(tern_plugin_take_bind_args(given, &own));
    const tern_plane workspace = own.workspace;
    void* host_scratch = own.host_scratch;
    require(out != nullptr, "bind: a null argument");
    auto made = std::make_shared<Bound>();
    made->plan = world().plans.at(plan);
    const Plan& planned = *made->plan;
    require_present(*planned.device);
    const ops::OpSpec& spec = ops::op_spec(planned.op);
    require(own.args != nullptr || own.num_args == 0, "bind: no tensors");
    for (std::size_t i = 0; i < planned.args.size(); ++i) {
      const tern_tensor& tensor = *tern_plugin_bound_arg(&own, static_cast<std::uint32_t>(i));
      if (tern_plugin_same_desc(&planned.args[i], &tensor.desc) == 0) {
        fail(TERN_INVALID_ARGUMENT, cat(spec.name, ": ", spec.args[i].name, ": planned as ", to_string(planned.args[i]),
                                        ", bound as ", to_string(tensor.desc)));
      }
      made->args.push_back(tensor);
    }
    const auto place = world().plane(workspace, planned.workspace_bytes, "workspace");
    if (!place.empty()) {
      made->workspace = workspace;
      if (workspace.offset % planned.device->info.alignment != 0) {
        fail(TERN_INVALID_ARGUMENT, cat(spec.name, ": the workspace's offset ", workspace.offset, " is no multiple of ",
                                        planned.device->info.alignment));
      }
    }
    require(planned.host_scratch_bytes == 0 ||
                (host_scratch != nullptr && reinterpret_cast<std::uintptr_t>(host_scratch) % 16 == 0),
            "bind: expected host scratch aligned to 16 bytes");
    if (planned.host_scratch_bytes > 0) made->host_scratch = static_cast<std::byte*>(host_scratch);
    check_overlap(planned, find_operands(*made), place);
    made->counts = own.counts;
    if (std::any_of(planned.args.begin(), planned.args.end(),
                    [](const TensorDesc& desc) { return is_present(desc) && desc.dynamic_dim >= 0; })) {
      (void)world().plane(own.counts, sizeof(tern_host_args::counts), "bind: the plane of counts");
    }
    *out = world().bounds.add(std::move(made));
  });
}

tern_status unbind(tern_bound bound) {
  return guarded([&](auto&) {
    if (bound != nullptr) world().bounds.remove(bound);
  });
}

tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node) {
  const auto queue = [&](const std::shared_ptr<Stream>& s) {
    const auto b = world().bounds.at(bound);
    require(s->device == b->plan->device, "launch: the stream is another device's");
    const ops::OpSpec& spec = ops::op_spec(b->plan->op);
    Work work;
    work.what = spec.name;
    work.is_launch = true;
    work.check_args = [plan = b->plan](const tern_host_args* given) {
      return copy_host_args(*plan->device, given, plan->arrays, plan->args);
    };
    work.args = work.check_args(host_args);
    work.run = [bound](const HostArgs& args) {
      if (!world().bounds.contains(bound)) fail(TERN_INVALID_ARGUMENT, "its binding was undone before it ran");
      run_bound(*world().bounds.at(bound), args);
    };
    submit(*s, std::move(work), node);
  };
  return guarded([&](auto&) { on_stream(stream, queue); });
}

}  // namespace tern::sim
