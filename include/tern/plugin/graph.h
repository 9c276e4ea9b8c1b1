/* What a graph says, as bytes: whether two of them are equal. See tern/plugin.h. */
#ifndef TERN_PLUGIN_GRAPH_H
#define TERN_PLUGIN_GRAPH_H

#include "tern/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes on their way into a place that may be too small, or null: they're counted in any case. */
typedef struct tern_plugin_writer {
  unsigned char* data;
  uint64_t capacity;
  uint64_t bytes;
} tern_plugin_writer;

static inline void tern_plugin_write(tern_plugin_writer* writer, const void* from, uint64_t bytes) {
  if (bytes > 0 && writer->data != NULL && tern_plugin_in_range(writer->bytes, bytes, writer->capacity)) {
    memcpy(writer->data + writer->bytes, from, (size_t)bytes);
  }
  writer->bytes += bytes;
}
static inline void tern_plugin_write_number(tern_plugin_writer* writer, int64_t number) {
  tern_plugin_write(writer, &number, sizeof number);
}

static inline void tern_plugin_write_value(tern_plugin_writer* writer, const tern_graph_value* value) {
  tern_plugin_write(writer, &value->desc, sizeof value->desc); /* without padding */
  tern_plugin_write_number(writer, value->kind);
  tern_plugin_write_number(writer, value->state);
  tern_plugin_write_number(writer, value->version);
  tern_plugin_write_number(writer, value->offset);
  tern_plugin_write_number(writer, value->argument);
}

static inline void tern_plugin_write_node(tern_plugin_writer* writer, const tern_graph_node* node) {
  const tern_op_desc* op = &node->op;
  const uint64_t attrs = op->attrs != NULL ? op->attrs_size : 0;
  tern_plugin_write_number(writer, op->op);
  tern_plugin_write_number(writer, op->needs);
  tern_plugin_write_number(writer, op->accumulate);
  tern_plugin_write_number(writer, op->num_args);
  tern_plugin_write_number(writer, (int64_t)attrs);
  tern_plugin_write(writer, op->attrs, attrs);
  tern_plugin_write_number(writer, op->alias != NULL);
  tern_plugin_write(writer, op->alias, op->alias != NULL ? op->num_args : 0);
  tern_plugin_write_number(writer, node->lane);
  tern_plugin_write_number(writer, node->first_host_array);
  tern_plugin_write(writer, node->inputs, op->num_args * sizeof *node->inputs);
  tern_plugin_write(writer, node->outputs, op->num_args * sizeof *node->outputs);
}

/* Writes up to `capacity` bytes and gives how many there are; `data` may be null with 0. Two graphs have equal bytes
 * where all that they say is equal: values, ops with their attributes and needs, and order; where they lie in memory
 * isn't in it. What a kept recipe is found by, and what it's checked with when it's loaded. */
static inline uint64_t tern_plugin_graph_bytes(const tern_graph_desc* graph, void* data, uint64_t capacity) {
  tern_plugin_writer writer = {(unsigned char*)data, capacity, 0};
  tern_plugin_write_number(&writer, graph->num_values);
  tern_plugin_write_number(&writer, graph->num_nodes);
  tern_plugin_write_number(&writer, graph->num_edges);
  tern_plugin_write_number(&writer, graph->num_arguments);
  for (uint32_t v = 0; v < graph->num_values; ++v) tern_plugin_write_value(&writer, &graph->values[v]);
  for (uint32_t n = 0; n < graph->num_nodes; ++n) tern_plugin_write_node(&writer, &graph->nodes[n]);
  for (uint32_t e = 0; e < graph->num_edges; ++e) {
    tern_plugin_write_number(&writer, graph->edges[e].before);
    tern_plugin_write_number(&writer, graph->edges[e].after);
  }
  return writer.bytes;
}

#ifdef __cplusplus
}
#endif
#endif
