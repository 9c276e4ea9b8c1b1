#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "accel/device_profile.h"
#include "base/strings.h"
#include "graph/program_impl.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }

// Bytes of the entries that count: only the outermost dimension of an input or output is dynamic.
std::uint64_t actual_bytes(const TensorDesc& desc, const RunInputs& inputs) {
  const std::uint64_t planned = total_bytes(desc);
  if (desc.dynamic_dim < 0 || desc.shape[0] == 0) return planned;
  if (desc.dynamic_dim != 0) throw std::logic_error("program: only the first dimension of an input is dynamic");
  const std::int64_t count = inputs.counts[desc.count_slot];
  if (count < 0 || count > desc.shape[0]) {
    throw std::logic_error(cat("program: a count of ", count, " in a capacity of ", desc.shape[0]));
  }
  return planned / static_cast<std::uint64_t>(desc.shape[0]) * static_cast<std::uint64_t>(count);
}

void pad(Transfer& transfer) {
  std::byte* data = transfer.staging.data();
  const std::uint64_t used = transfer.actual_bytes;
  const std::uint64_t total = transfer.staging.bytes();
  switch (transfer.padding) {
    case Padding::zero:
      std::memset(data + used, 0, total - used);
      break;
    case Padding::minus_one:
      std::memset(data + used, 0xff, total - used);
      break;
    case Padding::repeat_last: {
      const std::uint64_t size =
          total / static_cast<std::uint64_t>(std::max<std::int64_t>(num_elements(transfer.desc), 1));
      for (std::uint64_t at = used; at < total && used >= size; at += size)
        std::memcpy(data + at, data + used - size, size);
      break;
    }
  }
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs the steps of one call in program order; lanes overlap as the waits allow.
class Runner {
 public:
  Runner(Program::Impl& program, const RunInputs& inputs) : p_(program), inputs_(inputs), host_args_(program, inputs) {}

  void run() {
    const double begin = now_seconds();
    stage_inputs();
    if (p_.options.profile) {
      for (std::size_t s = 0; s < p_.steps.size(); ++s) run_timed(s);
      p_.options.profile->add_run(now_seconds() - begin);
      return;
    }
    if (p_.options.probe) {
      for (std::size_t s = 0; s < p_.steps.size(); ++s) run_probed(s);
      return;
    }
    for (std::size_t s = 0; s < p_.steps.size();) {
      s = p_.options.capture && p_.device->can(TERN_CAP_CAPTURE) && p_.steps[s].kind == StepKind::launch
              ? run_captured(s)
              : run_step(s);
    }
    for (const auto& stream : p_.streams) {
      if (stream) stream->synchronize();
    }
  }

 private:
  void stage_inputs() {
    for (const auto& [name, bytes] : inputs_.inputs) {
      const auto found = p_.uploads.find(name);
      if (found == p_.uploads.end()) continue;  // this graph has no use for it
      Transfer& transfer = p_.transfers[found->second];
      transfer.actual_bytes = actual_bytes(transfer.desc, inputs_);
      if (bytes.size() != transfer.actual_bytes) {
        throw std::logic_error(
            cat("program: input ", name, " takes ", transfer.actual_bytes, " bytes, not ", bytes.size()));
      }
      transfer.changed = bytes.empty() || std::memcmp(transfer.staging.data(), bytes.data(), bytes.size()) != 0;
      std::memcpy(transfer.staging.data(), bytes.data(), bytes.size());
      pad(transfer);
    }
    if (p_.counts >= 0) {
      Transfer& transfer = p_.transfers[index(p_.counts)];
      const auto counts = std::as_bytes(std::span(inputs_.counts));
      transfer.changed = std::memcmp(transfer.staging.data(), counts.data(), counts.size()) != 0;
      std::memcpy(transfer.staging.data(), counts.data(), counts.size());
    }
    for (const auto& [name, transfer] : p_.uploads) {
      if (!inputs_.inputs.contains(name)) throw std::logic_error(cat("program: no input ", name));
    }
  }

  void wait_for(std::size_t s) {
    for (std::int32_t other : p_.steps[s].waits) p_.stream(p_.steps[s].lane).wait(*p_.steps[index(other)].event);
  }
  void record(std::size_t s) {
    if (p_.steps[s].event) p_.stream(p_.steps[s].lane).record(*p_.steps[s].event);
  }

  std::size_t run_step(std::size_t s) {
    Step& step = p_.steps[s];
    const accel::Stream& stream = p_.stream(step.lane);
    wait_for(s);
    switch (step.kind) {
      case StepKind::upload: {
        const Transfer& transfer = p_.transfers[index(step.transfer)];
        p_.device->copy_to_device(transfer.device, {transfer.staging.data(), transfer.staging.bytes()}, stream);
        break;
      }
      case StepKind::download: {
        Transfer& transfer = p_.transfers[index(step.transfer)];
        transfer.actual_bytes = actual_bytes(transfer.desc, inputs_);
        p_.device->copy_to_host({transfer.staging.data(), transfer.actual_bytes}, transfer.device, stream);
        break;
      }
      case StepKind::launch:
        (void)step.bound.launch(host_args_.of(step), stream);
        break;
      case StepKind::recipe:
        launch_recipe(step, stream);
        break;
      case StepKind::host:
        run_on_host(step, stream);
        break;
    }
    record(s);
    return s + 1;
  }

  // What a device's own recording calls the work of a step.
  [[nodiscard]] std::string range_of(const Step& step) const {
    if (step.transfer >= 0)
      return cat(step.kind == StepKind::upload ? "upload " : "download ", p_.transfers[index(step.transfer)].name);
    const Node& first = p_.graph().nodes()[index(step.nodes[0])];
    const std::string op(ops::op_spec(first.call.op).name);
    return step.nodes.size() == 1 ? op : cat(op, " and ", step.nodes.size() - 1, " more ops");
  }

  // Runs one step alone, so that its time is its own. A compiled graph counts as its first op.
  void run_timed(std::size_t s) {
    const Step& step = p_.steps[s];
    const accel::ProfileRange range(*p_.device, range_of(step));
    const double begin = now_seconds();
    (void)run_step(s);
    p_.stream(step.lane).synchronize();
    const double seconds = now_seconds() - begin;
    Profile& profile = *p_.options.profile;
    if (step.transfer >= 0) {
      const auto bytes = static_cast<double>(p_.transfers[index(step.transfer)].actual_bytes);
      profile.add_copy(step.kind == StepKind::upload ? "upload" : "download", bytes, seconds);
      return;
    }
    const Node& node = p_.graph().nodes()[index(step.nodes[0])];
    const tern_host_args& args = host_args_.of(step);
    profile.add(p_.graph(), node, inputs_.counts,
                work_of(p_.graph(), node, inputs_.counts, {args.arrays, args.num_arrays}), seconds);
  }

  // Runs one step alone, its arguments shown before and after.
  void run_probed(std::size_t s) {
    const Step& step = p_.steps[s];
    const accel::Stream& stream = p_.stream(step.lane);
    if (step.nodes.empty()) {
      (void)run_step(s);
      stream.synchronize();
      return;
    }
    const ProbedCall call{p_.graph(),  p_.graph().nodes()[index(step.nodes[0])], p_.device,     stream,
                          step.stored, {step.packed.get(), step.stored.size()},  inputs_.counts};
    p_.options.probe->before(call);
    (void)run_step(s);
    stream.synchronize();
    p_.options.probe->after(call);
  }

  void launch_recipe(Step& step, const accel::Stream& stream) {
    const auto& api = p_.device->api();
    const tern_bind_args memory = accel::bind_args(step.tensors, step.memory);
    accel::check(api.launch_recipe(step.recipe.raw(), &memory, &host_args_.of(step), stream.raw()),
                 p_.device->backend(), cat(p_.device->name(), ": launching a compiled graph"));
  }

  // Copies the arguments to the host, runs its kernel, and copies back what it wrote.
  void run_on_host(Step& step, const accel::Stream& stream) {
    const Node& node = p_.graph().nodes()[index(step.nodes[0])];
    HostCall& call = *step.host;
    const accel::Stream host_stream = p_.host->make_stream();
    const auto each_plane = [&](auto&& action) {
      std::size_t m = 0;
      for (std::size_t a = 0; a < step.tensors.size(); ++a) {
        const PlaneBytes planes = is_present(step.tensors[a].desc) ? plane_bytes(step.tensors[a].desc) : PlaneBytes{};
        for (int p = 0; p < TERN_MAX_PLANES; ++p) {
          if (planes.bytes[p] != 0) action(a, step.tensors[a].planes[p], call.memory[m], call.staging[m]), ++m;
        }
      }
    };
    each_plane([&](std::size_t a, tern_plane plane, accel::Buffer&, accel::HostBuffer& staging) {
      if (node.call.inputs[a].present()) p_.device->copy_to_host({staging.data(), staging.bytes()}, plane, stream);
    });
    stream.synchronize();
    each_plane([&](std::size_t a, tern_plane, accel::Buffer& memory, accel::HostBuffer& staging) {
      if (node.call.inputs[a].present()) {
        p_.host->copy_to_device(memory.plane(), {staging.data(), staging.bytes()}, host_stream);
      }
    });
    const tern_host_args& args = host_args_.of(step);
    p_.host->copy_to_device(call.counts.plane(), std::as_bytes(std::span(args.counts)), host_stream);
    (void)call.bound.launch(args, host_stream);
    each_plane([&](std::size_t a, tern_plane, accel::Buffer& memory, accel::HostBuffer& staging) {
      if (node.results[a].present())
        p_.host->copy_to_host({staging.data(), staging.bytes()}, memory.plane(), host_stream);
    });
    host_stream.synchronize();
    each_plane([&](std::size_t a, tern_plane plane, accel::Buffer&, accel::HostBuffer& staging) {
      if (node.results[a].present()) p_.device->copy_to_device(plane, {staging.data(), staging.bytes()}, stream);
    });
  }

  // The launches of one lane from `begin` on, up to what ends a segment.
  [[nodiscard]] std::size_t segment_end(std::size_t begin) const {
    std::size_t end = begin;
    while (end < p_.steps.size() && p_.steps[end].kind == StepKind::launch &&
           p_.steps[end].lane == p_.steps[begin].lane) {
      // A wait for something that is queued only after the segment began cannot move before it.
      for (std::int32_t other : p_.steps[end].waits) {
        if (index(other) >= begin) return end;
      }
      ++end;
    }
    return end;
  }

  std::size_t run_captured(std::size_t begin) {
    Step& head = p_.steps[begin];
    const std::size_t end = head.captured_until >= 0 ? index(head.captured_until) : segment_end(begin);
    if (end == begin) return run_step(begin);
    const accel::Stream& stream = p_.stream(head.lane);
    for (std::size_t s = begin; s < end; ++s) wait_for(s);
    if (!head.capture || !update(begin, end, stream)) capture(begin, end, stream);
    accel::check(p_.device->api().capture_launch(head.capture->raw(), stream.raw()), p_.device->backend(),
                 cat(p_.device->name(), ": launching a captured graph"));
    for (std::size_t s = begin; s < end; ++s) record(s);
    return end;
  }

  // Hands over what differs from the last run; false where the device wants the launches captured again.
  bool update(std::size_t begin, std::size_t end, const accel::Stream& stream) {
    if (p_.device->can(TERN_CAP_DEVICE_COUNTS)) return true;  // it has read what was uploaded
    p_.node_updates.clear();
    p_.updates.resize(std::max(p_.updates.size(), end - begin));
    for (std::size_t s = begin; s < end; ++s) {
      const Step& step = p_.steps[s];
      if (!host_args_.changed(step)) continue;
      Update& update = p_.updates[p_.node_updates.size()];
      host_args_.fill(step, update.arrays, update.args);
      p_.node_updates.push_back({step.captured_node, &update.args});
    }
    if (p_.node_updates.empty()) return true;
    const tern_status status =
        p_.device->api().capture_update(p_.steps[begin].capture->raw(), stream.raw(), p_.node_updates.data(),
                                        static_cast<std::uint32_t>(p_.node_updates.size()));
    if (status == TERN_UNSUPPORTED) return false;
    accel::check(status, p_.device->backend(), cat(p_.device->name(), ": updating captured kernels"));
    return true;
  }

  void capture(std::size_t begin, std::size_t end, const accel::Stream& stream) {
    const auto& api = p_.device->api();
    if (p_.steps[begin].capture) {
      stream.synchronize();  // an earlier launch may still use it
      p_.steps[begin].capture.reset();
    }
    accel::check(api.capture_begin(stream.raw()), p_.device->backend(), cat(p_.device->name(), ": capturing"));
    for (std::size_t s = begin; s < end; ++s) {
      p_.steps[s].captured_node = p_.steps[s].bound.launch(host_args_.of(p_.steps[s]), stream);
    }
    tern_capture raw = nullptr;
    accel::check(api.capture_end(stream.raw(), &raw), p_.device->backend(), cat(p_.device->name(), ": capturing"));
    p_.steps[begin].capture.emplace(p_.device, raw);
    p_.steps[begin].captured_until = static_cast<std::int32_t>(end);
  }

  Program::Impl& p_;
  const RunInputs& inputs_;
  HostArgs host_args_;
};

}  // namespace

bool is_dynamic(const Graph& graph, const Node& node) {
  for (std::size_t a = 0; a < node.call.inputs.size(); ++a) {
    const Value value = node.results[a].present() ? node.results[a] : node.call.inputs[a];
    if (value.present() && graph.desc(value).dynamic_dim >= 0) return true;
  }
  return false;
}

const Transfer& HostArgs::lengths_of(const Node& node, std::size_t arg) const {
  const Storage& storage = program_.graph().storage_of(node.call.inputs[arg]);
  const auto upload = program_.uploads.find(storage.name);
  if (upload == program_.uploads.end()) {
    const ops::OpSpec& spec = ops::op_spec(node.call.op);
    throw std::logic_error(cat("program: the lengths ", spec.args[arg].name, " of ", spec.name, " are no input"));
  }
  return program_.transfers[upload->second];
}

void HostArgs::append(const Node& node, std::vector<tern_host_array>& arrays) const {
  const ops::OpSpec& spec = ops::op_spec(node.call.op);
  for (std::size_t a = 0; a < spec.args.size(); ++a) {
    if ((spec.args[a].flags & ops::kLengths) == 0) continue;
    const TensorDesc& desc = program_.graph().desc(node.call.inputs[a]);
    const bool cut = desc.dynamic_dim == 0 && program_.device->can(TERN_CAP_DYNAMIC_SHAPES);
    const auto* data = reinterpret_cast<const std::int32_t*>(lengths_of(node, a).staging.data());
    arrays.push_back({data, cut ? inputs_.counts[desc.count_slot] : desc.shape[0]});
  }
}

void HostArgs::fill(const Step& step, std::vector<tern_host_array>& arrays, tern_host_args& args) const {
  arrays.clear();
  for (std::int32_t n : step.nodes) append(program_.graph().nodes()[static_cast<std::size_t>(n)], arrays);
  args.size = sizeof(args);
  args.num_arrays = static_cast<std::uint32_t>(arrays.size());
  args.arrays = arrays.data();
  std::copy(inputs_.counts.begin(), inputs_.counts.end(), args.counts);
}

const tern_host_args& HostArgs::of(const Step& step) {
  fill(step, arrays_, args_);
  return args_;
}

bool HostArgs::changed(const Step& step) const {
  const Graph& graph = program_.graph();
  const bool all = program_.is_behind;
  const bool counts = program_.counts >= 0 && program_.transfers[static_cast<std::size_t>(program_.counts)].changed;
  for (const std::int32_t n : step.nodes) {
    const Node& node = graph.nodes()[static_cast<std::size_t>(n)];
    if ((all || counts) && is_dynamic(graph, node)) return true;
    const ops::OpSpec& spec = ops::op_spec(node.call.op);
    for (std::size_t a = 0; a < spec.args.size(); ++a) {
      if ((spec.args[a].flags & ops::kLengths) != 0 && (all || lengths_of(node, a).changed)) return true;
    }
  }
  return false;
}

void Program::run(const RunInputs& inputs) {
  for (const auto& [name, uses] : impl_->packs) (void)impl_->store->packed(name, uses);
  try {
    Runner(*impl_, inputs).run();
    impl_->is_behind = false;
  } catch (...) {
    impl_->is_behind = true;
    // What was queued before the error still uses memory that the caller may now give to another.
    for (const auto& stream : impl_->streams) {
      if (stream) (void)impl_->device->api().stream_synchronize(stream->raw());
    }
    throw;
  }
  for (const std::string& name : impl_->written) impl_->store->wrote(name);
}

std::span<const std::byte> Program::output(const std::string& name) const {
  const auto found = impl_->downloads.find(name);
  if (found == impl_->downloads.end()) throw std::logic_error(cat("program: no output ", name));
  const Transfer& transfer = impl_->transfers[found->second];
  return {transfer.staging.data(), transfer.actual_bytes};
}

}  // namespace tern::graph
