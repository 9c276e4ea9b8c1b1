#include "backends/cuda/measure.h"

#include <algorithm>
#include <limits>
#include <map>

#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr std::uint64_t kMostBytes = 2048ULL << 20;  // of zeros: filling more takes longer than it can win
constexpr double kLongest = 0.2;                     // seconds of one run: then the first is kept
constexpr double kWin = 0.95;                        // of the time of the kernel that comes first

// What must be equal for one answer to serve two descs.
std::string key_of(const Device& device, const tern_op_desc& desc, const HostArgs& typical) {
  std::string key;
  const auto add = [&](const void* data, std::size_t bytes) { key.append(static_cast<const char*>(data), bytes); };
  const auto add_int = [&](std::int64_t value) { add(&value, sizeof value); };
  add_int(device.state->ordinal);
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

// Counts to measure with; none where nothing is dynamic.
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
    count = count > 0 ? std::min(count, here) : here;
    any = true;
  }
  return any ? HostArgs(desc, &args) : HostArgs();
}

bool has_lengths(const tern_op_desc& desc) { return tern_plugin_num_lengths(desc.op) > 0; }

// Zeros for every argument and the workspace, given back at the end. They aren't counted as this process's.
class Zeros {
 public:
  explicit Zeros(Device& device, Stream& stream) : device_(device), stream_(stream) {}
  ~Zeros() {
    for (const auto& buffer : buffers_) (void)driver().MemFree(buffer->address);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  // False: there is no memory for it.
  bool make(std::uint64_t bytes, tern_plane& plane) {
    auto buffer = std::make_unique<tern_buffer_s>();
    buffer->state = device_.state;
    buffer->bytes = std::max<std::uint64_t>(bytes, kAlignment);
    if (driver().MemAlloc(&buffer->address, buffer->bytes) != CUDA_SUCCESS) return false;
    plane = {buffer.get(), 0};
    buffers_.push_back(std::move(buffer));
    const Buffer& made = *buffers_.back();
    check(driver().MemsetD8Async(made.address, 0, made.bytes, stream_.handle), "filling with zeros");
    return true;
  }

 private:
  Device& device_;
  Stream& stream_;
  std::vector<std::unique_ptr<tern_buffer_s>> buffers_;
};

// One run, by the device's own clock.
double seconds_of(const Bound& bound, const HostArgs& typical, Stream& stream) {
  const Driver& api = driver();
  const OwnedEvent begin = make_event(CU_EVENT_DEFAULT);
  const OwnedEvent end = make_event(CU_EVENT_DEFAULT);
  check(api.EventRecord(begin.get(), stream.handle), "measuring");
  run_bound(bound, typical, stream);
  check(api.EventRecord(end.get(), stream.handle), "measuring");
  check(api.EventSynchronize(end.get()), "measuring");
  float milliseconds = 0;
  check(api.EventElapsedTime(&milliseconds, begin.get(), end.get()), "measuring");
  return static_cast<double>(milliseconds) * 1e-3;
}

const KernelEntry& measure(Device& device, const tern_op_desc& desc, std::span<const KernelEntry* const> candidates,
                           const HostArgs& typical) {
  const KernelEntry& first = *candidates.front();
  const OwnedStream queue = make_stream(0);
  Stream stream;
  stream.state = device.state;
  stream.handle = queue.get();
  Zeros zeros(device, stream);
  std::vector<tern_tensor> args(desc.num_args);
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < desc.num_args; ++i) {
    args[i].desc = desc.args[i];
    if (desc.args[i].rank == 0) continue;
    for (int p = 0; p < TERN_MAX_PLANES; ++p) {
      const std::uint64_t bytes = plane_bytes(desc.args[i], p);
      total += bytes;
      if (total > kMostBytes || (bytes > 0 && !zeros.make(bytes, args[i].planes[p]))) return first;
    }
  }
  std::vector<Bound> bounds;
  for (const KernelEntry* kernel : candidates) {
    auto plan = make_plan(device, desc, *kernel);
    tern_plane workspace{};
    const std::uint64_t bytes = plan->workspace_bytes;
    if (total + bytes > kMostBytes || (bytes > 0 && !zeros.make(bytes, workspace))) return first;
    bounds.push_back({std::move(plan), args, workspace, {}});
  }
  for (const Bound& bound : bounds) (void)seconds_of(bound, typical, stream);  // a first launch loads code
  if (seconds_of(bounds.front(), typical, stream) > kLongest) return first;
  std::vector<double> best(bounds.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < bounds.size(); ++i) best[i] = std::min(best[i], seconds_of(bounds[i], typical, stream));
  }
  std::size_t winner = 0;
  std::string line = cat(tern_plugin_op_name(desc.op), ":");
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (best[i] < kWin * best[winner]) winner = i;
    line += cat(i == 0 ? " " : ", ", candidates[i]->name, " ", static_cast<std::int64_t>(best[i] * 1e6), " us");
  }
  if (host().log != nullptr) {
    host().log(TERN_LOG_DEBUG, cat(line, "; taken: ", candidates[winner]->name).c_str());
  }
  return *candidates[winner];
}

}  // namespace

const KernelEntry& fastest(Device& device, const tern_op_desc& desc, std::span<const KernelEntry* const> candidates,
                           std::span<const std::int64_t, TERN_MAX_COUNTS> typical_counts) {
  if (candidates.size() == 1 || !device.state || has_lengths(desc)) return *candidates.front();
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
  } catch (const std::exception& error) {  // no memory to try in: no reason not to plan
    if (host().log != nullptr) {
      host().log(TERN_LOG_DEBUG, cat(tern_plugin_op_name(desc.op), ": not measured: ", error.what()).c_str());
    }
  }
  known.emplace(key, taken);
  return *taken;
}

}  // namespace tern::cuda
