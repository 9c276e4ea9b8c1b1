#include "numerics_view.h"

#include <cstring>
#include <numeric>
#include <stdexcept>

namespace fake::numerics {

bool is_floating(Element element) {
  return element == Element::kFloat32 || element == Element::kFloat16 || element == Element::kBfloat16 ||
         element == Element::kFloat64;
}

std::int64_t bits_of(Element element) {
  switch (element) {
    case Element::kInt4:
      return 4;
    case Element::kInt8:
    case Element::kUint8:
    case Element::kBool:
      return 8;
    case Element::kFloat16:
    case Element::kBfloat16:
    case Element::kInt16:
      return 16;
    case Element::kFloat32:
    case Element::kInt32:
      return 32;
    case Element::kFloat64:
    case Element::kInt64:
      return 64;
  }
  return 0;
}

std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

View view_of(std::span<float> values, Shape shape) {
  Shape strides = contiguous_strides(shape);
  return {values.data(), 0, Element::kFloat32, std::move(shape), std::move(strides)};
}

View view_of(std::span<double> values, Shape shape) {
  Shape strides = contiguous_strides(shape);
  return {values.data(), 0, Element::kFloat64, std::move(shape), std::move(strides)};
}

std::int64_t wrap_dimension(std::int64_t dimension, std::size_t rank) {
  return dimension < 0 ? dimension + static_cast<std::int64_t>(rank) : dimension;
}

View select(const View& view, std::int64_t dimension, std::int64_t index) {
  View result = narrow(view, dimension, index, 1);
  const std::int64_t at = wrap_dimension(dimension, view.shape.size());
  result.shape.erase(result.shape.begin() + at);
  result.strides.erase(result.strides.begin() + at);
  return result;
}

View narrow(const View& view, std::int64_t dimension, std::int64_t start, std::int64_t length) {
  View result = view;
  const auto at = static_cast<std::size_t>(wrap_dimension(dimension, view.shape.size()));
  result.offset += start * view.strides[at];
  result.shape[at] = length;
  return result;
}

View transpose(const View& view, std::int64_t first, std::int64_t second) {
  View result = view;
  const auto one = static_cast<std::size_t>(wrap_dimension(first, view.shape.size()));
  const auto other = static_cast<std::size_t>(wrap_dimension(second, view.shape.size()));
  std::swap(result.shape[one], result.shape[other]);
  std::swap(result.strides[one], result.strides[other]);
  return result;
}

View permute(const View& view, const Shape& dimensions) {
  View result = view;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const auto from = static_cast<std::size_t>(wrap_dimension(dimensions[i], view.shape.size()));
    result.shape[i] = view.shape[from];
    result.strides[i] = view.strides[from];
  }
  return result;
}

View unsqueeze(const View& view, std::int64_t dimension) {
  View result = view;
  const std::int64_t at = wrap_dimension(dimension, view.shape.size() + 1);
  result.shape.insert(result.shape.begin() + at, 1);
  result.strides.insert(result.strides.begin() + at, 0);
  return result;
}

View broadcast(const View& view, const Shape& shape) {
  View result = view;
  result.shape = shape;
  result.strides.assign(shape.size(), 0);
  const std::size_t lead = shape.size() - view.shape.size();
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == shape[lead + i]) {
      result.strides[lead + i] = view.strides[i];
    } else if (view.shape[i] != 1) {
      throw std::logic_error("phase 1 of this op lets shapes through that do not broadcast");
    }
  }
  return result;
}

View as_matrix(const View& view, std::int64_t dimension) {
  const auto middle = view.shape.begin() + wrap_dimension(dimension, view.shape.size() + 1);
  View result = view;
  result.shape = {std::accumulate(view.shape.begin(), middle, std::int64_t{1}, std::multiplies<>()),
                  std::accumulate(middle, view.shape.end(), std::int64_t{1}, std::multiplies<>())};
  result.strides = contiguous_strides(result.shape);
  return result;
}

Walk::Walk(std::span<const View* const> views) : offsets_(views.size()), inner_strides_(views.size()) {
  strides_.resize(views.size());
  for (std::size_t v = 0; v < views.size(); ++v) offsets_[v] = views[v]->offset;
  const Shape& shape = views[0]->shape;
  done_ = count_of(shape) == 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    bool joins = !shape_.empty();
    for (std::size_t v = 0; joins && v < views.size(); ++v) {
      joins = strides_[v].back() == views[v]->strides[i] * shape[i];
    }
    if (joins) {
      shape_.back() *= shape[i];
      for (std::size_t v = 0; v < views.size(); ++v) strides_[v].back() = views[v]->strides[i];
    } else {
      shape_.push_back(shape[i]);
      for (std::size_t v = 0; v < views.size(); ++v) strides_[v].push_back(views[v]->strides[i]);
    }
  }
  if (!shape_.empty()) {
    length_ = shape_.back();
    shape_.pop_back();
    for (std::size_t v = 0; v < views.size(); ++v) {
      inner_strides_[v] = strides_[v].back();
      strides_[v].pop_back();
    }
  }
  index_.assign(shape_.size(), 0);
}

void Walk::next() {
  for (std::size_t i = shape_.size(); i-- > 0;) {
    for (std::size_t v = 0; v < offsets_.size(); ++v) offsets_[v] += strides_[v][i];
    if (++index_[i] < shape_[i]) return;
    for (std::size_t v = 0; v < offsets_.size(); ++v) offsets_[v] -= strides_[v][i] * shape_[i];
    index_[i] = 0;
  }
  done_ = true;
}

namespace {

template <typename Value>
std::vector<Value> load_all(const View& view) {
  std::vector<Value> values(static_cast<std::size_t>(count_of(view)));
  Value* to = values.data();
  const std::array<const View*, 1> views = {&view};
  for (Walk walk(views); !walk.done(); walk.next(), to += walk.length()) {
    load_run(view, walk.offset(0), walk.stride(0), walk.length(), to);
  }
  return values;
}

template <typename Value>
void store_all(const View& view, std::span<const Value> values) {
  const Value* from = values.data();
  const std::array<const View*, 1> views = {&view};
  for (Walk walk(views); !walk.done(); walk.next(), from += walk.length()) {
    store_run(view, walk.offset(0), walk.stride(0), walk.length(), from);
  }
}

}  // namespace

std::vector<float> load(const View& view) { return load_all<float>(view); }
std::vector<double> load_doubles(const View& view) { return load_all<double>(view); }
std::vector<std::int64_t> load_integers(const View& view) { return load_all<std::int64_t>(view); }
void store(const View& view, std::span<const float> values) { store_all(view, values); }
void store(const View& view, std::span<const double> values) { store_all(view, values); }
void store(const View& view, std::span<const std::int64_t> values) { store_all(view, values); }

void copy(const View& to, const View& from) {
  const View source = broadcast(from, to.shape);
  const std::array<const View*, 2> views = {&source, &to};
  const bool floats = is_floating(from.element);
  const bool bits = from.element == to.element && bits_of(from.element) >= 8;
  const auto size = static_cast<std::size_t>(bits_of(from.element) / 8);
  std::vector<std::int64_t> integers;
  std::vector<double> doubles;
  for (Walk walk(views); !walk.done(); walk.next()) {
    const auto length = static_cast<std::size_t>(walk.length());
    if (bits) {
      const auto* read = static_cast<const std::byte*>(from.data) + walk.offset(0) * static_cast<std::int64_t>(size);
      auto* write = static_cast<std::byte*>(to.data) + walk.offset(1) * static_cast<std::int64_t>(size);
      if (walk.stride(0) == 1 && walk.stride(1) == 1) {
        std::memmove(write, read, length * size);
        continue;
      }
      const std::int64_t read_step = walk.stride(0) * static_cast<std::int64_t>(size);
      const std::int64_t write_step = walk.stride(1) * static_cast<std::int64_t>(size);
      for (std::size_t i = 0; i < length; ++i, read += read_step, write += write_step) std::memcpy(write, read, size);
    } else if (floats) {
      doubles.resize(length);
      load_run(source, walk.offset(0), walk.stride(0), walk.length(), doubles.data());
      store_run(to, walk.offset(1), walk.stride(1), walk.length(), doubles.data());
    } else {
      integers.resize(length);
      load_run(source, walk.offset(0), walk.stride(0), walk.length(), integers.data());
      store_run(to, walk.offset(1), walk.stride(1), walk.length(), integers.data());
    }
  }
}

void fill(const View& view, double value) {
  map(view, [value] { return value; });
}

}  // namespace fake::numerics
