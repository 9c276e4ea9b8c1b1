#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "base/strings.h"
#include "graph/program_stage.h"
#include "graph/program_watch.h"
#include "ops/program_ops.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Queues the steps of one run in program order; lanes overlap as the waits allow.
class Runner {
 public:
  explicit Runner(Program::Impl& program) : p_(program), plan_(program.plan), device_(*program.plan.device) {}

  void queue() {
    accel::Trace* const trace = tracing(p_);
    p_.is_eager = plan_.options.profile || trace != nullptr;
    if (p_.is_eager) {
      const double begin = now_seconds();
      for (std::size_t s = 0; s < p_.steps.size(); ++s) run_watched(s, trace);
      if (plan_.options.profile) plan_.options.profile->add_run(now_seconds() - begin);
      return;
    }
    if (plan_.options.probe) {
      for (std::size_t s = 0; s < p_.steps.size(); ++s) run_probed(s);
      return;
    }
    const bool captures = plan_.options.capture && device_.can(TERN_CAP_CAPTURE);
    for (std::size_t s = 0; s < p_.steps.size();) {
      s = captures && plan_.steps[s].kind == StepKind::launch ? run_captured(s) : run_step(s);
    }
  }

 private:
  void wait_for(std::size_t s) {
    const PlannedStep& step = plan_.steps[s];
    for (const std::int32_t other : step.waits) p_.stream(step.lane).wait(*p_.steps[index(other)].event);
  }
  void record(std::size_t s) {
    if (p_.steps[s].event) p_.stream(plan_.steps[s].lane).record(*p_.steps[s].event);
  }
  [[nodiscard]] const tern_host_args& args_of(std::size_t s) const {
    return p_.launches[index(plan_.steps[s].args)].args;
  }

  std::size_t run_step(std::size_t s) {
    const PlannedStep& planned = plan_.steps[s];
    Step& step = p_.steps[s];
    const accel::Stream& stream = p_.stream(planned.lane);
    wait_for(s);
    switch (planned.kind) {
      case StepKind::upload: {
        const Copied& copied = p_.copied[index(planned.transfer)];
        const accel::HostBuffer& from = copied.staging[index(p_.turn)];
        device_.copy_to_device(copied.device, {from.data(), from.bytes()}, stream);
        break;
      }
      case StepKind::download:
        download(index(planned.transfer), stream);
        break;
      case StepKind::launch:
        (void)step.bound.launch(args_of(s), stream);
        break;
      case StepKind::recipe:
        launch_recipe(s, stream);
        break;
      case StepKind::host:
        run_on_host(s, stream);
        break;
      case StepKind::program:
        run_program_op(s, stream);
        break;
    }
    record(s);
    return s + 1;
  }

  // Up to the end of the last field's entries that count.
  void download(std::size_t transfer, const accel::Stream& stream) {
    std::uint64_t bytes = 0;
    for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
      if (index(plan_.outputs[o].transfer) != transfer) continue;
      const Field& field = plan_.field(plan_.outputs[o]);
      p_.output_bytes[o] = actual_bytes(field, p_.counts);
      bytes = std::max(bytes, field.offset + p_.output_bytes[o]);
    }
    const Copied& copied = p_.copied[transfer];
    device_.copy_to_host({copied.staging[0].data(), bytes}, copied.device, stream);
  }

  // Runs one step in sight of the profile, the trace or both.
  void run_watched(std::size_t s, accel::Trace* trace) {
    const PlannedStep& step = plan_.steps[s];
    const bool is_timed = plan_.options.profile || !trace->reads_device();
    std::optional<accel::TraceOp> op;
    std::optional<accel::TraceSpan> span;  // of what the host does for the device
    if (trace != nullptr) {
      const std::string name = step_name(plan_, step);
      const bool of_host = step.kind == StepKind::host || step.kind == StepKind::program;
      if (of_host && !is_timed) span.emplace(trace, cat(name, " by the host"));
      const accel::TraceOp::Place place{step.transfer >= 0 ? "copy" : "op", static_cast<std::uint32_t>(step.lane)};
      op.emplace(*trace, device_, trace->intern(name, trace_arguments(plan_, step, p_.counts)), name, place);
    }
    const double begin = now_seconds();
    (void)run_step(s);
    if (!is_timed) return;
    p_.stream(step.lane).synchronize();
    if (plan_.options.profile) count_step(p_, s, now_seconds() - begin);
  }

  // Runs one step alone, its arguments shown before and after.
  void run_probed(std::size_t s) {
    const PlannedStep& planned = plan_.steps[s];
    const Step& step = p_.steps[s];
    const accel::Stream& stream = p_.stream(planned.lane);
    if (planned.nodes.empty() || planned.kind == StepKind::program) {
      (void)run_step(s);
      stream.synchronize();
      return;
    }
    const ProbedCall call{plan_.graph(), plan_.graph().nodes()[index(planned.nodes[0])], plan_.device, stream,
                          step.stored,   {step.packed.get(), step.stored.size()},        p_.counts};
    plan_.options.probe->before(call);
    (void)run_step(s);
    stream.synchronize();
    plan_.options.probe->after(call);
  }

  void launch_recipe(std::size_t s, const accel::Stream& stream) {
    const Step& step = p_.steps[s];
    const tern_bind_args memory = accel::bind_args(step.tensors, step.memory);
    accel::check(device_.api().launch_recipe(plan_.steps[s].compiled.recipe.raw(), &memory, &args_of(s), stream.raw()),
                 device_.backend(), device_.name(), ": launching a compiled graph");
  }

  void run_program_op(std::size_t s, const accel::Stream& stream) {
    const OpCall& call = plan_.graph().nodes()[index(plan_.steps[s].nodes[0])].call;
    const tern_tensor& x = p_.steps[s].tensors[ops::kProgramX];
    const tern_tensor& y = p_.steps[s].tensors[ops::kProgramY];
    if (ops::is_collective(call.op)) {
      run_collective(call, x, y, stream);
    } else if (call.op == ops::kCopyToDevice) {
      device_.copy_to_device(y.planes[0], {p_.steps[s].host_data, total_bytes(y.desc)}, stream);
    } else if (call.op == ops::kCopyToHost) {
      device_.copy_to_host({p_.steps[s].host_data, total_bytes(x.desc)}, x.planes[0], stream);
    } else {
      set_count(ops::unpack_attrs<ops::SetCountAttrs>(call.attrs).slot, x.planes[0], stream);
    }
  }

  void run_collective(const OpCall& call, const tern_tensor& x, const tern_tensor& y, const accel::Stream& stream) {
    const auto attrs = ops::unpack_attrs<ops::CollectiveAttrs>(call.attrs);
    const comm::Communicator& group = *plan_.options.groups[index(attrs.group)];
    const auto count = [](const tern_tensor& of) { return static_cast<std::uint64_t>(num_elements(of.desc)); };
    switch (call.op) {
      case ops::kAllReduce:
        return group.all_reduce(y.planes[0], x.planes[0], count(x), x.desc.dtype, attrs.reduce, stream);
      case ops::kAllGather:
        return group.all_gather(y.planes[0], x.planes[0], count(x), x.desc.dtype, stream);
      case ops::kReduceScatter:
        return group.reduce_scatter(y.planes[0], x.planes[0], count(y), x.desc.dtype, attrs.reduce, stream);
      case ops::kAllToAll:
        return group.all_to_all(y.planes[0], x.planes[0], count(x) / static_cast<std::uint64_t>(attrs.ranks),
                                x.desc.dtype, stream);
      case ops::kBroadcast:
        return group.broadcast(y.planes[0], count(y), y.desc.dtype, attrs.peer, stream);
      case ops::kSend:
        return group.send(x.planes[0], count(x), x.desc.dtype, attrs.peer, stream);
      default:
        return group.receive(y.planes[0], count(y), y.desc.dtype, attrs.peer, stream);
    }
  }

  // Reads a count that was computed, for every later launch, and hands it to the device's plane of counts. The host
  // waits for it.
  void set_count(std::int32_t slot, tern_plane from, const accel::Stream& stream) {
    std::int32_t count = 0;
    device_.copy_to_host(std::as_writable_bytes(std::span(&count, 1)), from, stream);
    stream.synchronize();
    set_staged_count(p_, slot, count);
    if (plan_.counts.transfer < 0) return;
    const Copied& copied = p_.copied[index(plan_.counts.transfer)];
    tern_plane to = copied.device;
    to.offset += plan_.field(plan_.counts).offset;
    device_.copy_to_device(to, p_.staging(plan_.counts, p_.turn), stream);
  }

  // Copies the arguments to the host, runs its kernel, and copies back what it wrote.
  void run_on_host(std::size_t s, const accel::Stream& stream) {
    const Node& node = plan_.graph().nodes()[index(plan_.steps[s].nodes[0])];
    Step& step = p_.steps[s];
    HostCall& call = *step.host;
    accel::Device& host = *plan_.host;
    const accel::Stream host_stream = host.make_stream();
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
      if (node.call.inputs[a].present()) device_.copy_to_host({staging.data(), staging.bytes()}, plane, stream);
    });
    stream.synchronize();
    each_plane([&](std::size_t a, tern_plane, accel::Buffer& memory, accel::HostBuffer& staging) {
      if (node.call.inputs[a].present()) {
        host.copy_to_device(memory.plane(), {staging.data(), staging.bytes()}, host_stream);
      }
    });
    const tern_host_args& args = args_of(s);
    host.copy_to_device(call.counts.plane(), std::as_bytes(std::span(args.counts)), host_stream);
    (void)call.bound.launch(args, host_stream);
    each_plane([&](std::size_t a, tern_plane, accel::Buffer& memory, accel::HostBuffer& staging) {
      if (node.results[a].present()) {
        host.copy_to_host({staging.data(), staging.bytes()}, memory.plane(), host_stream);
      }
    });
    host_stream.synchronize();
    each_plane([&](std::size_t a, tern_plane plane, accel::Buffer&, accel::HostBuffer& staging) {
      if (node.results[a].present()) device_.copy_to_device(plane, {staging.data(), staging.bytes()}, stream);
    });
  }

  // The launches from `begin` on, whatever their lanes.
  [[nodiscard]] std::unique_ptr<Segment> make_segment(std::size_t begin) const {
    auto segment = std::make_unique<Segment>();
    const Lane origin = plan_.steps[begin].lane;
    std::size_t end = begin;
    for (; end < plan_.steps.size() && plan_.steps[end].kind == StepKind::launch; ++end) {
      const Lane lane = plan_.steps[end].lane;
      auto& others = segment->others;
      if (lane != origin && std::find(others.begin(), others.end(), lane) == others.end()) others.push_back(lane);
    }
    segment->end = static_cast<std::int32_t>(end);
    segment->inner.resize(end - begin);
    for (std::size_t s = begin; s < end; ++s) {
      for (const std::int32_t other : plan_.steps[s].waits) {
        if (index(other) >= begin && !segment->inner[index(other) - begin]) {
          segment->inner[index(other) - begin] = plan_.device->make_event();
        }
      }
    }
    if (segment->others.empty()) return segment;
    segment->fork = plan_.device->make_event();
    segment->leave = plan_.device->make_event();
    for (std::size_t lane = 0; lane < segment->others.size(); ++lane) {
      segment->joins.push_back(plan_.device->make_event());
      segment->enters.push_back(plan_.device->make_event());
    }
    return segment;
  }

  std::size_t run_captured(std::size_t begin) {
    Step& head = p_.steps[begin];
    if (!head.segment) head.segment = make_segment(begin);
    Segment& segment = *head.segment;
    const std::size_t end = index(segment.end);
    const accel::Stream& origin = p_.stream(plan_.steps[begin].lane);
    for (std::size_t lane = 0; lane < segment.others.size(); ++lane) {
      p_.stream(segment.others[lane]).record(segment.enters[lane]);
      origin.wait(segment.enters[lane]);
    }
    for (std::size_t s = begin; s < end; ++s) {
      for (const std::int32_t other : plan_.steps[s].waits) {
        if (index(other) < begin) origin.wait(*p_.steps[index(other)].event);
      }
    }
    if (!segment.capture || !update(begin, end, origin)) capture(begin, origin);
    accel::check(device_.api().capture_launch(segment.capture.raw(), origin.raw()), device_.backend(), device_.name(),
                 ": launching a captured graph");
    for (std::size_t s = begin; s < end; ++s) {
      if (p_.steps[s].event) origin.record(*p_.steps[s].event);
    }
    if (!segment.others.empty()) origin.record(segment.leave);
    for (const Lane lane : segment.others) p_.stream(lane).wait(segment.leave);
    return end;
  }

  // Hands over what differs from the last run; false where the device wants the launches captured again.
  bool update(std::size_t begin, std::size_t end, const accel::Stream& stream) {
    if (device_.can(TERN_CAP_DEVICE_COUNTS)) return true;  // it has read what was uploaded
    p_.updates.clear();
    for (std::size_t s = begin; s < end; ++s) {
      const LaunchState& launch = p_.launches[index(plan_.steps[s].args)];
      if (launch.changed) p_.updates.push_back({p_.steps[s].captured_node, &launch.args});
    }
    if (p_.updates.empty()) return true;
    const tern_status status =
        device_.api().capture_update(p_.steps[begin].segment->capture.raw(), stream.raw(), p_.updates.data(),
                                     static_cast<std::uint32_t>(p_.updates.size()));
    if (status == TERN_UNSUPPORTED) return false;
    accel::check(status, device_.backend(), device_.name(), ": updating captured kernels");
    return true;
  }

  void capture(std::size_t begin, const accel::Stream& origin) {
    const auto& api = device_.api();
    Segment& segment = *p_.steps[begin].segment;
    if (segment.capture) {
      origin.synchronize();  // an earlier launch may still use it
      segment.capture.reset();
    }
    accel::check(api.capture_begin(origin.raw()), device_.backend(), device_.name(), ": capturing");
    tern_capture raw = nullptr;
    try {
      record_launches(begin, segment, origin);
    } catch (...) {
      if (api.capture_end(origin.raw(), &raw) == TERN_OK) segment.capture = accel::Capture(plan_.device, raw);
      segment.capture.reset();
      throw;
    }
    accel::check(api.capture_end(origin.raw(), &raw), device_.backend(), device_.name(), ": capturing");
    segment.capture = accel::Capture(plan_.device, raw);
  }

  void record_launches(std::size_t begin, const Segment& segment, const accel::Stream& origin) {
    if (!segment.others.empty()) origin.record(segment.fork);
    for (const Lane lane : segment.others) p_.stream(lane).wait(segment.fork);
    for (std::size_t s = begin; s < index(segment.end); ++s) {
      const accel::Stream& stream = p_.stream(plan_.steps[s].lane);
      for (const std::int32_t other : plan_.steps[s].waits) {
        if (index(other) >= begin) stream.wait(segment.inner[index(other) - begin]);
      }
      p_.steps[s].captured_node = p_.steps[s].bound.launch(args_of(s), stream);
      if (segment.inner[s - begin]) stream.record(segment.inner[s - begin]);
    }
    for (std::size_t lane = 0; lane < segment.others.size(); ++lane) {
      p_.stream(segment.others[lane]).record(segment.joins[lane]);
      origin.wait(segment.joins[lane]);
    }
  }

  Program::Impl& p_;
  ProgramPlan& plan_;
  accel::Device& device_;
};

// The place of a name among fields; -1: none has it.
std::int32_t find_field(const ProgramPlan& plan, const std::vector<FieldPlace>& places, std::string_view name) {
  const auto found =
      std::find_if(places.begin(), places.end(), [&](FieldPlace at) { return plan.field(at).name == name; });
  return found == places.end() ? -1 : static_cast<std::int32_t>(found - places.begin());
}

}  // namespace

void Program::Impl::drain() noexcept {
  for (const accel::Stream* stream : streams) {
    if (stream != nullptr) (void)device().api().stream_synchronize(stream->raw());
  }
}

Program::Impl::~Impl() {
  if (!is_running) return;
  drain();
  arena->end_run();
}

std::int32_t Program::num_captures() const {
  return static_cast<std::int32_t>(std::count_if(impl_->steps.begin(), impl_->steps.end(), [](const Step& step) {
    return step.segment && step.segment->capture;
  }));
}

std::int32_t Program::input_id(std::string_view name) const {
  return find_field(impl_->plan, impl_->plan.inputs, name);
}
std::int32_t Program::output_id(std::string_view name) const {
  return find_field(impl_->plan, impl_->plan.outputs, name);
}

std::span<std::byte> Program::input(std::int32_t id) {
  if (impl_->is_running && !impl_->plan.options.prepare_ahead) {
    throw std::logic_error("program: inputs are being read by a run");
  }
  InputState& input = impl_->inputs.at(index(id));
  // What was written before and never launched may reach anywhere.
  if (input.given) input.forget(impl_->turn, impl_->plan.field(impl_->plan.inputs[index(id)]).bytes);
  input.given = true;
  return impl_->staging(impl_->plan.inputs[index(id)], impl_->turn);
}

void Program::launch(const Counts& counts) {
  Impl& p = *impl_;
  if (p.store->only_counts()) throw std::logic_error("program: its memory is only counted");
  p.arena->begin_run(this);
  const accel::TraceSpan span(tracing(p), "launch");
  try {
    stage_inputs(p, counts);
    if (p.pack_changes != p.store->pack_changes()) {
      const accel::TraceSpan packing(tracing(p), "pack weights");
      for (const auto& [name, uses] : p.plan.packs) (void)p.store->packed(name, uses);
      p.pack_changes = p.store->pack_changes();
    }
    Runner(p).queue();
  } catch (...) {
    fail_run();
    throw;
  }
  for (InputState& input : p.inputs) input.given = false;
  p.is_running = true;
  if (p.plan.options.prepare_ahead) p.turn = 1 - p.turn;
}

void Program::wait() {
  Impl& p = *impl_;
  if (!p.is_running) throw std::logic_error("program: no run to wait for");
  p.is_running = false;
  try {
    const accel::TraceSpan span(tracing(p), "wait for the device");
    for (const accel::Stream* stream : p.streams) {
      if (stream != nullptr) stream->synchronize();
    }
    if (accel::Trace* const trace = tracing(p)) trace->collect();
  } catch (...) {
    fail_run();
    throw;
  }
  p.is_behind = p.is_eager;
  p.arena->end_run();
  for (TensorStore::Entry* tensor : p.written) p.store->wrote(tensor);
}

// What was queued before an error still uses memory that the caller may now give to another.
void Program::fail_run() {
  for (std::size_t i = 0; i < impl_->inputs.size(); ++i) {
    InputState& input = impl_->inputs[i];
    if (input.given) input.forget(impl_->turn, impl_->plan.field(impl_->plan.inputs[i]).bytes);
    input.given = false;
  }
  impl_->is_behind = true;
  impl_->drain();
  impl_->arena->end_run();
}

void Program::run(const RunInputs& inputs) {
  for (const auto& [name, bytes] : inputs.inputs) {
    const std::int32_t id = input_id(name);
    if (id < 0) continue;  // this graph has no use for it
    const std::uint64_t wanted = actual_bytes(impl_->plan.field(impl_->plan.inputs[index(id)]), inputs.counts);
    if (bytes.size() != wanted) {
      throw std::logic_error(cat("program: input ", name, " takes ", wanted, " bytes, not ", bytes.size()));
    }
    const std::span<std::byte> to = input(id);
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }
  launch(inputs.counts);
  wait();
}

std::span<const std::byte> Program::output(std::int32_t id) const {
  const FieldPlace at = impl_->plan.outputs.at(index(id));
  return impl_->staging(at, 0).first(impl_->output_bytes[index(id)]);
}

std::span<const std::byte> Program::output(std::string_view name) const {
  const std::int32_t id = output_id(name);
  if (id < 0) throw std::logic_error(cat("program: no output ", name));
  return output(id);
}

}  // namespace tern::graph
