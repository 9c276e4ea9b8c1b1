#include "backends/sim/world.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/strings.h"

namespace tern::sim {
namespace {

// What cannot be told to the stream's owner now is told at its next synchronisation.
void fail_stream(Stream& stream, tern_status status, std::string text) {
  if (stream.status != TERN_OK) return;
  stream.status = status;
  stream.error = std::move(text);
}

bool is_sound(const Device& device) { return !device.lost && device.hung.empty(); }

// Its device answers no more once somebody has waited for it in vain.
void hang(const Stream& stream, Work& work) {
  work.ready = [] { return false; };
  work.expire = [device = stream.device, what = work.what](std::chrono::milliseconds waited) {
    device->hung = cat(what, " hasn't ended after ", waited.count(), " ms: the device hangs");
  };
}

void (*host_log)(std::int32_t level, const char* line) = nullptr;

}  // namespace

void set_log(void (*log)(std::int32_t level, const char* line)) { host_log = log; }

void log(std::int32_t level, const std::string& line) {
  if (host_log != nullptr) host_log(level, line.c_str());
}

std::string Device::name() const {
  return info.described != 0 ? cat("sim:", personality_name(config.personality)) : cat("sim:", ordinal);
}

std::uint64_t Device::in_use() const { return std::accumulate(held.begin(), held.end(), std::uint64_t{0}); }

void Device::take(Use use, std::uint64_t bytes) {
  if (info.described != 0) return;
  held.at(static_cast<std::size_t>(use)) += bytes;
  peak = std::max(peak, in_use());
}

void Device::give(Use use, std::uint64_t bytes) {
  if (info.described == 0) held.at(static_cast<std::size_t>(use)) -= bytes;
}

bool Opened::struck(Fault::Kind kind, std::uint64_t count) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return fault.kind == kind && fault.at == count && (fault.ordinal < 0 || fault.ordinal == device->ordinal);
  });
}

std::uint64_t Opened::left() const {
  const std::uint64_t of_device = device->info.memory_bytes - std::min(device->in_use(), device->info.memory_bytes);
  return std::min(of_device, limit - std::min(taken, limit));
}

std::size_t Recording::lane_of(const Stream& stream) {
  const auto known = std::find(members.begin(), members.end(), &stream);
  if (known == members.end()) members.push_back(&stream);
  return static_cast<std::size_t>(std::find(members.begin(), members.end(), &stream) - members.begin());
}

std::optional<std::size_t> Recording::unjoined() const {
  // How many nodes of each member are over when a member's last node is.
  std::vector<std::vector<std::size_t>> clocks(members.size(), std::vector<std::size_t>(members.size(), 0));
  std::vector<std::vector<std::size_t>> at(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    std::vector<std::size_t>& clock = clocks[nodes[n].lane];
    ++clock[nodes[n].lane];
    if (nodes[n].waits) {
      for (std::size_t l = 0; l < clock.size(); ++l) clock[l] = std::max(clock[l], at[*nodes[n].waits][l]);
    }
    at[n] = clock;
  }
  for (std::size_t l = 1; l < members.size(); ++l) {
    // An event recorded last changes nothing, so nobody need wait for it.
    if (clocks[0][l] < clocks[l][l] && !only_events_after(l, clocks[0][l])) return l;
  }
  return std::nullopt;
}

bool Recording::only_events_after(std::size_t lane, std::size_t count) const {
  std::size_t seen = 0;
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](const Node& node) { return node.lane != lane || ++seen <= count || node.is_event; });
}

Recording* Stream::open_recording() {
  if (recording && recording->ended) recording.reset();
  return recording.get();
}

World& world() {
  // Never destroyed: handles may be given back while the process exits.
  static World* const instance = std::make_unique<World>().release();
  return *instance;
}

const std::shared_ptr<Opened>& World::present(tern_device handle) const {
  const auto& found = opened.at(handle);
  require_present(*found->device);
  return found;
}

void World::seed(std::uint64_t seed) {
  random.seed(seed);
  // From streams that alternate at every step to one that runs as far as it can before another begins; the second
  // kind finds an order that breaks with few steps (Burckhardt et al., "A Randomized Scheduler with Probabilistic
  // Guarantees of Finding Bugs", 2010).
  constexpr double kRedraw[] = {0.5, 0.125, 0.03125, 0.0};
  redraw = kRedraw[random() % 4];
  early = random() % 2 == 0 ? 0.0 : 0.5;
}

bool World::step() {
  const auto chance = [&](double p) { return static_cast<double>(random() >> 11) * 0x1p-53 < p; };
  if (chance(redraw)) {
    for (const auto& stream : queues) stream->priority = random();
  }
  Stream* chosen = nullptr;
  for (const auto& stream : queues) {
    if (stream->queue.empty()) continue;
    const Work& front = stream->queue.front();
    const bool is_over = stream->status != TERN_OK || !is_sound(*stream->device);
    const bool ready = is_over || !front.ready || front.ready();
    if (ready && (chosen == nullptr || stream->priority > chosen->priority)) chosen = stream.get();
  }
  if (chosen == nullptr) return false;
  run_front(*chosen);
  changed.notify_all();
  return true;
}

void World::run_front(Stream& stream) {
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  Device& device = *stream.device;
  if (stream.status == TERN_OK && is_sound(device)) {
    try {
      if (work.fault == Fault::Kind::lost) {
        device.lost = true;
        fail(TERN_DEVICE_LOST, cat(device.name(), ": the device was lost while it ran ", work.what));
      }
      if (work.fault == Fault::Kind::async) fail(TERN_ASYNC_ERROR, cat(work.what, ": the device reported a fault"));
      if (work.record) work.record->begin_ns = tern_plugin::monotonic_now();
      if (work.run) work.run(work.args);
      if (work.record) {
        work.record->end_ns = tern_plugin::monotonic_now();
        device.recording.add(*work.record);
      }
    } catch (const SimError& error) {
      fail_stream(stream, device.lost ? TERN_DEVICE_LOST : TERN_ASYNC_ERROR, cat(work.what, ": ", error.what()));
    } catch (const std::exception& error) {
      fail_stream(stream, TERN_ASYNC_ERROR, cat(work.what, ": ", error.what()));
    }
  }
  if (work.ticket) {
    work.ticket->done = true;
    work.ticket->failed = stream.status != TERN_OK || !is_sound(device);
    work.ticket->time = std::chrono::steady_clock::now();
  }
}

void World::drive(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout,
                  const std::function<bool()>& done) {
  auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (step()) {
      deadline = std::chrono::steady_clock::now() + timeout;
      continue;
    }
    if (changed.wait_until(lock, deadline) == std::cv_status::timeout && !done()) {
      if (expire_hanging(timeout, {})) continue;
      std::string waiting;
      for (const auto& stream : queues) {
        if (!stream->queue.empty()) waiting += cat(waiting.empty() ? "" : ", ", stream->queue.front().what);
      }
      fail(TERN_TIMEOUT, cat("nothing can go on: ", waiting.empty() ? "no work is queued" : waiting, " waits"));
    }
  }
}

bool World::expire_hanging(std::chrono::milliseconds waited, std::chrono::milliseconds age) {
  bool found = false;
  for (const auto& stream : queues) {
    if (stream->queue.empty() || !stream->queue.front().expire) continue;
    if (std::chrono::steady_clock::now() - stream->queue.front().queued < age) continue;
    std::exchange(stream->queue.front().expire, nullptr)(waited);
    found = true;
  }
  return found;
}

std::span<std::byte> World::plane(const tern_plane& plane, std::uint64_t bytes, const std::string& what) const {
  if (plane.buffer == nullptr) {
    if (bytes == 0) return {};
    fail(TERN_INVALID_ARGUMENT, cat(what, ": expected a buffer, found none"));
  }
  if (!buffers.contains(plane.buffer)) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": its buffer was destroyed, or is none of this device"));
  }
  Buffer& buffer = *buffers.at(plane.buffer);
  if (const std::string trouble = buffer.trouble(); !trouble.empty()) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": ", trouble));
  }
  const auto content = buffer.content();
  if (plane.offset > content.size() || bytes > content.size() - plane.offset) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": expected a range inside its buffer of ", content.size(), " bytes, found ",
                                    bytes, " bytes at ", plane.offset));
  }
  return content.subspan(plane.offset, bytes);
}

void require_alive(const Device& device) {
  if (device.lost) fail(TERN_DEVICE_LOST, cat(device.name(), ": the device was lost"));
  if (!device.hung.empty()) fail(TERN_TIMEOUT, cat(device.name(), ": ", device.hung));
}

void require_present(const Device& device) {
  if (device.info.described == 0) return;
  fail(TERN_UNSUPPORTED, cat(device.name(), " is a description alone: there is no device to run on"));
}

void submit(Stream& stream, Work work, std::uint64_t* node) {
  Device& device = *stream.device;
  require_alive(device);
  require(!stream.gone, "the adopted stream was destroyed by its maker");
  if (stream.status != TERN_OK) fail(stream.status, stream.error);
  if (Recording* recording = stream.open_recording()) {
    if (node != nullptr) *node = recording->nodes.size();
    recording->nodes.push_back({std::move(work), recording->lane_of(stream)});
    return;
  }
  if (work.is_launch) {
    Opened& opened = *stream.opened;
    const std::uint64_t launches = ++opened.counted.launches;
    if (opened.struck(Fault::Kind::async, launches)) work.fault = Fault::Kind::async;
    if (opened.struck(Fault::Kind::lost, launches)) work.fault = Fault::Kind::lost;
    if (opened.struck(Fault::Kind::hang, launches)) hang(stream, work);
    work.kind = TERN_PROFILE_KERNEL;
  }
  if (work.kind && device.recording.is_on()) {
    const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(stream.own));
    work.record = tern_plugin::make_record(*work.kind, work.what, work.bytes, id);
  }
  if (work.expire) work.queued = std::chrono::steady_clock::now();
  World& w = world();
  stream.queue.push_back(std::move(work));
  w.changed.notify_all();
  while (w.early > 0.0 && static_cast<double>(w.random() >> 11) * 0x1p-53 < w.early && w.step()) {
  }
}

}  // namespace tern::sim
