// Mistakes in opening devices, in memory, and in structs of other versions.
#include <cstring>

#include "mutant/runtime_state.h"

namespace tern::mutant {
namespace {

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
         runtime_state().restored.insert(buffer);
         return inner().buffer_restore(buffer);
       };
       t.buffer_destroy = [](tern_buffer buffer) {
         runtime_state().restored.erase(buffer);
         return inner().buffer_destroy(buffer);
       };
       t.buffer_native = [](tern_buffer buffer, tern_native* native) {
         const tern_status status = inner().buffer_native(buffer, native);
         if (runtime_state().restored.contains(buffer)) native->offset += 4096;
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
         if (status == TERN_OK && args->ordinal == -1) runtime_state().described.insert(*device);
         return status;
       };
       t.supports = [](tern_device device, const tern_op_desc* desc, tern_text reason) -> tern_status {
         if (runtime_state().described.contains(device)) return TERN_UNSUPPORTED;
         return inner().supports(device, desc, reason);
       };
     }},
    {"every name is an extension", 0, nullptr,
     [](tern_backend& t) { t.get_extension = [](const char*) -> const void* { return &runtime_state().table; }; }},
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
};

}  // namespace

std::span<const RuntimeMistake> memory_mistakes() { return kMistakes; }

}  // namespace tern::mutant
