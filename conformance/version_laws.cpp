// A plugin built against one minor version runs under a host of another.
#include <functional>

#include "base/strings.h"
#include "conformance/law_tools.h"

namespace tern::conformance {
namespace {

void check_host(Bench& bench, const CaseSource& source, HostVersion version, const char* law, LawResult& result) {
  const Case c = source.make(25);
  under(bench, result, law, c, [&] {
    CaseMemory memory(bench.device, c, 0);
    const Kernel kernel(bench.device, memory.op_desc(), {}, false, version);
    const auto instance = kernel.bind(memory.tensors(), 0);
    memory.upload(c, bench.stream);
    HostArgs host_args(c, version);
    instance->launch(host_args.get(), bench.stream, kPoison);
    host_args.unmap();
    const Snapshot snapshot = memory.fetch(bench.stream);
    bench.stream.synchronize();
    note(result, law, c, memory.outputs(snapshot));
  });
}

// What this version cannot mean: a device that takes it would leave it out in silence.
struct Surplus {
  const char* what;
  std::function<void(tern_op_desc& desc, std::vector<TensorDesc>& args, Bytes& attrs)> add;
};

const Surplus kSurplus[] = {
    {"an argument more",
     [](auto& desc, auto& args, auto&) {
       args.push_back(args.front());
       ++desc.num_args;
     }},
    {"an attribute more",
     [](auto& desc, auto&, auto& attrs) {
       attrs.resize(attrs.size() + 4, std::byte{1});
       desc.attrs_size += 4;
     }},
    {"a need more", [](auto& desc, auto&, auto&) { desc.needs |= 1U << 30; }},
    {"a reserved member of the op's desc", [](auto& desc, auto&, auto&) { desc.reserved_tail[1] = 1; }},
    {"a reserved byte of a tensor's desc", [](auto&, auto& args, auto&) { args.front().reserved[0] = 1; }},
    {"a reserved member of a tensor's desc", [](auto&, auto& args, auto&) { args.front().reserved_tail[0] = 1; }},
    {"a reserved member of a scheme", [](auto&, auto& args, auto&) { args.front().scheme.reserved[1] = 1; }},
};

void check_surplus(Bench& bench, const Case& c, const Surplus& surplus, LawResult& result) {
  const accel::OpDesc asked = op_desc(c);
  tern_op_desc desc = asked.c_desc();
  std::vector<TensorDesc> args = asked.args;
  Bytes attrs = asked.attrs;
  std::vector<std::int8_t> alias(args.size() + 1, -1);
  surplus.add(desc, args, attrs);
  desc.args = args.data();
  desc.attrs = attrs.empty() ? nullptr : attrs.data();
  if (!asked.alias.empty()) std::copy(asked.alias.begin(), asked.alias.end(), alias.begin());
  desc.alias = alias.data();
  const tern_backend& api = bench.device->api();
  tern_status status = api.supports(bench.device->raw(), &desc, {});
  if (status == TERN_UNSUPPORTED && bench.device->can(TERN_CAP_EAGER)) {
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof(info);
    status = api.plan(bench.device->raw(), &desc, nullptr, &plan, &info);
    if (status == TERN_OK) api.plan_destroy(plan);
  }
  if (status == TERN_UNSUPPORTED) return;
  note(result, "what only a newer host could mean", c,
       cat(surplus.what, ": expected ", accel::status_name(TERN_UNSUPPORTED), ", found ", accel::status_name(status)));
}

}  // namespace

void check_versions(Bench& bench, const CaseSource& source, LawResult& result) {
  check_host(bench, source, HostVersion::newer, "a newer host", result);
  check_host(bench, source, HostVersion::older, "an older host", result);
  for (const Surplus& surplus : kSurplus) check_surplus(bench, source.make(25), surplus, result);
}

}  // namespace tern::conformance
