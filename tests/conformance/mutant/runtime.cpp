#include "mutant/runtime.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace tern::mutant {
namespace {

// What the functions below stand in for; plugins have no closure.
struct State {
  std::shared_ptr<const accel::Backend> backend;
  const tern_backend* inner = nullptr;
  tern_backend table{};
  std::set<tern_device> described;
  std::set<tern_buffer> restored;
  std::vector<tern_profile_record> kept;
  std::vector<unsigned char> saved;
  tern_graph_desc graph{};
};
State* state = nullptr;

const tern_backend& inner() { return *state->inner; }

bool has_profiles(const accel::Backend& backend) { return !backend.profiles().empty(); }

// A filled struct as one who ignores how much room there is would hand it over.
template <typename Info, typename Call>
tern_status overrun(Info* info, const Call& call) {
  Info whole{};
  whole.size = sizeof(whole);
  const tern_status status = call(&whole);
  std::memcpy(info, &whole, sizeof(whole));
  return status;
}

template <typename T>
bool is_longer(const T* given) {
  return given != nullptr && given->size > sizeof(*given);
}

// Lambdas without captures become the table's functions.
constexpr RuntimeMistake kMistakes[] = {
    {"unknown buffer flags are ignored", 0, nullptr,
     [](tern_backend& t) {
       t.buffer_create = [](tern_device device, std::uint64_t bytes, std::uint32_t flags, tern_buffer* buffer) {
         return inner().buffer_create(device, bytes, flags & 7U, buffer);
       };
     }},
    {"all buffers are reclaimable", TERN_CAP_EVICT, nullptr,
     [](tern_backend& t) {
       t.buffer_create = [](tern_device device, std::uint64_t bytes, std::uint32_t flags, tern_buffer* buffer) {
         return inner().buffer_create(device, bytes, flags | TERN_BUFFER_RECLAIMABLE, buffer);
       };
     }},
    {"evicting does nothing", TERN_CAP_EVICT, nullptr,
     [](tern_backend& t) { t.buffer_evict = [](tern_buffer) -> tern_status { return TERN_OK; }; }},
    {"a restored buffer lies elsewhere", TERN_CAP_EVICT | TERN_CAP_NATIVE_MEMORY, nullptr,
     [](tern_backend& t) {
       t.buffer_restore = [](tern_buffer buffer) {
         state->restored.insert(buffer);
         return inner().buffer_restore(buffer);
       };
       t.buffer_destroy = [](tern_buffer buffer) {
         state->restored.erase(buffer);
         return inner().buffer_destroy(buffer);
       };
       t.buffer_native = [](tern_buffer buffer, tern_native* native) {
         const tern_status status = inner().buffer_native(buffer, native);
         if (state->restored.contains(buffer)) native->offset += 4096;
         return status;
       };
     }},
    {"an adopted buffer is a copy", TERN_CAP_NATIVE_MEMORY, nullptr,
     [](tern_backend& t) {
       t.buffer_adopt = [](tern_device device, const tern_native*, std::uint64_t bytes, tern_buffer* buffer) {
         return inner().buffer_create(device, bytes, 0, buffer);
       };
     }},
    {"memory of any device is adopted", TERN_CAP_NATIVE_MEMORY, nullptr,
     [](tern_backend& t) {
       t.buffer_adopt = [](tern_device device, const tern_native* native, std::uint64_t bytes, tern_buffer* buffer) {
         tern_native changed = *native;
         changed.device_id = 0;
         changed.size = sizeof(changed);
         return inner().buffer_adopt(device, &changed, bytes, buffer);
       };
     }},
    {"an adopted stream is another one", TERN_CAP_NATIVE_STREAMS, nullptr,
     [](tern_backend& t) {
       t.stream_adopt = [](tern_device device, const tern_native*, tern_stream* stream) {
         return inner().stream_create(device, 0, stream);
       };
     }},
    {"an adopted event is another one", TERN_CAP_NATIVE_STREAMS, nullptr,
     [](tern_backend& t) {
       t.event_adopt = [](tern_device device, const tern_native*, tern_event* event) {
         return inner().event_create(device, 0, event);
       };
     }},
    {"options are ignored", 0, nullptr,
     [](tern_backend& t) {
       t.device_open = [](const tern_open_args* args, tern_device* device) {
         tern_open_args changed = *args;
         changed.size = sizeof(changed);
         changed.num_options = 0;
         return inner().device_open(&changed, device);
       };
     }},
    {"a description says that it is a device", 0, has_profiles,
     [](tern_backend& t) {
       t.device_describe = [](const char* profile, tern_device_info* info) {
         const tern_status status = inner().device_describe(profile, info);
         if (info->size >= sizeof(*info)) info->described = 0;
         return status;
       };
     }},
    {"every profile is known", 0, has_profiles,
     [](tern_backend& t) {
       t.device_describe = [](const char*, tern_device_info* info) {
         return inner().device_describe(inner().profiles[0], info);
       };
     }},
    {"a description opens the device", 0, has_profiles,
     [](tern_backend& t) {
       t.device_open = [](const tern_open_args* args, tern_device* device) {
         tern_open_args changed = *args;
         changed.size = sizeof(changed);
         if (changed.profile != nullptr) changed.ordinal = 0;
         changed.profile = nullptr;
         return inner().device_open(&changed, device);
       };
     }},
    {"a description has no kernels", 0, has_profiles,
     [](tern_backend& t) {
       t.device_open = [](const tern_open_args* args, tern_device* device) {
         const tern_status status = inner().device_open(args, device);
         if (status == TERN_OK && args->ordinal == -1) state->described.insert(*device);
         return status;
       };
       t.supports = [](tern_device device, const tern_op_desc* desc, tern_text reason) -> tern_status {
         if (state->described.contains(device)) return TERN_UNSUPPORTED;
         return inner().supports(device, desc, reason);
       };
     }},
    {"every name is an extension", 0, nullptr,
     [](tern_backend& t) { t.get_extension = [](const char*) -> const void* { return &state->table; }; }},
    {"memory_info fills more than its room", 0, nullptr,
     [](tern_backend& t) {
       t.memory_info = [](tern_device device, tern_memory_info* info) {
         return overrun(info, [&](tern_memory_info* whole) { return inner().memory_info(device, whole); });
       };
     }},
    {"device_info fills more than its room", 0, nullptr,
     [](tern_backend& t) {
       t.device_info = [](std::int32_t ordinal, tern_device_info* info) {
         return overrun(info, [&](tern_device_info* whole) { return inner().device_info(ordinal, whole); });
       };
     }},
    {"device_describe fills more than its room", 0, has_profiles,
     [](tern_backend& t) {
       t.device_describe = [](const char* profile, tern_device_info* info) {
         return overrun(info, [&](tern_device_info* whole) { return inner().device_describe(profile, whole); });
       };
     }},
    {"plan fills more than its room", TERN_CAP_EAGER, nullptr,
     [](tern_backend& t) {
       t.plan = [](tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* plan,
                   tern_plan_info* info) {
         return overrun(info, [&](tern_plan_info* whole) { return inner().plan(device, desc, options, plan, whole); });
       };
     }},
    {"compile fills more than its room", TERN_CAP_WHOLE_GRAPH, nullptr,
     [](tern_backend& t) {
       t.compile = [](tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                      tern_recipe* recipe, tern_plan_info* info) {
         return overrun(info,
                        [&](tern_plan_info* whole) { return inner().compile(device, graph, options, recipe, whole); });
       };
     }},
    {"buffer_native fills more than its room", TERN_CAP_NATIVE_MEMORY, nullptr,
     [](tern_backend& t) {
       t.buffer_native = [](tern_buffer buffer, tern_native* native) {
         return overrun(native, [&](tern_native* whole) { return inner().buffer_native(buffer, whole); });
       };
     }},
    {"comm_info fills more than its room", TERN_CAP_COLLECTIVES, nullptr,
     [](tern_backend& t) {
       t.comm_info = [](tern_comm comm, tern_comm_info* info) {
         return overrun(info, [&](tern_comm_info* whole) { return inner().comm_info(comm, whole); });
       };
     }},
    {"longer arguments of device_open are refused", 0, nullptr,
     [](tern_backend& t) {
       t.device_open = [](const tern_open_args* args, tern_device* device) -> tern_status {
         return is_longer(args) ? TERN_INVALID_ARGUMENT : inner().device_open(args, device);
       };
     }},
    {"longer arguments of bind are refused", TERN_CAP_EAGER, nullptr,
     [](tern_backend& t) {
       t.bind = [](tern_plan plan, const tern_bind_args* args, tern_bound* bound) -> tern_status {
         return is_longer(args) ? TERN_INVALID_ARGUMENT : inner().bind(plan, args, bound);
       };
     }},
    {"longer options of plan are refused", TERN_CAP_EAGER, nullptr,
     [](tern_backend& t) {
       t.plan = [](tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* plan,
                   tern_plan_info* info) -> tern_status {
         return is_longer(options) ? TERN_INVALID_ARGUMENT : inner().plan(device, desc, options, plan, info);
       };
     }},
    {"longer arguments of launch are refused", TERN_CAP_EAGER, nullptr,
     [](tern_backend& t) {
       t.launch = [](tern_bound bound, const tern_host_args* args, tern_stream stream,
                     std::uint64_t* node) -> tern_status {
         return is_longer(args) ? TERN_INVALID_ARGUMENT : inner().launch(bound, args, stream, node);
       };
     }},
    {"longer graphs are refused", TERN_CAP_WHOLE_GRAPH, nullptr,
     [](tern_backend& t) {
       t.compile = [](tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                      tern_recipe* recipe, tern_plan_info* info) -> tern_status {
         return is_longer(graph) ? TERN_INVALID_ARGUMENT : inner().compile(device, graph, options, recipe, info);
       };
     }},
    {"the context counts for more than is in use", 0, nullptr,
     [](tern_backend& t) {
       t.memory_info = [](tern_device device, tern_memory_info* info) {
         const tern_status status = inner().memory_info(device, info);
         if (info->size >= sizeof(*info)) info->context_bytes += std::uint64_t{1} << 60;
         return status;
       };
     }},
    {"buffers are counted as the library's", 0, nullptr,
     [](tern_backend& t) {
       t.memory_info = [](tern_device device, tern_memory_info* info) {
         const tern_status status = inner().memory_info(device, info);
         if (info->size >= sizeof(*info)) info->library_bytes = info->in_use_by_process - info->context_bytes;
         return status;
       };
     }},
    {"starting a recording twice is nothing", TERN_CAP_PROFILE, nullptr,
     [](tern_backend& t) {
       t.profile_start = [](tern_device device) -> tern_status {
         (void)inner().profile_start(device);
         return TERN_OK;
       };
     }},
    {"stopping a recording does nothing", TERN_CAP_PROFILE, nullptr,
     [](tern_backend& t) {
       t.profile_stop = [](tern_device) -> tern_status { return TERN_OK; };
       t.profile_start = [](tern_device device) -> tern_status {
         static bool on = false;
         return on ? TERN_OK : (on = true, inner().profile_start(device));
       };
     }},
    {"records are kept when they are handed over", TERN_CAP_PROFILE, nullptr,
     [](tern_backend& t) {
       t.profile_collect = [](tern_device device, tern_profile_record* records, std::uint64_t capacity,
                              std::uint64_t* count) {
         std::uint64_t more = 0;
         (void)inner().profile_collect(device, nullptr, 0, &more);
         const std::size_t before = state->kept.size();
         state->kept.resize(before + more);
         const tern_status status = inner().profile_collect(device, state->kept.data() + before, more, &more);
         *count = records == nullptr ? state->kept.size() : std::min<std::uint64_t>(capacity, state->kept.size());
         if (records != nullptr) std::copy_n(state->kept.begin(), *count, records);
         return status;
       };
     }},
    {"times are those of another clock", TERN_CAP_PROFILE, nullptr,
     [](tern_backend& t) {
       t.profile_collect = [](tern_device device, tern_profile_record* records, std::uint64_t capacity,
                              std::uint64_t* count) {
         const tern_status status = inner().profile_collect(device, records, capacity, count);
         for (std::uint64_t i = 0; records != nullptr && i < *count; ++i) {
           records[i].begin_ns += std::uint64_t{1} << 40;
           records[i].end_ns += std::uint64_t{1} << 40;
         }
         return status;
       };
     }},
    {"all streams have one number", TERN_CAP_PROFILE, nullptr,
     [](tern_backend& t) {
       t.profile_collect = [](tern_device device, tern_profile_record* records, std::uint64_t capacity,
                              std::uint64_t* count) {
         const tern_status status = inner().profile_collect(device, records, capacity, count);
         for (std::uint64_t i = 0; records != nullptr && i < *count; ++i) records[i].stream = 1;
         return status;
       };
     }},
    {"ranges are not told", TERN_CAP_PROFILE, nullptr,
     [](tern_backend& t) { t.range_push = [](const char*) { inner().range_push(""); }; }},
    {"damaged recipes are loaded", TERN_CAP_RECIPE_FILES, nullptr,
     [](tern_backend& t) {
       t.recipe_save = [](tern_recipe recipe, void* data, std::uint64_t capacity, std::uint64_t* bytes) {
         const tern_status status = inner().recipe_save(recipe, data, capacity, bytes);
         if (status == TERN_OK && data != nullptr && capacity >= *bytes) {
           state->saved.assign(static_cast<unsigned char*>(data), static_cast<unsigned char*>(data) + *bytes);
         }
         return status;
       };
       t.recipe_load = [](tern_device device, const tern_graph_desc* graph, const void*, std::uint64_t,
                          tern_recipe* recipe, tern_plan_info* info) {
         return inner().recipe_load(device, graph, state->saved.data(), state->saved.size(), recipe, info);
       };
     }},
    {"a recipe is loaded for any graph", TERN_CAP_RECIPE_FILES, nullptr,
     [](tern_backend& t) {
       t.compile = [](tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                      tern_recipe* recipe, tern_plan_info* info) {
         state->graph = *graph;
         return inner().compile(device, graph, options, recipe, info);
       };
       t.recipe_load = [](tern_device device, const tern_graph_desc* graph, const void* data, std::uint64_t bytes,
                          tern_recipe* recipe, tern_plan_info* info) {
         const tern_graph_desc own = graph->nodes == state->graph.nodes ? *graph : state->graph;
         return inner().recipe_load(device, &own, data, bytes, recipe, info);
       };
     }},
    {"a recipe is saved without room", TERN_CAP_RECIPE_FILES, nullptr,
     [](tern_backend& t) {
       t.recipe_save = [](tern_recipe recipe, void* data, std::uint64_t capacity, std::uint64_t* bytes) {
         const tern_status status = inner().recipe_save(recipe, data, capacity, bytes);
         if (data != nullptr && capacity < *bytes) std::memset(data, 0, capacity);
         return status;
       };
     }},
    {"a rank of no colour gets a part", TERN_CAP_COLLECTIVES, nullptr,
     [](tern_backend& t) {
       t.comm_split = [](tern_comm comm, std::int32_t color, std::int32_t key, const tern_comm_options* options,
                         tern_comm* part) { return inner().comm_split(comm, std::max(color, 0), key, options, part); };
     }},
    {"comm_info tells another rank", TERN_CAP_COLLECTIVES, nullptr,
     [](tern_backend& t) {
       t.comm_info = [](tern_comm comm, tern_comm_info* info) {
         const tern_status status = inner().comm_info(comm, info);
         if (info->size >= sizeof(*info)) ++info->rank;
         return status;
       };
     }},
    {"an average is no reduction", TERN_CAP_COLLECTIVES, nullptr,
     [](tern_backend& t) {
       t.all_reduce = [](tern_comm comm, tern_plane dst, tern_plane src, std::uint64_t count, tern_dtype dtype,
                         std::int32_t reduce, tern_stream stream) -> tern_status {
         if (reduce > TERN_REDUCE_MIN) return TERN_INVALID_ARGUMENT;
         return inner().all_reduce(comm, dst, src, count, dtype, reduce, stream);
       };
     }},
    {"integers have an average", TERN_CAP_COLLECTIVES, nullptr,
     [](tern_backend& t) {
       t.all_reduce = [](tern_comm comm, tern_plane dst, tern_plane src, std::uint64_t count, tern_dtype dtype,
                         std::int32_t reduce, tern_stream stream) {
         const bool integers = dtype == TERN_I32 && reduce == TERN_REDUCE_AVERAGE;
         return inner().all_reduce(comm, dst, src, count, dtype, integers ? TERN_REDUCE_SUM : reduce, stream);
       };
     }},
};

}  // namespace

std::span<const RuntimeMistake> runtime_mistakes() { return kMistakes; }

std::shared_ptr<const accel::Backend> with_mistake(std::shared_ptr<const accel::Backend> inner_backend,
                                                   const RuntimeMistake& mistake) {
  static State one;
  one = {};
  state = &one;
  one.backend = std::move(inner_backend);
  one.inner = &one.backend->api();
  std::memcpy(&one.table, one.inner, std::min<std::size_t>(sizeof(one.table), one.inner->size));
  mistake.spoil(one.table);
  return accel::Backend::wrap(&one.table);
}

}  // namespace tern::mutant
