#include "tests/fakes/cuda/emulator/matrix.h"

#include <cstring>

#include "tests/fakes/cuda/emulator/half.h"

namespace tern::cuda::emulated {
namespace {

float to_float(Meet kind, std::uint16_t bits) {
  return kind == Meet::mma_bf16 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16) : half_to_float(bits);
}

void make_product(Meet kind, Exchange& exchange) {
  float a[16][16];
  float b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    std::uint32_t given[6];
    std::memcpy(given, exchange.given[lane], sizeof given);
    const int row = lane / 4, pair = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const int shift = 16 * half, at = pair + half;
      const auto part = [&](int i) { return to_float(kind, static_cast<std::uint16_t>(given[i] >> shift)); };
      a[row][at] = part(0);
      a[row + 8][at] = part(1);
      a[row][at + 8] = part(2);
      a[row + 8][at + 8] = part(3);
      b[at][row] = part(4);
      b[at + 8][row] = part(5);
    }
  }
  float d[16][8] = {};
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) d[i][j] += a[i][k] * b[k][j];
    }
  }
  static_assert(sizeof d == sizeof exchange.made);
  std::memcpy(exchange.made, d, sizeof d);
}

}  // namespace

void make_matrix(Meet kind, Exchange& exchange) {
  if (kind == Meet::mma_bf16 || kind == Meet::mma_f16) {
    make_product(kind, exchange);
    return;
  }
  for (int lane = 0; lane < 32; ++lane) {
    const void* row = nullptr;
    std::memcpy(&row, exchange.given[lane], sizeof row);
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
      fail("ldmatrix: lane %d's row %p isn't aligned to 16 bytes", lane, row);
    std::memcpy(exchange.made + 16 * lane, row, 16);
  }
}

}  // namespace tern::cuda::emulated
