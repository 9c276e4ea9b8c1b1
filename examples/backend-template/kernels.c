/* Four ops in fp32, as plain loops: what `supports` must know of each, and its formula. The contracts are the headers
 * of ops/ in tern's tree. */
#include "template.h"

static tern_status refuse(const char* why) { return tern_plugin_fail(TERN_UNSUPPORTED, "%s", why); }
static tern_status broken(const char* why) { return tern_plugin_fail(TERN_INVALID_ARGUMENT, "%s", why); }

/* tern has checked the desc against the op's table already. What it can't know: what this kernel is written for. */
static tern_status check_f32(const tern_op_desc* desc) {
  for (uint32_t i = 0; i < desc->num_args; ++i) {
    if (desc->args[i].rank != 0 && desc->args[i].dtype != TERN_F32) return refuse("this kernel knows f32 alone");
  }
  return TERN_OK;
}

/* Where an element of an argument lies, in its strides. */
static float* element(const tern_op_desc* desc, unsigned char* const* data, uint32_t arg, const int64_t* index) {
  return (float*)(void*)data[arg] + tern_plugin_offset(&desc->args[arg], index);
}

/* Puts a result where it belongs: an output may be asked to add to what it holds. */
static void give(const tern_op_desc* desc, unsigned char* const* data, uint32_t arg, const int64_t* index,
                 float value) {
  float* out = element(desc, data, arg, index);
  *out = (desc->accumulate >> arg & 1u) != 0 ? *out + value : value;
}

/* ---------------------------------------------------------------- elementwise */
static tern_status elementwise_supports(const tern_plugin_kernel* self, tern_device device, const tern_op_desc* desc) {
  for (uint32_t i = 1; i < desc->num_args; ++i) {
    if (desc->args[i].rank != 0 && !tern_plugin_same_shape(&desc->args[0], &desc->args[i])) {
      return broken("its arguments differ in shape");
    }
  }
  return check_f32(desc);
}

static void run_cast_copy(const tern_op_desc* desc, unsigned char* const* data) {
  const tern_tensor_desc* out = &desc->args[TERN_CAST_COPY_Y];
  int64_t index[TERN_MAX_RANK] = {0};
  if (tern_plugin_elements(out) == 0) return;
  do {
    give(desc, data, TERN_CAST_COPY_Y, index, *element(desc, data, TERN_CAST_COPY_X, index));
  } while (tern_plugin_next(out, index));
}

static void run_axpby(const tern_op_desc* desc, unsigned char* const* data) {
  const tern_axpby_attrs* attrs = desc->attrs;
  const tern_tensor_desc* out = &desc->args[TERN_AXPBY_OUT];
  int64_t index[TERN_MAX_RANK] = {0};
  if (tern_plugin_elements(out) == 0) return;
  do {
    float value = attrs->a * *element(desc, data, TERN_AXPBY_X, index);
    if (data[TERN_AXPBY_Y] != NULL) value += attrs->b * *element(desc, data, TERN_AXPBY_Y, index);
    give(desc, data, TERN_AXPBY_OUT, index, value);
  } while (tern_plugin_next(out, index));
}

static void run_mul(const tern_op_desc* desc, unsigned char* const* data) {
  const tern_tensor_desc* out = &desc->args[TERN_MUL_OUT];
  int64_t index[TERN_MAX_RANK] = {0};
  if (tern_plugin_elements(out) == 0) return;
  do {
    const float y = *element(desc, data, TERN_MUL_Y, index); /* stride 0 broadcasts */
    give(desc, data, TERN_MUL_OUT, index, *element(desc, data, TERN_MUL_X, index) * y);
  } while (tern_plugin_next(out, index));
}

/* ---------------------------------------------------------------- matmul */
/* out[batch, i, j] = alpha sum over l of a[batch, i, l] b[batch, l, j] + bias[j]; rank 2 has no batch. */
typedef struct product {
  int64_t m, k, n, batch;
} product;

static int is_product(const tern_op_desc* desc, product* p) {
  const tern_matmul_attrs* attrs = desc->attrs;
  const tern_tensor_desc *a = &desc->args[TERN_MATMUL_A], *b = &desc->args[TERN_MATMUL_B];
  const tern_tensor_desc *bias = &desc->args[TERN_MATMUL_BIAS], *out = &desc->args[TERN_MATMUL_OUT];
  const int first = out->rank - 2; /* of a matrix's dimensions */
  if ((out->rank != 2 && out->rank != 3) || a->rank != out->rank || b->rank != out->rank) return 0;
  p->batch = first == 1 ? out->shape[0] : 1;
  p->m = out->shape[first];
  p->n = out->shape[first + 1];
  p->k = a->shape[first + !attrs->transpose_a];
  return (first == 0 || (a->shape[0] == p->batch && b->shape[0] == p->batch)) &&
         a->shape[first + attrs->transpose_a] == p->m && b->shape[first + attrs->transpose_b] == p->k &&
         b->shape[first + !attrs->transpose_b] == p->n &&
         (bias->rank == 0 || (bias->rank == 1 && bias->shape[0] == p->n));
}

static tern_status matmul_supports(const tern_plugin_kernel* self, tern_device device, const tern_op_desc* desc) {
  const tern_matmul_attrs* attrs = desc->attrs;
  product p;
  if (!is_product(desc, &p)) return broken("the shapes of a, b, bias and out don't make a product");
  if (attrs->compute != TERN_COMPUTE_F32) return refuse("this kernel multiplies in f32 alone");
  return check_f32(desc);
}

/* The place of row `row` and column `column` of a matrix that may lie transposed. */
static const float* at_matrix(const tern_op_desc* desc, unsigned char* const* data, uint32_t arg, int transposed,
                              int64_t batch, int64_t row, int64_t column) {
  const int first = desc->args[arg].rank - 2;
  int64_t index[TERN_MAX_RANK] = {batch};
  index[first] = transposed ? column : row;
  index[first + 1] = transposed ? row : column;
  return element(desc, data, arg, index);
}

static void run_matmul(const tern_op_desc* desc, unsigned char* const* data) {
  const tern_matmul_attrs* attrs = desc->attrs;
  const tern_tensor_desc* out = &desc->args[TERN_MATMUL_OUT];
  int64_t index[TERN_MAX_RANK] = {0};
  product p;
  if (!is_product(desc, &p) || tern_plugin_elements(out) == 0) return;
  do {
    const int64_t batch = out->rank == 3 ? index[0] : 0;
    const int64_t i = index[out->rank - 2], j = index[out->rank - 1];
    float sum = 0;
    for (int64_t l = 0; l < p.k; ++l) {
      sum += *at_matrix(desc, data, TERN_MATMUL_A, attrs->transpose_a, batch, i, l) *
             *at_matrix(desc, data, TERN_MATMUL_B, attrs->transpose_b, batch, l, j);
    }
    sum *= attrs->alpha;
    if (data[TERN_MATMUL_BIAS] != NULL) sum += *element(desc, data, TERN_MATMUL_BIAS, &j);
    give(desc, data, TERN_MATMUL_OUT, index, sum);
  } while (tern_plugin_next(out, index));
}

/* ---------------------------------------------------------------- the list */
/* clang-format off */
static const kernel cast_copy = {{TERN_OP_CAST_COPY, "loop", elementwise_supports, NULL}, run_cast_copy};
static const kernel axpby = {{TERN_OP_AXPBY, "loop", elementwise_supports, NULL}, run_axpby};
static const kernel mul = {{TERN_OP_MUL, "loop", elementwise_supports, NULL}, run_mul};
static const kernel matmul = {{TERN_OP_MATMUL, "loop", matmul_supports, NULL}, run_matmul};
/* clang-format on */

const tern_plugin_kernel* const kernels[] = {&cast_copy.base, &axpby.base, &mul.base, &matmul.base};
const uint32_t num_kernels = sizeof kernels / sizeof *kernels;
