#include "models/vision_grid.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tern::models {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

std::vector<PatchPlace> patch_places(const nn::PatchGrid& grid, std::int64_t merge) {
  std::vector<PatchPlace> places;
  places.reserve(at(grid.t * grid.h * grid.w));
  const std::int64_t block = merge * merge;
  const std::int64_t across = grid.w / merge;
  for (std::int64_t t = 0; t < grid.t; ++t) {
    for (std::int64_t i = 0; i < grid.h * grid.w; ++i) {
      const std::int64_t unit = i / block;
      const std::int64_t within = i % block;
      places.push_back({static_cast<std::int32_t>(unit / across * merge + within / merge),
                        static_cast<std::int32_t>(unit % across * merge + within % merge)});
    }
  }
  return places;
}

WindowOrder window_order(const nn::PatchGrid& grid, std::int64_t merge, std::int64_t side) {
  const std::int64_t height = grid.h / merge;
  const std::int64_t width = grid.w / merge;
  WindowOrder windows;
  windows.bounds.push_back(0);
  for (std::int64_t t = 0; t < grid.t; ++t) {
    for (std::int64_t top = 0; top < height; top += side) {
      for (std::int64_t left = 0; left < width; left += side) {
        for (std::int64_t row = top; row < std::min(top + side, height); ++row) {
          for (std::int64_t column = left; column < std::min(left + side, width); ++column)
            windows.order.push_back(static_cast<std::int32_t>((t * height + row) * width + column));
        }
        windows.bounds.push_back(static_cast<std::int32_t>(windows.order.size()));
      }
    }
  }
  return windows;
}

std::vector<std::int32_t> inverse_of(const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse[at(order[i])] = static_cast<std::int32_t>(i);
  return inverse;
}

std::vector<std::int32_t> each_row(const std::vector<std::int32_t>& blocks, std::int64_t unit) {
  std::vector<std::int32_t> rows;
  rows.reserve(blocks.size() * at(unit));
  for (const std::int32_t block : blocks) {
    for (std::int64_t i = 0; i < unit; ++i) rows.push_back(static_cast<std::int32_t>(block * unit + i));
  }
  return rows;
}

AxialRope axial_rope(const std::vector<PatchPlace>& places, std::int64_t head_dim, double theta) {
  const std::int64_t quarter = head_dim / 4;  // frequencies of rows, and as many of columns
  std::vector<double> frequencies;
  frequencies.reserve(at(quarter));
  for (std::int64_t i = 0; i < quarter; ++i)
    frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(quarter)));
  AxialRope rope;
  rope.cos.reserve(places.size() * at(2 * quarter));
  rope.sin.reserve(rope.cos.capacity());
  for (const PatchPlace& place : places) {
    for (const std::int32_t position : {place.row, place.column}) {
      for (const double frequency : frequencies) {
        rope.cos.push_back(static_cast<float>(std::cos(position * frequency)));
        rope.sin.push_back(static_cast<float>(std::sin(position * frequency)));
      }
    }
  }
  return rope;
}

Interpolation interpolate(const nn::PatchGrid& grid, const std::vector<PatchPlace>& places, std::int64_t side) {
  struct Tap {
    std::int64_t low = 0, high = 0;
    float share = 0;  // of the higher one
  };
  const auto tap = [side](std::int32_t position, std::int64_t size) {
    const float place = static_cast<float>(position) * static_cast<float>(side - 1) /
                        static_cast<float>(std::max<std::int64_t>(size - 1, 1));
    const auto low = static_cast<std::int64_t>(std::floor(place));
    return Tap{std::min(low, side - 1), std::min(low + 1, side - 1), place - static_cast<float>(low)};
  };
  Interpolation out;
  for (const PatchPlace& place : places) {
    const Tap row = tap(place.row, grid.h);
    const Tap column = tap(place.column, grid.w);
    for (int corner = 0; corner < 4; ++corner) {
      const bool lower = corner >= 2;
      const bool right = corner % 2 == 1;
      out.rows[corner].push_back(
          static_cast<std::int32_t>((lower ? row.high : row.low) * side + (right ? column.high : column.low)));
      out.weights[corner].push_back((lower ? row.share : 1.0F - row.share) *
                                    (right ? column.share : 1.0F - column.share));
    }
  }
  return out;
}

MropePosition mrope_position(const nn::PatchGrid& grid, std::int64_t merge, std::int64_t begin, std::int64_t index) {
  const std::int64_t width = grid.w / merge;
  const std::int64_t of_time = grid.h / merge * width;
  return {{begin + index / of_time, begin + index % of_time / width, begin + index % width}};
}

int mrope_axis(const std::vector<std::int64_t>& section, bool interleaved, std::int64_t pair) {
  if (interleaved) {
    const auto axis = static_cast<int>(pair % 3);
    return axis > 0 && pair < 3 * section[at(axis)] ? axis : 0;
  }
  // Sections come one after the other, and begin with time again where there are more than three.
  for (std::size_t i = 0; i < section.size(); ++i) {
    if (pair < section[i]) return static_cast<int>(i % 3);
    pair -= section[i];
  }
  return 0;
}

std::int64_t mrope_extent(const nn::PatchGrid& grid, std::int64_t merge) { return std::max(grid.h, grid.w) / merge; }

}  // namespace tern::models
