// The loss over a vocabulary, panel by panel: logits [rows, panel] come from a product into the workspace, and the
// logits' gradient takes their place there, in the dtype that its products want.
#include "backends/cuda/cu/vectors.cuh"

// What is kept of each row.
struct RowState {
  float most, sum, hit, lse;
};

// A block of rows, as struct Block of linear_cross_entropy.cpp.
struct Block {
  const float* weights;
  long weights_step;
  const int* targets;
  RowState* states;
  float cap;  // 0: none
  int rows;
  DEVICE_MEMBER float weight(long row) const { return weights[row * weights_step]; }
};

// A part of the vocabulary: ids from `first` on, as struct Panel of linear_cross_entropy.cpp.
struct Panel {
  float* logits;
  long stride;  // from row to row, in floats
  int first, count;
};

DEVICE float infinity() { return __int_as_float(0x7f800000); }
DEVICE float not_a_number() { return __int_as_float(0x7fc00000); }

// The soft cap, and its slope where it gave x.
DEVICE float capped(float x, float cap) { return cap > 0.0f ? cap * tanhf(x / cap) : x; }
DEVICE float slope_of(float x, float cap) { return cap > 0.0f ? 1.0f - x / cap * (x / cap) : 1.0f; }

// Rows in the dtype of products, zeros in place of those that are left out: nothing of theirs may count, NaN neither.
// Blocks are [rows, parts of the columns].
KERNEL(head_take)(Tensor h, long h_row, long h_col, Block block, Tensor taken, int width) {
  const long row = blockIdx.x;
  const int column = (blockIdx.y * blockDim.x + threadIdx.x) * W;
  if (column >= width) return;
  Floats value = floats_of(0.0f);
  if (block.weight(row) != 0.0f) value = fetch(h, row * h_row + column * h_col, h_col, width - column);
  spread(taken, row * width + column, 1, width - column, value);
}

// What exponentials below a largest logit are times, below another one. Sums of nothing but zeros stay 0.
DEVICE float scaled_from(float most, float other) { return most == -infinity() ? 0.0f : expf(most - other); }

// A block of threads for each row: the largest logit of the panel and the sum of the exponentials, joined with those of
// earlier panels.
KERNEL_BOUNDED(head_statistics, 256, 4)(Block block, Panel panel) {
  SHARED float scratch[32];
  const long row = blockIdx.x;
  float* const z = panel.logits + row * panel.stride;
  float most = -infinity(), sum = 0.0f;
  bool bad = false;  // some are NaN
  for (long c = threadIdx.x * W; c < panel.count; c += blockDim.x * W) {
    Floats x = fetch<F32>(floats_at(z), c, 1, panel.count - c);
    float largest = most;
    UNROLL for (int i = 0; i < W; ++i) {
      x[i] = c + i < panel.count ? capped(x[i], block.cap) : -infinity();
      largest = fmaxf(largest, x[i]);
      bad = bad || isnan(x[i]);
    }
    if (largest == -infinity()) continue;
    sum *= expf(most - largest);
    most = largest;
    UNROLL for (int i = 0; i < W; ++i) sum += expf(x[i] - most);
  }
  const float of_panel = block_max(most, scratch);
  sum = block_sum(sum * scaled_from(most, of_panel), scratch);
  bad = block_max(bad ? 1.0f : 0.0f, scratch) > 0.0f;
  if (threadIdx.x != 0) return;
  RowState state = block.states[row];
  if (panel.first == 0) state = {-infinity(), 0.0f, 0.0f, 0.0f};
  const float all = bad || isnan(state.most) ? not_a_number() : fmaxf(of_panel, state.most);
  state.sum = sum * scaled_from(of_panel, all) + state.sum * scaled_from(state.most, all);
  if (isnan(all)) state.sum = all;  // where all are NaN, nothing was summed
  state.most = all;
  const int target = block.weight(row) != 0.0f ? block.targets[row] : -1;
  if (target >= panel.first && target < panel.first + panel.count) {
    state.hit = capped(z[target - panel.first], block.cap);
  }
  block.states[row] = state;
}

// What is given of each row, as struct Given of linear_cross_entropy.cpp; null: it isn't.
struct Given {
  const float* lse;
  float* row_max;
  float* row_sum;
  float* row_target;
  long lse_step, max_step, sum_step, target_step;
  float* losses;  // of the workspace
};

KERNEL(head_rows)(Block block, Given given) {
  const long row = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= block.rows) return;
  RowState state = block.states[row];
  const float weight = block.weight(row);
  float loss = 0.0f;
  if (weight == 0.0f) {
    state = {0.0f, 0.0f, 0.0f, 0.0f};
  } else {
    if (state.most == -infinity()) state.sum = not_a_number();  // of exp(-infinity + infinity)
    const bool shard = given.lse != nullptr;
    state.lse = shard ? given.lse[row * given.lse_step] : state.most + logf(state.sum);
    if (!shard || block.targets[row] >= 0) loss = weight * (state.lse - state.hit);
  }
  block.states[row] = state;
  given.losses[row] = loss;
  if (given.row_max != nullptr) given.row_max[row * given.max_step] = state.most;
  if (given.row_sum != nullptr) given.row_sum[row * given.sum_step] = state.sum;
  if (given.row_target != nullptr) given.row_target[row * given.target_step] = state.hit;
}

// The logits' gradient in their place: a block of threads for each row. Narrower numbers lie in the first half of where
// the row's logits were: those of a round are written where earlier rounds have read, or the same one.
template <int dtype>
DEVICE void gradient_of(const Block& block, const Panel& panel) {
  const long row = blockIdx.x;
  float* const z = panel.logits + row * panel.stride;
  const Tensor out = {reinterpret_cast<uchar*>(z), dtype, 0};
  const float weight = block.weight(row);
  const float lse = block.states[row].lse;
  const int target = weight != 0.0f ? block.targets[row] - panel.first : -1;
  const long round = blockDim.x * W;
  for (long begin = 0; begin < panel.count; begin += round) {
    const long c = begin + threadIdx.x * W;
    Floats x = floats_of(0.0f);
    if (weight != 0.0f && c < panel.count) {
      x = fetch<F32>(floats_at(z), c, 1, panel.count - c);
      UNROLL for (int i = 0; i < W; ++i) {
        const float logit = capped(x[i], block.cap);
        const float p = expf(logit - lse);
        x[i] = weight * slope_of(logit, block.cap) * (c + i == target ? p - 1.0f : p);
      }
    }
    if (dtype != F32) __syncthreads();
    if (c < panel.count) spread<dtype>(out, c, 1, panel.count - c, x);
  }
}
KERNEL_BOUNDED(head_gradient_f32, 256, 4)(Block block, Panel panel) { gradient_of<F32>(block, panel); }
KERNEL_BOUNDED(head_gradient_bf16, 256, 4)(Block block, Panel panel) { gradient_of<BF16>(block, panel); }
KERNEL_BOUNDED(head_gradient_f16, 256, 4)(Block block, Panel panel) { gradient_of<F16>(block, panel); }

// The gradient of the rows, summed in fp32 over all panels: blocks are [rows, parts of the columns].
KERNEL(head_give)(float* sums, Block block, Tensor dh, long dh_row, long dh_col, int width) {
  const long row = blockIdx.x;
  const int column = (blockIdx.y * blockDim.x + threadIdx.x) * W;
  if (column >= width) return;
  Floats value = floats_of(0.0f);
  if (block.weight(row) != 0.0f) value = fetch<F32>(floats_at(sums), row * width + column, 1, width - column);
  spread(dh, row * dh_row + column * dh_col, dh_col, width - column, value);
}

KERNEL(head_loss)(const float* losses, Tensor loss, int rows) {
  SHARED float scratch[32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += losses[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) put_or_add(loss, 0, sum);
}
