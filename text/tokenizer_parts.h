// Readers of the components of tokenizer.json. Each appends to its list; sequences are flattened.
#pragma once

#include "text/json_read.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"

namespace tern::text {

void read_normalizer(const JsonValue& json, Normalizers& out);
// `map_bytes` false: the model takes a ByteLevel's bytes as they are.
void read_pre_tokenizer(const JsonValue& json, bool map_bytes, PreTokenizers& out);
// True where the last step is ByteLevel and none before it is.
[[nodiscard]] bool ends_in_byte_level(const JsonValue& json);
void read_post_processor(const JsonValue& json, PostProcessors& out);
void read_decoder(const JsonValue& json, TokenDecoders& out);

}  // namespace tern::text
