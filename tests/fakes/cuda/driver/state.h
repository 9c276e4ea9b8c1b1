// What the fake's driver keeps. One lock holds it all but what streams' workers do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/driver.h"
#include "tests/fakes/cuda/emulator/kernel.h"

namespace tern::cuda {

struct CUctx_st {
  int device = 0;
  int retained = 0;
  bool active = false;
  std::atomic<CUresult> error{CUDA_SUCCESS};  // sticks, as on a device
  std::set<int> peers;
  std::set<CUstream> streams;
  CUstream default_stream = nullptr;
};

struct CUmod_st {
  CUcontext context;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  const emulated::Kernel* kernel;
  CUcontext context;
  unsigned most_dynamic_bytes = 48U << 10;
};

}  // namespace tern::cuda

namespace tern::cuda::fake {

// What an event stands for once it's recorded.
struct Record {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::int64_t nanoseconds = 0;
  void complete();
  void wait();
  [[nodiscard]] bool is_done();
};

struct Capture;

}  // namespace tern::cuda::fake

namespace tern::cuda {

struct CUevent_st {
  CUcontext context;
  unsigned flags = 0;
  std::shared_ptr<fake::Record> record;
  // Recorded in a capture: it stands for these nodes.
  std::shared_ptr<fake::Capture> capture;
  std::vector<CUgraphNode> nodes;
};

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  std::uint64_t queued = 0, done = 0;
  bool ends = false;
  std::thread worker;
  std::shared_ptr<fake::Capture> capture;
  std::vector<CUgraphNode> nodes;  // what the next captured node depends on
  void push(std::function<void()> command);
  void drain();
  [[nodiscard]] bool idle();
};

struct CUgraphNode_st {
  enum class Kind { kernel, memset, copy, host } kind;
  std::vector<CUgraphNode> after;
  // kernel
  CUfunction function = nullptr;
  emulated::Grid grid{};
  std::vector<std::byte> arguments;  // each at its offset
  CUDA_MEMSET_NODE_PARAMS memset{};
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  void (*host)(void*) = nullptr;
  CUcontext context = nullptr;
};

struct CUgraph_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};

struct CUgraphExec_st {
  CUcontext context = nullptr;
  std::map<CUgraphNode, std::size_t> place;
  std::vector<CUgraphNode> originals;
  // Replaced by what changes a node, so that a launch that is queued keeps what it was launched with.
  std::vector<std::shared_ptr<const CUgraphNode_st>> nodes;
};

}  // namespace tern::cuda

namespace tern::cuda::fake {

struct Capture {
  std::uint64_t id = 0;
  CUstream origin = nullptr;
  int mode = 0;
  std::thread::id thread;
  bool valid = true;
  std::unique_ptr<CUgraph_st> graph;
  std::set<CUstream> streams;
};

struct Allocation {
  enum class Kind { device, mapped, reserved } kind;
  std::size_t bytes;
  int device = 0;
  // device: the pages
  std::uintptr_t pages = 0;
  std::size_t page_bytes = 0;
  std::uint64_t handle = 0;  // mapped
  bool accessible = true;
};

struct Physical {
  int file = -1;
  std::size_t bytes = 0;
  int device = 0;
  int references = 1;
};

struct HostRange {
  std::size_t bytes;
  bool registered;
};

struct State {
  std::recursive_mutex mutex;
  bool initialised = false;
  int devices = 1;
  int capability = 90;
  std::uint64_t memory = 0;                         // of each device
  std::vector<std::uint64_t> used;                  // by device
  std::vector<std::unique_ptr<CUctx_st>> contexts;  // primary, by device
  std::map<CUdeviceptr, Allocation> allocations;
  std::map<CUdeviceptr, std::size_t> reservations;
  std::map<std::uint64_t, Physical> physical;
  std::map<std::uintptr_t, HostRange> host;
  std::uintptr_t region = 0, region_next = 0, region_end = 0;
  std::uint64_t next_id = 1;
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> execs;
  std::set<std::shared_ptr<Capture>> captures;
};

// Never destroyed: workers outlive the end of main.
[[nodiscard]] State& state();
using Lock = std::lock_guard<std::recursive_mutex>;

[[nodiscard]] CUcontext& current();
// The error of a call that needs a current context, 0 where it may go on.
[[nodiscard]] CUresult check_context();
// A stream of the current context; null: its default stream. Null where it isn't one.
[[nodiscard]] CUstream find_stream(CUstream stream);
// Whether a copy or kernel may touch these bytes.
[[nodiscard]] bool is_device_range(CUdeviceptr address, std::size_t bytes);
[[nodiscard]] bool is_pinned(const void* pointer, std::size_t bytes);
// Waits for all that the context was given.
void drain_context(CUcontext context);

// Captures: ends a valid one's validity, and gives what the call returns.
CUresult invalidate(Capture& capture, CUresult error);
// The error of a call that captures don't allow while any goes on in this thread's sight (not in relaxed mode).
[[nodiscard]] CUresult check_unsafe();
// Adds a node to the capture of the stream, and makes it what the next depends on.
CUresult add_node(CUstream stream, std::shared_ptr<CUgraphNode_st> node);
void run_node(const CUgraphNode_st& node);

}  // namespace tern::cuda::fake
