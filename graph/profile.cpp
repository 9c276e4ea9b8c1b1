#include "graph/profile.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

std::string short_text(const TensorDesc& desc, std::span<const std::int64_t> counts) {
  std::string text;
  for (int d = 0; d < desc.rank; ++d) {
    std::int64_t size = desc.shape[d];
    if (d == desc.dynamic_dim && desc.count_slot < counts.size()) size = std::min(size, counts[desc.count_slot]);
    text += cat(d == 0 ? "" : "x", size);
  }
  return text;
}

std::vector<ProfileRow> longest_first(std::vector<ProfileRow> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return rows;
}

void sum(ProfileRow& into, const ProfileRow& row) {
  into.calls += row.calls;
  into.seconds += row.seconds;
  into.work.flops += row.work.flops;
  into.work.bytes += row.work.bytes;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

std::string shapes_of(const Graph& graph, const Node& node, std::span<const std::int64_t> counts) {
  const auto descs = graph.arg_descs(node.call);
  std::string text;
  int inputs = 0;
  std::string result;
  for (std::size_t a = 0; a < descs.size(); ++a) {
    if (!is_present(descs[a])) continue;
    if (node.results[a].present()) {
      if (result.empty()) result = short_text(descs[a], counts);
    } else if (inputs++ < 2) {
      text += cat(text.empty() ? "" : " ", short_text(descs[a], counts));
    }
  }
  return cat(text, " -> ", result);
}

void Profile::add(const Graph& graph, const Node& node, std::span<const std::int64_t> counts, const Work& work,
                  double seconds) {
  const std::string op(ops::op_spec(node.call.op).name);
  const std::string shapes = shapes_of(graph, node, counts);
  sum(rows_.try_emplace(cat(op, " ", shapes), ProfileRow{op, shapes}).first->second, {op, shapes, 1, seconds, work});
}

void Profile::add_copy(const std::string& name, double bytes, double seconds) {
  sum(rows_.try_emplace(name, ProfileRow{name, {}}).first->second, {name, {}, 1, seconds, {0, bytes}});
}

void Profile::add_run(double seconds) {
  ++runs_;
  seconds_ += seconds;
}

void Profile::clear() { *this = Profile(); }

std::vector<ProfileRow> Profile::by_op() const {
  std::map<std::string, ProfileRow> sums;
  for (const auto& [key, row] : rows_) sum(sums.try_emplace(row.op, ProfileRow{row.op, {}}).first->second, row);
  std::vector<ProfileRow> rows;
  double known = 0;
  for (const auto& [op, row] : sums) {
    rows.push_back(row);
    known += row.seconds;
  }
  rows.push_back({"host", "between steps", runs_, std::max(seconds_ - known, 0.0), {}});
  return longest_first(std::move(rows));
}

std::vector<ProfileRow> Profile::by_shape() const {
  std::vector<ProfileRow> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return longest_first(std::move(rows));
}

std::string Profile::to_text(const std::vector<ProfileRow>& rows) const {
  std::size_t wide_op = 2;
  std::size_t wide_shapes = 6;
  for (const ProfileRow& row : rows) {
    wide_op = std::max(wide_op, row.op.size());
    wide_shapes = std::max(wide_shapes, row.shapes.size());
  }
  std::string text = cat(padded("op", wide_op), "  ", padded("shapes", wide_shapes),
                         "   calls   total ms  ms/call  share  GFLOP/s   GB/s\n");
  for (const ProfileRow& row : rows) {
    const double seconds = std::max(row.seconds, 1e-12);
    const double calls = static_cast<double>(std::max<std::int64_t>(row.calls, 1));
    text += cat(padded(row.op, wide_op), "  ", padded(row.shapes, wide_shapes), "  ", right(cat(row.calls), 6), "  ",
                right(fixed(row.seconds * 1e3, 1), 9), "  ", right(fixed(row.seconds * 1e3 / calls, 3), 7), "  ",
                right(fixed(100 * row.seconds / std::max(seconds_, 1e-12), 1), 4), "%  ",
                right(row.work.flops > 0 ? fixed(row.work.flops / seconds * 1e-9, 1) : "-", 7), "  ",
                right(row.work.bytes > 0 ? fixed(row.work.bytes / seconds * 1e-9, 1) : "-", 5), "\n");
  }
  return text + cat(runs_, " runs of programs: ", fixed(seconds_ * 1e3, 1), " ms\n");
}

}  // namespace tern::graph
