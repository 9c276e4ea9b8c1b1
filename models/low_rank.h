// Pairs of low rank that weights themselves give: how PiSSA and OLoRA begin.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tern::models {

struct Matrix {
  std::span<const float> values;  // [rows, columns]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// rank is at most the smaller side of the weight.
struct LowRankPair {
  std::vector<float> a;  // [rank, columns]
  std::vector<float> b;  // [rows, rank]
};

// scaling B A = U S V^T of the largest singular values, A = sqrt(S / scaling) V^T and B = U sqrt(S / scaling). Meng et
// al., "PiSSA: Principal Singular Values and Singular Vectors Adaptation of Large Language Models", 2024.
// The vectors are those of W^T W (or W W^T) by Lanczos' iteration, in double precision and to its end.
[[nodiscard]] LowRankPair principal_pair(const Matrix& weight, std::int64_t rank, double scaling, std::uint64_t seed);
// The same by `iterations` of a random subspace of that rank (Halko, Martinsson and Tropp, 2011), as
// torch.svd_lowrank has it: PEFT's pissa_niter_N.
[[nodiscard]] LowRankPair principal_pair_by_iteration(const Matrix& weight, std::int64_t rank, double scaling,
                                                      std::int64_t iterations, std::uint64_t seed);
// B = the first columns of Q, A = the first rows of R, where W = Q R. Büyükakyüz, "OLoRA: Orthonormal Low-Rank
// Adaptation of Large Language Models", 2024.
[[nodiscard]] LowRankPair orthonormal_pair(const Matrix& weight, std::int64_t rank);

}  // namespace tern::models
