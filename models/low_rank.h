// Pairs of low rank that weights or their gradients give: how PiSSA, OLoRA and LoRA-GA begin.
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

// Which of a gradient's 2 rank leading singular vectors make A and B, by ms-swift's names: the right ones A, the left
// ones B. `random` draws 2 rank different ones.
enum class GradientDirection { ArBr, A2rBr, ArB2r, random };
// What they are multiplied by: rows^(1/4) / sqrt(gamma); nothing; 1 / scaling; the mean root of the weight's rank
// leading singular values over the scaling.
enum class GradientScale { stable, unit, gd, weight };
struct GradientStart {
  GradientDirection direction = GradientDirection::ArB2r;
  GradientScale scale = GradientScale::stable;
  double stable_gamma = 16;
};
// Wang, Yu and Li, "LoRA-GA: Low-Rank Adaptation with Gradient Approximation", 2024, as ms-swift's peer has it:
// singular vectors by torch.svd_lowrank with 4 rank vectors and 4 iterations. 2 rank is at most the smaller side. Signs
// are such that the largest component of the shorter side's vector is above 0, as LAPACK's differ from machine to
// machine.
[[nodiscard]] LowRankPair gradient_pair(const Matrix& gradient, const Matrix& weight, std::int64_t rank, double scaling,
                                        const GradientStart& start, std::uint64_t seed);

}  // namespace tern::models
