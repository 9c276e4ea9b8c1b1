#include "backends/cuda/cu/product_tensor.cuh"

TENSOR_KERNELS_OF(F16, f16)
