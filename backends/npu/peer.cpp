// Copies between two chips of this host.
#include <algorithm>
#include <set>

#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

// Lets both devices reach each other's memory, once in a process.
void enable_access(const Shared& a, const Shared& b) {
  static std::mutex mutex;
  static std::set<std::pair<std::int32_t, std::int32_t>> enabled;
  const std::lock_guard lock(mutex);
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!enabled.emplace(from->ordinal, to->ordinal).second) continue;
    from->use();
    const int code = acl().aclrtDeviceEnablePeerAccess(to->ordinal, 0);
    if (code == 0) continue;
    enabled.erase({from->ordinal, to->ordinal});
    check(code, "aclrtDeviceEnablePeerAccess");
  }
}

}  // namespace

std::uint64_t peers_of(std::int32_t ordinal) {
  const Acl& api = acl();
  std::uint32_t count = 0;
  if (api.aclrtGetDeviceCount(&count) != 0) return 0;
  std::uint64_t mask = 0;
  if (api.aclrtDeviceCanAccessPeer == nullptr || api.aclrtDeviceEnablePeerAccess == nullptr) return 0;
  for (std::int32_t peer = 0; peer < static_cast<std::int32_t>(std::min(count, 64U)); ++peer) {
    std::int32_t can = 0;
    if (peer != ordinal && api.aclrtDeviceCanAccessPeer(&can, ordinal, peer) == 0 && can != 0) {
      mask |= std::uint64_t{1} << peer;
    }
  }
  return mask;
}

tern_status copy_peer(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    (void)use(stream, "copy_peer");
    auto* to = plane_address(dst, bytes, "copy_peer: destination");
    const auto* from = plane_address(src, bytes, "copy_peer: source");
    if (bytes == 0) return TERN_OK;
    const Shared& a = *dst.buffer->shared;
    const Shared& b = *src.buffer->shared;
    if (peers_of(a.ordinal) == 0 || (a.ordinal != b.ordinal && (peers_of(a.ordinal) >> b.ordinal & 1U) == 0)) {
      return fail(TERN_UNSUPPORTED, "copy_peer: no path leads from npu:" + std::to_string(b.ordinal) +
                                        " to npu:" + std::to_string(a.ordinal));
    }
    if (a.ordinal != b.ordinal) enable_access(a, b);
    const Acl& api = use(stream, "copy_peer");
    check_stream(*stream, api.aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream->handle),
                 "a copy between devices");
    return TERN_OK;
  });
}

}  // namespace tern::npu
