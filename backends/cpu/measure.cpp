#include "backends/cpu/measure.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <vector>

#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::uint64_t kMostBytes = 128ULL << 20;  // of zeros: filling more takes longer than the product
constexpr double kLongest = 50e-3;                  // seconds of one run
constexpr double kWin = 0.95;                       // of the time of the kernel that comes first

// What must be equal for one answer to serve two descs.
std::string key_of(const Device& device, const tern_op_desc& desc, const HostArgs& typical) {
  std::string key;
  const auto add = [&](const void* data, std::size_t bytes) { key.append(static_cast<const char*>(data), bytes); };
  const auto add_int = [&](std::int64_t value) { add(&value, sizeof value); };
  add_int(static_cast<std::int64_t>(device.target));
  add_int(device.pool->num_threads());
  for (const std::uint32_t value : {desc.op, desc.needs, desc.accumulate}) add_int(value);
  if (typical.counts() != nullptr) add(typical.counts(), sizeof(tern_host_args::counts));
  if (desc.attrs != nullptr) add(desc.attrs, desc.attrs_size);
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    const auto& arg = desc.args[i];
    add_int(arg.rank);
    if (arg.rank == 0) continue;
    for (const std::int64_t value : {arg.dtype, arg.layout, arg.scheme.packing, std::int32_t{arg.dynamic_dim}}) {
      add_int(value);
    }
    for (int d = 0; d < arg.rank; ++d) {
      add_int(arg.shape[d]);
      add_int(arg.strides[d]);
    }
  }
  return key;
}

// Bytes from an argument's first element to its last; 0: absent. Not known for other than strided ones.
bool span_of(const tern_tensor_desc& arg, std::uint64_t& bytes) {
  bytes = 0;
  return arg.rank == 0 ||
         (tern_plugin_is_strided(&arg) != 0 && tern_plugin_extent(&arg, &bytes) != 0 && bytes <= kMostBytes);
}

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Block = std::unique_ptr<std::byte, Free>;

// Written, not only asked for: untouched pages would all be one page in the first cache.
Block zeros(std::uint64_t bytes) {
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  Block block(static_cast<std::byte*>(std::aligned_alloc(64, size)));
  if (block != nullptr) std::memset(block.get(), 0, size);
  return block;
}

// Of this thread's CPU, which other load on the machine changes little.
double seconds_of(const Bound& bound, const HostArgs& host_args) {
  const auto now = [] {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
  };
  const double start = now();
  run_bound(bound, host_args);
  return now() - start;
}

// Counts to measure with; none where nothing is dynamic, or where lengths would have to fit them.
HostArgs typical_args(const tern_op_desc& desc, std::span<const std::int64_t, TERN_MAX_COUNTS> typical_counts) {
  tern_host_args args{};
  args.size = sizeof(args);
  bool any = false;
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    const tern_tensor_desc& arg = desc.args[i];
    if (arg.rank == 0 || arg.dynamic_dim < 0) continue;
    const std::int64_t capacity = arg.shape[arg.dynamic_dim];
    const std::int64_t typical = typical_counts[arg.count_slot];
    std::int64_t& count = args.counts[arg.count_slot];
    const std::int64_t here = typical > 0 ? std::min(typical, capacity) : capacity;
    count = any && count > 0 ? std::min(count, here) : here;
    any = true;
  }
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    if ((tern_plugin_signature(desc.op)->args[i].flags & TERN_ARG_LENGTHS) != 0) return {};
  }
  return any ? HostArgs(desc, &args) : HostArgs();
}

const KernelEntry& measure(const Device& device, const tern_op_desc& desc,
                           std::span<const KernelEntry* const> candidates, const HostArgs& typical) {
  const KernelEntry& first = *candidates.front();
  std::vector<std::uint64_t> spans(desc.num_args);
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    if (!span_of(desc.args[i], spans[i])) return first;
    total += spans[i];
  }
  // One thread, so that whoever else runs does not decide: candidates split their work over threads alike.
  Device alone;
  alone.target = device.target;
  alone.pool = std::make_shared<ThreadPool>(1);
  std::vector<Bound> bounds;
  std::uint64_t workspace_bytes = 0;
  for (const KernelEntry* kernel : candidates) {
    Bound bound;
    bound.plan = make_plan(alone, desc, *kernel);
    workspace_bytes = std::max(workspace_bytes, bound.plan->workspace_bytes);
    bounds.push_back(std::move(bound));
  }
  if (total + workspace_bytes > kMostBytes) return first;
  std::vector<Block> blocks;
  std::vector<TensorView> args(desc.num_args);
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    blocks.push_back(zeros(spans[i]));
    if (blocks.back() == nullptr) return first;
    args[i].desc = desc.args[i];
    if (desc.args[i].rank != 0) args[i].planes[0] = blocks.back().get();
  }
  const Block workspace = zeros(workspace_bytes);
  if (workspace == nullptr) return first;
  for (Bound& bound : bounds) {
    bound.args = args;
    bound.workspace = workspace.get();
  }
  const double cold = seconds_of(bounds.front(), typical);
  if (cold > kLongest) return first;
  for (std::size_t i = 1; i < bounds.size(); ++i) seconds_of(bounds[i], typical);
  std::vector<double> best(bounds.size(), std::numeric_limits<double>::infinity());
  const int rounds = cold > kLongest / 5 ? 2 : 5;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < bounds.size(); ++i) best[i] = std::min(best[i], seconds_of(bounds[i], typical));
  }
  std::size_t winner = 0;
  for (std::size_t i = 1; i < best.size(); ++i) {
    if (best[i] < kWin * best[winner]) winner = i;
  }
  if (host().log != nullptr) {
    std::string line = cat(tern_plugin_op_name(desc.op), ":");
    for (std::size_t i = 0; i < best.size(); ++i) {
      line += cat(i == 0 ? " " : ", ", candidates[i]->name, " ", static_cast<std::int64_t>(best[i] * 1e6), " us");
    }
    host().log(TERN_LOG_DEBUG, cat(line, "; taken: ", candidates[winner]->name).c_str());
  }
  return *candidates[winner];
}

}  // namespace

std::shared_ptr<Plan> make_plan(Device& device, const tern_op_desc& desc, const KernelEntry& kernel) {
  auto made = std::make_shared<Plan>();
  made->device = &device;
  made->kernel = &kernel;
  made->signature = tern_plugin_signature(desc.op);
  made->desc = tern_plugin::copy_desc(desc);
  const PlanDesc planned{*made->desc, device.target, device.pool->num_threads()};
  if (kernel.workspace != nullptr) made->workspace_bytes = kernel.workspace(planned);
  if (kernel.prepare != nullptr) made->state = kernel.prepare(planned);
  return made;
}

const KernelEntry& fastest(Device& device, const tern_op_desc& desc, std::span<const KernelEntry* const> candidates,
                           std::span<const std::int64_t, TERN_MAX_COUNTS> typical_counts) {
  if (candidates.size() == 1 || device.described) return *candidates.front();
  // One at a time: two measurements would slow each other.
  static std::mutex mutex;
  static std::map<std::string, const KernelEntry*> known;
  const HostArgs typical = typical_args(desc, typical_counts);
  const std::string key = key_of(device, desc, typical);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return *found->second;
  const KernelEntry* taken = candidates.front();
  try {
    taken = &measure(device, desc, candidates, typical);
  } catch (const std::exception& error) {  // a library that fails, or no memory to try in: no reason not to plan
    if (host().log != nullptr) {
      host().log(TERN_LOG_DEBUG, cat(tern_plugin_op_name(desc.op), ": not measured: ", error.what()).c_str());
    }
  }
  known.emplace(key, taken);
  return *taken;
}

}  // namespace tern::cpu
