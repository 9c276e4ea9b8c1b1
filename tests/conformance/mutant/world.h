// What the functions of a mutant share: plugins have no closure.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mutant/launch.h"

namespace tern::mutant {

struct Planned {
  tern_plan inner = nullptr;
  tern_plan other = nullptr;  // with another attribute
  tern_plan_info other_info{};
  std::vector<tern_tensor_desc> args;
  Bytes attrs;
  std::vector<std::int8_t> alias;
  tern_op_desc desc{};
  std::uint64_t workspace = 0;  // of the inner plan
  tern_device device = nullptr;
  const tern_op_desc* given = nullptr;  // by the host, which has taken it away since
};

struct BoundRecord {
  Bound bound;
  Planned* plan = nullptr;
  tern_buffer other_workspace = nullptr;
  std::vector<tern_buffer> leaked;        // given back with the record
  const tern_bind_args* given = nullptr;  // by the host, which has taken it away since
};

// A compiled graph. One of a single node is a plan that is bound anew at each launch.
struct Compiled {
  tern_recipe inner = nullptr;
  tern_recipe other = nullptr;  // with another attribute
  Planned planned;
  std::vector<std::int32_t> arguments;                          // of the recipe, by the op's; -1: absent
  std::map<std::string, std::unique_ptr<BoundRecord>> records;  // by where the arguments lie
  std::uint32_t num_arguments = 0;
  [[nodiscard]] bool is_one_node() const { return !planned.args.empty(); }
};

struct Captured {
  BoundRecord* bound = nullptr;  // of the last launch in it
  Lengths lengths;
  int launches = 0;
};

// A plugin's functions have no closure: what they share.
struct World {
  std::shared_ptr<const accel::Backend> backend;
  const tern_backend* inner = nullptr;
  tern_backend table{};
  Plan plan;
  int made = 0;
  std::deque<std::function<tern_status()>> queue;  // of a device whose streams are late
  std::map<tern_stream, Captured> capturing;
  std::map<tern_capture, Captured> captured;
  std::map<tern_stream, const BoundRecord*> in_flight;  // whose launch nobody has waited for
  std::set<std::int32_t> layouts_of_both;               // that weights were packed in for both uses
  std::recursive_mutex mutex;
};
extern World* world;

// Whether work waits for somebody who synchronises.
[[nodiscard]] bool late();
tern_status flush();
tern_status enqueue(std::function<tern_status()> work);
// Whether the mistake is made in this op.
[[nodiscard]] bool concerns(std::uint32_t op);
// Another value of attribute `index`, or false where there is none.
bool change_attribute(std::uint32_t op, int index, Bytes& attrs);
// Whether launches pass straight to the wrapped backend, which alone decides when they come back.
[[nodiscard]] bool is_transparent();
// What the mistake changes in a plan's answer.
void spoil_plan(const tern_plan_options* options, tern_plan_info& info);
// Mistakes about what a launch leaves behind or reads too late. Afterwards `let_go` gives everything back.
void spoil_memory_of(BoundRecord& record);
void let_go(BoundRecord& record);
// One launch with the mistake in it; `inner` runs the wrapped kernel and waits for it.
tern_status run(BoundRecord& record, const Lengths& lengths, tern_stream stream, const Launch::Run& inner);
tern_status launch_record(BoundRecord& record, const tern_host_args* host_args, tern_stream stream,
                          const Launch::Run& inner);

// Functions of the table: kernels.cpp, recipes.cpp.
tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason);
tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* out,
                 tern_plan_info* info);
tern_status plan_destroy(tern_plan plan);
tern_status bind(tern_plan plan, const tern_bind_args* args, tern_bound* out);
tern_status unbind(tern_bound bound);
tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, std::uint64_t* node);
tern_status compile(tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                    tern_recipe* out, tern_plan_info* info);
tern_status launch_recipe(tern_recipe recipe, const tern_bind_args* args, const tern_host_args* host_args,
                          tern_stream stream);
tern_status recipe_destroy(tern_recipe recipe);
tern_status recipe_save(tern_recipe recipe, void* data, std::uint64_t capacity, std::uint64_t* bytes);
tern_status recipe_load(tern_device device, const tern_graph_desc* graph, const void* data, std::uint64_t bytes,
                        tern_recipe* recipe, tern_plan_info* info);

}  // namespace tern::mutant
