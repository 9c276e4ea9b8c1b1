// The commands of docs/ascend.md run, over the fake of CANN.
#include "ascend_machine.h"
#include "page.h"

namespace tern::e2e {
namespace {

// Variables of the machine, for a shell.
std::string exports(const Machine& machine) {
  std::string lines;
  for (const auto& [name, value] : machine.options.variables) {
    if (name != "TERN_HOME" && name != "HOME") lines += "export " + name + "='" + value + "'\n";
  }
  // A server doesn't end by itself: it's ended once it has said that it serves, which it must within a minute.
  lines += R"(tern() {
  if [ "$1" != deploy ]; then command tern "$@"; return; fi
  command tern "$@" --host 127.0.0.1 >served 2>&1 &
  for i in $(seq 600); do grep -q '^serving .* on http' served && break; sleep 0.1; done
  kill -TERM $!
  wait $! || true
  grep -q '^serving .* on http' served || { cat served; return 1; }
}
)";
  return lines;
}

TEST(AscendPage, Runs) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_LATE"] = "0";
  run_page("docs/ascend.md", 12, exports(machine));
}

}  // namespace
}  // namespace tern::e2e
