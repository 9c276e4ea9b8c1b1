// conformance_run BACKEND.so [--device ORDINAL] [--op NAME...] [--require infer,train,serve] [--one_in N] [--seed S]
// [--support FILE] [--replay FILE]: exit status 0 where every case passes.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "base/strings.h"
#include "conformance/selftest.h"
#include "ops/facts.h"

namespace {

using namespace tern;

constexpr const char* kUsage =
    "usage: conformance_run BACKEND.so [--device ORDINAL] [--op NAME...] [--require infer,train,serve] [--one_in N] "
    "[--seed S] [--support FILE] [--replay FILE]";

struct Words {
  int ordinal = 0;
  std::string replay_file;
  std::string support_file;   // what docs/support.md is made from
  bool capabilities = false;  // alone
  conformance::SelftestOptions options;
};

void add_op(const std::string& name, Words& words) {
  if (name == "capabilities") {
    words.capabilities = true;
    return;
  }
  const ops::OpSpec* spec = ops::find_op(name);
  if (spec == nullptr) throw std::runtime_error(cat("no op is called ", name));
  words.options.ops.push_back(spec->id);
}

void take(const std::string& flag, const std::string& value, Words& words) {
  if (flag == "--device") {
    words.ordinal = std::stoi(value);
  } else if (flag == "--support") {
    words.support_file = value;
  } else if (flag == "--one_in") {
    words.options.one_in = std::max(1ULL, std::stoull(value));
  } else if (flag == "--seed") {
    words.options.seed = std::stoull(value);
  } else if (flag == "--replay") {
    words.replay_file = value;
  } else if (flag == "--op") {
    add_op(value, words);
  } else if (flag == "--require") {
    for (const std::string_view word : split(value, ',')) {
      const auto command = ops::find_command(word);
      if (!command) throw std::runtime_error(cat("--require takes infer, train and serve, not ", word));
      words.options.required |= *command;
    }
  } else {
    throw std::runtime_error(cat("there is no ", flag, "; ", kUsage));
  }
}

// Each flag has a value; --op has any number.
Words words_of(int argc, char** argv) {
  Words words;
  std::string flag;
  bool waits = false;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) == 0) {
      if (waits) throw std::runtime_error(cat(flag, " has no value; ", kUsage));
      flag = word;
      waits = true;
      continue;
    }
    if (!waits && flag != "--op") throw std::runtime_error(cat("no flag stands before ", word, "; ", kUsage));
    take(flag, word, words);
    waits = false;
  }
  if (waits) throw std::runtime_error(cat(flag, " has no value; ", kUsage));
  return words;
}

int run(int argc, char** argv) {
  if (argc < 2) throw std::runtime_error(kUsage);
  const Words words = words_of(argc, argv);
  const auto device = accel::Device::open(accel::Backend::load(argv[1]).value(), words.ordinal).value();
  if (!words.replay_file.empty()) {
    std::ifstream file(words.replay_file);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string problem = conformance::replay(device, conformance::read_case(text, words.replay_file).value());
    std::cout << (problem.empty() ? "ok" : problem) << "\n";
    return problem.empty() ? 0 : 1;
  }
  const auto show = [](const std::vector<conformance::CapabilityResult>& results) {
    bool passed = true;
    for (const auto& result : results) {
      std::cout << result.name << (result.set ? " set: " : " clear: ") << result.verdict() << "\n";
      passed = passed && result.problem.empty();
    }
    return passed;
  };
  if (words.capabilities) {
    conformance::Bench bench = conformance::make_bench(device);
    return show(conformance::check_capabilities(bench)) ? 0 : 1;
  }
  std::cout << conformance::table_header();
  const auto report = conformance::run_selftest(device, words.options, [](const conformance::OpReport& op) {
    std::cout << conformance::table_line(op) << std::flush;
    for (std::size_t i = 1; i < op.findings.size() && i < 6; ++i) {
      std::cout << "    " << op.findings[i].law << " (" << op.findings[i].failing.label
                << "): " << op.findings[i].problem << "\n";
    }
    if (op.findings.empty()) return;
    const std::string file = cat("selftest-", ops::op_spec(op.op).name, ".case");
    std::ofstream(file) << conformance::write_case(op.findings[0].failing);
    std::cout << "    replay with --replay " << file << "\n";
  });
  (void)show(report.capabilities);
  if (!words.support_file.empty()) std::ofstream(words.support_file) << conformance::support_lines(report);
  return report.passed() ? 0 : 1;
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
