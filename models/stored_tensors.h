// Between parameters and the tensors of a file: which rows of which tensors a parameter is, and which rows of which
// parameters a tensor is. "Rows" are those of ParameterSource: of a weight seen as [matrices, rows, columns], where the
// leading dimensions count matrices; of vectors and biases each element is a row of one column.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "models/parameters.h"

namespace tern::models {

struct MatrixSizes {
  std::int64_t matrices = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 1;
};
[[nodiscard]] MatrixSizes matrix_sizes(const ParameterSpec& spec);

// Rows of one matrix of the source's tensors, of which the parameter has `rows`.
[[nodiscard]] std::int64_t rows_of_tensor(const ParameterSource& source, std::int64_t rows);

// The shape of the source's tensors[tensor].
[[nodiscard]] std::vector<std::int64_t> stored_shape(const ParameterSpec& spec, const ParameterSource& source,
                                                     std::size_t tensor);

// `count` consecutive rows from `first` on of the tensors[tensor] of a source, seen as [rows of all matrices, columns].
struct RowRun {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// Where the parameter's rows are, in their order, as few runs as there can be. Of a source that is transposed, rows of
// what it would be if it were not.
[[nodiscard]] std::vector<RowRun> row_runs(const ParameterSpec& spec, const ParameterSource& source);

// Rows of a whole matrix of so many columns, from the file's order into the parameter's, and the other way.
void reorder_rows(const ParameterSource& source, std::int64_t columns, std::span<float> values, bool to_file);

// Between the numbers that a file has of some rows, [count, columns], and the parameter's; in place.
void to_parameter(const ParameterSource& source, std::int64_t columns, std::span<float> values);
void to_file(const ParameterSource& source, std::int64_t columns, std::span<float> values);

// A tensor as one form of file has it.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_transposed = false;
  MatrixSizes sizes;  // as if it were not transposed
  // Rows [first, first + count) of each of its matrices are those from `row` on of the parameter's matrix.
  struct Rows {
    std::int64_t first = 0;
    std::int64_t count = 0;
    const ParameterSpec* spec = nullptr;
    std::int64_t row = 0;
  };
  std::vector<Rows> rows;        // all of them, in order
  std::int64_t stack_index = 0;  // which part of its parameters' stacks

  // Those that hold row `row` of a matrix.
  [[nodiscard]] const Rows& rows_at(std::int64_t row) const;
  // The row of the parameter, seen as [rows of all matrices, columns], that is row `row` of this tensor's `matrix`.
  [[nodiscard]] std::int64_t parameter_row(std::int64_t matrix, std::int64_t row) const;
};
// The tensors that a file of that form has, in the order of the parameters, which must outlive them. Throws
// std::logic_error where a row belongs to no parameter or to two.
[[nodiscard]] std::vector<StoredTensor> stored_tensors(std::span<const ParameterSpec> specs, Form form);

// Gives rows [first, first + count) of a parameter seen as [rows of all matrices, columns], in the form's numbers.
using ParameterRows =
    std::function<void(const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values)>;

// Reads tensors of a form out of parameters. Safe to call from several threads where `parameters` is.
class StoredTensorReader {
 public:
  explicit StoredTensorReader(ParameterRows parameters) : parameters_(std::move(parameters)) {}

  // Rows [first, first + count) of the tensor seen as [product of leading dimensions, last dimension].
  void read_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t count, std::span<float> values);

 private:
  void read_matrix_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t count, std::span<float> values);

  ParameterRows parameters_;
  std::mutex
      mutex_;  // of what follows: the last transposed matrix, as rows of a form that transposes come in any number
  std::string name_;
  std::int64_t matrix_ = -1;
  std::vector<float> transposed_;
};

// to[c][r] = from[r][c]: from [rows, columns] -> to [columns, rows].
void transpose(std::span<const float> from, std::int64_t rows, std::int64_t columns, std::span<float> to);

// "[576, 1536]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace tern::models
