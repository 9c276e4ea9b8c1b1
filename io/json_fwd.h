// For headers that only name a JSON value: io/json.h is not small.
#pragma once

namespace tern::io {

class Json;

}  // namespace tern::io
