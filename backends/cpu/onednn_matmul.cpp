// Dense products by oneDNN. Its teams of OpenMP threads would fight the pool, so each of the pool's threads calls it as
// a team of one and the work is split here: groups of column chunks of the right side are packed, then chunks by parts
// of the rows are multiplied. The split follows from the shapes alone, so the number of threads changes no bit.
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "backends/cpu/check.h"
#include "backends/cpu/matmul_operand.h"
#include "backends/cpu/onednn.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

using dnnl::memory;
using Strides = std::array<std::int64_t, 2>;

// Below these, packing the right side at each call costs more than the product could gain.
constexpr std::int64_t kLeastRows = 32;
constexpr std::int64_t kLeastFlops = 1 << 23;
constexpr std::int64_t kChunkBytes = 512 * 1024;  // of packed columns: half of a second-level cache
constexpr std::int64_t kGroupChunks = 8;          // packed at once
constexpr std::int64_t kTasks = 8;                // wanted in a group

// One library call is one thread, whatever the process' OpenMP was told; told back on the way out.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A product as either op asks for it; b is addressed [k, n].
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  int a = 0, b = 0, bias = 0, out = 0;  // arguments
  Strides a_strides{}, b_strides{};
  tern_dtype compute = TERN_F32;
  float alpha = 1.0F;
  bool has_bias = false, accumulate = false;
  tern_dtype a_dtype = TERN_F32, b_dtype = TERN_F32, bias_dtype = TERN_F32, out_dtype = TERN_F32;
  std::int64_t out_stride = 0;

  [[nodiscard]] std::int64_t compute_size() const { return compute == TERN_F32 ? 4 : 2; }
  // Its fast kernels take matrices without gaps only.
  [[nodiscard]] bool copies_a() const { return a_dtype != compute || a_strides != Strides{k, 1}; }
};

memory::data_type type_of(tern_dtype dtype) {
  return dtype == TERN_F32 ? memory::data_type::f32 : memory::data_type::bf16;
}

bool is_f32_or_bf16(tern_dtype dtype) { return dtype == TERN_F32 || dtype == TERN_BF16; }

bool refuse(std::string& reason, std::string_view text) {
  reason = cat("oneDNN: ", text);
  return false;
}

Product product_of(const PlanDesc& desc) {
  Product p;
  bool ta = false, tb = false;
  if (desc.op.op == TERN_OP_MATMUL) {
    const auto& attrs = desc.attrs<tern_matmul_attrs>();
    p.compute = attrs.compute;
    p.alpha = attrs.alpha;
    ta = attrs.transpose_a != 0;
    tb = attrs.transpose_b != 0;
    p.a = TERN_MATMUL_A, p.b = TERN_MATMUL_B, p.bias = TERN_MATMUL_BIAS, p.out = TERN_MATMUL_OUT;
  } else {
    const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
    p.compute = attrs.compute;
    tb = attrs.transpose_w != 0;
    p.a = TERN_MATMUL_Q_X, p.b = TERN_MATMUL_Q_W, p.bias = TERN_MATMUL_Q_BIAS, p.out = TERN_MATMUL_Q_Y;
  }
  const auto &a = desc.arg(p.a), &b = desc.arg(p.b), &out = desc.arg(p.out);
  p.m = out.shape[0];
  p.n = out.shape[1];
  p.k = a.shape[ta ? 0 : 1];
  p.a_strides = {a.strides[ta ? 1 : 0], a.strides[ta ? 0 : 1]};
  p.b_strides = {b.strides[tb ? 1 : 0], b.strides[tb ? 0 : 1]};
  p.a_dtype = a.dtype;
  p.b_dtype = b.dtype;
  p.out_dtype = out.dtype;
  p.out_stride = out.strides[0];
  p.has_bias = desc.present(p.bias);
  if (p.has_bias) p.bias_dtype = desc.arg(p.bias).dtype;
  p.accumulate = (desc.op.accumulate >> p.out & 1U) != 0;
  return p;
}

bool check_forms(const PlanDesc& desc, const Product& p, std::string& reason) {
  if ((desc.op.needs & TERN_NEED_ROW_INVARIANT) != 0) {
    return refuse(reason, "its bits may depend on the number of rows");
  }
  for (const int i : {p.a, p.b, p.out}) {
    const auto& arg = desc.arg(i);
    if (arg.rank != 2) return refuse(reason, "batches are not split here");
    if (arg.layout != 0 || arg.scheme.packing != TERN_PACK_NONE) return refuse(reason, "an operand is packed already");
    if (arg.dynamic_dim >= 0) return refuse(reason, "a size is dynamic");
    if (!is_f32_or_bf16(arg.dtype)) return refuse(reason, "an operand is neither f32 nor bf16");
  }
  if (p.alpha != 1.0F) return refuse(reason, "alpha is another than 1");
  if (!is_f32_or_bf16(p.compute)) return refuse(reason, "products are computed in f32 or bf16");
  // Its choice of instructions is its own: a lower target than it would take must not be exceeded.
  if (desc.target < Target::avx512_bf16 && (p.compute == TERN_BF16 || desc.target < Target::avx512)) {
    return refuse(reason, "this instruction set is not one that it serves well");
  }
  if (desc.target > Target::amx_bf16) return refuse(reason, "only its x86 kernels are known to be fast");
  if (p.compute == TERN_F32 && p.out_dtype != TERN_F32) return refuse(reason, "f32 products give f32");
  if (p.has_bias && (desc.arg(p.bias).strides[0] != 1 || !is_f32_or_bf16(p.bias_dtype) ||
                     (p.compute == TERN_F32 && p.bias_dtype != TERN_F32))) {
    return refuse(reason, "the bias has a form that it does not take");
  }
  std::int64_t flops = 0;
  if (__builtin_mul_overflow(p.m, p.n, &flops) || __builtin_mul_overflow(flops, p.k, &flops) || p.m < kLeastRows ||
      flops < kLeastFlops / 2) {
    return refuse(reason, "the product is too small to gain, or none");
  }
  const bool lines = (p.a_strides[0] == 1 || p.a_strides[1] == 1) && (p.b_strides[0] == 1 || p.b_strides[1] == 1);
  const bool apart =
      p.a_strides[0] >= (p.a_strides[1] == 1 ? p.k : 1) && p.a_strides[1] >= (p.a_strides[0] == 1 ? p.m : 1) &&
      p.b_strides[0] >= (p.b_strides[1] == 1 ? p.n : 1) && p.b_strides[1] >= (p.b_strides[0] == 1 ? p.k : 1);
  if (!lines || !apart || desc.arg(p.out).strides[1] != 1 || p.out_stride < p.n) {
    return refuse(reason, "an operand has no contiguous rows");
  }
  return true;
}

// A range cut into pieces of one size and a rest.
struct Split {
  std::int64_t total = 0, size = 0;

  [[nodiscard]] std::int64_t count() const { return (total + size - 1) / size; }
  [[nodiscard]] std::int64_t begin(std::int64_t i) const { return i * size; }
  [[nodiscard]] std::int64_t length(int kind) const { return kind == 0 ? std::min(size, total) : total % size; }
  [[nodiscard]] int kind(std::int64_t i) const { return (i + 1) * size > std::max(size, total) ? 1 : 0; }
  [[nodiscard]] int kinds() const { return total > size && total % size != 0 ? 2 : 1; }
};

// How the work is cut and what the library makes of the pieces, before any code is generated.
struct Design {
  Product p;
  Split rows, columns;
  std::array<memory::desc, 2> a_given, a, b_given, b, bias;  // by kind of piece
  std::array<std::array<memory::desc, 2>, 2> out;            // [rows][columns]
  std::array<std::array<dnnl::matmul::primitive_desc, 2>, 2> product;
  std::array<dnnl::reorder::primitive_desc, 2> copy_a, pack_b;
  std::uint64_t a_bytes = 0, chunk_bytes = 0, scratch_bytes = 0;  // chunk: one of packed columns; scratch: of a thread

  // Whether results are made apart and copied to where they belong, which has gaps between the rows of a chunk.
  [[nodiscard]] bool stages_out() const { return columns.count() > 1 || p.out_stride != p.n; }
  [[nodiscard]] std::int64_t out_row_bytes(int column_kind) const {
    return columns.length(column_kind) * dtype_size(p.out_dtype);
  }
  [[nodiscard]] std::uint64_t stage_bytes() const {
    return stages_out() ? round_up(static_cast<std::uint64_t>(rows.length(0) * out_row_bytes(0))) : 0;
  }
  // What a thread has for itself: the library's scratch, then the stage.
  [[nodiscard]] std::uint64_t thread_bytes() const { return round_up(scratch_bytes) + stage_bytes(); }
  [[nodiscard]] std::int64_t group() const { return std::min(kGroupChunks, columns.count()); }
};

void cut(Design& d) {
  const Product& p = d.p;
  const auto up = [](std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; };
  const std::int64_t widest = std::clamp<std::int64_t>(kChunkBytes / (p.k * p.compute_size()) / 64 * 64, 64, 512);
  const std::int64_t chunks = (p.n + widest - 1) / widest;
  d.columns = {p.n, up((p.n + chunks - 1) / chunks, 64)};
  const std::int64_t parts = std::max<std::int64_t>(1, kTasks / d.group());
  d.rows = {p.m, std::max<std::int64_t>(64, up((p.m + parts - 1) / parts, 16))};
}

// False with the reason where one of the pieces is not served by the kernels that are wanted.
bool design(const Product& p, Design& d, std::string& reason) {
  const OneThread alone;
  const dnnl::engine& engine = cpu_engine();
  d.p = p;
  cut(d);
  const auto compute = type_of(p.compute);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::primitive_attr product_attr;
  product_attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    product_attr.set_post_ops(sum);
  }
  const auto need = [&](std::size_t bytes) { d.scratch_bytes = std::max<std::uint64_t>(d.scratch_bytes, bytes); };
  for (int c = 0; c < d.columns.kinds(); ++c) {
    const auto ci = static_cast<std::size_t>(c);
    const std::int64_t n = d.columns.length(c);
    if (p.has_bias) d.bias[ci] = {{1, n}, type_of(p.bias_dtype), memory::dims{n, 1}};
    for (int r = 0; r < d.rows.kinds(); ++r) {
      const auto ri = static_cast<std::size_t>(r);
      const std::int64_t m = d.rows.length(r);
      d.a_given[ri] = {{m, p.k}, type_of(p.a_dtype), memory::dims{p.a_strides[0], p.a_strides[1]}};
      d.a[ri] = p.copies_a() ? memory::desc({m, p.k}, compute, memory::dims{p.k, 1}) : d.a_given[ri];
      d.out[ri][ci] = {{m, n}, type_of(p.out_dtype), memory::dims{n, 1}};
      // The packing of a chunk must serve every part of the rows: the first one chooses it.
      const memory::desc b = r == 0 ? memory::desc({p.k, n}, compute, memory::format_tag::any) : d.b[ci];
      const dnnl::matmul::desc asked = p.has_bias ? dnnl::matmul::desc(d.a[ri], b, d.bias[ci], d.out[ri][ci])
                                                  : dnnl::matmul::desc(d.a[ri], b, d.out[ri][ci]);
      d.product[ri][ci] = {asked, product_attr, engine, true};
      const auto& made = d.product[ri][ci];
      if (!made) return refuse(reason, "it has no kernel for this product");
      if (!std::string_view(made.impl_info_str()).starts_with("brg")) {
        return refuse(reason, cat("it would compute this product by ", made.impl_info_str()));
      }
      d.b[ci] = made.weights_desc();
      need(made.scratchpad_desc().get_size());
    }
    d.b_given[ci] = {{p.k, n}, type_of(p.b_dtype), memory::dims{p.b_strides[0], p.b_strides[1]}};
    d.pack_b[ci] = {engine, d.b_given[ci], engine, d.b[ci], attr, true};
    if (!d.pack_b[ci]) return refuse(reason, "it cannot pack the right side");
    need(d.pack_b[ci].scratchpad_desc().get_size());
    d.chunk_bytes = std::max<std::uint64_t>(d.chunk_bytes, round_up(d.b[ci].get_size()));
  }
  if (!p.copies_a()) return true;
  for (int r = 0; r < d.rows.kinds(); ++r) {
    const auto ri = static_cast<std::size_t>(r);
    d.copy_a[ri] = {engine, d.a_given[ri], engine, d.a[ri], attr, true};
    if (!d.copy_a[ri]) return refuse(reason, "it cannot convert the left side");
    need(d.copy_a[ri].scratchpad_desc().get_size());
  }
  d.a_bytes = round_up(static_cast<std::uint64_t>(p.m * p.k * p.compute_size()));
  return true;
}

bool onednn_supports(const PlanDesc& desc, std::string& reason) {
  for (const KernelEntry& ours : matmul_kernels()) {  // whether the arguments fit each other is asked once, there
    if (ours.op == desc.op.op && !ours.supports(desc, reason)) return false;
  }
  if (desc.arg(0).rank != 2) return refuse(reason, "batches are not split here");
  const Product p = product_of(desc);
  Design d;
  if (!check_forms(desc, p, reason)) return false;
  try {
    return design(p, d, reason);
  } catch (const dnnl::error& error) {
    return refuse(reason, error.what());
  }
}

Design design_of(const PlanDesc& desc) {
  Design d;
  std::string reason;
  if (!design(product_of(desc), d, reason)) throw dnnl::error(dnnl_unimplemented, reason.c_str());
  return d;
}

struct Program {
  Design d;
  std::array<std::array<dnnl::matmul, 2>, 2> product;
  std::array<dnnl::reorder, 2> copy_a, pack_b;
};

std::uint64_t onednn_workspace(const PlanDesc& desc) {
  const Design d = design_of(desc);
  return d.a_bytes + d.chunk_bytes * static_cast<std::uint64_t>(d.group()) +
         d.thread_bytes() * static_cast<std::uint64_t>(desc.num_threads);
}

std::shared_ptr<void> onednn_prepare(const PlanDesc& desc) {
  auto program = std::make_shared<Program>();
  program->d = design_of(desc);
  const Design& d = program->d;
  const OneThread alone;
  for (std::size_t c = 0; c < static_cast<std::size_t>(d.columns.kinds()); ++c) {
    program->pack_b[c] = dnnl::reorder(d.pack_b[c]);
    for (std::size_t r = 0; r < static_cast<std::size_t>(d.rows.kinds()); ++r) {
      program->product[r][c] = dnnl::matmul(d.product[r][c]);
      if (c == 0 && d.p.copies_a()) program->copy_a[r] = dnnl::reorder(d.copy_a[r]);
    }
  }
  return program;
}

void copy_lines(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t lines,
                std::int64_t bytes) {
  for (std::int64_t i = 0; i < lines; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
  }
}

// One launch: where everything lies.
struct Run {
  const Program& program;
  std::byte *a, *b, *bias, *out;  // as given
  std::byte *copied_a, *packed, *scratch;

  [[nodiscard]] memory scratchpad(const memory::desc& desc, int thread) const {
    return {desc, cpu_engine(), scratch + program.d.thread_bytes() * static_cast<std::uint64_t>(thread)};
  }

  void reorder(const dnnl::reorder& primitive, const dnnl::reorder::primitive_desc& desc, const memory::desc& from,
               std::byte* source, const memory::desc& to, std::byte* target, int thread) const {
    const OneThread alone;
    dnnl::stream stream(cpu_engine());
    primitive.execute(stream, {{DNNL_ARG_FROM, memory(from, cpu_engine(), source)},
                               {DNNL_ARG_TO, memory(to, cpu_engine(), target)},
                               {DNNL_ARG_SCRATCHPAD, scratchpad(desc.scratchpad_desc(), thread)}});
  }

  void copy_rows(std::int64_t part, int thread) const {
    const Design& d = program.d;
    const auto kind = static_cast<std::size_t>(d.rows.kind(part));
    const std::int64_t row = d.rows.begin(part);
    reorder(program.copy_a[kind], d.copy_a[kind], d.a_given[kind], a + row * d.p.a_strides[0] * dtype_size(d.p.a_dtype),
            d.a[kind], copied_a + row * d.p.k * d.p.compute_size(), thread);
  }

  void pack_columns(std::int64_t chunk, std::int64_t first, int thread) const {
    const Design& d = program.d;
    const auto kind = static_cast<std::size_t>(d.columns.kind(chunk));
    reorder(program.pack_b[kind], d.pack_b[kind], d.b_given[kind],
            b + d.columns.begin(chunk) * d.p.b_strides[1] * dtype_size(d.p.b_dtype), d.b[kind],
            packed + static_cast<std::uint64_t>(chunk - first) * d.chunk_bytes, thread);
  }

  void multiply(std::int64_t part, std::int64_t chunk, std::int64_t first, int thread) const {
    const Design& d = program.d;
    const Product& p = d.p;
    const auto r = static_cast<std::size_t>(d.rows.kind(part)), c = static_cast<std::size_t>(d.columns.kind(chunk));
    const std::int64_t row = d.rows.begin(part), column = d.columns.begin(chunk);
    std::byte* left =
        p.copies_a() ? copied_a + row * p.k * p.compute_size() : a + row * p.a_strides[0] * dtype_size(p.a_dtype);
    std::byte* home = out + (row * p.out_stride + column) * dtype_size(p.out_dtype);
    std::byte* to = home;
    const std::int64_t rows = d.rows.length(d.rows.kind(part));
    const std::int64_t line = d.out_row_bytes(d.columns.kind(chunk)), step = p.out_stride * dtype_size(p.out_dtype);
    if (d.stages_out()) {
      to = scratch + d.thread_bytes() * static_cast<std::uint64_t>(thread) + round_up(d.scratch_bytes);
      if (p.accumulate) copy_lines(home, step, to, line, rows, line);
    }
    const OneThread alone;
    dnnl::stream stream(cpu_engine());
    std::unordered_map<int, memory> args = {
        {DNNL_ARG_SRC, memory(d.a[r], cpu_engine(), left)},
        {DNNL_ARG_WEIGHTS,
         memory(d.b[c], cpu_engine(), packed + static_cast<std::uint64_t>(chunk - first) * d.chunk_bytes)},
        {DNNL_ARG_DST, memory(d.out[r][c], cpu_engine(), to)},
        {DNNL_ARG_SCRATCHPAD, scratchpad(d.product[r][c].scratchpad_desc(), thread)}};
    if (p.has_bias) {
      args.emplace(DNNL_ARG_BIAS, memory(d.bias[c], cpu_engine(), bias + column * dtype_size(p.bias_dtype)));
    }
    program.product[r][c].execute(stream, args);
    if (d.stages_out()) copy_lines(to, line, home, step, rows, line);
  }
};

void onednn_run(const KernelArgs& args) {
  const auto& program = *static_cast<const Program*>(args.state);
  const Design& d = program.d;
  const auto at = [&](int i) { return args[i].data<std::byte>(); };
  std::byte* packed = args.workspace + d.a_bytes;
  const Run run{program,     at(d.p.a),      at(d.p.b), at(d.p.bias),
                at(d.p.out), args.workspace, packed,    packed + d.chunk_bytes * static_cast<std::uint64_t>(d.group())};
  const std::int64_t parts = d.rows.count(), chunks = d.columns.count(), group = d.group();
  if (d.p.copies_a()) {
    args.pool->parallel_tasks(parts, [&](std::int64_t part, int thread) { run.copy_rows(part, thread); });
  }
  for (std::int64_t first = 0; first < chunks; first += group) {
    const std::int64_t count = std::min(group, chunks - first);
    if (parts == 1) {  // packed columns are still in the cache of the thread that packed them
      args.pool->parallel_tasks(count, [&](std::int64_t i, int thread) {
        run.pack_columns(first + i, first, thread);
        run.multiply(0, first + i, first, thread);
      });
      continue;
    }
    args.pool->parallel_tasks(count, [&](std::int64_t i, int thread) { run.pack_columns(first + i, first, thread); });
    args.pool->parallel_tasks(count * parts, [&](std::int64_t task, int thread) {
      run.multiply(task % parts, first + task / parts, first, thread);
    });
  }
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_MATMUL, "onednn", onednn_supports, onednn_workspace, onednn_prepare, onednn_run},
    KernelEntry{TERN_OP_MATMUL_Q, "onednn", onednn_supports, onednn_workspace, onednn_prepare, onednn_run},
};

}  // namespace

KernelList onednn_kernels() { return kKernels; }

std::string onednn_version() {
  const dnnl_version_t& v = *dnnl::version();
  return cat(v.major, ".", v.minor, ".", v.patch);
}

}  // namespace tern::cpu
