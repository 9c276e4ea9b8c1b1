// Plans, bindings and launches of single ops.
#include <algorithm>
#include <cstring>

#include "mutant/world.h"

namespace tern::mutant {

tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* out,
                 tern_plan_info* info) {
  auto made = std::make_unique<Planned>();
  const tern_status status = world->inner->plan(device, desc, options, &made->inner, info);
  if (status != TERN_OK) return status;
  made->device = device;
  made->given = desc;
  made->args.assign(desc->args, desc->args + desc->num_args);
  const auto* attrs = static_cast<const std::byte*>(desc->attrs);
  if (attrs != nullptr) made->attrs.assign(attrs, attrs + desc->attrs_size);
  if (desc->alias != nullptr) made->alias.assign(desc->alias, desc->alias + desc->num_args);
  made->desc = *desc;
  made->desc.args = made->args.data();
  made->desc.attrs = made->attrs.data();
  made->desc.alias = made->alias.empty() ? nullptr : made->alias.data();
  made->workspace = info->workspace_bytes;
  if (concerns(desc->op)) {
    spoil_plan(options, *info);
    if (world->plan.mistake == Mistake::wrong_attribute) {
      Bytes changed = made->attrs;
      tern_op_desc other = made->desc;
      made->other_info.size = sizeof(made->other_info);
      if (change_attribute(desc->op, world->plan.arg, changed)) {
        other.attrs = changed.data();
        if (world->inner->plan(device, &other, nullptr, &made->other, &made->other_info) != TERN_OK)
          made->other = nullptr;
      }
    }
  }
  *out = reinterpret_cast<tern_plan>(made.release());
  return TERN_OK;
}

tern_status plan_destroy(tern_plan raw) {
  const std::unique_ptr<Planned> planned(reinterpret_cast<Planned*>(raw));
  if (planned->other != nullptr) world->inner->plan_destroy(planned->other);
  return world->inner->plan_destroy(planned->inner);
}

tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  if (!concerns(desc->op) || world->plan.mistake != Mistake::ignored_surplus) {
    return world->inner->supports(device, desc, reason);
  }
  const ops::OpSpec& spec = ops::op_spec(desc->op);
  tern_op_desc known = *desc;
  known.num_args = std::min(desc->num_args, static_cast<std::uint32_t>(spec.args.size()));
  known.attrs_size = std::min(desc->attrs_size, static_cast<std::uint32_t>(spec.attrs.size() * 4));
  known.reserved_tail[0] = known.reserved_tail[1] = 0;
  std::vector<tern_tensor_desc> args(desc->args, desc->args + known.num_args);
  bool changed = known.num_args < desc->num_args || known.attrs_size < desc->attrs_size;
  for (tern_tensor_desc& arg : args) {
    const tern_tensor_desc before = arg;
    std::fill(std::begin(arg.reserved), std::end(arg.reserved), std::uint8_t{0});
    std::fill(std::begin(arg.reserved_tail), std::end(arg.reserved_tail), 0);
    std::fill(std::begin(arg.scheme.reserved), std::end(arg.scheme.reserved), 0);
    changed = changed || std::memcmp(&before, &arg, sizeof(arg)) != 0;
  }
  known.args = args.data();
  if (changed) ++world->made;
  return world->inner->supports(device, &known, reason);
}

tern_status bind(tern_plan raw, const tern_bind_args* args, tern_bound* out) {
  auto* planned = reinterpret_cast<Planned*>(raw);
  auto made = std::make_unique<BoundRecord>();
  made->plan = planned;
  made->given = args;
  made->bound.desc = planned->desc;
  made->bound.args.assign(args->args, args->args + planned->desc.num_args);
  made->bound.alias = planned->alias;
  if (concerns(planned->desc.op) && world->plan.mistake == Mistake::stale_workspace) {
    made->bound.extra = tern_plane{args->workspace.buffer, args->workspace.offset + planned->workspace + 63};
  }
  const tern_status status = world->inner->bind(planned->inner, args, &made->bound.inner);
  if (status != TERN_OK) return status;
  if (planned->other != nullptr) {
    tern_bind_args own = *args;
    own.workspace = {};
    own.host_scratch = nullptr;
    if (planned->other_info.workspace_bytes > 0 &&
        world->inner->buffer_create(planned->device, planned->other_info.workspace_bytes, 0, &made->other_workspace) ==
            TERN_OK) {
      own.workspace.buffer = made->other_workspace;
    }
    // a kernel that wants host scratch of its own is left alone
    const bool possible = planned->other_info.host_scratch_bytes == 0;
    if (!possible || world->inner->bind(planned->other, &own, &made->bound.other) != TERN_OK) {
      made->bound.other = nullptr;
    }
  }
  *out = reinterpret_cast<tern_bound>(made.release());
  return TERN_OK;
}

tern_status unbind(tern_bound raw) {
  flush();
  const std::unique_ptr<BoundRecord> record(reinterpret_cast<BoundRecord*>(raw));
  if (record->bound.other != nullptr) world->inner->unbind(record->bound.other);
  const tern_status status = world->inner->unbind(record->bound.inner);
  let_go(*record);
  return status;
}

tern_status launch(tern_bound raw, const tern_host_args* host_args, tern_stream stream, std::uint64_t* node) {
  auto* record = reinterpret_cast<BoundRecord*>(raw);
  if (const auto at = world->capturing.find(stream); at != world->capturing.end()) {
    at->second = {record, Lengths(*host_args), at->second.launches + 1};
    return world->inner->launch(record->bound.inner, host_args, stream, node);
  }
  if (is_transparent()) return world->inner->launch(record->bound.inner, host_args, stream, node);
  const auto inner = [stream](tern_bound bound, const Lengths& lengths) {
    const LengthsView view(lengths);
    std::uint64_t ignored = 0;
    const tern_status status = world->inner->launch(bound, view.get(), stream, &ignored);
    return status != TERN_OK ? status : world->inner->stream_synchronize(stream);
  };
  return launch_record(*record, host_args, stream, inner);
}

}  // namespace tern::mutant
