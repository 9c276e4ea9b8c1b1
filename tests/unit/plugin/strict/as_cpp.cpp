// tern/plugin.h as C++20 under strict warnings, with every template made.
#include "tern/accel_monitor.h"
#include "tern/plugin.h"

tern_status plugin_cpp_uses(tern_plan_info* info, const tern_op_desc& desc, const tern_host_args* given);

tern_status plugin_cpp_uses(tern_plan_info* info, const tern_op_desc& desc, const tern_host_args* given) {
  return tern_plugin::guarded([&] {
    const tern_plugin::OpDesc copy = tern_plugin::copy_desc(desc);
    const tern_plugin::HostArgs args(*copy, given);
    tern_plan_info filled{};
    filled.workspace_bytes = args.arrays().size();
    return tern_plugin::give_info(info, filled);
  });
}
