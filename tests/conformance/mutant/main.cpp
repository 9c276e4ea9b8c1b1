// mutants BACKEND.so EQUIVALENT.txt [OP...]: makes every mistake in every op of a sound backend and lets the
// conformance suite find it. Fails where one that changed something is not found, unless EQUIVALENT.txt lists it with
// the proof that it is none; and where that list names one that is found.
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
#include "mutant/runtime.h"

namespace {

using namespace tern;
using mutant::Mistake;

struct Tally {
  int made = 0;
  int found = 0;
  std::vector<std::string> survivors;
  std::set<std::string> unmade;
};

// Whether a dynamic count cuts the argument: what sums over the rows has none of its own.
bool has_rows(const ops::ArgSpec& arg) {
  for (std::string_view begin : {"[rows", "[q_rows", "[k_rows", "[...]", "[m, n]", "axis 1: [rows]"}) {
    if (arg.shape.text.starts_with(begin)) return true;
  }
  return false;
}

// What a mistake can be made in: arguments of the right kind, attributes, or the op as a whole (-1).
std::vector<int> places(const ops::OpSpec& spec, Mistake mistake) {
  std::vector<int> out;
  for (int i = 0; i < static_cast<int>(spec.args.size()); ++i) {
    const ops::ArgSpec& arg = spec.args[static_cast<std::size_t>(i)];
    const bool written = arg.role != ops::Role::input;
    const bool lengths = (arg.flags & ops::kLengths) != 0;
    const bool integer = ops::is_integer(arg.dtypes);
    const bool adds = (arg.flags & ops::kAccumulate) != 0;
    const std::uint32_t features = conformance::recipe_of(spec.id).features;
    bool fits = false;
    switch (mistake) {
      case Mistake::missed_tail:
      case Mistake::wrong_element:
      case Mistake::write_past_end:
        fits = written;
        break;
      case Mistake::scaled_output:
        fits = written && !integer;
        break;
      case Mistake::rows_past_256:  // of many rows, or of one long row of elements
        fits = written && !integer && arg.shape.text != "[1]" && arg.shape.text[1] != 'h' && arg.shape.text[1] != 'b';
        break;
      case Mistake::wrong_tile:
      case Mistake::columns_past_1024:
        fits = written && !integer &&
               (arg.shape.text == "[rows, width]" || arg.shape.text == "[m, n]; batched: [batch, m, n]" ||
                arg.shape.text == "[rows, out]; [rows, in] if not transpose_w");
        break;
      case Mistake::features_past_64:
        fits = written && !integer && arg.shape.text.find("_dim]") != std::string_view::npos &&
               arg.shape.text[1] != 'h' && arg.shape.text[1] != 'b';
        break;
      case Mistake::tf32:
        fits = i == 0 && (spec.id == TERN_OP_MATMUL || spec.id == TERN_OP_MATMUL_Q || spec.id == TERN_OP_ATTENTION ||
                          spec.id == TERN_OP_ATTENTION_PAGED || spec.id == TERN_OP_LINEAR_CROSS_ENTROPY);
        break;
      case Mistake::lost_gradient:
        fits = spec.id == TERN_OP_LINEAR_CROSS_ENTROPY && (arg.name == "dh" || arg.name == "dw");
        break;
      case Mistake::count_tail:
        fits = written && !integer && (features & conformance::kDynamic) != 0 && has_rows(arg);
        break;
      case Mistake::wrong_stride:  // there are rows to be padded
        fits = written &&
               (arg.shape.text.find(',') != std::string_view::npos || arg.shape.text.substr(0, 5) == "[...]") &&
               (features & conformance::kLayouts) != 0 && spec.id != TERN_OP_ADAMW && spec.id != TERN_OP_ROW_SUM;
        break;
      case Mistake::lost_special:
        fits = written && !integer && (features & conformance::kSpecials) != 0;
        break;
      case Mistake::not_deterministic:
        fits = written && !integer;
        break;
      case Mistake::row_variant:
        fits = written && !integer && (features & conformance::kRows) != 0 && arg.shape.text != "[1]" &&
               arg.shape.text != "[width]" && arg.shape.text != "[head_dim]" && arg.shape.text.substr(0, 6) != "[vocab";
        break;
      case Mistake::wrong_rounding:  // into something narrower than fp32
        fits = written && (arg.dtypes == ops::Dtypes::floating || arg.dtypes == ops::Dtypes::any);
        break;
      case Mistake::no_accumulate:
        fits = adds;
        break;
      case Mistake::always_accumulate:
        fits = arg.role == ops::Role::output;
        break;
      case Mistake::lost_term:
        fits = !written && !integer;
        break;
      case Mistake::ignored_mask:
      case Mistake::wrong_mask_row:
      case Mistake::wrong_mask_stride:
        fits = arg.name == "mask" && arg.shape.find("mask_keys") == 1;
        break;
      case Mistake::read_past_end:
      case Mistake::write_input:
      case Mistake::stale_input:
        fits = !written && !lengths;
        break;
      case Mistake::wrong_index:
        fits = !written && integer && !lengths;
        break;
      case Mistake::wrong_length:
        fits = lengths;
        break;
      default:
        break;
    }
    if (fits) out.push_back(i);
  }
  switch (mistake) {
    case Mistake::stale_lengths:
    case Mistake::short_count:
    case Mistake::long_count:
      if ((conformance::recipe_of(spec.id).features & conformance::kDynamic) == 0) return {};
      return {-1};
    case Mistake::stale_replay:
    case Mistake::partial_update:
    case Mistake::first_slot:
      if ((conformance::recipe_of(spec.id).features & conformance::kDynamic) == 0) return {};
      return {-1};
    case Mistake::forgotten_key:
      if (spec.id == TERN_OP_ATTENTION || spec.id == TERN_OP_ATTENTION_BACKWARD) return {-1};
      return spec.id == TERN_OP_ATTENTION_PAGED ? std::vector<int>{-1} : std::vector<int>{};
    case Mistake::key_past_block:
      return spec.id == TERN_OP_ATTENTION_PAGED ? std::vector<int>{-1} : std::vector<int>{};
    case Mistake::stale_workspace:
    case Mistake::shared_workspace:
    case Mistake::ignored_stream:
    case Mistake::other_choice:
    case Mistake::ignored_surplus:
    case Mistake::leak:
      return {-1};
    case Mistake::wrong_attribute:
      for (int i = 0; i < static_cast<int>(spec.attrs.size()); ++i) {
        // bounds on lengths change nothing by themselves
        if (spec.attrs[static_cast<std::size_t>(i)].name.substr(0, 10) != "max_seqlen") out.push_back(i);
      }
      return out;
    default:
      return out;
  }
}

// Only cases on which the mistake can show are run.
bool shows(std::uint32_t op, Mistake mistake, const conformance::Variant& v) {
  switch (mistake) {
    case Mistake::wrong_stride:
      return v.layout == conformance::Layout::padded_rows;
    case Mistake::no_accumulate:
      return v.accumulate;
    case Mistake::short_count:
    case Mistake::long_count:
    case Mistake::count_tail:
    case Mistake::stale_replay:
      return v.dynamic;
    case Mistake::partial_update:
      return v.dynamic && v.size == 1 && v.in == TERN_F32;
    case Mistake::first_slot:
      return v.high_slots;
    case Mistake::leak:
      return v.size == 1 && v.option == 0 && v.in == TERN_F32;
    case Mistake::rows_past_256:
    case Mistake::columns_past_1024:
    case Mistake::features_past_64:
    case Mistake::wrong_tile:
    case Mistake::forgotten_key:
    case Mistake::key_past_block:
    case Mistake::lost_gradient:
      return v.needs == 0 && !v.dynamic && v.special == 0 && v.layout == conformance::Layout::contiguous;
    case Mistake::lost_special:
      return v.special != 0 || v.size <= 3;
    case Mistake::not_deterministic:
      return (v.needs & TERN_NEED_DETERMINISTIC) != 0;
    case Mistake::row_variant:
      return (v.needs & TERN_NEED_ROW_INVARIANT) != 0;
    case Mistake::wrong_rounding:
      return v.in != TERN_F32 || v.out != TERN_F32 || op == TERN_OP_CAST_COPY || op == TERN_OP_ADAMW;
    case Mistake::wrong_attribute:
      return true;
    case Mistake::tf32:  // of products the longest sums alone: errors that cancel must show as well
      return v.in == TERN_F32 && v.out == TERN_F32 && v.option <= 1 &&
             (op == TERN_OP_MATMUL ? v.size == 6 || v.size >= 10 : v.size <= 4);
    default:
      return v.size <= 4;
  }
}

bool needs_laws(Mistake mistake) {
  switch (mistake) {
    case Mistake::stale_workspace:
    case Mistake::stale_lengths:
    case Mistake::stale_input:
    case Mistake::not_deterministic:
    case Mistake::row_variant:
    case Mistake::ignored_stream:
    case Mistake::other_choice:
    case Mistake::ignored_surplus:
    case Mistake::shared_workspace:
    case Mistake::stale_replay:
    case Mistake::partial_update:
    case Mistake::leak:
      return true;
    default:
      return false;
  }
}

std::string place_name(const ops::OpSpec& spec, Mistake mistake, int place) {
  if (place < 0) return std::string(spec.name);
  const auto at = static_cast<std::size_t>(place);
  return cat(spec.name, ".", mistake == Mistake::wrong_attribute ? spec.attrs[at].name : spec.args[at].name);
}

// A device may store one dtype alone: the suite must find the mistake by the cases of each.
std::vector<tern_dtype> dtypes_of(std::uint32_t op) {
  if ((conformance::recipe_of(op).features & conformance::kDtypes) == 0) return {TERN_F32};
  return {TERN_F32, TERN_BF16, TERN_F16};
}

void try_kernels(const std::shared_ptr<const accel::Backend>& sound, const ops::OpSpec& spec, Tally& tally) {
  for (Mistake mistake : mutant::kernel_mistakes()) {
    for (int place : places(spec, mistake)) {
      const std::string name = cat(mutant::name_of(mistake), " ", place_name(spec, mistake, place));
      bool made = false;
      for (const tern_dtype dtype : dtypes_of(spec.id)) {
        const auto backend = mutant::mutate(sound, {.mistake = mistake, .op = spec.id, .arg = place});
        const accel::DevicePtr device = accel::Device::open(backend, 0).value();
        const bool is_of_captures = mistake == Mistake::stale_replay || mistake == Mistake::partial_update;
        if (is_of_captures && !device->can(TERN_CAP_CAPTURE)) {
          made = true;  // nothing to be wrong
          break;
        }
        conformance::Bench bench = conformance::make_bench(device);
        conformance::SelftestOptions options;
        options.stop_after = 1;
        options.laws = needs_laws(mistake);
        options.rules = false;
        options.only = [mistake, op = spec.id, dtype](const conformance::Variant& v) {
          return v.in == dtype && shows(op, mistake, v);
        };
        const conformance::OpReport report = conformance::test_op(bench, spec.id, options);
        if (mutant::times_made() == 0) continue;
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
    std::cerr << "usage: mutants BACKEND.so EQUIVALENT.txt [OP...]\n";
    return 2;
  }
  std::set<std::string> equivalent = read_equivalent(argv[2]);
  std::set<std::string> wanted(argv + 3, argv + argc);
  Tally tally;
  // first, while this process has no threads
  for (const ops::OpSpec& spec : ops::op_table()) {
    if (wanted.empty() || wanted.count(std::string(spec.name)) != 0) {
      for (Mistake mistake : {Mistake::late_host_args, Mistake::late_desc, Mistake::late_bind_args}) {
        try_late_reading(argv[1], spec, mistake, tally);
      }
    }
  }
  const auto sound = accel::Backend::load(argv[1]).value();
  for (const ops::OpSpec& spec : ops::op_table()) {
    if (wanted.empty() || wanted.count(std::string(spec.name)) != 0) try_kernels(sound, spec, tally);
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
  for (const std::string& name : equivalent) {
    if (!wanted.empty()) break;
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
