// conformance_run BACKEND.so [--device ORDINAL] [--op NAME] [--require infer,train,serve] [--one_in N] [--seed S]
// [--support FILE] [--replay FILE]: exit status 0 where every case passes.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "base/strings.h"
#include "conformance/selftest.h"
#include "ops/facts.h"

namespace {

using namespace tern;

int run(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: conformance_run BACKEND.so [--device ORDINAL] [--op NAME] [--require infer,train,serve] "
                 "[--one_in N] [--seed S] [--support FILE] [--replay FILE]\n";
    return 2;
  }
  int ordinal = 0;
  std::string replay_file;
  std::string support_file;  // what docs/support.md is made from
  bool capabilities = false;  // alone
  conformance::SelftestOptions options;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--device") ordinal = std::stoi(argv[i + 1]);
    if (flag == "--support") support_file = argv[i + 1];
    if (flag == "--one_in") options.one_in = std::max(1ULL, std::stoull(argv[i + 1]));
    if (flag == "--seed") options.seed = std::stoull(argv[i + 1]);
    if (flag == "--replay") replay_file = argv[i + 1];
    if (flag == "--require") {
      for (const std::string_view word : split(argv[i + 1], ',')) {
        const auto command = ops::find_command(word);
        if (!command) {
          std::cerr << "--require takes infer, train and serve, not " << word << "\n";
          return 2;
        }
        options.required |= *command;
      }
    }
    if (flag == "--op" && std::string_view(argv[i + 1]) == "capabilities") {
      capabilities = true;
    } else if (flag == "--op") {
      const ops::OpSpec* spec = ops::find_op(argv[i + 1]);
      if (spec == nullptr) {
        std::cerr << "no op is called " << argv[i + 1] << "\n";
        return 2;
      }
      options.ops.push_back(spec->id);
    }
  }
  const auto device = accel::Device::open(accel::Backend::load(argv[1]).value(), ordinal).value();
  if (!replay_file.empty()) {
    std::ifstream file(replay_file);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string problem = conformance::replay(device, conformance::read_case(text, replay_file).value());
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
  if (capabilities) {
    conformance::Bench bench = conformance::make_bench(device);
    return show(conformance::check_capabilities(bench)) ? 0 : 1;
  }
  std::cout << conformance::table_header();
  const auto report = conformance::run_selftest(device, options, [](const conformance::OpReport& op) {
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
  if (!support_file.empty()) std::ofstream(support_file) << conformance::support_lines(report);
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
