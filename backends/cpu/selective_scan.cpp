#include <algorithm>
#include <cmath>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "backends/cpu/column_sum.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/recurrent.h"
#include "backends/cpu/tile_math.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kBlock = 32;  // columns of a state that a thread carries through a sequence: they stay in L1
constexpr std::int64_t kChunk = 64;  // rows whose states a backward holds at once
constexpr std::int64_t kParts = 8;   // of a group's heads in a backward, each with gradients of b and c of its own

// Arguments that forward and backward share.
struct Places {
  int x, dt, a, b, c, d, cu_seqlens;
};
constexpr Places kForward = {TERN_SELECTIVE_SCAN_X,         TERN_SELECTIVE_SCAN_DT, TERN_SELECTIVE_SCAN_A,
                             TERN_SELECTIVE_SCAN_B,         TERN_SELECTIVE_SCAN_C,  TERN_SELECTIVE_SCAN_D,
                             TERN_SELECTIVE_SCAN_CU_SEQLENS};
constexpr Places kBackward = {TERN_SELECTIVE_SCAN_BACKWARD_X,         TERN_SELECTIVE_SCAN_BACKWARD_DT,
                              TERN_SELECTIVE_SCAN_BACKWARD_A,         TERN_SELECTIVE_SCAN_BACKWARD_B,
                              TERN_SELECTIVE_SCAN_BACKWARD_C,         TERN_SELECTIVE_SCAN_BACKWARD_D,
                              TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS};

Check& check_inputs(Check& check, const PlanDesc& desc, const Places& at) {
  const auto &x = desc.arg(at.x), &b = desc.arg(at.b);
  return check.floats({at.x, at.b, at.c, at.d})
      .dtype(at.dt, TERN_F32)
      .dtype(at.a, TERN_F32)
      .dtype(at.cu_seqlens, TERN_I32)
      .rank(at.x, 3)
      .rank(at.b, 3)
      .rank(at.dt, 2)
      .rank(at.a, 1)
      .rank(at.d, 1)
      .same_shape({at.b, at.c})
      .dim(at.b, 0, x.shape[0])
      .dim(at.dt, 0, x.shape[0])
      .dim(at.dt, 1, x.shape[1])
      .dim(at.a, 0, x.shape[1])
      .dim(at.d, 0, x.shape[1])
      .that(b.shape[1] >= 1 && x.shape[1] % b.shape[1] == 0, "heads are no multiple of groups");
}

// The rows of a call, read into fp32.
class Rows {
 public:
  Rows(const KernelArgs& args, const Places& at)
      : x(args[at.x]),
        b(args[at.b]),
        c(args[at.c]),
        lines(args),
        heads(x.dim(1)),
        groups(b.dim(1)),
        states(b.dim(2)),
        values(x.dim(2)),
        dt_(args[at.dt]),
        a_(args[at.a]),
        d_(args[at.d]),
        io_(args) {}

  [[nodiscard]] std::int64_t group_of(std::int64_t head) const { return head / (heads / groups); }
  [[nodiscard]] float dt(std::int64_t row, std::int64_t head) const { return HeadLines::scalar(dt_, row, head); }
  [[nodiscard]] float a(std::int64_t head) const { return a_.data<const float>()[head * a_.stride(0)]; }
  [[nodiscard]] float kept(std::int64_t row, std::int64_t head) const {
    return static_cast<float>(std::exp(double{dt(row, head)} * double{a(head)}));
  }
  [[nodiscard]] float d(std::int64_t head) const {
    float value = 0.0F;
    return d_.present() ? *io_.load(d_, head * d_.stride(0), 1, 1, &value) : value;
  }

  const TensorView &x, &b, &c;
  const HeadLines lines;
  const std::int64_t heads, groups, states, values;

 private:
  const TensorView &dt_, &a_, &d_;
  TileIo io_;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_SELECTIVE_SCAN_X), &b = desc.arg(TERN_SELECTIVE_SCAN_B);
  const bool has_state = desc.present(TERN_SELECTIVE_SCAN_STATE);
  Check check(desc, reason);
  return check_inputs(check, desc, kForward)
      .floats({TERN_SELECTIVE_SCAN_OUT})
      .dtype(TERN_SELECTIVE_SCAN_KV_LENS, TERN_I32)
      .dtype(TERN_SELECTIVE_SCAN_SEATS, TERN_I32)
      .dtype(TERN_SELECTIVE_SCAN_STATE, TERN_F32)
      .that(has_state == desc.present(TERN_SELECTIVE_SCAN_SEATS) &&
                has_state == desc.present(TERN_SELECTIVE_SCAN_KV_LENS),
            "state comes with seats and kv_lens")
      .rank(TERN_SELECTIVE_SCAN_STATE, 4)
      .same_shape({TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_OUT})
      .same_shape({TERN_SELECTIVE_SCAN_KV_LENS, TERN_SELECTIVE_SCAN_SEATS})
      .rank(TERN_SELECTIVE_SCAN_CU_SEQLENS, 1)
      .dim(TERN_SELECTIVE_SCAN_SEATS, 0, desc.arg(TERN_SELECTIVE_SCAN_CU_SEQLENS).shape[0] - 1)
      .dim(TERN_SELECTIVE_SCAN_STATE, 1, x.shape[1])
      .dim(TERN_SELECTIVE_SCAN_STATE, 2, b.shape[2])
      .dim(TERN_SELECTIVE_SCAN_STATE, 3, x.shape[2])
      .ok();
}

// Of a thread, in floats: a block of columns, b, c, x, dt x and out.
std::int64_t forward_space(std::int64_t states) {
  return static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>((states + 3) * kBlock + 2 * states) * 4)) / 4;
}

std::uint64_t workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(forward_space(desc.arg(TERN_SELECTIVE_SCAN_B).shape[2]) * desc.num_threads) * 4;
}

void run(const KernelArgs& args) {
  const Rows rows(args, kForward);
  const TensorView &state = args[TERN_SELECTIVE_SCAN_STATE], &out = args[TERN_SELECTIVE_SCAN_OUT];
  const TileMath& math = tile_math(args.target);
  const Recurrences recurrences =
      read_recurrences(args,
                       {TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_CU_SEQLENS, TERN_SELECTIVE_SCAN_KV_LENS,
                        TERN_SELECTIVE_SCAN_SEATS, TERN_SELECTIVE_SCAN_STATE},
                       args.attr<tern_selective_scan_attrs>().max_seqlen, "selective_scan");
  fill_outside(out, recurrences.bounds, 0.0F);
  const std::int64_t blocks = (rows.values + kBlock - 1) / kBlock;
  const auto tasks = static_cast<std::int64_t>(recurrences.sequences.size()) * rows.heads * blocks;
  args.pool->parallel_tasks(tasks, [&](std::int64_t task, int thread) {
    const Recurrence& sequence = recurrences.sequences[static_cast<std::size_t>(task / blocks / rows.heads)];
    float* space = reinterpret_cast<float*>(args.workspace) + forward_space(rows.states) * thread;
    const std::int64_t head = task / blocks % rows.heads, first = task % blocks * kBlock;
    StateBlock block{head, first, std::min(kBlock, rows.values - first), rows.states, space, kBlock};
    float *b = space + rows.states * kBlock, *c = b + rows.states, *x = c + rows.states, *scaled = x + kBlock,
          *y = scaled + kBlock;
    const auto n = static_cast<std::size_t>(block.n);
    const float d = rows.d(head);
    load_state(state, sequence, block);
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      const float* own = rows.lines.load(rows.x, t, head, first, block.n, x);
      math.scale(rows.dt(t, head), own, n, scaled);
      const ScanRow row{rows.lines.load(rows.b, t, rows.group_of(head), b),
                        rows.lines.load(rows.c, t, rows.group_of(head), c), scaled, rows.kept(t, head),
                        static_cast<std::size_t>(rows.states)};
      math.selective_scan(row, n, static_cast<std::size_t>(block.stride), block.s, y);
      math.axpby(d, own, 1.0F, y, n, y);
      rows.lines.store(out, t, head, first, block.n, y);
    }
    store_state(state, sequence, block);
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const std::int64_t heads = desc.arg(TERN_SELECTIVE_SCAN_BACKWARD_X).shape[1];
  Check check(desc, reason);
  return check_inputs(check, desc, kBackward)
      .floats({TERN_SELECTIVE_SCAN_BACKWARD_DOUT, TERN_SELECTIVE_SCAN_BACKWARD_DX, TERN_SELECTIVE_SCAN_BACKWARD_DB,
               TERN_SELECTIVE_SCAN_BACKWARD_DC})
      .dtype(TERN_SELECTIVE_SCAN_BACKWARD_DDT, TERN_F32)
      .dtype(TERN_SELECTIVE_SCAN_BACKWARD_DA, TERN_F32)
      .dtype(TERN_SELECTIVE_SCAN_BACKWARD_DD, TERN_F32)
      .same_shape({TERN_SELECTIVE_SCAN_BACKWARD_X, TERN_SELECTIVE_SCAN_BACKWARD_DOUT, TERN_SELECTIVE_SCAN_BACKWARD_DX})
      .same_shape({TERN_SELECTIVE_SCAN_BACKWARD_DT, TERN_SELECTIVE_SCAN_BACKWARD_DDT})
      .same_shape({TERN_SELECTIVE_SCAN_BACKWARD_B, TERN_SELECTIVE_SCAN_BACKWARD_DB, TERN_SELECTIVE_SCAN_BACKWARD_DC})
      .rank(TERN_SELECTIVE_SCAN_BACKWARD_DA, 1)
      .rank(TERN_SELECTIVE_SCAN_BACKWARD_DD, 1)
      .dim(TERN_SELECTIVE_SCAN_BACKWARD_DA, 0, heads)
      .dim(TERN_SELECTIVE_SCAN_BACKWARD_DD, 0, heads)
      .ok();
}

// A backward's memory, in floats: what all threads share, then each thread's own.
struct Space {
  std::int64_t rates, skips;  // [rows, heads]: terms of da and dd
  std::int64_t db, dc;        // [parts, rows, states]
  std::int64_t shared;        // all of these
  std::int64_t state;         // of one head
  std::int64_t chunk;         // rows whose states are held
  std::int64_t borders, states, s, g, lines, own;
};

std::int64_t parts_of(std::int64_t heads, std::int64_t groups) { return groups * std::min(kParts, heads / groups); }

Space lay_out(const tern_tensor_desc& x, const tern_tensor_desc& b, std::int32_t max_seqlen) {
  Space space{};
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at;
    at += (floats + 15) / 16 * 16;
    return begin;
  };
  const std::int64_t rows = x.shape[0], heads = x.shape[1], values = x.shape[2], states = b.shape[2];
  const std::int64_t longest = longest_of(max_seqlen, rows);
  space.rates = take(rows * heads);
  space.skips = take(rows * heads);
  space.db = take(parts_of(heads, b.shape[1]) * rows * states);
  space.dc = take(parts_of(heads, b.shape[1]) * rows * states);
  space.shared = at;
  at = 0;
  space.state = states * values;
  space.chunk = std::min(kChunk, std::max<std::int64_t>(longest, 1));
  space.borders = take((longest + space.chunk - 1) / space.chunk * space.state);
  space.states = take(space.chunk * space.state);
  space.s = take(space.state);
  space.g = take(space.state);
  space.lines = take(2 * states + 4 * values);
  space.own = at;
  return space;
}

std::uint64_t backward_workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_SELECTIVE_SCAN_BACKWARD_X);
  const Space space =
      lay_out(x, desc.arg(TERN_SELECTIVE_SCAN_BACKWARD_B), desc.attrs<tern_selective_scan_backward_attrs>().max_seqlen);
  return static_cast<std::uint64_t>(space.shared + space.own * desc.num_threads) * 4;
}

// One sequence under some heads of a group. States within a chunk are computed again from the one at its border.
class Unit {
 public:
  Unit(const KernelArgs& args, const Rows& rows, const Space& space, const Recurrence& sequence, std::int64_t part,
       int thread)
      : args_(args),
        rows_(rows),
        math_(tile_math(args.target)),
        space_(space),
        sequence_(sequence),
        shared_(reinterpret_cast<float*>(args.workspace)),
        own_(shared_ + space.shared + space.own * thread),
        sums_(part * rows.x.dim(0) * rows.states),
        states_(static_cast<std::size_t>(rows.states)),
        values_(static_cast<std::size_t>(rows.values)) {
    const std::int64_t in_group = parts_of(rows.heads, rows.groups) / rows.groups, size = rows.heads / rows.groups;
    group_ = part / in_group;
    first_ = group_ * size + part % in_group * size / in_group;
    end_ = group_ * size + (part % in_group + 1) * size / in_group;
    float* at = own_ + space.lines;
    for (float** line : {&b_, &c_}) {
      *line = at;
      at += rows.states;
    }
    for (float** line : {&x_, &upstream_, &scaled_, &pulled_}) {
      *line = at;
      at += rows.values;
    }
  }

  void run() {
    const std::int64_t length = sequence_.length();
    for (const std::int64_t sums : {space_.db, space_.dc}) {
      std::fill_n(sum_of(sums, sequence_.begin), length * rows_.states, 0.0F);
    }
    float *s = own_ + space_.s, *g = own_ + space_.g;
    for (std::int64_t head = first_; head < end_; ++head) {
      std::fill_n(s, space_.state, 0.0F);
      std::fill_n(g, space_.state, 0.0F);
      for (std::int64_t i = 0; i < length; ++i) {
        if (i % space_.chunk == 0) std::copy_n(s, space_.state, border(i / space_.chunk));
        advance(head, i, s);
      }
      for (std::int64_t chunk = (length - 1) / space_.chunk; chunk >= 0; --chunk) run_chunk(head, chunk);
    }
  }

 private:
  [[nodiscard]] float* border(std::int64_t chunk) const { return own_ + space_.borders + chunk * space_.state; }
  [[nodiscard]] float* state(std::int64_t i) const { return own_ + space_.states + i * space_.state; }
  [[nodiscard]] float* sum_of(std::int64_t sums, std::int64_t row) const {
    return shared_ + sums + sums_ + row * rows_.states;
  }

  void advance(std::int64_t head, std::int64_t i, float* s) {
    const std::int64_t t = sequence_.begin + i;
    math_.scale(rows_.dt(t, head), rows_.lines.load(rows_.x, t, head, x_), values_, scaled_);
    const ScanRow row{rows_.lines.load(rows_.b, t, group_, b_), nullptr, scaled_, rows_.kept(t, head), states_};
    math_.selective_scan(row, values_, values_, s, nullptr);
  }

  void run_chunk(std::int64_t head, std::int64_t chunk) {
    const std::int64_t first = chunk * space_.chunk, end = std::min(sequence_.length(), first + space_.chunk);
    float* s = own_ + space_.s;
    std::copy_n(border(chunk), space_.state, s);
    for (std::int64_t i = first; i < end; ++i) {
      std::copy_n(s, space_.state, state(i - first));
      advance(head, i, s);
    }
    for (std::int64_t i = end - 1; i >= first; --i) step(head, sequence_.begin + i, state(i - first));
  }

  // From G of after row `t` to G of before it. `before`: S.
  void step(std::int64_t head, std::int64_t t, const float* before) {
    const float* x = rows_.lines.load(rows_.x, t, head, x_);
    const float* b = rows_.lines.load(rows_.b, t, group_, b_);
    const float* c = rows_.lines.load(rows_.c, t, group_, c_);
    const float* upstream = rows_.lines.load(args_[TERN_SELECTIVE_SCAN_BACKWARD_DOUT], t, head, upstream_);
    const float kept = rows_.kept(t, head), dt = rows_.dt(t, head);
    const float skipped = math_.dot(upstream, x, values_);
    float *db = sum_of(space_.db, t), *dc = sum_of(space_.dc, t);
    std::fill_n(pulled_, values_, 0.0F);
    double e = 0.0;
    for (std::size_t i = 0; i < states_; ++i) {
      float* line = own_ + space_.g + i * values_;
      const float* s = before + i * values_;
      math_.axpby(c[i], upstream, 1.0F, line, values_, line);
      math_.axpby(b[i], line, 1.0F, pulled_, values_, pulled_);
      db[i] += dt * math_.dot(line, x, values_);
      dc[i] += kept * math_.dot(s, upstream, values_) + b[i] * dt * skipped;
      e += double{math_.dot(line, s, values_)};
      math_.scale(kept, line, values_, line);
    }
    e *= double{kept};
    HeadLines::scalar(args_[TERN_SELECTIVE_SCAN_BACKWARD_DDT], t, head) =
        static_cast<float>(double{math_.dot(pulled_, x, values_)} + double{rows_.a(head)} * e);
    shared_[space_.rates + t * rows_.heads + head] = static_cast<float>(double{dt} * e);
    shared_[space_.skips + t * rows_.heads + head] = skipped;
    math_.axpby(dt, pulled_, rows_.d(head), upstream, values_, pulled_);
    rows_.lines.store(args_[TERN_SELECTIVE_SCAN_BACKWARD_DX], t, head, 0, rows_.values, pulled_);
  }

  const KernelArgs& args_;
  const Rows& rows_;
  const TileMath& math_;
  const Space& space_;
  const Recurrence& sequence_;
  float *const shared_, *const own_;
  const std::int64_t sums_;  // where those of this part begin
  const std::size_t states_, values_;
  std::int64_t group_, first_, end_;  // heads
  float *b_, *c_, *x_, *upstream_, *scaled_, *pulled_;
};

// Gradients of b or c: the sum over a group's parts, in their order.
void give_states(const KernelArgs& args, const Rows& rows, const Kept<std::int32_t>& owners, const float* parts,
                 const TensorView& out) {
  const TileMath& math = tile_math(args.target);
  const std::int64_t count = rows.x.dim(0), in_group = parts_of(rows.heads, rows.groups) / rows.groups;
  const auto states = static_cast<std::size_t>(rows.states);
  args.pool->parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int) {
    Kept<float> sum(states, 0.0F);
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t group = 0; group < rows.groups && owners[static_cast<std::size_t>(row)] >= 0; ++group) {
        std::fill(sum.begin(), sum.end(), 0.0F);
        for (std::int64_t part = group * in_group; part < (group + 1) * in_group; ++part) {
          math.add(sum.data(), parts + (part * count + row) * rows.states, states, sum.data());
        }
        rows.lines.store(out, row, group, 0, rows.states, sum.data());
      }
    }
  });
}

// A sum over rows of `terms` [rows, heads].
void give_heads(const KernelArgs& args, const Kept<std::int32_t>& owners, const float* terms, int out) {
  if (!args[out].present()) return;
  const std::int64_t heads = args[out].dim(0), count = static_cast<std::int64_t>(owners.size());
  column_sum(args, count, heads, args[out], args.accumulates(out),
             [&](std::int64_t row, std::int64_t first, std::int64_t n, float* buffer) -> const float* {
               if (owners[static_cast<std::size_t>(row)] >= 0) return terms + row * heads + first;
               std::fill_n(buffer, n, 0.0F);
               return buffer;
             });
}

void run_backward(const KernelArgs& args) {
  const std::int32_t max_seqlen = args.attr<tern_selective_scan_backward_attrs>().max_seqlen;
  const Rows rows(args, kBackward);
  const Recurrences recurrences =
      read_recurrences(args, {TERN_SELECTIVE_SCAN_BACKWARD_X, TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS}, max_seqlen,
                       "selective_scan_backward");
  for (const int out : {TERN_SELECTIVE_SCAN_BACKWARD_DX, TERN_SELECTIVE_SCAN_BACKWARD_DDT,
                        TERN_SELECTIVE_SCAN_BACKWARD_DB, TERN_SELECTIVE_SCAN_BACKWARD_DC}) {
    fill_outside(args[out], recurrences.bounds, 0.0F);
  }
  const Space space = lay_out(rows.x.desc, rows.b.desc, max_seqlen);
  const std::int64_t parts = parts_of(rows.heads, rows.groups);
  const auto units = static_cast<std::int64_t>(recurrences.sequences.size()) * parts;
  args.pool->parallel_tasks(units, [&](std::int64_t unit, int thread) {
    Unit(args, rows, space, recurrences.sequences[static_cast<std::size_t>(unit / parts)], unit % parts, thread).run();
  });
  const Kept<std::int32_t> owners = sequence_of_rows(recurrences, rows.x.dim(0));
  const auto* shared = reinterpret_cast<const float*>(args.workspace);
  give_states(args, rows, owners, shared + space.db, args[TERN_SELECTIVE_SCAN_BACKWARD_DB]);
  give_states(args, rows, owners, shared + space.dc, args[TERN_SELECTIVE_SCAN_BACKWARD_DC]);
  give_heads(args, owners, shared + space.rates, TERN_SELECTIVE_SCAN_BACKWARD_DA);
  give_heads(args, owners, shared + space.skips, TERN_SELECTIVE_SCAN_BACKWARD_DD);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SELECTIVE_SCAN, "selective_scan", supports, workspace, nullptr, run},
                                    {TERN_OP_SELECTIVE_SCAN_BACKWARD, "selective_scan_backward", supports_backward,
                                     backward_workspace, nullptr, run_backward}};

}  // namespace

KernelList selective_scan_kernels() { return kKernels; }

}  // namespace tern::cpu
