#include "models/low_rank.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/philox.h"

namespace tern::models {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Dense = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

Eigen::Map<const Rows> mapped(const Matrix& weight) {
  return {weight.values.data(), static_cast<Eigen::Index>(weight.rows), static_cast<Eigen::Index>(weight.columns)};
}

// Normally distributed numbers of a stream of their own.
class Normals {
 public:
  explicit Normals(std::uint64_t key) : key_(key) {}
  Dense draw(Eigen::Index rows, Eigen::Index columns) {
    Dense out(rows, columns);
    for (double& value : out.reshaped()) {
      const auto bits = philox(key_, {next_++, 0, 0, 0});
      value = normals(bits[0], bits[1])[0];
    }
    return out;
  }

 private:
  std::uint64_t key_;
  std::uint32_t next_ = 0;
};

Dense orthonormal(const Dense& columns) {
  return Eigen::HouseholderQR<Dense>(columns).householderQ() * Dense::Identity(columns.rows(), columns.cols());
}

void take_off(const Dense& basis, Eigen::Index count, Vector& vector) {
  for (int twice = 0; twice < 2; ++twice) {  // once leaves what rounding put there (Parlett's "twice is enough")
    const Vector along = basis.leftCols(count).transpose() * vector;
    vector -= basis.leftCols(count) * along;
  }
}

// The eigenvectors of W^T W, W being wide or tall, with the largest eigenvalues.
Dense leading_vectors(const Dense& weight, Eigen::Index rank, Normals& normals) {
  const Eigen::Index size = weight.cols();
  constexpr double kPrecision = 1e-13;  // of the largest eigenvalue
  Dense basis(size, std::min<Eigen::Index>(size, 4 * rank + 32));
  Vector diagonal(size);
  Vector beside(size);  // beside[i] joins i and i + 1
  Vector next = normals.draw(size, 1).normalized();
  for (Eigen::Index count = 0;;) {
    if (count == basis.cols()) basis.conservativeResize(Eigen::NoChange, std::min(size, 2 * basis.cols()));
    basis.col(count) = next;
    Vector image = weight.transpose() * (weight * next);
    diagonal[count] = next.dot(image);
    ++count;
    take_off(basis, count, image);
    const double rest = image.norm();
    beside[count - 1] = rest;
    const bool is_whole = count == size;
    if (is_whole || (count >= rank && (count - rank) % 8 == 0)) {
      Eigen::SelfAdjointEigenSolver<Dense> small;
      small.computeFromTridiagonal(diagonal.head(count), beside.head(count - 1));
      const double largest = std::max(small.eigenvalues()[count - 1], 0.0);
      const double wrong = rest * small.eigenvectors().row(count - 1).tail(rank).cwiseAbs().maxCoeff();
      if (is_whole || wrong <= kPrecision * largest) {
        return basis.leftCols(count) * small.eigenvectors().rightCols(rank).rowwise().reverse();
      }
    }
    if (rest > kPrecision * diagonal.head(count).maxCoeff()) {
      next = image / rest;
      continue;
    }
    // The space is closed: what is left of the weight is orthogonal to it.
    beside[count - 1] = 0;
    next = normals.draw(size, 1);
    take_off(basis, count, next);
    next.normalize();
  }
}

// W = left diag(values) right^T, of the largest values.
struct Decomposition {
  Dense left;
  Vector values;
  Dense right;
};

Decomposition by_iteration(const Dense& w, std::int64_t rank, std::int64_t iterations, Normals& normals) {
  Dense q = orthonormal(w * normals.draw(w.cols(), static_cast<Eigen::Index>(rank)));
  for (std::int64_t i = 0; i < iterations; ++i) q = orthonormal(w * orthonormal(w.transpose() * q));
  const Eigen::BDCSVD<Dense> svd(q.transpose() * w, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {q * svd.matrixU(), svd.singularValues(), svd.matrixV()};
}

// Each left vector with the right one.
void fix_signs(Decomposition& of) {
  const Dense& shorter = of.left.rows() <= of.right.rows() ? of.left : of.right;
  for (Eigen::Index i = 0; i < shorter.cols(); ++i) {
    Eigen::Index largest = 0;
    shorter.col(i).cwiseAbs().maxCoeff(&largest);
    if (shorter(largest, i) > 0) continue;
    of.left.col(i) *= -1.0;
    of.right.col(i) *= -1.0;
  }
}

// Which right vectors make A and which left ones B, [rank] each.
struct Chosen {
  std::vector<Eigen::Index> a, b;
};

Chosen choose(GradientDirection direction, Eigen::Index rank, std::uint64_t seed) {
  std::vector<Eigen::Index> all(static_cast<std::size_t>(2 * rank));
  std::iota(all.begin(), all.end(), 0);
  if (direction == GradientDirection::random) {
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      const auto left = static_cast<double>(all.size() - i);
      const auto bits = philox(mix_key(seed, 0x6761), {static_cast<std::uint32_t>(i), 0, 0, 0});
      std::swap(all[i], all[i + static_cast<std::size_t>(uniform24(bits[0]) * left)]);
    }
  }
  Chosen out;
  for (Eigen::Index i = 0; i < rank; ++i) {
    const bool takes_turns = direction == GradientDirection::ArBr;
    const auto first = static_cast<std::size_t>(takes_turns ? 2 * i : i);
    const auto second = static_cast<std::size_t>(takes_turns ? 2 * i + 1 : rank + i);
    const bool a_first = direction == GradientDirection::ArB2r || direction == GradientDirection::random;
    out.a.push_back(all[a_first ? first : second]);
    out.b.push_back(all[a_first ? second : first]);
  }
  return out;
}

LowRankPair pair_of(const Dense& left, const Vector& values, const Dense& right, double scaling) {
  const Vector roots = (values.cwiseMax(0.0) / scaling).cwiseSqrt();
  const Rows a = (right * roots.asDiagonal()).transpose().cast<float>();
  const Rows b = (left * roots.asDiagonal()).cast<float>();
  return {{a.data(), a.data() + a.size()}, {b.data(), b.data() + b.size()}};
}

}  // namespace

LowRankPair principal_pair(const Matrix& weight, std::int64_t rank, double scaling, std::uint64_t seed) {
  const bool is_wide = weight.columns > weight.rows;
  const Dense w = mapped(weight).cast<double>();
  const Dense tall = is_wide ? Dense(w.transpose()) : w;
  Normals normals(seed);
  const Dense right = leading_vectors(tall, static_cast<Eigen::Index>(rank), normals);
  Dense left = tall * right;
  const Vector values = left.colwise().norm();
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    if (values[i] > 0) left.col(i) /= values[i];
  }
  return is_wide ? pair_of(right, values, left, scaling) : pair_of(left, values, right, scaling);
}

LowRankPair principal_pair_by_iteration(const Matrix& weight, std::int64_t rank, double scaling,
                                        std::int64_t iterations, std::uint64_t seed) {
  Normals normals(seed);
  const Decomposition of = by_iteration(mapped(weight).cast<double>(), rank, iterations, normals);
  return pair_of(of.left, of.values, of.right, scaling);
}

LowRankPair orthonormal_pair(const Matrix& weight, std::int64_t rank) {
  const Dense w = mapped(weight).cast<double>();
  const auto count = static_cast<Eigen::Index>(rank);
  const Dense q = orthonormal(w.leftCols(count));  // the rest of Q depends on further columns, this does not
  Rows r = (q.transpose() * w).cast<float>();
  for (Eigen::Index row = 1; row < count; ++row) r.row(row).head(row).setZero();
  const Rows b = q.cast<float>();
  return {{r.data(), r.data() + r.size()}, {b.data(), b.data() + b.size()}};
}

LowRankPair gradient_pair(const Matrix& gradient, const Matrix& weight, std::int64_t rank, double scaling,
                          const GradientStart& start, std::uint64_t seed) {
  constexpr std::int64_t kIterations = 4;
  const std::int64_t vectors = std::min({4 * rank, gradient.rows, gradient.columns});
  Normals normals(seed);
  Decomposition of = by_iteration(mapped(gradient).cast<double>(), vectors, kIterations, normals);
  fix_signs(of);
  double factor = 1;
  if (start.scale == GradientScale::gd) factor = 1 / scaling;
  if (start.scale == GradientScale::stable) {
    factor = std::pow(static_cast<double>(gradient.rows), 0.25) / std::sqrt(start.stable_gamma);
  }
  if (start.scale == GradientScale::weight) {
    const auto own = by_iteration(mapped(weight).cast<double>(), vectors, kIterations, normals);
    factor = (own.values.head(rank).cwiseMax(0.0) / scaling).cwiseSqrt().mean();
  }
  const Chosen chosen = choose(start.direction, static_cast<Eigen::Index>(rank), seed);
  const Rows a = (factor * of.right(Eigen::all, chosen.a).transpose()).cast<float>();
  const Rows b = (factor * of.left(Eigen::all, chosen.b)).cast<float>();
  return {{a.data(), a.data() + a.size()}, {b.data(), b.data() + b.size()}};
}

}  // namespace tern::models
