#include "conformance/laws.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/rows.h"

namespace tern::conformance {
namespace {

constexpr int kPoison = 0xff;       // NaN in every float
constexpr int kOtherPoison = 0x3c;  // a small number in every float

void note(LawResult& result, const char* law, const Case& c, const Verdict& verdict) {
  result.worst = std::max(result.worst, verdict.worst);
  if (!verdict.problem.empty()) result.findings.push_back({law, verdict.problem, c});
}

void note(LawResult& result, const char* law, const Case& c, const std::string& problem) {
  if (!problem.empty()) result.findings.push_back({law, problem, c});
}

// Runs one law; a backend's error is a finding too.
template <typename Body>
void under(Bench& bench, LawResult& result, const char* law, const Case& c, Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    result.findings.push_back({law, failure.what(), c});
    renew_streams(bench);  // an asynchronous error is final for its stream
  }
}

struct Placed {
  CaseMemory memory;
  Kernel kernel;
  std::unique_ptr<Kernel::Instance> instance;
  Placed(Bench& bench, const Case& c, int shift, const std::string& choice = {})
      : memory(bench.device, c, shift),
        kernel(bench.device, memory.op_desc(), choice),
        instance(kernel.bind(memory.tensors(), shift)) {}
};

Outputs run(Bench& bench, Placed& placed, const Case& c, int poison) {
  placed.memory.upload(c, bench.stream);
  HostArgs host_args(c);
  placed.instance->launch(host_args.get(), bench.stream, poison);
  host_args.unmap();
  const Snapshot snapshot = placed.memory.fetch(bench.stream);
  bench.stream.synchronize();
  return placed.memory.outputs(snapshot);
}

bool uses_lengths(const Case& c) {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if ((c.spec().args[i].flags & ops::kLengths) != 0 || c.args[i].desc.dynamic_dim >= 0) return true;
  }
  return false;
}

}  // namespace

void renew_streams(Bench& bench) {
  bench.stream = bench.device->make_stream();
  bench.other = bench.device->make_stream();
}

Bench make_bench(const accel::DevicePtr& device) { return {device, device->make_stream(), device->make_stream()}; }

void check_values(Bench& bench, const Case& c, LawResult& result) {
  under(bench, result, "values", c, [&] {
    Placed placed(bench, c, 0);
    const Outputs found = run(bench, placed, c, kPoison);
    note(result, "values", c, judge(c, run_oracle(c), found));
    note(result, "workspace", c, placed.instance->check_workspace(bench.stream));
  });
}

void check_reuse(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(1);
  const Case second = source.make(2);
  under(bench, result, "plan reused", first, [&] {
    Placed placed(bench, first, 0);
    note(result, "plan reused", first, judge(first, run_oracle(first), run(bench, placed, first, kPoison)));
    // other buffers under the same plan
    CaseMemory moved(bench.device, second, 3);
    const auto instance = placed.kernel.bind(moved.tensors(), 3);
    moved.upload(second, bench.stream);
    HostArgs host_args(second);
    instance->launch(host_args.get(), bench.stream, kOtherPoison);
    host_args.unmap();
    const Snapshot snapshot = moved.fetch(bench.stream);
    bench.stream.synchronize();
    note(result, "plan reused", second, judge(second, run_oracle(second), moved.outputs(snapshot)));
    // the choice, given back
    const std::string choice(placed.kernel.info().choice);
    const Kernel again(bench.device, moved.op_desc(), choice);
    note(result, "choice replayed", first,
         choice == again.info().choice ? "" : cat("choice ", choice, " gave ", again.info().choice));
  });
}

void check_accumulation(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(1);
  if (first.accumulate == 0) return;
  under(bench, result, "accumulate over two micro-steps", first, [&] {
    Placed placed(bench, first, 1);
    const Outputs half = run(bench, placed, first, kPoison);
    note(result, "accumulate over two micro-steps", first, judge(first, run_oracle(first), half));
    Case second = source.make(2);
    for (std::size_t i = 0; i < second.args.size(); ++i) {
      if (second.written(i) && is_present(second.args[i].desc)) second.args[i].planes = half.planes[i];
    }
    placed.memory.upload(second, bench.stream, true);
    HostArgs host_args(second);
    placed.instance->launch(host_args.get(), bench.stream, kOtherPoison);
    host_args.unmap();
    const Snapshot snapshot = placed.memory.fetch(bench.stream);
    bench.stream.synchronize();
    note(result, "accumulate over two micro-steps", second,
         judge(second, run_oracle(second), placed.memory.outputs(snapshot)));
  });
}

void check_repetition(Bench& bench, const Case& c, LawResult& result) {
  if ((c.needs & TERN_NEED_DETERMINISTIC) == 0) return;
  under(bench, result, "deterministic", c, [&] {
    Placed first(bench, c, 0);
    const std::string choice(first.kernel.info().choice);
    Placed second(bench, c, 5, choice);
    const Outputs a = run(bench, first, c, kPoison);
    const Outputs b = run(bench, second, c, kOtherPoison);
    const Outputs again = run(bench, second, c, kPoison);
    note(result, "deterministic", c, same_bits(c, a, b) && same_bits(c, b, again) ? "" : "repeating it changed bits");
  });
}

void check_row_invariance(Bench& bench, const Case& c, LawResult& result) {
  if ((c.needs & TERN_NEED_ROW_INVARIANT) == 0) return;
  under(bench, result, "row invariant", c, [&] {
    Placed whole(bench, c, 0);
    const Outputs all = run(bench, whole, c, kPoison);
    for (const RowSlice& slice : row_slices(c)) {
      Placed placed(bench, slice.part, 0);
      const Outputs alone = run(bench, placed, slice.part, kPoison);
      note(result, "row invariant", c, compare_rows(c, slice, all, alone));
    }
  });
}

void check_packing(Bench& bench, const Case& c, LawResult& result) {
  if (!bench.device->backend().has(&tern_backend::unpack)) return;
  under(bench, result, "packing", c, [&] {
    CaseMemory memory(bench.device, c, 0);
    memory.upload(c, bench.stream);
    const std::string problem = memory.check_unpack(c, bench.stream);
    bench.stream.synchronize();
    note(result, "packing", c, problem);
  });
}

void check_stream_order(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(3);
  const Case second = source.make(4);
  under(bench, result, "stream order", first, [&] {
    Placed placed(bench, first, 0);
    auto queue = [&](const Case& c) {
      placed.memory.upload(c, bench.stream);
      HostArgs host_args(c);
      placed.instance->launch(host_args.get(), bench.stream, kPoison);
      host_args.unmap();
      return placed.memory.fetch(bench.stream);
    };
    const Snapshot a = queue(first);
    const Snapshot b = queue(second);
    bench.stream.synchronize();
    note(result, "stream order", first, judge(first, run_oracle(first), placed.memory.outputs(a)));
    note(result, "stream order", second, judge(second, run_oracle(second), placed.memory.outputs(b)));

    // across streams: copies on one, the kernel on the other, an event either way
    const accel::Event ready = bench.device->make_event();
    const accel::Event done = bench.device->make_event();
    placed.memory.upload(first, bench.other);
    bench.other.record(ready);
    bench.stream.wait(ready);
    HostArgs host_args(first);
    placed.instance->launch(host_args.get(), bench.stream, kOtherPoison);
    host_args.unmap();
    bench.stream.record(done);
    bench.other.wait(done);
    const Snapshot c = placed.memory.fetch(bench.other);
    bench.other.synchronize();
    note(result, "stream order by events", first, judge(first, run_oracle(first), placed.memory.outputs(c)));
  });
}

void check_concurrency(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(9);
  const Case second = source.make(10);
  under(bench, result, "two streams at once", first, [&] {
    Placed placed(bench, first, 0);
    CaseMemory moved(bench.device, second, 2);
    const auto instance = placed.kernel.bind(moved.tensors(), 2);
    const auto queue = [](CaseMemory& memory, Kernel::Instance& kernel, const Case& c, const accel::Stream& stream) {
      memory.upload(c, stream);
      HostArgs host_args(c);
      kernel.launch(host_args.get(), stream, kPoison);
      host_args.unmap();
    };
    const auto settle = [&](const char* law) {
      const Snapshot a = placed.memory.fetch(bench.stream);
      const Snapshot b = moved.fetch(bench.other);
      bench.stream.synchronize();
      bench.other.synchronize();
      note(result, law, first, judge(first, run_oracle(first), placed.memory.outputs(a)));
      note(result, law, second, judge(second, run_oracle(second), moved.outputs(b)));
    };
    queue(placed.memory, *placed.instance, first, bench.stream);
    queue(moved, *instance, second, bench.other);
    settle("two streams at once");
    // A stream belongs to one thread at a time; different ones may run side by side.
    std::exception_ptr failed;
    std::thread beside([&] {
      try {
        queue(moved, *instance, second, bench.other);
      } catch (...) {
        failed = std::current_exception();
      }
    });
    try {
      queue(placed.memory, *placed.instance, first, bench.stream);
    } catch (...) {
      beside.join();
      throw;
    }
    beside.join();
    if (failed) std::rethrow_exception(failed);
    settle("two threads at once");
  });
}

void check_capture(Bench& bench, const CaseSource& source, LawResult& result) {
  if (!bench.device->can(TERN_CAP_CAPTURE) || !bench.device->can(TERN_CAP_EAGER)) return;
  const Case first = source.make(5);
  under(bench, result, "capture", first, [&] {
    Placed placed(bench, first, 0);
    placed.memory.upload(first, bench.stream);
    bench.stream.synchronize();
    const tern_backend& api = bench.device->api();
    const accel::Backend& backend = bench.device->backend();
    accel::check(api.capture_begin(bench.stream.raw()), backend, "beginning a capture");
    HostArgs captured(first);
    const std::uint64_t node = placed.instance->launch(captured.get(), bench.stream, -1);
    tern_capture raw = nullptr;
    accel::check(api.capture_end(bench.stream.raw(), &raw), backend, "ending a capture");
    const accel::Capture capture(bench.device, raw);
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
    for (std::uint64_t seed : {5, 6, 7}) {
      cases.push_back(source.make(seed));
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
      accel::check(api.capture_launch(capture.raw(), bench.stream.raw()), backend, "launching a captured graph");
      snapshots.push_back(placed.memory.fetch(bench.stream));
    }
    bench.stream.synchronize();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      note(result, "capture", cases[i], judge(cases[i], run_oracle(cases[i]), placed.memory.outputs(snapshots[i])));
    }
  });
}

void check_stale_lengths(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case c = source.make(8);
  if (!bench.device->can(TERN_CAP_HOST_LENGTHS) || c.spec().num_lengths() == 0) return;
  under(bench, result, "lengths from the host", c, [&] {
    Case stale = c;
    for (std::size_t i = 0; i < c.args.size(); ++i) {
      if ((c.spec().args[i].flags & ops::kLengths) == 0) continue;
      std::fill(stale.args[i].planes[0].begin(), stale.args[i].planes[0].end(), std::byte{0});
    }
    Placed placed(bench, c, 0);
    placed.memory.upload(stale, bench.stream);
    HostArgs host_args(c);
    placed.instance->launch(host_args.get(), bench.stream, kPoison);
    host_args.unmap();
    const Snapshot snapshot = placed.memory.fetch(bench.stream);
    bench.stream.synchronize();
    Outputs found = placed.memory.outputs(snapshot);
    for (std::size_t i = 0; i < c.args.size(); ++i) {
      if ((c.spec().args[i].flags & ops::kLengths) != 0) found.planes[i] = c.args[i].planes;
    }
    note(result, "lengths from the host", c, judge(c, run_oracle(c), found));
  });
}

}  // namespace tern::conformance
