#include "server/openapi/fragments.h"

namespace tern::server::responses {

// OpenAI's Responses.
std::string_view openapi() {
  return R"json({
  "paths": {
    "/v1/responses": {
      "post": {
        "summary": "OpenAI's Responses", "tags": ["Responses"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ResponsesRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer, or with `\"stream\": true` its events",
            "content": {
              "application/json": {"schema": {"$ref": "#/components/schemas/Response"}},
              "text/event-stream": {}
            }
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v1/responses/{response_id}": {
      "get": {
        "summary": "A response that is kept", "tags": ["Responses"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Response"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        },
        "parameters": [
          {
            "name": "response_id", "in": "path", "required": true, "description": "Of a response that is kept",
            "schema": {"type": "string", "minLength": 1}
          }
        ]
      },
      "delete": {
        "summary": "Forgets a response", "tags": ["Responses"],
        "parameters": [
          {
            "name": "response_id", "in": "path", "required": true, "description": "Of a response that is kept",
            "schema": {"type": "string", "minLength": 1}
          }
        ],
        "responses": {
          "200": {
            "description": "It is forgotten",
            "content": {
              "application/json": {
                "schema": {
                  "type": "object", "required": ["id", "deleted"],
                  "properties": {
                    "id": {"type": "string"}, "object": {"type": "string"}, "deleted": {"type": "boolean"}
                  },
                  "additionalProperties": true
                }
              }
            }
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v1/responses/{response_id}/input_items": {
      "get": {
        "summary": "What it was made of", "tags": ["Responses"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ResponseItemList"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        },
        "parameters": [
          {
            "name": "response_id", "in": "path", "required": true, "description": "Of a response that is kept",
            "schema": {"type": "string", "minLength": 1}
          },
          {"name": "order", "in": "query", "schema": {"type": "string", "enum": ["asc", "desc"]}},
          {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
          {"name": "after", "in": "query", "schema": {"type": "string"}}
        ]
      }
    },
    "/v1/responses/{response_id}/cancel": {
      "post": {
        "summary": "Always refused: nothing runs in the background", "tags": ["Responses"],
        "parameters": [
          {
            "name": "response_id", "in": "path", "required": true, "description": "Of a response that is kept",
            "schema": {"type": "string", "minLength": 1}
          }
        ],
        "responses": {
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    }
  },
  "components": {
    "schemas": {
      "ResponsesRequest": {
        "type": "object", "required": ["input"],
        "properties": {
          "model": {"type": ["string", "null"]},
          "input": {
            "anyOf": [
              {"type": "string"},
              {"type": "array", "items": {"$ref": "#/components/schemas/ResponseItem"}, "minItems": 1}
            ]
          },
          "instructions": {"type": ["string", "null"]}, "previous_response_id": {"type": ["string", "null"]},
          "tools": {
            "type": ["array", "null"],
            "items": {
              "type": "object", "required": ["type", "name"],
              "properties": {
                "type": {"type": "string", "enum": ["function"]}, "name": {"type": "string"},
                "description": {"type": ["string", "null"]}, "parameters": {"type": ["object", "null"]},
                "strict": {"type": ["boolean", "null"]}
              },
              "additionalProperties": false
            }
          },
          "tool_choice": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string", "enum": ["none", "auto", "required"]},
                  {
                    "type": "object", "required": ["type", "name"],
                    "properties": {"type": {"type": "string", "enum": ["function"]}, "name": {"type": "string"}},
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "parallel_tool_calls": {"type": ["boolean", "null"], "default": true},
          "text": {
            "type": ["object", "null"],
            "properties": {
              "verbosity": {},
              "format": {
                "anyOf": [
                  {
                    "anyOf": [
                      {
                        "type": "object", "required": ["type"],
                        "properties": {"type": {"type": "string", "enum": ["text", "json_object"]}},
                        "additionalProperties": false
                      },
                      {
                        "type": "object", "required": ["type", "name", "schema"],
                        "properties": {
                          "type": {"type": "string", "enum": ["json_schema"]}, "name": {"type": "string"},
                          "schema": {"type": "object"}, "description": {}, "strict": {}
                        },
                        "additionalProperties": false
                      }
                    ]
                  },
                  {"type": "null"}
                ]
              }
            },
            "additionalProperties": false
          },
          "reasoning": {
            "type": ["object", "null"],
            "properties": {"effort": {"type": ["string", "null"]}, "summary": {}, "generate_summary": {}},
            "additionalProperties": false
          },
          "include": {
            "type": ["array", "null"],
            "items": {"type": "string", "enum": ["message.output_text.logprobs", "reasoning.encrypted_content"]}
          },
          "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
          "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
          "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
          "background": {"anyOf": [{"type": "boolean", "enum": [false]}, {"type": "null"}]},
          "truncation": {"anyOf": [{"type": "string", "enum": ["disabled"]}, {"type": "null"}]},
          "stream_options": {
            "type": ["object", "null"],
            "properties": {
              "include_obfuscation": {"anyOf": [{"type": "boolean", "enum": [false]}, {"type": "null"}]}
            },
            "additionalProperties": false
          },
          "stream": {"type": ["boolean", "null"], "default": false},
          "store": {"type": ["boolean", "null"], "default": true}, "metadata": {"type": ["object", "null"]},
          "user": {}, "service_tier": {}, "safety_identifier": {}, "prompt_cache_key": {},
          "prompt_cache_retention": {}
        },
        "additionalProperties": false
      },
      "ResponseItem": {
        "anyOf": [
          {
            "type": "object", "required": ["role", "content"],
            "properties": {
              "type": {"anyOf": [{"type": "string", "enum": ["message"]}, {"type": "null"}]},
              "role": {"type": "string", "enum": ["user", "assistant", "system", "developer"]},
              "content": {
                "anyOf": [
                  {"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/ResponsePart"}}
                ]
              },
              "phase": {}, "id": {}, "status": {}
            },
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["type", "name", "arguments", "call_id"],
            "properties": {
              "type": {"type": "string", "enum": ["function_call"]}, "name": {"type": "string"},
              "arguments": {"type": "string"}, "call_id": {"type": "string"}, "id": {}, "status": {}
            },
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["type", "call_id", "output"],
            "properties": {
              "type": {"type": "string", "enum": ["function_call_output"]}, "call_id": {"type": "string"},
              "output": {
                "anyOf": [
                  {"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/ResponsePart"}}
                ]
              },
              "id": {}, "status": {}
            },
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["type"],
            "properties": {
              "type": {"type": "string", "enum": ["reasoning"]},
              "content": {
                "type": ["array", "null"],
                "items": {
                  "type": "object", "required": ["type", "text"],
                  "properties": {
                    "type": {"type": "string", "enum": ["reasoning_text"]}, "text": {"type": "string"}
                  },
                  "additionalProperties": false
                }
              },
              "summary": {
                "type": ["array", "null"],
                "items": {
                  "type": "object", "required": ["type", "text"],
                  "properties": {
                    "type": {"type": "string", "enum": ["summary_text"]}, "text": {"type": "string"}
                  },
                  "additionalProperties": false
                }
              },
              "encrypted_content": {"type": ["string", "null"], "maxLength": 0}, "id": {}, "status": {}
            },
            "additionalProperties": false
          }
        ]
      },
      "ResponsePart": {
        "type": "object", "required": ["type"],
        "properties": {
          "type": {"type": "string", "enum": ["input_text", "output_text", "refusal", "input_image"]},
          "text": {"type": ["string", "null"]}, "refusal": {"type": ["string", "null"]},
          "image_url": {"type": ["string", "null"]}, "detail": {}, "annotations": {}, "logprobs": {}
        },
        "additionalProperties": false
      },
      "Response": {
        "type": "object", "required": ["id", "object", "status", "output"],
        "properties": {
          "id": {"type": "string"}, "object": {"type": "string", "enum": ["response"]},
          "status": {"type": "string"}, "output": {"type": "array", "items": {"type": "object"}}
        },
        "additionalProperties": true
      },
      "ResponseItemList": {
        "type": "object", "required": ["object", "data", "has_more"],
        "properties": {
          "object": {"type": "string", "enum": ["list"]},
          "data": {"type": "array", "items": {"type": "object"}}, "has_more": {"type": "boolean"}
        },
        "additionalProperties": true
      }
    }
  }
})json";
}

}  // namespace tern::server::responses
