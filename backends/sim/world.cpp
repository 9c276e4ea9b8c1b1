#include "backends/sim/world.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::sim {
namespace {

constexpr std::size_t kZone = 64;
constexpr std::byte kZoneByte{0xed};

// What cannot be told to the stream's owner now is told at its next synchronisation.
void fail_stream(Stream& stream, tern_status status, std::string text) {
  if (stream.status != TERN_OK) return;
  stream.status = status;
  stream.error = std::move(text);
}

void (*host_log)(std::int32_t level, const char* line) = nullptr;

}  // namespace

void set_log(void (*log)(std::int32_t level, const char* line)) { host_log = log; }

void log(std::int32_t level, const std::string& line) {
  if (host_log != nullptr) host_log(level, line.c_str());
}

std::string Device::name() const { return cat("sim:", ordinal); }

void Device::take(std::uint64_t bytes) {
  in_use += bytes;
  peak = std::max(peak, in_use);
}

bool Device::struck(Fault::Kind kind, std::uint64_t count) const {
  return std::any_of(config.faults.begin(), config.faults.end(), [&](const Fault& fault) {
    return fault.kind == kind && fault.at == count && (fault.ordinal < 0 || fault.ordinal == ordinal);
  });
}

std::span<std::byte> Buffer::content() {
  if (imported != nullptr) return {imported, bytes};
  return std::span(memory).subspan(kZone, bytes);
}

bool Buffer::zones_intact() const {
  const auto is_zone = [](std::byte byte) { return byte == kZoneByte; };
  return memory.empty() || (std::all_of(memory.begin(), memory.begin() + kZone, is_zone) &&
                            std::all_of(memory.end() - kZone, memory.end(), is_zone));
}

std::vector<std::byte> make_zoned(std::uint64_t bytes, std::byte poison) {
  std::vector<std::byte> memory(bytes + 2 * kZone, poison);
  std::fill_n(memory.begin(), kZone, kZoneByte);
  std::fill_n(memory.end() - kZone, kZone, kZoneByte);
  return memory;
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
    const bool ready = stream->status != TERN_OK || stream->device->lost || !front.ready || front.ready();
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
  if (stream.status == TERN_OK && !device.lost) {
    try {
      if (work.fault == Fault::Kind::lost) {
        device.lost = true;
        fail(TERN_DEVICE_LOST, cat(device.name(), ": the device was lost while it ran ", work.what));
      }
      if (work.fault == Fault::Kind::async) fail(TERN_ASYNC_ERROR, cat(work.what, ": the device reported a fault"));
      if (work.run) work.run(work.args);
    } catch (const SimError& error) {
      fail_stream(stream, device.lost ? TERN_DEVICE_LOST : TERN_ASYNC_ERROR, cat(work.what, ": ", error.what()));
    } catch (const std::exception& error) {
      fail_stream(stream, TERN_ASYNC_ERROR, cat(work.what, ": ", error.what()));
    }
  }
  if (work.ticket) {
    work.ticket->done = true;
    work.ticket->failed = stream.status != TERN_OK || device.lost;
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
      std::string waiting;
      for (const auto& stream : queues) {
        if (!stream->queue.empty()) waiting += cat(waiting.empty() ? "" : ", ", stream->queue.front().what);
      }
      fail(TERN_TIMEOUT, cat("nothing can go on: ", waiting.empty() ? "no work is queued" : waiting, " waits"));
    }
  }
}

std::span<std::byte> World::plane(const tern_plane& plane, std::uint64_t bytes, const std::string& what) const {
  if (plane.buffer == nullptr) {
    if (bytes == 0) return {};
    fail(TERN_INVALID_ARGUMENT, cat(what, ": expected a buffer, found none"));
  }
  if (!buffers.contains(plane.buffer)) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": its buffer was destroyed, or is none of this device"));
  }
  const auto content = buffers.at(plane.buffer)->content();
  if (plane.offset > content.size() || bytes > content.size() - plane.offset) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": expected a range inside its buffer of ", content.size(), " bytes, found ",
                                    bytes, " bytes at ", plane.offset));
  }
  return content.subspan(plane.offset, bytes);
}

void require_alive(const Device& device) {
  if (device.lost) fail(TERN_DEVICE_LOST, cat(device.name(), ": the device was lost"));
}

void submit(Stream& stream, Work work, std::uint64_t* node) {
  Device& device = *stream.device;
  require_alive(device);
  if (stream.status != TERN_OK) fail(stream.status, stream.error);
  if (Recording* recording = stream.open_recording()) {
    if (node != nullptr) *node = recording->nodes.size();
    recording->nodes.push_back(std::move(work));
    return;
  }
  if (work.is_launch) {
    ++device.launches;
    if (device.struck(Fault::Kind::async, device.launches)) work.fault = Fault::Kind::async;
    if (device.struck(Fault::Kind::lost, device.launches)) work.fault = Fault::Kind::lost;
  }
  World& w = world();
  stream.queue.push_back(std::move(work));
  w.changed.notify_all();
  while (w.early > 0.0 && static_cast<double>(w.random() >> 11) * 0x1p-53 < w.early && w.step()) {
  }
}

}  // namespace tern::sim
