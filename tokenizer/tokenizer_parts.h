// Readers of the components of tokenizer.json. Each appends to its list; sequences are flattened.
#pragma once

#include "tokenizer/json_read.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"

namespace tern::tokenizer {

void read_normalizer(const JsonValue& json, Normalizers& out);
// `map_bytes` false: the model takes a ByteLevel's bytes as they are.
void read_pre_tokenizer(const JsonValue& json, bool map_bytes, PreTokenizers& out);
// True where the last step is ByteLevel and none before it is.
[[nodiscard]] bool ends_in_byte_level(const JsonValue& json);
void read_post_processor(const JsonValue& json, PostProcessors& out);
void read_decoder(const JsonValue& json, TokenDecoders& out);

}  // namespace tern::tokenizer
