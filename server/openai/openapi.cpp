#include "server/openapi/fragments.h"

namespace tern::server::openai {

// OpenAI's routes.
std::string_view openapi() {
  return R"json({
  "paths": {
    "/v1/chat/completions": {
      "post": {
        "summary": "A dialogue's answers", "tags": ["OpenAI"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer, or with `\"stream\": true` its events",
            "content": {
              "application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletion"}},
              "text/event-stream": {}
            }},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }}},
    "/v1/completions": {
      "post": {
        "summary": "Texts that the model goes on with", "tags": ["OpenAI"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CompletionRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer, or with `\"stream\": true` its events",
            "content": {
              "application/json": {"schema": {"$ref": "#/components/schemas/Completion"}},
              "text/event-stream": {}
            }},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }}},
    "/v1/embeddings": {
      "post": {
        "summary": "A vector of each text", "tags": ["OpenAI"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/EmbeddingRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/EmbeddingList"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }}},
    "/v1/models": {
      "get": {
        "summary": "The models that are served", "tags": ["OpenAI"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ModelList"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }}},
    "/v1/models/{model}": {
      "get": {
        "summary": "One model", "tags": ["OpenAI"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Model"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        },
        "parameters": [
          {
            "name": "model", "in": "path", "required": true, "description": "Its name",
            "schema": {"type": "string", "minLength": 1}
          }]}},
    "/v1/load_lora_adapter": {
      "post": {
        "summary": "Loads an adapter; needs --enable_lora", "tags": ["OpenAI"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/LoadLora"}}}
        },
        "responses": {
          "200": {"description": "It is done", "content": {"text/plain": {"schema": {"type": "string"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }}},
    "/v1/unload_lora_adapter": {
      "post": {
        "summary": "Forgets an adapter; needs --enable_lora", "tags": ["OpenAI"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/UnloadLora"}}}
        },
        "responses": {
          "200": {"description": "It is done", "content": {"text/plain": {"schema": {"type": "string"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }}
    }
  },
  "components": {
    "schemas": {
      "ChatCompletionRequest": {
        "type": "object", "required": ["messages"],
        "properties": {
          "model": {"type": ["string", "null"], "description": "One that /v1/models lists; absent: the first."},
          "messages": {"type": "array", "items": {"$ref": "#/components/schemas/ChatMessage"}, "minItems": 1},
          "tools": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/ChatTool"}},
          "tool_choice": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string", "enum": ["none", "auto", "required"]},
                  {
                    "type": "object", "required": ["type", "function"],
                    "properties": {
                      "type": {"type": "string", "enum": ["function"]},
                      "function": {
                        "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
                        "additionalProperties": false
                      }
                    },
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "parallel_tool_calls": {"type": ["boolean", "null"], "default": true},
          "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
          "max_tokens": {"type": ["integer", "null"], "minimum": 1},
          "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 128},
          "logprobs": {"type": ["boolean", "null"], "default": false},
          "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "description": "At most --max_logprobs."},
          "include_reasoning": {"type": ["boolean", "null"], "default": true},
          "add_generation_prompt": {"type": ["boolean", "null"], "default": true},
          "continue_final_message": {"type": ["boolean", "null"], "default": false},
          "cache_salt": {
            "type": ["string", "null"],
            "description": "Only requests with the same one share cached prefixes, and guess from each other's answers."
          },
          "thinking_token_budget": {"type": ["integer", "null"], "minimum": 0},
          "chat_template_kwargs": {"type": ["object", "null"]},
          "reasoning_effort": {"type": ["string", "null"]},
          "best_of": {"type": ["integer", "null"], "minimum": 1, "maximum": 128, "description": "As n, or of beams."},
          "use_beam_search": {"type": ["boolean", "null"], "default": false},
          "length_penalty": {"type": ["number", "null"], "minimum": -1000, "maximum": 1000, "description": "Of beams."},
          "temperature": {"type": ["number", "null"], "minimum": 0},
          "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "top_k": {
            "type": ["integer", "null"], "minimum": -1, "maximum": 2147483647, "description": "0 and -1: off."
          },
          "repetition_penalty": {"type": ["number", "null"], "minimum": 0.001, "maximum": 1000},
          "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
          "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
          "seed": {"type": ["integer", "null"], "minimum": -9223372036854775808, "maximum": 9223372036854775807},
          "stop": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string", "minLength": 1},
                  {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 64},
                  {"type": "null"}
                ]
              },
              {"type": "null"}
            ]
          },
          "stop_token_ids": {
            "type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}
          },
          "min_tokens": {"type": ["integer", "null"], "minimum": 0},
          "ignore_eos": {"type": ["boolean", "null"], "default": false},
          "skip_special_tokens": {"type": ["boolean", "null"], "default": true},
          "include_stop_str_in_output": {"type": ["boolean", "null"], "default": false},
          "logit_bias": {
            "type": ["object", "null"],
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "description": "Token ids and what is added to their logits."
          },
          "prompt_logprobs": {
            "type": ["integer", "null"], "minimum": 0, "description": "At most --max_logprobs."
          },
          "priority": {"type": ["integer", "null"], "description": "The lowest is computed first."},
          "response_format": {"anyOf": [{"$ref": "#/components/schemas/ResponseFormat"}, {"type": "null"}]},
          "structured_outputs": {
            "anyOf": [{"$ref": "#/components/schemas/StructuredOutputs"}, {"type": "null"}]
          },
          "guided_json": {}, "guided_regex": {"type": ["string", "null"]},
          "guided_choice": {"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1},
          "guided_grammar": {"type": ["string", "null"]}, "guided_structural_tag": {},
          "guided_json_object": {"type": ["boolean", "null"]},
          "stream": {"type": ["boolean", "null"], "default": false},
          "stream_options": {"anyOf": [{"$ref": "#/components/schemas/StreamOptions"}, {"type": "null"}]},
          "user": {}, "metadata": {}, "store": {}, "service_tier": {}, "safety_identifier": {},
          "prompt_cache_key": {}, "verbosity": {}, "prompt_cache_retention": {}, "request_id": {}
        },
        "additionalProperties": false
      },
      "ChatMessage": {
        "type": "object", "required": ["role"],
        "properties": {
          "role": {"type": "string", "enum": ["system", "developer", "user", "assistant", "tool", "function"]},
          "content": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/ContentPart"}},
                  {"type": "null"}
                ]
              },
              {"type": "null"}
            ]
          },
          "name": {"type": ["string", "null"]},
          "tool_calls": {"type": ["array", "null"], "items": {"type": "object"}},
          "tool_call_id": {"type": ["string", "null"]}, "reasoning": {"type": ["string", "null"]},
          "reasoning_content": {"type": ["string", "null"]}, "refusal": {}, "annotations": {}, "audio": {},
          "function_call": {}
        },
        "additionalProperties": false
      },
      "ContentPart": {
        "type": "object", "required": ["type"],
        "properties": {
          "type": {
            "type": "string",
            "enum": ["text", "input_text", "output_text", "refusal", "image_url", "input_image", "image"]
          },
          "text": {"type": ["string", "null"]}, "refusal": {"type": ["string", "null"]},
          "image": {"type": "string", "description": "ms-swift's: data: alone; nothing is fetched."},
          "image_url": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string"},
                  {
                    "type": "object", "required": ["url"],
                    "properties": {
                      "url": {"type": "string", "description": "data: alone; nothing is fetched."}, "detail": {}
                    },
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "detail": {}, "uuid": {}, "annotations": {}
        },
        "additionalProperties": false
      },
      "ChatTool": {
        "type": "object", "required": ["type", "function"],
        "properties": {
          "type": {"type": "string", "enum": ["function"]},
          "function": {
            "type": "object", "required": ["name"],
            "properties": {
              "name": {"type": "string"}, "description": {"type": "string"}, "parameters": {"type": "object"},
              "strict": {"type": "boolean"}
            },
            "additionalProperties": true
          }
        },
        "additionalProperties": true
      },
      "ResponseFormat": {
        "oneOf": [
          {
            "type": "object", "required": ["type"],
            "properties": {"type": {"type": "string", "enum": ["text", "json_object"]}},
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["type", "json_schema"],
            "properties": {
              "type": {"type": "string", "enum": ["json_schema"]},
              "json_schema": {
                "type": "object", "required": ["schema"],
                "properties": {"schema": {}, "name": {}, "description": {}, "strict": {}},
                "additionalProperties": false
              }
            },
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["type"],
            "properties": {"type": {"type": "string", "enum": ["structural_tag"]}}, "additionalProperties": true
          }
        ]
      },
      "StructuredOutputs": {
        "type": "object",
        "properties": {
          "json": {}, "regex": {"type": ["string", "null"]},
          "choice": {
            "anyOf": [
              {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, {"type": "null"}
            ]
          },
          "grammar": {"type": ["string", "null"]}, "structural_tag": {},
          "json_object": {"type": ["boolean", "null"]}
        },
        "additionalProperties": false, "description": "One of them."
      },
      "StreamOptions": {
        "type": "object",
        "properties": {
          "include_usage": {"type": ["boolean", "null"]},
          "continuous_usage_stats": {"type": ["boolean", "null"]}, "include_obfuscation": {}
        },
        "additionalProperties": false
      },
      "Usage": {
        "type": "object", "required": ["prompt_tokens", "total_tokens"],
        "properties": {
          "prompt_tokens": {"type": "integer", "minimum": 0},
          "completion_tokens": {"type": "integer", "minimum": 0},
          "total_tokens": {"type": "integer", "minimum": 0}
        },
        "additionalProperties": true
      },
      "ChatCompletion": {
        "type": "object", "required": ["id", "object", "created", "model", "choices", "usage"],
        "properties": {
          "id": {"type": "string"}, "object": {"type": "string", "enum": ["chat.completion"]},
          "created": {"type": "integer"}, "model": {"type": "string"},
          "choices": {"type": "array", "items": {"type": "object"}, "minItems": 1},
          "usage": {"$ref": "#/components/schemas/Usage"}
        },
        "additionalProperties": true
      },
      "CompletionRequest": {
        "type": "object", "required": ["prompt"],
        "properties": {
          "model": {"type": ["string", "null"]},
          "prompt": {
            "anyOf": [
              {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1},
              {
                "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647},
                "minItems": 1
              },
              {
                "type": "array",
                "items": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}},
                "minItems": 1
              }
            ],
            "description": "A text, token ids, or a list of either."
          },
          "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 128},
          "logprobs": {"type": ["integer", "null"], "minimum": 0, "description": "At most --max_logprobs."},
          "echo": {"type": ["boolean", "null"], "default": false},
          "max_tokens": {"type": ["integer", "null"], "minimum": 1, "default": 16},
          "cache_salt": {"type": ["string", "null"]},
          "best_of": {"type": ["integer", "null"], "minimum": 1, "maximum": 128, "description": "At least n."},
          "use_beam_search": {"type": ["boolean", "null"], "default": false},
          "length_penalty": {"type": ["number", "null"], "minimum": -1000, "maximum": 1000, "description": "Of beams."},
          "suffix": {"type": ["string", "null"], "maxLength": 0},
          "temperature": {"type": ["number", "null"], "minimum": 0},
          "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "top_k": {
            "type": ["integer", "null"], "minimum": -1, "maximum": 2147483647, "description": "0 and -1: off."
          },
          "repetition_penalty": {"type": ["number", "null"], "minimum": 0.001, "maximum": 1000},
          "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
          "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
          "seed": {"type": ["integer", "null"], "minimum": -9223372036854775808, "maximum": 9223372036854775807},
          "stop": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string", "minLength": 1},
                  {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 64},
                  {"type": "null"}
                ]
              },
              {"type": "null"}
            ]
          },
          "stop_token_ids": {
            "type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}
          },
          "min_tokens": {"type": ["integer", "null"], "minimum": 0},
          "ignore_eos": {"type": ["boolean", "null"], "default": false},
          "skip_special_tokens": {"type": ["boolean", "null"], "default": true},
          "include_stop_str_in_output": {"type": ["boolean", "null"], "default": false},
          "logit_bias": {
            "type": ["object", "null"],
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "description": "Token ids and what is added to their logits."
          },
          "prompt_logprobs": {
            "type": ["integer", "null"], "minimum": 0, "description": "At most --max_logprobs."
          },
          "priority": {"type": ["integer", "null"], "description": "The lowest is computed first."},
          "response_format": {"anyOf": [{"$ref": "#/components/schemas/ResponseFormat"}, {"type": "null"}]},
          "structured_outputs": {
            "anyOf": [{"$ref": "#/components/schemas/StructuredOutputs"}, {"type": "null"}]
          },
          "guided_json": {}, "guided_regex": {"type": ["string", "null"]},
          "guided_choice": {"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1},
          "guided_grammar": {"type": ["string", "null"]}, "guided_structural_tag": {},
          "guided_json_object": {"type": ["boolean", "null"]},
          "stream": {"type": ["boolean", "null"], "default": false},
          "stream_options": {"anyOf": [{"$ref": "#/components/schemas/StreamOptions"}, {"type": "null"}]},
          "user": {}, "request_id": {}
        },
        "additionalProperties": false
      },
      "Completion": {
        "type": "object", "required": ["id", "object", "created", "model", "choices", "usage"],
        "properties": {
          "id": {"type": "string"}, "object": {"type": "string", "enum": ["text_completion"]},
          "created": {"type": "integer"}, "model": {"type": "string"},
          "choices": {"type": "array", "items": {"type": "object"}, "minItems": 1},
          "usage": {"$ref": "#/components/schemas/Usage"}
        },
        "additionalProperties": true
      },
      "EmbeddingList": {
        "type": "object", "required": ["object", "data", "model", "usage"],
        "properties": {
          "object": {"type": "string", "enum": ["list"]},
          "data": {"type": "array", "items": {"type": "object"}}, "model": {"type": "string"},
          "usage": {"$ref": "#/components/schemas/Usage"}
        },
        "additionalProperties": true
      },
      "Model": {
        "type": "object", "required": ["id", "object"],
        "properties": {
          "id": {"type": "string"}, "object": {"type": "string", "enum": ["model"]},
          "created": {"type": "integer"}, "owned_by": {"type": "string"},
          "max_model_len": {"type": "integer", "minimum": 1}
        },
        "additionalProperties": true
      },
      "ModelList": {
        "type": "object", "required": ["object", "data"],
        "properties": {
          "object": {"type": "string", "enum": ["list"]},
          "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}
        },
        "additionalProperties": true
      },
      "LoadLora": {
        "type": "object", "required": ["lora_name", "lora_path"],
        "properties": {
          "lora_name": {"type": "string", "minLength": 1}, "lora_path": {"type": "string"},
          "load_inplace": {"type": ["boolean", "null"], "default": false}
        },
        "additionalProperties": false
      },
      "UnloadLora": {
        "type": "object", "required": ["lora_name"],
        "properties": {"lora_name": {"type": "string"}, "lora_int_id": {}}, "additionalProperties": false
      }
    }
  }
})json";
}

}  // namespace tern::server::openai
