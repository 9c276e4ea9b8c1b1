#include "session/machine_rates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "ops/matmul.h"
#include "ops/sum_squares.h"

namespace tern::session {
namespace {

using ops::Value;

// Products of [rows, narrow] by [wide, narrow]^T and back, so many pairs in one run.
struct Products {
  std::int64_t rows, narrow, wide;
  int pairs;
  [[nodiscard]] double flops() const { return 2.0 * 2.0 * pairs * static_cast<double>(rows * narrow * wide); }
  // Operands and results in fp32, and as much again for private layouts and workspaces.
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(2 * sizeof(float)) *
           static_cast<std::uint64_t>(2 * rows * narrow + wide * narrow + rows * wide);
  }
};
constexpr Products kUsual{512, 576, 1536, 8};
// From one that a simulation does too to one that fills a large accelerator.
constexpr std::array kLadder = {Products{64, 64, 64, 2}, kUsual, Products{4096, 4096, 4096, 2},
                                Products{8192, 8192, 8192, 2}};
constexpr double kTooShort = 2e-3;  // seconds of a run: the next of the ladder tells more
// fp32 elements that are read once: more than caches hold, and long enough for a fast memory.
constexpr std::array<std::int64_t, 2> kRead = {std::int64_t{32} << 20, std::int64_t{512} << 20};
constexpr double kSeconds = 0.2;
constexpr double kMoment = 0.05;

// Best seconds of a run within `time`: what disturbs a measurement only ever makes it slower.
double best_seconds(graph::Program& program, double time = kSeconds) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  program.run({});  // memory is touched after it
  double best = 1e30;
  for (const auto begin = now(); seconds(begin, now()) < time;) {
    const auto start = now();
    program.run({});
    best = std::min(best, seconds(start, now()));
  }
  return best;
}

Value zeros(graph::Graph& graph, graph::TensorStore& store, const char* name, std::initializer_list<std::int64_t> shape,
            tern_dtype dtype = TERN_F32) {
  store.create(name, make_desc(dtype, shape));
  store.fill_zero(name);
  return graph.constant(name, store.at(name).desc);
}

std::unique_ptr<graph::Program> product_program(Runtime& runtime, accel::ChoiceCache& choices, tern_dtype compute,
                                                const Products& it) {
  const auto store = std::make_shared<graph::TensorStore>(runtime.device);
  graph::ProgramOptions plain = runtime.program;
  plain.profile = nullptr;
  graph::Graph products;
  // As models run there: a device that keeps activations in 16 bits has its fast products for operands that are.
  const bool narrow = runtime.device->info().activation_dtype != TERN_F32 && compute != TERN_COMPUTE_F32;
  const tern_dtype dtype = !narrow ? TERN_F32 : compute == TERN_COMPUTE_F16 ? TERN_F16 : TERN_BF16;
  Value x = zeros(products, *store, "x", {it.rows, it.narrow}, dtype);
  const Value w = zeros(products, *store, "w", {it.wide, it.narrow}, dtype);
  ops::MatmulOptions there{.transpose_b = true, .compute = compute, .out = dtype, .needs = TERN_NEED_DETERMINISTIC};
  ops::MatmulOptions back{.compute = compute, .out = dtype, .needs = TERN_NEED_DETERMINISTIC};
  for (int i = 0; i < it.pairs; ++i) x = ops::matmul(products, ops::matmul(products, x, w, there), w, back);
  products.output("sum", ops::sum_squares(products, x, {}, TERN_NEED_DETERMINISTIC));
  return graph::Program::build(products, store, choices, plain, runtime.host);
}

std::unique_ptr<graph::Program> reading_program(Runtime& runtime, std::int64_t elements) {
  const auto store = std::make_shared<graph::TensorStore>(runtime.device);
  graph::ProgramOptions plain = runtime.program;
  plain.profile = nullptr;
  graph::Graph reading;
  const Value much = zeros(reading, *store, "much", {elements});
  reading.output("sum", ops::sum_squares(reading, much, {}, TERN_NEED_DETERMINISTIC));
  return graph::Program::build(reading, store, runtime.choices, plain, runtime.host);
}

}  // namespace

double measure_products(Runtime& runtime, tern_dtype compute, std::uint64_t bytes) {
  accel::ChoiceCache choices = runtime.choices;
  double rate = 0;
  for (const Products& it : kLadder) {
    if (it.bytes() > bytes) break;
    const auto program = product_program(runtime, choices, compute, it);
    const double best = best_seconds(*program, kMoment);
    rate = it.flops() / best * 1e-9;
    if (best > kTooShort) break;
  }
  return rate;
}

MachineRates measure_machine(Runtime& runtime, tern_dtype compute) {
  constexpr std::uint64_t kShare = 8;  // of the free memory
  const std::uint64_t bytes = std::max(runtime.device->memory().free / kShare, kUsual.bytes());
  MachineRates rates;
  rates.gflops = measure_products(runtime, compute, bytes);
  for (const std::int64_t elements : kRead) {
    const std::uint64_t size = sizeof(float) * static_cast<std::uint64_t>(elements);
    if (rates.gbps > 0 && size > bytes) break;
    const double best = best_seconds(*reading_program(runtime, elements));
    rates.gbps = static_cast<double>(size) / best * 1e-9;
    if (best > kTooShort) break;
  }
  return rates;
}

}  // namespace tern::session
