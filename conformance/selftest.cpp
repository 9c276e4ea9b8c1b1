#include "conformance/selftest.h"

#include <algorithm>
#include <cmath>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/strings.h"
#include "conformance/compare.h"
#include "conformance/device_emitter.h"
#include "conformance/oracle_laws.h"
#include "conformance/requirement.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

std::string pad(std::string text, std::size_t width, bool left = false) {
  if (text.size() < width) text.insert(left ? 0 : text.size(), width - text.size(), ' ');
  return text;
}

void take(OpReport& report, LawResult&& result) {
  report.worst = std::max(report.worst, result.worst);
  for (Finding& finding : result.findings) report.findings.push_back(std::move(finding));
}

// The op's decomposition on the device's kernels; false where some part has none: `reason` says which.
bool run_decomposed(Bench& bench, const Case& c, std::string& reason, OpReport& report) {
  const auto decompose = ops::op_rules(c.op).decompose;
  if (report.host_reason.empty()) report.host_reason = reason;
  if (decompose == nullptr) return false;
  DeviceEmitter emitter(bench, c);
  const std::vector<ops::Value> results = decompose(emitter, emitter.call());
  if (results.empty()) return false;
  if (emitter.stuck()) {
    report.host_reason = reason = emitter.stuck_on();
    return false;
  }
  const std::vector<ops::ref::Tensor> expected = run_oracle(c);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!c.written(i) || !expected[i].present()) continue;
    const Comparison comparison = compare(c, static_cast<int>(i), expected[i], emitter.read(results[i]));
    report.worst = std::max(report.worst, comparison.worst);
    if (!comparison.problem.empty()) report.findings.push_back({"decomposed", comparison.problem, c});
  }
  return true;
}

// Enough for laws that are about neither sizes nor dtypes: a middling shape, in the device's first dtype.
bool is_middling(const accel::Device& device, const Variant& variant) {
  const bool has_f32 = (device.info().storage_dtypes >> TERN_F32 & 1U) != 0;
  const bool is_first = variant.in == (has_f32 ? TERN_F32 : TERN_BF16);
  return is_first && variant.size == 1 && variant.split == 0 && variant.option <= 1 && variant.special == 0 &&
         variant.needs == 0 && (variant.dynamic || variant.layout == Layout::contiguous);
}

void run_native(Bench& bench, const CaseSource& source, const Case& c, const SelftestOptions& options,
                OpReport& report) {
  LawResult result;
  check_values(bench, c, result);
  if (options.laws && result.findings.empty()) {
    const Variant& variant = source.variant;
    check_accumulation(bench, source, result);
    check_repetition(bench, c, result);
    check_row_invariance(bench, c, result);
    if (variant.packed) check_packing(bench, c, result);
    if (variant.needs == 0) check_split(bench, source, result);
    if (variant.split != 0 && variant.dynamic) check_capture(bench, source, result);
    // the rest on the smaller shapes: they are about memory and order, not about sizes
    if (variant.size <= 2 && variant.in != TERN_F16 && variant.split == 0) {
      check_reuse(bench, source, result);
      check_stream_order(bench, source, result);
      check_concurrency(bench, source, result);
      check_capture(bench, source, result);
      check_stale_lengths(bench, source, result);
      check_count_bounds(bench, source, result);
    }
    if (is_middling(*bench.device, variant)) {
      check_bindings(bench, source, result);
      check_captured_chain(bench, source, result);
      check_memory_use(bench, source, result);
      check_one_buffer(bench, source, result);
      check_imported(bench, source, result);
      check_versions(bench, source, result);
    }
  }
  take(report, std::move(result));
}

// A dropped NaN stays NaN in dropout's decomposition, as its contract says.
bool may_decompose(const Case& c) { return !(c.special && c.op == TERN_OP_DROPOUT); }

// The first case that the host would have to run, though one of the commands `required` needs the op.
void note_uncovered(const Case& c, std::uint32_t required, const std::string& reason, OpReport& report) {
  const std::string law = cat("needed by ", ops::command_words(ops::op_rules(c.op).needed_by & required));
  const auto has_law = [&](const Finding& finding) { return finding.law == law; };
  if (std::any_of(report.findings.begin(), report.findings.end(), has_law)) return;
  report.findings.push_back({law, cat("the host would have to run it: ", reason), c});
}

void check_rules(const CaseSource& source, const Case& c, OpReport& report) {
  if (source.variant.in != TERN_F32 || source.variant.out != TERN_F32 || source.variant.size > 1) return;
  if (source.variant.narrow_keys) return;  // bf16 doesn't move by a small step
  if (source.variant.split != 0) return;   // too many keys to move each
  int checked = 0;
  const std::string problem = check_gradient(c, checked);
  if (!problem.empty()) report.findings.push_back({"finite differences of the oracle", problem, c});
}

// Where the case counts in the report's coverage; null where it's no plain one.
Coverage* coverage_of(const Variant& variant, const Case& c, OpReport& report) {
  const bool plain = variant.needs == 0 && variant.layout == Layout::contiguous && variant.special == 0 &&
                     !variant.alias && !variant.packed;
  if (!plain) return nullptr;
  const bool quantised = std::any_of(
      c.args.begin(), c.args.end(), [](const Argument& arg) { return is_present(arg.desc) && is_quantised(arg.desc); });
  const tern_dtype dtype = variant.codes != TERN_F32 ? variant.codes : variant.in;
  return &report.coverage[quantised ? "quantised" : std::string(dtype_info(dtype).name)];
}

void skip(OpReport& report, const std::string& reason) {
  ++report.skipped;
  ++report.skip_reasons[reason];
}

// A case's argument that the device cannot hold in one piece, with room for what guards it.
bool is_too_large(const accel::Device& device, const Case& c) {
  const std::uint64_t most = device.info().largest_allocation_bytes / 8 * 7;
  return std::any_of(c.args.begin(), c.args.end(),
                     [&](const Argument& arg) { return is_present(arg.desc) && total_bytes(arg.desc) > most; });
}

}  // namespace

OpReport test_op(Bench& bench, std::uint32_t op, const SelftestOptions& options) {
  OpReport report;
  report.op = op;
  const bool needed = (ops::op_rules(op).needed_by & options.required) != 0;
  const tern_device_info& info = bench.device->info();
  const bool any_tails = bench.device->can(TERN_CAP_DYNAMIC_SHAPES);
  std::uint64_t place = 0;
  for (const CaseSource& source : case_sources(op, std::max(1, info.preferred_kv_block), any_tails)) {
    if (options.stop_after > 0 && static_cast<int>(report.findings.size()) >= options.stop_after) break;
    if (options.only && !options.only(source.variant)) continue;
    if (mix_key(mix_key(options.seed, op), place++) % options.one_in != 0) {
      skip(report, "left out by --one_in");
      continue;
    }
    const Case c = source.make(1);
    if (source.variant.alias && !bench.device->can(TERN_CAP_EAGER)) {
      skip(report, "a whole graph decides itself what shares memory");
      continue;
    }
    if (is_too_large(*bench.device, c)) {
      skip(report, "larger than the device allocates at once");
      continue;
    }
    try {
      accel::OpDesc desc = op_desc(c);
      const bool packed = std::any_of(c.args.begin(), c.args.end(), [](const Argument& arg) { return arg.packed; });
      if (packed) {
        const CaseMemory memory(bench.device, c, 0);
        if (memory.lacks_layout()) {
          skip(report, "the device has no private layout for the weight");
          continue;
        }
        desc = memory.op_desc();
      }
      accel::Verdict verdict = accel::supports(*bench.device, desc);
      if (packed && !verdict.native) {  // a device need not take its layouts everywhere
        skip(report, "no kernel takes the weight in its private layout");
        continue;
      }
      ++report.cases;
      Coverage* coverage = coverage_of(source.variant, c, report);
      if (options.laws && options.rules) check_rules(source, c, report);
      if (verdict.native) {
        ++report.native;
        if (coverage != nullptr) ++coverage->native;
        run_native(bench, source, c, options, report);
      } else if (may_decompose(c) && !packed && run_decomposed(bench, c, verdict.reason, report)) {
        ++report.decomposed;
        if (coverage != nullptr) ++coverage->decomposed;
      } else {
        ++report.host;
        if (coverage != nullptr) ++coverage->host;
        if (needed && is_required_case(*bench.device, source.variant, c)) {
          note_uncovered(c, options.required, verdict.reason, report);
        }
      }
    } catch (const Failure& failure) {
      report.findings.push_back({"values", failure.what(), c});
      renew_streams(bench);
    }
  }
  return report;
}

SelftestReport run_selftest(const accel::DevicePtr& device, const SelftestOptions& options,
                            const std::function<void(const OpReport&)>& progress) {
  SelftestReport out;
  Bench bench = make_bench(device);
  if (options.ops.empty()) out.capabilities = check_capabilities(bench);
  std::vector<std::uint32_t> ops = options.ops;
  if (ops.empty()) {
    for (const ops::OpSpec& spec : ops::op_table()) ops.push_back(spec.id);
  }
  for (std::uint32_t op : ops) {
    if (options.stopped != nullptr && options.stopped()) break;
    out.ops.push_back(test_op(bench, op, options));
    if (progress) progress(out.ops.back());
  }
  return out;
}

std::string replay(const accel::DevicePtr& device, const Case& c) {
  Bench bench = make_bench(device);
  accel::OpDesc desc = op_desc(c);
  const CaseMemory memory(device, c, 0);
  if (memory.lacks_layout()) return "the device has no private layout for this case";
  const accel::Verdict verdict = accel::supports(*device, memory.op_desc());
  if (!verdict.native) return cat("the device has no kernel for this case: ", verdict.reason);
  LawResult result;
  check_values(bench, c, result);
  check_repetition(bench, c, result);
  check_row_invariance(bench, c, result);
  return result.findings.empty() ? std::string() : cat(result.findings[0].law, ": ", result.findings[0].problem);
}

bool SelftestReport::passed() const {
  const bool kernels = std::all_of(ops.begin(), ops.end(), [](const OpReport& op) { return op.findings.empty(); });
  return kernels && std::all_of(capabilities.begin(), capabilities.end(),
                                [](const CapabilityResult& result) { return result.problem.empty(); });
}

std::string support_lines(const SelftestReport& report) {
  std::string out;
  for (const OpReport& op : report.ops) {
    for (const auto& [dtype, coverage] : op.coverage) {
      out += cat(ops::op_spec(op.op).name, "\t", dtype, "\t", coverage.native, "\t", coverage.decomposed, "\t",
                 coverage.host, "\t", op.findings.size(), "\n");
    }
  }
  return out;
}

std::string table_header() {
  return cat(pad("op", 24), pad("cases", 7, true), pad("native", 8, true), pad("decomposed", 12, true),
             pad("host", 6, true), pad("skipped", 9, true), pad("worst", 8, true), "  result\n");
}

std::string table_line(const OpReport& report) {
  const std::string worst = std::isinf(report.worst) ? "inf" : fixed(report.worst, 2);
  std::string out = cat(pad(std::string(ops::op_spec(report.op).name), 24), pad(cat(report.cases), 7, true),
                        pad(cat(report.native), 8, true), pad(cat(report.decomposed), 12, true),
                        pad(cat(report.host), 6, true), pad(cat(report.skipped), 9, true), pad(worst, 8, true), "  ");
  if (report.findings.empty()) {
    out += "ok";
    if (report.native == 0 && !report.host_reason.empty()) out += cat(" (", report.host_reason, ")");
    std::vector<std::string> skips;
    for (const auto& [reason, count] : report.skip_reasons) skips.push_back(cat(count, " ", reason));
    if (!skips.empty()) out += cat("; skipped: ", join(skips, ", "));
  } else {
    out += cat(report.findings.size(), " failed; ", report.findings[0].law, " (", report.findings[0].failing.label,
               "): ", report.findings[0].problem);
  }
  return out + "\n";
}

std::string SelftestReport::table() const {
  std::string out = table_header();
  for (const OpReport& report : ops) out += table_line(report);
  if (capabilities.empty()) return out;
  out += "\ncapability              flag    result\n";
  for (const CapabilityResult& result : capabilities) {
    out += cat(pad(result.name, 24), pad(result.set ? "set" : "clear", 8), result.verdict(), "\n");
  }
  return out;
}

}  // namespace tern::conformance
