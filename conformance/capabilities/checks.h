// What the runtime promises beside ops: each check gives "" or what is wrong. `set`: whether the device has the flag.
#pragma once

#include <string>

#include "conformance/law_tools.h"

namespace tern::conformance {

// memory.cpp
std::string check_copies(Bench& bench);
std::string check_memory(Bench& bench);
std::string check_memory_parts(Bench& bench);
std::string check_buffer_flags(Bench& bench);
std::string check_evict(Bench& bench, bool set);

// offsets.cpp
std::string check_far_offsets(Bench& bench, std::string& skipped);

// sharing.cpp
std::string check_peer(Bench& bench, bool set);
std::string check_import(Bench& bench, bool set);
std::string check_host_pointer(Bench& bench, bool set);
std::string check_ipc(Bench& bench, bool set);
std::string check_native_memory(Bench& bench, bool set);
std::string check_native_streams(Bench& bench, bool set);

// order.cpp
std::string check_events(Bench& bench);
std::string check_capture_flag(Bench& bench, bool set);
std::string check_device_counts(Bench& bench, bool set);

// comm.cpp
std::string check_collectives(Bench& bench, bool set);
std::string check_comm_abort(Bench& bench, bool set);

// comm_ranks.cpp: on as many devices as the backend has, up to three
std::string check_collectives_of_ranks(Bench& bench, std::string& skipped);

// kernels.cpp
std::string check_refusal(Bench& bench);
std::string check_whole_graph(Bench& bench, bool set);
std::string check_eager(Bench& bench, bool set);
std::string check_philox(Bench& bench, bool set);
std::string check_recipe_files(Bench& bench, bool set);

// profile.cpp
std::string check_profile(Bench& bench, bool set);

// opening.cpp
std::string check_options(Bench& bench);
std::string check_described(Bench& bench);
std::string check_extensions(Bench& bench);

// structs.cpp
std::string check_short_structs(Bench& bench);
std::string check_long_structs(Bench& bench);

}  // namespace tern::conformance
