// What the ops of the fake compute on: strided views over host-visible memory, read as floats and rounded once when
// they are written. Nothing here knows a chip, a stream or an executor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fake::numerics {

enum class Element { kFloat32, kFloat16, kBfloat16, kFloat64, kInt8, kUint8, kInt16, kInt32, kInt64, kBool, kInt4 };

using Shape = std::vector<std::int64_t>;

struct View {
  void* data = nullptr;     // where element `offset` is counted from
  std::int64_t offset = 0;  // in elements: an int4 has no address of its own
  Element element = Element::kFloat32;
  Shape shape;
  Shape strides;  // in elements
};

[[nodiscard]] bool is_floating(Element element);
[[nodiscard]] std::int64_t bits_of(Element element);
[[nodiscard]] std::int64_t count_of(const Shape& shape);
[[nodiscard]] inline std::int64_t count_of(const View& view) { return count_of(view.shape); }
[[nodiscard]] Shape contiguous_strides(const Shape& shape);

// A view over host memory that is ours.
[[nodiscard]] View view_of(std::span<float> values, Shape shape);
[[nodiscard]] View view_of(std::span<double> values, Shape shape);

// The same memory seen otherwise. A dimension below 0 counts from the end.
[[nodiscard]] View select(const View& view, std::int64_t dimension, std::int64_t index);
[[nodiscard]] View narrow(const View& view, std::int64_t dimension, std::int64_t start, std::int64_t length);
[[nodiscard]] View transpose(const View& view, std::int64_t first, std::int64_t second);
[[nodiscard]] View permute(const View& view, const Shape& dimensions);
[[nodiscard]] View unsqueeze(const View& view, std::int64_t dimension);
[[nodiscard]] View broadcast(const View& view, const Shape& shape);
// All dimensions before `dimension` as one, and all from it as another: of contiguous views only.
[[nodiscard]] View as_matrix(const View& view, std::int64_t dimension);
[[nodiscard]] std::int64_t wrap_dimension(std::int64_t dimension, std::size_t rank);

// Contiguous copies in row-major order.
[[nodiscard]] std::vector<float> load(const View& view);
[[nodiscard]] std::vector<double> load_doubles(const View& view);
[[nodiscard]] std::vector<std::int64_t> load_integers(const View& view);
// Rounds to nearest even; floats go to integers towards zero, saturating, and NaN to 0 (aclnnCast).
void store(const View& view, std::span<const float> values);
void store(const View& view, std::span<const double> values);
void store(const View& view, std::span<const std::int64_t> values);
// Moves bits where the types are equal; converts elsewhere.
void copy(const View& to, const View& from);
void fill(const View& view, double value);
// What a value becomes when it is written as `element` and read again.
[[nodiscard]] float rounded(float value, Element element);

// `length` elements from `offset` of the view's memory, `stride` apart.
void load_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, float* to);
void load_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, double* to);
void load_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, std::int64_t* to);
void store_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const float* from);
void store_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const double* from);
void store_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length,
               const std::int64_t* from);

// Several views of one shape, walked in rows: neighbouring dimensions are one where they are in all of the views.
class Walk {
 public:
  explicit Walk(std::span<const View* const> views);
  [[nodiscard]] bool done() const { return done_; }
  void next();
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t offset(std::size_t view) const { return offsets_[view]; }
  [[nodiscard]] std::int64_t stride(std::size_t view) const { return inner_strides_[view]; }

 private:
  Shape shape_;  // without the innermost
  std::vector<Shape> strides_;
  Shape index_;
  Shape offsets_;
  Shape inner_strides_;
  std::int64_t length_ = 1;
  bool done_ = false;
};

// out[i] = function(inputs[i]...), over views broadcast to the shape of `out`, in doubles.
template <typename Function, typename... Views>
void map(const View& out, Function function, const Views&... inputs) {
  constexpr std::int64_t chunk = 256;
  constexpr std::size_t number = sizeof...(Views);
  const std::array<View, number> wide = {broadcast(inputs, out.shape)...};
  std::vector<const View*> views;
  for (const View& view : wide) views.push_back(&view);
  views.push_back(&out);
  std::array<std::array<double, chunk>, number> in;
  std::array<double, chunk> result;
  for (Walk walk(views); !walk.done(); walk.next()) {
    for (std::int64_t start = 0; start < walk.length(); start += chunk) {
      const std::int64_t length = std::min(chunk, walk.length() - start);
      for (std::size_t i = 0; i < number; ++i) {
        load_run(wide[i], walk.offset(i) + start * walk.stride(i), walk.stride(i), length, in[i].data());
      }
      const auto apply = [&]<std::size_t... Index>(std::index_sequence<Index...>, [[maybe_unused]] std::size_t at) {
        return function(in[Index][at]...);
      };
      for (std::size_t at = 0; at < static_cast<std::size_t>(length); ++at) {
        result[at] = static_cast<double>(apply(std::make_index_sequence<number>{}, at));
      }
      store_run(out, walk.offset(number) + start * walk.stride(number), walk.stride(number), length, result.data());
    }
  }
}

}  // namespace fake::numerics
