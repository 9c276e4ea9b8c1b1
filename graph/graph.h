// A computation in SSA form. Building one allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/emit.h"

namespace tern::graph {

using ops::OpCall;
using ops::Value;

// Actual entries of dynamic dimensions, by slot.
using Counts = std::array<std::int64_t, TERN_MAX_COUNTS>;

enum class StorageKind {
  input,         // filled from the host before each run
  constant,      // a weight: bound from outside, only read
  resource,      // mutable state bound from outside: each write yields the next version
  intermediate,  // lives within a run, in the arena
};

// What stands beyond the actual count of an input: harmless to a device that computes the whole capacity.
enum class Padding {
  zero,
  minus_one,    // targets and row indices: skipped
  repeat_last,  // cumulative lengths: empty sequences
};

// Numbers of nodes, values and storages, -1 for none, as places in their lists.
[[nodiscard]] constexpr std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

enum class Lane : std::uint32_t { compute, comm, copy_in, copy_out };
inline constexpr int kNumLanes = 4;

// Memory that values share: versions of one state, views, sums accumulated in place, and what is put together from
// parts.
struct Storage {
  StorageKind kind = StorageKind::intermediate;
  TensorDesc desc;  // of the first value
  std::string name;
  std::int32_t versions = 1;  // writes so far; a value of an earlier version can no longer be read
  bool is_output = false;     // fetched by the host after a run: lives to its end
  Padding padding = Padding::zero;
  bool on_host = false;  // a resource in the host's memory: copies alone (ops/program_ops.h) read and write it

  // Bound from outside, in a TensorStore.
  [[nodiscard]] bool is_stored() const { return kind == StorageKind::constant || kind == StorageKind::resource; }
};

struct ValueInfo {
  TensorDesc desc;
  std::int32_t storage = -1;
  std::int32_t version = 0;    // of the storage when this value was made
  std::int64_t offset = 0;     // elements from the storage's begin
  std::int32_t producer = -1;  // node; -1: none (inputs, constants, first versions)
  std::int32_t base = -1;      // the value this is a view of
};

struct Node {
  OpCall call;
  std::vector<Value> results;  // per argument
  Lane lane = Lane::compute;
  bool on_host = false;  // bound to the host's kernel
};

struct Output {
  std::string name;
  Value value;
};

class Graph : public ops::Emitter {
 public:
  // Sources. Names are unique within a graph.
  Value input(std::string name, const TensorDesc& desc, Padding padding = Padding::zero);
  Value constant(std::string name, const TensorDesc& desc);
  Value resource(std::string name, const TensorDesc& desc);
  // An intermediate of undefined content: outputs that are placed on views of it put it together. Reading it before
  // anything is written on it is a logic error.
  Value buffer(const TensorDesc& desc);
  Value host_resource(std::string name, const TensorDesc& desc);
  // A source as another graph has it: everything but what has been written and fetched there.
  Value source_like(const Storage& storage, const TensorDesc& desc);
  // The newest version of what `value` names: itself unless something wrote on its storage.
  [[nodiscard]] Value latest(Value value);
  // Fetches `value` after each run. A later write on its storage is a logic error.
  void output(std::string name, Value value);

  // Emitter. Throws std::logic_error where the call breaks the op's contract or reads an overwritten version.
  std::vector<Value> emit(const OpCall& call) override;
  // Lets the node that has just made `value` write it upon `place`, of the same shape and dtype, in place of memory of
  // its own. False, and nothing is changed, where `value` has been read or viewed, where the memory of `place` has been
  // touched since, or where the op's contract forbids it.
  bool write_at(Value value, Value place);
  [[nodiscard]] const TensorDesc& desc(Value value) const override { return info(value).desc; }
  Value view(Value value, const TensorDesc& desc, std::int64_t offset) override;

  [[nodiscard]] const ValueInfo& info(Value value) const { return values_.at(static_cast<std::size_t>(value.id)); }
  [[nodiscard]] const Storage& storage_of(Value value) const {
    return storages_[static_cast<std::size_t>(info(value).storage)];
  }
  [[nodiscard]] const std::deque<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::deque<Storage>& storages() const { return storages_; }
  [[nodiscard]] const std::deque<ValueInfo>& values() const { return values_; }
  [[nodiscard]] std::span<const Output> outputs() const { return outputs_; }
  [[nodiscard]] Value find(std::string_view name) const;  // a source by name; absent value: none
  // Marks the last node emitted.
  void set_last_on_host() { nodes_.back().on_host = true; }
  void set_last_lane(Lane lane) { nodes_.back().lane = lane; }
  // Gives the last node emitted what `node` says beside its call.
  void annotate_last_like(const Node& node);

  // Descs of a call's arguments as the device sees them: inputs, else outputs.
  [[nodiscard]] std::vector<TensorDesc> arg_descs(const OpCall& call) const;
  [[nodiscard]] std::string to_text() const;  // one line a node, for debugging and golden tests of passes

 private:
  Value add_source(Storage storage);
  Value add_value(const ValueInfo& info);
  void require_current(Value value, const OpCall& call) const;
  void require_written(const OpCall& call) const;
  [[nodiscard]] bool is_free_to_move(Value value, std::int32_t to_storage) const;
  void require_memory(const OpCall& call) const;

  // What stays where it is while the graph grows: rules hold references to descs while they emit.
  std::deque<ValueInfo> values_;
  std::deque<Storage> storages_;
  std::deque<Node> nodes_;
  std::vector<Value> newest_;  // per storage
  std::vector<Output> outputs_;
};

// Emits `node` of `from` into `to`; `map` holds the new value of each old one and is extended. Views are followed.
void copy_node(const Graph& from, const Node& node, Graph& to, std::vector<Value>& map);
[[nodiscard]] Value map_value(const Graph& from, Value value, Graph& to, std::vector<Value>& map);

// A copy with only the nodes that outputs and resource writes need.
[[nodiscard]] Graph remove_dead_nodes(const Graph& graph);

}  // namespace tern::graph
