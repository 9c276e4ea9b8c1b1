// Launches: the numbers of this one, its calls, and their second phase.
#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

// All numbers of a launch, to compare with the last one's.
std::vector<std::int64_t> flatten(const HostArgs& host_args) {
  std::vector<std::int64_t> numbers;
  if (host_args.counts() != nullptr) numbers.assign(host_args.counts(), host_args.counts() + TERN_MAX_COUNTS);
  for (const tern_host_array& array : host_args.arrays()) {
    numbers.push_back(array.count);
    numbers.insert(numbers.end(), array.data, array.data + array.count);
  }
  return numbers;
}

// The addresses of a list's constants, which are uploaded on their first use.
std::vector<void*> find_constants(Shared& shared, const std::vector<Constant>& constants) {
  std::vector<void*> found;
  const std::lock_guard lock(shared.mutex);
  for (const Constant& constant : constants) {
    const auto known = shared.constants.find(constant.key);
    if (known != shared.constants.end()) {
      found.push_back(known->second);
      continue;
    }
    const std::vector<std::byte> bytes = constant.bytes();
    void* address = shared.allocate(bytes.size());
    check(acl().aclrtMemcpy(address, bytes.size(), bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE),
          "uploading a constant");
    shared.constants.emplace(constant.key, address);
    found.push_back(address);
  }
  return found;
}

}  // namespace

std::byte* Bound::address(std::int32_t place) const {
  if (place >= kFirstConstant)
    return static_cast<std::byte*>(constants[static_cast<std::size_t>(place - kFirstConstant)]);
  if (place == kWorkspace) return workspace;
  return planes[static_cast<std::size_t>(place)];
}

std::shared_ptr<Prepared> Bound::prepare(const HostArgs& host_args) {
  std::vector<std::int64_t> given = flatten(host_args);
  if (prepared && prepared->repeatable() && given == numbers) return prepared;
  Composer composer(*plan->chip, *plan->desc, {host_args.counts(), host_args.arrays()});
  plan->kernel->compose(composer);
  constants = find_constants(*plan->shared, composer.constants());
  auto made = std::make_shared<Prepared>(*plan->shared, composer, *this, plan->desc->needs, !plan->has_lengths);
  // The calls' own scratch lies behind the intermediates of this list.
  const auto temp = (static_cast<std::uint64_t>(composer.workspace_bytes()) + kAlignment - 1) / kAlignment * kAlignment;
  made->scratch_offset = temp;
  if (temp + made->scratch_bytes() > plan->temp_bytes + plan->scratch_bytes) {
    throw Error(TERN_INTERNAL, std::string(tern_plugin_op_name(plan->desc->op)) + ": at these counts CANN wants " +
                                   std::to_string(temp + made->scratch_bytes()) + " bytes of workspace, " +
                                   std::to_string(plan->temp_bytes + plan->scratch_bytes) +
                                   " were planned; please report this with the model's name");
  }
  prepared = std::move(made);
  numbers = std::move(given);
  return prepared;
}

tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node) {
  return guarded([&]() -> tern_status {
    if (bound == nullptr) return fail(TERN_INVALID_ARGUMENT, "launch: nothing is bound");
    const Acl& api = use(stream, "launch");
    Bound& own = *bound->bound;
    const Plan& planned = *own.plan;
    if (stream->shared != planned.shared) return fail(TERN_INVALID_ARGUMENT, "launch: the stream is another device's");
    const HostArgs copied(*planned.desc, host_args);
    if (planned.has_lengths && copied.arrays().empty()) {
      return fail(TERN_INVALID_ARGUMENT, std::string(tern_plugin_op_name(planned.desc->op)) +
                                             ": its lengths are read from host_args, where there are none");
    }
    const std::shared_ptr<Prepared> prepared = own.prepare(copied);
    Recording* recording = stream->recording();
    if (recording == nullptr) {
      prepared->run(own.workspace, stream->handle);
      return TERN_OK;
    }
    Recording::Node recorded{bound->bound, prepared, nullptr};
    // What varies may be updated later, so its tasks make a group.
    const bool grouped = planned.varies() && prepared->size() > 0 && api.aclmdlRICaptureTaskGrpBegin != nullptr;
    if (grouped) check(api.aclmdlRICaptureTaskGrpBegin(stream->handle), "aclmdlRICaptureTaskGrpBegin");
    prepared->run(own.workspace, stream->handle);
    if (grouped) check(api.aclmdlRICaptureTaskGrpEnd(stream->handle, &recorded.group), "aclmdlRICaptureTaskGrpEnd");
    if (node != nullptr) *node = recording->nodes.size();
    recording->nodes.push_back(std::move(recorded));
    return TERN_OK;
  });
}

}  // namespace tern::npu
