// A plugin whose table is as TERN_TEST_PLUGIN says: each value is one way to be no backend.
#include <cstdlib>
#include <string>

#include "tern/accel.h"

extern "C" __attribute__((visibility("default"))) const tern_backend* tern_backend_entry(const tern_host*) {
  static tern_backend table;
  const char* named = std::getenv("TERN_TEST_PLUGIN");
  const std::string fault = named == nullptr ? "" : named;
  if (fault == "refuses") return nullptr;
  table = {};
  table.size = sizeof(table);
  table.abi_major = fault == "other ABI" ? TERN_ABI_MAJOR + 1 : TERN_ABI_MAJOR;
  table.name = fault == "nameless" ? "" : "faulty";
  table.version = "1";
  return &table;
}
