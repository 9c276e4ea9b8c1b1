/* tern/plugin.h as C11 under strict warnings, and the functions through which the tests see that its C and C++ parts
 * are one. */
#include "tern/accel_monitor.h"
#include "tern/plugin.h"

tern_status plugin_c_fail(const char* text);
const char* plugin_c_error(void);
tern_status plugin_c_check(const tern_op_desc* desc);

tern_status plugin_c_fail(const char* text) { return tern_plugin_fail(TERN_INTERNAL, "in C: %s", text); }

const char* plugin_c_error(void) { return tern_plugin_error(); }

tern_status plugin_c_check(const tern_op_desc* desc) {
  tern_plugin_desc own;
  return tern_plugin_take_desc(desc, &own);
}
