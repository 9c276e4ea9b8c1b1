// Collectives of one rank: what more ranks do is between devices, and tested where there are several.
#include <algorithm>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

namespace {

using Comm = accel::Handle<tern_comm, &tern_backend::comm_destroy>;

Comm alone(const Bench& bench) {
  const auto& api = bench.device->api();
  tern_comm_id id{};
  accel::check(api.comm_unique_id(&id), bench.device->backend(), "comm_unique_id");
  tern_comm_options options{};
  options.size = sizeof(options);
  options.timeout_ms = 60'000;
  tern_comm comm = nullptr;
  accel::check(api.comm_init(bench.device->raw(), &id, 1, 0, &options, &comm), bench.device->backend(),
               "comm_init with one rank");
  return {bench.device, comm};
}

std::string check_info(const Bench& bench, const Comm& comm) {
  tern_comm_info info{};
  info.size = sizeof(info);
  accel::check(bench.device->api().comm_info(comm.raw(), &info), bench.device->backend(), "comm_info");
  if (info.ranks != 1 || info.rank != 0) return cat("comm_info says rank ", info.rank, " of ", info.ranks);
  return info.bytes <= bench.device->memory().comm_bytes ? "" : "memory_info counts less than comm_info says it takes";
}

std::string check_split(const Bench& bench, const Comm& comm) {
  const auto& api = bench.device->api();
  tern_comm part = nullptr;
  accel::check(api.comm_split(comm.raw(), 3, 0, nullptr, &part), bench.device->backend(), "comm_split");
  const Comm owner(bench.device, part);
  if (part == nullptr) return "comm_split gives a rank with a colour no part";
  if (std::string problem = check_info(bench, owner); !problem.empty()) return problem;
  tern_comm none = comm.raw();
  accel::check(api.comm_split(comm.raw(), -1, 0, nullptr, &none), bench.device->backend(), "comm_split");
  return none == nullptr ? "" : "comm_split gives a rank of no colour a part";
}

std::string check_sums(Bench& bench, const Comm& comm) {
  const auto& api = bench.device->api();
  const std::vector<float> data = {1.5F, -2.0F, 3.0F};
  const Buffer from = bench.device->allocate(12, "collectives");
  const Buffer to = bench.device->allocate(12, "collectives");
  bench.device->copy_to_device(from.plane(), std::as_bytes(std::span(data)), bench.stream);
  for (const std::int32_t reduce : {TERN_REDUCE_SUM, TERN_REDUCE_MAX, TERN_REDUCE_MIN, TERN_REDUCE_AVERAGE}) {
    bench.device->fill(to.plane(), 0xff, 12, bench.stream);
    accel::check(api.all_reduce(comm.raw(), to.plane(), from.plane(), 3, TERN_F32, reduce, bench.stream.raw()),
                 bench.device->backend(), "all_reduce of one rank");
    if (!std::ranges::equal(fetch(bench, to.plane(), 12), std::as_bytes(std::span(data)))) {
      return cat("reduction ", reduce, " over one rank is not its own data");
    }
  }
  return expect(
      TERN_INVALID_ARGUMENT,
      api.all_reduce(comm.raw(), to.plane(), from.plane(), 3, TERN_I32, TERN_REDUCE_AVERAGE, bench.stream.raw()),
      "an average of integers");
}

}  // namespace

std::string check_collectives(Bench& bench, bool set) {
  const tern_backend& api = bench.device->api();
  if (!bench.device->backend().has(&tern_backend::comm_unique_id)) return set ? "comm_unique_id is absent" : "";
  tern_comm_id id{};
  if (!set) return expect_unsupported(api.comm_unique_id(&id), "comm_unique_id");
  const tern_memory_info before = bench.device->memory();
  {
    const Comm comm = alone(bench);
    const std::string problem =
        first_problem({check_info(bench, comm), check_split(bench, comm), check_sums(bench, comm)});
    if (!problem.empty()) return problem;
  }
  return bench.device->memory().comm_bytes == before.comm_bytes ? "" : "a communicator that is gone still counts";
}

std::string check_comm_abort(Bench& bench, bool set) {
  if (!bench.device->can(TERN_CAP_COLLECTIVES)) return set ? "set without collectives, of which it speaks" : "";
  if (!set && !bench.device->backend().has(&tern_backend::comm_abort)) return {};
  const Comm comm = alone(bench);
  return expect(set ? TERN_OK : TERN_UNSUPPORTED, bench.device->api().comm_abort(comm.raw()), "comm_abort");
}

}  // namespace tern::conformance
