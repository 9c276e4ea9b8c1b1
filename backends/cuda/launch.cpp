// What kernels are given at launch: arguments and queueing; and, of a launch that is being captured, what it queued.
#include <algorithm>
#include <cstring>

#include "backends/cuda/error.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr int kOverlapping = 90;  // compute capability since which a launch may begin before the one before it is over
constexpr std::int64_t kMostBlocks[3] = {2'147'483'647, 65'535, 65'535};

// The node that was captured last on a stream; null where the driver doesn't tell: the launch can't be updated then.
CUgraphNode last_node(const Stream& stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  const CUresult code = driver().StreamGetCaptureInfo(stream.handle, &status, &id, &graph, &nodes, &count);
  return code == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1 ? nodes[0] : nullptr;
}

CUresult queue(const Function& function, const Step& step, CUstream stream, void** params) {
  const auto& [x, y, z] = step.blocks;
  const auto& [tx, ty, tz] = step.threads;
  if (step.overlapped) {
    CUlaunchAttribute overlap{};
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config{x, y, z, tx, ty, tz, static_cast<unsigned>(step.shared), stream, &overlap, 1};
    return driver().LaunchKernelEx(&config, function.handle, params, nullptr);
  }
  return driver().LaunchKernel(function.handle, x, y, z, tx, ty, tz, static_cast<unsigned>(step.shared), stream, params,
                               nullptr);
}

// Writes a launch down, and queues it unless the stream is dry. One of no blocks keeps its place.
void record(Stream& stream, Step step) {
  if (!stream.dry) {
    const Function& nothing = stream.state->modules.get("nothing");
    Step first;
    first.blocks = first.threads = {1, 1, 1};
    std::vector<void*> params;
    for (const std::size_t begin : step.begins) params.push_back(step.data.data() + begin);
    const CUresult code = step.empty ? queue(nothing, first, stream.handle, nullptr)
                                     : queue(*step.function, step, stream.handle, params.data());
    check_stream(stream, code, step.function->name);
    step.node = last_node(stream);
  }
  stream.steps->push_back(std::move(step));
}

}  // namespace

bool Step::same_place(const Step& other) const {
  return function == other.function && (function != nullptr || data == other.data);
}

bool Step::operator==(const Step& other) const {
  return function == other.function && blocks == other.blocks && threads == other.threads && shared == other.shared &&
         empty == other.empty && data == other.data;
}

Call& Call::bytes(const void* value, std::size_t size, std::size_t alignment) {
  used_ = (used_ + alignment - 1) / alignment * alignment;
  if (used_ + size > kMostBytes || count_ == kMostArgs) {
    throw Error(TERN_INTERNAL, cat(function_.name, ": more arguments than a launch may have"));
  }
  std::memset(data_.data() + used_, 0, size);
  std::memcpy(data_.data() + used_, value, size);
  begins_[count_++] = used_;
  used_ += size;
  return *this;
}

void Call::run(Dim3 blocks, Dim3 threads) {
  Step step;
  step.empty = std::any_of(blocks.begin(), blocks.end(), [](std::int64_t n) { return n <= 0; });
  if (step.empty && stream_.steps == nullptr) return;
  for (std::size_t d = 0; d < 3; ++d) {
    if (blocks[d] > kMostBlocks[d]) {
      throw Error(TERN_INTERNAL, cat(function_.name, ": ", blocks[d], " blocks are more than a launch may have"));
    }
    step.blocks[d] = static_cast<unsigned>(step.empty ? 1 : blocks[d]);
    step.threads[d] = static_cast<unsigned>(threads[d]);
  }
  step.shared = shared_;
  step.overlapped = overlapped_ && !step.empty && stream_.state->facts.capability() >= kOverlapping;
  function_.allow_shared(shared_);
  if (stream_.steps != nullptr) {
    step.function = &function_;
    step.data.assign(data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(used_));
    step.begins.assign(begins_.begin(), begins_.begin() + static_cast<std::ptrdiff_t>(count_));
    record(stream_, std::move(step));
    return;
  }
  void* params[kMostArgs];
  for (std::size_t i = 0; i < count_; ++i) params[i] = data_.data() + begins_[i];
  submit(stream_, TERN_PROFILE_KERNEL, function_.name, 0,
         [&] { return queue(function_, step, stream_.handle, params); });
}

const tern_op_desc& Launch::planned() const { return *bound_.plan->desc; }
const Facts& Launch::device() const { return *bound_.plan->device->facts; }
int Launch::variant() const { return bound_.plan->kernel->variant; }
const void* Launch::attrs() const { return planned().attrs; }

Place Launch::workspace(std::uint64_t offset) const {
  tern_plane plane = bound_.workspace;
  plane.offset += offset;
  return find_place(plane, 0, "workspace");
}

Call Launch::call(std::size_t i) const { return {*bound_.plan->functions[i], stream_}; }

// A kernel, as what is captured can be given another number of bytes then, none as well.
void Launch::fill(Place place, std::uint8_t byte, std::uint64_t bytes) const {
  constexpr std::int64_t kBytesEach = 64, kThreads = 256, kMost = 1024;  // blocks: enough to fill any device
  const auto count = static_cast<std::int64_t>(bytes);
  const std::int64_t blocks = (count + kBytesEach * kThreads - 1) / (kBytesEach * kThreads);
  Call(stream_.state->modules.get("set_bytes"), stream_)
      .arg(place)
      .arg(count)
      .arg(std::int32_t{byte})
      .run({std::min(blocks, kMost), 1, 1}, {kThreads, 1, 1});
}

void Launch::library(const char* name, std::span<const std::byte> identity,
                     const std::function<void(CUstream_st*)>& queue_it) const {
  const auto queue_now = [&] {
    queue_it(stream_.handle);
    return CUDA_SUCCESS;
  };
  if (!stream_.dry) submit(stream_, TERN_PROFILE_KERNEL, name, 0, queue_now);
  if (stream_.steps == nullptr) return;
  Step step;
  step.data.assign(identity.begin(), identity.end());
  stream_.steps->push_back(std::move(step));
}

}  // namespace tern::cuda
