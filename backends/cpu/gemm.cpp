#include "backends/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/tile_math.h"
#include "base/half.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kMaxRows = 768;           // of the left side that are packed at once
constexpr std::int64_t kMaxPackedA = 1LL << 20;  // 32-bit elements of them
constexpr std::int64_t kChunkSteps = 320;        // of k: a panel of the right side stays in the first cache
// The same beside 32 rows of the left side, which matrix instructions read faster than the second cache gives both.
constexpr std::int64_t kTileChunkSteps = 160;
constexpr std::int64_t kMaxTileColumns = 128;

// With matrix instructions, where the machine has them.
PanelFormat product_format(Target target, tern_dtype compute) {
  PanelFormat format = panel_format(target, compute);
  format.by_rows = format.pairs && format.kernels->multiply_rows_bf16 != nullptr;
  return format;
}

// Whether k of the right side lies side by side, so that its rows are had without turning them.
bool has_rows(const GemmOperand& b) {
  return b.kind == GemmOperand::Kind::rows_k || (b.kind == GemmOperand::Kind::strided && b.stride_k == 1);
}

// Columns of a task of many rows.
std::int64_t many_rows_columns(const PanelFormat& format) { return std::max(32, format.kernels->nr); }

struct Blocking {
  std::int64_t rows;        // packed at once, a multiple of the panel's rows unless there is one panel
  std::int64_t panel_rows;  // of the left side
  std::int64_t super_k;     // k of the left side that is packed at once
  std::int64_t chunk_k;     // k of the right side that is packed at once
  std::int64_t columns;     // of a task
};

// Columns of a task of few rows. They take several panels at once (panels_at_once), are cut at blocks of 32, as
// quantised rows are, and give each thread as many tasks: there is too little work for threads to even it out.
std::int64_t few_rows_columns(const PanelFormat& format, std::int64_t n, int num_threads) {
  const std::int64_t tasks = round_up((n + kMaxTileColumns - 1) / kMaxTileColumns, num_threads);
  return std::min(kMaxTileColumns, round_up((n + tasks - 1) / tasks, std::max(32, format.kernels->nr)));
}

Blocking choose_blocking(const PanelFormat& format, std::int64_t m, std::int64_t n, std::int64_t k, int num_threads) {
  Blocking b{};
  b.panel_rows = format.turned || format.by_rows ? kTileRows : std::min<std::int64_t>(m, format.kernels->mr);
  const std::int64_t blocks = std::max<std::int64_t>(1, (m + kMaxRows - 1) / kMaxRows);
  b.rows = round_up((m + blocks - 1) / blocks, b.panel_rows);
  // Chunks of about equal length. A row's sums are one chain, so cutting them elsewhere changes no bit.
  const std::int64_t pair = format.pairs ? 2 : 1, steps = std::max<std::int64_t>(1, format.steps(k));
  const std::int64_t most = format.by_rows ? kTileChunkSteps : kChunkSteps;
  const std::int64_t chunks = (steps + most - 1) / most;
  b.chunk_k = std::min(most, round_up((steps + chunks - 1) / chunks, 32)) * pair;
  const std::int64_t fit = std::max<std::int64_t>(1, kMaxPackedA / b.rows / (b.chunk_k / pair));
  b.super_k = b.chunk_k * std::min(fit, chunks);
  b.columns = m <= kPlainRows || format.turned ? few_rows_columns(format, n, num_threads) : many_rows_columns(format);
  return b;
}

bool is_direct(const GemmOutput& out) { return out.dtype == TERN_F32 && out.stride_n == 1; }

struct Layout {  // of the workspace, in 32-bit elements
  std::int64_t a, sums, thread, packed_b, tile, scratch, lines, thread_total, total;
};

Layout lay_out(const PanelFormat& format, const Blocking& b, std::int64_t m, std::int64_t n, std::int64_t k,
               bool direct, int num_threads) {
  Layout l{};
  const std::int64_t rows = std::min(b.rows, round_up(m, b.panel_rows));
  l.a = 0;
  l.sums = round_up(rows * format.steps(b.super_k), 16);
  l.thread = l.sums + (direct || k <= b.super_k ? 0 : round_up(rows * n, 16));
  l.packed_b = 0;
  l.tile = kChunkSteps * kMaxTileColumns;
  l.scratch = l.tile + round_up(rows * b.columns, 16);
  l.lines = l.scratch + kPackScratch;  // two rows of a task: bias, and the output's old values
  l.thread_total = l.lines + 2 * kMaxTileColumns;
  l.total = l.thread + l.thread_total * num_threads;
  return l;
}

// Everything that the tasks of one product share.
struct Job {
  const PanelFormat format;
  const Gemm& g;
  const Blocking b;
  const Layout l;
  std::uint32_t* workspace;
  bool direct;
  bool plain;         // the right side is read as it is stored
  bool expands;       // some of its rows at a time
  bool packs_blocks;  // by the kernel that does so
  int num_threads;
  bool scales_left;  // alpha goes into the left side as it is packed; else into the sums
  const TileMath& math;

  [[nodiscard]] std::uint32_t* thread_space(int thread) const { return workspace + l.thread + l.thread_total * thread; }
};

struct Part {  // the rows and the k that are packed now
  std::int64_t row0, rows, k0, kn;
};

void pack_left(const Job& job, const Part& part, ThreadPool& pool) {
  const std::int64_t panel = job.b.panel_rows * job.format.steps(job.b.super_k);
  const std::int64_t panels = (part.rows + job.b.panel_rows - 1) / job.b.panel_rows;
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (job.b.panel_rows * part.kn));
  pool.parallel_for(panels, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const std::int64_t first = begin * job.b.panel_rows;
    const std::int64_t rows = std::min(end * job.b.panel_rows, part.rows) - first;
    std::uint32_t* to = job.workspace + job.l.a + begin * panel;
    auto* scratch = reinterpret_cast<float*>(job.thread_space(thread) + job.l.scratch);
    if (job.format.by_rows) {
      return pack_rows(job.format, job.g.a, part.row0 + first, rows, part.k0, part.kn, to,
                       job.format.steps(job.b.super_k), scratch);
    }
    pack_panels(job.format, job.g.a, part.row0 + first, rows, part.k0, part.kn, job.b.panel_rows, to, panel, scratch);
    for (std::int64_t p = begin; job.scales_left && p < end; ++p) {
      auto* values = reinterpret_cast<float*>(job.workspace + job.l.a + p * panel);
      const auto count = static_cast<std::size_t>(job.b.panel_rows * job.format.steps(part.kn));
      job.math.scale(job.g.alpha, values, count, values);
    }
  });
}

// Rounds sums to the output's dtype, with bias and what the output held.
void finish_row(const Job& job, float* sums, std::int64_t row, std::int64_t column, std::int64_t n, const float* bias,
                float* line) {
  const GemmOutput& out = job.g.out;
  const GemmKernels& kernels = *job.format.kernels;
  if (job.g.alpha != 1.0F && !job.scales_left) job.math.scale(job.g.alpha, sums, static_cast<std::size_t>(n), sums);
  if (bias != nullptr) kernels.add(bias, sums, n);
  if (job.direct) return;
  const std::int64_t at = row * out.stride_m + column * out.stride_n;
  if (out.stride_n == 1 && out.dtype != TERN_F32) {
    auto* to = static_cast<std::uint16_t*>(out.data) + at;
    if (out.accumulate) {
      kernels.widen(out.dtype, to, line, n);
      kernels.add(line, sums, n);
    }
    kernels.narrow(out.dtype, sums, to, n);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = at + i * out.stride_n;
    if (out.dtype == TERN_F32) {
      float& to = static_cast<float*>(out.data)[index];
      to = out.accumulate ? to + sums[i] : sums[i];
      continue;
    }
    std::uint16_t& to = static_cast<std::uint16_t*>(out.data)[index];
    const bool bf16 = out.dtype == TERN_BF16;
    const float old = !out.accumulate ? 0.0F : bf16 ? bf16_to_float(to) : fp16_to_float(to);
    const float sum = out.accumulate ? old + sums[i] : sums[i];
    to = bf16 ? float_to_bf16(sum) : float_to_fp16(sum);
  }
}

const float* bias_line(const Job& job, std::int64_t column, std::int64_t n, float* line) {
  const GemmOutput& out = job.g.out;
  if (out.bias == nullptr) return nullptr;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = (column + i) * out.bias_stride;
    if (out.bias_dtype == TERN_F32) {
      line[i] = static_cast<const float*>(out.bias)[index];
    } else {
      const std::uint16_t bits = static_cast<const std::uint16_t*>(out.bias)[index];
      line[i] = out.bias_dtype == TERN_BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
    }
  }
  return line;
}

struct Sums {
  float* at;
  std::int64_t ld;
};

// What a task computes: rows [row, row + rows) of the part by columns [column, column + n).
struct Task {
  std::int64_t row, rows, column, n;
  int thread;
};

// Where the sums of a task are kept from one part's k to the next, or end.
Sums home_of(const Job& job, const Part& part, const Task& task, const Sums& tile) {
  if (job.direct) {
    const std::int64_t ld = job.g.out.stride_m;
    return {static_cast<float*>(job.g.out.data) + (part.row0 + task.row) * ld + task.column, ld};
  }
  if (job.g.k <= job.b.super_k) return tile;
  return {reinterpret_cast<float*>(job.workspace + job.l.sums) + task.row * job.g.n + task.column, job.g.n};
}

// Few rows by the right side as it is stored.
void multiply_plain(const Job& job, const Part& part, const Task& task, const Sums& home, bool none) {
  const GemmOperand& b = job.g.b;
  const std::int64_t words = job.format.pairs ? 2 : 1;
  const auto* data = static_cast<const std::byte*>(b.data);
  job.format.multiply_plain(
      {.k = job.format.steps(part.kn),
       .half = job.format.pairs && part.kn % 2 != 0,
       .a = job.workspace + job.l.a,
       .a_stride = job.b.panel_rows,
       .b = reinterpret_cast<const std::uint32_t*>(data + (task.column * b.stride_outer + part.k0) * (4 / words)),
       .b_stride = b.stride_outer / words,
       .from = none ? nullptr : home.at,
       .ld_from = home.ld,
       .c = home.at,
       .ldc = home.ld,
       .m = static_cast<int>(task.rows),
       .n = static_cast<int>(task.n)});
}

// Few rows by rows of the right side, some at a time, which are rounded and expanded on the way where they must be.
void multiply_turned(const Job& job, const Part& part, const Task& task, const Sums& home, const Sums& tile,
                     bool none) {
  const GemmOperand& b = job.g.b;
  std::uint32_t* mine = job.thread_space(task.thread);
  const bool as_stored = b.kind == GemmOperand::Kind::strided && b.dtype == TERN_BF16 && b.stride_outer % 2 == 0;
  for (std::int64_t column = 0; column < task.n; column += kTileRows) {
    const std::int64_t n = std::min<std::int64_t>(kTileRows, task.n - column);
    for (std::int64_t k = 0; k < part.kn; k += job.b.chunk_k) {
      const std::int64_t kn = std::min(job.b.chunk_k, part.kn - k), first = part.k0 + k;
      const std::uint32_t* rows = mine + job.l.packed_b;
      RowsOrder order = rows_in_tiles(kChunkSteps);
      if (as_stored && kn % 2 == 0) {
        const std::int64_t at = (task.column + column) * b.stride_outer + first;
        rows = reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(b.data) + at);
        order = rows_in_order(b.stride_outer / 2);
      } else {
        pack_rows(job.format, b, task.column + column, n, first, kn, mine + job.l.packed_b, kChunkSteps,
                  reinterpret_cast<float*>(mine + job.l.scratch));
      }
      const Sums from = k == 0 ? home : tile;
      const Sums to = k + kn == part.kn ? home : tile;
      job.format.kernels->multiply_turned_bf16({.k = job.format.steps(kn),
                                                .a = rows,
                                                .a_order = order,
                                                .b = job.workspace + job.l.a + job.format.steps(k) * kTileRows,
                                                .b_panel_stride = kTileRows * job.format.steps(job.b.super_k),
                                                .from = none && k == 0 ? nullptr : from.at + column,
                                                .ld_from = from.ld,
                                                .c = to.at + column,
                                                .ldc = to.ld,
                                                .m = n,
                                                .n = static_cast<int>(task.rows)});
    }
  }
}

// Few rows by rows of the right side that are expanded, so many at a time that they stay in the first cache.
void multiply_expanded(const Job& job, const Part& part, const Task& task, const Sums& home, bool none) {
  constexpr std::int64_t kColumns = 32, kSteps = 128;  // of k
  const std::int64_t words = job.format.pairs ? 2 : 1;
  std::uint32_t* expanded = job.thread_space(task.thread) + job.l.packed_b;
  RowExpander expander(job.format.target, job.g.b.rows);
  for (std::int64_t c = 0; c < task.n; c += kColumns) {
    const std::int64_t n = std::min(kColumns, task.n - c);
    for (std::int64_t k = 0; k < part.kn; k += kSteps) {
      const std::int64_t kn = std::min(kSteps, part.kn - k);
      for (std::int64_t i = 0; i < n; ++i) {
        std::uint32_t* to = expanded + i * kSteps / words;
        const std::int64_t row = task.column + c + i;
        const auto [next, bytes] = job.g.b.rows.bytes(row + kColumns, part.k0 + k, kn);
        for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(next + at);
        if (job.format.pairs) {
          expander.expand(row, part.k0 + k, kn, reinterpret_cast<std::uint16_t*>(to));
        } else {
          expander.expand(row, part.k0 + k, kn, reinterpret_cast<float*>(to));
          job.format.kernels->round(job.g.compute, reinterpret_cast<float*>(to), kn);
        }
      }
      job.format.multiply_plain({.k = job.format.steps(kn),
                                 .half = job.format.pairs && kn % 2 != 0,
                                 .a = job.workspace + job.l.a + job.format.steps(k) * job.b.panel_rows,
                                 .a_stride = job.b.panel_rows,
                                 .b = expanded,
                                 .b_stride = kSteps / words,
                                 .from = none && k == 0 ? nullptr : home.at + c,
                                 .ld_from = home.ld,
                                 .c = home.at + c,
                                 .ldc = home.ld,
                                 .m = static_cast<int>(task.rows),
                                 .n = static_cast<int>(n)});
    }
  }
}

// kn of k from `k` on of the task's columns of the right side, as panels.
void pack_right(const Job& job, const Task& task, std::int64_t k, std::int64_t kn, std::uint32_t* to) {
  const GemmKernels& kernels = *job.format.kernels;
  const GemmOperand& b = job.g.b;
  const std::int64_t panel = job.format.steps(kn) * kernels.nr;
  if (!job.packs_blocks) {
    auto* scratch = reinterpret_cast<float*>(job.thread_space(task.thread) + job.l.scratch);
    return pack_panels(job.format, b, task.column, task.n, k, kn, kernels.nr, to, panel, scratch);
  }
  for (std::int64_t i = 0; i < task.n; i += kernels.nr, to += panel) {
    kernels.pack_blocks_bf16({.packing = b.rows.scheme.packing,
                              .rows = b.rows.bytes(task.column + i, k, kn).at,
                              .row_bytes = b.rows.row_bytes,
                              .n = static_cast<int>(std::min<std::int64_t>(kernels.nr, task.n - i)),
                              .blocks = kn / 32,
                              .to = to,
                              .ahead = b.rows.row_bytes * job.b.columns * job.num_threads});
  }
}

void multiply_panels(const Job& job, const Part& part, const Task& task, const Sums& home, const Sums& tile,
                     bool none) {
  const GemmKernels& kernels = *job.format.kernels;
  std::uint32_t* mine = job.thread_space(task.thread);
  const std::int64_t panel_a = job.b.panel_rows * job.format.steps(job.b.super_k);
  for (std::int64_t k = 0; k < part.kn; k += job.b.chunk_k) {
    const std::int64_t kn = std::min(job.b.chunk_k, part.kn - k);
    const std::int64_t steps = job.format.steps(kn), first_step = job.format.steps(k);
    const std::uint32_t* b = mine + job.l.packed_b;
    std::int64_t panel_b = steps * kernels.nr;
    if (job.format.reads(job.g.b)) {
      panel_b = job.g.b.stride_outer;
      b = static_cast<const std::uint32_t*>(job.g.b.data) + task.column / kernels.nr * panel_b +
          job.format.steps(part.k0 + k) * kernels.nr;
    } else {
      pack_right(job, task, part.k0 + k, kn, mine + job.l.packed_b);
    }
    // Sums of a chunk of k stay in the tile: rows of a large output may share a set of the cache.
    const Sums from = k == 0 ? home : tile;
    const Sums to = k + kn == part.kn ? home : tile;
    const float* old = none && k == 0 ? nullptr : from.at;
    if (job.format.by_rows) {
      const RowsOrder order = rows_in_tiles(job.format.steps(job.b.super_k));
      job.format.kernels->multiply_rows_bf16({.k = steps,
                                              .a = job.workspace + job.l.a + order.at(task.row, first_step),
                                              .a_order = order,
                                              .b = b,
                                              .b_panel_stride = panel_b,
                                              .from = old,
                                              .ld_from = from.ld,
                                              .c = to.at,
                                              .ldc = to.ld,
                                              .m = task.rows,
                                              .n = static_cast<int>(task.n)});
      continue;
    }
    for (std::int64_t r = 0; r < task.rows; r += job.b.panel_rows) {
      const std::uint32_t* a =
          job.workspace + job.l.a + (task.row + r) / job.b.panel_rows * panel_a + first_step * job.b.panel_rows;
      job.format.multiply({.k = steps,
                           .a = a,
                           .a_stride = job.b.panel_rows,
                           .b = b,
                           .b_panel_stride = panel_b,
                           .from = old == nullptr ? nullptr : old + r * from.ld,
                           .ld_from = from.ld,
                           .c = to.at + r * to.ld,
                           .ldc = to.ld,
                           .m = static_cast<int>(std::min(job.b.panel_rows, task.rows - r)),
                           .n = static_cast<int>(task.n)});
    }
  }
}

void run_task(const Job& job, const Part& part, const Task& task) {
  std::uint32_t* mine = job.thread_space(task.thread);
  const Sums tile{reinterpret_cast<float*>(mine + job.l.tile), job.b.columns};
  const Sums home = home_of(job, part, task, tile);
  const bool none = part.k0 == 0 && !(job.direct && job.g.out.accumulate);
  if (job.plain) {
    multiply_plain(job, part, task, home, none);
  } else if (job.format.turned) {
    multiply_turned(job, part, task, home, tile, none);
  } else if (job.expands) {
    multiply_expanded(job, part, task, home, none);
  } else {
    multiply_panels(job, part, task, home, tile, none);
  }
  if (part.k0 + part.kn < job.g.k) return;
  float* lines = reinterpret_cast<float*>(mine + job.l.lines);
  const float* bias = bias_line(job, task.column, task.n, lines);
  if (job.direct && bias == nullptr) return;
  for (std::int64_t r = 0; r < task.rows; ++r) {
    finish_row(job, home.at + r * home.ld, part.row0 + task.row + r, task.column, task.n, bias,
               lines + kMaxTileColumns);
  }
}

// The product of nothing: the bias, added or stored.
void run_empty(const Job& job) {
  float* lines = reinterpret_cast<float*>(job.thread_space(0) + job.l.lines);
  float* sums = reinterpret_cast<float*>(job.thread_space(0) + job.l.tile);
  for (std::int64_t column = 0; column < job.g.n; column += job.b.columns) {
    const std::int64_t n = std::min(job.b.columns, job.g.n - column);
    const float* bias = bias_line(job, column, n, lines);
    for (std::int64_t row = 0; row < job.g.m; ++row) {
      float* to = sums;
      if (job.direct) to = static_cast<float*>(job.g.out.data) + row * job.g.out.stride_m + column;
      if (!job.direct || !job.g.out.accumulate) std::fill_n(to, n, 0.0F);
      finish_row(job, to, row, column, n, bias, lines + kMaxTileColumns);
    }
  }
}

}  // namespace

std::uint64_t gemm_workspace(Target target, std::int64_t m, std::int64_t n, std::int64_t k, tern_dtype compute,
                             int num_threads) {
  const PanelFormat format = product_format(target, compute);
  // A smaller m may take wider tasks or more k at once: the largest of each bound holds for all.
  const std::int64_t most = std::min(m, kMaxRows);
  const std::int64_t rows = std::max(round_up(most, format.kernels->mr), round_up(most, kTileRows));
  const std::int64_t k_steps = round_up(std::max<std::int64_t>(format.steps(k), 1), 32) + kChunkSteps;
  const std::int64_t packed = std::min(rows * k_steps, std::max(kMaxPackedA, rows * kChunkSteps));
  const std::int64_t few = format.by_rows ? kTurnedRows : 8;
  const std::int64_t tile = std::max(rows * many_rows_columns(format), few * kMaxTileColumns);
  const bool may_split = rows * k_steps > kMaxPackedA;
  const std::int64_t sums = may_split ? rows * n : 0;
  const std::int64_t thread = kChunkSteps * kMaxTileColumns + tile + kPackScratch + 2 * kMaxTileColumns + 64;
  return static_cast<std::uint64_t>(packed + sums + thread * num_threads + 64) * 4;
}

void gemm(Target target, const Gemm& g, std::byte* workspace, ThreadPool& pool) {
  if (g.m == 0 || g.n == 0) return;
  PanelFormat format = product_format(target, g.compute);
  const bool plain = g.m <= kPlainRows && format.reads_plain(g.b);
  format.turned = format.by_rows && !plain && g.m <= kTurnedRows && has_rows(g.b);
  format.by_rows = format.by_rows && !plain && !format.turned;
  const Blocking b = choose_blocking(format, g.m, g.n, g.k, pool.num_threads());
  const bool scales_left = g.alpha != 1.0F && g.compute == TERN_F32;  // where that rounds no more than the sums do
  const bool direct = is_direct(g.out) && (g.alpha == 1.0F || scales_left);
  const Job job{format,
                g,
                b,
                lay_out(format, b, g.m, g.n, g.k, direct, pool.num_threads()),
                reinterpret_cast<std::uint32_t*>(workspace),
                direct,
                plain,
                g.m <= kPlainRows && PanelFormat::expands_rows(g.b) && !format.turned,
                format.packs_blocks(g.b),
                pool.num_threads(),
                scales_left,
                tile_math(target)};
  if (g.k == 0) return run_empty(job);
  const std::int64_t column_tasks = (g.n + b.columns - 1) / b.columns;
  for (std::int64_t row0 = 0; row0 < g.m; row0 += b.rows) {
    const std::int64_t rows = std::min(b.rows, g.m - row0);
    // Few columns: rows are split too, by no less than four panels.
    const std::int64_t wanted = (4 * pool.num_threads() + column_tasks - 1) / column_tasks;
    const std::int64_t panels = (rows + b.panel_rows - 1) / b.panel_rows;
    const std::int64_t row_tasks = std::max<std::int64_t>(1, std::min(wanted, panels / 4));
    const std::int64_t task_rows = (panels + row_tasks - 1) / row_tasks * b.panel_rows;
    for (std::int64_t k0 = 0; k0 < g.k; k0 += b.super_k) {
      const Part part{row0, rows, k0, std::min(b.super_k, g.k - k0)};
      pack_left(job, part, pool);
      pool.parallel_tasks(column_tasks * row_tasks, [&](std::int64_t task, int thread) {
        const std::int64_t row = task % row_tasks * task_rows;
        if (row >= rows) return;
        const std::int64_t column = task / row_tasks * b.columns;
        run_task(job, part, {row, std::min(task_rows, rows - row), column, std::min(b.columns, g.n - column), thread});
      });
    }
  }
}

}  // namespace tern::cpu
