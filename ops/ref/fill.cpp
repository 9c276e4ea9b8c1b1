#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void fill(Call& call) { Output(call, TERN_FILL_Y, Output::Kind::copies).fill(attrs_of<tern_fill_attrs>(call).value); }

}  // namespace tern::ops::ref
