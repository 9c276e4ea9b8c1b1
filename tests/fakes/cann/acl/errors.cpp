#include "tests/fakes/cann/acl/errors.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "tests/fakes/cann/acl/process.h"

namespace fake {
namespace {

thread_local std::string pending;
thread_local std::string taken;

// What a device did wrong is said by whoever waits for it next.
std::string& device_failure() {
  static auto* const one = new std::string;
  return *one;
}

// ob: aclnn's parameters are EZ1001, its runtime EZ9903, its inner errors EZ9999; the runtime's begin with EE, acl's
// with EH.
const char* name_of(int code) {
  if (code / 1000 == 161) return "EZ1001";
  if (code / 1000 == 361) return "EZ9903";
  if (code / 1000 == 561 || code == ACL_ERROR_RT_AICORE_EXCEPTION) return "EZ9999";
  if (code >= 507000) return "EE9999";
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION || code == ACL_ERROR_RT_DEVICE_OOM) return "EL0004";
  if (code >= 107000 && code < 108000) return "EE1001";
  return "EH0001";
}

const char* title_of(const std::string& name) {
  if (name == "EZ1001") return "Invalid_Argument";
  if (name == "EZ9999") return "AclNN_Inner_Error";
  if (name == "EL0004") return "Failed_to_Allocate_Memory";
  return name.starts_with("EE") ? "Runtime_Error" : "Inner_Error";
}

std::string time_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d-%02d:%02d:%02d.%03d.%03d", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>(micros / 1000),
                static_cast<int>(micros % 1000));
  return text;
}

}  // namespace

void refuse(int code, std::string text) { throw Refusal{code, std::move(text)}; }

int report(int code, const std::string& text) {
  const std::string name = name_of(code);
  const std::string pid = std::to_string(getpid());
  if (process().settings.major >= 9) {
    pending = name + "[PID: " + pid + "] " + time_now() + " " + title_of(name) + "(" + name + "):  " + text;
    return code;
  }
  const bool inner = name.ends_with("9999");
  pending = name + ": " +
            (inner ? "Inner Error!\n" + name + ": [PID: " + pid + "] " + time_now() + " " + text
                   : "[PID: " + pid + "] " + time_now() + " " + text);
  pending += "\n        TraceBack (most recent call last):\n       " + text;
  return code;
}

const char* take_message() {
  if (pending.empty()) return nullptr;
  taken = std::move(pending);
  pending.clear();
  return taken.c_str();
}

int planned_fault(const char* function) {
  Process& all = process();
  if (all.settings.faults.empty()) return 0;
  const std::lock_guard lock(all.mutex);
  const std::int64_t number = ++all.calls[function];
  for (const Fault& fault : all.settings.faults) {
    if (fault.function == function && fault.at == number) return fault.code;
  }
  return 0;
}

void note_device_failure(const std::string& task, const std::string& text) {
  const std::lock_guard lock(process().mutex);
  if (device_failure().empty()) device_failure() = "The task " + task + " failed. " + text;
}

std::string take_device_failure() {
  const std::lock_guard lock(process().mutex);
  std::string text = std::move(device_failure());
  device_failure().clear();
  return text;
}

}  // namespace fake
