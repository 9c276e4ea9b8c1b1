#include <algorithm>
#include <vector>

#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"

namespace tern::cuda {
namespace {

constexpr std::uint64_t kRenewAfter = 1'000'000'000;  // nanoseconds: a float of milliseconds tells 60 of them then

float milliseconds(CUevent from, CUevent to) {
  float elapsed = 0;
  check(driver().EventElapsedTime(&elapsed, from, to), "asking for the time of work");
  return elapsed;
}

std::uint64_t after(std::uint64_t begin, float elapsed) {
  const auto nanoseconds = static_cast<std::int64_t>(static_cast<double>(elapsed) * 1e6);
  return nanoseconds > 0 ? begin + static_cast<std::uint64_t>(nanoseconds) : begin;
}

}  // namespace

OwnedEvent Profile::mark(CUstream stream) {
  OwnedEvent event = make_event(CU_EVENT_DEFAULT);
  check(driver().EventRecord(event.get(), stream), "marking a stream");
  return event;
}

// The narrowest of some tries says how the clocks lie against each other.
tern_status Profile::start(CUstream idle) {
  const tern_status status = recording_.start();
  if (status != TERN_OK) return status;
  std::uint64_t narrowest = UINT64_MAX;
  std::shared_ptr<Base> best;
  try {
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t before = tern_plugin::monotonic_now();
      auto base = std::make_shared<Base>();
      base->event = mark(idle);
      check(driver().EventSynchronize(base->event.get()), "comparing clocks");
      const std::uint64_t now = tern_plugin::monotonic_now();
      if (now - before >= narrowest) continue;
      narrowest = now - before;
      base->host_ns = base->set_ns = before + (now - before) / 2;
      best = std::move(base);
    }
  } catch (...) {
    (void)recording_.stop();
    throw;
  }
  const std::lock_guard lock(mutex_);
  base_ = std::move(best);
  return TERN_OK;
}

void Profile::renew_base(CUstream idle) {
  const std::uint64_t now = tern_plugin::monotonic_now();
  if (now - base_->set_ns < kRenewAfter) return;
  auto base = std::make_shared<Base>();
  base->event = mark(idle);
  base->before = base_;
  base->set_ns = now;
  base_ = std::move(base);
}

void Profile::queued(const tern_profile_record& record, OwnedEvent begin, OwnedEvent end, CUstream idle) {
  const std::lock_guard lock(mutex_);
  pending_.push_back({record, std::move(begin), std::move(end), base_});
  renew_base(idle);
}

std::uint64_t Profile::time_of(Base& base) {
  if (base.before) {
    check(driver().EventSynchronize(base.event.get()), "comparing clocks");  // of an idle stream: it's over
    base.host_ns = time_of(*base.before, base.event.get());
    base.before.reset();
  }
  return base.host_ns;
}

std::uint64_t Profile::time_of(Base& base, CUevent event) {
  return after(time_of(base), milliseconds(base.event.get(), event));
}

// A stream's work finishes in its order, so what is finished here comes in each stream's order.
void Profile::take_finished() {
  std::deque<Pending> left;
  std::vector<std::uint64_t> waiting;  // streams with something unfinished
  for (Pending& pending : pending_) {
    const std::uint64_t stream = pending.record.stream;
    const bool behind = std::find(waiting.begin(), waiting.end(), stream) != waiting.end();
    if (behind || driver().EventQuery(pending.end.get()) == CUDA_ERROR_NOT_READY) {
      if (!behind) waiting.push_back(stream);
      left.push_back(std::move(pending));
      continue;
    }
    tern_profile_record& record = pending.record;
    std::uint64_t& last = ends_[stream];  // what is rounded may not overlap
    record.begin_ns = std::max(last, time_of(*pending.base, pending.begin.get()));
    record.end_ns = std::max(record.begin_ns, time_of(*pending.base, pending.end.get()));
    last = record.end_ns;
    recording_.add(record);
  }
  pending_ = std::move(left);
}

tern_status Profile::collect(tern_profile_record* records, std::uint64_t capacity, std::uint64_t* count) {
  {
    const std::lock_guard lock(mutex_);
    take_finished();
  }
  return recording_.collect(records, capacity, count);
}

tern_status profile_start(tern_device device) {
  return guarded([&]() -> tern_status {
    DeviceState& state = require_present(device);
    return state.profile.start(state.own_stream.get());
  });
}

tern_status profile_stop(tern_device device) {
  return guarded([&]() -> tern_status { return require_present(device).profile.recording().stop(); });
}

tern_status profile_collect(tern_device device, tern_profile_record* records, uint64_t capacity, uint64_t* count) {
  return guarded([&]() -> tern_status { return require_present(device).profile.collect(records, capacity, count); });
}

}  // namespace tern::cuda
