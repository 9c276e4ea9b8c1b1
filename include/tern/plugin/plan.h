/* The struct behind a plan, and the tensors that are bound to it. See tern/plugin.h. */
#ifndef TERN_PLUGIN_PLAN_H
#define TERN_PLUGIN_PLAN_H

#include "tern/plugin/desc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the struct behind a plan: `bytes` large, its first member a tern_op_desc that becomes a copy of `desc`, which
 * tern_plugin_take_desc gave, with all that it points at, as nothing of the host's is read later. The rest is zeros.
 * `plan` is the place for the pointer; tern_plugin_free frees it all. `return tern_plugin_copy_desc(&own.desc, sizeof
 * **plan, plan);`
 * TERN_OUT_OF_HOST_MEMORY. */
static inline tern_status tern_plugin_copy_desc(const tern_op_desc* desc, size_t bytes, void* plan) {
  const size_t args = ((bytes > sizeof *desc ? bytes : sizeof *desc) + 15) / 16 * 16;
  const size_t attrs = args + (desc->args == NULL ? 0 : desc->num_args) * sizeof *desc->args;
  const size_t alias = attrs + (desc->attrs == NULL ? 0 : desc->attrs_size);
  unsigned char* block = NULL;
  const tern_status status = tern_plugin_new(alias + (desc->alias == NULL ? 0 : desc->num_args), &block);
  if (status != TERN_OK) return status;
  tern_op_desc made = *desc;
  if (desc->args != NULL) made.args = (const tern_tensor_desc*)memcpy(block + args, desc->args, attrs - args);
  if (desc->attrs != NULL) made.attrs = memcpy(block + attrs, desc->attrs, desc->attrs_size);
  if (desc->alias != NULL) made.alias = (const int8_t*)memcpy(block + alias, desc->alias, desc->num_args);
  memcpy(block, &made, sizeof made);
  memcpy(plan, &block, sizeof block);
  return TERN_OK;
}

/* The tensor that is bound as the argument `arg`: an absent one where an older host gives fewer. */
static inline const tern_tensor* tern_plugin_bound_arg(const tern_bind_args* given, uint32_t arg) {
  static tern_tensor absent; /* zeros, and never written */
  return arg < given->num_args ? &given->args[arg] : &absent;
}

/* Whether tensors are bound as they were planned. `planned` is the plan's own, `given` was read by
 * tern_plugin_take_bind_args. */
static inline tern_status tern_plugin_check_bound(const tern_op_desc* planned, const tern_bind_args* given) {
  if (given->args == NULL && given->num_args > 0) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: no tensors to bind", tern_plugin_op_name(planned->op));
  }
  for (uint32_t i = 0; i < planned->num_args; ++i) {
    if (tern_plugin_same_desc(&planned->args[i], &tern_plugin_bound_arg(given, i)->desc)) continue;
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: %s is bound with another desc than it was planned with",
                            tern_plugin_op_name(planned->op), tern_plugin_arg_name(planned->op, i));
  }
  return TERN_OK;
}

/* Whether the strided tensor of the argument `arg` lies inside of its buffer, of `capacity` bytes (0 if it has none):
 * at `offset`, as far as its desc reaches. An absent or empty one needs no buffer. TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_check_plane(const tern_op_desc* planned, uint32_t arg, uint64_t offset,
                                                  uint64_t capacity) {
  uint64_t bytes = 0;
  const int fits = tern_plugin_extent(&planned->args[arg], &bytes);
  if (fits && (bytes == 0 || tern_plugin_in_range(offset, bytes, capacity))) return TERN_OK;
  return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: %s: %llu bytes at %llu are not inside of its buffer of %llu",
                          tern_plugin_op_name(planned->op), tern_plugin_arg_name(planned->op, arg),
                          (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)capacity);
}

#ifdef __cplusplus
}
#endif
#endif
