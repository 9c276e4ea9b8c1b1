#include <limits>

#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The experts of groups that aren't among the best become -infinity in `choice` [rows, experts].
void keep_best_groups(Algebra& algebra, const tern_moe_route_attrs& attrs, const View& choice) {
  const std::int64_t rows = choice.dim(0), groups = attrs.groups;
  const View by_group = choice.reshaped({rows, groups, choice.dim(1) / groups});
  const View best = algebra.sort(by_group, true).values.slice(2, 0, attrs.group_top);
  const View worth = algebra.sum(best, 2).reshaped({rows, groups});
  const View kept = algebra.sort(worth, true).places.slice(1, 0, attrs.top_groups);
  const View numbers = algebra.range(0, groups, ACL_INT64).reshaped({1, 1, groups});
  const View hits = algebra.composer().f32(algebra.equal(kept.unsqueezed(2), numbers));  // [rows, top_groups, groups]
  const View count = algebra.sum(hits, 1).reshaped({rows, groups, 1});
  algebra.put_where(by_group, algebra.equals(count, 0.0), -kInfinity);
}

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_moe_route_attrs>();
  Algebra algebra(c);
  const View logits = c.f32(c.arg(TERN_MOE_ROUTE_LOGITS));
  const View weights = c.arg(TERN_MOE_ROUTE_WEIGHTS), experts = c.arg(TERN_MOE_ROUTE_EXPERTS);
  const View s = attrs.sigmoid != 0 ? algebra.sigmoid(logits) : algebra.softmax(logits);
  const View biased = c.present(TERN_MOE_ROUTE_BIAS) ? algebra.add(s, c.arg(TERN_MOE_ROUTE_BIAS).unsqueezed(0)) : s;
  // NaN comes after every number, but before what lies in other groups.
  const View lowest = algebra.constant(-std::numeric_limits<float>::max());
  const View choice = algebra.select(algebra.equal(biased, biased), biased, lowest);
  if (attrs.top_groups < attrs.groups) keep_best_groups(algebra, attrs, choice);
  const View best = c.dense(algebra.sort(choice, true).places.slice(1, 0, experts.dim(1)));
  const View chosen = algebra.pick(s, best);
  if (attrs.normalise != 0) algebra.div(chosen, algebra.sum(chosen, 1), chosen);
  algebra.muls(chosen, attrs.scale, chosen);
  c.copy(weights, chosen);
  c.copy(experts, best);
}

// [rows, top_k] as [rows, experts]: each number at its expert, 0 elsewhere. `hits` [rows, top_k, experts].
View spread(Algebra& algebra, const View& hits, const View& numbers) {
  const View terms = algebra.mul(hits, numbers.unsqueezed(2));
  return algebra.sum(terms, 1).reshaped({hits.dim(0), hits.dim(2)});
}

void compose_backward(Composer& c) {
  const auto& attrs = c.attrs<tern_moe_route_backward_attrs>();
  Algebra algebra(c);
  const View dweights = c.arg(TERN_MOE_ROUTE_BACKWARD_DWEIGHTS);
  const View logits = c.f32(c.arg(TERN_MOE_ROUTE_BACKWARD_LOGITS));
  const View experts = c.arg(TERN_MOE_ROUTE_BACKWARD_EXPERTS);
  const std::int64_t rows = logits.dim(0), width = logits.dim(1);
  const View numbers = algebra.range(0, width, ACL_INT32).reshaped({1, 1, width});
  const View hits = c.f32(algebra.equal(experts.unsqueezed(2), numbers));
  const View dw = spread(algebra, hits, dweights);
  const View chosen = algebra.sum(hits, 1).reshaped({rows, width});
  View gradient;
  if (attrs.sigmoid == 0) {
    View kept = logits;
    if (attrs.normalise != 0) {  // a softmax over the chosen alone
      kept = algebra.adds(logits, 0.0);
      algebra.put_where(kept, algebra.equals(chosen, 0.0), -kInfinity);
    }
    const View p = algebra.softmax(kept);
    const View mean = algebra.sum(algebra.mul(dw, p), 1);
    gradient = algebra.mul(p, algebra.sub(dw, mean));
  } else {
    const View s = algebra.sigmoid(logits);
    View slope = dw;
    if (attrs.normalise != 0) {
      const View total = algebra.sum(algebra.mul(s, chosen), 1);
      const View mean = algebra.div(algebra.sum(algebra.mul(dw, s), 1), total);
      slope = algebra.mul(algebra.div(algebra.sub(dw, mean), total), chosen);
    }
    const View rest = algebra.adds(algebra.muls(s, -1.0), 1.0);
    gradient = algebra.mul(algebra.mul(s, rest), slope);
  }
  algebra.muls(gradient, attrs.scale, gradient);
  c.finish(TERN_MOE_ROUTE_BACKWARD_DLOGITS, gradient);
}

constexpr KernelEntry kEntries[] = {{TERN_OP_MOE_ROUTE, "composed", compose, true},
                                    {TERN_OP_MOE_ROUTE_BACKWARD, "composed", compose_backward, true}};

}  // namespace

KernelList moe_route_kernels() { return kEntries; }

}  // namespace tern::npu
