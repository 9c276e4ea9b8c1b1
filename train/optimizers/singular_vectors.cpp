#include "train/optimizers/singular_vectors.h"

#include <Eigen/Dense>
#include <algorithm>

namespace tern::train {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

std::vector<float> singular_vectors(std::span<const float> matrix, std::int64_t rows, std::int64_t columns, Side side,
                                    std::int64_t rank) {
  const Eigen::MatrixXd a = Eigen::Map<const Rows>(matrix.data(), rows, columns).cast<double>();
  const bool wide = rows <= columns;
  const Eigen::MatrixXd gram = wide ? Eigen::MatrixXd(a * a.transpose()) : Eigen::MatrixXd(a.transpose() * a);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram);  // by rising eigenvalue
  rank = std::min<std::int64_t>(rank, gram.rows());
  Eigen::MatrixXd vectors = solver.eigenvectors().rightCols(rank).rowwise().reverse();
  for (Eigen::Index i = 0; i < vectors.cols(); ++i) {
    Eigen::Index largest = 0;
    vectors.col(i).cwiseAbs().maxCoeff(&largest);
    if (vectors(largest, i) < 0) vectors.col(i) *= -1.0;
  }
  if (wide != (side == Side::left)) {  // the other side's: A^T u / s or A v / s
    vectors = wide ? Eigen::MatrixXd(a.transpose() * vectors) : Eigen::MatrixXd(a * vectors);
    const double least = 1e-7 * (vectors.cols() > 0 ? vectors.col(0).norm() : 0.0);
    for (Eigen::Index i = 0; i < vectors.cols(); ++i) {
      const double size = vectors.col(i).norm();
      vectors.col(i) *= size > least ? 1.0 / size : 0.0;
    }
  }
  std::vector<float> out(static_cast<std::size_t>(vectors.size()));
  if (side == Side::left) {
    Eigen::Map<Rows>(out.data(), vectors.rows(), vectors.cols()) = vectors.cast<float>();
  } else {
    Eigen::Map<Rows>(out.data(), vectors.cols(), vectors.rows()) = vectors.transpose().cast<float>();
  }
  return out;
}

}  // namespace tern::train
