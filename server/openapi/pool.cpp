#include "server/openapi/fragments.h"

namespace tern::server {

std::string_view pool_openapi() {
  return R"json({
  "paths": {
    "/models": {
      "get": {
        "summary": "The models, and which have their weights", "tags": ["Models"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PoolModels"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/models/load": {
      "post": {
        "summary": "Has a model read its weights now", "tags": ["Models"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PoolModelName"}}}
        },
        "responses": {
          "200": {"$ref": "#/components/responses/PoolDone"},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/models/unload": {
      "post": {
        "summary": "Has a model give its memory back now; 409 while it answers", "tags": ["Models"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PoolModelName"}}}
        },
        "responses": {
          "200": {"$ref": "#/components/responses/PoolDone"},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    }
  },
  "components": {
    "schemas": {
      "PoolModelName": {
        "type": "object", "required": ["model"], "properties": {"model": {"type": "string"}},
        "additionalProperties": false
      },
      "PoolModels": {
        "type": "object", "required": ["object", "data"],
        "properties": {
          "object": {"enum": ["list"]},
          "data": {
            "type": "array",
            "items": {
              "type": "object", "required": ["id", "status"],
              "properties": {
                "id": {"type": "string"},
                "status": {
                  "type": "object", "required": ["value"],
                  "properties": {"value": {"enum": ["unloaded", "loading", "loaded", "sleeping", "failed"]}}
                }
              }
            }
          }
        }
      }
    },
    "responses": {
      "PoolDone": {
        "description": "It's done",
        "content": {
          "application/json": {
            "schema": {"type": "object", "required": ["success"], "properties": {"success": {"enum": [true]}}}
          }
        }
      }
    }
  }
})json";
}

}  // namespace tern::server
