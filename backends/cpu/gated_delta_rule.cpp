#include <algorithm>
#include <cmath>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/recurrent.h"
#include "backends/cpu/tile_math.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kBlock = 32;  // columns of a state that a thread carries through a sequence: they stay in L1
constexpr std::int64_t kChunk = 64;  // rows whose states a backward holds at once

// Arguments that forward and backward share.
struct Places {
  int q, k, v, decay, beta, cu_seqlens;
};
constexpr Places kForward = {TERN_GATED_DELTA_RULE_Q,     TERN_GATED_DELTA_RULE_K,    TERN_GATED_DELTA_RULE_V,
                             TERN_GATED_DELTA_RULE_DECAY, TERN_GATED_DELTA_RULE_BETA, TERN_GATED_DELTA_RULE_CU_SEQLENS};
constexpr Places kBackward = {TERN_GATED_DELTA_RULE_BACKWARD_Q,    TERN_GATED_DELTA_RULE_BACKWARD_K,
                              TERN_GATED_DELTA_RULE_BACKWARD_V,    TERN_GATED_DELTA_RULE_BACKWARD_DECAY,
                              TERN_GATED_DELTA_RULE_BACKWARD_BETA, TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS};

Check& check_inputs(Check& check, const PlanDesc& desc, const Places& at) {
  const auto &k = desc.arg(at.k), &v = desc.arg(at.v);
  return check.floats({at.q, at.k, at.v})
      .dtype(at.decay, TERN_F32)
      .dtype(at.beta, TERN_F32)
      .dtype(at.cu_seqlens, TERN_I32)
      .rank(at.k, 3)
      .rank(at.v, 3)
      .rank(at.decay, 2)
      .same_shape({at.q, at.k})
      .same_shape({at.decay, at.beta})
      .dim(at.v, 0, k.shape[0])
      .dim(at.decay, 0, k.shape[0])
      .dim(at.decay, 1, v.shape[1])
      .that(k.shape[1] >= 1 && v.shape[1] % k.shape[1] == 0, "heads are no multiple of k_heads");
}

// The rows of a call, read into fp32.
class Rows {
 public:
  Rows(const KernelArgs& args, const Places& at)
      : q_(args[at.q]),
        k_(args[at.k]),
        v_(args[at.v]),
        decay_(args[at.decay]),
        beta_(args[at.beta]),
        lines(args),
        heads(v_.dim(1)),
        keys(k_.dim(2)),
        values(v_.dim(2)),
        group(heads / k_.dim(1)) {}

  const float* q(std::int64_t row, std::int64_t k_head, float* buffer) const {
    return lines.load(q_, row, k_head, buffer);
  }
  const float* k(std::int64_t row, std::int64_t k_head, float* buffer) const {
    return lines.load(k_, row, k_head, buffer);
  }
  const float* v(std::int64_t row, std::int64_t head, float* buffer) const { return lines.load(v_, row, head, buffer); }
  [[nodiscard]] float kept(std::int64_t row, std::int64_t head) const {
    return static_cast<float>(std::exp(double{HeadLines::scalar(decay_, row, head)}));
  }
  [[nodiscard]] float beta(std::int64_t row, std::int64_t head) const { return HeadLines::scalar(beta_, row, head); }
  [[nodiscard]] const TensorView& v_view() const { return v_; }

 private:
  const TensorView &q_, &k_, &v_, &decay_, &beta_;

 public:
  const HeadLines lines;
  const std::int64_t heads, keys, values, group;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &k = desc.arg(TERN_GATED_DELTA_RULE_K), &v = desc.arg(TERN_GATED_DELTA_RULE_V);
  const bool has_state = desc.present(TERN_GATED_DELTA_RULE_STATE);
  Check check(desc, reason);
  return check_inputs(check, desc, kForward)
      .floats({TERN_GATED_DELTA_RULE_OUT})
      .dtype(TERN_GATED_DELTA_RULE_KV_LENS, TERN_I32)
      .dtype(TERN_GATED_DELTA_RULE_SEATS, TERN_I32)
      .dtype(TERN_GATED_DELTA_RULE_STATE, TERN_F32)
      .that(has_state == desc.present(TERN_GATED_DELTA_RULE_SEATS) &&
                has_state == desc.present(TERN_GATED_DELTA_RULE_KV_LENS),
            "state comes with seats and kv_lens")
      .rank(TERN_GATED_DELTA_RULE_STATE, 4)
      .same_shape({TERN_GATED_DELTA_RULE_V, TERN_GATED_DELTA_RULE_OUT})
      .same_shape({TERN_GATED_DELTA_RULE_KV_LENS, TERN_GATED_DELTA_RULE_SEATS})
      .rank(TERN_GATED_DELTA_RULE_CU_SEQLENS, 1)
      .dim(TERN_GATED_DELTA_RULE_SEATS, 0, desc.arg(TERN_GATED_DELTA_RULE_CU_SEQLENS).shape[0] - 1)
      .dim(TERN_GATED_DELTA_RULE_STATE, 1, v.shape[1])
      .dim(TERN_GATED_DELTA_RULE_STATE, 2, k.shape[2])
      .dim(TERN_GATED_DELTA_RULE_STATE, 3, v.shape[2])
      .ok();
}

// Of a thread, in floats: a block of columns, q, k, v and out.
std::int64_t forward_space(std::int64_t keys) {
  return static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>(keys * kBlock + 2 * keys + 2 * kBlock) * 4)) / 4;
}

std::uint64_t workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(forward_space(desc.arg(TERN_GATED_DELTA_RULE_K).shape[2]) * desc.num_threads) * 4;
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_gated_delta_rule_attrs>();
  const Rows rows(args, kForward);
  const TensorView &state = args[TERN_GATED_DELTA_RULE_STATE], &out = args[TERN_GATED_DELTA_RULE_OUT];
  const TileMath& math = tile_math(args.target);
  const Recurrences recurrences =
      read_recurrences(args,
                       {TERN_GATED_DELTA_RULE_Q, TERN_GATED_DELTA_RULE_CU_SEQLENS, TERN_GATED_DELTA_RULE_KV_LENS,
                        TERN_GATED_DELTA_RULE_SEATS, TERN_GATED_DELTA_RULE_STATE},
                       attrs.max_seqlen, "gated_delta_rule");
  fill_outside(out, recurrences.bounds, 0.0F);
  const std::int64_t blocks = (rows.values + kBlock - 1) / kBlock;
  const auto tasks = static_cast<std::int64_t>(recurrences.sequences.size()) * rows.heads * blocks;
  args.pool->parallel_tasks(tasks, [&](std::int64_t task, int thread) {
    const Recurrence& sequence = recurrences.sequences[static_cast<std::size_t>(task / blocks / rows.heads)];
    float* space = reinterpret_cast<float*>(args.workspace) + forward_space(rows.keys) * thread;
    const std::int64_t first = task % blocks * kBlock;
    StateBlock block{
        task / blocks % rows.heads, first, std::min(kBlock, rows.values - first), rows.keys, space, kBlock};
    float *q = space + rows.keys * kBlock, *k = q + rows.keys, *v = k + rows.keys, *y = v + kBlock;
    const auto keys = static_cast<std::size_t>(rows.keys);
    load_state(state, sequence, block);
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      const std::int64_t k_head = block.head / rows.group;
      math.scale(attrs.scale, rows.q(t, k_head, q), keys, q);
      const DeltaRow row{q,
                         rows.k(t, k_head, k),
                         rows.lines.load(rows.v_view(), t, block.head, block.first, block.n, v),
                         rows.kept(t, block.head),
                         rows.beta(t, block.head),
                         keys};
      math.delta_rule(row, static_cast<std::size_t>(block.n), static_cast<std::size_t>(block.stride), block.s, nullptr,
                      y);
      rows.lines.store(out, t, block.head, block.first, block.n, y);
    }
    store_state(state, sequence, block);
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  return check_inputs(check, desc, kBackward)
      .floats({TERN_GATED_DELTA_RULE_BACKWARD_DOUT, TERN_GATED_DELTA_RULE_BACKWARD_DQ,
               TERN_GATED_DELTA_RULE_BACKWARD_DK, TERN_GATED_DELTA_RULE_BACKWARD_DV})
      .dtype(TERN_GATED_DELTA_RULE_BACKWARD_DDECAY, TERN_F32)
      .dtype(TERN_GATED_DELTA_RULE_BACKWARD_DBETA, TERN_F32)
      .same_shape(
          {TERN_GATED_DELTA_RULE_BACKWARD_K, TERN_GATED_DELTA_RULE_BACKWARD_DQ, TERN_GATED_DELTA_RULE_BACKWARD_DK})
      .same_shape(
          {TERN_GATED_DELTA_RULE_BACKWARD_V, TERN_GATED_DELTA_RULE_BACKWARD_DOUT, TERN_GATED_DELTA_RULE_BACKWARD_DV})
      .same_shape({TERN_GATED_DELTA_RULE_BACKWARD_DECAY, TERN_GATED_DELTA_RULE_BACKWARD_DDECAY,
                   TERN_GATED_DELTA_RULE_BACKWARD_DBETA})
      .ok();
}

// A thread's memory in a backward, in floats.
struct Space {
  std::int64_t state;  // of one head
  std::int64_t chunk;  // rows whose states are held
  std::int64_t borders, states, residuals, s, d, dq, dk, lines, total;
};

Space lay_out(std::int64_t keys, std::int64_t values, std::int64_t longest) {
  Space space{};
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at;
    at += (floats + 15) / 16 * 16;
    return begin;
  };
  space.state = keys * values;
  space.chunk = std::min(kChunk, std::max<std::int64_t>(longest, 1));
  space.borders = take((longest + space.chunk - 1) / space.chunk * space.state);
  space.states = take(space.chunk * space.state);
  space.residuals = take(space.chunk * values);
  space.s = take(space.state);
  space.d = take(space.state);
  space.dq = take(longest * keys);
  space.dk = take(longest * keys);
  space.lines = take(2 * keys + 6 * values);
  space.total = at;
  return space;
}

Space space_of(const tern_tensor_desc& k, const tern_tensor_desc& v, std::int32_t max_seqlen) {
  return lay_out(k.shape[2], v.shape[2], longest_of(max_seqlen, k.shape[0]));
}

std::uint64_t backward_workspace(const PlanDesc& desc) {
  const Space space = space_of(desc.arg(TERN_GATED_DELTA_RULE_BACKWARD_K), desc.arg(TERN_GATED_DELTA_RULE_BACKWARD_V),
                               desc.attrs<tern_gated_delta_rule_backward_attrs>().max_seqlen);
  const auto &k = desc.arg(TERN_GATED_DELTA_RULE_BACKWARD_K),
             &cuts = desc.arg(TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS);
  const std::int64_t units = std::max<std::int64_t>(1, (cuts.shape[0] - 1) * k.shape[1]);
  return static_cast<std::uint64_t>(space.total * std::min<std::int64_t>(desc.num_threads, units)) * 4;
}

// One sequence under one head of keys. States within a chunk are computed again from the one at its border.
class Unit {
 public:
  Unit(const KernelArgs& args, const Rows& rows, const Space& space, const Recurrence& sequence, std::int64_t k_head,
       float* memory)
      : args_(args),
        rows_(rows),
        math_(tile_math(args.target)),
        space_(space),
        sequence_(sequence),
        k_head_(k_head),
        memory_(memory),
        scale_(args.attr<tern_gated_delta_rule_backward_attrs>().scale),
        keys_(static_cast<std::size_t>(rows.keys)),
        values_(static_cast<std::size_t>(rows.values)) {
    float* at = memory + space.lines;
    for (float** line : {&q_, &k_}) {
      *line = at;
      at += rows.keys;
    }
    for (float** line : {&v_, &upstream_, &delta_, &e_, &pulled_, &decayed_}) {
      *line = at;
      at += rows.values;
    }
  }

  void run() {
    const std::int64_t length = sequence_.length();
    std::fill_n(memory_ + space_.dq, length * rows_.keys, 0.0F);
    std::fill_n(memory_ + space_.dk, length * rows_.keys, 0.0F);
    for (std::int64_t head = k_head_ * rows_.group; head < (k_head_ + 1) * rows_.group; ++head) {
      float* s = memory_ + space_.s;
      std::fill_n(s, space_.state, 0.0F);
      std::fill_n(memory_ + space_.d, space_.state, 0.0F);
      for (std::int64_t i = 0; i < length; ++i) {
        if (i % space_.chunk == 0) std::copy_n(s, space_.state, border(i / space_.chunk));
        advance(head, i, nullptr);
      }
      for (std::int64_t chunk = (length - 1) / space_.chunk; chunk >= 0; --chunk) run_chunk(head, chunk);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      give(TERN_GATED_DELTA_RULE_BACKWARD_DQ, i, memory_ + space_.dq);
      give(TERN_GATED_DELTA_RULE_BACKWARD_DK, i, memory_ + space_.dk);
    }
  }

 private:
  [[nodiscard]] float* border(std::int64_t chunk) const { return memory_ + space_.borders + chunk * space_.state; }
  [[nodiscard]] float* state(std::int64_t i) const { return memory_ + space_.states + i * space_.state; }
  [[nodiscard]] float* residual(std::int64_t i) const { return memory_ + space_.residuals + i * rows_.values; }

  void give(int arg, std::int64_t i, float* sums) const {
    rows_.lines.store(args_[arg], sequence_.begin + i, k_head_, 0, rows_.keys, sums + i * rows_.keys);
  }

  void advance(std::int64_t head, std::int64_t i, float* u) {
    const std::int64_t t = sequence_.begin + i;
    const DeltaRow row{nullptr, rows_.k(t, k_head_, k_), rows_.v(t, head, v_), rows_.kept(t, head), rows_.beta(t, head),
                       keys_};
    math_.delta_rule(row, values_, values_, memory_ + space_.s, u, nullptr);
  }

  void run_chunk(std::int64_t head, std::int64_t chunk) {
    const std::int64_t first = chunk * space_.chunk, end = std::min(sequence_.length(), first + space_.chunk);
    float* s = memory_ + space_.s;
    std::copy_n(border(chunk), space_.state, s);
    for (std::int64_t i = first; i < end; ++i) {
      std::copy_n(s, space_.state, state(i - first));
      advance(head, i, residual(i - first));
    }
    for (std::int64_t i = end - 1; i >= first; --i) step(head, i, state(i - first), residual(i - first));
  }

  // From D of after the row to D of before it. `before`: S.
  void step(std::int64_t head, std::int64_t i, const float* before, const float* u) {
    const std::int64_t t = sequence_.begin + i;
    const TensorView& dout = args_[TERN_GATED_DELTA_RULE_BACKWARD_DOUT];
    const float* q = rows_.q(t, k_head_, q_);
    const float* k = rows_.k(t, k_head_, k_);
    const float* upstream = rows_.lines.load(dout, t, head, upstream_);
    const float kept = rows_.kept(t, head), beta = rows_.beta(t, head);
    float *d = memory_ + space_.d, *dq = memory_ + space_.dq + i * rows_.keys,
          *dk = memory_ + space_.dk + i * rows_.keys;
    std::fill_n(pulled_, values_, 0.0F);
    for (std::size_t j = 0; j < keys_; ++j) {
      float* line = d + j * values_;
      math_.axpby(scale_ * q[j], upstream, 1.0F, line, values_, line);
      math_.axpby(k[j], line, 1.0F, pulled_, values_, pulled_);
    }
    math_.scale(beta, u, values_, delta_);
    math_.scale(beta, pulled_, values_, e_);
    const float along = math_.dot(delta_, upstream, values_);
    double ddecay = 0.0;
    for (std::size_t j = 0; j < keys_; ++j) {
      float* line = d + j * values_;
      math_.scale(kept, before + j * values_, values_, decayed_);
      dq[j] += scale_ * (math_.dot(decayed_, upstream, values_) + k[j] * along);
      dk[j] += math_.dot(line, delta_, values_) - math_.dot(decayed_, e_, values_);
      math_.axpby(-k[j], e_, 1.0F, line, values_, line);
      ddecay += double{math_.dot(line, decayed_, values_)};
      math_.scale(kept, line, values_, line);
    }
    HeadLines::scalar(args_[TERN_GATED_DELTA_RULE_BACKWARD_DDECAY], t, head) = static_cast<float>(ddecay);
    HeadLines::scalar(args_[TERN_GATED_DELTA_RULE_BACKWARD_DBETA], t, head) = math_.dot(u, pulled_, values_);
    rows_.lines.store(args_[TERN_GATED_DELTA_RULE_BACKWARD_DV], t, head, 0, rows_.values, e_);
  }

  const KernelArgs& args_;
  const Rows& rows_;
  const TileMath& math_;
  const Space& space_;
  const Recurrence& sequence_;
  const std::int64_t k_head_;
  float* memory_;
  const float scale_;
  const std::size_t keys_, values_;
  float *q_, *k_, *v_, *upstream_, *delta_, *e_, *pulled_, *decayed_;
};

void run_backward(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_gated_delta_rule_backward_attrs>();
  const Rows rows(args, kBackward);
  const TensorView& k = args[TERN_GATED_DELTA_RULE_BACKWARD_K];
  const Recurrences recurrences =
      read_recurrences(args, {TERN_GATED_DELTA_RULE_BACKWARD_K, TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS},
                       attrs.max_seqlen, "gated_delta_rule_backward");
  for (const int out :
       {TERN_GATED_DELTA_RULE_BACKWARD_DQ, TERN_GATED_DELTA_RULE_BACKWARD_DK, TERN_GATED_DELTA_RULE_BACKWARD_DV,
        TERN_GATED_DELTA_RULE_BACKWARD_DDECAY, TERN_GATED_DELTA_RULE_BACKWARD_DBETA}) {
    fill_outside(args[out], recurrences.bounds, 0.0F);
  }
  const Space space = space_of(k.desc, args[TERN_GATED_DELTA_RULE_BACKWARD_V].desc, attrs.max_seqlen);
  const std::int64_t k_heads = k.dim(1);
  const auto units = static_cast<std::int64_t>(recurrences.sequences.size()) * k_heads;
  args.pool->parallel_tasks(units, [&](std::int64_t unit, int thread) {
    Unit(args, rows, space, recurrences.sequences[static_cast<std::size_t>(unit / k_heads)], unit % k_heads,
         reinterpret_cast<float*>(args.workspace) + space.total * thread)
        .run();
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GATED_DELTA_RULE, "gated_delta_rule", supports, workspace, nullptr, run},
                                    {TERN_OP_GATED_DELTA_RULE_BACKWARD, "gated_delta_rule_backward", supports_backward,
                                     backward_workspace, nullptr, run_backward}};

}  // namespace

KernelList gated_delta_rule_kernels() { return kKernels; }

}  // namespace tern::cpu
