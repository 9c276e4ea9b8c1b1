#include "conformance/capabilities.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>

#include "base/strings.h"
#include "conformance/runtime_checks.h"

namespace tern::conformance {
namespace {

using accel::Buffer;

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) & 0xff);
  return out;
}

std::string expect_unsupported(tern_status status, const char* call) {
  return status == TERN_UNSUPPORTED ? std::string()
                                    : cat(call, ": expected unsupported, found ", accel::status_name(status));
}

Bytes fetch(const Bench& bench, tern_plane plane, std::size_t size) {
  Bytes out(size);
  bench.device->copy_to_host(out, plane, bench.stream);
  bench.stream.synchronize();
  return out;
}

std::string check_copies(Bench& bench) {
  const std::uint64_t unit = std::max<std::uint64_t>(1, bench.device->info().alignment);
  const Bytes data = pattern(4099, 3);
  const Buffer a = bench.device->allocate(3 * 4096 + 4 * unit, "copies");
  const Buffer b = bench.device->allocate(3 * 4096 + 4 * unit, "copies");
  bench.device->fill(a.plane(), 0x11, a.bytes(), bench.stream);
  bench.device->copy_to_device(a.plane(unit), data, bench.stream);
  bench.device->copy(b.plane(2 * unit), a.plane(unit), data.size(), bench.stream);
  bench.device->fill(a.plane(unit), 0x22, 5, bench.stream);
  if (fetch(bench, b.plane(2 * unit), data.size()) != data) return "copies through the device changed bytes";
  const Bytes head = fetch(bench, a.plane(), unit + 6);
  const bool filled = std::all_of(head.begin() + static_cast<std::ptrdiff_t>(unit),
                                  head.begin() + static_cast<std::ptrdiff_t>(unit) + 5,
                                  [](std::byte byte) { return byte == std::byte{0x22}; });
  if (!filled || head[unit + 5] != data[5] || (unit > 0 && head[unit - 1] != std::byte{0x11})) {
    return "fill wrote other bytes than it should";
  }
  return {};
}

std::string check_events(Bench& bench) {
  const accel::Event start = bench.device->make_event(true);
  const accel::Event end = bench.device->make_event(true);
  bench.stream.record(start);
  const Buffer buffer = bench.device->allocate(1 << 20, "events");
  bench.device->fill(buffer.plane(), 1, buffer.bytes(), bench.stream);
  bench.stream.record(end);
  end.synchronize();
  if (!end.finished() || !start.finished()) return "an event is not ready after it was waited for";
  return end.elapsed_since(start) >= 0.0F ? "" : "the time between two events is negative";
}

std::string check_memory(Bench& bench) {
  const tern_memory_info before = bench.device->memory();
  if (before.total == 0) return "memory_info tells no total";
  {
    const Buffer buffer = bench.device->allocate(1 << 20, "memory");
    const tern_memory_info during = bench.device->memory();
    if (during.in_use_by_process < before.in_use_by_process + (1 << 20)) return "an allocation is not counted in use";
    if (during.peak_by_process < during.in_use_by_process) return "the peak is below what is in use";
  }
  tern_buffer raw = nullptr;
  const std::uint64_t impossible = std::uint64_t{1} << 62;
  const tern_status status = bench.device->api().buffer_create(bench.device->raw(), impossible, 0, &raw);
  if (status != TERN_OUT_OF_MEMORY) {
    return cat("allocating 2^62 bytes: expected out of memory, found ", accel::status_name(status));
  }
  return bench.device->backend().last_error().empty() ? "out of memory without a word in last_error" : "";
}

// Copies and a fill on two streams that events join: nothing runs until the launch, and each launch runs all of it.
std::string capture_two_streams(Bench& bench) {
  const tern_backend& api = bench.device->api();
  const accel::Backend& backend = bench.device->backend();
  const Bytes data[2] = {pattern(4096, 3), pattern(4096, 4)};
  const Bytes poison(4096, std::byte{0x5a});
  const Buffer from = bench.device->allocate(4096, "capture");
  const Buffer between = bench.device->allocate(4096, "capture");
  const Buffer to = bench.device->allocate(4096, "capture");
  const accel::Event forked = bench.device->make_event();
  const accel::Event joined = bench.device->make_event();
  bench.device->copy_to_device(to.plane(), poison, bench.stream);
  bench.stream.synchronize();
  accel::check(api.capture_begin(bench.stream.raw()), backend, "beginning a capture");
  accel::check(api.copy_on_device(between.plane(), from.plane(), 4096, bench.stream.raw()), backend, "copying");
  bench.stream.record(forked);
  bench.other.wait(forked);
  accel::check(api.copy_on_device(to.plane(), between.plane(), 4096, bench.other.raw()), backend, "copying");
  bench.device->fill(to.plane(), 7, 16, bench.other);
  bench.other.record(joined);
  bench.stream.wait(joined);
  tern_capture raw = nullptr;
  accel::check(api.capture_end(bench.stream.raw(), &raw), backend, "ending a capture");
  const accel::Capture capture(bench.device, raw);
  Bytes found(4096);
  const auto fetch = [&] {
    bench.device->copy_to_host(found, to.plane(), bench.stream);
    bench.stream.synchronize();
  };
  fetch();
  if (found != poison) return "work ran while it was being captured";
  for (const Bytes& each : data) {
    bench.device->copy_to_device(from.plane(), each, bench.stream);
    accel::check(api.capture_launch(capture.raw(), bench.stream.raw()), backend, "launching a captured graph");
    fetch();
    Bytes expected = each;
    std::fill_n(expected.begin(), 16, std::byte{7});
    if (found != expected) return "a capture of copies on two streams left other bytes than they would";
  }
  return {};
}

std::string check_capture_flag(Bench& bench, bool set) {
  const tern_backend& api = bench.device->api();
  if (set) return capture_two_streams(bench);  // check_capture tries it with every op
  if (!bench.device->backend().has(&tern_backend::capture_begin)) return {};
  return expect_unsupported(api.capture_begin(bench.stream.raw()), "capture_begin");
}

std::string check_peer(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::copy_peer)) return set ? "copy_peer is absent" : "";
  const Bytes data = pattern(1000, 9);
  const Buffer here = bench.device->allocate(data.size(), "peer");
  bench.device->copy_to_device(here.plane(), data, bench.stream);
  bench.stream.synchronize();  // the buffer goes before the stream does
  if (!set) {
    return expect_unsupported(bench.device->api().copy_peer(here.plane(), here.plane(), 1, bench.stream.raw()),
                              "copy_peer");
  }
  if (bench.device->info().peer_mask == 0) return "no peer in peer_mask";
  for (int ordinal = 0; ordinal < 64; ++ordinal) {
    if ((bench.device->info().peer_mask >> ordinal & 1U) == 0) continue;
    auto self = std::shared_ptr<const accel::Backend>(accel::Backend::wrap(&bench.device->api()));
    const accel::DevicePtr peer = accel::Device::open(self, ordinal).value();
    const accel::Stream stream = peer->make_stream();
    const Buffer there = peer->allocate(data.size(), "peer");
    accel::check(bench.device->api().copy_peer(there.plane(), here.plane(), data.size(), bench.stream.raw()),
                 bench.device->backend(), "copy_peer");
    bench.stream.synchronize();
    Bytes found(data.size());
    peer->copy_to_host(found, there.plane(), stream);
    stream.synchronize();
    if (found != data) return cat("copy_peer to device ", ordinal, " changed bytes");
  }
  return {};
}

std::string check_import(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::import_host)) return set ? "import_host is absent" : "";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  const Bytes data = pattern(2 * page, 5);
  std::memcpy(pages, data.data(), data.size());
  std::string problem;
  tern_buffer raw = nullptr;
  const tern_status status = bench.device->api().import_host(bench.device->raw(), pages, 2 * page, &raw);
  if (!set) {
    problem = expect_unsupported(status, "import_host");
  } else {
    accel::check(status, bench.device->backend(), "import_host");
    const Buffer buffer(bench.device, raw, 2 * page);
    if (fetch(bench, buffer.plane(), data.size()) != data) problem = "imported pages read back otherwise";
  }
  munmap(pages, 2 * page);
  return problem;
}

std::string check_host_pointer(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::buffer_host_pointer))
    return set ? "buffer_host_pointer is absent" : "";
  const Buffer buffer = bench.device->allocate(64, "host pointer");
  void* pointer = nullptr;
  const tern_status status = bench.device->api().buffer_host_pointer(buffer.raw(), &pointer);
  if (!set) return expect_unsupported(status, "buffer_host_pointer");
  accel::check(status, bench.device->backend(), "buffer_host_pointer");
  const Bytes data = pattern(64, 7);
  std::memcpy(pointer, data.data(), data.size());
  return fetch(bench, buffer.plane(), 64) == data ? "" : "what the host wrote is not what the device holds";
}

std::string check_ipc(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::ipc_export)) return set ? "ipc_export is absent" : "";
  const Buffer buffer = bench.device->allocate(64, "ipc");
  std::uint8_t handle[128] = {};
  const tern_status status = bench.device->api().ipc_export(buffer.raw(), handle);
  if (!set) return expect_unsupported(status, "ipc_export");
  accel::check(status, bench.device->backend(), "ipc_export");
  return {};
}

std::string check_collectives(Bench& bench, bool set) {
  const tern_backend& api = bench.device->api();
  if (!bench.device->backend().has(&tern_backend::comm_unique_id)) return set ? "comm_unique_id is absent" : "";
  tern_comm_id id{};
  const tern_status status = api.comm_unique_id(&id);
  if (!set) return expect_unsupported(status, "comm_unique_id");
  const accel::Backend& backend = bench.device->backend();
  accel::check(status, backend, "comm_unique_id");
  tern_comm comm = nullptr;
  accel::check(api.comm_init(bench.device->raw(), &id, 1, 0, nullptr, &comm), backend, "comm_init with one rank");
  const std::vector<float> data = {1.5F, -2.0F, 3.0F};
  const Buffer from = bench.device->allocate(12, "collectives");
  const Buffer to = bench.device->allocate(12, "collectives");
  bench.device->copy_to_device(from.plane(), std::as_bytes(std::span(data)), bench.stream);
  accel::check(api.all_reduce(comm, to.plane(), from.plane(), 3, TERN_F32, TERN_REDUCE_SUM, bench.stream.raw()),
               backend, "all_reduce of one rank");
  const Bytes found = fetch(bench, to.plane(), 12);
  accel::check(api.comm_destroy(comm), backend, "comm_destroy");
  return std::ranges::equal(found, std::as_bytes(std::span(data))) ? "" : "the sum over one rank is not its own data";
}

CaseSource plain_source(std::uint32_t op) { return {op, Variant{}, 0}; }

std::string check_whole_graph(Bench& bench, bool set) {
  const Case c = plain_source(TERN_OP_AXPBY).make(1);
  if (!set) {
    if (!bench.device->backend().has(&tern_backend::compile)) return {};
    tern_graph_desc graph{};
    graph.size = sizeof(graph);
    tern_recipe recipe = nullptr;
    tern_plan_info info{};
    info.size = sizeof(info);
    return expect_unsupported(bench.device->api().compile(bench.device->raw(), &graph, nullptr, &recipe, &info),
                              "compile");
  }
  CaseMemory memory(bench.device, c, 0);
  const Kernel kernel(bench.device, memory.op_desc(), {}, true);
  const auto instance = kernel.bind(memory.tensors(), 0);
  memory.upload(c, bench.stream);
  HostArgs host_args(c);
  instance->launch(host_args.get(), bench.stream, 0xff);
  host_args.unmap();
  const Snapshot snapshot = memory.fetch(bench.stream);
  bench.stream.synchronize();
  return judge(c, run_oracle(c), memory.outputs(snapshot)).problem;
}

std::string check_eager(Bench& bench, bool set) {
  const accel::OpDesc desc = op_desc(plain_source(TERN_OP_AXPBY).make(1));
  if (set) {
    static_cast<void>(Kernel(bench.device, desc, {}));
    return {};
  }
  if (!bench.device->can(TERN_CAP_WHOLE_GRAPH)) return "neither single ops nor whole graphs";
  if (!bench.device->backend().has(&tern_backend::plan)) return {};
  const tern_op_desc c = desc.c_desc();
  tern_plan plan = nullptr;
  tern_plan_info info{};
  info.size = sizeof(info);
  return expect_unsupported(bench.device->api().plan(bench.device->raw(), &c, nullptr, &plan, &info), "plan");
}

std::string check_philox(Bench& bench, bool set) {
  const bool dropout = accel::supports(*bench.device, op_desc(plain_source(TERN_OP_DROPOUT).make(1))).native;
  if (dropout == set) return {};
  return set ? "dropout without a mask is not supported" : "dropout without a mask is said to be supported";
}

// check_capture tries it with every op that has counts or lengths.
std::string check_device_counts(Bench& bench, bool set) {
  if (set && !bench.device->can(TERN_CAP_CAPTURE)) return "set without capture, of which it speaks";
  if (set && bench.device->can(TERN_CAP_HOST_LENGTHS)) return "set beside host_lengths, which says the opposite";
  return {};
}

// A kernel that was told nothing: required arguments missing must be refused, not tried.
std::string check_refusal(Bench& bench) {
  accel::OpDesc desc = op_desc(plain_source(TERN_OP_MATMUL).make(1));
  desc.args[TERN_MATMUL_B].shape[0] += 1;
  const tern_op_desc c = desc.c_desc();
  char reason[256] = "";
  const tern_status status = bench.device->api().supports(bench.device->raw(), &c, {reason, sizeof(reason)});
  return status == TERN_OK ? "supports says yes to a product whose inner sizes differ" : "";
}

}  // namespace

std::vector<CapabilityResult> check_capabilities(Bench& bench) {
  std::vector<CapabilityResult> out;
  auto check = [&](const char* name, bool set, const std::function<std::string()>& body) {
    CapabilityResult result{name, set, {}, {}};
    try {
      result.problem = body();
    } catch (const Failure& failure) {
      result.problem = failure.what();
      renew_streams(bench);
    }
    out.push_back(std::move(result));
  };
  auto flag = [&](const char* name, std::uint32_t bit, std::string (*body)(Bench&, bool)) {
    const bool set = bench.device->can(bit);
    check(name, set, [&] { return body(bench, set); });
  };
  check("copies", true, [&] { return check_copies(bench); });
  check("events", true, [&] { return check_events(bench); });
  check("memory", true, [&] { return check_memory(bench); });
  const auto may_skip = [&](const char* name, std::string (*body)(Bench&, std::string&)) {
    std::string skipped;
    check(name, true, [&] { return body(bench, skipped); });
    out.back().skipped = skipped;
  };
  may_skip("launches", check_launch_returns);
  check("refusal", true, [&] { return check_refusal(bench); });
  flag("capture", TERN_CAP_CAPTURE, check_capture_flag);
  flag("peer_copy", TERN_CAP_PEER_COPY, check_peer);
  flag("import_host", TERN_CAP_IMPORT_HOST, check_import);
  flag("host_pointer", TERN_CAP_HOST_POINTER, check_host_pointer);
  flag("ipc", TERN_CAP_IPC, check_ipc);
  flag("collectives", TERN_CAP_COLLECTIVES, check_collectives);
  flag("whole_graph", TERN_CAP_WHOLE_GRAPH, check_whole_graph);
  if (bench.device->can(TERN_CAP_WHOLE_GRAPH)) may_skip("graphs of several ops", check_graph_chain);
  flag("eager", TERN_CAP_EAGER, check_eager);
  flag("philox", TERN_CAP_PHILOX, check_philox);
  flag("device_counts", TERN_CAP_DEVICE_COUNTS, check_device_counts);
  return out;
}

}  // namespace tern::conformance
