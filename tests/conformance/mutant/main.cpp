// mutants BACKEND.so EQUIVALENT.txt [--one_in N] [OP... [MISTAKE...]]: makes every mistake in every op of a sound
// backend, or one in N of them, and lets the conformance suite find it. Fails where one that changed something is not
// found, unless EQUIVALENT.txt lists it with the proof that it is none; and where that list names one that is found.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/runtime_checks.h"
#include "conformance/selftest.h"
#include "mutant/mutant.h"
#include "mutant/places.h"
#include "mutant/runtime.h"

namespace {

using namespace tern;
using mutant::Mistake;

// Every n-th of what is asked about.
struct Share {
  std::int64_t one_in = 1;
  std::int64_t asked = 0;
  [[nodiscard]] bool takes() { return asked++ % one_in == 0; }
};

struct Tally {
  Share share;
  int made = 0;
  int found = 0;
  std::vector<std::string> survivors;
  std::set<std::string> unmade;
  std::set<std::string> unchanged;  // in one dtype: the mistake changed nothing on this processor
};

// `only`: mistakes by name; empty: all.
void try_kernels(const std::shared_ptr<const accel::Backend>& sound, const ops::OpSpec& spec,
                 const std::set<std::string>& only, Tally& tally) {
  for (Mistake mistake : mutant::kernel_mistakes()) {
    if (!only.empty() && only.count(mutant::name_of(mistake)) == 0) continue;
    for (int place : mutant::places(spec, mistake)) {
      const std::string name = cat(mutant::name_of(mistake), " ", mutant::place_name(spec, mistake, place));
      bool made = false;
      for (const tern_dtype dtype : mutant::dtypes_of(spec.id)) {
        if (!tally.share.takes()) {
          made = true;  // by whoever takes all
          continue;
        }
        const auto backend = mutant::mutate(sound, {.mistake = mistake, .op = spec.id, .arg = place});
        const accel::DevicePtr device = accel::Device::open(backend, 0).value();
        if (!mutant::is_possible(mistake, *device)) {
          made = true;  // nothing to be wrong
          break;
        }
        conformance::Bench bench = conformance::make_bench(device);
        conformance::SelftestOptions options;
        options.stop_after = 1;
        options.laws = mutant::needs_laws(mistake);
        options.rules = false;
        options.only = [mistake, op = spec.id, dtype](const conformance::Variant& v) {
          return v.in == dtype && mutant::shows(op, mistake, v);
        };
        const conformance::OpReport report = conformance::test_op(bench, spec.id, options);
        if (mutant::times_made() == 0) {
          tally.unchanged.insert(cat(name, " in ", dtype_name(dtype)));
          continue;
        }
        made = true;
        ++tally.made;
        if (report.findings.empty()) {
          tally.survivors.push_back(cat(name, " in ", dtype_name(dtype)));
        } else {
          ++tally.found;
        }
      }
      if (!made) tally.unmade.insert(name);
    }
  }
}

// In a process of its own, which loads the backend itself: what reads unmapped memory dies.
void try_late_reading(const char* file, const ops::OpSpec& spec, Mistake mistake, Tally& tally) {
  if (!tally.share.takes()) return;
  constexpr int kMissed = 0;
  constexpr int kFound = 1;
  constexpr int kNothingToTry = 2;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process could be made");
  if (child == 0) {
    const auto backend = mutant::mutate(accel::Backend::load(file).value(), {.mistake = mistake, .op = spec.id});
    const accel::DevicePtr device = accel::Device::open(backend, 0).value();
    if (mistake == Mistake::late_bind_args && !device->can(TERN_CAP_EAGER)) _exit(kNothingToTry);
    conformance::Bench bench = conformance::make_bench(device);
    conformance::SelftestOptions options;
    options.stop_after = 1;
    options.laws = false;
    options.only = [](const conformance::Variant& v) { return v.size <= 1 && v.in == TERN_F32; };
    _exit(conformance::test_op(bench, spec.id, options).findings.empty() ? kMissed : kFound);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("a process was lost");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNothingToTry) return;
  ++tally.made;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMissed) {
    tally.survivors.push_back(cat(mutant::name_of(mistake), " ", spec.name));
  } else {
    ++tally.found;
  }
}

void try_capabilities(const std::shared_ptr<const accel::Backend>& sound, Tally& tally) {
  const std::map<std::string, std::uint32_t> flags = {{"capture", TERN_CAP_CAPTURE},
                                                      {"peer_copy", TERN_CAP_PEER_COPY},
                                                      {"import_host", TERN_CAP_IMPORT_HOST},
                                                      {"whole_graph", TERN_CAP_WHOLE_GRAPH},
                                                      {"host_pointer", TERN_CAP_HOST_POINTER},
                                                      {"ipc", TERN_CAP_IPC},
                                                      {"collectives", TERN_CAP_COLLECTIVES},
                                                      {"philox", TERN_CAP_PHILOX},
                                                      {"eager", TERN_CAP_EAGER},
                                                      {"host_lengths", TERN_CAP_HOST_LENGTHS},
                                                      {"device_counts", TERN_CAP_DEVICE_COUNTS},
                                                      {"evict", TERN_CAP_EVICT},
                                                      {"native_memory", TERN_CAP_NATIVE_MEMORY},
                                                      {"native_streams", TERN_CAP_NATIVE_STREAMS},
                                                      {"recipe_files", TERN_CAP_RECIPE_FILES},
                                                      {"profile", TERN_CAP_PROFILE},
                                                      {"comm_abort", TERN_CAP_COMM_ABORT}};
  for (Mistake mistake : {Mistake::capability_set, Mistake::capability_clear}) {
    for (const auto& [flag, bit] : flags) {
      const std::string name = cat(mutant::name_of(mistake), " ", flag);
      const auto backend = mutant::mutate(sound, {.mistake = mistake, .capability = bit});
      auto opened = accel::Device::open(backend, 0);
      if (mutant::times_made() == 0) continue;
      ++tally.made;
      if (!opened) {  // refused at the door
        ++tally.found;
        continue;
      }
      const accel::DevicePtr device = *opened;
      conformance::Bench bench = conformance::make_bench(device);
      bool found = false;
      for (const auto& result : conformance::check_capabilities(bench)) found = found || !result.problem.empty();
      if (!found && device->can(TERN_CAP_EAGER)) {
        conformance::SelftestOptions options;
        options.stop_after = 1;
        options.rules = false;
        options.only = [](const conformance::Variant& v) { return v.size <= 1 && v.in == TERN_F32; };
        for (const std::uint32_t op : std::array<std::uint32_t, 2>{TERN_OP_ATTENTION, TERN_OP_AXPBY}) {
          found = found || !conformance::test_op(bench, op, options).findings.empty();
        }
      }
      found ? static_cast<void>(++tally.found) : tally.survivors.push_back(name);
    }
  }
}

void try_runtime(const std::shared_ptr<const accel::Backend>& sound, Tally& tally) {
  const accel::DevicePtr device = accel::Device::open(sound, 0).value();
  for (const mutant::RuntimeMistake& mistake : mutant::runtime_mistakes()) {
    if ((mistake.capability & ~device->info().capabilities) != 0) continue;
    if (mistake.applies != nullptr && !mistake.applies(*sound)) continue;
    if (!tally.share.takes()) continue;
    const auto backend = mutant::with_mistake(sound, mistake);
    conformance::Bench bench = conformance::make_bench(accel::Device::open(backend, 0).value());
    ++tally.made;
    bool found = false;
    for (const auto& result : conformance::check_capabilities(bench)) found = found || !result.problem.empty();
    if (found) {
      ++tally.found;
    } else {
      tally.survivors.emplace_back(mistake.name);
    }
    // What a mistake left running would be found by every check that follows.
    if (device->can(TERN_CAP_PROFILE)) (void)sound->api().profile_stop(device->raw());
  }
  conformance::Bench bench = conformance::make_bench(device);
  for (const auto& result : conformance::check_capabilities(bench)) {
    if (!result.problem.empty())
      throw std::runtime_error(cat("without a mistake: ", result.name, ": ", result.problem));
  }
}

// On a device whose launches come back before their work is done.
void try_waiting_launch(const std::shared_ptr<const accel::Backend>& sound, Tally& tally) {
  const auto check = [](const std::shared_ptr<const accel::Backend>& backend, std::string& skipped) {
    conformance::Bench bench = conformance::make_bench(accel::Device::open(backend, 0).value());
    return conformance::check_launch_returns(bench, skipped);
  };
  std::string skipped;
  const std::string problem = check(sound, skipped);
  if (!skipped.empty() || !problem.empty()) return;
  ++tally.made;
  if (check(mutant::mutate(sound, {.mistake = Mistake::waiting_launch}), skipped).empty()) {
    tally.survivors.push_back(mutant::name_of(Mistake::waiting_launch));
  } else {
    ++tally.found;
  }
}

// `mistake place: proof`, a line each; # begins a comment.
std::set<std::string> read_equivalent(const char* file) {
  std::set<std::string> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (!line.empty() && line[0] != '#' && colon != std::string::npos) out.insert(line.substr(0, colon));
  }
  return out;
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: mutants BACKEND.so EQUIVALENT.txt [--one_in N] [OP... [MISTAKE...]]\n";
    return 2;
  }
  std::set<std::string> equivalent = read_equivalent(argv[2]);
  Tally tally;
  int names = 3;
  if (argc > 4 && std::string(argv[3]) == "--one_in") {
    tally.share.one_in = std::stoll(argv[4]);
    names = 5;
  }
  std::set<std::string> wanted(argv + names, argv + argc);
  std::set<std::string> only;
  for (Mistake mistake : mutant::kernel_mistakes()) {
    if (wanted.count(mutant::name_of(mistake)) != 0) only.insert(mutant::name_of(mistake));
  }
  // first, while this process has no threads
  for (const ops::OpSpec& spec : ops::op_table()) {
    if (wanted.empty() || (only.empty() && wanted.count(std::string(spec.name)) != 0)) {
      for (Mistake mistake : {Mistake::late_host_args, Mistake::late_desc, Mistake::late_bind_args}) {
        try_late_reading(argv[1], spec, mistake, tally);
      }
    }
  }
  const auto sound = accel::Backend::load(argv[1]).value();
  for (const ops::OpSpec& spec : ops::op_table()) {
    if (wanted.empty() || wanted.count(std::string(spec.name)) != 0) try_kernels(sound, spec, only, tally);
  }
  if (wanted.empty() || wanted.count("capabilities") != 0) try_capabilities(sound, tally);
  if (wanted.empty() || wanted.count("runtime") != 0) try_runtime(sound, tally);
  if (wanted.empty() || wanted.count("capabilities") != 0) try_waiting_launch(sound, tally);
  int bad = 0;
  std::set<std::string> used;  // of the list
  for (const std::string& name : tally.survivors) {
    const std::string in_all = name.substr(0, name.find(" in "));
    if (equivalent.contains(name) || equivalent.contains(in_all)) {
      used.insert(equivalent.contains(name) ? name : in_all);
      continue;
    }
    std::cout << "survived: " << name << "\n";
    ++bad;
  }
  for (const std::string& name : used) equivalent.erase(name);
  for (const std::string& name : tally.unmade) {
    if (equivalent.erase(name) != 0) continue;
    std::cout << "could not be made: " << name << "\n";
    ++bad;
  }
  for (const std::string& name : tally.unchanged) equivalent.erase(name);
  for (const std::string& name : equivalent) {
    if (!wanted.empty() || tally.share.one_in > 1) break;
    std::cout << "listed, but made and found: " << name << "\n";
    ++bad;
  }
  std::cout << tally.made << " mutants, " << tally.found << " found, " << tally.survivors.size() << " survived, "
            << tally.unmade.size() << " could not be made here\n";
  return bad == 0 && tally.made > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
