#include "ops/sink_scale.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

}  // namespace

SinkScaleOut sink_scale(Emitter& emitter, Value x, Value lse, Value sinks, const SinkScaleOptions& options) {
  CallBuilder builder(TERN_OP_SINK_SCALE, options.needs);
  builder.in(TERN_SINK_SCALE_X, x)
      .in(TERN_SINK_SCALE_LSE, lse)
      .in(TERN_SINK_SCALE_SINKS, sinks)
      .out(TERN_SINK_SCALE_OUT, like(emitter.desc(x), options.out));
  if (options.keep_lse) builder.out(TERN_SINK_SCALE_LSE_OUT, like(emitter.desc(lse), TERN_F32));
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_SINK_SCALE_OUT], out[TERN_SINK_SCALE_LSE_OUT]};
}

Value sink_scale_backward(Emitter& emitter, Value dout, Value out, Value lse, Value sinks, Value into,
                          std::uint32_t needs) {
  return CallBuilder(TERN_OP_SINK_SCALE_BACKWARD, needs)
      .in(TERN_SINK_SCALE_BACKWARD_DOUT, dout)
      .in(TERN_SINK_SCALE_BACKWARD_OUT, out)
      .in(TERN_SINK_SCALE_BACKWARD_LSE, lse)
      .in(TERN_SINK_SCALE_BACKWARD_SINKS, sinks)
      .out(emitter, TERN_SINK_SCALE_BACKWARD_DSINKS, like(emitter.desc(sinks), TERN_F32), into)
      .emit(emitter, TERN_SINK_SCALE_BACKWARD_DSINKS);
}

const OpRules sink_scale_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::sink_scale,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};
const OpRules sink_scale_backward_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = decompose_accumulate,
    .reference = ref::sink_scale_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
