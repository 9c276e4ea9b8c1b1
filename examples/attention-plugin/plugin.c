/* Another backend with one kernel more: attention, put in front of a backend that somebody else built. It loads that
 * backend (the macro INNER, beside this file), takes its table and its memory, answers for the op that it brings, and
 * hands everything else on. Neither tern nor the other backend is touched. docs/backend-guide.md tells how to use it.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "tern/plugin.h"

static const tern_backend* inner;
static tern_backend table;
static _Thread_local int failed_here; /* whose error the last one of this thread is */

/* A plan or bound is either this plugin's, made of a desc, or wraps the other backend's. */
struct tern_plan_s {
  tern_op_desc desc;
  tern_plan theirs; /* null: ours */
};
struct tern_bound_s {
  const struct tern_plan_s* plan;
  tern_bound theirs;
  unsigned char* data[TERN_ATTENTION_NUM_ARGS];
};

static tern_status ours(tern_status status) {
  failed_here = status != TERN_OK;
  return status;
}
static tern_status theirs(tern_status status) {
  failed_here = 0;
  return status;
}
static void last_error(tern_text text) {
  if (failed_here) {
    tern_plugin_last_error(text);
  } else {
    inner->last_error(text);
  }
}

/* ---------------------------------------------------------------- the kernel */
static tern_status attention_supports(const tern_plugin_kernel* self, tern_device device, const tern_op_desc* desc) {
  const tern_tensor_desc* q = &desc->args[TERN_ATTENTION_Q];
  const tern_tensor_desc* k = &desc->args[TERN_ATTENTION_K];
  const tern_tensor_desc* v = &desc->args[TERN_ATTENTION_V];
  const tern_tensor_desc* out = &desc->args[TERN_ATTENTION_OUT];
  const tern_attention_attrs* attrs = desc->attrs;
  if (q->shape[2] != k->shape[2] || k->shape[1] != v->shape[1] || k->shape[1] < 1 || q->shape[1] % k->shape[1] != 0 ||
      out->shape[0] != q->shape[0] || out->shape[1] != q->shape[1] || out->shape[2] != v->shape[2]) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "the shapes of q, k, v and out don't go together");
  }
  if (q->dtype != TERN_F32 || k->dtype != TERN_F32 || v->dtype != TERN_F32 || out->dtype != TERN_F32) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "this kernel knows f32 alone");
  }
  if (desc->args[TERN_ATTENTION_MASK].rank != 0 || desc->args[TERN_ATTENTION_SINKS].rank != 0 || attrs->softcap != 0 ||
      attrs->window != 0 || attrs->window_right != 0 || attrs->chunk != 0) {
    return tern_plugin_fail(TERN_UNSUPPORTED, "this kernel knows neither masks, sinks, caps, windows nor chunks");
  }
  if (desc->accumulate != 0) return tern_plugin_fail(TERN_UNSUPPORTED, "this kernel doesn't accumulate");
  return TERN_OK;
}
static const tern_plugin_kernel attention = {
    .op = TERN_OP_ATTENTION, .name = "online softmax", .supports = attention_supports};
static const tern_plugin_kernel* const kernels[] = {&attention};

static float* at(const tern_tensor_desc* desc, unsigned char* data, int64_t row, int64_t head, int64_t feature) {
  const int64_t index[TERN_MAX_RANK] = {row, head, feature};
  return (float*)(void*)data + tern_plugin_offset(desc, index);
}

/* One row of one head over the keys [first, end): the running maximum and sum of Dao et al., "FlashAttention", 2022. */
static void run_row(const tern_op_desc* desc, unsigned char* const* data, int64_t row, int64_t head, int64_t first,
                    int64_t end) {
  const tern_tensor_desc* args = desc->args;
  const tern_attention_attrs* attrs = desc->attrs;
  const tern_tensor_desc *q = &args[TERN_ATTENTION_Q], *k = &args[TERN_ATTENTION_K], *v = &args[TERN_ATTENTION_V];
  const tern_tensor_desc *out = &args[TERN_ATTENTION_OUT], *lse = &args[TERN_ATTENTION_LSE];
  const int64_t kv_head = head / (q->shape[1] / k->shape[1]);
  float most = -INFINITY, sum = 0;
  for (int64_t d = 0; d < v->shape[2]; ++d) *at(out, data[TERN_ATTENTION_OUT], row, head, d) = 0;
  for (int64_t j = first; j < end; ++j) {
    float score = 0;
    for (int64_t d = 0; d < q->shape[2]; ++d) {
      score += *at(q, data[TERN_ATTENTION_Q], row, head, d) * *at(k, data[TERN_ATTENTION_K], j, kv_head, d);
    }
    score *= attrs->scale;
    const float before = most;
    if (score > most) most = score;
    const float keep = most == before ? 1 : expf(before - most), weight = expf(score - most);
    sum = sum * keep + weight;
    for (int64_t d = 0; d < v->shape[2]; ++d) {
      float* to = at(out, data[TERN_ATTENTION_OUT], row, head, d);
      *to = *to * keep + weight * *at(v, data[TERN_ATTENTION_V], j, kv_head, d);
    }
  }
  for (int64_t d = 0; sum > 0 && d < v->shape[2]; ++d) *at(out, data[TERN_ATTENTION_OUT], row, head, d) /= sum;
  if (lse->rank != 0) *at(lse, data[TERN_ATTENTION_LSE], row, head, 0) = sum > 0 ? most + logf(sum) : -INFINITY;
}

static int32_t bound_of(const tern_op_desc* desc, unsigned char* const* data, uint32_t arg, int64_t i) {
  return ((const int32_t*)(const void*)data[arg])[i * desc->args[arg].strides[0]];
}

static void run_attention(const tern_op_desc* desc, unsigned char* const* data) {
  const tern_tensor_desc* q = &desc->args[TERN_ATTENTION_Q];
  const tern_attention_attrs* attrs = desc->attrs;
  const int64_t sequences = desc->args[TERN_ATTENTION_CU_SEQLENS_Q].shape[0] - 1;
  int64_t row = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t q_end = bound_of(desc, data, TERN_ATTENTION_CU_SEQLENS_Q, s + 1);
    const int64_t k_begin = bound_of(desc, data, TERN_ATTENTION_CU_SEQLENS_K, s);
    const int64_t k_end = bound_of(desc, data, TERN_ATTENTION_CU_SEQLENS_K, s + 1);
    for (; row < q_end; ++row) { /* causal: the last row sees all keys, the one before it all but the last */
      const int64_t end = attrs->causal ? k_end - (q_end - 1 - row) : k_end;
      for (int64_t head = 0; head < q->shape[1]; ++head) run_row(desc, data, row, head, k_begin, end);
    }
  }
  for (; row < q->shape[0]; ++row) { /* rows of no sequence */
    for (int64_t head = 0; head < q->shape[1]; ++head) run_row(desc, data, row, head, 0, 0);
  }
}

/* ---------------------------------------------------------------- in front of the other backend */
static tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  tern_plugin_desc own;
  if (tern_plugin_find_kernel(kernels, 1, device, desc, NULL, &own, NULL) == TERN_OK) return TERN_OK;
  return theirs(inner->supports(device, desc, reason));
}

static tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* out,
                        tern_plan_info* info) {
  tern_plan_info filled = {.workspace_bytes = 0};
  tern_plan_options asked;
  tern_plugin_desc own;
  tern_status status = tern_plugin_take_options(options, &asked);
  if (status != TERN_OK) return ours(status);
  if (tern_plugin_find_kernel(kernels, 1, device, desc, asked.choice, &own, NULL) == TERN_OK) {
    tern_plugin_put_text((tern_text){filled.choice, sizeof filled.choice}, attention.name);
    status = tern_plugin_give_info(info, &filled, sizeof filled);
    return ours(status == TERN_OK ? tern_plugin_copy_desc(&own.desc, sizeof **out, out) : status);
  }
  tern_plan made = NULL;
  status = inner->plan(device, desc, options, &made, info);
  if (status != TERN_OK) return theirs(status);
  status = tern_plugin_new(sizeof **out, out);
  if (status != TERN_OK) {
    (void)inner->plan_destroy(made);
    return ours(status);
  }
  (*out)->theirs = made;
  return TERN_OK;
}

static tern_status bind_here(struct tern_plan_s* planned, const tern_bind_args* given, struct tern_bound_s* made) {
  tern_bind_args own;
  tern_status status = tern_plugin_take_bind_args(given, &own);
  if (status == TERN_OK) status = tern_plugin_check_bound(&planned->desc, &own);
  for (uint32_t i = 0; status == TERN_OK && i < planned->desc.num_args; ++i) {
    const tern_plane plane = tern_plugin_bound_arg(&own, i)->planes[0];
    void* begin = NULL;
    if (planned->desc.args[i].rank == 0 || tern_plugin_elements(&planned->desc.args[i]) == 0) continue;
    if (plane.buffer == NULL) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "attention: an argument has no memory");
    status = inner->buffer_host_pointer(plane.buffer, &begin);
    made->data[i] = (unsigned char*)begin + plane.offset;
  }
  return status;
}

static tern_status bind(tern_plan planned, const tern_bind_args* given, tern_bound* out) {
  struct tern_bound_s made = {.plan = planned};
  tern_status status = planned->theirs != NULL ? theirs(inner->bind(planned->theirs, given, &made.theirs))
                                               : ours(bind_here(planned, given, &made));
  if (status != TERN_OK) return status;
  status = tern_plugin_new(sizeof **out, out);
  if (status == TERN_OK) {
    **out = made;
  } else if (made.theirs != NULL) {
    (void)inner->unbind(made.theirs);
  }
  return ours(status);
}

static tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node) {
  if (bound->theirs != NULL) return theirs(inner->launch(bound->theirs, host_args, stream, node));
  tern_op_desc desc = bound->plan->desc;
  tern_tensor_desc args[TERN_ATTENTION_NUM_ARGS];
  const tern_status status = tern_plugin_check_host_args(&desc, host_args);
  if (status != TERN_OK) return ours(status);
  for (uint32_t i = 0; i < desc.num_args; ++i) {
    args[i] = desc.args[i];
    const int dynamic = args[i].rank != 0 ? args[i].dynamic_dim : -1;
    if (dynamic >= 0) args[i].shape[dynamic] = host_args->counts[args[i].count_slot];
  }
  desc.args = args;
  run_attention(&desc, bound->data);
  return TERN_OK;
}

static tern_status plan_destroy(tern_plan made) {
  if (made != NULL && made->theirs != NULL) (void)inner->plan_destroy(made->theirs);
  return tern_plugin_free(made);
}
static tern_status unbind(tern_bound bound) {
  if (bound != NULL && bound->theirs != NULL) (void)inner->unbind(bound->theirs);
  return tern_plugin_free(bound);
}

/* The other backend's library, in this one's folder. */
static const tern_backend* load_inner(const tern_host* host) {
  Dl_info here;
  char path[4096];
  if (dladdr(&table, &here) == 0) return NULL;
  const char* slash = strrchr(here.dli_fname, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - here.dli_fname + 1);
  if ((size_t)snprintf(path, sizeof path, "%.*s%s", folder, here.dli_fname, INNER) >= sizeof path) return NULL;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return NULL;
  const tern_backend* (*entry)(const tern_host*) = NULL;
  *(void**)&entry = dlsym(library, "tern_backend_entry");
  return entry == NULL ? NULL : entry(host);
}

const tern_backend* tern_backend_entry(const tern_host* host) {
  if (host == NULL || host->abi_major != TERN_ABI_MAJOR) return NULL;
  inner = load_inner(host);
  if (inner == NULL || inner->abi_major != TERN_ABI_MAJOR) return NULL;
  memcpy(&table, inner, inner->size < sizeof table ? inner->size : sizeof table);
  table.size = sizeof table;
  table.name = "attentive";
  table.last_error = last_error;
  table.supports = supports;
  table.plan = plan;
  table.plan_destroy = plan_destroy;
  table.bind = bind;
  table.launch = launch;
  table.unbind = unbind;
  return &table;
}
