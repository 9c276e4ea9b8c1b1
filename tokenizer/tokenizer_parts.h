// Readers of the components of tokenizer.json. Each appends to its list; sequences are flattened.
#pragma once

#include "io/json_tape.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"

namespace tern::tokenizer {

using io::TapeField;

// The mend of a tokenizer file with another form than it should have.
inline constexpr const char* kCorrectFile = "fetch the file again, or correct it";

void read_normalizer(const TapeField& json, Normalizers& out);
// `map_bytes` false: the model takes a ByteLevel's bytes as they are.
void read_pre_tokenizer(const TapeField& json, bool map_bytes, PreTokenizers& out);
// True where the last step is ByteLevel and none before it is.
[[nodiscard]] bool ends_in_byte_level(const TapeField& json);
void read_post_processor(const TapeField& json, PostProcessors& out);
void read_decoder(const TapeField& json, TokenDecoders& out);

}  // namespace tern::tokenizer
