// The objects behind the C interface's handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/npu/errors.h"
#include "backends/npu/kernel.h"
#include "backends/npu/loader.h"
#include "tern/accel.h"
#include "tern/plugin.h"

namespace tern::npu {

using tern_plugin::Error;
using tern_plugin::fail;
using tern_plugin::give_info;
using tern_plugin::guarded;
using tern_plugin::HostArgs;
using tern_plugin::put_text;
using tern_plugin::require;

inline constexpr std::uint64_t kAlignment = 64;
inline constexpr std::uint64_t kBehind = 64;  // beyond the end of an allocation, which kernels may read

// What tern_backend_entry was given.
struct Host {
  void (*log)(std::int32_t level, const char* line) = nullptr;
};
[[nodiscard]] Host& host();

// A chip of this process, shared by all handles that are open on it.
struct Shared {
  std::int32_t ordinal = 0;
  const Chip* chip = nullptr;
  tern_plugin_memory memory{};
  bool has_invariant_kernels = false;         // the option 3 of ACL_OPT_DETERMINISTIC
  std::atomic<std::uint64_t> comm_bytes = 0;  // of `memory`, what communicators take
  std::mutex first_phase;                     // guards the context's option below, which the first phase reads
  std::int64_t determinism = 0;
  std::mutex mutex;  // guards what follows
  std::map<std::string, void*, std::less<>> constants;
  std::map<void*, std::uint64_t> host_blocks;  // from host_alloc

  // Sets the calling thread's device.
  void use() const { check(acl().aclrtSetDevice(ordinal), "aclrtSetDevice"); }
  // Device memory that this process counts as its own; throws where there's none left.
  [[nodiscard]] void* allocate(std::uint64_t bytes);
  void free(void* address, std::uint64_t bytes);
  // Whether these host bytes lie in page-locked memory of ours.
  [[nodiscard]] bool is_pinned(const void* pointer, std::uint64_t bytes);
};
[[nodiscard]] std::uint64_t taken_bytes(std::uint64_t bytes);  // by an allocation of so many

struct Device {
  const Chip* chip = nullptr;
  std::shared_ptr<Shared> shared;  // null: a description alone
  [[nodiscard]] bool described() const { return shared == nullptr; }
};
// Throws where there is no device, or a description alone; then sets it for the calling thread.
Shared& present(const Device* device);
// Fills what a chip is known for; `driver` is the version that keys remembered choices.
void describe_chip(tern_device_info& info, const Chip& chip, bool captures, const std::string& driver);
[[nodiscard]] bool can_capture(const Chip& chip);

struct Buffer {
  std::shared_ptr<Shared> shared;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  bool adopted = false;
  std::uint64_t reserved = 0;            // of a reclaimable buffer: bytes of its address; else 0
  aclrtDrvMemHandle physical = nullptr;  // its memory; null: evicted
};
// evict.cpp: reclaimable buffers.
[[nodiscard]] bool can_evict(const Chip& chip);
void make_reclaimable(Buffer& buffer, std::uint64_t bytes);
void release_reclaimable(Buffer& buffer);
// peer.cpp: a bit for each ordinal whose memory this one reaches.
[[nodiscard]] std::uint64_t peers_of(std::int32_t ordinal);
// The address of `bytes` of a plane; null for none of a null buffer. Throws where it isn't inside of its buffer.
[[nodiscard]] std::byte* plane_address(const tern_plane& plane, std::uint64_t bytes, const char* what);

struct Plan {
  std::shared_ptr<Shared> shared;  // null: planned for a description
  const Chip* chip = nullptr;
  tern_plugin::OpDesc desc;
  const KernelEntry* kernel = nullptr;
  std::uint64_t temp_bytes = 0;     // of the list's own intermediates
  std::uint64_t scratch_bytes = 0;  // of the calls', which share one place
  bool has_dynamic = false;
  bool has_lengths = false;
  [[nodiscard]] bool varies() const { return has_dynamic || has_lengths; }
};

// The calls of one launch with their executors, ready for the second phase.
class Prepared {
 public:
  Prepared(Shared& shared, const Composer& composer, const Places& places, std::uint32_t needs, bool keep);
  ~Prepared();
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  [[nodiscard]] std::uint64_t scratch_bytes() const { return scratch_bytes_; }
  [[nodiscard]] bool repeatable() const { return repeatable_; }
  [[nodiscard]] std::size_t size() const { return steps_.size(); }
  [[nodiscard]] bool same_calls(const Prepared& other) const;
  // The second phase of each call, in order.
  void run(std::byte* workspace, aclrtStream stream);
  std::uint64_t scratch_offset = 0;  // where the calls' scratch begins in the workspace

 private:
  struct Step {
    const char* name = nullptr;
    void* run = nullptr;
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;  // null: the second phase ended it
    bool kept = false;
  };
  void prepare(Shared& shared, const Call& call, const Places& places, bool keep);
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Objects>> objects_;
  std::uint64_t scratch_bytes_ = 0;
  bool repeatable_ = true;
};

struct Bound final : Places {
  std::shared_ptr<const Plan> plan;
  std::vector<std::byte*> planes;  // by place
  std::byte* workspace = nullptr;
  std::vector<void*> constants;  // of the list that is being prepared
  std::shared_ptr<Prepared> prepared;
  std::vector<std::int64_t> numbers;  // that `prepared` was made with
  [[nodiscard]] std::byte* address(std::int32_t place) const override;
  // The calls with these numbers; what is repeatable is made once.
  [[nodiscard]] std::shared_ptr<Prepared> prepare(const HostArgs& host_args);
};

struct Recording {
  struct Node {
    std::shared_ptr<Bound> bound;
    std::shared_ptr<Prepared> prepared;
    aclrtTaskGrp group = nullptr;
  };
  std::vector<Node> nodes;
  bool ended = false;
};

struct Capture {
  std::shared_ptr<Shared> shared;
  std::shared_ptr<Recording> recording;
  aclmdlRI graph = nullptr;
};

struct Stream {
  std::shared_ptr<Shared> shared;
  aclrtStream handle = nullptr;
  bool adopted = false;
  bool origin = false;  // capture_begin was called on this stream
  std::shared_ptr<Recording> capture;
  tern_status failed = TERN_OK;  // final for the stream
  std::string failure;
  [[nodiscard]] Recording* recording() {
    if (capture && capture->ended) capture.reset();
    return capture.get();
  }
};
// Sets the stream's device; throws where the stream has failed.
const Acl& use(Stream* stream, const char* what);
// As check, and remembers a failure that is final for the stream.
void check_stream(Stream& stream, int code, const char* what);

struct Event {
  std::shared_ptr<Shared> shared;
  aclrtEvent handle = nullptr;
  bool adopted = false;
  bool lent = false;  // its handle went out, so others may set marks
  bool timing = false;
  bool recorded = false;
  std::weak_ptr<Recording> capture;  // of the stream that recorded it last, if that was being captured
  bool captured = false;
  Stream* stream = nullptr;
};

}  // namespace tern::npu

struct tern_device_s : tern::npu::Device {};
struct tern_buffer_s : tern::npu::Buffer {};
struct tern_plan_s {
  std::shared_ptr<tern::npu::Plan> plan;
};
struct tern_bound_s {
  std::shared_ptr<tern::npu::Bound> bound;
};
struct tern_capture_s : tern::npu::Capture {};
struct tern_stream_s : tern::npu::Stream {};
struct tern_event_s : tern::npu::Event {};
