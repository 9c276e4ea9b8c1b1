/* The types of tern's accelerator interface: what crosses the border between tern and a backend plugin. C11, alone with
 * <stdint.h>. The functions are in tern/accel.h, the operations in tern/accel_ops.h, and docs/backend-spec.md is the
 * formal contract of all of them. Sizes are bytes unless a name says otherwise.
 *
 * A plugin built against any minor of this major loads. So a struct grows at its end alone: those that begin with their
 * own size are read no further than it by the side that receives them, and what is missing counts as zero. The others
 * may not grow; docs/backend-spec.md lists them, and their reserved members are zero in this version. */
#ifndef TERN_ACCEL_TYPES_H
#define TERN_ACCEL_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ABI_MAJOR 1u /* differs: the host refuses the plugin */
#define TERN_ABI_MINOR 1u /* counts additions: docs/backend-spec.md, section 2 */
#define TERN_MAX_RANK 6
#define TERN_MAX_PLANES 4
#define TERN_MAX_COUNTS 8
#define TERN_CHOICE_BYTES 256

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
  TERN_DTYPE_COUNT = 15,
  /* Reserved: nothing takes these in this version, but they keep their numbers. */
  TERN_F8_E4M3_FNUZ = 15, /* no negative zero, NaN 0x80 */
  TERN_F8_E5M2_FNUZ = 16,
  TERN_I4 = 17, /* two elements a byte, the first in the low half */
  TERN_U4 = 18,
  TERN_F4_E2M1 = 19,
  TERN_E8M0 = 20 /* a power of two: the scale of a block */
};

/* What a product rounds its factors to before it multiplies them; sums are fp32. An op's `compute` attribute. */
typedef int32_t tern_compute;
enum {
  TERN_COMPUTE_F32 = 0, /* fp32 means fp32: no TF32 */
  TERN_COMPUTE_F16 = 1,
  TERN_COMPUTE_BF16 = 2,
  /* Activations as whole numbers of 15 bits beside a scale for each block of 32, by quantised weights as they are
   * stored: dot products of a block are exact in int32. Only matmul_q takes it, where a device says (x15_rows). */
  TERN_COMPUTE_X15 = 3,
  /* The same with 7 bits: a block's numbers are bytes. Only matmul_q takes it, where matmul_rate says so. */
  TERN_COMPUTE_INT8 = 4,
  TERN_COMPUTE_F8 = 5,   /* reserved */
  TERN_COMPUTE_F4 = 6,   /* reserved */
  TERN_COMPUTE_LIMIT = 32
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
  TERN_PACK_GGUF_Q2_K = 8, /* from here on since 1.1 */
  TERN_PACK_GGUF_Q3_K = 9,
  TERN_PACK_GGUF_Q5_K = 10,
  TERN_PACK_GGUF_IQ4_NL = 11,
  TERN_PACK_GGUF_IQ4_XS = 12,
  TERN_PACK_GGUF_MXFP4 = 13, /* blocks of 17 bytes: e8m0, then 32 of e2m1 */
  TERN_PACK_ROW_INT8 = 16,   /* data i8 [n,k], scale [n, k/group_cols] */
  TERN_PACK_AWQ_INT4 = 17,   /* data u32 [k, n/8], scale [k/g, n], zero u32 [k/g, n/8]: (code - zero) scale; columns 0 to 7
                                of a word lie in its nibbles 0 4 1 5 2 6 3 7 */
  TERN_PACK_GPTQ_INT4 = 18,  /* of b bits, 2, 3, 4 or 8: data u32 [k b/32, n], scale [k/g, n], zero u32 [k/g, n b/32],
                                permutation i32 [k] (the row of each input): (code - zero) scale; lowest bits first, and
                                codes of 3 bits across words where they come so */
  TERN_PACK_F8_BLOCK = 19,   /* data f8 [n,k], scale f32 [n/group_rows, k/group_cols] */
  TERN_PACK_NF4 = 20,        /* data u8 [n k/2], the first of two in the high half; a scale for g of all n k: f32, or u8
                                (double quantised): plane 2 f32 [257 + scales/256] has the 256 levels of scales, what is
                                added to each, and the scale of each 256 of them */
  TERN_PACK_MXFP4 = 21,      /* data u8 [n, k/2], scale u8 (e8m0) [n, k/32] */
  TERN_PACK_FP4 = 22         /* bitsandbytes' fp4: as TERN_PACK_NF4, yet of the levels 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6,
                                1/4, then the same below 0. Since 1.1 */
};

typedef struct tern_scheme {
  tern_packing packing;
  int32_t bits;        /* per element of the data plane */
  int32_t group_rows;  /* a scale serves group_rows x group_cols elements; sharding is legal on these borders only */
  int32_t group_cols;
  tern_dtype scale_dtype;
  int32_t flags; /* TERN_SCHEME_* */
  int32_t reserved[2];
} tern_scheme;
enum {
  TERN_SCHEME_DOUBLE_QUANT = 1,
  TERN_SCHEME_IN_ORDER = 2,      /* GPTQ: row i is input i; there is no permutation. Since 1.1 */
  TERN_SCHEME_ZERO_LESS_ONE = 4  /* GPTQ: zero points are stored less one. Since 1.1 */
};

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
 * dynamic_dim >= 0: at launch only the first host_args.counts[count_slot] entries of that dimension are valid; what
 * stands beyond is unspecified (NaN, say) on a device with TERN_CAP_DYNAMIC_SHAPES; else finite, indices in bounds. */
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
  int64_t reserved_tail[2];
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
  TERN_CAP_PHILOX = 1u << 8,         /* dropout draws its own bits; clear: a ready mask must be given */
  TERN_CAP_EAGER = 1u << 9,          /* plan/bind/launch of single ops; clear only beside WHOLE_GRAPH */
  TERN_CAP_HOST_LENGTHS = 1u << 10,  /* lengths are read from host_args alone: the device copy may be left stale */
  TERN_CAP_DEVICE_COUNTS = 1u << 11, /* captured kernels read counts and lengths on the device alone: no update */
  TERN_CAP_EVICT = 1u << 12,         /* buffer_evict and buffer_restore; TERN_BUFFER_RECLAIMABLE */
  TERN_CAP_NATIVE_MEMORY = 1u << 13, /* buffer_native and buffer_adopt */
  TERN_CAP_NATIVE_STREAMS = 1u << 14, /* stream_ and event_, native and adopt */
  TERN_CAP_RECIPE_FILES = 1u << 15,   /* recipe_save and recipe_load; only beside WHOLE_GRAPH */
  TERN_CAP_PROFILE = 1u << 16,        /* profile_start, profile_stop, profile_collect */
  TERN_CAP_COMM_ABORT = 1u << 17      /* comm_abort frees a rank that hangs; clear: the process has to end */
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
  float matmul_rate[TERN_COMPUTE_LIMIT]; /* by tern_compute, relative to F32 = 1; 0: no such products */
  int32_t preferred_kv_block; /* tokens */
  int32_t compute_units;
  int32_t numa_node; /* -1: none */
  char pci_address[32];
  uint64_t peer_mask; /* bit per ordinal reachable by copy_peer */
  char link[32];      /* "pcie", "nvlink", "hccs", "host" */
  tern_dtype activation_dtype; /* what the host keeps activations in unless the user says */
  uint32_t described;          /* 1: a description alone, with no device behind it (device_describe) */
  uint64_t context_bytes;      /* device memory that opening the device takes, about; 0: none */
  uint64_t comm_bytes;         /* device memory that a communicator takes, about */
  int32_t x15_rows; /* since 1.1: products of at most so many rows by quantised weights are best as TERN_COMPUTE_X15; 0:
                       the device has none */
} tern_device_info;

/* A setting of one device for the life of its handle; the table lists the keys. */
typedef struct tern_option {
  const char* key;
  const char* value;
} tern_option;

typedef struct tern_open_args {
  uint32_t size;
  int32_t ordinal;     /* -1: the device that `profile` describes */
  const char* profile; /* one of the table's; null where there is an ordinal */
  const tern_option* options;
  uint32_t num_options;
  uint32_t reserved;
} tern_open_args;

typedef struct tern_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t total;
  uint64_t free;
  uint64_t in_use_by_process; /* every allocation of this process, the library's own included */
  uint64_t peak_by_process;
  uint64_t context_bytes; /* of in_use: what the open device takes by itself (context, code, library handles) */
  uint64_t library_bytes; /* of in_use: what the live plans' library_bytes amount to */
  uint64_t comm_bytes;    /* of in_use: communicators */
} tern_memory_info;

enum { /* buffer_create: what a buffer is for. Where the device cannot: TERN_UNSUPPORTED */
  TERN_BUFFER_SHAREABLE = 1u << 0,   /* ipc_export takes it (TERN_CAP_IPC) */
  TERN_BUFFER_COLLECTIVES = 1u << 1, /* made so that collectives need no staging (TERN_CAP_COLLECTIVES) */
  TERN_BUFFER_RECLAIMABLE = 1u << 2  /* buffer_evict takes it (TERN_CAP_EVICT) */
};

/* A vendor's own object, so that other libraries share memory and order with tern. Whoever made it destroys it. */
typedef struct tern_native {
  uint32_t size;
  int32_t device_type; /* DLPack's DLDeviceType: 1 host, 2 CUDA, 4 OpenCL, 10 ROCm, 12 extension, 14 oneAPI */
  int32_t device_id;   /* as the vendor counts */
  uint32_t reserved;
  uint64_t handle; /* of memory its address, or cl_mem; of streams and events the vendor's handle */
  uint64_t offset; /* bytes from there to the buffer's begin */
} tern_native;

/* One piece of work that ran on the device. Times are those of the host's monotonic clock, as well as they can be told. */
enum { TERN_PROFILE_KERNEL = 0, TERN_PROFILE_COPY = 1, TERN_PROFILE_FILL = 2, TERN_PROFILE_COLLECTIVE = 3, TERN_PROFILE_OTHER = 4 };
typedef struct tern_profile_record {
  char name[96];  /* the kernel's */
  char range[64]; /* the innermost range_push of the thread that queued it, or "" */
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t bytes;  /* of copies, fills and collectives; else 0 */
  uint64_t stream; /* equal for work of one stream */
  uint32_t kind;
  uint32_t reserved;
} tern_profile_record;

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
  uint32_t num_args;    /* what the table has beyond is absent */
  uint32_t attrs_size;  /* what the struct has beyond is zero */
  const tern_tensor_desc* args; /* at their largest shapes, in the op table's order */
  const void* attrs;            /* tern_<op>_attrs */
  const int8_t* alias;          /* per argument: the input whose memory this output shares exactly, or -1 */
  int64_t reserved_tail[2];
} tern_op_desc;

typedef struct tern_plan_options {
  uint32_t size;
  uint32_t reserved;
  const char* choice;       /* as an earlier plan named it: nothing is measured. Null: the device chooses, and may
                               measure once */
  uint64_t workspace_limit; /* bytes: a kernel that needs more is none. 0: no limit */
  int64_t typical_counts[TERN_MAX_COUNTS]; /* of dynamic dimensions, by count_slot: what to be fast at. 0: unknown */
} tern_plan_options;

typedef struct tern_plan_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t workspace_bytes;    /* device memory handed to bind */
  uint64_t host_scratch_bytes; /* host memory handed to bind */
  uint64_t library_bytes;      /* device memory that the vendor library will take by itself */
  char choice[TERN_CHOICE_BYTES]; /* names the kernel; given back to plan, nothing is measured */
} tern_plan_info;

/* Where a planned op, or a recipe, finds its memory. The workspace covers every length within the planned one. */
typedef struct tern_bind_args {
  uint32_t size;
  uint32_t num_args;       /* as planned, or of the graph */
  const tern_tensor* args; /* of the op in its table's order, or of the recipe */
  tern_plane workspace;
  tern_plane counts;  /* TERN_MAX_COUNTS int64, by count_slot: the same numbers as host_args.counts, uploaded by the host
                         before each launch. A null buffer: no dimension is dynamic */
  void* host_scratch;
} tern_bind_args;

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

/* New lengths and counts of one launch in a captured graph. */
typedef struct tern_node_update {
  uint64_t node; /* as launch gave it */
  const tern_host_args* host_args;
} tern_node_update;

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
  const int32_t* inputs;  /* value per argument, -1: none (an argument only written, on memory of its own) */
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
enum { TERN_REDUCE_SUM = 0, TERN_REDUCE_MAX = 1, TERN_REDUCE_MIN = 2, TERN_REDUCE_AVERAGE = 3 };

typedef struct tern_comm_options {
  uint32_t size;
  uint32_t reserved;
  int64_t timeout_ms; /* of the wait for the other ranks; 0: the backend's own */
} tern_comm_options;

typedef struct tern_comm_info {
  uint32_t size;
  int32_t ranks;
  int32_t rank;
  uint32_t reserved;
  uint64_t bytes; /* device memory that it takes */
} tern_comm_info;

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

#ifdef __cplusplus
}
#endif
#endif
