// How far S and its gradient may be off: no row subtracts, so each element's error is that of before, shrunk by exp(dt
// a), and one rounding of all that is summed up in it so far, in absolute terms.
#include "ops/ref/recurrent.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {
namespace {

// Rows whose dt a may be summed before an exponential, and what that is off by for each unit of it.
constexpr double kChunk = 64.0;
constexpr double kExponential = 8.0;

struct Sizes {
  std::int64_t heads, groups, states, values;
};

// One row of one head.
struct Row {
  const double* x;
  const double* b;
  const double* c;
  double dt;
  double a;
  double d;
};

struct Rows {
  const Tensor &x, &dt, &a, &b, &c, &d;
  Sizes sizes;
  Rows(const Tensor& x_, const Tensor& dt_, const Tensor& a_, const Tensor& b_, const Tensor& c_, const Tensor& d_)
      : x(x_), dt(dt_), a(a_), b(b_), c(c_), d(d_), sizes{x_.size(1), b_.size(1), b_.size(2), x_.size(2)} {}
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t head) const { return row * sizes.heads + head; }
  [[nodiscard]] std::int64_t state_at(std::int64_t row, std::int64_t head) const {
    return (row * sizes.groups + head / (sizes.heads / sizes.groups)) * sizes.states;
  }
  [[nodiscard]] Row operator()(std::int64_t row, std::int64_t head) const {
    const auto of_head = static_cast<std::size_t>(head);
    return {x.real.data() + at(row, head) * sizes.values,
            b.real.data() + state_at(row, head),
            c.real.data() + state_at(row, head),
            dt.real[static_cast<std::size_t>(at(row, head))],
            a.real[of_head],
            d.present() ? d.real[of_head] : 0.0};
  }
};

// An element of S or of its gradient.
struct Element {
  double value = 0.0;
  double size = 0.0;   // the sum of |terms| that made it
  double error = 0.0;  // in roundings of fp32, as are all errors here

  void shrink(double log) {
    const double kept = std::exp(log);
    value *= kept;
    size *= kept;
    error = kept * error + (1.0 + kExponential + kChunk * std::fabs(log)) * size;
  }
  void add(double term) {
    value += term;
    size += std::fabs(term);
    error += 2.0 * std::fabs(term) + size;
  }
  // Of a product with an exact number of size 1: that of the element, of the product and of the sum it goes into.
  [[nodiscard]] double off() const { return error + 2.0 * std::fabs(value); }
};
using State = std::vector<Element>;  // [states, values]

// S of after a row, from that of before, which is shrunk already.
void advance(State& state, const Row& row, const Sizes& sizes) {
  for (std::int64_t i = 0; i < sizes.states; ++i) {
    for (std::int64_t j = 0; j < sizes.values; ++j) {
      state[static_cast<std::size_t>(i * sizes.values + j)].add(row.b[i] * row.dt * row.x[j]);
    }
  }
}

void shrink(State& state, const Row& row) {
  for (Element& element : state) element.shrink(row.dt * row.a);
}

State begin_of(const Sequence& sequence, std::int64_t head, const Tensor& state, const Sizes& sizes) {
  State out(static_cast<std::size_t>(sizes.states * sizes.values));
  if (!sequence.goes_on) return out;
  const std::size_t from = static_cast<std::size_t>(sequence.seat * sizes.heads + head) * out.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].value = state.real[from + i];
    out[i].size = std::fabs(out[i].value);
  }
  return out;
}

void end_in(const Sequence& sequence, std::int64_t head, const State& from, const Sizes& sizes, Tensor& state) {
  if (sequence.seat < 0) return;
  const std::size_t to = static_cast<std::size_t>(sequence.seat * sizes.heads + head) * from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    state.real[to + i] = from[i].value;
    state.slack[to + i] = slack_of(from[i].error, 1);
  }
}

// The gradients of one head of one sequence, from its last row to its first.
class Backward {
 public:
  Backward(const Rows& rows, const Tensor& dout, Call& call)
      : rows_(rows),
        sizes_(rows.sizes),
        dout_(dout),
        dx_(call, TERN_SELECTIVE_SCAN_BACKWARD_DX),
        ddt_(call, TERN_SELECTIVE_SCAN_BACKWARD_DDT),
        da_(call, TERN_SELECTIVE_SCAN_BACKWARD_DA),
        db_(call, TERN_SELECTIVE_SCAN_BACKWARD_DB),
        dc_(call, TERN_SELECTIVE_SCAN_BACKWARD_DC),
        dd_(call, TERN_SELECTIVE_SCAN_BACKWARD_DD) {}

  void run(const Sequence& sequence, std::int64_t head) {
    State state = begin_of(sequence, head, {}, sizes_);
    State gradient = state;
    std::vector<State> shrunk;  // S of before each row, times exp(dt a)
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      shrink(state, rows_(t, head));
      shrunk.push_back(state);
      advance(state, rows_(t, head), sizes_);
    }
    for (std::int64_t t = sequence.end - 1; t >= sequence.begin; --t) {
      step(t, head, shrunk[static_cast<std::size_t>(t - sequence.begin)], gradient);
    }
  }

 private:
  void step(std::int64_t t, std::int64_t head, const State& shrunk, State& gradient) {
    const Row row = rows_(t, head);
    const double* upstream = dout_.real.data() + rows_.at(t, head) * sizes_.values;
    State after = shrunk;
    advance(after, row, sizes_);
    for (std::int64_t i = 0; i < sizes_.states; ++i) {
      for (std::int64_t j = 0; j < sizes_.values; ++j) {
        gradient[static_cast<std::size_t>(i * sizes_.values + j)].add(row.c[i] * upstream[j]);
      }
    }
    give_b_and_c(t, head, row, upstream, after, gradient);
    give_x(t, head, row, upstream, gradient);
    give_dt(t, head, row, shrunk, gradient);
    shrink(gradient, row);
  }

  // db = dt G x, dc = S dout.
  void give_b_and_c(std::int64_t t, std::int64_t head, const Row& row, const double* upstream, const State& after,
                    const State& gradient) {
    const std::int64_t terms = std::max(sizes_.states, sizes_.values);
    for (std::int64_t i = 0; i < sizes_.states; ++i) {
      double of_b = 0.0, of_c = 0.0, b_off = 0.0, c_off = 0.0;
      for (std::int64_t j = 0; j < sizes_.values; ++j) {
        const auto at = static_cast<std::size_t>(i * sizes_.values + j);
        of_b += row.dt * gradient[at].value * row.x[j];
        b_off += row.dt * std::fabs(row.x[j]) * (gradient[at].off() + std::fabs(gradient[at].value));
        of_c += after[at].value * upstream[j];
        c_off += std::fabs(upstream[j]) * after[at].off();
      }
      db_.add(rows_.state_at(t, head) + i, of_b, {b_off, terms});
      dc_.add(rows_.state_at(t, head) + i, of_c, {c_off, terms});
    }
  }

  // dx = dt G^T b + d dout, dd = sum of dout . x.
  void give_x(std::int64_t t, std::int64_t head, const Row& row, const double* upstream, const State& gradient) {
    double of_d = 0.0, d_off = 0.0;
    for (std::int64_t j = 0; j < sizes_.values; ++j) {
      double sum = row.d * upstream[j];
      double off = 2.0 * std::fabs(sum);
      for (std::int64_t i = 0; i < sizes_.states; ++i) {
        const Element& element = gradient[static_cast<std::size_t>(i * sizes_.values + j)];
        sum += row.dt * row.b[i] * element.value;
        off += row.dt * std::fabs(row.b[i]) * (element.off() + std::fabs(element.value));
      }
      dx_.add(rows_.at(t, head) * sizes_.values + j, sum, {off, sizes_.states + 1});
      of_d += upstream[j] * row.x[j];
      d_off += 2.0 * std::fabs(upstream[j] * row.x[j]);
    }
    dd_.add(head, of_d, {d_off, sizes_.values});
  }

  // e = sum of G * (exp(dt a) S_before), ddt = b^T G x + a e, da = sum of dt e.
  void give_dt(std::int64_t t, std::int64_t head, const Row& row, const State& shrunk, const State& gradient) {
    double e = 0.0, e_off = 0.0, direct = 0.0, direct_off = 0.0;
    for (std::int64_t i = 0; i < sizes_.states; ++i) {
      for (std::int64_t j = 0; j < sizes_.values; ++j) {
        const auto at = static_cast<std::size_t>(i * sizes_.values + j);
        const Element &s = shrunk[at], &g = gradient[at];
        e += g.value * s.value;
        e_off += std::fabs(s.value) * g.off() + std::fabs(g.value) * s.error;
        direct += row.b[i] * g.value * row.x[j];
        direct_off += std::fabs(row.b[i] * row.x[j]) * (g.off() + std::fabs(g.value));
      }
    }
    const std::int64_t terms = sizes_.states + sizes_.values;
    ddt_.add(rows_.at(t, head), direct + row.a * e,
             {direct_off + std::fabs(row.a) * (e_off + 2.0 * std::fabs(e)), terms});
    da_.add(head, row.dt * e, {row.dt * (e_off + 2.0 * std::fabs(e)), terms});
  }

  const Rows& rows_;
  const Sizes sizes_;
  const Tensor& dout_;
  Output dx_;
  Output ddt_;
  Output da_;
  Output db_;
  Output dc_;
  Output dd_;
};

}  // namespace

void selective_scan(Call& call) {
  const Rows rows(input(call, TERN_SELECTIVE_SCAN_X), input(call, TERN_SELECTIVE_SCAN_DT),
                  input(call, TERN_SELECTIVE_SCAN_A), input(call, TERN_SELECTIVE_SCAN_B),
                  input(call, TERN_SELECTIVE_SCAN_C), input(call, TERN_SELECTIVE_SCAN_D));
  const Sizes& sizes = rows.sizes;
  Tensor& states = call.args[TERN_SELECTIVE_SCAN_STATE];
  states.slack.assign(states.real.size(), 0.0);
  Output out(call, TERN_SELECTIVE_SCAN_OUT);
  const auto run = [&](const Sequence& sequence, std::int64_t head) {
    State state = begin_of(sequence, head, states, sizes);
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      const Row row = rows(t, head);
      shrink(state, row);
      advance(state, row, sizes);
      for (std::int64_t j = 0; j < sizes.values; ++j) {
        double sum = row.d * row.x[j];
        double off = 2.0 * std::fabs(sum);
        for (std::int64_t i = 0; i < sizes.states; ++i) {
          const Element& element = state[static_cast<std::size_t>(i * sizes.values + j)];
          sum += row.c[i] * element.value;
          off += std::fabs(row.c[i]) * element.off();
        }
        out.add(rows.at(t, head) * sizes.values + j, sum, {off, sizes.states + 1});
      }
    }
    end_in(sequence, head, state, sizes, states);
  };
  for_each_sequence(input(call, TERN_SELECTIVE_SCAN_CU_SEQLENS), input(call, TERN_SELECTIVE_SCAN_KV_LENS),
                    input(call, TERN_SELECTIVE_SCAN_SEATS), [&](const Sequence& sequence) {
                      for (std::int64_t head = 0; head < sizes.heads; ++head) run(sequence, head);
                    });
  open_seat_of_padding(states);
}

void selective_scan_backward(Call& call) {
  const Rows rows(input(call, TERN_SELECTIVE_SCAN_BACKWARD_X), input(call, TERN_SELECTIVE_SCAN_BACKWARD_DT),
                  input(call, TERN_SELECTIVE_SCAN_BACKWARD_A), input(call, TERN_SELECTIVE_SCAN_BACKWARD_B),
                  input(call, TERN_SELECTIVE_SCAN_BACKWARD_C), input(call, TERN_SELECTIVE_SCAN_BACKWARD_D));
  Backward backward(rows, input(call, TERN_SELECTIVE_SCAN_BACKWARD_DOUT), call);
  for_each_sequence(input(call, TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS), Tensor{}, Tensor{},
                    [&](const Sequence& sequence) {
                      for (std::int64_t head = 0; head < rows.sizes.heads; ++head) backward.run(sequence, head);
                    });
}

}  // namespace tern::ops::ref
