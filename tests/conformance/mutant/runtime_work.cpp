// Mistakes in what memory_info counts, in profiles, kept recipes and communicators.
#include <algorithm>
#include <cstring>

#include "mutant/runtime_state.h"

namespace tern::mutant {
namespace {

constexpr RuntimeMistake kMistakes[] = {
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
         const std::size_t before = runtime_state().kept.size();
         runtime_state().kept.resize(before + more);
         const tern_status status = inner().profile_collect(device, runtime_state().kept.data() + before, more, &more);
         *count = records == nullptr ? runtime_state().kept.size()
                                     : std::min<std::uint64_t>(capacity, runtime_state().kept.size());
         if (records != nullptr) std::copy_n(runtime_state().kept.begin(), *count, records);
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
           runtime_state().saved.assign(static_cast<unsigned char*>(data), static_cast<unsigned char*>(data) + *bytes);
         }
         return status;
       };
       t.recipe_load = [](tern_device device, const tern_graph_desc* graph, const void*, std::uint64_t,
                          tern_recipe* recipe, tern_plan_info* info) {
         return inner().recipe_load(device, graph, runtime_state().saved.data(), runtime_state().saved.size(), recipe,
                                    info);
       };
     }},
    {"a recipe is loaded for any graph", TERN_CAP_RECIPE_FILES, nullptr,
     [](tern_backend& t) {
       t.compile = [](tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                      tern_recipe* recipe, tern_plan_info* info) {
         runtime_state().graph = *graph;
         return inner().compile(device, graph, options, recipe, info);
       };
       t.recipe_load = [](tern_device device, const tern_graph_desc* graph, const void* data, std::uint64_t bytes,
                          tern_recipe* recipe, tern_plan_info* info) {
         const tern_graph_desc own = graph->nodes == runtime_state().graph.nodes ? *graph : runtime_state().graph;
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

std::span<const RuntimeMistake> work_mistakes() { return kMistakes; }

}  // namespace tern::mutant
