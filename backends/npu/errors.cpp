#include "backends/npu/errors.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "backends/npu/loader.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

struct Meaning {
  int code;
  tern_status status;
  const char* text;
};

constexpr auto kMeanings = std::to_array<Meaning>({
    {100039, TERN_INTERNAL,
     "a stub library of the toolkit was loaded instead of the real one; take .../devlib and .../stub out of "
     "LD_LIBRARY_PATH"},
    {107001, TERN_INTERNAL,
     "the device's number is none, or the driver isn't loaded; look at `npu-smi info` and ASCEND_RT_VISIBLE_DEVICES"},
    {107002, TERN_INTERNAL, "no device is set in this thread; this is a bug in tern, please report it"},
    {107003, TERN_INTERNAL, "the stream is none of this device's; this is a bug in tern, please report it"},
    {107020, TERN_INTERNAL, "the library has no such feature on this chip; install a newer CANN and driver"},
    {107025, TERN_INVALID_ARGUMENT, "a stream that joined the capture isn't waited for before its end"},
    {107041, TERN_INVALID_ARGUMENT, "this can't be called while a stream is being captured"},
    {207000, TERN_UNSUPPORTED, "the runtime doesn't have this feature on this chip; a newer CANN and driver may"},
    {207001, TERN_OUT_OF_MEMORY,
     "the device has no memory left; take a shorter --max_length, a smaller batch, or free what else runs on the card"},
    {207004, TERN_INTERNAL,
     "there is no device, or ASCEND_RT_VISIBLE_DEVICES names one that isn't there; it takes ascending numbers without "
     "duplicates, such as 0,1"},
    {207005, TERN_INTERNAL, "too many streams are open on the device"},
    {207018, TERN_OUT_OF_MEMORY,
     "the device has no memory left; take a shorter --max_length, a smaller batch, or free what else runs on the card"},
    {361001, TERN_UNSUPPORTED, "the runtime failed, or this chip isn't supported by the operator"},
    {507008, TERN_INTERNAL, "the toolkit doesn't fit the chip; install the CANN packages that are made for it"},
    {507011, TERN_ASYNC_ERROR, "a model that was queued earlier failed"},
    {507014, TERN_ASYNC_ERROR, "a kernel ran longer than the device's deadline; give it less at once"},
    {507015, TERN_ASYNC_ERROR,
     "a kernel failed on the device (an address or an index out of range, most often); the log under ~/ascend/log says "
     "which"},
    {507018, TERN_ASYNC_ERROR, "a kernel of the device's own CPU failed; the log under ~/ascend/log says which"},
    {507899, TERN_ASYNC_ERROR, "the driver reports an internal error; `dmesg` and ~/ascend/log/debug say more"},
    {507901, TERN_DEVICE_LOST, "the device doesn't answer any more; reset it, or look at `npu-smi info`"},
    {507903, TERN_INVALID_ARGUMENT, "the capture was broken by an earlier call, so nothing was kept of it"},
    {161001, TERN_INTERNAL, "a pointer was null that may not be"},
    {161002, TERN_UNSUPPORTED, "the operator doesn't take these shapes, dtypes or attributes"},
    {561000, TERN_INTERNAL, "the operator failed inside of itself"},
    {561001, TERN_UNSUPPORTED, "the operator couldn't infer its output's shape"},
    {561002, TERN_UNSUPPORTED, "the operator has no tiling for these shapes on this chip"},
    {561003, TERN_UNSUPPORTED, "the operator has no kernel for this chip and these dtypes"},
    {561101, TERN_INTERNAL, "no executor could be made"},
    {561103, TERN_UNSUPPORTED, "the operator doesn't take these shapes"},
    {561107, TERN_INTERNAL, "ASCEND_OPP_PATH isn't set; run `source set_env.sh` of the CANN toolkit"},
    {561112, TERN_INTERNAL,
     "the kernels' package for this chip isn't installed; install CANN's kernels beside the toolkit"},
});

const Meaning* find(int code) {
  const auto* at = std::find_if(kMeanings.begin(), kMeanings.end(), [&](const Meaning& m) { return m.code == code; });
  return at != kMeanings.end() ? at : nullptr;
}

}  // namespace

std::string explain(int code) {
  if (const Meaning* meaning = find(code)) return meaning->text;
  if (code >= 507000 && code < 508000) return "work on the device failed; the log under ~/ascend/log says which";
  if (code >= 107000 && code < 108000) return "a call broke the runtime's rules; please report it with this text";
  return "CANN gave an error that tern doesn't know; please report it with this text";
}

tern_status status_of(int code) {
  if (code == 0) return TERN_OK;
  if (const Meaning* meaning = find(code)) return meaning->status;
  return code >= 507000 && code < 508000 ? TERN_ASYNC_ERROR : TERN_INTERNAL;
}

std::string describe_failure(const std::string& what, int code) {
  std::string text = what + ": " + explain(code) + " (code " + std::to_string(code) + ")";
  std::string why;
  const Acl* found = acl(why);
  const char* said = found != nullptr && found->aclGetRecentErrMsg != nullptr ? found->aclGetRecentErrMsg() : nullptr;
  if (said != nullptr && *said != '\0') text += std::string(": ") + said;
  return text;
}

void check(int code, const char* what) {
  if (code != 0) throw tern_plugin::Error(status_of(code), describe_failure(what, code));
}

}  // namespace tern::npu
