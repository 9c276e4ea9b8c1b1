#include "backends/cuda/cu/attention_decode.cuh"

DECODE(bf16_64, Given<Bf16>, 64, 64, 4, 3)
DECODE(bf16_96, Given<Bf16>, 96, 96, 3, 2)
DECODE(bf16_128, Given<Bf16>, 128, 128, 3, 2)
DECODE(bf16_192, Given<Bf16>, 192, 128, 2, 2)
DECODE(bf16_256, Given<Bf16>, 256, 256, 2, 1)
DECODE(f16_64, Given<F16x2>, 64, 64, 4, 3)
DECODE(f16_96, Given<F16x2>, 96, 96, 3, 2)
DECODE(f16_128, Given<F16x2>, 128, 128, 3, 2)
DECODE(f16_192, Given<F16x2>, 192, 128, 2, 2)
DECODE(f16_256, Given<F16x2>, 256, 256, 2, 1)
