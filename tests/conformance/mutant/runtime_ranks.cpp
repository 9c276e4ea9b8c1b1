// Mistakes that only ranks beside each other show.
#include "mutant/runtime_state.h"

namespace tern::mutant {
namespace {

bool has_ranks(const accel::Backend& backend) {
  std::int32_t count = 0;
  return backend.api().device_count(&count, {nullptr, 0}) == TERN_OK && count > 1;
}

constexpr RuntimeMistake kMistakes[] = {
    {"a sum of ranks is the largest", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.all_reduce = [](tern_comm comm, tern_plane dst, tern_plane src, std::uint64_t count, tern_dtype dtype,
                         std::int32_t reduce, tern_stream stream) {
         const bool wrong = dtype == TERN_BF16 && reduce == TERN_REDUCE_SUM;
         return inner().all_reduce(comm, dst, src, count, dtype, wrong ? TERN_REDUCE_MAX : reduce, stream);
       };
     }},
    {"an average of ranks is their sum", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.reduce_scatter = [](tern_comm comm, tern_plane dst, tern_plane src, std::uint64_t count, tern_dtype dtype,
                             std::int32_t reduce, tern_stream stream) {
         return inner().reduce_scatter(comm, dst, src, count, dtype,
                                       reduce == TERN_REDUCE_AVERAGE ? TERN_REDUCE_SUM : reduce, stream);
       };
     }},
    {"long reductions leave the last element out", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.all_reduce = [](tern_comm comm, tern_plane dst, tern_plane src, std::uint64_t count, tern_dtype dtype,
                         std::int32_t reduce, tern_stream stream) {
         return inner().all_reduce(comm, dst, src, count > 512 ? count - 1 : count, dtype, reduce, stream);
       };
     }},
    {"a gather of long parts leaves their last element out", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.all_gather = [](tern_comm comm, tern_plane dst, tern_plane src, std::uint64_t count, tern_dtype dtype,
                         tern_stream stream) {
         return inner().all_gather(comm, dst, src, count > 512 ? count - 1 : count, dtype, stream);
       };
     }},
    {"a broadcast always comes from rank 0", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.broadcast = [](tern_comm comm, tern_plane data, std::uint64_t count, tern_dtype dtype, std::int32_t,
                        tern_stream stream) { return inner().broadcast(comm, data, count, dtype, 0, stream); };
     }},
    {"an exchange writes on what rank 0 sent", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.all_to_all = [](tern_comm comm, tern_plane dst, tern_plane src, const std::uint64_t* send_counts,
                         const std::uint64_t* receive_counts, tern_dtype dtype, tern_stream stream) {
         const tern_status status = inner().all_to_all(comm, dst, src, send_counts, receive_counts, dtype, stream);
         return status == TERN_OK ? inner().fill(dst, 0, 1, stream) : status;
       };
     }},
    {"what is sent loses its first byte", TERN_CAP_COLLECTIVES, has_ranks,
     [](tern_backend& t) {
       t.send = [](tern_comm comm, tern_plane src, std::uint64_t count, tern_dtype dtype, std::int32_t peer,
                   tern_stream stream) {
         const tern_status status = inner().fill(src, 0, 1, stream);
         return status == TERN_OK ? inner().send(comm, src, count, dtype, peer, stream) : status;
       };
     }},
};

}  // namespace

std::span<const RuntimeMistake> rank_mistakes() { return kMistakes; }

}  // namespace tern::mutant
