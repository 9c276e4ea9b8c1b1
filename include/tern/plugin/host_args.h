/* A launch's counts and lengths, checked against the planned desc, and copied where they're needed after the call. See
 * tern/plugin.h. */
#ifndef TERN_PLUGIN_HOST_ARGS_H
#define TERN_PLUGIN_HOST_ARGS_H

#include "tern/plugin/desc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Actual entries of a dimension: the count if it is the dynamic one, else its size in the desc. `counts` may be null:
 * then every entry of the capacity is meant. */
static inline int64_t tern_plugin_entries(const tern_tensor_desc* desc, int dimension, const int64_t* counts) {
  const int counted = counts != NULL && desc->dynamic_dim == dimension;
  return counted ? counts[desc->count_slot] : desc->shape[dimension];
}

/* Arguments of an op that come in host_args too, absent ones included. */
static inline uint32_t tern_plugin_num_lengths(uint32_t op) {
  const tern_op_signature* signature = tern_plugin_signature(op);
  uint32_t count = 0;
  for (uint32_t i = 0; signature != NULL && i < signature->num_args; ++i) {
    count += (signature->args[i].flags & TERN_ARG_LENGTHS) != 0;
  }
  return count;
}

/* One array of lengths, which the argument `index` holds on the device. */
static inline tern_status tern_plugin_check_lengths(const tern_op_desc* desc, uint32_t index,
                                                    const tern_host_args* given, const tern_host_array* array) {
  const tern_tensor_desc* arg = &desc->args[index];
  const char* const op = tern_plugin_op_name(desc->op);
  const char* const name = tern_plugin_arg_name(desc->op, index);
  if (array->count < 0 || (array->count > 0 && array->data == NULL)) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: %s: its array of lengths is null or negative", op, name);
  }
  if (arg->rank == 0) return TERN_OK;
  const int64_t least = tern_plugin_entries(arg, 0, given->counts);
  if (array->count >= least && array->count <= arg->shape[0]) return TERN_OK;
  return tern_plugin_fail(TERN_INVALID_ARGUMENT,
                          "%s: %s: expected %lld lengths, or the %lld of its capacity, found %lld", op, name,
                          (long long)least, (long long)arg->shape[0], (long long)array->count);
}

/* Whether a launch's host_args fit the planned desc, which has been checked: counts lie within capacities, and there is
 * an array for each argument with lengths, or none at all: then the lengths are in their tensors alone, which a device
 * with TERN_CAP_HOST_LENGTHS must refuse itself. Another version's host gives more arrays, or none for the absent
 * arguments at the end. Null is right for an op with neither lengths nor dynamic dimensions.
 * TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_check_host_args(const tern_op_desc* desc, const tern_host_args* given) {
  const tern_op_signature* op = tern_plugin_signature(desc->op);
  uint32_t array = 0;
  uint32_t expected = 0; /* up to the last that is present */
  uint32_t seen = 0;
  int dynamic = 0;
  if (op == NULL) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "a plan of an unknown op");
  for (uint32_t i = 0; i < op->num_args; ++i) {
    seen += (op->args[i].flags & TERN_ARG_LENGTHS) != 0;
    if (desc->args[i].rank > 0) expected = seen;
    dynamic = dynamic || (desc->args[i].rank > 0 && desc->args[i].dynamic_dim >= 0);
  }
  if (given == NULL) {
    if (expected == 0 && !dynamic) return TERN_OK;
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: host_args are missing", op->name);
  }
  if (given->size < offsetof(tern_host_args, counts) + sizeof given->counts) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: host_args of %lu bytes", op->name, (unsigned long)given->size);
  }
  if (given->num_arrays != 0 && (given->num_arrays < expected || given->arrays == NULL)) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: expected %lu arrays of lengths, found %lu", op->name,
                            (unsigned long)expected, given->arrays == NULL ? 0ul : (unsigned long)given->num_arrays);
  }
  for (uint32_t i = 0; i < op->num_args; ++i) {
    const tern_tensor_desc* arg = &desc->args[i];
    const int counted = arg->rank > 0 && arg->dynamic_dim >= 0;
    const int64_t count = counted ? given->counts[arg->count_slot] : 0;
    if (counted && (count < 0 || count > arg->shape[arg->dynamic_dim])) {
      return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: count of %s: expected 0 to %lld, found %lld", op->name,
                              op->args[i].name, (long long)arg->shape[arg->dynamic_dim], (long long)count);
    }
    if ((op->args[i].flags & TERN_ARG_LENGTHS) == 0 || array >= given->num_arrays) continue;
    const tern_status status = tern_plugin_check_lengths(desc, i, given, &given->arrays[array++]);
    if (status != TERN_OK) return status;
  }
  return TERN_OK;
}

/* The plugin's own copy of a launch's host_args, as nothing of the host's is read once the call has returned. */
typedef struct tern_plugin_host_args {
  int32_t given; /* 0: the host gave none */
  uint32_t num_arrays;
  tern_host_array* arrays; /* one block with what they point at; null: none */
  int64_t counts[TERN_MAX_COUNTS];
} tern_plugin_host_args;

/* Checks as tern_plugin_check_host_args and copies; tern_plugin_free frees `copy->arrays`. If it fails, there is
 * nothing to free. TERN_INVALID_ARGUMENT, TERN_OUT_OF_HOST_MEMORY. */
static inline tern_status tern_plugin_copy_host_args(const tern_op_desc* desc, const tern_host_args* given,
                                                     tern_plugin_host_args* copy) {
  memset(copy, 0, sizeof *copy);
  tern_status status = tern_plugin_check_host_args(desc, given);
  if (status != TERN_OK || given == NULL) return status;
  const uint32_t known = tern_plugin_num_lengths(desc->op);
  const uint32_t num_arrays = given->num_arrays < known ? given->num_arrays : known;
  uint64_t bytes = num_arrays * (uint64_t)sizeof *given->arrays;
  for (uint32_t i = 0; i < num_arrays; ++i) {
    const uint64_t count = (uint64_t)given->arrays[i].count;
    if (count > SIZE_MAX / 64) return tern_plugin_fail(TERN_OUT_OF_HOST_MEMORY, "more lengths than the host can hold");
    bytes += count * sizeof(int32_t);
  }
  if (num_arrays > 0) status = tern_plugin_new((size_t)bytes, &copy->arrays);
  if (status != TERN_OK) return status;
  copy->given = 1;
  copy->num_arrays = num_arrays;
  memcpy(copy->counts, given->counts, sizeof copy->counts);
  int32_t* data = (int32_t*)(void*)(copy->arrays + num_arrays);
  for (uint32_t i = 0; i < num_arrays; ++i) {
    const size_t count = (size_t)given->arrays[i].count;
    if (count > 0) memcpy(data, given->arrays[i].data, count * sizeof *data);
    copy->arrays[i].data = data;
    copy->arrays[i].count = given->arrays[i].count;
    data += count;
  }
  return TERN_OK;
}

#ifdef __cplusplus
}
#endif
#endif
