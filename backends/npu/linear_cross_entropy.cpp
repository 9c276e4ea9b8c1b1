// The loss in panels of rows: a panel's logits are the only thing as wide as the vocabulary, and the weight becomes
// fp32 a piece at a time.
#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"
#include "backends/npu/rounding.h"

namespace tern::npu {
namespace {

constexpr std::int64_t kPanel = std::int64_t{1} << 23;  // elements

struct Sizes {
  std::int64_t rows, width, vocab;
  std::int64_t panel;  // rows at a time
  std::int64_t piece;  // words at a time
};

struct Inputs {
  View h, w, targets, weights, lse;
};

struct Loss {
  Composer& c;
  Algebra algebra;
  Sizes sizes;
  Inputs in;
  tern_linear_cross_entropy_attrs attrs;
  View loss;  // sums so far, [1] fp32
  View dw;    // sums so far, [vocab, width] fp32; may be absent

  // Calls `step` with the first word, and a piece of the weight [words, width] as fp32 numbers.
  template <typename Step>
  void pieces(const Step& step) {
    for (std::int64_t word = 0; word < sizes.vocab; word += sizes.piece) {
      const std::int64_t mark = c.mark();
      const std::int64_t words = std::min(sizes.piece, sizes.vocab - word);
      step(word, words, rounded_f32(c, in.w.slice(0, word, words), attrs.compute));
      c.rewind(mark);
    }
  }

  void run_panel(std::int64_t row, std::int64_t rows);
  void gradients(std::int64_t row, const View& h, const View& slope);
  View softmax_gradient(const View& z, const View& p, const View& target, const View& weight);
};

// z becomes the gradient of the loss by the logits before the cap.
View Loss::softmax_gradient(const View& z, const View& p, const View& target, const View& weight) {
  const View words = algebra.range(0, sizes.vocab, ACL_INT32).reshaped({1, sizes.vocab});
  const View hit = c.f32(algebra.equal(words, target));
  algebra.sub(p, hit, p);
  algebra.mul(p, weight, p);
  if (attrs.softcap != 0.0F) {
    algebra.muls(z, 1.0 / attrs.softcap, z);
    algebra.mul(z, z, z);
    algebra.muls(z, -1.0, z);
    algebra.adds(z, 1.0, z);
    algebra.mul(p, z, p);
  }
  return p;
}

void Loss::gradients(std::int64_t row, const View& h, const View& slope) {
  const View rounded_slope = rounded_f32(c, slope, attrs.compute);
  const View dh = c.arg(TERN_LINEAR_CROSS_ENTROPY_DH);
  View sums;
  if (dh.present()) {
    sums = c.temp(ACL_FLOAT, h.shape);
    c.zero(sums);
  }
  pieces([&](std::int64_t word, std::int64_t words, const View& w) {
    const View part = rounded_slope.slice(1, word, words);
    if (dh.present()) algebra.add(sums, algebra.product(part, w), sums);
    if (dw.present()) {
      const View into = dw.slice(0, word, words);
      algebra.add(into, algebra.product(part.transposed(0, 1), h), into);
    }
  });
  if (dh.present()) c.copy(dh.slice(0, row, h.dim(0)), sums);
}

void Loss::run_panel(std::int64_t row, std::int64_t rows) {
  const auto part = [&](const View& view) { return view.slice(0, row, rows); };
  const auto column = [&](const View& view) { return part(view).reshaped({rows, 1}); };
  const View zero = algebra.constant(0.0), none = algebra.constant(-1, ACL_INT32),
             first = algebra.constant(0, ACL_INT32);
  // Of a row that is left out nothing is looked at: not even NaN in it shows.
  const View weight = column(in.weights), used = algebra.differs(weight, 0.0);
  const View h = rounded_f32(c, algebra.select(used, c.f32(part(in.h)), zero), attrs.compute);
  const View target = algebra.select(used, column(in.targets), none);  // -1: no word of this shard
  const View has_target = algebra.above(target, -1);
  const View z = c.temp(ACL_FLOAT, {rows, sizes.vocab});
  pieces([&](std::int64_t word, std::int64_t words, const View& w) {
    algebra.product(h, w.transposed(0, 1), z.slice(1, word, words));
  });
  if (attrs.softcap != 0.0F) {
    algebra.muls(z, 1.0 / attrs.softcap, z);
    algebra.tanh(z, z);
    algebra.muls(z, attrs.softcap, z);
  }
  const View top = algebra.largest(z, 1);
  const View p = algebra.sub(z, top);
  algebra.exp(p, p);
  const View total = algebra.sum(p, 1);
  const View word = c.cast(algebra.select(has_target, target, first), ACL_INT64);
  const View logit = algebra.select(has_target, algebra.pick(z, word), zero);
  const View own = algebra.add(algebra.log(total), top);
  const View lse = in.lse.present() ? algebra.select(used, column(in.lse), zero) : own;
  const View terms = algebra.mul(weight, algebra.sub(lse, logit));
  // Of a vocabulary in shards, a row counts where its target lies.
  const View counted = algebra.select(in.lse.present() ? has_target : used, terms, zero);
  algebra.add(loss, algebra.sum(counted, 0).reshaped({1}), loss);
  const auto give = [&](int arg, const View& value) {
    if (c.present(arg)) c.copy(part(c.arg(arg)), algebra.select(used, value, zero).reshaped({rows}));
  };
  give(TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, top);
  give(TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, total);
  give(TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET, logit);
  if (!dw.present() && !c.present(TERN_LINEAR_CROSS_ENTROPY_DH)) return;
  if (in.lse.present()) {
    algebra.mul(p, algebra.exp(algebra.sub(top, lse)), p);
  } else {
    algebra.div(p, total, p);
  }
  gradients(row, h, softmax_gradient(z, p, target, weight));
}

void compose(Composer& c) {
  const View h = c.arg(TERN_LINEAR_CROSS_ENTROPY_H), w = c.arg(TERN_LINEAR_CROSS_ENTROPY_W);
  Sizes sizes{h.dim(0), h.dim(1), w.dim(0), 1, 1};
  sizes.panel = std::clamp<std::int64_t>(kPanel / std::max<std::int64_t>(1, sizes.vocab), 1,
                                         std::max<std::int64_t>(1, c.desc(TERN_LINEAR_CROSS_ENTROPY_H).shape[0]));
  sizes.piece = std::clamp<std::int64_t>(kPanel / std::max<std::int64_t>(1, sizes.width), 1, sizes.vocab);
  Loss loss{c,
            Algebra(c),
            sizes,
            {h, w, c.arg(TERN_LINEAR_CROSS_ENTROPY_TARGETS), c.arg(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS),
             c.arg(TERN_LINEAR_CROSS_ENTROPY_LSE)},
            c.attrs<tern_linear_cross_entropy_attrs>(),
            c.temp(ACL_FLOAT, {1}),
            {}};
  c.zero(loss.loss);
  if (c.present(TERN_LINEAR_CROSS_ENTROPY_DW)) {
    loss.dw = c.result(TERN_LINEAR_CROSS_ENTROPY_DW);
    c.zero(loss.dw);
  }
  for (std::int64_t row = 0; row < sizes.rows; row += sizes.panel) {
    const std::int64_t mark = c.mark();
    loss.run_panel(row, std::min(sizes.panel, sizes.rows - row));
    c.rewind(mark);
  }
  c.finish(TERN_LINEAR_CROSS_ENTROPY_LOSS, loss.loss);
  if (loss.dw.present()) c.finish(TERN_LINEAR_CROSS_ENTROPY_DW, loss.dw);
}

constexpr KernelEntry kEntries[] = {{TERN_OP_LINEAR_CROSS_ENTROPY, "panels", compose, false}};

}  // namespace

KernelList linear_cross_entropy_kernels() { return kEntries; }

}  // namespace tern::npu
