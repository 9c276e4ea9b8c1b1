#include "server/openapi/fragments.h"

namespace tern::server::llamacpp {

std::string_view openapi() {
  return R"json({
  "paths": {
    "/slots": {
      "get": {
        "summary": "The places of the batch, and what is computed in each", "tags": ["llama.cpp"],
        "parameters": [
          {
            "name": "fail_on_no_slot", "in": "query", "required": false,
            "description": "1: the answer is 503 where no slot is free", "schema": {"enum": [0, 1]}
          }
        ],
        "responses": {
          "200": {
            "description": "A slot for each of --max_num_seqs",
            "content": {
              "application/json": {
                "schema": {
                  "type": "array",
                  "items": {
                    "type": "object", "required": ["id", "n_ctx", "is_processing"],
                    "properties": {
                      "id": {"type": "integer"}, "n_ctx": {"type": "integer"},
                      "is_processing": {"type": "boolean"},
                      "id_task": {"type": "integer"}, "n_prompt_tokens": {"type": "integer"},
                      "params": {"type": "object"}, "next_token": {"type": "object"}
                    }
                  }
                }
              }
            }
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/infill": {
      "post": {
        "summary": "What belongs between a prefix and a suffix of code", "tags": ["llama.cpp"],
        "requestBody": {
          "required": true,
          "content": {
            "application/json": {
              "schema": {
                "type": "object", "required": ["input_prefix", "input_suffix"],
                "properties": {
                  "input_prefix": {"type": "string"},
                  "input_suffix": {"type": "string"},
                  "prompt": {"type": "string"},
                  "input_extra": {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["text"],
                      "properties": {"filename": {"type": "string"}, "text": {"type": "string"}}
                    }
                  },
                  "n_predict": {"type": "integer", "minimum": -1},
                  "stream": {"type": "boolean"},
                  "n_indent": {"type": "integer", "minimum": 0},
                  "temperature": {"type": "number", "minimum": 0},
                  "top_k": {"type": "integer"},
                  "top_p": {"type": "number"},
                  "min_p": {"type": "number"},
                  "seed": {"type": "integer"},
                  "samplers": {
                    "type": "array",
                    "items": {"enum": ["penalties", "top_k", "top_p", "min_p", "temperature", "infill"]}
                  },
                  "response_fields": {"type": "array", "items": {"type": "string"}},
                  "cache_prompt": {"type": "boolean"}
                }
              }
            }
          }
        },
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    }
  }
})json";
}

}  // namespace tern::server::llamacpp
