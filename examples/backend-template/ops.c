/* From a desc to a launch: supports, plan, bind and launch (section 9 of docs/backend-spec.md). It's the same for every
 * op: which kernel there is, where its tensors lie, and how many entries a dynamic dimension has this time. */
#include "template.h"

struct tern_plan_s {
  tern_op_desc desc; /* its own copy */
  const kernel* kernel;
};
struct tern_bound_s {
  const struct tern_plan_s* plan; /* it outlives this */
  unsigned char* data[TERN_OP_MAX_ARGS];
};

static tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  tern_plugin_desc own;
  return tern_plugin_answer(tern_plugin_find_kernel(kernels, num_kernels, device, desc, NULL, &own, NULL), reason);
}

static tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* out,
                        tern_plan_info* info) {
  const tern_plugin_kernel* found = NULL;
  tern_plan_info filled = {.workspace_bytes = 0}; /* nor scratch */
  tern_plan_options asked;
  tern_plugin_desc own;
  tern_status status = tern_plugin_take_options(options, &asked);
  if (status == TERN_OK) {
    status = tern_plugin_find_kernel(kernels, num_kernels, device, desc, asked.choice, &own, &found);
  }
  if (status != TERN_OK) return status;
  tern_plugin_choice(found, device, (tern_text){filled.choice, sizeof filled.choice});
  status = tern_plugin_give_info(info, &filled, sizeof filled);
  if (status == TERN_OK) status = tern_plugin_copy_desc(&own.desc, sizeof **out, out);
  if (status == TERN_OK) (*out)->kernel = (const kernel*)found; /* its first member */
  return status;
}

static tern_status bind(tern_plan planned, const tern_bind_args* given, tern_bound* out) {
  struct tern_bound_s made = {.plan = planned};
  tern_bind_args own; /* no workspace was asked for, and counts come at launch */
  tern_status status = tern_plugin_take_bind_args(given, &own);
  if (status == TERN_OK) status = tern_plugin_check_bound(&planned->desc, &own);
  for (uint32_t i = 0; status == TERN_OK && i < planned->desc.num_args; ++i) {
    const tern_plane plane = tern_plugin_bound_arg(&own, i)->planes[0];
    if (planned->desc.args[i].rank == 0) continue; /* absent: its planes mean nothing */
    status = tern_plugin_check_plane(&planned->desc, i, plane.offset, plane.buffer != NULL ? plane.buffer->bytes : 0);
    made.data[i] = at(plane, 0);
  }
  if (status == TERN_OK) status = tern_plugin_new(sizeof **out, out);
  if (status == TERN_OK) **out = made;
  return status;
}

static tern_status plan_destroy(tern_plan made) { return tern_plugin_free(made); }
static tern_status unbind(tern_bound bound) { return tern_plugin_free(bound); }

static tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node) {
  tern_op_desc desc = bound->plan->desc;
  tern_tensor_desc args[TERN_OP_MAX_ARGS];
  const tern_status status = tern_plugin_check_host_args(&desc, host_args);
  if (status != TERN_OK) return status;
  for (uint32_t i = 0; i < desc.num_args; ++i) { /* nobody looks beyond the count */
    args[i] = desc.args[i];
    const int dynamic = args[i].rank != 0 ? args[i].dynamic_dim : -1;
    if (dynamic >= 0) args[i].shape[dynamic] = host_args->counts[args[i].count_slot];
  }
  desc.args = args;
  bound->plan->kernel->run(&desc, bound->data);
  return TERN_OK;
}

void add_ops(tern_backend* table) {
  table->supports = supports;
  table->plan = plan;
  table->plan_destroy = plan_destroy;
  table->bind = bind;
  table->launch = launch;
  table->unbind = unbind;
}
