#include "graph/program_watch.h"

#include <map>

#include "base/strings.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

const Node& first_node(const ProgramPlan& plan, const PlannedStep& step) {
  return plan.graph().nodes()[index(step.nodes[0])];
}

}  // namespace

accel::Trace* tracing(const Program::Impl& program) {
  accel::Trace* const trace = program.plan.options.trace.get();
  return trace != nullptr && trace->is_on() ? trace : nullptr;
}

std::string step_name(const ProgramPlan& plan, const PlannedStep& step) {
  if (step.transfer >= 0) {
    const Transfer& transfer = plan.transfers[index(step.transfer)];
    if (transfer.fields.size() > 1) return transfer.to_device ? "upload inputs" : "download outputs";
    return cat(transfer.to_device ? "upload " : "download ", transfer.fields[0].name);
  }
  const std::string op(ops::op_spec(first_node(plan, step).call.op).name);
  return step.nodes.size() == 1 ? op : cat(op, " and ", step.nodes.size() - 1, " more ops");
}

std::string trace_arguments(const ProgramPlan& plan, const PlannedStep& step, const Counts& counts) {
  if (step.transfer >= 0) return {};  // a device tells its copies' bytes itself
  std::string out = cat("\"shapes\":", accel::json_text(shapes_of(plan.graph(), first_node(plan, step), counts)));
  if (step.nodes.size() == 1) return out;
  std::map<std::string_view, int> calls;
  for (const std::int32_t node : step.nodes) ++calls[ops::op_spec(plan.graph().nodes()[index(node)].call.op).name];
  out += ",\"ops\":{";
  for (const auto& [op, count] : calls) out += cat(out.back() == '{' ? "" : ",", accel::json_text(op), ":", count);
  return out + "}";
}

void count_step(const Program::Impl& program, std::size_t s, double seconds) {
  const ProgramPlan& plan = program.plan;
  const PlannedStep& step = plan.steps[s];
  Profile& profile = *plan.options.profile;
  if (step.transfer >= 0) {
    const auto bytes = static_cast<double>(plan.transfers[index(step.transfer)].bytes);
    profile.add_copy(step.kind == StepKind::upload ? "upload" : "download", bytes, seconds);
    return;
  }
  const Node& node = first_node(plan, step);
  if (step.kind == StepKind::program) {
    profile.add(plan.graph(), node, program.counts, work_of(plan.graph(), node, program.counts, {}), seconds);
    return;
  }
  const tern_host_args& args = program.launches[index(step.args)].args;
  profile.add(plan.graph(), node, program.counts,
              work_of(plan.graph(), node, program.counts, {args.arrays, args.num_arrays}), seconds);
}

}  // namespace tern::graph
