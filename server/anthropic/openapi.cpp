#include "server/openapi/fragments.h"

namespace tern::server::anthropic {

// Anthropic's routes.
std::string_view openapi() {
  return R"json({
  "paths": {
    "/v1/messages": {
      "post": {
        "summary": "A message's answer, in Anthropic's protocol", "tags": ["Anthropic"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/MessagesRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer, or with `\"stream\": true` its events",
            "content": {
              "application/json": {"schema": {"$ref": "#/components/schemas/Message"}},
              "text/event-stream": {}
            }
          },
          "4XX": {"$ref": "#/components/responses/AnthropicError"},
          "5XX": {"$ref": "#/components/responses/AnthropicError"}
        }
      }
    },
    "/v1/messages/count_tokens": {
      "post": {
        "summary": "How many tokens a message's prompt has", "tags": ["Anthropic"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CountTokensRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TokenCount"}}}
          },
          "4XX": {"$ref": "#/components/responses/AnthropicError"},
          "5XX": {"$ref": "#/components/responses/AnthropicError"}
        }
      }
    }
  },
  "components": {
    "schemas": {
      "MessagesRequest": {
        "type": "object", "required": ["model", "messages", "max_tokens"],
        "properties": {
          "model": {"type": "string"},
          "messages": {
            "type": "array", "items": {"$ref": "#/components/schemas/AnthropicMessage"}, "minItems": 1
          },
          "system": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string"},
                  {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["type", "text"],
                      "properties": {
                        "type": {"type": "string", "enum": ["text"]}, "text": {"type": "string"},
                        "citations": {}, "cache_control": {}
                      },
                      "additionalProperties": false
                    }
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "tools": {
            "type": ["array", "null"],
            "items": {
              "type": "object", "required": ["name", "input_schema"],
              "properties": {
                "type": {"anyOf": [{"type": "string", "enum": ["custom"]}, {"type": "null"}]},
                "name": {"type": "string"}, "description": {"type": ["string", "null"]},
                "input_schema": {"type": "object"}, "cache_control": {}, "eager_input_streaming": {},
                "strict": {"type": ["boolean", "null"]}
              },
              "additionalProperties": false
            }
          },
          "tool_choice": {
            "anyOf": [
              {
                "anyOf": [
                  {
                    "type": "object", "required": ["type"],
                    "properties": {
                      "type": {"type": "string", "enum": ["auto", "any"]},
                      "disable_parallel_tool_use": {"type": "boolean"}
                    },
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type"],
                    "properties": {"type": {"type": "string", "enum": ["none"]}}, "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type", "name"],
                    "properties": {
                      "type": {"type": "string", "enum": ["tool"]}, "name": {"type": "string"},
                      "disable_parallel_tool_use": {"type": "boolean"}
                    },
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "thinking": {
            "anyOf": [
              {
                "anyOf": [
                  {
                    "type": "object", "required": ["type"],
                    "properties": {"type": {"type": "string", "enum": ["disabled"]}},
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type"],
                    "properties": {
                      "type": {"type": "string", "enum": ["adaptive"]},
                      "display": {"type": "string", "enum": ["summarized", "omitted"]}
                    },
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type", "budget_tokens"],
                    "properties": {
                      "type": {"type": "string", "enum": ["enabled"]},
                      "budget_tokens": {"type": "integer", "minimum": 1024},
                      "display": {"type": "string", "enum": ["summarized", "omitted"]}
                    },
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "output_config": {
            "type": ["object", "null"],
            "properties": {
              "effort": {"type": ["string", "null"]},
              "format": {
                "type": ["object", "null"], "required": ["type", "schema"],
                "properties": {
                  "type": {"type": "string", "enum": ["json_schema"]}, "schema": {"type": "object"}
                },
                "additionalProperties": false
              }
            },
            "additionalProperties": false
          },
          "context_management": {
            "type": ["object", "null"],
            "properties": {
              "edits": {
                "type": ["array", "null"],
                "items": {
                  "type": "object", "required": ["type", "keep"],
                  "properties": {
                    "type": {"type": "string", "pattern": "^clear_thinking_"},
                    "keep": {"type": "string", "enum": ["all"]}
                  },
                  "additionalProperties": false
                }
              }
            },
            "additionalProperties": false
          },
          "cache_control": {}, "speed": {}, "user_profile_id": {}, "workspace_id": {},
          "max_tokens": {"type": "integer", "minimum": 1},
          "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "top_k": {"type": ["integer", "null"], "minimum": 0, "maximum": 2147483647},
          "stop_sequences": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}},
          "stream": {"type": ["boolean", "null"], "default": false}, "metadata": {}, "service_tier": {},
          "inference_geo": {}
        },
        "additionalProperties": false
      },
      "CountTokensRequest": {
        "type": "object", "required": ["model", "messages"],
        "properties": {
          "model": {"type": "string"},
          "messages": {
            "type": "array", "items": {"$ref": "#/components/schemas/AnthropicMessage"}, "minItems": 1
          },
          "system": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string"},
                  {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["type", "text"],
                      "properties": {
                        "type": {"type": "string", "enum": ["text"]}, "text": {"type": "string"},
                        "citations": {}, "cache_control": {}
                      },
                      "additionalProperties": false
                    }
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "tools": {
            "type": ["array", "null"],
            "items": {
              "type": "object", "required": ["name", "input_schema"],
              "properties": {
                "type": {"anyOf": [{"type": "string", "enum": ["custom"]}, {"type": "null"}]},
                "name": {"type": "string"}, "description": {"type": ["string", "null"]},
                "input_schema": {"type": "object"}, "cache_control": {}, "eager_input_streaming": {},
                "strict": {"type": ["boolean", "null"]}
              },
              "additionalProperties": false
            }
          },
          "tool_choice": {
            "anyOf": [
              {
                "anyOf": [
                  {
                    "type": "object", "required": ["type"],
                    "properties": {
                      "type": {"type": "string", "enum": ["auto", "any"]},
                      "disable_parallel_tool_use": {"type": "boolean"}
                    },
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type"],
                    "properties": {"type": {"type": "string", "enum": ["none"]}}, "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type", "name"],
                    "properties": {
                      "type": {"type": "string", "enum": ["tool"]}, "name": {"type": "string"},
                      "disable_parallel_tool_use": {"type": "boolean"}
                    },
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "thinking": {
            "anyOf": [
              {
                "anyOf": [
                  {
                    "type": "object", "required": ["type"],
                    "properties": {"type": {"type": "string", "enum": ["disabled"]}},
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type"],
                    "properties": {
                      "type": {"type": "string", "enum": ["adaptive"]},
                      "display": {"type": "string", "enum": ["summarized", "omitted"]}
                    },
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type", "budget_tokens"],
                    "properties": {
                      "type": {"type": "string", "enum": ["enabled"]},
                      "budget_tokens": {"type": "integer", "minimum": 1024},
                      "display": {"type": "string", "enum": ["summarized", "omitted"]}
                    },
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "output_config": {
            "type": ["object", "null"],
            "properties": {
              "effort": {"type": ["string", "null"]},
              "format": {
                "type": ["object", "null"], "required": ["type", "schema"],
                "properties": {
                  "type": {"type": "string", "enum": ["json_schema"]}, "schema": {"type": "object"}
                },
                "additionalProperties": false
              }
            },
            "additionalProperties": false
          },
          "context_management": {
            "type": ["object", "null"],
            "properties": {
              "edits": {
                "type": ["array", "null"],
                "items": {
                  "type": "object", "required": ["type", "keep"],
                  "properties": {
                    "type": {"type": "string", "pattern": "^clear_thinking_"},
                    "keep": {"type": "string", "enum": ["all"]}
                  },
                  "additionalProperties": false
                }
              }
            },
            "additionalProperties": false
          },
          "cache_control": {}, "speed": {}, "user_profile_id": {}, "workspace_id": {}
        },
        "additionalProperties": false
      },
      "AnthropicMessage": {
        "type": "object", "required": ["role", "content"],
        "properties": {
          "role": {"type": "string", "enum": ["user", "assistant"]},
          "content": {
            "anyOf": [
              {"type": "string"},
              {"type": "array", "items": {"$ref": "#/components/schemas/AnthropicBlock"}, "minItems": 1}
            ]
          }
        },
        "additionalProperties": false
      },
      "AnthropicBlock": {
        "type": "object", "required": ["type"],
        "properties": {
          "type": {"type": "string", "enum": ["text", "image", "tool_result", "thinking", "tool_use"]},
          "text": {"type": ["string", "null"]}, "citations": {}, "cache_control": {},
          "source": {
            "anyOf": [
              {
                "anyOf": [
                  {
                    "type": "object", "required": ["type", "media_type", "data"],
                    "properties": {
                      "type": {"type": "string", "enum": ["base64"]},
                      "media_type": {"type": "string", "pattern": "^image/"}, "data": {"type": "string"}
                    },
                    "additionalProperties": false
                  },
                  {
                    "type": "object", "required": ["type", "url"],
                    "properties": {"type": {"type": "string", "enum": ["url"]}, "url": {"type": "string"}},
                    "additionalProperties": false
                  }
                ]
              },
              {"type": "null"}
            ]
          },
          "tool_use_id": {"type": ["string", "null"]},
          "content": {
            "anyOf": [
              {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}, {"type": "null"}
            ]
          },
          "is_error": {"type": ["boolean", "null"]}, "thinking": {"type": ["string", "null"]},
          "signature": {"type": ["string", "null"]}, "id": {"type": ["string", "null"]},
          "name": {"type": ["string", "null"]}, "input": {"type": ["object", "null"]},
          "caller": {
            "type": ["object", "null"], "required": ["type"],
            "properties": {"type": {"type": "string", "enum": ["direct"]}}, "additionalProperties": false
          }
        },
        "additionalProperties": false
      },
      "Message": {
        "type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "usage"],
        "properties": {
          "id": {"type": "string"}, "type": {"type": "string", "enum": ["message"]},
          "role": {"type": "string", "enum": ["assistant"]}, "model": {"type": "string"},
          "content": {"type": "array", "items": {"type": "object"}},
          "stop_reason": {"type": ["string", "null"]}, "usage": {"type": "object"}
        },
        "additionalProperties": true
      },
      "TokenCount": {
        "type": "object", "required": ["input_tokens"],
        "properties": {"input_tokens": {"type": "integer", "minimum": 0}}, "additionalProperties": false
      },
      "AnthropicErrorBody": {
        "type": "object", "required": ["type", "error"],
        "properties": {
          "type": {"type": "string", "enum": ["error"]},
          "error": {
            "type": "object", "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
            "additionalProperties": true
          }
        },
        "additionalProperties": true
      }
    },
    "responses": {
      "AnthropicError": {
        "description": "Why not, as Anthropic says it",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AnthropicErrorBody"}}}
      }
    }
  }
})json";
}

}  // namespace tern::server::anthropic
