/* Whether a desc keeps its op's contract, how far a tensor reaches, and in which order its elements lie. See
 * tern/plugin.h. The texts of failures begin with the op and the argument: "axpby: out: expected f32, f16 or bf16,
 * found i32". */
#ifndef TERN_PLUGIN_DESC_H
#define TERN_PLUGIN_DESC_H

#include "tern/accel_signatures.h"
#include "tern/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- names and sizes */

/* The row of an op's signature; null: no op of this version has the id. */
static inline const tern_op_signature* tern_plugin_signature(uint32_t op) {
  for (int i = 0; i < TERN_OP_SIGNATURE_COUNT; ++i) {
    if (tern_op_signatures[i].op == op) return &tern_op_signatures[i];
  }
  return NULL;
}

/* Names for messages; never null. */
static inline const char* tern_plugin_op_name(uint32_t op) {
  const tern_op_signature* signature = tern_plugin_signature(op);
  return signature != NULL ? signature->name : "unknown op";
}
static inline const char* tern_plugin_arg_name(uint32_t op, uint32_t arg) {
  const tern_op_signature* signature = tern_plugin_signature(op);
  return signature != NULL && arg < signature->num_args ? signature->args[arg].name : "unknown argument";
}
static inline const char* tern_plugin_dtype_name(tern_dtype dtype) {
  static const char* const names[TERN_DTYPE_COUNT] = {"f32", "f16", "bf16", "f64", "i8",   "u8",      "i16",    "u16",
                                                      "i32", "u32", "i64",  "u64", "bool", "f8_e4m3", "f8_e5m2"};
  return dtype >= 0 && dtype < TERN_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

/* Bytes of one element; 0: no dtype of this version. */
static inline uint64_t tern_plugin_dtype_bytes(tern_dtype dtype) {
  static const uint8_t bytes[TERN_DTYPE_COUNT] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1};
  return dtype >= 0 && dtype < TERN_DTYPE_COUNT ? bytes[dtype] : 0;
}

/* Whether elements lie where the strides say: neither quantised nor in a private layout. */
static inline int tern_plugin_is_strided(const tern_tensor_desc* desc) {
  return desc->layout == 0 && desc->scheme.packing == TERN_PACK_NONE;
}

/* Bytes from the first element of a strided tensor to the end of its last, if there is none (absent or empty) 0: what
 * its plane must hold from its offset on. False where that doesn't fit 64 bits, where a stride is negative, or the
 * dtype unknown. The strides of other tensors are unused: the answer is whether their number of elements fits. */
static inline int tern_plugin_extent(const tern_tensor_desc* desc, uint64_t* bytes) {
  uint64_t last = 0; /* element, counted from the first */
  uint64_t count = 1;
  const uint64_t size = tern_plugin_dtype_bytes(desc->dtype);
  *bytes = 0;
  if (desc->rank < 0 || desc->rank > TERN_MAX_RANK) return 0;
  for (int32_t d = 0; d < desc->rank; ++d) {
    const uint64_t stride = tern_plugin_is_strided(desc) ? (uint64_t)desc->strides[d] : 0;
    if (desc->shape[d] < 0 || stride > INT64_MAX) return 0;
    if (desc->shape[d] == 0) continue;
    const uint64_t steps = (uint64_t)desc->shape[d] - 1;
    if (steps > 0 && stride > (INT64_MAX - last) / steps) return 0;
    last += steps * stride;
    if (count > ((uint64_t)1 << 62) / (steps + 1)) return 0;
    count *= steps + 1;
  }
  if (size == 0) return desc->rank == 0;
  for (int32_t d = 0; d < desc->rank; ++d) {
    if (desc->shape[d] == 0) return 1;
  }
  if (last >= UINT64_MAX / size) return 0;
  *bytes = desc->rank > 0 ? (last + 1) * size : 0;
  return 1;
}

/* Elements of a tensor whose desc has been checked; absent: 0. */
static inline int64_t tern_plugin_elements(const tern_tensor_desc* desc) {
  int64_t count = desc->rank > 0;
  for (int32_t d = 0; d < desc->rank; ++d) count *= desc->shape[d];
  return count;
}

/* Where the element at `index` lies in a strided tensor, in elements from its first. */
static inline int64_t tern_plugin_offset(const tern_tensor_desc* desc, const int64_t* index) {
  int64_t offset = 0;
  for (int32_t d = 0; d < desc->rank; ++d) offset += index[d] * desc->strides[d];
  return offset;
}

/* Steps `index` to the next element, the last dimension first; after the last element, to the first again with the
 * answer false. */
static inline int tern_plugin_next(const tern_tensor_desc* desc, int64_t* index) {
  for (int32_t d = desc->rank - 1; d >= 0; --d) {
    if (++index[d] < desc->shape[d]) return 1;
    index[d] = 0;
  }
  return 0;
}

/* ---------------------------------------------------------------- two descs */

static inline int tern_plugin_same_shape(const tern_tensor_desc* a, const tern_tensor_desc* b) {
  if (a->rank != b->rank) return 0;
  for (int32_t d = 0; d < a->rank; ++d) {
    if (a->shape[d] != b->shape[d]) return 0;
  }
  return 1;
}

/* Whether a tensor of desc `b` may be bound where `a` was planned. What means nothing may differ: everything of absent
 * ones, strides of dimensions of at most one entry or of tensors that aren't strided, slots without a count. */
static inline int tern_plugin_same_desc(const tern_tensor_desc* a, const tern_tensor_desc* b) {
  if (a->rank == 0 && b->rank == 0) return 1;
  if (!tern_plugin_same_shape(a, b) || a->dtype != b->dtype || a->layout != b->layout) return 0;
  if (a->scheme.packing != b->scheme.packing) return 0;
  if (a->scheme.packing != TERN_PACK_NONE && memcmp(&a->scheme, &b->scheme, sizeof a->scheme) != 0) return 0;
  if (a->dynamic_dim != b->dynamic_dim || (a->dynamic_dim >= 0 && a->count_slot != b->count_slot)) return 0;
  for (int32_t d = 0; tern_plugin_is_strided(a) && d < a->rank; ++d) {
    if (a->shape[d] > 1 && a->strides[d] != b->strides[d]) return 0;
  }
  return 1;
}

/* ---------------------------------------------------------------- the contract of an op's desc */

/* One tensor's desc in itself. `written`: by an output or a state. TERN_UNSUPPORTED: a dtype of a later version. */
static inline tern_status tern_plugin_check_tensor(const tern_tensor_desc* desc, int written) {
  const tern_status broken = TERN_INVALID_ARGUMENT;
  uint64_t unused = 0;
  if (desc->rank < 0 || desc->rank > TERN_MAX_RANK) {
    return tern_plugin_fail(broken, "rank %ld, expected 0 to %d", (long)desc->rank, TERN_MAX_RANK);
  }
  if (desc->rank == 0) return TERN_OK; /* absent: nothing else means anything */
  if (desc->reserved[0] != 0 || desc->reserved[1] != 0 || desc->reserved_tail[0] != 0 || desc->reserved_tail[1] != 0 ||
      desc->scheme.reserved[0] != 0 || desc->scheme.reserved[1] != 0) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "its desc has members of a newer version");
  }
  if (tern_plugin_dtype_bytes(desc->dtype) == 0) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "no dtype has the number %ld", (long)desc->dtype);
  }
  if (desc->dynamic_dim >= desc->rank || desc->dynamic_dim < -1) {
    return tern_plugin_fail(broken, "dynamic_dim %d is no dimension", desc->dynamic_dim);
  }
  if (desc->dynamic_dim >= 0 && desc->count_slot >= TERN_MAX_COUNTS) {
    return tern_plugin_fail(broken, "count_slot %d is no slot", desc->count_slot);
  }
  for (int d = 0; d < desc->rank; ++d) {
    if (desc->shape[d] < 0) return tern_plugin_fail(broken, "shape[%d] is %lld", d, (long long)desc->shape[d]);
    if (!tern_plugin_is_strided(desc)) continue;
    if (desc->strides[d] < 0) {
      return tern_plugin_fail(broken, "strides[%d] is %lld: negative strides are not part of the interface", d,
                              (long long)desc->strides[d]);
    }
    if (written && desc->strides[d] == 0 && desc->shape[d] > 1) {
      return tern_plugin_fail(broken, "a stride of 0 on an output");
    }
  }
  return tern_plugin_extent(desc, &unused) ? TERN_OK : tern_plugin_fail(broken, "its extent does not fit 64 bits");
}

/* Whether the dtype is one of a mask. Another is TERN_UNSUPPORTED: an op of a later version may take more. */
static inline tern_status tern_plugin_check_dtype(tern_dtype dtype, uint32_t dtypes) {
  char names[TERN_DTYPE_COUNT * 12];
  size_t length = 0;
  uint32_t left = dtypes & TERN_DTYPES_ANY;
  if (dtype >= 0 && dtype < TERN_DTYPE_COUNT && (dtypes >> dtype & 1u) != 0) return TERN_OK;
  names[0] = '\0';
  for (tern_dtype t = 0; t < TERN_DTYPE_COUNT; ++t) {
    if ((left >> t & 1u) == 0) continue;
    left &= ~(1u << t);
    const char* before = length == 0 ? "" : left == 0 ? " or " : ", ";
    length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", before, tern_plugin_dtype_name(t));
  }
  return tern_plugin_fail(TERN_UNSUPPORTED, "expected %s, found %s", names, tern_plugin_dtype_name(dtype));
}

/* One argument against its row of the table; the text lacks the op and the argument. */
static inline tern_status tern_plugin_check_arg(const tern_op_desc* desc, const tern_op_signature* signature,
                                                uint32_t index) {
  const tern_status broken = TERN_INVALID_ARGUMENT;
  const tern_tensor_desc* arg = &desc->args[index];
  const tern_arg_signature* row = &signature->args[index];
  const int accumulates = index < 32 && (desc->accumulate >> index & 1u) != 0;
  const tern_status status = tern_plugin_check_tensor(arg, row->role != TERN_ROLE_INPUT);
  if (status != TERN_OK) return status;
  if (accumulates && (row->flags & TERN_ARG_ACCUMULATE) == 0) return tern_plugin_fail(broken, "it cannot accumulate");
  if (arg->rank == 0 && (row->flags & TERN_ARG_OPTIONAL) == 0) {
    return tern_plugin_fail(broken, "it is absent and not optional");
  }
  if (arg->rank == 0) return accumulates ? tern_plugin_fail(broken, "it accumulates and is absent") : TERN_OK;
  if (arg->scheme.packing != TERN_PACK_NONE && (row->flags & TERN_ARG_QUANTISED) == 0) {
    return tern_plugin_fail(broken, "it cannot be quantised");
  }
  if (arg->layout != 0 && (row->flags & TERN_ARG_PACKABLE) == 0) {
    return tern_plugin_fail(broken, "it cannot have a private layout");
  }
  const tern_dtype same = row->dtype_as < 0 ? arg->dtype : desc->args[row->dtype_as].dtype;
  const uint32_t only = same >= 0 && same < TERN_DTYPE_COUNT ? 1u << same : 0;
  return tern_plugin_check_dtype(arg->dtype, row->dtype_as < 0 ? row->dtypes : only);
}

/* Which memory an output shares. */
static inline tern_status tern_plugin_check_alias(const tern_op_desc* desc, const tern_op_signature* signature,
                                                  uint32_t index) {
  const int32_t input = desc->alias == NULL ? -1 : desc->alias[index];
  if (input == -1) return TERN_OK;
  if (input < 0 || (uint32_t)input >= signature->num_args || signature->args[input].role != TERN_ROLE_INPUT) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "its alias %ld is no input", (long)input);
  }
  if (signature->args[index].role != TERN_ROLE_OUTPUT ||
      !tern_plugin_same_desc(&desc->args[index], &desc->args[input])) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "it cannot lie where %s does", signature->args[input].name);
  }
  return TERN_OK;
}

/* An op's desc as this version has it: exactly the table's arguments and attributes. Made by tern_plugin_take_desc;
 * `desc` points into it or at the host's own, so it is neither copied nor kept. */
typedef struct tern_plugin_desc {
  tern_op_desc desc;
  tern_tensor_desc args[TERN_OP_MAX_ARGS];
  int32_t attrs[TERN_OP_MAX_ATTRS];
  int8_t alias[TERN_OP_MAX_ARGS];
} tern_plugin_desc;

/* Reads a desc of an older or newer host: what it lacks at its end is absent or zero, what it has beyond must be. */
static inline tern_status tern_plugin_complete_desc(const tern_op_signature* op, tern_plugin_desc* own) {
  tern_op_desc* desc = &own->desc;
  const uint32_t args = desc->num_args < op->num_args ? desc->num_args : op->num_args;
  const uint32_t attrs = desc->attrs_size < op->attrs_size ? desc->attrs_size : op->attrs_size;
  if ((desc->args == NULL && desc->num_args > 0) || (desc->attrs == NULL && desc->attrs_size > 0)) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: no arguments, or no attributes", op->name);
  }
  for (uint32_t i = op->num_args; i < desc->num_args; ++i) {
    if (desc->args[i].rank == 0 && (desc->alias == NULL || desc->alias[i] == -1)) continue;
    return tern_plugin_fail(TERN_UNSUPPORTED, "%s: an argument of a newer version", op->name);
  }
  for (uint32_t i = op->attrs_size; i < desc->attrs_size; ++i) {
    if (((const unsigned char*)desc->attrs)[i] == 0) continue;
    return tern_plugin_fail(TERN_UNSUPPORTED, "%s: attributes of a newer version", op->name);
  }
  if (args < op->num_args) {
    memset(own->args, 0, sizeof own->args);
    memset(own->alias, -1, sizeof own->alias);
    if (args > 0) memcpy(own->args, desc->args, args * sizeof own->args[0]);
    if (args > 0 && desc->alias != NULL) memcpy(own->alias, desc->alias, args);
    desc->args = own->args;
    desc->alias = desc->alias == NULL ? NULL : own->alias;
  }
  if (attrs < op->attrs_size) {
    memset(own->attrs, 0, sizeof own->attrs);
    if (attrs > 0) memcpy(own->attrs, desc->attrs, attrs);
    desc->attrs = own->attrs;
  }
  desc->num_args = op->num_args;
  desc->attrs_size = op->attrs_size;
  return TERN_OK;
}

/* Reads the desc that `supports` or `plan` was given into `own`, whose `desc` is the one to go on with, if the table of
 * ops permits it: known op and needs, arguments, attributes, and each argument in itself: its role, dtype, strides,
 * packing, layout, dynamic dimension and alias. How shapes go together is the kernels' own matter.
 * TERN_INVALID_ARGUMENT: the caller broke the contract. TERN_UNSUPPORTED: the desc may be one of a later version. */
static inline tern_status tern_plugin_take_desc(const tern_op_desc* given, tern_plugin_desc* own) {
  if (given == NULL || given->size < sizeof *given) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "no desc of an op, or one of another major version");
  }
  const tern_op_signature* op = tern_plugin_signature(given->op);
  if (op == NULL) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "no op of this version has the id %lu", (unsigned long)given->op);
  }
  const tern_op_desc* desc = &own->desc;
  own->desc = *given;
  const tern_status complete = tern_plugin_complete_desc(op, own);
  if (complete != TERN_OK) return complete;
  if (desc->reserved_tail[0] != 0 || desc->reserved_tail[1] != 0) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "%s: its desc has members of a newer version", op->name);
  }
  if ((desc->needs & ~(uint32_t)(TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT)) != 0) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "%s: an unknown need in 0x%lx", op->name, (unsigned long)desc->needs);
  }
  if (op->num_args < 32 && desc->accumulate >> op->num_args != 0) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s: accumulate names no argument", op->name);
  }
  for (uint32_t i = 0; i < op->num_args; ++i) {
    tern_status status = tern_plugin_check_arg(desc, op, i);
    if (status == TERN_OK) status = tern_plugin_check_alias(desc, op, i);
    if (status != TERN_OK) {
      return tern_plugin_fail(status, "%s: %s: %s", op->name, op->args[i].name, tern_plugin_error());
    }
  }
  return TERN_OK;
}

#ifdef __cplusplus
}
#endif
#endif
