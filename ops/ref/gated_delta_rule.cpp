// How far S and its gradient may be off: every row adds its own error to that of each column, whose 2-norm the row's
// step (I - beta k k^T) exp(decay) shrinks, or keeps where beta |k|^2 is at most 2. Bounds of absolute values would
// double with every row.
#include "ops/ref/recurrent.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {
namespace {

// Rows whose decays may be summed before an exponential, and what that is off by for each unit of decay.
constexpr double kChunk = 64.0;
constexpr double kExponential = 8.0;

struct Sizes {
  std::int64_t k_heads, heads, keys, values;
  [[nodiscard]] std::int64_t k_head(std::int64_t head) const { return head / (heads / k_heads); }
};

// One row of one head.
struct Row {
  const double* q;
  const double* k;
  const double* v;
  double decay;
  double beta;
};

struct Rows {
  const Tensor &q, &k, &v, &decay, &beta;
  Sizes sizes;
  Rows(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& decay_, const Tensor& beta_)
      : q(q_), k(k_), v(v_), decay(decay_), beta(beta_), sizes{k_.size(1), v_.size(1), k_.size(2), v_.size(2)} {}
  [[nodiscard]] std::int64_t key_at(std::int64_t row, std::int64_t head) const {
    return (row * sizes.k_heads + sizes.k_head(head)) * sizes.keys;
  }
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t head) const { return row * sizes.heads + head; }
  [[nodiscard]] Row operator()(std::int64_t row, std::int64_t head) const {
    const auto scalar = static_cast<std::size_t>(at(row, head));
    return {q.real.data() + key_at(row, head), k.real.data() + key_at(row, head),
            v.real.data() + at(row, head) * sizes.values, decay.real[scalar], beta.real[scalar]};
  }
};

// S of one head: [keys, values], and the error of each column.
struct State {
  std::vector<double> s;
  std::vector<double> error;  // in roundings of fp32, as are all errors here
};

double norm(const double* x, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

double column_norm(const std::vector<double>& s, std::int64_t column, const Sizes& sizes) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < sizes.keys; ++i) {
    const double x = s[static_cast<std::size_t>(i * sizes.values + column)];
    sum += x * x;
  }
  return std::sqrt(sum);
}

// Multiplies by exp(decay).
void decay_by(State& state, double decay, const Sizes& sizes) {
  const double kept = std::exp(decay);
  for (double& x : state.s) x *= kept;
  for (std::int64_t j = 0; j < sizes.values; ++j) {
    double& error = state.error[static_cast<std::size_t>(j)];
    error *= kept;
    error += (1.0 + kExponential + kChunk * std::fabs(decay)) * column_norm(state.s, j, sizes);
  }
}

struct Product {
  double sum = 0.0;
  double magnitude = 0.0;
};
Product column_dot(const std::vector<double>& s, std::int64_t column, const double* x, const Sizes& sizes) {
  Product out;
  for (std::int64_t i = 0; i < sizes.keys; ++i) {
    const double term = s[static_cast<std::size_t>(i * sizes.values + column)] * x[i];
    out.sum += term;
    out.magnitude += std::fabs(term);
  }
  return out;
}

// The error of a column's product with x: that of the column, and that of the sum.
double error_of_dot(double column, double x_norm, const Product& product) {
  return x_norm * column + product.magnitude;
}

// Adds k y^T, where y[j] was a product of column j with k: errors of before pass through I - beta k k^T.
void correct(State& state, const Row& row, const std::vector<double>& y, const std::vector<double>& own,
             const Sizes& sizes) {
  const double k_norm = norm(row.k, sizes.keys);
  const double kept = std::max(1.0, std::fabs(1.0 - row.beta * k_norm * k_norm));
  for (std::int64_t j = 0; j < sizes.values; ++j) {
    const auto at = static_cast<std::size_t>(j);
    for (std::int64_t i = 0; i < sizes.keys; ++i) {
      state.s[static_cast<std::size_t>(i * sizes.values + j)] += row.k[i] * y[at];
    }
    state.error[at] = kept * state.error[at];
    state.error[at] += k_norm * own[at] + column_norm(state.s, j, sizes) + k_norm * std::fabs(y[at]);
  }
}

// u = v - S^T k and what it is off by: `own` of this row's sum alone, `all` with S's error.
struct Residual {
  std::vector<double> u;
  std::vector<double> own;
  std::vector<double> all;
};
Residual residual_of(const State& state, const Row& row, const Sizes& sizes) {
  Residual out;
  const double k_norm = norm(row.k, sizes.keys);
  for (std::int64_t j = 0; j < sizes.values; ++j) {
    const Product predicted = column_dot(state.s, j, row.k, sizes);
    out.u.push_back(row.v[j] - predicted.sum);
    const double own = error_of_dot(0.0, k_norm, predicted) + std::fabs(row.v[j]) + std::fabs(out.u.back());
    out.own.push_back(own);
    out.all.push_back(own + k_norm * state.error[static_cast<std::size_t>(j)]);
  }
  return out;
}

// A row's step from S of before, which `decay_by` has shrunk.
void advance(State& state, const Row& row, const Residual& residual, const Sizes& sizes) {
  std::vector<double> delta = residual.u;
  std::vector<double> own = residual.own;
  for (double& x : delta) x *= row.beta;
  for (double& x : own) x *= std::fabs(row.beta);
  correct(state, row, delta, own, sizes);
}

State begin_of(const Sequence& sequence, std::int64_t head, const Tensor& state, const Sizes& sizes) {
  const std::int64_t count = sizes.keys * sizes.values;
  State out{std::vector<double>(static_cast<std::size_t>(count), 0.0),
            std::vector<double>(static_cast<std::size_t>(sizes.values))};
  if (sequence.goes_on) {
    const std::int64_t from = (sequence.seat * sizes.heads + head) * count;
    std::copy_n(state.real.begin() + static_cast<std::ptrdiff_t>(from), count, out.s.begin());
  }
  return out;
}

void end_in(const Sequence& sequence, std::int64_t head, const State& from, const Sizes& sizes, Tensor& state) {
  if (sequence.seat < 0) return;
  const std::int64_t count = sizes.keys * sizes.values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto to = static_cast<std::size_t>((sequence.seat * sizes.heads + head) * count + i);
    state.real[to] = from.s[static_cast<std::size_t>(i)];
    state.slack[to] = slack_of(from.error[static_cast<std::size_t>(i % sizes.values)], sizes.keys);
  }
}

// The gradients of one head of one sequence, from its last row to its first.
class Backward {
 public:
  Backward(const Rows& rows, const Tensor& dout, double scale, Call& call)
      : rows_(rows),
        sizes_(rows.sizes),
        dout_(dout),
        scale_(scale),
        dq_(call, TERN_GATED_DELTA_RULE_BACKWARD_DQ),
        dk_(call, TERN_GATED_DELTA_RULE_BACKWARD_DK),
        dv_(call, TERN_GATED_DELTA_RULE_BACKWARD_DV),
        ddecay_(call, TERN_GATED_DELTA_RULE_BACKWARD_DDECAY),
        dbeta_(call, TERN_GATED_DELTA_RULE_BACKWARD_DBETA) {}

  void run(const Sequence& sequence, std::int64_t head) {
    State state = begin_of(sequence, head, {}, sizes_);
    State d = state;
    std::vector<State> decayed;  // S of before each row, times exp(decay)
    std::vector<State> after;
    std::vector<Residual> residuals;
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      const Row row = rows_(t, head);
      decay_by(state, row.decay, sizes_);
      decayed.push_back(state);
      residuals.push_back(residual_of(state, row, sizes_));
      advance(state, row, residuals.back(), sizes_);
      after.push_back(state);
    }
    for (std::int64_t t = sequence.end - 1; t >= sequence.begin; --t) {
      const auto i = static_cast<std::size_t>(t - sequence.begin);
      step(t, head, decayed[i], after[i], residuals[i], d);
    }
  }

 private:
  void step(std::int64_t t, std::int64_t head, const State& decayed, const State& after, const Residual& residual,
            State& d) {
    const Row row = rows_(t, head);
    const double* upstream = dout_.real.data() + rows_.at(t, head) * sizes_.values;
    add_output(row, upstream, d);
    give_q(t, head, upstream, after);
    const std::vector<Product> pulled = give_v(t, head, row, residual, d);
    give_k(t, head, row, decayed, residual, pulled, d);
    std::vector<double> e;
    std::vector<double> own;
    for (std::int64_t j = 0; j < sizes_.values; ++j) {
      const Product& p = pulled[static_cast<std::size_t>(j)];
      e.push_back(-row.beta * p.sum);
      own.push_back(std::fabs(row.beta) * p.magnitude);
    }
    correct(d, row, e, own, sizes_);
    give_decay(t, head, decayed, d);
    decay_by(d, row.decay, sizes_);
  }

  // D += scale q dout^T.
  void add_output(const Row& row, const double* upstream, State& d) {
    const double q_norm = norm(row.q, sizes_.keys);
    for (std::int64_t j = 0; j < sizes_.values; ++j) {
      for (std::int64_t i = 0; i < sizes_.keys; ++i) {
        d.s[static_cast<std::size_t>(i * sizes_.values + j)] += scale_ * row.q[i] * upstream[j];
      }
      const double size = std::fabs(scale_ * upstream[j]) * q_norm;
      d.error[static_cast<std::size_t>(j)] += 2.0 * size + column_norm(d.s, j, sizes_);
    }
  }

  // dq = scale S dout.
  void give_q(std::int64_t t, std::int64_t head, const double* upstream, const State& after) {
    for (std::int64_t i = 0; i < sizes_.keys; ++i) {
      double sum = 0.0;
      double bound = 0.0;
      for (std::int64_t j = 0; j < sizes_.values; ++j) {
        const double factor = scale_ * upstream[j];
        const double term = factor * after.s[static_cast<std::size_t>(i * sizes_.values + j)];
        sum += term;
        bound += std::fabs(factor) * after.error[static_cast<std::size_t>(j)] + 2.0 * std::fabs(term);
      }
      dq_.add(rows_.key_at(t, head) + i, sum, {bound, std::max(sizes_.keys, sizes_.values)});
    }
  }

  // dv = e = beta D^T k, dbeta = u . D^T k; gives D^T k.
  std::vector<Product> give_v(std::int64_t t, std::int64_t head, const Row& row, const Residual& residual,
                              const State& d) {
    const double k_norm = norm(row.k, sizes_.keys);
    const std::int64_t terms = std::max(sizes_.keys, sizes_.values);
    std::vector<Product> pulled;
    double sum = 0.0;
    double of_beta = 0.0;
    for (std::int64_t j = 0; j < sizes_.values; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const Product p = column_dot(d.s, j, row.k, sizes_);
      const double off = error_of_dot(d.error[at], k_norm, p);
      const double of_v = std::fabs(row.beta) * (off + std::fabs(p.sum));
      dv_.add(rows_.at(t, head) * sizes_.values + j, row.beta * p.sum, {of_v, sizes_.keys});
      sum += residual.u[at] * p.sum;
      of_beta += std::fabs(residual.u[at]) * (off + 2.0 * std::fabs(p.sum)) + std::fabs(p.sum) * residual.all[at];
      pulled.push_back(p);
    }
    dbeta_.add(rows_.at(t, head), sum, {of_beta, terms});
    return pulled;
  }

  // dk = D (beta u) - (exp(decay) S_before) e.
  void give_k(std::int64_t t, std::int64_t head, const Row& row, const State& decayed, const Residual& residual,
              const std::vector<Product>& pulled, const State& d) {
    const double k_norm = norm(row.k, sizes_.keys);
    for (std::int64_t i = 0; i < sizes_.keys; ++i) {
      double sum = 0.0;
      double bound = 0.0;
      for (std::int64_t j = 0; j < sizes_.values; ++j) {
        const auto column = static_cast<std::size_t>(j);
        const auto at = static_cast<std::size_t>(i * sizes_.values + j);
        const double delta = row.beta * residual.u[column];
        const double e = row.beta * pulled[column].sum;
        const double by_delta = d.s[at] * delta;
        const double by_e = decayed.s[at] * e;
        sum += by_delta - by_e;
        bound += std::fabs(delta) * d.error[column] + std::fabs(d.s[at] * row.beta) * residual.all[column];
        bound += std::fabs(e) * decayed.error[column];
        bound += std::fabs(decayed.s[at] * row.beta) * error_of_dot(d.error[column], k_norm, pulled[column]);
        bound += 3.0 * (std::fabs(by_delta) + std::fabs(by_e));
      }
      dk_.add(rows_.key_at(t, head) + i, sum, {bound, std::max(sizes_.keys, sizes_.values)});
    }
  }

  // ddecay = sum of D * (exp(decay) S_before).
  void give_decay(std::int64_t t, std::int64_t head, const State& decayed, const State& d) {
    double sum = 0.0;
    double bound = 0.0;
    for (std::int64_t j = 0; j < sizes_.values; ++j) {
      const auto column = static_cast<std::size_t>(j);
      double magnitude = 0.0;
      for (std::int64_t i = 0; i < sizes_.keys; ++i) {
        const auto at = static_cast<std::size_t>(i * sizes_.values + j);
        sum += d.s[at] * decayed.s[at];
        magnitude += std::fabs(d.s[at] * decayed.s[at]);
      }
      bound += column_norm(decayed.s, j, sizes_) * d.error[column];
      bound += column_norm(d.s, j, sizes_) * decayed.error[column] + 2.0 * magnitude;
    }
    ddecay_.add(rows_.at(t, head), sum, {bound, sizes_.keys * sizes_.values});
  }

  const Rows& rows_;
  const Sizes sizes_;
  const Tensor& dout_;
  const double scale_;
  Output dq_;
  Output dk_;
  Output dv_;
  Output ddecay_;
  Output dbeta_;
};

}  // namespace

void gated_delta_rule(Call& call) {
  const double scale = attrs_of<tern_gated_delta_rule_attrs>(call).scale;
  const Rows rows(input(call, TERN_GATED_DELTA_RULE_Q), input(call, TERN_GATED_DELTA_RULE_K),
                  input(call, TERN_GATED_DELTA_RULE_V), input(call, TERN_GATED_DELTA_RULE_DECAY),
                  input(call, TERN_GATED_DELTA_RULE_BETA));
  const Sizes& sizes = rows.sizes;
  Tensor& states = call.args[TERN_GATED_DELTA_RULE_STATE];
  states.slack.assign(states.real.size(), 0.0);
  Output out(call, TERN_GATED_DELTA_RULE_OUT);
  const auto run = [&](const Sequence& sequence, std::int64_t head) {
    State state = begin_of(sequence, head, states, sizes);
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      const Row row = rows(t, head);
      decay_by(state, row.decay, sizes);
      advance(state, row, residual_of(state, row, sizes), sizes);
      const double q_norm = norm(row.q, sizes.keys);
      for (std::int64_t j = 0; j < sizes.values; ++j) {
        const Product read = column_dot(state.s, j, row.q, sizes);
        const double off = error_of_dot(state.error[static_cast<std::size_t>(j)], q_norm, read) + 2.0 * read.magnitude;
        out.add(rows.at(t, head) * sizes.values + j, scale * read.sum, {std::fabs(scale) * off, sizes.keys});
      }
    }
    end_in(sequence, head, state, sizes, states);
  };
  for_each_sequence(input(call, TERN_GATED_DELTA_RULE_CU_SEQLENS), input(call, TERN_GATED_DELTA_RULE_KV_LENS),
                    input(call, TERN_GATED_DELTA_RULE_SEATS), [&](const Sequence& sequence) {
                      for (std::int64_t head = 0; head < sizes.heads; ++head) run(sequence, head);
                    });
  open_seat_of_padding(states);
}

void gated_delta_rule_backward(Call& call) {
  const Rows rows(input(call, TERN_GATED_DELTA_RULE_BACKWARD_Q), input(call, TERN_GATED_DELTA_RULE_BACKWARD_K),
                  input(call, TERN_GATED_DELTA_RULE_BACKWARD_V), input(call, TERN_GATED_DELTA_RULE_BACKWARD_DECAY),
                  input(call, TERN_GATED_DELTA_RULE_BACKWARD_BETA));
  Backward backward(rows, input(call, TERN_GATED_DELTA_RULE_BACKWARD_DOUT),
                    attrs_of<tern_gated_delta_rule_backward_attrs>(call).scale, call);
  for_each_sequence(input(call, TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS), Tensor{}, Tensor{},
                    [&](const Sequence& sequence) {
                      for (std::int64_t head = 0; head < rows.sizes.heads; ++head) backward.run(sequence, head);
                    });
}

}  // namespace tern::ops::ref
