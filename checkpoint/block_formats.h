// One function a block format: reads one block, writes its elements. Internal to io's dequantisation.
#pragma once

#include <cstdint>

namespace tern::checkpoint::blocks {

using Byte = std::uint8_t;
using Expand = void (*)(const Byte* block, float* out);

void q4_0(const Byte* block, float* out);
void q4_1(const Byte* block, float* out);
void q5_0(const Byte* block, float* out);
void q5_1(const Byte* block, float* out);
void q8_0(const Byte* block, float* out);
void q2_k(const Byte* block, float* out);
void q3_k(const Byte* block, float* out);
void q4_k(const Byte* block, float* out);
void q5_k(const Byte* block, float* out);
void q6_k(const Byte* block, float* out);
void tq1_0(const Byte* block, float* out);
void tq2_0(const Byte* block, float* out);
void mxfp4(const Byte* block, float* out);
void nvfp4(const Byte* block, float* out);
void iq2_xxs(const Byte* block, float* out);
void iq2_xs(const Byte* block, float* out);
void iq2_s(const Byte* block, float* out);
void iq3_xxs(const Byte* block, float* out);
void iq3_s(const Byte* block, float* out);
void iq1_s(const Byte* block, float* out);
void iq1_m(const Byte* block, float* out);
void iq4_nl(const Byte* block, float* out);
void iq4_xs(const Byte* block, float* out);

// The eight scales and minima, 6 bits each, that Q4_K and Q5_K pack into 12 bytes.
struct ScaleMin {
  Byte scale[8];
  Byte minimum[8];
};
[[nodiscard]] ScaleMin unpack_scale_min(const Byte* packed);

}  // namespace tern::checkpoint::blocks
