// Compiled graphs as bytes that a later process loads: a head that says whose they are, then what Recipe holds.
#include <cstring>

#include "backends/sim/interface.h"
#include "backends/sim/recipe.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

constexpr std::uint64_t kMagic = 0x3145504943455253;  // "SRECIPE1"
constexpr std::uint32_t kFormat = 1;

// FNV-1a: any one changed byte changes it.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

// What a recipe must not outlive.
std::string identity(const Device& device) {
  return cat(device.info.name, "|", device.info.arch, "|", device.info.driver_version, "|", kVersion);
}

class Writer {
 public:
  template <typename T>
  void plain(T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), from, from + sizeof value);
  }
  template <typename List>
  void size(List& list) {
    std::uint64_t count = list.size();
    plain(count);
  }
  std::vector<std::byte> out;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : left_(from) {}
  template <typename T>
  void plain(T& value) {
    if (left_.size() < sizeof value) fail(TERN_UNSUPPORTED, "recipe_load: the data ends too early");
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
  }
  template <typename List>
  void size(List& list) {
    std::uint64_t count = 0;
    plain(count);
    if (count > left_.size()) fail(TERN_UNSUPPORTED, "recipe_load: the data ends too early");  // a byte each at least
    list.resize(count);
  }
  [[nodiscard]] bool is_done() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

template <typename Archive, typename T>
void plain_list(Archive& archive, T& list) {
  archive.size(list);
  for (auto& element : list) archive.plain(element);
}

template <typename Archive>
void flags(Archive& archive, std::vector<bool>& list) {
  archive.size(list);
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::uint8_t flag = list[i] ? 1 : 0;
    archive.plain(flag);
    list[i] = flag != 0;
  }
}

template <typename Archive>
void value_fields(Archive& archive, tern_graph_value& value) {
  archive.plain(value.desc);
  archive.plain(value.kind);
  archive.plain(value.state);
  archive.plain(value.version);
  archive.plain(value.offset);
  archive.plain(value.argument);
}

template <typename Archive>
void node_fields(Archive& archive, Recipe::Node& node) {
  archive.plain(node.op);
  plain_list(archive, node.attrs);
  archive.plain(node.accumulate);
  archive.plain(node.first_array);
  plain_list(archive, node.values);
}

// All but the head: the same words write and read.
template <typename Archive>
void body(Archive& archive, std::string& owner, Recipe& recipe) {
  plain_list(archive, owner);
  plain_list(archive, recipe.graph);
  archive.size(recipe.values);
  for (tern_graph_value& value : recipe.values) value_fields(archive, value);
  archive.size(recipe.nodes);
  for (Recipe::Node& node : recipe.nodes) node_fields(archive, node);
  plain_list(archive, recipe.places);
  archive.plain(recipe.num_arguments);
  archive.plain(recipe.arrays.expected);
  archive.plain(recipe.arrays.or_more);
  flags(archive, recipe.written);
  archive.plain(recipe.workspace_bytes);
}

struct Head {
  std::uint64_t magic = kMagic;
  std::uint64_t format = kFormat;
  std::uint64_t bytes = 0;  // that follow
  std::uint64_t sum = 0;    // of them
};

std::vector<std::byte> written(Recipe& recipe) {
  Writer writer;
  std::string owner = identity(*recipe.device);
  body(writer, owner, recipe);
  Head head;
  head.bytes = writer.out.size();
  head.sum = checksum(writer.out);
  const auto* from = reinterpret_cast<const std::byte*>(&head);
  writer.out.insert(writer.out.begin(), from, from + sizeof head);
  return writer.out;
}

// What follows the head, once that is right.
std::span<const std::byte> checked(std::span<const std::byte> data) {
  Head head;
  if (data.size() < sizeof head) fail(TERN_UNSUPPORTED, "recipe_load: the data ends too early");
  std::memcpy(&head, data.data(), sizeof head);
  const auto rest = data.subspan(sizeof head);
  if (head.magic != kMagic) fail(TERN_UNSUPPORTED, "recipe_load: this is no recipe of the simulated device");
  if (head.format != kFormat) {
    fail(TERN_UNSUPPORTED, cat("recipe_load: expected format ", kFormat, ", found ", head.format));
  }
  if (head.bytes != rest.size()) {
    fail(TERN_UNSUPPORTED, cat("recipe_load: expected ", head.bytes, " bytes, found ", rest.size()));
  }
  if (head.sum != checksum(rest)) fail(TERN_UNSUPPORTED, "recipe_load: the data has changed since it was saved");
  return rest;
}

void require_files(const Device& device) {
  if (!device.can(TERN_CAP_RECIPE_FILES)) fail(TERN_UNSUPPORTED, cat(device.name(), " keeps no recipes"));
}

}  // namespace

std::vector<std::byte> graph_bytes(const tern_graph_desc& graph) {
  std::vector<std::byte> bytes(tern_plugin_graph_bytes(&graph, nullptr, 0));
  (void)tern_plugin_graph_bytes(&graph, bytes.data(), bytes.size());
  return bytes;
}

tern_status recipe_save(tern_recipe recipe, void* data, uint64_t capacity, uint64_t* bytes) {
  return guarded([&](auto&) {
    require(bytes != nullptr && (data != nullptr || capacity == 0), "recipe_save: no place for the data or its size");
    Recipe& saved = *world().recipes.at(recipe);
    require_files(*saved.device);
    const std::vector<std::byte> all = written(saved);
    *bytes = all.size();
    if (capacity >= all.size()) std::memcpy(data, all.data(), all.size());
  });
}

tern_status recipe_load(tern_device device, const tern_graph_desc* graph, const void* data, uint64_t bytes,
                        tern_recipe* out, tern_plan_info* info) {
  return guarded([&](auto&) {
    require(graph != nullptr && graph->size >= sizeof *graph && out != nullptr && info != nullptr &&
                (data != nullptr || bytes == 0),
            "recipe_load: a null argument or a struct of an older version");
    const auto& d = world().device(device);
    require_alive(*d);
    require_files(*d);
    Reader reader(checked({static_cast<const std::byte*>(data), bytes}));
    auto made = std::make_shared<Recipe>();
    std::string owner;
    body(reader, owner, *made);
    if (!reader.is_done()) fail(TERN_UNSUPPORTED, "recipe_load: there is more data than a recipe has");
    if (owner != identity(*d)) {
      fail(TERN_UNSUPPORTED, cat("recipe_load: expected a recipe for ", identity(*d), ", found one for ", owner));
    }
    if (made->graph != graph_bytes(*graph)) fail(TERN_UNSUPPORTED, "recipe_load: the recipe is of another graph");
    made->device = d;
    made->take_library();
    give_recipe(*made, info);
    *out = world().recipes.add(std::move(made));
  });
}

}  // namespace tern::sim
