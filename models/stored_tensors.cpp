#include "models/stored_tensors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "base/strings.h"

namespace tern::models {
namespace {

bool has_vector_rows(const ParameterSpec& spec) { return spec.is_bias || spec.shape.size() == 1; }

// The row of the source's matrix that is row r of the parameter's.
std::int64_t source_row(const ParameterSource& source, std::int64_t rows, std::int64_t r) {
  if (source.interleaved_heads > 0) {
    const std::int64_t per_head = rows / source.interleaved_heads;
    const std::int64_t half = source.rotary_dim / 2;
    const std::int64_t within = r % per_head;
    if (within < half)
      r += within;  // i -> 2i
    else if (within < 2 * half)
      r += within - 2 * half + 1;  // half + i -> 2i + 1
  }
  return source.first_row + source.parts(source.tiled_rows(r)) * source.row_step;
}

// Of tensors that are joined, the one that has a row of them all, and which row of it that is.
struct Place {
  std::size_t tensor = 0;
  std::int64_t row = 0;
};
Place place_of(const ParameterSource& source, std::int64_t row) {
  Place place{0, row};
  while (place.tensor + 1 < source.joined.size() && place.row >= source.joined[place.tensor])
    place.row -= source.joined[place.tensor++];
  return place;
}

// Rows of so many columns, from a file's order to the parameter's or the other way.
void move_columns(const TiledHeads& tiled, std::int64_t columns, std::span<float> values, bool to_file) {
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (auto at = values.begin(); at != values.end(); at += columns) {
    std::copy_n(at, columns, row.begin());
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t stored = tiled(c);
      if (to_file)
        at[stored] = row[static_cast<std::size_t>(c)];
      else
        at[c] = row[static_cast<std::size_t>(stored)];
    }
  }
}

std::int64_t matrices_of_tensor(const ParameterSource& source, const MatrixSizes& sizes) {
  return source.is_stack ? sizes.matrices / static_cast<std::int64_t>(source.tensors.size()) : sizes.matrices;
}

}  // namespace

std::int64_t rows_of_tensor(const ParameterSource& source, std::int64_t rows) {
  return source.tensor_rows > 0 ? source.tensor_rows : rows;
}

MatrixSizes matrix_sizes(const ParameterSpec& spec) {
  MatrixSizes sizes;
  const std::size_t leading = spec.shape.size() - (has_vector_rows(spec) ? 1 : 2);
  for (std::size_t i = 0; i < leading; ++i) sizes.matrices *= spec.shape[i];
  sizes.rows = spec.shape[leading];
  if (!has_vector_rows(spec)) sizes.columns = spec.shape.back();
  if (spec.matrices > 0) {
    sizes.matrices *= spec.matrices;
    sizes.rows /= spec.matrices;
  }
  return sizes;
}

std::vector<std::int64_t> stored_shape(const ParameterSpec& spec, const ParameterSource& source, std::size_t tensor) {
  if (!source.shape.empty()) return source.shape;
  std::vector<std::int64_t> shape = spec.shape;
  if (source.is_stack) shape.erase(shape.begin());
  if (spec.matrices > 0 && !source.joined.empty()) shape.insert(shape.begin(), spec.matrices);
  auto rows = shape.end() - (has_vector_rows(spec) ? 1 : 2);
  *rows = source.joined.empty() ? rows_of_tensor(source, *rows) : source.joined[tensor];
  if (is_transposed_in(source, tensor)) std::swap(*rows, shape.back());
  if (source.is_depthwise) shape.insert(shape.end() - 1, 1);
  if (source.vector_columns > 0) shape = {shape.back() / source.vector_columns, source.vector_columns};
  return shape;
}

std::vector<RowRun> row_runs(const ParameterSpec& spec, const ParameterSource& source) {
  const MatrixSizes sizes = matrix_sizes(spec);
  const std::int64_t stored = rows_of_tensor(source, sizes.rows);
  const std::int64_t per_tensor = matrices_of_tensor(source, sizes);
  std::vector<RowRun> runs;
  const auto append = [&](const RowRun& run) {
    const bool goes_on =
        !runs.empty() && runs.back().tensor == run.tensor && runs.back().first + runs.back().count == run.first;
    if (!goes_on) return runs.push_back(run);
    runs.back().count += run.count;
  };
  const bool in_order = source.interleaved_heads == 0 && source.tiled_rows.groups == 0 && source.parts.heads == 0 &&
                        source.row_step == 1 && source.joined.empty();
  for (std::int64_t matrix = 0; matrix < sizes.matrices; ++matrix) {
    const auto tensor = static_cast<std::size_t>(matrix / per_tensor);
    const std::int64_t begin = matrix % per_tensor * stored;
    if (in_order) {
      append({tensor, begin + source.first_row, sizes.rows});
      continue;
    }
    for (std::int64_t r = 0; r < sizes.rows; ++r) {
      const Place place = place_of(source, source_row(source, sizes.rows, r));
      const std::int64_t first = source.joined.empty() ? begin : matrix % per_tensor * source.joined[place.tensor];
      append({tensor + place.tensor, first + place.row, 1});
    }
  }
  return runs;
}

void reorder_rows(const ParameterSource& source, std::int64_t columns, std::span<float> values, bool to_file) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  const std::vector<float> before(values.begin(), values.end());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t stored = source_row(source, rows, r);
    std::copy_n(before.begin() + (to_file ? r : stored) * columns, columns,
                values.begin() + (to_file ? stored : r) * columns);
  }
}

void to_parameter(const ParameterSource& source, std::int64_t columns, std::span<float> values) {
  if (source.tiled_columns.groups > 0) move_columns(source.tiled_columns, columns, values, false);
  if (source.added != 0) {
    for (float& value : values) value += source.added;
  }
  if (source.is_minus_exp) {
    for (float& value : values) value = std::log(-value);
  }
}

void to_file(const ParameterSource& source, std::int64_t columns, std::span<float> values) {
  if (source.is_minus_exp) {
    for (float& value : values) value = -std::exp(value);
  }
  if (source.added != 0) {
    for (float& value : values) value -= source.added;
  }
  if (source.tiled_columns.groups > 0) move_columns(source.tiled_columns, columns, values, true);
}

const StoredTensor::Rows& StoredTensor::rows_at(std::int64_t row) const {
  const auto after = std::upper_bound(rows.begin(), rows.end(), row,
                                      [](std::int64_t wanted, const Rows& some) { return wanted < some.first; });
  return *std::prev(after);
}

std::int64_t StoredTensor::parameter_row(std::int64_t matrix, std::int64_t row) const {
  const Rows& some = rows_at(row);
  return (stack_index * sizes.matrices + matrix) * matrix_sizes(*some.spec).rows + some.row + row - some.first;
}

std::vector<StoredTensor> stored_tensors(std::span<const ParameterSpec> specs, Form form) {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::size_t> places;
  for (const ParameterSpec& spec : specs) {
    const ParameterSource& source = source_in(spec, form);
    const MatrixSizes sizes = matrix_sizes(spec);
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
      const auto [place, is_new] = places.try_emplace(source.tensors[i], tensors.size());
      if (is_new) {
        const std::int64_t stored = source.joined.empty() ? rows_of_tensor(source, sizes.rows) : source.joined[i];
        tensors.push_back({source.tensors[i],
                           stored_shape(spec, source, i),
                           is_transposed_in(source, i),
                           {matrices_of_tensor(source, sizes), stored, sizes.columns},
                           {},
                           source.is_stack ? static_cast<std::int64_t>(i) : 0});
      }
      auto& rows = tensors[place->second].rows;
      for (std::int64_t r = 0; r < sizes.rows; ++r) {
        const auto [tensor, row] = place_of(source, source_row(source, sizes.rows, r));
        if (!source.joined.empty() && tensor != i) continue;
        const bool goes_on = !rows.empty() && rows.back().spec == &spec &&
                             rows.back().first + rows.back().count == row && rows.back().row + rows.back().count == r;
        if (goes_on) {
          ++rows.back().count;
        } else {
          rows.push_back({row, 1, &spec, r});
        }
      }
    }
  }
  for (StoredTensor& tensor : tensors) {
    std::sort(tensor.rows.begin(), tensor.rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::int64_t next = 0;
    for (const StoredTensor::Rows& some : tensor.rows) {
      if (some.first != next)
        throw std::logic_error(cat("tensor ", tensor.name, ": row ", next, " is not of exactly one parameter"));
      next += some.count;
    }
    if (next != tensor.sizes.rows) throw std::logic_error(cat("tensor ", tensor.name, ": row ", next, " is of none"));
  }
  return tensors;
}

void StoredTensorReader::read_matrix_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                                          std::span<float> values) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t matrix = (first + done) / tensor.sizes.rows;
    const std::int64_t row = (first + done) % tensor.sizes.rows;
    const StoredTensor::Rows& some = tensor.rows_at(row);
    const std::int64_t run = std::min(count - done, some.first + some.count - row);
    parameters_(*some.spec, tensor.parameter_row(matrix, row), run,
                values.subspan(static_cast<std::size_t>(done * tensor.sizes.columns),
                               static_cast<std::size_t>(run * tensor.sizes.columns)));
    done += run;
  }
}

void StoredTensorReader::read_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                                   std::span<float> values) {
  const std::int64_t last = tensor.shape.back();
  if (!tensor.is_transposed) {
    const std::int64_t scale = last / tensor.sizes.columns;  // rows are elements where the tensor is of vectors
    return read_matrix_rows(tensor, first * scale, count * scale, values);
  }
  const std::int64_t elements = tensor.sizes.rows * tensor.sizes.columns;
  const std::lock_guard lock(mutex_);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t matrix = (first + done) / tensor.sizes.columns;
    const std::int64_t within = (first + done) % tensor.sizes.columns;
    if (name_ != tensor.name || matrix_ != matrix) {
      std::vector<float> rows(static_cast<std::size_t>(elements));
      read_matrix_rows(tensor, matrix * tensor.sizes.rows, tensor.sizes.rows, rows);
      transposed_.resize(rows.size());
      transpose(rows, tensor.sizes.rows, tensor.sizes.columns, transposed_);
      name_ = tensor.name;
      matrix_ = matrix;
    }
    const std::int64_t run = std::min(count - done, tensor.sizes.columns - within);
    std::copy_n(transposed_.begin() + within * last, run * last, values.begin() + done * last);
    done += run;
  }
}

void transpose(std::span<const float> from, std::int64_t rows, std::int64_t columns, std::span<float> to) {
  constexpr std::int64_t kTile = 32;  // rows and columns that stay in the first cache
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (std::int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
        for (std::int64_t c = c0; c < std::min(c0 + kTile, columns); ++c) {
          to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
        }
      }
    }
  }
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(cat(size));
  return cat("[", join(sizes, ", "), "]");
}

}  // namespace tern::models
