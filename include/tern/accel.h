/* tern's accelerator interface: what a backend plugin implements. C11, alone with <stdint.h>.
 *
 * A backend is one shared library exporting `tern_backend_entry`. docs/backend-spec.md is the formal contract of every
 * function here (threading, errors, versioning, required or optional); the operations are in tern/accel_ops.h.
 * Sizes are bytes unless a name says otherwise. Every struct that crosses the border begins with its own size: the side
 * that receives it reads no further than that, so that a newer host and an older plugin agree. */
#ifndef TERN_ACCEL_H
#define TERN_ACCEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ABI_MAJOR 1u /* differs: the host refuses the plugin */
#define TERN_ABI_MINOR 0u /* grows when a table gains members at its end */
#define TERN_MAX_RANK 6
#define TERN_MAX_PLANES 4
#define TERN_MAX_COUNTS 8
#define TERN_CHOICE_BYTES 96

/* ---------------------------------------------------------------- status */
typedef int32_t tern_status;
enum {
  TERN_OK = 0,
  TERN_UNSUPPORTED = 1,      /* this device cannot; nothing was done */
  TERN_INVALID_ARGUMENT = 2, /* the caller broke the contract; last_error says how */
  TERN_OUT_OF_MEMORY = 3,    /* device memory; retrying after freeing may succeed */
  TERN_OUT_OF_HOST_MEMORY = 4,
  TERN_DEVICE_LOST = 5, /* final for this device in this process */
  TERN_ASYNC_ERROR = 6, /* earlier asynchronous work failed; final for its stream */
  TERN_NOT_READY = 7,   /* a query of unfinished work; no error */
  TERN_TIMEOUT = 8,
  TERN_INTERNAL = 9
};

/* ---------------------------------------------------------------- data types */
typedef int32_t tern_dtype;
enum {
  TERN_F32 = 0,
  TERN_F16 = 1,
  TERN_BF16 = 2,
  TERN_F64 = 3,
  TERN_I8 = 4,
  TERN_U8 = 5,
  TERN_I16 = 6,
  TERN_U16 = 7,
  TERN_I32 = 8,
  TERN_U32 = 9,
  TERN_I64 = 10,
  TERN_U64 = 11,
  TERN_BOOL = 12,     /* one byte, 0 or 1 */
  TERN_F8_E4M3 = 13,  /* OCP 8-bit, finite only, NaN 0x7f */
  TERN_F8_E5M2 = 14,
  TERN_DTYPE_COUNT = 15
};

/* How a quantised tensor's planes encode its elements. A one-plane packing interleaves scales with data (GGUF blocks);
 * the others use planes {data, scale, zero, permutation}. */
typedef int32_t tern_packing;
enum {
  TERN_PACK_NONE = 0, /* not quantised */
  TERN_PACK_GGUF_Q4_0 = 1,
  TERN_PACK_GGUF_Q4_1 = 2,
  TERN_PACK_GGUF_Q8_0 = 3,
  TERN_PACK_GGUF_Q5_0 = 4,
  TERN_PACK_GGUF_Q5_1 = 5,
  TERN_PACK_GGUF_Q4_K = 6,
  TERN_PACK_GGUF_Q6_K = 7,
  TERN_PACK_ROW_INT8 = 16,   /* data i8 [n,k], scale [n, k/group_cols] */
  TERN_PACK_AWQ_INT4 = 17,   /* data u32 [k, n/8], scale f16 [k/g, n], zero u32 [k/g, n/8] */
  TERN_PACK_GPTQ_INT4 = 18,  /* data u32 [k/8, n], scale f16 [k/g, n], zero u32 [k/g, n/8], permutation i32 [k] */
  TERN_PACK_F8_BLOCK = 19,   /* data f8 [n,k], scale f32 [n/group_rows, k/group_cols] */
  TERN_PACK_NF4 = 20,        /* data u8 [n*k/2], scale f32 or (double quantised) u8 with its own scale in plane 2 */
  TERN_PACK_MXFP4 = 21       /* data u8 [n, k/2], scale u8 (e8m0) [n, k/32] */
};

typedef struct tern_scheme {
  tern_packing packing;
  int32_t bits;        /* per element of the data plane */
  int32_t group_rows;  /* a scale serves group_rows x group_cols elements; sharding is legal on these borders only */
  int32_t group_cols;
  tern_dtype scale_dtype;
  int32_t flags; /* TERN_SCHEME_* */
} tern_scheme;
enum { TERN_SCHEME_DOUBLE_QUANT = 1 };

/* ---------------------------------------------------------------- tensors */
typedef struct tern_device_s* tern_device;
typedef struct tern_buffer_s* tern_buffer;
typedef struct tern_stream_s* tern_stream;
typedef struct tern_event_s* tern_event;
typedef struct tern_capture_s* tern_capture; /* a captured, launchable graph */
typedef struct tern_plan_s* tern_plan;
typedef struct tern_bound_s* tern_bound;
typedef struct tern_recipe_s* tern_recipe; /* a compiled whole graph */
typedef struct tern_comm_s* tern_comm;

/* Everything about a tensor but where it lies. rank 0: an absent optional argument (a scalar has rank 1, shape 1).
 * layout 0: strided; a stride of 0 broadcasts an input. Other layouts are private to the device: strides are unused.
 * dynamic_dim >= 0: at launch only the first host_args.counts[count_slot] entries of that dimension are valid; the rest
 * of an input is finite, the rest of an output is unspecified but finite. */
typedef struct tern_tensor_desc {
  tern_dtype dtype; /* of an element as the op sees it; a quantised tensor names the dtype it expands to */
  int32_t layout;
  tern_scheme scheme;
  int32_t rank;
  int8_t dynamic_dim; /* -1: static */
  uint8_t count_slot;
  uint8_t reserved[2];
  int64_t shape[TERN_MAX_RANK];
  int64_t strides[TERN_MAX_RANK]; /* in elements */
} tern_tensor_desc;

typedef struct tern_plane {
  tern_buffer buffer;
  uint64_t offset; /* bytes */
} tern_plane;

typedef struct tern_tensor {
  tern_tensor_desc desc;
  tern_plane planes[TERN_MAX_PLANES]; /* unused planes have a null buffer */
} tern_tensor;

/* ---------------------------------------------------------------- device description */
enum { /* tern_device_info.capabilities: set means it works, clear means the call answers TERN_UNSUPPORTED */
  TERN_CAP_CAPTURE = 1u << 0,
  TERN_CAP_PEER_COPY = 1u << 1,
  TERN_CAP_IMPORT_HOST = 1u << 2,
  TERN_CAP_WHOLE_GRAPH = 1u << 3,
  TERN_CAP_DYNAMIC_SHAPES = 1u << 4, /* counts below capacity cost in proportion */
  TERN_CAP_HOST_POINTER = 1u << 5,   /* buffer_host_pointer works: device memory is host memory */
  TERN_CAP_IPC = 1u << 6,
  TERN_CAP_COLLECTIVES = 1u << 7,
  TERN_CAP_PHILOX = 1u << 8,         /* dropout and sample draw their own bits; clear: a ready mask must be given */
  TERN_CAP_EAGER = 1u << 9,          /* plan/bind/launch of single ops; clear only beside WHOLE_GRAPH */
  TERN_CAP_HOST_LENGTHS = 1u << 10   /* lengths are read from host_args alone: the device copy may be left stale */
};

enum { TERN_MATRIX_UNITS_NONE = 0, TERN_MATRIX_UNITS_VECTOR = 1, TERN_MATRIX_UNITS_TENSOR = 2 };
enum { TERN_HEALTH_OK = 0, TERN_HEALTH_DEGRADED = 1, TERN_HEALTH_LOST = 2 };

typedef struct tern_device_info {
  uint32_t size;
  uint32_t capabilities;
  char name[128];
  char arch[64];           /* "avx512_bf16", "sm_90", "Ascend910B3" */
  char driver_version[64]; /* with the vendor library's: keys the cache of choices */
  uint64_t memory_bytes;
  uint64_t largest_allocation_bytes;
  uint64_t alignment;        /* every plane's offset is a multiple */
  uint64_t import_alignment; /* the same in imported host memory: a file lays its tensors out as it likes */
  uint32_t storage_dtypes;  /* bit per tern_dtype */
  uint32_t matrix_units;    /* TERN_MATRIX_UNITS_* */
  float matmul_rate[TERN_DTYPE_COUNT]; /* relative to F32 = 1; 0: no products in this dtype */
  int32_t preferred_kv_block; /* tokens */
  int32_t compute_units;
  int32_t numa_node; /* -1: none */
  char pci_address[32];
  uint64_t peer_mask; /* bit per ordinal reachable by copy_peer */
  char link[32];      /* "pcie", "nvlink", "hccs", "host" */
} tern_device_info;

typedef struct tern_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t total;
  uint64_t free;
  uint64_t in_use_by_process; /* every allocation of this process, the library's own included */
  uint64_t peak_by_process;
} tern_memory_info;

/* ---------------------------------------------------------------- operations */
enum { /* tern_op_desc.needs: `supports` answers yes only where each is met */
  TERN_NEED_DETERMINISTIC = 1u << 0, /* same inputs, same plan choice: same bits */
  TERN_NEED_ROW_INVARIANT = 1u << 1  /* a row's bits depend neither on the other rows nor on their number */
};

typedef struct tern_op_desc {
  uint32_t size;
  uint32_t op;          /* TERN_OP_* */
  uint32_t needs;
  uint32_t accumulate;  /* bit per argument: this output adds to what it holds instead of replacing it */
  uint32_t num_args;
  uint32_t attrs_size;
  const tern_tensor_desc* args; /* at their largest shapes, in the op table's order */
  const void* attrs;            /* tern_<op>_attrs */
  const int8_t* alias;          /* per argument: the input whose memory this output shares exactly, or -1 */
} tern_op_desc;

typedef struct tern_plan_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t workspace_bytes;    /* device memory handed to bind */
  uint64_t host_scratch_bytes; /* host memory handed to bind */
  uint64_t library_bytes;      /* device memory that the vendor library will take by itself */
  char choice[TERN_CHOICE_BYTES]; /* names the kernel; given back to plan, nothing is measured */
} tern_plan_info;

/* Lengths that the host made. The arrays hold the same numbers as the device tensors of those arguments; both are given
 * because some devices read them on the host. Nothing here is read after launch or update returned. */
typedef struct tern_host_array {
  const int32_t* data;
  int64_t count;
} tern_host_array;

typedef struct tern_host_args {
  uint32_t size;
  uint32_t num_arrays;
  const tern_host_array* arrays;    /* one per argument that the op table marks `lengths`, in order */
  int64_t counts[TERN_MAX_COUNTS];  /* actual sizes of dynamic dimensions, by count_slot */
} tern_host_args;

/* ---------------------------------------------------------------- whole graphs */
enum { TERN_VALUE_INPUT = 0, TERN_VALUE_OUTPUT = 1, TERN_VALUE_CONSTANT = 2, TERN_VALUE_STATE = 3, TERN_VALUE_INTERMEDIATE = 4 };
enum { TERN_LANE_COMPUTE = 0, TERN_LANE_COMM = 1, TERN_LANE_COPY_IN = 2, TERN_LANE_COPY_OUT = 3, TERN_LANE_COUNT = 4 };

typedef struct tern_graph_value {
  tern_tensor_desc desc;
  int32_t kind;
  int32_t state;   /* values of one state share memory: versions of a resource, views, sums in place */
  int32_t version; /* of that resource */
  int64_t offset;  /* elements from the begin of what it shares memory with: views */
  int32_t argument; /* where launch_recipe finds it, -1 for intermediates; versions of a state share one */
} tern_graph_value;

typedef struct tern_graph_node {
  tern_op_desc op;       /* op.args may be null: the values carry the descs */
  uint32_t lane;
  uint32_t first_host_array; /* where this node's arrays begin in launch_recipe's host_args */
  const int32_t* inputs;  /* value per argument, -1: none (an argument only written) */
  const int32_t* outputs; /* value per argument, -1: none (an argument only read) */
} tern_graph_node;

typedef struct tern_graph_edge { /* an order that data flow does not show */
  uint32_t before;
  uint32_t after;
} tern_graph_edge;

typedef struct tern_graph_desc {
  uint32_t size;
  uint32_t num_values;
  uint32_t num_nodes;
  uint32_t num_edges;
  uint32_t num_arguments;
  uint32_t reserved;
  const tern_graph_value* values;
  const tern_graph_node* nodes; /* in a legal order of execution */
  const tern_graph_edge* edges;
} tern_graph_desc;

/* ---------------------------------------------------------------- collectives */
typedef struct tern_comm_id {
  uint8_t bytes[4112]; /* HcclRootInfo is the largest known, 4108 */
} tern_comm_id;
enum { TERN_REDUCE_SUM = 0, TERN_REDUCE_MAX = 1, TERN_REDUCE_MIN = 2 };

/* ---------------------------------------------------------------- host services */
enum { TERN_LOG_DEBUG = 0, TERN_LOG_INFO = 1, TERN_LOG_WARN = 2, TERN_LOG_ERROR = 3 };

typedef struct tern_host {
  uint32_t size;
  uint32_t abi_major;
  uint32_t abi_minor;
  int32_t num_threads;   /* --threads; 0: as many as the process may use */
  const char* cache_dir; /* where a backend may keep compiled kernels; may be null */
  void (*log)(int32_t level, const char* line);
} tern_host;

typedef struct tern_text {
  char* data; /* filled with a terminated string, cut to fit */
  uint64_t capacity;
} tern_text;

enum { TERN_USE_FORWARD = 1u, TERN_USE_INPUT_GRAD = 2u }; /* uses of a packed [out,in] weight: x W^T, dy W */

typedef struct tern_packed_info {
  uint32_t size;
  int32_t layout; /* nonzero */
  uint64_t bytes;
} tern_packed_info;

/* ---------------------------------------------------------------- the table */
typedef struct tern_backend {
  uint32_t size;
  uint32_t abi_major;
  uint32_t abi_minor;
  int32_t probe_rank; /* lower is probed and preferred first: npu 10, cuda 20, opencl 30, cpu 90; sim never by itself (-1) */
  const char* name;    /* "cpu": the word before the colon in --device */
  const char* version;
  const char* visible_devices_env;          /* or null */
  const char* const* inherited_env_prefixes; /* null-terminated: what ranks on other hosts must inherit */

  /* Devices. `reason` says in plain words, with the mend, why there is none. */
  tern_status (*device_count)(int32_t* count, tern_text reason);
  tern_status (*device_info)(int32_t ordinal, tern_device_info* info);
  tern_status (*device_open)(int32_t ordinal, tern_device* device);
  tern_status (*device_close)(tern_device device);
  tern_status (*device_health)(tern_device device, int32_t* health, tern_text reason);
  tern_status (*doctor)(uint32_t check, int32_t* level, tern_text line); /* TERN_UNSUPPORTED past the last check */
  tern_status (*memory_info)(tern_device device, tern_memory_info* info);
  void (*last_error)(tern_text text); /* of the calling thread's last failed call: plain words and the vendor's */

  /* Memory. */
  tern_status (*buffer_create)(tern_device device, uint64_t bytes, tern_buffer* buffer);
  tern_status (*buffer_destroy)(tern_buffer buffer);
  tern_status (*buffer_host_pointer)(tern_buffer buffer, void** pointer);
  tern_status (*host_alloc)(tern_device device, uint64_t bytes, void** pointer); /* pinned */
  tern_status (*host_free)(tern_device device, void* pointer);
  tern_status (*import_host)(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer);
  tern_status (*ipc_export)(tern_buffer buffer, uint8_t handle[128]);
  tern_status (*ipc_import)(tern_device device, const uint8_t handle[128], uint64_t bytes, tern_buffer* buffer);

  /* Copies, in stream order. Host memory may be pageable: then the call may return late, never wrongly. */
  tern_status (*copy_to_device)(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream);
  tern_status (*copy_to_host)(void* dst, tern_plane src, uint64_t bytes, tern_stream stream);
  tern_status (*copy_on_device)(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream);
  tern_status (*copy_peer)(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream);
  tern_status (*fill)(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream);

  /* Streams and events. */
  tern_status (*stream_create)(tern_device device, int32_t priority, tern_stream* stream);
  tern_status (*stream_destroy)(tern_stream stream);
  tern_status (*stream_synchronize)(tern_stream stream);
  tern_status (*stream_wait_event)(tern_stream stream, tern_event event);
  tern_status (*event_create)(tern_device device, int32_t timing, tern_event* event);
  tern_status (*event_destroy)(tern_event event);
  tern_status (*event_record)(tern_event event, tern_stream stream);
  tern_status (*event_query)(tern_event event); /* TERN_OK or TERN_NOT_READY */
  tern_status (*event_synchronize)(tern_event event);
  tern_status (*event_elapsed)(tern_event start, tern_event end, float* milliseconds);

  /* Capture: between begin and end nothing runs; launch gives node ids for update. */
  tern_status (*capture_begin)(tern_stream stream);
  tern_status (*capture_end)(tern_stream stream, tern_capture* capture);
  tern_status (*capture_launch)(tern_capture capture, tern_stream stream);
  tern_status (*capture_update)(tern_capture capture, uint64_t node, const tern_host_args* host_args);
  tern_status (*capture_destroy)(tern_capture capture);

  /* Profiler ranges; either may be null. */
  void (*range_push)(const char* name);
  void (*range_pop)(void);

  /* Private layouts of weights. */
  tern_status (*packed_info)(tern_device device, const tern_tensor_desc* weight, uint32_t uses, tern_packed_info* info);
  tern_status (*pack)(tern_tensor packed, tern_tensor weight, uint32_t uses, tern_stream stream);
  tern_status (*unpack)(tern_tensor weight, tern_tensor packed, uint32_t uses, tern_stream stream);

  /* Kernels. */
  tern_status (*supports)(tern_device device, const tern_op_desc* desc, tern_text reason);
  tern_status (*plan)(tern_device device, const tern_op_desc* desc, const char* choice, tern_plan* plan,
                      tern_plan_info* info);
  tern_status (*plan_destroy)(tern_plan plan);
  tern_status (*bind)(tern_plan plan, const tern_tensor* args, tern_plane workspace, void* host_scratch,
                      tern_bound* bound);
  tern_status (*launch)(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node);
  tern_status (*unbind)(tern_bound bound);

  /* Whole graphs (TERN_CAP_WHOLE_GRAPH). */
  tern_status (*compile)(tern_device device, const tern_graph_desc* graph, const char* choice, tern_recipe* recipe,
                         tern_plan_info* info);
  tern_status (*launch_recipe)(tern_recipe recipe, const tern_tensor* arguments, tern_plane workspace,
                               const tern_host_args* host_args, tern_stream stream);
  tern_status (*recipe_destroy)(tern_recipe recipe);

  /* Collectives (TERN_CAP_COLLECTIVES). Counts are elements. */
  tern_status (*comm_unique_id)(tern_comm_id* id);
  tern_status (*comm_init)(tern_device device, const tern_comm_id* id, int32_t ranks, int32_t rank, tern_comm* comm);
  tern_status (*all_reduce)(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                            int32_t reduce, tern_stream stream);
  tern_status (*all_gather)(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                            tern_stream stream); /* count: of src */
  tern_status (*reduce_scatter)(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                                int32_t reduce, tern_stream stream); /* count: of dst */
  tern_status (*broadcast)(tern_comm comm, tern_plane data, uint64_t count, tern_dtype dtype, int32_t root,
                           tern_stream stream);
  tern_status (*all_to_all)(tern_comm comm, tern_plane dst, tern_plane src, const uint64_t* send_counts,
                            const uint64_t* receive_counts, tern_dtype dtype, tern_stream stream);
  tern_status (*send)(tern_comm comm, tern_plane src, uint64_t count, tern_dtype dtype, int32_t peer,
                      tern_stream stream);
  tern_status (*receive)(tern_comm comm, tern_plane dst, uint64_t count, tern_dtype dtype, int32_t peer,
                         tern_stream stream);
  tern_status (*group_begin)(tern_comm comm);
  tern_status (*group_end)(tern_comm comm);
  tern_status (*comm_async_error)(tern_comm comm, tern_text reason);
  tern_status (*comm_abort)(tern_comm comm);
  tern_status (*comm_destroy)(tern_comm comm);
} tern_backend;

#if defined(_WIN32)
#define TERN_EXPORT __declspec(dllexport)
#else
#define TERN_EXPORT __attribute__((visibility("default")))
#endif

/* The one exported symbol. `host` outlives the plugin. Null: the plugin refuses this host. */
typedef const tern_backend* (*tern_backend_entry_fn)(const tern_host* host);
TERN_EXPORT const tern_backend* tern_backend_entry(const tern_host* host);

#ifdef __cplusplus
}
#endif
#endif
