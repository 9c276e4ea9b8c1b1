// What a kernel is told of dropout.
#pragma once

#include "backends/cuda/kernel.h"

namespace tern::cuda {

// The struct Dropping of cu/dropout.cuh. keys [rows] i64 and mask [rows, width] u8 may both be absent.
struct Dropping {
  Place keys = 0, mask = 0;
  std::int64_t key = 0, mask_row = 0, mask_col = 0;
  std::uint32_t site = 0;
  float rate = 0.0F;
  float factor = 1.0F;

  Dropping() = default;
  Dropping(const TensorView& keys_of_rows, const TensorView& mask_of_all, std::int32_t site_of_model, float share)
      : keys(keys_of_rows.planes[0]),
        mask(mask_of_all.planes[0]),
        key(keys_of_rows.present() ? keys_of_rows.stride(0) : 0),
        mask_row(mask_of_all.present() ? mask_of_all.stride(0) : 0),
        mask_col(mask_of_all.present() ? mask_of_all.stride(1) : 0),
        site(static_cast<std::uint32_t>(site_of_model)),
        rate(share),
        factor(static_cast<float>(1.0 / (1.0 - static_cast<double>(share)))) {}
};

}  // namespace tern::cuda
