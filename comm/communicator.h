// Collectives over a device's own library: RAII over the C interface. Counts are elements, and calls run in stream
// order; docs/backend-spec.md, section 12, says what each does.
#pragma once

#include <cstdint>
#include <optional>

#include "accel/device.h"

namespace tern::comm {

class Communicator {
 public:
  // Bytes that name a group: made on one rank, carried to the others. Throws Failure.
  static tern_comm_id unique_id(const accel::Device& device);
  // Waits for the other ranks, at most `timeout_ms` (0: as long as the backend does). Throws Failure where one does not
  // come.
  Communicator(accel::DevicePtr device, const tern_comm_id& id, std::int32_t ranks, std::int32_t rank,
               std::int64_t timeout_ms = 0);
  // A collective: ranks of one `color` make up a group, ordered by `key`; none for color -1.
  [[nodiscard]] std::optional<Communicator> split(std::int32_t color, std::int32_t key,
                                                  std::int64_t timeout_ms = 0) const;

  [[nodiscard]] std::int32_t ranks() const { return info_.ranks; }
  [[nodiscard]] std::int32_t rank() const { return info_.rank; }
  [[nodiscard]] std::uint64_t bytes() const { return info_.bytes; }  // of the device's memory
  [[nodiscard]] const accel::DevicePtr& device() const { return handle_.device(); }

  // `reduce`: TERN_REDUCE_*. All throw Failure.
  void all_reduce(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype, std::int32_t reduce,
                  const accel::Stream& stream) const;
  void all_gather(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype,
                  const accel::Stream& stream) const;  // count: of `from`
  void reduce_scatter(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype, std::int32_t reduce,
                      const accel::Stream& stream) const;  // count: of `to`
  void broadcast(tern_plane data, std::uint64_t count, tern_dtype dtype, std::int32_t root,
                 const accel::Stream& stream) const;
  // `count` elements go to each rank, and come from each.
  void all_to_all(tern_plane to, tern_plane from, std::uint64_t count, tern_dtype dtype,
                  const accel::Stream& stream) const;
  void send(tern_plane from, std::uint64_t count, tern_dtype dtype, std::int32_t peer,
            const accel::Stream& stream) const;
  void receive(tern_plane to, std::uint64_t count, tern_dtype dtype, std::int32_t peer,
               const accel::Stream& stream) const;
  // Why the group has failed, as far as is known by now; throws it as a Failure.
  void check_async() const;
  // Ends what hangs, from any thread; false where the library can't: then the process must end.
  [[nodiscard]] bool abort() const;

 private:
  using Handle = accel::Handle<tern_comm, &tern_backend::comm_destroy>;
  explicit Communicator(Handle handle);
  template <typename... Where>
  void require(tern_status status, const Where&... where) const {
    accel::check(status, device()->backend(), device()->name(), ": ", where...);
  }

  Handle handle_;
  tern_comm_info info_{};
};

}  // namespace tern::comm
