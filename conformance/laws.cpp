#include "conformance/laws.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/law_tools.h"
#include "conformance/rows.h"

namespace tern::conformance {

void renew_streams(Bench& bench) {
  bench.stream = bench.device->make_stream();
  bench.other = bench.device->make_stream();
}

Bench make_bench(const accel::DevicePtr& device) { return {device, device->make_stream(), device->make_stream()}; }

void check_values(Bench& bench, const Case& c, LawResult& result) {
  under(bench, result, "values", c, [&] {
    Placed placed(bench, c, 0);
    const Outputs found = run(bench, placed, c, kPoison);
    note(result, "values", c, found);
    note(result, "workspace", c, placed.instance->check_workspace(bench.stream));
  });
}

void check_reuse(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(1);
  const Case second = source.make(2);
  under(bench, result, "plan reused", first, [&] {
    Placed placed(bench, first, 0);
    note(result, "plan reused", first, run(bench, placed, first, kPoison));
    // other buffers under the same plan
    CaseMemory moved(bench.device, second, 3);
    const auto instance = placed.kernel.bind(moved.tensors(), 3);
    const Snapshot snapshot = queue(bench, moved, *instance, second, kOtherPoison);
    bench.stream.synchronize();
    note(result, "plan reused", second, moved.outputs(snapshot));
    // the choice, given back
    const std::string choice(placed.kernel.info().choice);
    const Kernel again(bench.device, moved.op_desc(), choice);
    note(result, "choice replayed", first,
         choice == again.info().choice ? "" : cat("choice ", choice, " gave ", again.info().choice));
  });
}

void check_bindings(Bench& bench, const CaseSource& source, LawResult& result) {
  constexpr const char* kLaw = "bindings in turn";
  std::vector<Case> cases;
  for (std::uint64_t seed = 14; seed < 18; ++seed) cases.push_back(source.make(seed));
  under(bench, result, kLaw, cases[0], [&] {
    Placed first(bench, cases[0], 0);
    CaseMemory moved(bench.device, cases[1], 3);
    auto second = first.kernel.bind(moved.tensors(), 3);
    std::vector<Snapshot> snapshots;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      snapshots.push_back(i % 2 == 0 ? queue(bench, first.memory, *first.instance, cases[i], kPoison)
                                     : queue(bench, moved, *second, cases[i], kOtherPoison));
    }
    bench.stream.synchronize();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const CaseMemory& memory = i % 2 == 0 ? first.memory : moved;
      note(result, kLaw, cases[i], memory.outputs(snapshots[i]));
    }
    // Given up, and bound to other memory: the other binding is as it was.
    first.instance.reset();
    CaseMemory third(bench.device, cases[2], 1);
    first.instance = first.kernel.bind(third.tensors(), 1);
    const Snapshot a = queue(bench, third, *first.instance, cases[2], kOtherPoison);
    const Snapshot b = queue(bench, moved, *second, cases[3], kPoison);
    bench.stream.synchronize();
    note(result, kLaw, cases[2], third.outputs(a));
    note(result, kLaw, cases[3], moved.outputs(b));
  });
}

void check_count_bounds(Bench& bench, const CaseSource& source, LawResult& result) {
  if (!source.variant.dynamic) return;
  constexpr const char* kLaw = "no rows and all rows";
  const std::vector<Case> cases = {make_with(source, Counts::none, 18), make_with(source, Counts::all, 19),
                                   make_with(source, Counts::none, 20), source.make(21)};
  under(bench, result, kLaw, cases[0], [&] {
    Placed placed(bench, cases[0], 0);
    std::vector<Snapshot> snapshots;
    for (const Case& c : cases) snapshots.push_back(queue(bench, placed.memory, *placed.instance, c, kPoison));
    bench.stream.synchronize();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      note(result, kLaw, cases[i], placed.memory.outputs(snapshots[i]));
    }
  });
}

void check_split(Bench& bench, const CaseSource& source, LawResult& result) {
  if (source.variant.split == 0) return;
  constexpr const char* kLaw = "split decode";
  CaseSource few = source;
  few.variant.short_keys = true;
  const std::vector<Case> cases = {source.make(40), few.make(41), source.make(42)};
  under(bench, result, kLaw, cases[0], [&] {
    Placed placed(bench, cases[0], 0);
    std::vector<Snapshot> snapshots;
    snapshots.push_back(queue(bench, placed.memory, *placed.instance, cases[0], kPoison));
    for (std::size_t i = 1; i < cases.size(); ++i) {
      placed.memory.upload(cases[i], bench.stream);
      HostArgs host_args(cases[i]);
      placed.instance->upload_counts(host_args.get(), bench.stream);
      placed.instance->launch(host_args.get(), bench.stream, -1);
      host_args.unmap();
      snapshots.push_back(placed.memory.fetch(bench.stream));
    }
    bench.stream.synchronize();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      note(result, kLaw, cases[i], placed.memory.outputs(snapshots[i]));
    }
  });
}

void check_accumulation(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(1);
  if (first.accumulate == 0) return;
  under(bench, result, "accumulate over two micro-steps", first, [&] {
    Placed placed(bench, first, 1);
    const Outputs half = run(bench, placed, first, kPoison);
    note(result, "accumulate over two micro-steps", first, half);
    Case second = source.make(2);
    for (std::size_t i = 0; i < second.args.size(); ++i) {
      if (second.written(i) && is_present(second.args[i].desc)) second.args[i].planes = half.planes[i];
    }
    placed.memory.upload(second, bench.stream, true);
    launch(*placed.instance, second, bench.stream, kOtherPoison);
    const Snapshot snapshot = placed.memory.fetch(bench.stream);
    bench.stream.synchronize();
    note(result, "accumulate over two micro-steps", second, placed.memory.outputs(snapshot));
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
    const Snapshot a = queue(bench, placed.memory, *placed.instance, first, kPoison);
    const Snapshot b = queue(bench, placed.memory, *placed.instance, second, kPoison);
    bench.stream.synchronize();
    note(result, "stream order", first, placed.memory.outputs(a));
    note(result, "stream order", second, placed.memory.outputs(b));

    // across streams: copies on one, the kernel on the other, an event either way
    const accel::Event ready = bench.device->make_event();
    const accel::Event done = bench.device->make_event();
    placed.memory.upload(first, bench.other);
    bench.other.record(ready);
    bench.stream.wait(ready);
    launch(*placed.instance, first, bench.stream, kOtherPoison);
    bench.stream.record(done);
    bench.other.wait(done);
    const Snapshot c = placed.memory.fetch(bench.other);
    bench.other.synchronize();
    note(result, "stream order by events", first, placed.memory.outputs(c));
  });
}

void check_concurrency(Bench& bench, const CaseSource& source, LawResult& result) {
  const Case first = source.make(9);
  const Case second = source.make(10);
  under(bench, result, "two streams at once", first, [&] {
    Placed placed(bench, first, 0);
    CaseMemory moved(bench.device, second, 2);
    const auto instance = placed.kernel.bind(moved.tensors(), 2);
    const auto start = [](CaseMemory& memory, Kernel::Instance& kernel, const Case& c, const accel::Stream& stream) {
      memory.upload(c, stream);
      launch(kernel, c, stream, kPoison);
    };
    const auto settle = [&](const char* law) {
      const Snapshot a = placed.memory.fetch(bench.stream);
      const Snapshot b = moved.fetch(bench.other);
      bench.stream.synchronize();
      bench.other.synchronize();
      note(result, law, first, placed.memory.outputs(a));
      note(result, law, second, moved.outputs(b));
    };
    start(placed.memory, *placed.instance, first, bench.stream);
    start(moved, *instance, second, bench.other);
    settle("two streams at once");
    // A stream belongs to one thread at a time; different ones may run side by side.
    std::exception_ptr failed;
    std::thread beside([&] {
      try {
        start(moved, *instance, second, bench.other);
      } catch (...) {
        failed = std::current_exception();
      }
    });
    try {
      start(placed.memory, *placed.instance, first, bench.stream);
    } catch (...) {
      beside.join();
      throw;
    }
    beside.join();
    if (failed) std::rethrow_exception(failed);
    settle("two threads at once");
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
    launch(*placed.instance, c, bench.stream, kPoison);
    const Snapshot snapshot = placed.memory.fetch(bench.stream);
    bench.stream.synchronize();
    Outputs found = placed.memory.outputs(snapshot);
    for (std::size_t i = 0; i < c.args.size(); ++i) {
      if ((c.spec().args[i].flags & ops::kLengths) != 0) found.planes[i] = c.args[i].planes;
    }
    note(result, "lengths from the host", c, found);
  });
}

}  // namespace tern::conformance
