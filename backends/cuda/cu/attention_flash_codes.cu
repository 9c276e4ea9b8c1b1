// Keys and values in a cache of 8 bits.
#include "backends/cuda/cu/attention_codes.cuh"
#include "backends/cuda/cu/attention_flash.cuh"

FLASH(bf16_i8_64, Bf16OverI8, 64, 64, 64, 4, 2, 2)
FLASH(bf16_i8_128, Bf16OverI8, 128, 128, 64, 4, 2, 2)
FLASH(bf16_i8_256, Bf16OverI8, 256, 256, 64, 8, 1, 1)
FLASH(bf16_e4m3_64, Bf16OverE4m3, 64, 64, 64, 4, 2, 2)
FLASH(bf16_e4m3_128, Bf16OverE4m3, 128, 128, 64, 4, 2, 2)
FLASH(bf16_e4m3_256, Bf16OverE4m3, 256, 256, 64, 8, 1, 1)
FLASH(f16_i8_64, F16OverI8, 64, 64, 64, 4, 2, 2)
FLASH(f16_i8_128, F16OverI8, 128, 128, 64, 4, 2, 2)
FLASH(f16_i8_256, F16OverI8, 256, 256, 64, 8, 1, 1)
FLASH(f16_e4m3_64, F16OverE4m3, 64, 64, 64, 4, 2, 2)
FLASH(f16_e4m3_128, F16OverE4m3, 128, 128, 64, 4, 2, 2)
FLASH(f16_e4m3_256, F16OverE4m3, 256, 256, 64, 8, 1, 1)
