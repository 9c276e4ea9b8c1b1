// What a capture promises: one launch in it, several, and no memory that grows.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>

#include "base/strings.h"
#include "conformance/law_tools.h"

namespace tern::conformance {
namespace {

// A recording of what `body` gives the bench's stream.
template <typename Body>
accel::Capture record(Bench& bench, Body&& body) {
  const tern_backend& api = bench.device->api();
  accel::check(api.capture_begin(bench.stream.raw()), bench.device->backend(), "beginning a capture");
  body();
  tern_capture raw = nullptr;
  accel::check(api.capture_end(bench.stream.raw(), &raw), bench.device->backend(), "ending a capture");
  return {bench.device, raw};
}

void launch(Bench& bench, const accel::Capture& capture) {
  accel::check(bench.device->api().capture_launch(capture.raw(), bench.stream.raw()), bench.device->backend(),
               "launching a captured graph");
}

// One of a capture's launches, with what it was last given.
struct Link {
  Case now;
  CaseMemory memory;
  std::unique_ptr<Kernel::Instance> instance;
  std::uint64_t node = 0;
  Link(Bench& bench, const Case& c, int shift) : now(c), memory(bench.device, c, shift) {}
};

// The first output that holds anything, or the number of arguments.
std::size_t first_output(const Case& c) {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (c.written(i) && is_present(c.args[i].desc) && !c.args[i].planes[0].empty()) return i;
  }
  return c.args.size();
}

// Three launches of one op; the first one's output is copied before the second runs.
class Chain {
 public:
  Chain(Bench& bench, const CaseSource& source) : bench_(bench), source_(source) {
    for (int i = 0; i < 3; ++i) {
      // Dynamic ones are captured with counts of 0: an update that is lost leaves rows out.
      const std::uint64_t seed = seed_++;
      const Case c = source.variant.dynamic ? make_with(source, Counts::none, seed) : source.make(seed);
      links_.push_back(std::make_unique<Link>(bench, c, i));
    }
    kernel_.emplace(bench.device, links_[0]->memory.op_desc(), std::string());
    for (auto& link : links_) link->instance = kernel_->bind(link->memory.tensors(), 0);
    from_ = first_output(links_[0]->now);
    bytes_ = from_ < links_[0]->now.args.size() ? links_[0]->now.args[from_].planes[0].size() : 0;
    if (bytes_ > 0) copied_ = bench.device->allocate(bytes_, "a copy in a capture");
    for (auto& link : links_) link->memory.upload(link->now, bench.stream);
    bench.stream.synchronize();
    capture_ = record(bench, [&] { give(); });
  }

  // Replays with new numbers for the launches `changed`, which alone are named; nothing is waited for. False where the
  // device wants another capture.
  bool replay(std::initializer_list<std::size_t> changed) {
    for (std::size_t i : changed) links_[i]->now = source_.make(seed_++);
    if (!update(changed)) return false;
    for (auto& link : links_) {
      link->memory.upload(link->now, bench_.stream);
      link->instance->upload_counts(HostArgs(link->now).get(), bench_.stream);
    }
    launch(bench_, capture_);
    Round& round = *rounds_.emplace_back(std::make_unique<Round>());
    for (auto& link : links_) {
      round.cases.push_back(link->now);
      round.snapshots.push_back(link->memory.fetch(bench_.stream));
    }
    round.copied.resize(bytes_);
    if (bytes_ > 0) bench_.device->copy_to_host(round.copied, copied_.plane(), bench_.stream);
    return true;
  }

  void judge_all(LawResult& result, const char* law) const {
    bench_.stream.synchronize();
    for (const auto& round : rounds_) {
      for (std::size_t i = 0; i < links_.size(); ++i) {
        const Case& c = round->cases[i];
        const Outputs found = links_[i]->memory.outputs(round->snapshots[i]);
        note(result, law, c, found);
        const bool copy_is_right = i != 0 || bytes_ == 0 || found.planes[from_][0] == round->copied;
        note(result, law, c, copy_is_right ? "" : "a copy between two launches took other bytes");
      }
    }
  }

 private:
  struct Round {
    std::vector<Case> cases;
    std::vector<Snapshot> snapshots;
    Bytes copied;
  };

  void give() {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      HostArgs host_args(links_[i]->now);
      links_[i]->node = links_[i]->instance->launch(host_args.get(), bench_.stream, -1);
      host_args.unmap();
      if (i != 0 || bytes_ == 0) continue;
      bench_.device->copy(copied_.plane(), links_[0]->memory.tensors()[from_].planes[0], bytes_, bench_.stream);
    }
  }

  bool update(std::initializer_list<std::size_t> changed) {
    if (changed.size() == 0 || !uses_lengths(links_[0]->now) || bench_.device->can(TERN_CAP_DEVICE_COUNTS)) return true;
    std::vector<std::unique_ptr<HostArgs>> host_args;
    std::vector<tern_node_update> updates;
    for (std::size_t i : changed) {
      host_args.push_back(std::make_unique<HostArgs>(links_[i]->now));
      updates.push_back({links_[i]->node, &host_args.back()->get()});
    }
    Pages pages;
    const tern_status status = bench_.device->api().capture_update(
        capture_.raw(), bench_.stream.raw(), pages.put(updates), static_cast<std::uint32_t>(updates.size()));
    if (status == TERN_UNSUPPORTED) return false;
    accel::check(status, bench_.device->backend(), "updating captured launches");
    return true;
  }

  Bench& bench_;
  const CaseSource& source_;
  std::uint64_t seed_ = 30;
  std::vector<std::unique_ptr<Link>> links_;
  std::optional<Kernel> kernel_;
  std::size_t from_ = 0;
  std::uint64_t bytes_ = 0;
  accel::Buffer copied_;
  accel::Capture capture_;
  std::vector<std::unique_ptr<Round>> rounds_;
};

bool captures(const Bench& bench) { return bench.device->can(TERN_CAP_CAPTURE) && bench.device->can(TERN_CAP_EAGER); }

}  // namespace

void check_capture(Bench& bench, const CaseSource& source, LawResult& result) {
  if (!captures(bench)) return;
  // A dynamic one is captured with counts of 0, then replayed with all, with some, and with 0 again.
  const bool dynamic = source.variant.dynamic;
  const Case first = dynamic ? make_with(source, Counts::none, 5) : source.make(5);
  under(bench, result, "capture", first, [&] {
    Placed placed(bench, first, 0);
    placed.memory.upload(first, bench.stream);
    bench.stream.synchronize();
    const tern_backend& api = bench.device->api();
    const accel::Backend& backend = bench.device->backend();
    HostArgs captured(first);
    std::uint64_t node = 0;
    const accel::Capture capture =
        record(bench, [&] { node = placed.instance->launch(captured.get(), bench.stream, -1); });
    captured.unmap();
    // nothing ran while capturing: outputs still hold what was uploaded
    const Snapshot idle = placed.memory.fetch(bench.stream);
    bench.stream.synchronize();
    const Outputs before = placed.memory.outputs(idle);
    for (std::size_t i = 0; i < first.args.size(); ++i) {
      if (is_present(first.args[i].desc) && before.planes[i] != first.args[i].planes) {
        note(result, "capture", first, cat(first.spec().args[i].name, ": changed while capturing"));
      }
    }
    // Queued without a wait between: a replay, an update, a replay; each keeps the numbers that it was queued with.
    std::vector<Case> cases;
    std::vector<Snapshot> snapshots;
    for (std::uint64_t seed : {5, 6, 7, 8}) {
      if (seed == 8 && !dynamic) break;
      cases.push_back(seed == 5              ? first
                      : dynamic && seed != 7 ? make_with(source, seed == 6 ? Counts::all : Counts::none, seed)
                                             : source.make(seed));
      const Case& next = cases.back();
      placed.memory.upload(next, bench.stream);
      HostArgs host_args(next);
      placed.instance->upload_counts(host_args.get(), bench.stream);
      if (seed != 5 && uses_lengths(next) && !bench.device->can(TERN_CAP_DEVICE_COUNTS)) {
        const tern_node_update update{node, &host_args.get()};
        const tern_status status = api.capture_update(capture.raw(), bench.stream.raw(), &update, 1);
        if (status == TERN_UNSUPPORTED) {  // the host captures again
          cases.pop_back();
          break;
        }
        accel::check(status, backend, "updating a captured launch");
      }
      host_args.unmap();
      launch(bench, capture);
      snapshots.push_back(placed.memory.fetch(bench.stream));
    }
    bench.stream.synchronize();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      note(result, "capture", cases[i], placed.memory.outputs(snapshots[i]));
    }
  });
}

void check_captured_chain(Bench& bench, const CaseSource& source, LawResult& result) {
  if (!captures(bench)) return;
  constexpr const char* kLaw = "several launches in a capture";
  under(bench, result, kLaw, source.make(30), [&] {
    Chain chain(bench, source);
    const bool updated = chain.replay({}) && chain.replay({1}) && chain.replay({2, 0}) && chain.replay({});
    static_cast<void>(updated);  // where it can't be, the host captures again
    chain.judge_all(result, kLaw);
  });
}

void check_memory_use(Bench& bench, const CaseSource& source, LawResult& result) {
  constexpr const char* kLaw = "memory in use";
  constexpr int kTimes = 20;
  const Case c = source.make(22);
  under(bench, result, kLaw, c, [&] {
    Placed placed(bench, c, 0);
    run(bench, placed, c, kPoison);
    const HostArgs host_args(c);
    const auto grows = [&](const char* what, const std::function<void()>& once) {
      once();
      bench.stream.synchronize();
      const std::uint64_t before = bench.device->memory().in_use_by_process;
      for (int i = 0; i < kTimes; ++i) once();
      bench.stream.synchronize();
      const std::uint64_t after = bench.device->memory().in_use_by_process;
      if (after <= before) return;
      note(result, kLaw, c, cat(kTimes, " ", what, " took ", after - before, " bytes of device memory for good"));
    };
    grows("launches", [&] { placed.instance->launch(host_args.get(), bench.stream, kPoison); });
    if (!captures(bench)) return;
    const accel::Capture capture = record(bench, [&] { placed.instance->launch(host_args.get(), bench.stream, -1); });
    grows("replays", [&] { launch(bench, capture); });
  });
}

}  // namespace tern::conformance
