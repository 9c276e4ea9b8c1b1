#include "comm/communicator.h"

#include <vector>

namespace tern::comm {
namespace {

tern_comm_options options_of(std::int64_t timeout_ms) {
  tern_comm_options options{};
  options.size = sizeof(options);
  options.timeout_ms = timeout_ms;
  return options;
}

}  // namespace

tern_comm_id Communicator::unique_id(const accel::Device& device) {
  tern_comm_id id{};
  accel::check(device.api().comm_unique_id(&id), device.backend(), device.name(), ": naming a group of ranks");
  return id;
}

Communicator::Communicator(Handle handle) : handle_(std::move(handle)) {
  info_.size = sizeof(info_);
  require(device()->api().comm_info(handle_.raw(), &info_), "asking for a group's ranks");
}

Communicator::Communicator(accel::DevicePtr device, const tern_comm_id& id, std::int32_t ranks, std::int32_t rank,
                           std::int64_t timeout_ms)
    : Communicator([&] {
        const tern_comm_options options = options_of(timeout_ms);
        tern_comm raw = nullptr;
        accel::check(device->api().comm_init(device->raw(), &id, ranks, rank, &options, &raw), device->backend(),
                     device->name(), ": rank ", rank, " of ", ranks, " joining its group");
        return Handle(device, raw);
      }()) {}

std::optional<Communicator> Communicator::split(std::int32_t color, std::int32_t key, std::int64_t timeout_ms) const {
  const tern_comm_options options = options_of(timeout_ms);
  tern_comm raw = nullptr;
  require(device()->api().comm_split(handle_.raw(), color, key, &options, &raw), "splitting a group of ranks");
  if (raw == nullptr) return std::nullopt;
  return Communicator(Handle(device(), raw));
}

void Communicator::all_reduce(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype,
                              std::int32_t reduce, const accel::Stream& stream) const {
  require(device()->api().all_reduce(handle_.raw(), to, from, count, dtype, reduce, stream.raw()), "all_reduce");
}

void Communicator::all_gather(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype,
                              const accel::Stream& stream) const {
  require(device()->api().all_gather(handle_.raw(), to, from, count, dtype, stream.raw()), "all_gather");
}

void Communicator::reduce_scatter(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype,
                                  std::int32_t reduce, const accel::Stream& stream) const {
  require(device()->api().reduce_scatter(handle_.raw(), to, from, count, dtype, reduce, stream.raw()),
          "reduce_scatter");
}

void Communicator::broadcast(tern_plane data, std::uint64_t count, tern_dtype dtype, std::int32_t root,
                             const accel::Stream& stream) const {
  require(device()->api().broadcast(handle_.raw(), data, count, dtype, root, stream.raw()), "broadcast");
}

void Communicator::all_to_all(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype,
                              const accel::Stream& stream) const {
  const std::vector<std::uint64_t> counts(static_cast<std::size_t>(ranks()), count);
  require(device()->api().all_to_all(handle_.raw(), to, from, counts.data(), counts.data(), dtype, stream.raw()),
          "all_to_all");
}

void Communicator::send(tern_plane from, std::uint64_t count, tern_dtype dtype, std::int32_t peer,
                        const accel::Stream& stream) const {
  require(device()->api().send(handle_.raw(), from, count, dtype, peer, stream.raw()), "send");
}

void Communicator::receive(tern_plane to, std::uint64_t count, tern_dtype dtype, std::int32_t peer,
                           const accel::Stream& stream) const {
  require(device()->api().receive(handle_.raw(), to, count, dtype, peer, stream.raw()), "receive");
}

void Communicator::check_async() const {
  char reason[512] = "";
  const tern_status status = device()->api().comm_async_error(handle_.raw(), {reason, sizeof(reason)});
  require(status, "a group of ranks", reason[0] == '\0' ? "" : ": ", static_cast<const char*>(reason));
}

bool Communicator::abort() const {
  if (!device()->can(TERN_CAP_COMM_ABORT)) return false;
  require(device()->api().comm_abort(handle_.raw()), "ending a group of ranks");
  return true;
}

}  // namespace tern::comm
