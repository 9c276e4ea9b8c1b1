#include "backends/cuda/cu/product_tensor.cuh"

TENSOR_KERNELS_OF(BF16, bf16)
