// How the fake says no: a Refusal carries the code and the text that CANN gives, and becomes both at the C interface.
#pragma once

#include <string>
#include <utility>

namespace fake {

struct Refusal {
  int code = 0;
  std::string text;
};

[[noreturn]] void refuse(int code, std::string text);

// Makes `text` what aclGetRecentErrMsg says to this thread, in the form of the version that the fake is; gives the
// code.
int report(int code, const std::string& text);

// Null where there is none since it was last asked; valid until it's asked again.
const char* take_message();

// What a task did wrong on the device: whoever waits for the device next says it.
void note_device_failure(const std::string& task, const std::string& text);
std::string take_device_failure();

// The code that TERN_FAKE_CANN_FAULT has this call of `function` give, and 0 where it has none.
int planned_fault(const char* function);

// Runs the body of a C function. Its refusals are reported, and planned faults come before it.
template <typename Body>
int guarded(const char* function, Body&& body) {
  if (const int code = planned_fault(function)) {
    return report(code, std::string(function) + " failed, as TERN_FAKE_CANN_FAULT asks.");
  }
  try {
    std::forward<Body>(body)();
    return 0;
  } catch (const Refusal& refusal) {
    return report(refusal.code, std::string(function) + ": " + refusal.text);
  }
}

}  // namespace fake
