// What reading config.json and reading a GGUF's metadata share. Not for callers of models/.
#pragma once

#include <string>

#include "io/json_field.h"
#include "models/config_fields.h"

namespace tern::models {

// A value of the type that the field has.
[[nodiscard]] FieldValue field_type(const Field& field);
// Sets what stands in for an absent field. Throws Failure (data) where it must be there.
void stand_in(ModelConfig& config, const Field& field, const Stand& stand, const std::string& where);
// Throws Failure (data) where a field for which `form` has no key is not as a reader of `form` would take it to be.
void require_default(const ModelConfig& config, const Field& field, const Stand& stand, const char* key,
                     const char* form, const char* mend);

// Reads the fields of a table out of a JSON object. Throws Failure (data) where one breaks its law.
void read_fields(const io::JsonField& json, const std::vector<Field>& fields, ModelConfig& config);
// Throws Failure (data) for a key that is none of the fields, none of `others`, and not known to change nothing.
void refuse_unknown_fields(const io::JsonField& json, const std::vector<Field>& fields,
                           const std::vector<std::string>& others, const std::string& owner);

[[nodiscard]] ModelConfig config_from_json(const checkpoint::CheckpointSource& source);
[[nodiscard]] ModelConfig config_from_gguf(const checkpoint::CheckpointSource& source);

}  // namespace tern::models
