#include "backends/cuda/cu/attention_flash.cuh"

FLASH(bf16_64, Given<Bf16>, 64, 64, 64, 4, 2, 2)
FLASH(bf16_96, Given<Bf16>, 96, 96, 64, 4, 2, 2)
FLASH(bf16_128, Given<Bf16>, 128, 128, 64, 4, 2, 2)
FLASH(bf16_192, Given<Bf16>, 192, 128, 64, 4, 2, 2)
FLASH(bf16_256, Given<Bf16>, 256, 256, 64, 8, 1, 1)
FLASH(f16_64, Given<F16x2>, 64, 64, 64, 4, 2, 2)
FLASH(f16_96, Given<F16x2>, 96, 96, 64, 4, 2, 2)
FLASH(f16_128, Given<F16x2>, 128, 128, 64, 4, 2, 2)
FLASH(f16_192, Given<F16x2>, 192, 128, 64, 4, 2, 2)
FLASH(f16_256, Given<F16x2>, 256, 256, 64, 8, 1, 1)
